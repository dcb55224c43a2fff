//! Lists the SQL files for `src/sql.rs`, so that a new file needs no second entry anywhere.
//!
//! `sql/migrations/NNNN_name.sql` are migrations, `sql/ROOM/name.query.sql` are statements that
//! Rust runs, and every other `sql/ROOM/name.sql` is a function. A statement that Rust does not use
//! is a compiler warning.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=sql");
    let sql = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("sql");
    let mut migrations = BTreeSet::new();
    // By name, whatever their room: the order in which they are made, and checksummed.
    let mut functions = BTreeMap::new();
    let mut rooms: BTreeMap<String, BTreeMap<String, PathBuf>> = BTreeMap::new();
    for room in fs::read_dir(&sql)?.collect::<io::Result<Vec<_>>>()? {
        if !room.file_type()?.is_dir() {
            continue;
        }
        let room_name = room.file_name().into_string().expect("names of folders are ASCII");
        for file in fs::read_dir(room.path())?.collect::<io::Result<Vec<_>>>()? {
            let file_name = file.file_name().into_string().expect("names of files are ASCII");
            let Some(name) = file_name.strip_suffix(".sql") else { continue };
            if room_name == "migrations" {
                migrations.insert((name.to_owned(), file.path()));
            } else if let Some(query) = name.strip_suffix(".query") {
                rooms.entry(room_name.clone()).or_default().insert(query.to_owned(), file.path());
            } else if let Some(other) = functions.insert(name.to_owned(), file.path()) {
                panic!("two files define the function {name}: {} and {}", other.display(), file.path().display());
            }
        }
    }
    let mut code = String::new();
    list(&mut code, "Migrations, in order: applied once, frozen once shipped.", "MIGRATIONS", migrations);
    list(
        &mut code,
        "Functions: replaced whole when [`FUNCTIONS_REVISION`] is above the database's.",
        "FUNCTIONS",
        functions,
    );
    for (room, queries) in rooms {
        _ = writeln!(code, "/// The statements in `sql/{room}`.\npub(crate) mod {room} {{");
        for (name, path) in queries {
            let name = name.to_uppercase();
            _ = writeln!(code, "    pub(crate) const {name}: &str = include_str!({path:?});");
        }
        code.push_str("}\n");
    }
    fs::write(Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("sql.rs"), code)
}

fn list(code: &mut String, comment: &str, name: &str, files: impl IntoIterator<Item = (String, PathBuf)>) {
    _ = writeln!(code, "/// {comment}\npub(crate) const {name}: &[(&str, &str)] = &[");
    for (name, path) in files {
        _ = writeln!(code, "    ({name:?}, include_str!({path:?})),");
    }
    code.push_str("];\n");
}
