//! Runs commands on both queues and compares.

use std::sync::Arc;
use std::time::Duration;

use headwater_core::{
    Append, Claim, ClaimRequest, DeadLetterQuery, DeadLetterState, Event, EventLog, QueueStore, StartFrom,
    SubscriberConfig, SubscriberError, SubscriberMode, SubscriberStore,
};
use headwater_memory::MemorySubscribers;
use headwater_testing::TestDatabase;
use proptest::test_runner::TestCaseError;
use serde_json::json;
use uuid::Uuid;

use super::command::{Command, Hours, Some_, TYPES, WANTED};

const QUEUE: &str = "work";

type Compared = Result<(), TestCaseError>;

/// One of the two: a log, its subscribers, and their queue.
pub(crate) struct Side {
    pub(crate) log: Arc<dyn EventLog>,
    pub(crate) store: Arc<dyn SubscriberStore>,
}

pub(crate) struct Session<'a> {
    model: Side,
    postgres: Side,
    clock: MemorySubscribers,
    database: &'a TestDatabase,
    /// The claims that were made, by their ids here and there, and the sequences of their events.
    claims: Vec<([Uuid; 2], Vec<u64>)>,
}

/// What can be said of an answer on both sides.
type Answer<T> = Result<T, String>;

fn answer<T>(result: Result<T, SubscriberError>) -> Answer<T> {
    result.map_err(|error| error.code().map_or_else(|| error.to_string(), str::to_owned))
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, model: T, postgres: T) -> Compared {
    match model == postgres {
        true => Ok(()),
        false => Err(TestCaseError::fail(format!("{what}\n  memory:     {model:?}\n  PostgreSQL: {postgres:?}"))),
    }
}

fn hours(hours: Hours) -> Duration {
    Duration::from_secs(3_600 * hours)
}

fn sequences(claim: &Claim) -> Vec<u64> {
    claim.events.iter().filter_map(|event| event.global_sequence).collect()
}

impl Side {
    fn queue(&self) -> Arc<dyn QueueStore> {
        self.store.queue(QUEUE)
    }

    async fn letters(&self) -> Vec<(u64, DeadLetterState, Vec<(String, Vec<String>)>, Option<String>)> {
        use DeadLetterState::*;
        let states = vec![Dead, Parked, Redriving, Redriven, Discarded];
        let letters = self.store.dead_letters(&DeadLetterQuery { states, ..DeadLetterQuery::default() }).await;
        let letters = letters.expect("letters must be listed").into_iter();
        letters
            .map(|letter| {
                let sequence = letter.global_sequence();
                let attempts = letter.attempts.into_iter().map(|attempt| (attempt.node, attempt.errors)).collect();
                (sequence, letter.state, attempts, letter.reason)
            })
            .collect()
    }
}

impl<'a> Session<'a> {
    pub(crate) async fn new(
        model: Side,
        postgres: Side,
        clock: MemorySubscribers,
        database: &'a TestDatabase,
    ) -> Session<'a> {
        for side in [&model, &postgres] {
            let (start_from, mode) = (StartFrom::Beginning, SubscriberMode::Shared);
            let config = SubscriberConfig::new(QUEUE, start_from, mode);
            side.store.register(&config).await.expect("this registration must pass");
        }
        Session { model, postgres, clock, database, claims: Vec::new() }
    }

    pub(crate) async fn run(&mut self, commands: &[Command]) -> Compared {
        for command in commands {
            self.step(command).await?;
            same("dead letters", self.model.letters().await, self.postgres.letters().await)?;
        }
        self.drain().await
    }

    async fn step(&mut self, command: &Command) -> Compared {
        let what = format!("{command:?}");
        match command {
            Command::Append(types) => {
                let events: Vec<Event> = types.iter().map(|it| Event::raw(TYPES[*it], json!({}))).collect();
                for side in [&self.model, &self.postgres] {
                    let append = events.iter().cloned().fold(Append::new(), Append::event);
                    side.log.append(append).await.expect("this append must pass");
                }
                Ok(())
            }
            Command::Claim { worker, max_events, per_claim, wanted, max_attempts, visibility, acks } => {
                let acks: Vec<[Uuid; 2]> = acks.iter().filter_map(|ack| self.claim(*ack)).map(|(ids, _)| ids).collect();
                let request = ClaimRequest {
                    max_events: *max_events,
                    per_claim: *per_claim,
                    visibility: hours(*visibility),
                    event_types: WANTED[*wanted].iter().map(|event_type| (*event_type).to_owned()).collect(),
                    max_attempts: *max_attempts,
                    ..ClaimRequest::new(format!("worker-{worker}"))
                };
                self.claim_on_both(&what, request, &acks).await.map(drop)
            }
            Command::Ack(claim, some) => {
                let Some(([here, there], some)) = self.some_of(*claim, some) else { return Ok(()) };
                let model = self.model.queue().ack(here, some.as_deref()).await;
                same(&what, answer(model), answer(self.postgres.queue().ack(there, some.as_deref()).await))
            }
            Command::Nack(claim, some, delay) => {
                let Some(([here, there], some)) = self.some_of(*claim, some) else { return Ok(()) };
                let delay = hours(*delay);
                let model = self.model.queue().nack(here, some.as_deref(), delay, "no").await;
                let postgres = self.postgres.queue().nack(there, some.as_deref(), delay, "no").await;
                same(&what, answer(model), answer(postgres))
            }
            Command::Reject(claim, some) => {
                let Some(([here, there], some)) = self.some_of(*claim, some) else { return Ok(()) };
                let model = self.model.queue().reject(here, some.as_deref(), "never").await;
                same(&what, answer(model), answer(self.postgres.queue().reject(there, some.as_deref(), "never").await))
            }
            Command::Release(claim, some) => {
                let Some(([here, there], some)) = self.some_of(*claim, some) else { return Ok(()) };
                let model = self.model.queue().release(here, some.as_deref()).await;
                same(&what, answer(model), answer(self.postgres.queue().release(there, some.as_deref()).await))
            }
            Command::Extend(claim, by) => {
                let Some(([here, there], _)) = self.claim(*claim) else { return Ok(()) };
                let model = self.model.queue().extend(here, hours(*by)).await.map(drop);
                let postgres = self.postgres.queue().extend(there, hours(*by)).await.map(drop);
                same(&what, answer(model), answer(postgres))
            }
            Command::Pass(by) => {
                self.pass(hours(*by)).await;
                Ok(())
            }
            Command::Pause(paused) => self.on_both(&what, async |store| store.set_paused(QUEUE, *paused).await).await,
            Command::Redrive => {
                let all = DeadLetterQuery { subscriber_id: Some(QUEUE.into()), ..DeadLetterQuery::default() };
                self.on_both(&what, async |store| store.redrive(&all).await).await
            }
            Command::Discard(sequence) => {
                let one = DeadLetterQuery { global_sequence: Some(*sequence), ..DeadLetterQuery::default() };
                self.on_both(&what, async |store| store.discard(&one, "no use").await).await
            }
            Command::Reset(position) => {
                // PostgreSQL refuses what its log does not have yet.
                let head = self.model.log.horizon().await.expect("the model can be read").horizon;
                let position = (*position).min(head);
                self.on_both(&what, async |store| store.reset(QUEUE, position).await).await
            }
        }
    }

    async fn on_both<T: PartialEq + std::fmt::Debug>(
        &self,
        what: &str,
        call: impl AsyncFn(&dyn SubscriberStore) -> Result<T, SubscriberError>,
    ) -> Compared {
        same(what, answer(call(&*self.model.store).await), answer(call(&*self.postgres.store).await))
    }

    async fn pass(&self, by: Duration) {
        self.clock.advance_clock(by);
        self.database.pass(self.postgres.log.namespace(), by).await;
    }

    async fn claim_on_both(
        &mut self,
        what: &str,
        request: ClaimRequest,
        acks: &[[Uuid; 2]],
    ) -> Result<Vec<[Uuid; 2]>, TestCaseError> {
        let claim = async |side: &Side, ids: Vec<Uuid>| {
            answer(side.queue().claim(&ClaimRequest { acks: ids, ..request.clone() }).await)
        };
        let model = claim(&self.model, acks.iter().map(|[here, _]| *here).collect()).await;
        let postgres = claim(&self.postgres, acks.iter().map(|[_, there]| *there).collect()).await;
        let brief = |claims: &Answer<Vec<Claim>>| {
            let claims = claims.as_ref().map_err(Clone::clone)?;
            Ok::<_, String>(claims.iter().map(|it| (sequences(it), it.redelivery_count)).collect::<Vec<_>>())
        };
        same(what, brief(&model), brief(&postgres))?;
        let pairs = model.unwrap_or_default().into_iter().zip(postgres.unwrap_or_default());
        let made: Vec<_> = pairs.map(|(here, there)| ([here.claim_id, there.claim_id], sequences(&here))).collect();
        let ids = made.iter().map(|(ids, _)| *ids).collect();
        self.claims.extend(made);
        Ok(ids)
    }

    /// Nothing is left, and all of it is settled.
    async fn drain(&mut self) -> Compared {
        for side in [&self.model, &self.postgres] {
            side.store.set_paused(QUEUE, false).await.expect("it can be resumed");
        }
        self.pass(hours(100)).await;
        for number in 0.. {
            let request = ClaimRequest { max_events: 6, ..ClaimRequest::new(format!("last-{number}")) };
            let claims = self.claim_on_both("the last claims", request, &[]).await?;
            for [here, there] in &claims {
                self.model.queue().ack(*here, None).await.expect("an ack must pass");
                self.postgres.queue().ack(*there, None).await.expect("an ack must pass");
            }
            if claims.is_empty() {
                break;
            }
        }
        same("dead letters", self.model.letters().await, self.postgres.letters().await)?;
        let position = async |store: &dyn SubscriberStore| store.position(QUEUE).await.map(|there| there.position);
        let end = self.model.log.horizon().await.expect("the model can be read").horizon;
        same("the end", end, position(&*self.model.store).await.expect("it is there"))?;
        self.on_both("the position", position).await?;
        let audit = self.postgres.store.audit(&[]).await.expect("an audit must pass");
        same("findings", Vec::new(), audit.findings)
    }

    fn claim(&self, earlier: usize) -> Option<([Uuid; 2], Vec<u64>)> {
        self.claims.get(earlier.checked_rem(self.claims.len())?).cloned()
    }

    fn some_of(&self, earlier: usize, some: &Some_) -> Option<([Uuid; 2], Option<Vec<u64>>)> {
        let (ids, sequences) = self.claim(earlier)?;
        let some = some.as_ref().map(|some| some.iter().map(|place| sequences[place % sequences.len()]).collect());
        Some((ids, some))
    }
}
