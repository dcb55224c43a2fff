//! Where a local `headwater up` keeps its data.

use std::path::PathBuf;

/// Says where that is, for whoever starts a server and whoever looks for one.
pub(crate) const ENV: &str = "HEADWATER_DATA";

/// The folder that the environment names, or else the user's own; `None`: there is no home to put it in.
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
