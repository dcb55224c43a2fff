//! The folder in which a local `headwater up` keeps its data.

use std::path::PathBuf;

/// The variable that names the folder, both to start a server there and to find one.
pub(crate) const ENV: &str = "HEADWATER_DATA";

/// Returns the folder that the environment names, or the user's default folder. Returns `None` if
/// the user has no home folder.
pub(crate) fn folder() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(ENV).filter(|named| !named.is_empty()) {
        return Some(named.into());
    }
    if rustix::process::geteuid().is_root() {
        return Some("/var/lib/headwater".into());
    }
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || Some(std::env::home_dir()?.join(".local/share"));
    Some(set("XDG_DATA_HOME").or_else(home)?.join("headwater"))
}
