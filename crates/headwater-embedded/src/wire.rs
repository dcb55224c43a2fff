//! Just enough of PostgreSQL's protocol to run one statement through the server's socket, which
//! asks for no password. The npm packages of the server have no psql, and a driver would be a heavy
//! dependency for a `CREATE DATABASE`.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

const PROTOCOL: u32 = 3 << 16;
const TIMEOUT: Duration = Duration::from_secs(60);

/// A row of text values.
pub(crate) type Row = Vec<Option<String>>;

/// Runs `sql` on its own connection, with these settings, and returns the rows.
pub(crate) fn query(
    socket: &Path,
    user: &str,
    database: &str,
    settings: &[(&str, &str)],
    sql: &str,
) -> io::Result<Vec<Row>> {
    let mut stream = connect(socket, user, database, settings)?;
    send(&mut stream, Some(b'Q'), &[sql.as_bytes(), &[0]].concat())?;
    let rows = until_ready(&mut stream)?;
    send(&mut stream, Some(b'X'), &[])?;
    Ok(rows)
}

/// Opens a session that is ready for a statement.
pub(crate) fn connect(socket: &Path, user: &str, database: &str, settings: &[(&str, &str)]) -> io::Result<UnixStream> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    say_hello(&mut stream, user, database, settings)?;
    Ok(stream)
}

/// Sends the startup message, and waits until the server takes statements.
pub(crate) fn say_hello(
    stream: &mut (impl Read + Write),
    user: &str,
    database: &str,
    settings: &[(&str, &str)],
) -> io::Result<()> {
    let mut hello = PROTOCOL.to_be_bytes().to_vec();
    for (name, value) in [("user", user), ("database", database)].iter().chain(settings) {
        for text in [name, value] {
            hello.extend_from_slice(text.as_bytes());
            hello.push(0);
        }
    }
    hello.push(0);
    send(stream, None, &hello)?;
    until_ready(stream).map(drop)
}

fn send(stream: &mut impl Write, tag: Option<u8>, body: &[u8]) -> io::Result<()> {
    let length = u32::try_from(body.len() + 4).map_err(io::Error::other)?;
    let mut message: Vec<u8> = tag.into_iter().collect();
    message.extend_from_slice(&length.to_be_bytes());
    message.extend_from_slice(body);
    stream.write_all(&message)
}

fn until_ready(stream: &mut impl Read) -> io::Result<Vec<Row>> {
    let mut rows = Vec::new();
    loop {
        let mut head = [0; 5];
        stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let mut body = vec![0; length.saturating_sub(4)];
        stream.read_exact(&mut body)?;
        match head[0] {
            b'Z' => return Ok(rows),
            b'D' => rows.push(row(&body).ok_or_else(|| io::Error::other("malformed row"))?),
            b'E' => return Err(io::Error::other(message(&body))),
            b'R' if body != [0; 4] => return Err(io::Error::other("the server asks for a password")),
            _ => {}
        }
    }
}

fn row(mut body: &[u8]) -> Option<Row> {
    let (columns, rest) = body.split_first_chunk::<2>()?;
    body = rest;
    (0..u16::from_be_bytes(*columns))
        .map(|_| {
            let (length, rest) = body.split_first_chunk::<4>()?;
            body = rest;
            // -1 is NULL.
            let Ok(length) = usize::try_from(i32::from_be_bytes(*length)) else { return Some(None) };
            let (value, rest) = body.split_at_checked(length)?;
            body = rest;
            Some(Some(String::from_utf8_lossy(value).into_owned()))
        })
        .collect()
}

/// Returns the `M` field of an error response.
fn message(body: &[u8]) -> String {
    let field = body.split(|byte| *byte == 0).find_map(|field| field.strip_prefix(b"M"));
    field.map_or_else(|| "unknown error".into(), |text| String::from_utf8_lossy(text).into_owned())
}
