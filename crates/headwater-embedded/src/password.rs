//! The superuser's password: generated at the first start, and kept in a file that only the
//! server's user can read.
//!
//! The file is in the data folder, so that copies of the folder (backups, standbys) have it too.
//! The file decides: each start sets the role's password to its contents.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::run_as::RunAs;
use crate::{EmbeddedError, HEADWATER};

const RANDOM_BYTES: usize = 24;
/// Two letters per byte. Letters need no quotes, neither in a url nor in SQL.
const LENGTH: usize = 2 * RANDOM_BYTES;

/// Reads the password of the data folder, if it has one.
pub(crate) fn read(data_dir: &Path) -> Result<Option<String>, EmbeddedError> {
    let path = path(data_dir);
    match fs::read_to_string(&path) {
        Ok(text) => Ok(Some(text.trim().to_owned()).filter(|text| is_password(text))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(EmbeddedError::io("read", &path)(error)),
    }
}

/// Returns the password of the data folder, and writes the file for clients. A folder without a
/// password gets one. It comes from a time when servers let in everybody on the machine, and that
/// ends here.
pub(crate) fn ensure(data_dir: &Path, run_as: &RunAs) -> Result<String, EmbeddedError> {
    let password = match read(data_dir)? {
        Some(password) => password,
        None => make(data_dir, run_as)?,
    };
    let path = pass_file(data_dir);
    if !path.exists() {
        replace(&path, &format!("*:*:*:{HEADWATER}:{password}\n"), run_as)
            .map_err(EmbeddedError::io("write", &path))?;
    }
    Ok(password)
}

/// Returns the file with the password in the form that PostgreSQL's clients read (`PGPASSFILE`).
pub(crate) fn pass_file(data_dir: &Path) -> PathBuf {
    data_dir.join("headwater.pgpass")
}

fn make(data_dir: &Path, run_as: &RunAs) -> Result<String, EmbeddedError> {
    let rules = data_dir.join("pg_hba.conf");
    let text = fs::read_to_string(&rules).map_err(EmbeddedError::io("read", &rules))?;
    let closed = without_trust(&text);
    if closed != text {
        replace(&rules, &closed, run_as).map_err(EmbeddedError::io("write", &rules))?;
    }
    let password = random().map_err(EmbeddedError::io("read", Path::new("/dev/urandom")))?;
    let path = path(data_dir);
    replace(&path, &format!("{password}\n"), run_as).map_err(EmbeddedError::io("write", &path))?;
    Ok(password)
}

/// Changes `pg_hba.conf` so that it asks for passwords where it trusted connections over TCP. Only
/// the server's user reaches the socket, so the rules for the socket stay.
fn without_trust(rules: &str) -> String {
    let mut closed = String::with_capacity(rules.len());
    for line in rules.split_inclusive('\n') {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        let over_tcp = words.first().is_some_and(|kind| kind.starts_with("host"));
        // host, database, user, address, and often a mask come before the method.
        match words.iter().skip(4).position(|word| *word == "trust") {
            Some(method) if over_tcp => {
                words[method + 4] = "scram-sha-256";
                closed.push_str(&words.join("\t"));
                closed.push('\n');
            }
            _ => closed.push_str(line),
        }
    }
    closed
}

/// Replaces a file as a whole or not at all. Only the server's user can read it.
fn replace(path: &Path, text: &str, run_as: &RunAs) -> Result<(), io::Error> {
    let unfinished = path.with_extension("new");
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    run_as.give(&unfinished).map_err(io::Error::other)?;
    fs::rename(&unfinished, path)
}

fn random() -> io::Result<String> {
    let mut bytes = [0; RANDOM_BYTES];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(|half| char::from(b'a' + half)).collect())
}

fn is_password(text: &str) -> bool {
    text.len() == LENGTH && text.bytes().all(|byte| byte.is_ascii_lowercase())
}

fn path(data_dir: &Path) -> PathBuf {
    data_dir.join("headwater.password")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_letters_and_never_the_same() {
        let (one, other) = (random().unwrap(), random().unwrap());
        assert!(is_password(&one) && is_password(&other) && one != other, "{one} {other}");
    }

    #[test]
    fn only_rules_for_tcp_are_closed() {
        let before = "# host all all 127.0.0.1/32 trust\nlocal all all trust\nhost  all  all  127.0.0.1/32  trust\n\
                      host all trust ::1/128 md5\nhostssl all all 10.0.0.0 255.0.0.0 trust\n";
        let after = "# host all all 127.0.0.1/32 trust\nlocal all all trust\nhost\tall\tall\t127.0.0.1/32\tscram-sha-256\n\
                     host all trust ::1/128 md5\nhostssl\tall\tall\t10.0.0.0\t255.0.0.0\tscram-sha-256\n";
        assert_eq!(without_trust(before), after);
        assert_eq!(without_trust(after), after);
    }
}
