//! The dead letters of one subscriber.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use headwater_core::DeadLetterState::{Dead, Discarded, Parked, Redriven, Redriving};
use headwater_core::{Attempt, DeadLetter, DeadLetterQuery, DeadLetterState};
use uuid::Uuid;

/// The letters, by global_sequence and id.
#[derive(Debug, Default)]
pub(super) struct DeadLetters {
    letters: BTreeMap<(u64, Uuid), DeadLetter>,
    /// The term in which the subscriber's owner last wrote each letter.
    written_in: BTreeMap<(u64, Uuid), u64>,
}

/// Whether later events of the letter's key wait.
fn is_parking(letter: &DeadLetter) -> bool {
    is_unfinished(letter) && (letter.parks_key || letter.state == Parked)
}

fn is_unfinished(letter: &DeadLetter) -> bool {
    matches!(letter.state, Dead | Parked | Redriving)
}

fn matches(query: &DeadLetterQuery, letter: &DeadLetter) -> bool {
    fn is<T: PartialEq<U> + ?Sized, U>(wanted: &Option<U>, found: &T) -> bool {
        wanted.as_ref().is_none_or(|wanted| *found == *wanted)
    }
    let in_states = if query.states.is_empty() { is_unfinished(letter) } else { query.states.contains(&letter.state) };
    in_states
        && is(&query.subscriber_id, &letter.subscriber_id)
        && is(&query.global_sequence, &letter.global_sequence())
        && is(&query.event_type, &letter.event.event_type)
        && is(&query.order_key, &letter.order_key)
        && query.error_contains.as_ref().is_none_or(|text| letter.error().contains(text))
        && letter.global_sequence() > query.after
}

fn enter(letter: &mut DeadLetter, state: DeadLetterState, now: DateTime<Utc>) {
    (letter.state, letter.updated_at) = (state, now);
}

impl DeadLetters {
    pub(super) fn bury(&mut self, subscriber_id: &str, given: &DeadLetter, term: u64, now: DateTime<Utc>) {
        let place = (given.global_sequence(), given.event.id);
        self.written_in.insert(place, term);
        let Some(letter) = self.letters.get_mut(&place) else {
            let letter = DeadLetter { subscriber_id: subscriber_id.to_owned(), ..given.clone() };
            self.letters.insert(place, letter);
            return;
        };
        // The same call may come again if its answer was lost.
        let new: Vec<_> = given.attempts.iter().filter(|attempt| !letter.attempts.contains(attempt)).cloned().collect();
        letter.attempts.extend(new);
        // An event that comes again after a crash finds its key parked by its own letter. It must
        // not wait behind itself.
        if given.state != Parked || !is_unfinished(letter) {
            (letter.parks_key, letter.reason) = (given.parks_key, None);
            enter(letter, given.state, now);
        }
    }

    /// The letters to deliver again, in order.
    pub(super) fn redrives(&self) -> impl Iterator<Item = &DeadLetter> {
        let mut blocked = BTreeSet::new();
        self.letters.values().filter(move |letter| match letter.state {
            Redriving => true,
            Parked => blocked.insert(&letter.order_key),
            Dead => {
                blocked.insert(&letter.order_key);
                false
            }
            Redriven | Discarded => false,
        })
    }

    /// Records how the redelivery of a letter by a queue ended. If the letter was discarded, or failed
    /// in another claim, in the meantime, it stays so.
    pub(super) fn redelivered(
        &mut self,
        global_sequence: u64,
        failure: Option<Attempt>,
        term: u64,
        now: DateTime<Utc>,
    ) {
        if self.is_redriving(global_sequence) {
            self.redriven(global_sequence, failure, term, now);
        }
    }

    /// Whether somebody asked to deliver the letter of an event again.
    pub(super) fn is_redriving(&self, global_sequence: u64) -> bool {
        let place = (global_sequence, Uuid::nil())..=(global_sequence, Uuid::max());
        self.letters.range(place).any(|(_, letter)| letter.state == Redriving)
    }

    /// The letters that somebody asked to deliver again.
    pub(super) fn redriving(&self) -> impl Iterator<Item = &DeadLetter> {
        self.letters.values().filter(|letter| letter.state == Redriving)
    }

    pub(super) fn redriven(&mut self, global_sequence: u64, failure: Option<Attempt>, term: u64, now: DateTime<Utc>) {
        let place = (global_sequence, Uuid::nil())..=(global_sequence, Uuid::max());
        let found = self.letters.range_mut(place).find(|(_, letter)| is_unfinished(letter));
        let Some((place, letter)) = found else { return };
        self.written_in.insert(*place, term);
        let Some(failure) = failure else { return enter(letter, Redriven, now) };
        if !letter.attempts.contains(&failure) {
            letter.attempts.push(failure);
        }
        letter.parks_key |= letter.state == Parked;
        enter(letter, Dead, now);
        if letter.parks_key {
            // The letters that were redriven with it wait behind it again.
            let order_key = letter.order_key.clone();
            let behind = self.letters.range_mut((global_sequence + 1, Uuid::nil())..).map(|(_, letter)| letter);
            let waiting = behind.filter(|letter| letter.order_key == order_key && letter.state == Redriving);
            waiting.for_each(|letter| enter(letter, Parked, now));
        }
    }

    /// All letters in any state, except those that were handled before this term.
    pub(super) fn since(&self, term: u64) -> impl Iterator<Item = (u64, Option<Uuid>)> {
        let is_past =
            move |place: &(u64, Uuid)| self.written_in.get(place).is_some_and(|written_in| *written_in < term);
        let all = self.letters.iter();
        all.filter(move |(place, letter)| letter.state != Redriven || !is_past(place))
            .map(|((sequence, id), _)| (*sequence, Some(*id)))
    }

    /// The keys whose events wait.
    pub(super) fn parked_keys(&self) -> BTreeSet<&str> {
        self.letters.values().filter(|letter| is_parking(letter)).map(|letter| letter.order_key.as_str()).collect()
    }

    pub(super) fn is_parked(&self, order_key: &str) -> bool {
        self.letters.values().any(|letter| is_parking(letter) && letter.order_key == order_key)
    }

    pub(super) fn unfinished(&self) -> u64 {
        self.letters.values().filter(|letter| is_unfinished(letter)).count() as u64
    }

    pub(super) fn matching(&self, query: &DeadLetterQuery) -> impl Iterator<Item = &DeadLetter> {
        self.letters.values().filter(move |letter| matches(query, letter))
    }

    /// Redrives the selected letters. If one has a parked key, all letters of that key go too, in
    /// order.
    pub(super) fn redrive(&mut self, query: &DeadLetterQuery, now: DateTime<Utc>) -> u64 {
        let waits = |letter: &DeadLetter| matches!(letter.state, Dead | Parked);
        let is_asked_for = |letter: &DeadLetter| waits(letter) && matches(query, letter);
        let parking = self.letters.values().filter(|letter| letter.parks_key || letter.state == Parked);
        let keys: BTreeSet<_> = parking.filter(|it| is_asked_for(it)).map(|letter| letter.order_key.clone()).collect();
        let goes = |letter: &DeadLetter| is_asked_for(letter) || (waits(letter) && keys.contains(&letter.order_key));
        let going = self.letters.values_mut().filter(|letter| goes(letter));
        going
            .map(|letter| {
                // A letter that was parked belongs to a parked key, even if it fails later itself.
                letter.parks_key |= letter.state == Parked;
                enter(letter, Redriving, now);
            })
            .count() as u64
    }

    pub(super) fn discard(&mut self, query: &DeadLetterQuery, reason: &str, now: DateTime<Utc>) -> u64 {
        let asked_for = self.letters.values_mut().filter(|letter| is_unfinished(letter) && matches(query, letter));
        asked_for
            .map(|letter| {
                enter(letter, Discarded, now);
                letter.reason = Some(reason.to_owned());
            })
            .count() as u64
    }
}
