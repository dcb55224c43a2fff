//! The user that PostgreSQL's programs run as: ourselves, or, because PostgreSQL refuses root, an
//! unprivileged user.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::EmbeddedError;

/// The first of these users that exists is used.
const UNPRIVILEGED: [&str; 2] = ["postgres", "nobody"];

#[derive(Clone, Debug)]
pub(crate) struct RunAs {
    /// `None`: as ourselves.
    user: Option<User>,
}

#[derive(Clone, Debug)]
struct User {
    name: String,
    uid: u32,
    gid: u32,
}

impl RunAs {
    /// Decides who runs a server on `data_dir`, which may not exist yet. Root uses the folder's
    /// owner, so that another user's folder continues to work and stays theirs.
    pub(crate) fn for_data_dir(data_dir: &Path) -> Result<Self, EmbeddedError> {
        let uid = rustix::process::geteuid().as_raw();
        let owner = fs::metadata(data_dir).ok().map(|meta| (meta.uid(), meta.gid()));
        let wrong = |owner, uid| Err(EmbeddedError::WrongOwner { data_dir: data_dir.to_path_buf(), owner, uid });
        match (uid, owner) {
            (0, None) => Ok(Self { user: Some(unprivileged()?) }),
            (0, Some((0, _))) => wrong(0, unprivileged()?.uid),
            (0, Some((uid, gid))) => Ok(Self { user: Some(User { name: name_of(uid), uid, gid }) }),
            (_, Some((owner, _))) if owner != uid => wrong(owner, uid),
            _ => Ok(Self { user: None }),
        }
    }

    /// Creates a command of that user. It runs in `/` (the user may not be able to enter our
    /// folder), in its own process group (we handle Ctrl-C), and without the PG… variables, which
    /// are meant for clients.
    pub(crate) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.current_dir("/").process_group(0).stdin(Stdio::null()).env("LC_ALL", "C");
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"PG") {
                command.env_remove(name);
            }
        }
        if let Some(user) = &self.user {
            command.uid(user.uid).gid(user.gid);
        }
        command
    }

    /// Runs a line of shell as that user, with `args` as `$1`, `$2`, …. Returns its output if it
    /// succeeded.
    pub(crate) fn shell(&self, script: &str, args: &[&Path]) -> Option<String> {
        let output = self.command("/bin/sh").args(["-c", script, "sh"]).args(args).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Gives a file or folder that we made to that user.
    pub(crate) fn give(&self, path: &Path) -> Result<(), EmbeddedError> {
        match &self.user {
            Some(user) => {
                chown(path, Some(user.uid), Some(user.gid)).map_err(EmbeddedError::io("change the owner of", path))
            }
            None => Ok(()),
        }
    }

    /// Asks the kernel, as that user, whether `path` (a program or a folder) may be entered,
    /// parents first.
    pub(crate) fn check_reach(&self, path: &Path) -> Result<(), EmbeddedError> {
        let Some(user) = &self.user else { return Ok(()) };
        let mut way: Vec<&Path> = path.ancestors().collect();
        way.reverse();
        let script = r#"for p in "$@"; do [ -x "$p" ] || { printf %s "$p"; exit 0; }; done"#;
        match self.shell(script, &way).as_deref() {
            Some("") => Ok(()),
            blocked => Err(EmbeddedError::Unreachable {
                user: user.name.clone(),
                path: path.to_path_buf(),
                blocked: blocked.map_or_else(|| path.to_path_buf(), PathBuf::from),
            }),
        }
    }
}

fn unprivileged() -> Result<User, EmbeddedError> {
    UNPRIVILEGED
        .iter()
        .find_map(|name| {
            let (uid, gid) = (id("-u", name)?.parse().ok()?, id("-g", name)?.parse().ok()?);
            Some(User { name: (*name).into(), uid, gid })
        })
        .ok_or(EmbeddedError::NoUnprivilegedUser)
}

fn name_of(uid: u32) -> String {
    let uid = uid.to_string();
    id("-un", &uid).unwrap_or(uid)
}

fn id(option: &str, user: &str) -> Option<String> {
    let output = Command::new("id").args([option, user]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
