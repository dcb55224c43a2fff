//! The gate, progress and late events against a model: writers that take sequences and end in any
//! order, a reader that looks at any moment, and a consumer that may crash between handling and
//! checkpoint.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use headwater_core::{Admitted, Advance, Event, Gaps, Gate, Late, Progress, RecordedEvent, Segment};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

#[derive(Debug, Clone)]
enum Step {
    /// A writer takes so many sequences, in its open transaction or in a new one.
    Take {
        writer: usize,
        count: u64,
    },
    Commit {
        writer: usize,
    },
    Abort {
        writer: usize,
    },
    Wait {
        millis: u64,
    },
    /// The reader looks for at most `limit` events. Its proof may be older by `unproved` sequences.
    Look {
        limit: usize,
        unproved: u64,
    },
    /// The consumer handles one of the events under way.
    Handle {
        pick: usize,
    },
    HandleLate {
        pick: usize,
    },
    Write,
    Crash,
}

fn step(crashes: bool) -> impl Strategy<Value = Step> {
    let writer = 0..5usize;
    prop_oneof![
        4 => (writer.clone(), 1..4u64).prop_map(|(writer, count)| Step::Take { writer, count }),
        3 => writer.clone().prop_map(|writer| Step::Commit { writer }),
        1 => writer.prop_map(|writer| Step::Abort { writer }),
        2 => (0..6u64).prop_map(|millis| Step::Wait { millis }),
        4 => (1..8usize, prop_oneof![3 => Just(0), 1 => 1..6u64])
            .prop_map(|(limit, unproved)| Step::Look { limit, unproved }),
        6 => (0..4usize).prop_map(|pick| Step::Handle { pick }),
        2 => (0..3usize).prop_map(|pick| Step::HandleLate { pick }),
        2 => Just(Step::Write),
        u32::from(crashes) => Just(Step::Crash),
    ]
}

fn hold_for() -> impl Strategy<Value = Duration> {
    prop_oneof![Just(Duration::ZERO), (1..12u64).prop_map(Duration::from_millis), Just(Duration::MAX)]
}

/// The log as its writers make it. What is neither open nor committed was aborted.
#[derive(Default)]
struct Log {
    head: u64,
    open: BTreeMap<usize, Vec<u64>>,
    committed: BTreeMap<u64, Arc<RecordedEvent>>,
}

impl Log {
    fn take(&mut self, writer: usize, count: u64) {
        let taken = self.head + 1..=self.head + count;
        self.head += count;
        self.open.entry(writer).or_default().extend(taken);
    }

    fn commit(&mut self, writer: usize) {
        for sequence in self.open.remove(&writer).unwrap_or_default() {
            let event = Event {
                global_sequence: Some(sequence),
                recorded_at: Some(chrono::Utc::now()),
                ..Event::raw("E", serde_json::json!({}))
            };
            let event = RecordedEvent::new(event).unwrap();
            self.committed.insert(sequence, Arc::new(event));
        }
    }

    fn is_open(&self, sequence: u64) -> bool {
        self.open.values().flatten().any(|open| *open == sequence)
    }

    /// Below the lowest sequence that is open.
    fn proved(&self) -> u64 {
        self.open.values().flatten().min().map_or(self.head, |lowest| lowest - 1)
    }
}

/// What is durable of the subscriber.
#[derive(Default)]
struct Store {
    position: u64,
    ledger: Gaps,
    counts: (u64, u64),
}

impl Store {
    fn write(&mut self, advance: &Advance) {
        assert!(self.position <= advance.position, "the checkpoint moved back");
        self.position = advance.position;
        self.ledger = advance.pending_gaps.clone();
        self.counts.0 += advance.events + advance.late_events;
        self.counts.1 += advance.sequence_sum + advance.late_sequence_sum;
    }

    fn has_settled(&self, sequence: u64) -> bool {
        sequence <= self.position && !self.ledger.contains(sequence)
    }
}

/// One run of the consumer, from its start to its crash.
struct Consumer {
    gate: Gate,
    progress: Progress,
    under_way: Vec<u64>,
    late: Vec<u64>,
    admitted: BTreeSet<u64>,
    passed: Gaps,
    handled: BTreeSet<u64>,
    /// When the reader first showed that a sequence is missing.
    missing_since: BTreeMap<u64, Instant>,
}

impl Consumer {
    fn start(store: &Store, hold_for: Duration) -> Self {
        Consumer {
            gate: Gate::new(store.position, hold_for),
            progress: Progress::new(store.position, store.ledger.clone()),
            under_way: Vec::new(),
            late: Vec::new(),
            admitted: BTreeSet::new(),
            passed: store.ledger.clone(),
            handled: BTreeSet::new(),
            missing_since: BTreeMap::new(),
        }
    }
}

struct World {
    hold_for: Duration,
    now: Instant,
    log: Log,
    store: Store,
    /// The checkpoint from which the consumer started.
    started_at: u64,
    consumer: Consumer,
    /// How often each event was handled.
    handled: BTreeMap<u64, u32>,
    transcript: Vec<String>,
}

impl World {
    fn new(hold_for: Duration, now: Instant) -> Self {
        let store = Store::default();
        let consumer = Consumer::start(&store, hold_for);
        World {
            hold_for,
            now,
            log: Log::default(),
            store,
            started_at: 0,
            consumer,
            handled: BTreeMap::new(),
            transcript: Vec::new(),
        }
    }

    fn run(&mut self, step: &Step) -> TestCaseResult {
        match *step {
            Step::Take { writer, count } => self.log.take(writer, count),
            Step::Commit { writer } => self.log.commit(writer),
            Step::Abort { writer } => drop(self.log.open.remove(&writer)),
            Step::Wait { millis } => self.now += Duration::from_millis(millis),
            Step::Look { limit, unproved } => self.look(limit, unproved)?,
            Step::Handle { pick } => self.handle(pick)?,
            Step::HandleLate { pick } => self.handle_late(pick)?,
            Step::Write => self.write()?,
            Step::Crash => {
                self.started_at = self.store.position;
                self.consumer = Consumer::start(&self.store, self.hold_for);
            }
        }
        Ok(())
    }

    fn look(&mut self, limit: usize, unproved: u64) -> TestCaseResult {
        let after = self.consumer.gate.position();
        let events: Vec<_> =
            self.log.committed.range(after + 1..).take(limit).map(|(_, event)| event.clone()).collect();
        let seen = events.last().map_or(after, |event| event.sequence().get());
        let settled = self.log.proved().saturating_sub(unproved).min(seen);
        self.settle_late(settled)?;
        let segment = Segment { after, events, seen, settled, ..Segment::default() };
        for sequence in after.max(settled) + 1..=seen {
            if !self.log.committed.contains_key(&sequence) {
                self.consumer.missing_since.entry(sequence).or_insert(self.now);
            }
        }
        let (admitted, hold) = self.consumer.gate.admit(&segment, self.consumer.progress.ledger(), self.now);
        for admitted in admitted {
            self.admit(&admitted)?;
        }
        if let Some(hold) = hold {
            self.transcript.push(format!("held {}..={}", hold.first, hold.last));
            prop_assert!(hold.first > settled && hold.last < seen);
            prop_assert!((hold.first..=hold.last).all(|sequence| !self.log.committed.contains_key(&sequence)));
            let until = self.consumer.missing_since[&hold.first].checked_add(self.hold_for);
            prop_assert_eq!(hold.until, until);
            prop_assert!(until.is_none_or(|until| until > self.now), "held for too long");
        }
        self.consumer.progress.reach(self.consumer.gate.position());
        Ok(())
    }

    fn settle_late(&mut self, settled: u64) -> TestCaseResult {
        let ledger = self.consumer.progress.ledger();
        let in_ledger = self.log.committed.values().filter(|event| ledger.contains(event.sequence().get()));
        let late = Late::of(ledger, in_ledger.cloned().collect(), settled);
        self.consumer.late = late.events.iter().map(|event| event.sequence().get()).collect();
        for (first, last) in late.permanent {
            for sequence in first..=last {
                let may_come = self.log.is_open(sequence) || self.log.committed.contains_key(&sequence);
                prop_assert!(!may_come, "{sequence} was called permanent");
            }
            self.consumer.progress.closed(first, last);
        }
        Ok(())
    }

    fn admit(&mut self, admitted: &Admitted) -> TestCaseResult {
        let sequence = admitted.event.sequence().get();
        self.transcript.push(format!("admitted {sequence}, passed {:?}", admitted.passed));
        let consumer = &mut self.consumer;
        prop_assert!(consumer.admitted.last().is_none_or(|last| *last < sequence), "{sequence} is out of order");
        if let Some((first, last)) = admitted.passed {
            prop_assert!(self.hold_for < Duration::MAX);
            for missing in first..=last {
                prop_assert!(!self.log.committed.contains_key(&missing), "{missing} was visible, and passed");
                prop_assert!(
                    consumer.missing_since[&missing] + self.hold_for <= self.now,
                    "{missing} was passed too soon"
                );
            }
            consumer.passed.insert(first, last);
        }
        // Whatever may still come before it is written down.
        let before = (self.started_at + 1..sequence).filter(|before| !consumer.admitted.contains(before));
        for before in before {
            let comes = self.log.is_open(before) || self.log.committed.contains_key(&before);
            prop_assert!(!comes || consumer.passed.contains(before), "{sequence} went before {before}");
        }
        consumer.admitted.insert(sequence);
        consumer.under_way.push(sequence);
        consumer.progress.admit(admitted);
        Ok(())
    }

    fn handle(&mut self, pick: usize) -> TestCaseResult {
        if self.consumer.under_way.is_empty() {
            return Ok(());
        }
        let sequence = self.consumer.under_way.remove(pick % self.consumer.under_way.len());
        self.note_handled(sequence)?;
        self.consumer.progress.done(sequence);
        Ok(())
    }

    fn handle_late(&mut self, pick: usize) -> TestCaseResult {
        if self.consumer.late.is_empty() {
            return Ok(());
        }
        let sequence = self.consumer.late.remove(pick % self.consumer.late.len());
        prop_assert!(self.consumer.progress.ledger().contains(sequence), "{sequence} is late, but not in the ledger");
        self.note_handled(sequence)?;
        self.consumer.progress.late_done(sequence);
        Ok(())
    }

    fn note_handled(&mut self, sequence: u64) -> TestCaseResult {
        self.transcript.push(format!("handled {sequence}"));
        prop_assert!(self.consumer.handled.insert(sequence), "{sequence} came twice without a crash");
        prop_assert!(!self.store.has_settled(sequence), "{sequence} came again, though it was written");
        *self.handled.entry(sequence).or_default() += 1;
        Ok(())
    }

    fn write(&mut self) -> TestCaseResult {
        let progress = &mut self.consumer.progress;
        if let Some(advance) = progress.unwritten_advance() {
            self.store.write(advance);
            progress.written();
            prop_assert!(progress.unwritten_advance().is_none());
        }
        let settled = self.log.committed.keys().filter(|sequence| self.store.has_settled(**sequence));
        let counts = settled.fold((0, 0), |(events, sum), sequence| (events + 1, sum + sequence));
        prop_assert_eq!(self.store.counts, counts);
        Ok(())
    }

    /// All writers end, and the consumer works until nothing is left.
    fn finish(&mut self) -> TestCaseResult {
        for (number, writer) in self.log.open.keys().copied().collect::<Vec<_>>().into_iter().enumerate() {
            self.run(&if number % 2 == 0 { Step::Commit { writer } } else { Step::Abort { writer } })?;
        }
        // Two rounds more than pages: one for the late, one to see that they are done.
        for _ in 0..self.log.head + 2 {
            self.look(7, 0)?;
            while !self.consumer.under_way.is_empty() {
                self.handle(0)?;
            }
            while !self.consumer.late.is_empty() {
                self.handle_late(0)?;
            }
            self.write()?;
        }
        let last = self.log.committed.keys().last().copied().unwrap_or(0);
        prop_assert!(self.store.position >= last);
        prop_assert!(self.store.ledger.is_empty(), "{:?}", self.store.ledger);
        for sequence in self.log.committed.keys() {
            prop_assert!(self.handled.contains_key(sequence), "{sequence} is lost");
        }
        prop_assert_eq!(self.handled.len(), self.log.committed.len());
        Ok(())
    }
}

fn play(hold_for: Duration, now: Instant, steps: &[Step]) -> Result<World, TestCaseError> {
    let mut world = World::new(hold_for, now);
    steps.iter().try_for_each(|step| world.run(step))?;
    world.finish()?;
    Ok(world)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn each_event_is_handled_once(hold_for in hold_for(), steps in prop::collection::vec(step(false), 0..150)) {
        let world = play(hold_for, Instant::now(), &steps)?;
        prop_assert!(world.handled.values().all(|times| *times == 1));
    }

    #[test]
    fn a_crash_loses_nothing(hold_for in hold_for(), steps in prop::collection::vec(step(true), 0..150)) {
        play(hold_for, Instant::now(), &steps)?;
    }

    #[test]
    fn what_comes_in_decides_what_goes_out(hold_for in hold_for(), steps in prop::collection::vec(step(true), 0..80)) {
        let now = Instant::now();
        let once = play(hold_for, now, &steps)?.transcript;
        let again = play(hold_for, now + Duration::from_secs(60), &steps)?.transcript;
        prop_assert_eq!(once, again);
    }
}
