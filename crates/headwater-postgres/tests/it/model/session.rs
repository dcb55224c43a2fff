//! Runs commands on both logs and compares.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::TryStreamExt;
use headwater_conformance::read_by_pages;
use headwater_core::{
    Append, Event, EventLog, ExpectedVersion, Json, LogQuery, Ordering, RecordedEvent, StreamId, StreamQuery,
};
use proptest::test_runner::TestCaseError;
use uuid::Uuid;

use crate::model::answers::{Places, answer, brief, comparable, same};
use crate::model::command::{CORRELATIONS, Command, Expected, Filter, Mangling, NewEvent, PREFIXES, STREAMS, TYPES};

type Compared = Result<(), TestCaseError>;

pub(crate) struct Session {
    model: Arc<dyn EventLog>,
    postgres: Arc<dyn EventLog>,
    places: Places,
    sent: Vec<Append>,
    /// The ids of all events that were sent, stored or not: 1, 2, 3, …
    ids: u128,
}

impl Session {
    pub(crate) fn new(model: Arc<dyn EventLog>, postgres: Arc<dyn EventLog>, ordering: Ordering) -> Self {
        Session { model, postgres, places: Places::new(ordering), sent: Vec::new(), ids: 0 }
    }

    pub(crate) async fn run(&mut self, commands: &[Command]) -> Compared {
        for command in commands {
            self.step(command).await?;
        }
        self.compare_everything().await
    }

    async fn step(&mut self, command: &Command) -> Compared {
        match command {
            Command::Append { events, expected } => {
                let append = self.new_append(events, expected).await;
                self.append(append).await
            }
            Command::Retry(earlier) => match self.earlier(*earlier) {
                Some(append) => self.append(append).await,
                None => Ok(()),
            },
            Command::Mangled(earlier, mangling) => match self.earlier(*earlier) {
                Some(append) => {
                    let append = self.mangle(append, mangling).await;
                    self.append(append).await
                }
                None => Ok(()),
            },
            Command::ReadStream { stream, from, to, direction, limit, page_size } => {
                self.read_stream(StreamQuery {
                    stream_id: STREAMS[*stream].into(),
                    from_version: *from,
                    to_version: *to,
                    direction: *direction,
                    limit: *limit,
                    page_size: *page_size,
                })
                .await
            }
            Command::ReadLog {
                after,
                up_to,
                filter: Filter { types, stream, prefix },
                direction,
                limit,
                page_size,
            } => {
                self.read_log(LogQuery {
                    after: *after,
                    up_to: *up_to,
                    event_types: types.iter().map(|index| TYPES[*index].into()).collect(),
                    stream: stream.map(|index| STREAMS[index].into()),
                    stream_prefix: prefix.map(|index| PREFIXES[index].into()),
                    direction: *direction,
                    limit: *limit,
                    page_size: *page_size,
                })
                .await
            }
            Command::Correlated { correlation, after, limit } => self.correlated(*correlation, *after, *limit).await,
            Command::Chain { of, limit } => self.chain(self.earlier_id(*of), *limit).await,
        }
    }

    async fn append(&mut self, append: Append) -> Compared {
        let model = answer(self.model.append(append.clone()).await);
        let postgres = answer(self.postgres.append(append.clone()).await);
        if let (Ok(model), Ok(postgres)) = (&model, &postgres) {
            self.places.learn(model, postgres)?;
        }
        let postgres = postgres.map(|appended| self.places.appended(appended));
        let what = brief(&append);
        self.sent.push(append);
        same(&what, model, postgres)
    }

    async fn read_stream(&self, query: StreamQuery) -> Compared {
        let read = async |log: &Arc<dyn EventLog>| log.read_stream(query.clone()).try_collect().await.map_err(failed);
        let (model, postgres) = (read(&self.model).await?, read(&self.postgres).await?);
        self.same_events(&format!("{query:?}"), model, postgres)
    }

    async fn read_log(&self, query: LogQuery) -> Compared {
        let theirs = LogQuery {
            after: self.places.theirs(query.after),
            up_to: query.up_to.map(|up_to| self.places.theirs(up_to)),
            ..query.clone()
        };
        let read = async |log: &Arc<dyn EventLog>, query: &LogQuery| {
            log.read_log(query.clone()).try_collect().await.map_err(failed)
        };
        let what = format!("{query:?}");
        self.same_events(&what, read(&self.model, &query).await?, read(&self.postgres, &theirs).await?)?;
        let (model, postgres) = (read_by_pages(&self.model, query).await, read_by_pages(&self.postgres, theirs).await);
        self.same_events(&format!("page by page, {what}"), model, postgres)
    }

    async fn correlated(&self, correlation: usize, after: u64, limit: u32) -> Compared {
        let id = correlation_id(correlation);
        let model = self.model.correlated(id, after, limit).await.map_err(failed)?;
        let postgres = self.postgres.correlated(id, self.places.theirs(after), limit).await.map_err(failed)?;
        self.same_events(&format!("correlated {correlation} after {after}, at most {limit}"), model, postgres)
    }

    async fn chain(&self, id: Uuid, limit: u32) -> Compared {
        let model = self.model.causation_chain(id, limit).await.map_err(failed)?;
        let postgres = self.postgres.causation_chain(id, limit).await.map_err(failed)?;
        self.same_events(&format!("causation chain of {}, at most {limit}", id.as_u128()), model, postgres)
    }

    async fn compare_everything(&self) -> Compared {
        self.read_log(LogQuery::default()).await?;
        self.read_log(LogQuery::default().backwards().page_size(7)).await?;
        for stream in STREAMS {
            self.read_stream(StreamQuery::new(stream)).await?;
        }
        for correlation in 0..CORRELATIONS {
            self.correlated(correlation, 0, 1_000).await?;
        }
        for id in (0..=self.ids + 1).map(Uuid::from_u128) {
            self.chain(id, 1_000).await?;
            let model = self.model.event(id).await.map_err(failed)?;
            let postgres = self.postgres.event(id).await.map_err(failed)?;
            self.same_events("an event by its id", Vec::from_iter(model), Vec::from_iter(postgres))?;
        }
        self.same_transactions().await?;
        let horizon = self.postgres.horizon().await.map_err(failed)?;
        let end = self.places.theirs(self.model.horizon().await.map_err(failed)?.horizon);
        same("the horizon covers the log", (true, 0), (horizon.horizon >= end, horizon.writers.len()))
    }

    /// The numbers differ, but they tell the same appends apart.
    async fn same_transactions(&self) -> Compared {
        let read = async |log: &Arc<dyn EventLog>| {
            let events: Vec<RecordedEvent> = log.read_log(LogQuery::default()).try_collect().await.map_err(failed)?;
            let ids = events.iter().map(|event| event.recorded_at.and(event.transaction_id));
            ids.collect::<Option<Vec<u64>>>().ok_or_else(|| TestCaseError::fail("an event without transaction or time"))
        };
        let (model, postgres) = (read(&self.model).await?, read(&self.postgres).await?);
        let pairs: BTreeSet<_> = model.iter().zip(&postgres).collect();
        let distinct = |ids: &[u64]| ids.iter().collect::<BTreeSet<_>>().len();
        same("transactions", (distinct(&model), distinct(&model)), (distinct(&postgres), pairs.len()))
    }

    fn same_events(&self, what: &str, model: Vec<RecordedEvent>, postgres: Vec<RecordedEvent>) -> Compared {
        let (model, postgres) = (
            comparable(model.into_iter().map(RecordedEvent::into_event).collect()),
            comparable(self.places.events(postgres)),
        );
        let ids = |events: &[Event]| events.iter().map(|event| event.id.as_u128()).collect::<Vec<_>>();
        same(what, ids(&model), ids(&postgres))?;
        model.into_iter().zip(postgres).try_for_each(|(model, postgres)| same(what, model, postgres))
    }

    fn earlier(&self, index: usize) -> Option<Append> {
        self.sent.get(index.checked_rem(self.sent.len())?).cloned()
    }

    /// One of the ids sent, or one that never was.
    fn earlier_id(&self, index: usize) -> Uuid {
        Uuid::from_u128(index as u128 % (self.ids + 2))
    }

    async fn new_append(&mut self, events: &[NewEvent], expected: &[(usize, Expected)]) -> Append {
        let mut append = Append::new();
        for event in events {
            append = append.event(self.new_event(event));
        }
        for (stream, expected) in expected {
            let stream = StreamId::from(STREAMS[*stream]);
            if append.writes().iter().any(|write| *write.stream_id == stream) {
                let expected = self.resolve(&stream, *expected).await;
                append = append.expect(stream, expected);
            }
        }
        append
    }

    fn new_event(&mut self, new: &NewEvent) -> Event {
        let cause = new.cause.map(|cause| self.earlier_id(cause));
        self.ids += 1;
        let data = Json::parse(new.data).expect("the data is JSON");
        Event {
            id: Uuid::from_u128(self.ids),
            stream_id: new.stream.map(|stream| STREAMS[stream].into()),
            correlation_id: new.correlation.map(correlation_id),
            causation_id: cause,
            key: new.key.map(Into::into),
            headers: new.header.then(|| ("h".to_owned(), "v".to_owned())).into_iter().collect(),
            ..Event::raw(TYPES[new.event_type], data)
        }
    }

    async fn resolve(&self, stream: &StreamId, expected: Expected) -> ExpectedVersion {
        match expected {
            Expected::Any => ExpectedVersion::Any,
            Expected::NoStream => ExpectedVersion::NoStream,
            Expected::Exists => ExpectedVersion::Exists,
            Expected::Exact(version) => ExpectedVersion::Exact(version),
            Expected::Current => {
                let last = self.model.stream_page(&StreamQuery::new(stream).backwards().page_size(1)).await;
                let last = last.expect("the model can be read").pop();
                ExpectedVersion::Exact(last.and_then(|event| event.stream_version).unwrap_or(0))
            }
        }
    }

    async fn mangle(&mut self, append: Append, mangling: &Mangling) -> Append {
        let mut events = append.events().to_vec();
        let at = |place: &usize| place % append.events().len().max(1);
        match mangling {
            _ if events.is_empty() => {}
            Mangling::Without(place) => drop(events.remove(at(place))),
            Mangling::WithNewFirst => events.insert(0, self.plain_event()),
            Mangling::WithNewLast => events.push(self.plain_event()),
            Mangling::Retyped(place) => events[at(place)].event_type.push('!'),
            Mangling::Restreamed(place, stream) => events[at(place)].stream_id = stream.map(|it| STREAMS[it].into()),
            Mangling::Reversed => events.reverse(),
            Mangling::Twice(place) => events.push(events[at(place)].clone()),
            Mangling::Merged(other) => events.extend(self.earlier(*other).iter().flat_map(|it| it.events()).cloned()),
            Mangling::Expecting(_) => {}
        }
        let mut mangled = events.into_iter().fold(Append::new(), Append::event);
        for write in append.writes() {
            let expected = match mangling {
                Mangling::Expecting(expected) => self.resolve(write.stream_id, *expected).await,
                _ => write.expected,
            };
            mangled = mangled.expect(write.stream_id, expected);
        }
        mangled
    }

    fn plain_event(&mut self) -> Event {
        self.ids += 1;
        Event { id: Uuid::from_u128(self.ids), ..Event::raw("New", Json::null()) }
    }
}

fn correlation_id(number: usize) -> Uuid {
    Uuid::from_u128(1_000_000 + number as u128)
}

fn failed(error: impl std::error::Error) -> TestCaseError {
    TestCaseError::fail(format!("a read failed: {error}"))
}
