//! PostgreSQL's own plugin, protocol version 1, values as text.

use std::collections::HashMap;

use bytes::{Buf, Bytes};

use crate::CdcError;
use crate::fields::Fields;
use crate::transactions::Change;

/// The options to start it with.
pub(crate) fn options(publication: &str) -> Vec<(&'static str, String)> {
    // The option is a list of names: quoted as identifiers are.
    let names = crate::connection::identifier(publication);
    vec![("proto_version", "1".into()), ("publication_names", names)]
}

/// Knows the tables that were described.
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
                let mut names = Vec::with_capacity(columns.into());
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
            // Origins, types, logical messages; updates, deletes and truncates are not published.
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
                let text = String::from_utf8(data.split_to(length).into()).map_err(|error| error.to_string())?;
                fields.set(name, text);
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
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn whatever_comes_is_an_error_or_a_change(bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in prop::sample::select(b"BCRIOYTM".to_vec())) {
            let mut decoder = Pgoutput::default();
            let message = [vec![kind], bytes].concat();
            _ = decoder.decode(message.clone().into());
            // Also with what the first may have described.
            _ = decoder.decode(message.into());
        }
    }

    #[test]
    fn a_row_of_a_table_that_was_not_described_is_an_error() {
        let error = Pgoutput::default().decode(Bytes::from_static(b"I\0\0\0\x07N\0\0")).unwrap_err();
        assert_eq!(error.to_string(), "unexpected message from the server: pgoutput: table 7 was not described");
    }
}
