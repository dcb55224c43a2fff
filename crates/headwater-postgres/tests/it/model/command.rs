//! Commands as values that can be shrunk: whatever they refer to is a small number, given its
//! meaning when they run.

use std::fmt;

use headwater_core::Direction;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

pub(crate) const STREAMS: [&str; 4] = ["order-1", "order-2", "order%", "Order-1"];
pub(crate) const TYPES: [&str; 3] = ["Placed", "Paid", "placed"];
pub(crate) const PREFIXES: [&str; 5] = ["order-", "order%", "O", "", "%"];
pub(crate) const CORRELATIONS: usize = 3;

/// One of those that came before; taken modulo their number.
pub(crate) type Earlier = usize;

#[derive(Debug, Clone)]
pub(crate) enum Command {
    Append {
        events: Vec<NewEvent>,
        expected: Vec<(usize, Expected)>,
    },
    Retry(Earlier),
    Mangled(Earlier, Mangling),
    ReadStream {
        stream: usize,
        from: Option<u64>,
        to: Option<u64>,
        direction: Direction,
        limit: Option<u64>,
        page_size: u32,
    },
    ReadLog {
        after: Bound,
        up_to: Option<Bound>,
        filter: Filter,
        direction: Direction,
        limit: Option<u64>,
        page_size: u32,
    },
    Correlated {
        correlation: usize,
        after: Bound,
        limit: u32,
    },
    Chain {
        of: Earlier,
        limit: u32,
    },
}

#[derive(Clone)]
pub(crate) struct NewEvent {
    pub(crate) event_type: usize,
    pub(crate) stream: Option<usize>,
    pub(crate) data: &'static str,
    pub(crate) correlation: Option<usize>,
    pub(crate) cause: Option<Earlier>,
    pub(crate) key: Option<&'static str>,
    pub(crate) header: bool,
}

/// Only what is set: a case that fails is printed whole.
impl fmt::Debug for NewEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let NewEvent { event_type, stream, data, correlation, cause, key, header } = self;
        write!(f, "{} {data}", TYPES[*event_type])?;
        let mut set = |name: &str, value: Option<String>| value.map_or(Ok(()), |value| write!(f, ", {name} {value}"));
        set("stream", stream.map(|index| STREAMS[index].into()))?;
        set("correlation", correlation.map(|number| number.to_string()))?;
        set("cause", cause.map(|number| number.to_string()))?;
        set("key", key.map(Into::into))?;
        f.write_str(if *header { ", header" } else { "" })
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Expected {
    Any,
    NoStream,
    Exists,
    /// Right, as far as the model knows.
    Current,
    Exact(u64),
}

/// What is done to an earlier append before it is sent again.
#[derive(Debug, Clone)]
pub(crate) enum Mangling {
    Without(usize),
    WithNewFirst,
    WithNewLast,
    Retyped(usize),
    Restreamed(usize, Option<usize>),
    Reversed,
    Twice(usize),
    Merged(Earlier),
    Expecting(Expected),
}

/// A place in the log: 0 is its start, n its n-th event, and beyond.
pub(crate) type Bound = u64;

#[derive(Debug, Clone)]
pub(crate) struct Filter {
    pub(crate) types: Vec<usize>,
    pub(crate) stream: Option<usize>,
    pub(crate) prefix: Option<usize>,
}

pub(crate) fn command() -> impl Strategy<Value = Command> {
    let earlier = 0..40_usize;
    let append = || {
        (vec(new_event(), 1..5), vec((0..STREAMS.len(), expected()), 0..3))
            .prop_map(|(events, expected)| Command::Append { events, expected })
    };
    prop_oneof![
        8 => append(),
        2 => earlier.clone().prop_map(Command::Retry),
        3 => (earlier.clone(), mangling()).prop_map(|(earlier, mangling)| Command::Mangled(earlier, mangling)),
        1 => read_stream(),
        2 => read_log(),
        1 => (0..CORRELATIONS, bound(), 0..6_u32)
            .prop_map(|(correlation, after, limit)| Command::Correlated { correlation, after, limit }),
        1 => (earlier, 0..6_u32).prop_map(|(of, limit)| Command::Chain { of, limit }),
    ]
}

fn new_event() -> impl Strategy<Value = NewEvent> {
    let data = prop::sample::select(vec![
        "{}",
        "null",
        "0",
        "-1.50",
        "\"ü\\n\\ud83d\\ude00\"",
        "[ ]",
        "{\"b\":1, \"a\":[null,{}]}",
        "{\"a\":1,\"a\":2}",
        "1e3",
    ]);
    let key = prop::sample::select(vec!["k", "\u{e9}"]);
    let stream = option::weighted(0.75, 0..STREAMS.len());
    (
        0..TYPES.len(),
        stream,
        data,
        option::of(0..CORRELATIONS),
        option::of(0..40_usize),
        option::of(key),
        prop::bool::ANY,
    )
        .prop_map(|(event_type, stream, data, correlation, cause, key, header)| NewEvent {
            event_type,
            stream,
            data,
            correlation,
            cause,
            key,
            header,
        })
}

fn expected() -> impl Strategy<Value = Expected> {
    prop_oneof![
        1 => Just(Expected::Any),
        1 => Just(Expected::NoStream),
        1 => Just(Expected::Exists),
        4 => Just(Expected::Current),
        1 => (0..5_u64).prop_map(Expected::Exact),
        1 => Just(Expected::Exact(u64::MAX)),
    ]
}

fn mangling() -> impl Strategy<Value = Mangling> {
    let place = || 0..4_usize;
    prop_oneof![
        place().prop_map(Mangling::Without),
        Just(Mangling::WithNewFirst),
        Just(Mangling::WithNewLast),
        place().prop_map(Mangling::Retyped),
        (place(), option::of(0..STREAMS.len())).prop_map(|(place, stream)| Mangling::Restreamed(place, stream)),
        Just(Mangling::Reversed),
        place().prop_map(Mangling::Twice),
        (0..40_usize).prop_map(Mangling::Merged),
        expected().prop_map(Mangling::Expecting),
    ]
}

fn direction() -> impl Strategy<Value = Direction> {
    prop_oneof![Just(Direction::Forwards), Just(Direction::Backwards)]
}

fn bound() -> impl Strategy<Value = Bound> {
    prop_oneof![4 => 0..30_u64, 1 => Just(1_000_000)]
}

fn read_stream() -> impl Strategy<Value = Command> {
    let version = || option::of(prop_oneof![6 => 0..9_u64, 1 => Just(u64::MAX)]);
    (0..STREAMS.len(), version(), version(), direction(), option::of(0..9_u64), 1..5_u32).prop_map(
        |(stream, from, to, direction, limit, page_size)| Command::ReadStream {
            stream,
            from,
            to,
            direction,
            limit,
            page_size,
        },
    )
}

fn read_log() -> impl Strategy<Value = Command> {
    let filter =
        (vec(0..TYPES.len(), 0..3), option::weighted(0.2, 0..STREAMS.len()), option::weighted(0.3, 0..PREFIXES.len()))
            .prop_map(|(types, stream, prefix)| Filter { types, stream, prefix });
    (bound(), option::of(bound()), filter, direction(), option::of(0..9_u64), 1..6_u32).prop_map(
        |(after, up_to, filter, direction, limit, page_size)| Command::ReadLog {
            after,
            up_to,
            filter,
            direction,
            limit,
            page_size,
        },
    )
}
