//! Every SQL text of Headwater, by room and name. The texts are in `sql/`, and `build.rs` lists the
//! files.

include!(concat!(env!("OUT_DIR"), "/sql.rs"));

/// Raise this by one with every change to a shipped function. Of two builds that use one database,
/// the newer build's functions then stay.
pub(crate) const FUNCTIONS_REVISION: i64 = 17;

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    /// Lists the files of statements, in all rooms.
    fn statements() -> Vec<PathBuf> {
        let rooms = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("sql")).unwrap();
        let rooms = rooms.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
        let files = rooms.flat_map(|room| std::fs::read_dir(room).unwrap().map(|entry| entry.unwrap().path()));
        files.filter(|path| path.to_str().unwrap().ends_with(".query.sql")).collect()
    }

    /// Statements run with the session's own search_path, in which somebody else may have a
    /// function that fits better.
    #[test]
    fn statements_call_functions_by_their_whole_names() {
        const KEYWORDS: &[&str] = &[
            "all", "and", "any", "array", "as", "by", "coalesce", "conflict", "exists", "extract", "filter", "from",
            "greatest", "in", "interval", "join", "key", "lateral", "least", "nullif", "not", "on", "or", "over",
            "row", "select", "then", "union", "using", "values", "when", "where", "with",
        ];
        // These rooms write to databases that are not Headwater's, or hold more than single
        // statements.
        const OTHERS: &[&str] = &["import", "session"];
        let ours = |path: &PathBuf| {
            let room = path.parent().and_then(Path::file_name).and_then(|name| name.to_str());
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            !room.is_some_and(|room| OTHERS.contains(&room))
                || name.starts_with("import_")
                || name.starts_with("export_")
        };
        for path in statements().into_iter().filter(ours) {
            let name = path.display();
            let text = std::fs::read_to_string(&path).unwrap();
            let code: String =
                text.lines().filter(|line| !line.trim_start().starts_with("--")).collect::<Vec<_>>().join("\n");
            // What is between quotes is not code.
            let code = code.split('\'').step_by(2).collect::<Vec<_>>().join("''");
            let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
            for (at, _) in code.match_indices('(') {
                let before = &code[..at];
                let called = &before[before.rfind(|c| !is_name(c)).map_or(0, |i| i + 1)..];
                let is_alias = before[..at - called.len()].trim_end().to_lowercase().ends_with(" as");
                let is_whole = called.is_empty() || called.contains('.') || KEYWORDS.contains(&&*called.to_lowercase());
                assert!(is_whole || is_alias || called.starts_with('$'), "{name} calls {called}");
            }
        }
    }
}
