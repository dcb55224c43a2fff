//! PostgreSQL's own plugin, protocol version 1, with values as text.

use std::collections::HashMap;

use bytes::{Buf, Bytes};

use crate::CdcError;
use crate::fields::Fields;
use crate::transactions::Change;

/// Returns the options to start it with.
pub(crate) fn options(publication: &str) -> Vec<(&'static str, String)> {
    // The option is a list of names, quoted as identifiers are.
    let names = crate::connection::identifier(publication);
    vec![("proto_version", "1".into()), ("publication_names", names)]
}

/// Decodes messages, and remembers the tables that were described.
#[derive(Debug, Default)]
pub(crate) struct Pgoutput {
    relations: HashMap<u32, Vec<String>>,
}

impl Pgoutput {
    pub(crate) fn decode(&mut self, mut data: Bytes) -> Result<Change, CdcError> {
        self.message(&mut data).map_err(|reason| CdcError::Protocol(format!("pgoutput: {reason}")))
    }

    fn message(&mut self, data: &mut Bytes) -> Result<Change, String> {
        let kind = data.try_get_u8().map_err(|_| "an empty message")?;
        match kind {
            b'B' => {
                skip(data, 16)?;
                Ok(Change::Begin { xid: data.try_get_u32().map_err(short)? })
            }
            b'C' => {
                skip(data, 9)?;
                Ok(Change::Commit { end_lsn: data.try_get_u64().map_err(short)? })
            }
            b'R' => {
                let id = data.try_get_u32().map_err(short)?;
                string(data)?;
                string(data)?;
                skip(data, 1)?;
                let columns = data.try_get_u16().map_err(short)?;
                // Each column takes at least ten bytes: do not believe a message that announces
                // more than it has.
                let mut names = Vec::with_capacity(usize::from(columns).min(data.len() / 10));
                for _ in 0..columns {
                    skip(data, 1)?;
                    names.push(string(data)?);
                    skip(data, 8)?;
                }
                self.relations.insert(id, names);
                Ok(Change::Other)
            }
            b'I' => {
                let id = data.try_get_u32().map_err(short)?;
                let names = self.relations.get(&id).ok_or_else(|| format!("table {id} was not described"))?;
                skip(data, 1)?;
                fields(names, data).map(Change::Insert)
            }
            // Origins, types and logical messages. Updates, deletes and truncates are not
            // published.
            _ => Ok(Change::Other),
        }
    }
}

fn fields(names: &[String], data: &mut Bytes) -> Result<Fields, String> {
    let columns = data.try_get_u16().map_err(short)?;
    if usize::from(columns) != names.len() {
        return Err(format!("a row of {columns} columns, {} were described", names.len()));
    }
    let mut fields = Fields::default();
    for name in names {
        match data.try_get_u8().map_err(short)? {
            b't' => {
                let length = data.try_get_u32().map_err(short)? as usize;
                if length > data.len() {
                    return Err("a value that is cut off".into());
                }
                // A database without an encoding may hold any bytes. That breaks the row, not the
                // stream.
                match String::from_utf8(data.split_to(length).into()) {
                    Ok(text) => fields.set(name, text),
                    Err(error) => fields.set_broken(name, error.utf8_error()),
                }
            }
            b'n' => {}
            other => return Err(format!("column {name} of kind {:?}", char::from(other))),
        }
    }
    Ok(fields)
}

fn skip(data: &mut Bytes, bytes: usize) -> Result<(), String> {
    if data.len() < bytes {
        return Err("a message that is too short".into());
    }
    data.advance(bytes);
    Ok(())
}

fn string(data: &mut Bytes) -> Result<String, String> {
    let end = data.iter().position(|byte| *byte == 0).ok_or("a text without an end")?;
    let text = String::from_utf8(data.split_to(end).into()).map_err(|error| error.to_string())?;
    data.advance(1);
    Ok(text)
}

fn short(_: bytes::TryGetError) -> String {
    "a message that is too short".into()
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::fields::COLUMNS;

    /// A message, as the server's documentation describes it.
    #[derive(Debug, Clone)]
    enum Sent {
        Begin(u32),
        Commit(u64),
        Relation(u32, Vec<String>),
        Insert(u32, Vec<Option<String>>),
        Other(u8, Vec<u8>),
    }

    impl Sent {
        fn encode(&self) -> Bytes {
            let mut bytes = Vec::new();
            match self {
                Sent::Begin(xid) => {
                    bytes.push(b'B');
                    bytes.extend([0; 16]);
                    bytes.extend(xid.to_be_bytes());
                }
                Sent::Commit(end_lsn) => {
                    bytes.push(b'C');
                    bytes.extend([0; 9]);
                    bytes.extend(end_lsn.to_be_bytes());
                    bytes.extend([0; 8]);
                }
                Sent::Relation(id, names) => {
                    bytes.push(b'R');
                    bytes.extend(id.to_be_bytes());
                    bytes.extend(b"headwater\0events\0d");
                    bytes.extend((names.len() as u16).to_be_bytes());
                    for name in names {
                        bytes.push(0);
                        bytes.extend(name.as_bytes());
                        bytes.extend([0; 9]);
                    }
                }
                Sent::Insert(id, values) => {
                    bytes.push(b'I');
                    bytes.extend(id.to_be_bytes());
                    bytes.push(b'N');
                    bytes.extend((values.len() as u16).to_be_bytes());
                    for value in values {
                        match value {
                            None => bytes.push(b'n'),
                            Some(text) => {
                                bytes.push(b't');
                                bytes.extend((text.len() as u32).to_be_bytes());
                                bytes.extend(text.as_bytes());
                            }
                        }
                    }
                }
                Sent::Other(kind, rest) => {
                    bytes.push(*kind);
                    bytes.extend(rest);
                }
            }
            bytes.into()
        }
    }

    fn name() -> impl Strategy<Value = String> {
        prop_oneof![3 => prop::sample::select(COLUMNS.to_vec()).prop_map(String::from), 1 => "[^\\x00]{0,12}"]
    }

    /// A described table of columns, and a row of it.
    fn table() -> impl Strategy<Value = (u32, Vec<(String, Option<String>)>)> {
        (any::<u32>(), vec((name(), proptest::option::of(any::<String>())), 0..20))
    }

    fn bytes_of(change: &Change) -> usize {
        match change {
            Change::Insert(fields) => fields.bytes(),
            _ => 0,
        }
    }

    proptest! {
        #[test]
        fn whatever_comes_is_an_error_or_a_change(messages in vec((prop::sample::select(b"BCRIOYTM".to_vec()), vec(any::<u8>(), 0..200)), 1..6)) {
            let mut decoder = Pgoutput::default();
            for (kind, bytes) in messages {
                let message = [vec![kind], bytes].concat();
                let length = message.len();
                // Whatever its lengths say, a message makes no more than it holds.
                prop_assert!(decoder.decode(message.clone().into()).map_or(0, |change| bytes_of(&change)) <= length);
                // The same with what the first message may have described.
                prop_assert!(decoder.decode(message.into()).map_or(0, |change| bytes_of(&change)) <= length);
            }
            prop_assert!(decoder.relations.values().flatten().all(|name| name.capacity() <= 256));
            prop_assert!(decoder.relations.values().all(|names| names.capacity() <= 20));
        }

        #[test]
        fn a_message_that_is_cut_off_or_altered_is_an_error_or_a_change(row in table(), cut in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), to in any::<u8>()) {
            let (id, columns) = row;
            let mut decoder = Pgoutput::default();
            let relation = Sent::Relation(id, columns.iter().map(|(name, _)| name.clone()).collect()).encode();
            let insert = Sent::Insert(id, columns.into_iter().map(|(_, value)| value).collect()).encode();
            _ = decoder.decode(relation.clone());
            for message in [&relation, &insert] {
                _ = decoder.decode(message.slice(..cut.index(message.len())));
                let mut altered = message.to_vec();
                let place = at.index(altered.len());
                altered[place] = to;
                _ = decoder.decode(altered.into());
            }
        }

        #[test]
        fn what_was_sent_is_what_comes(row in table(), xid in any::<u32>(), end_lsn in any::<u64>(), other in vec(any::<u8>(), 0..50), kind in prop::sample::select(b"OYTMUD".to_vec())) {
            let (id, columns) = row;
            let mut decoder = Pgoutput::default();
            let mut expected = Fields::default();
            columns.iter().for_each(|(name, value)| value.iter().for_each(|text| expected.set(name, text.clone())));
            let names = columns.iter().map(|(name, _)| name.clone()).collect();
            let values = columns.into_iter().map(|(_, value)| value).collect();
            let exchange = [
                (Sent::Begin(xid), Change::Begin { xid }),
                (Sent::Relation(id, names), Change::Other),
                (Sent::Other(kind, other), Change::Other),
                (Sent::Insert(id, values), Change::Insert(expected)),
                (Sent::Commit(end_lsn), Change::Commit { end_lsn }),
            ];
            for (sent, comes) in exchange {
                prop_assert_eq!(decoder.decode(sent.encode()).unwrap(), comes);
            }
        }
    }

    #[test]
    fn a_row_of_a_table_that_was_not_described_is_an_error() {
        let error = Pgoutput::default().decode(Bytes::from_static(b"I\0\0\0\x07N\0\0")).unwrap_err();
        assert_eq!(error.to_string(), "unexpected message from the server: pgoutput: table 7 was not described");
    }

    #[test]
    fn a_value_that_is_no_text_breaks_its_row_and_not_the_stream() {
        let mut decoder = Pgoutput::default();
        let names = ["global_sequence", "key", "theirs"].map(String::from).to_vec();
        decoder.decode(Sent::Relation(7, names).encode()).unwrap();
        let row = |key: &[u8], theirs: &[u8]| {
            let value = |value: &[u8]| [&b"t"[..], &(value.len() as u32).to_be_bytes(), value].concat();
            [&b"I\0\0\0\x07N\0\x03"[..], &value(b"5"), &value(key), &value(theirs)].concat()
        };
        let Change::Insert(fields) = decoder.decode(row(b"\xff", b"t").into()).unwrap() else { panic!("a row") };
        assert_eq!(fields.global_sequence(), Some(5));
        assert!(fields.into_event().unwrap_err().starts_with("key: invalid utf-8"));
        let Change::Insert(fields) = decoder.decode(row(b"k", b"\xff").into()).unwrap() else { panic!("a row") };
        assert_eq!(fields.into_event().unwrap_err(), "there is no data", "a column that is not ours is no matter");
    }
}
