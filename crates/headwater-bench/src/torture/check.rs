//! The laws, checked against what the log holds and what consumers wrote down.
//!
//! Order is checked on first deliveries. Every instance begins at or before the checkpoint and
//! continues in order. So when any instance handles an event for the first time (the owner, or an
//! instance that was replaced and does not know it yet), all earlier events have already begun. An
//! event is late if its first delivery began after that of a later event. That is allowed only if
//! its gap was passed.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use uuid::Uuid;

use super::faults::Fault;
use super::line::{Line, Mark};
use super::losses::Losses;
use super::producers::{Fate, Told};
use super::subscribers::Subscriber;

/// Tolerance for comparing times. The commit time is read before the commit becomes visible, and
/// the recorded time after the sequence was taken.
const SLACK: Duration = Duration::from_millis(100);
/// Number of violations of one kind that are printed in full.
const SPELLED_OUT: usize = 4;

/// An event of the log.
#[derive(Debug, Clone)]
pub(crate) struct Logged {
    pub(crate) id: Uuid,
    pub(crate) stream: Option<String>,
    pub(crate) version: Option<u64>,
    pub(crate) key: Option<String>,
    /// Whether the event is for every node.
    pub(crate) broadcast: bool,
    pub(crate) recorded_ns: u64,
    pub(crate) committed_ns: u64,
}

impl Logged {
    fn order_key(&self) -> Option<&str> {
        self.key.as_deref().or(self.stream.as_deref())
    }

    fn open_for(&self) -> Duration {
        Duration::from_nanos(self.committed_ns.saturating_sub(self.recorded_ns))
    }
}

/// The log, by sequence.
pub(crate) type Log = BTreeMap<u64, Logged>;

/// The counts of one subscriber.
#[derive(Debug, Default, Clone, serde::Serialize)]
pub(crate) struct Tally {
    /// Different events that were handled.
    pub(crate) handled: u64,
    /// Events handled more than once.
    pub(crate) duplicates: u64,
    pub(crate) failures: u64,
    pub(crate) dead_letters: u64,
    /// Events that were overtaken: their gaps were passed.
    pub(crate) late: u64,
    /// Late events whose writer was open for a shorter time than the subscriber waits. Their gaps
    /// were passed during a fault, when the writer was not known.
    pub(crate) passed_in_ignorance: u64,
    /// Events that were begun and that the server lost afterwards.
    pub(crate) lost_by_the_server: u64,
}

/// Violations of the laws.
#[derive(Debug, Default)]
pub(crate) struct Violations(BTreeMap<(&'static str, &'static str), Vec<String>>);

impl Violations {
    pub(crate) fn add(&mut self, law: &'static str, detail: String) {
        self.add_of(law, "", detail);
    }

    fn add_of(&mut self, law: &'static str, subscriber: &'static str, detail: String) {
        self.0.entry((law, subscriber)).or_default().push(detail);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns all violations, with a limit per kind.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for ((law, subscriber), details) in &self.0 {
            let name = [*law, *subscriber].join(" ");
            let name = name.trim_end();
            lines.extend(details.iter().take(SPELLED_OUT).map(|detail| format!("{name}: {detail}")));
            if details.len() > SPELLED_OUT {
                lines.push(format!("{name}: and {} more", details.len() - SPELLED_OUT));
            }
        }
        lines
    }
}

/// Checks that the log holds what producers were told, except what the server may have lost. Also
/// checks that streams count from 1 without a hole. Returns how many events the server lost.
pub(crate) fn check_log(log: &Log, told: &[Told], losses: &Losses, violations: &mut Violations) -> u64 {
    let ids: HashMap<Uuid, u64> = log.iter().map(|(sequence, event)| (event.id, *sequence)).collect();
    let mut lost = 0;
    for Told { id, fate, ns } in told {
        match (fate, ids.get(id)) {
            (Fate::Committed, None) if losses.may_lack(*ns) => lost += 1,
            (Fate::Committed, None) => {
                violations.add("acknowledged but not in the log", format!("event {id}, acknowledged at {ns} ns"));
            }
            (Fate::RolledBack, Some(sequence)) => {
                violations.add("rolled back but in the log", format!("event {id}, global_sequence {sequence}"));
            }
            _ => {}
        }
    }
    let mut versions: HashMap<&str, u64> = HashMap::new();
    for (sequence, event) in log {
        let (Some(stream), Some(version)) = (&event.stream, event.version) else { continue };
        let last = versions.entry(stream).or_default();
        if version != *last + 1 {
            violations
                .add("stream versions", format!("{stream}: {version} follows {last} at global_sequence {sequence}"));
        }
        *last = version;
    }
    lost
}

/// All that is known of one subscriber.
pub(crate) struct Evidence<'a> {
    pub(crate) subscriber: Subscriber,
    /// The node, if each node has its own subscriber of this kind.
    pub(crate) node: Option<&'a str>,
    pub(crate) log: &'a Log,
    /// The lines of all consumers, by instance, in the order in which each instance wrote them.
    pub(crate) books: &'a [Vec<Line>],
    /// The events of its dead letters.
    pub(crate) dead: &'a HashSet<Uuid>,
    /// The number of effects of each event, for a transactional subscriber.
    pub(crate) effects: Option<&'a HashMap<Uuid, u64>>,
    pub(crate) told: &'a HashMap<Uuid, Fate>,
    pub(crate) faults: &'a [Fault],
    pub(crate) losses: &'a Losses,
    /// Whether the server's clock is also the consumers' clock. If not, its times prove nothing.
    pub(crate) one_clock: bool,
}

impl Evidence<'_> {
    fn is_mine(&self, line: &Line) -> bool {
        let node = |line: &Line| line.instance.rsplit_once('.').map(|(node, _)| node.to_owned());
        line.subscriber == self.subscriber.id() && (self.node.is_none() || node(line).as_deref() == self.node)
    }

    fn lines(&self) -> impl Iterator<Item = &Line> {
        self.books.iter().flatten().filter(|line| self.is_mine(line))
    }

    /// Whether the log still holds the event of this line.
    fn is_logged(&self, line: &Line) -> bool {
        self.log.get(&line.sequence).is_some_and(|event| event.id == line.event)
    }

    /// The events that this subscriber must get.
    fn meant(&self) -> impl Iterator<Item = (&u64, &Logged)> {
        self.log.iter().filter(|(_, event)| event.broadcast || self.subscriber != Subscriber::Broadcast)
    }

    /// Checks all laws for this subscriber.
    pub(crate) fn check(&self, violations: &mut Violations) -> Tally {
        let mut tally = Tally { dead_letters: self.dead.len() as u64, ..Tally::default() };
        let mut first: HashMap<u64, &Line> = HashMap::new();
        let mut handled: HashMap<u64, Vec<&Line>> = HashMap::new();
        let mut lost = HashSet::new();
        for line in self.lines() {
            if !self.is_logged(line) {
                self.judge_unlogged(line, &mut lost, violations);
                continue;
            }
            let begun = first.entry(line.sequence).or_insert(line);
            if line.ns < begun.ns {
                *begun = line;
            }
            match line.mark {
                Mark::Begun => {}
                Mark::Handled => handled.entry(line.sequence).or_default().push(line),
                Mark::Failed => tally.failures += 1,
            }
        }
        (tally.handled, tally.lost_by_the_server) = (handled.len() as u64, lost.len() as u64);
        self.check_loss(&handled, violations);
        self.check_order(&first, &mut tally, violations);
        self.check_one_at_a_time(violations);
        self.check_duplicates(&mut handled, &mut tally, violations);
        self.check_effects(violations);
        self.check_failures(&handled, violations);
        tally
    }

    fn broken(&self, violations: &mut Violations, law: &'static str, detail: String) {
        violations.add_of(law, self.subscriber.id(), detail);
    }

    /// Judges a line whose event is not in the log. Only committed events may be handled. If the
    /// server lost the event later, consumers may handle it only for a short time.
    fn judge_unlogged(&self, line: &Line, lost: &mut HashSet<Uuid>, violations: &mut Violations) {
        match self.told.get(&line.event) {
            Some(Fate::Committed | Fate::Unknown) if self.losses.may_be_handled(line.ns) => _ = lost.insert(line.event),
            Some(Fate::Committed | Fate::Unknown) if !self.losses.is_empty() => {
                self.broken(violations, "handled long after the server lost it", line.to_string());
            }
            _ => self.broken(violations, "handled but never committed", line.to_string()),
        }
    }

    fn check_loss(&self, handled: &HashMap<u64, Vec<&Line>>, violations: &mut Violations) {
        for (sequence, event) in self.meant() {
            if !handled.contains_key(sequence) && !self.dead.contains(&event.id) {
                let open = event.open_for();
                let detail =
                    format!("global_sequence {sequence}, event {}, its writer was open for {open:?}", event.id);
                self.broken(violations, "LOST", detail);
            }
        }
    }

    fn check_order(&self, first: &HashMap<u64, &Line>, tally: &mut Tally, violations: &mut Violations) {
        // Go from the end of the log to its start. Keep the earliest delivery of any later event:
        // per stream, and per order (the key, or the whole log for a subscriber that is not ordered
        // by key).
        let (mut of_stream, mut of_order) = (HashMap::new(), HashMap::new());
        for (sequence, event) in self.log.iter().rev() {
            let Some(begun) = first.get(sequence).copied() else { continue };
            if self.subscriber.is_unordered() {
                continue;
            }
            if let Some(stream) = event.stream.as_deref()
                && let Some(by) = overtaken(&mut of_stream, stream, begun)
            {
                let detail = format!("{stream}: {begun} after {by}; its writer was open for {:?}", event.open_for());
                self.broken(violations, "ORDER OF A STREAM", detail);
            }
            let order = if self.subscriber.is_by_key() { event.order_key() } else { Some("") };
            if let Some(by) = order.and_then(|order| overtaken(&mut of_order, order, begun)) {
                tally.late += 1;
                self.judge_late(event, begun, by, tally, violations);
            }
        }
    }

    fn judge_late(&self, event: &Logged, late: &Line, by: &Line, tally: &mut Tally, violations: &mut Violations) {
        let hold_for = self.subscriber.hold_for();
        let detail = || {
            format!(
                "{late} after {by}; its writer was open for {:?}, recorded at {} ns, committed at {} ns",
                event.open_for(),
                event.recorded_ns,
                event.committed_ns
            )
        };
        if hold_for == Duration::MAX {
            self.broken(violations, "STRICT ORDER", detail());
        } else if self.one_clock && event.open_for() + SLACK < hold_for {
            if self.during_a_fault(event.recorded_ns, by.ns) {
                tally.passed_in_ignorance += 1;
            } else {
                self.broken(violations, "ORDER", detail());
            }
        }
    }

    fn during_a_fault(&self, from_ns: u64, until_ns: u64) -> bool {
        self.faults.iter().any(|fault| fault.from_ns <= until_ns && from_ns <= fault.until_ns)
    }

    /// Checks that an instance does not begin an event while it handles an earlier one (with the
    /// same key, if it handles keys side by side). Events that it had to drop begin again at the
    /// checkpoint, thus with the same or an earlier event.
    fn check_one_at_a_time(&self, violations: &mut Violations) {
        if self.subscriber.is_unordered() {
            return;
        }
        for book in self.books {
            let mut open: HashMap<&str, &Line> = HashMap::new();
            for line in book.iter().filter(|line| self.is_mine(line)) {
                let key = match self.subscriber.is_by_key() {
                    true if line.key == "-" => continue,
                    true => line.key.as_str(),
                    false => "",
                };
                match line.mark {
                    Mark::Begun => {
                        if let Some(other) = open.insert(key, line).filter(|other| other.sequence < line.sequence)
                            && !self.during_a_fault(other.ns, line.ns)
                        {
                            self.broken(violations, "ONE AT A TIME", format!("{line} while {other} was not done"));
                        }
                    }
                    Mark::Handled | Mark::Failed => {
                        open.remove(key);
                    }
                }
            }
        }
    }

    fn check_duplicates(&self, handled: &mut HashMap<u64, Vec<&Line>>, tally: &mut Tally, violations: &mut Violations) {
        for lines in handled.values_mut().filter(|lines| lines.len() > 1) {
            tally.duplicates += 1;
            lines.sort_by_key(|line| line.ns);
            for pair in lines.windows(2) {
                if !self.during_a_fault(pair[0].ns, pair[1].ns) {
                    self.broken(violations, "TWICE WITHOUT A FAULT", format!("{} and {}", pair[0], pair[1]));
                }
            }
        }
        // With a checkpoint after each event, a fault repeats at most two events: the current one
        // of the owner, and the current one of an instance that was replaced. A server that loses
        // the end of its log loses checkpoints, too.
        if self.subscriber == Subscriber::Synchronous
            && self.losses.is_empty()
            && tally.duplicates > 2 * self.faults.len() as u64
        {
            let detail = format!("{} events twice in {} faults", tally.duplicates, self.faults.len());
            self.broken(violations, "TWICE TOO OFTEN", detail);
        }
    }

    fn check_effects(&self, violations: &mut Violations) {
        let Some(effects) = self.effects else { return };
        for (sequence, event) in self.log {
            let count = effects.get(&event.id).copied().unwrap_or_default();
            let expected = u64::from(!self.dead.contains(&event.id));
            if count != expected {
                self.broken(
                    violations,
                    "EFFECTS",
                    format!("global_sequence {sequence} has {count} effects instead of {expected}"),
                );
            }
        }
        let logged: HashSet<Uuid> = self.log.values().map(|event| event.id).collect();
        for event in effects.keys().filter(|event| !logged.contains(event)) {
            self.broken(violations, "EFFECTS", format!("event {event} has an effect and is not in the log"));
        }
    }

    fn check_failures(&self, handled: &HashMap<u64, Vec<&Line>>, violations: &mut Violations) {
        let failed: HashSet<Uuid> =
            self.lines().filter(|line| line.mark == Mark::Failed).map(|line| line.event).collect();
        let logged: HashSet<Uuid> = self.log.values().map(|event| event.id).collect();
        let may_fail = self.subscriber == Subscriber::Failing || self.subscriber.fails_with_the_database();
        for event in self.dead {
            if !may_fail || self.subscriber == Subscriber::Failing && !failed.contains(event) {
                self.broken(violations, "dead letter without a failure", format!("event {event}"));
            }
            if !logged.contains(event) {
                self.broken(violations, "dead letter of no event", format!("event {event}"));
            }
        }
        for (sequence, event) in self.log.iter().filter(|(sequence, _)| self.subscriber.always_fails(**sequence)) {
            if !self.dead.contains(&event.id) {
                self.broken(violations, "no dead letter", format!("global_sequence {sequence} always fails"));
            }
            if handled.contains_key(sequence) {
                self.broken(violations, "handled what fails", format!("global_sequence {sequence}"));
            }
        }
    }
}

/// Returns the earliest delivery so far, if it was before this one.
fn overtaken<'a>(earliest: &mut HashMap<&'a str, &'a Line>, order: &'a str, line: &'a Line) -> Option<&'a Line> {
    let kept = earliest.entry(order).or_insert(line);
    let by = *kept;
    if line.ns < by.ns {
        *kept = line;
    }
    (by.ns < line.ns).then_some(by)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn logged(stream: Option<&str>, key: Option<&str>, open_seconds: u64) -> Logged {
        Logged {
            id: Uuid::now_v7(),
            stream: stream.map(Into::into),
            version: None,
            key: key.map(Into::into),
            broadcast: true,
            recorded_ns: SECOND,
            committed_ns: SECOND + open_seconds * SECOND,
        }
    }

    /// The id of an event that is not in the log.
    const UNLOGGED: Uuid = Uuid::nil();

    /// Returns the laws that are broken when the events are handled in this order.
    fn broken(subscriber: Subscriber, log: &Log, order: &[u64], faults: &[Fault]) -> Vec<&'static str> {
        broken_with_losses(subscriber, log, order, faults, &Losses::default())
    }

    fn broken_with_losses(
        subscriber: Subscriber,
        log: &Log,
        order: &[u64],
        faults: &[Fault],
        losses: &Losses,
    ) -> Vec<&'static str> {
        let handle = |(at, sequence): (usize, &u64)| {
            let ns = (at as u64 + 1) * 10 * SECOND;
            let event = log.get(sequence).map_or(UNLOGGED, |event| event.id);
            [(Mark::Begun, ns), (Mark::Handled, ns + 1)].map(|(mark, ns)| Line {
                mark,
                subscriber: subscriber.id().into(),
                instance: "node.1".into(),
                sequence: *sequence,
                event,
                key: "-".into(),
                ns,
            })
        };
        let books = [order.iter().enumerate().flat_map(handle).collect()];
        let (mut violations, dead) = (Violations::default(), HashSet::new());
        let told = HashMap::from([(UNLOGGED, if losses.is_empty() { Fate::RolledBack } else { Fate::Committed })]);
        let evidence = Evidence {
            subscriber,
            node: Some("node"),
            log,
            books: &books,
            dead: &dead,
            effects: None,
            told: &told,
            faults,
            losses,
            one_clock: true,
        };
        evidence.check(&mut violations);
        violations.0.into_keys().map(|(law, _)| law).collect()
    }

    fn three(open_seconds: u64) -> Log {
        (1..=3).map(|sequence| (sequence, logged(None, None, if sequence == 2 { open_seconds } else { 0 }))).collect()
    }

    #[test]
    fn all_in_order_breaks_nothing() {
        for subscriber in super::super::subscribers::ALL {
            assert_eq!(broken(subscriber, &three(0), &[1, 2, 3], &[]), [""; 0]);
        }
    }

    #[test]
    fn what_is_lost_or_was_never_there_is_found() {
        assert_eq!(broken(Subscriber::Strict, &three(0), &[1, 3], &[]), ["LOST"]);
        assert_eq!(broken(Subscriber::Strict, &three(0), &[1, 2, 3, 4], &[]), ["handled but never committed"]);
    }

    #[test]
    fn what_the_server_lost_may_be_handled_for_a_moment_only() {
        let losses = Losses::default();
        losses.add(super::super::losses::Window { from_ns: 35 * SECOND, until_ns: 38 * SECOND });
        let broken = |order: &[u64]| broken_with_losses(Subscriber::Strict, &three(0), order, &[], &losses);
        assert_eq!(broken(&[1, 2, 3, 4]), [""; 0]);
        assert_eq!(broken(&[1, 2, 3, 4, 3, 3, 4]), ["TWICE WITHOUT A FAULT", "handled long after the server lost it"]);
    }

    #[test]
    fn only_a_gap_that_was_long_enough_may_be_passed() {
        assert_eq!(broken(Subscriber::Synchronous, &three(6), &[1, 3, 2], &[]), [""; 0]);
        assert_eq!(broken(Subscriber::Synchronous, &three(1), &[1, 3, 2], &[]), ["ORDER"]);
        assert_eq!(broken(Subscriber::Eager, &three(0), &[1, 3, 2], &[]), [""; 0]);
        assert_eq!(broken(Subscriber::Strict, &three(6), &[1, 3, 2], &[]), ["STRICT ORDER"]);
    }

    #[test]
    fn a_stream_is_never_out_of_order() {
        let log: Log = (1..=3).map(|sequence| (sequence, logged(Some("order-1"), None, 10))).collect();
        assert_eq!(broken(Subscriber::Eager, &log, &[1, 3, 2], &[]), ["ORDER OF A STREAM"]);
    }

    #[test]
    fn keys_stand_in_an_order_of_their_own() {
        let keys = ["a", "b", "a"];
        let log: Log = (1..=3).map(|sequence| (sequence, logged(None, Some(keys[sequence as usize - 1]), 0))).collect();
        assert_eq!(broken(Subscriber::Keyed, &log, &[2, 1, 3], &[]), [""; 0]);
        assert_eq!(broken(Subscriber::Keyed, &log, &[3, 2, 1], &[]), ["ORDER"]);
    }

    #[test]
    fn twice_needs_a_fault() {
        let fault = Fault {
            kind: super::super::faults::Kind::Kill,
            target: "node.1".into(),
            from_ns: 20 * SECOND,
            until_ns: 25 * SECOND,
        };
        assert_eq!(broken(Subscriber::Batched, &three(0), &[1, 2, 2, 3], &[]), ["TWICE WITHOUT A FAULT"]);
        assert_eq!(broken(Subscriber::Batched, &three(0), &[1, 2, 2, 3], &[fault]), [""; 0]);
    }
}
