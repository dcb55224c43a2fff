//! CPU time of the server and of this program. On a machine with other load it varies less than
//! elapsed time.

use std::fs;

/// Positions of fields in `/proc/<pid>/stat`, counted after the name. The last `)` ends the name.
const PARENT: usize = 1;
const USER: usize = 11;
const SYSTEM: usize = 12;
const CHILDREN_USER: usize = 13;
const CHILDREN_SYSTEM: usize = 14;
/// Linux reports times in hundredths of a second, whatever the tick rate of its own clock.
const TICKS_PER_SECOND: f64 = 100.0;

/// CPU time in seconds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CpuTime {
    /// All processes of the server, including those that have ended.
    pub(crate) server: f64,
    /// This process.
    pub(crate) client: f64,
}

impl CpuTime {
    /// Returns the time used until now; `None` where there is no `/proc`.
    pub(crate) fn now(postmaster: u32) -> Option<Self> {
        let server = processes()
            .filter_map(|pid| fields(&pid).map(|fields| (pid, fields)))
            .map(|(pid, fields)| {
                let of = |places: &[usize]| places.iter().filter_map(|place| fields.get(*place)).sum::<i64>();
                match pid.parse::<u32>() {
                    Ok(pid) if pid == postmaster => of(&[USER, SYSTEM, CHILDREN_USER, CHILDREN_SYSTEM]),
                    _ if fields.get(PARENT) == Some(&i64::from(postmaster)) => of(&[USER, SYSTEM]),
                    _ => 0,
                }
            })
            .sum::<i64>();
        let own = fields("self")?;
        let client = own.get(USER)? + own.get(SYSTEM)?;
        Some(CpuTime { server: server as f64 / TICKS_PER_SECOND, client: client as f64 / TICKS_PER_SECOND })
    }

    pub(crate) fn since(self, earlier: Self) -> Self {
        CpuTime { server: self.server - earlier.server, client: self.client - earlier.client }
    }
}

fn processes() -> impl Iterator<Item = String> {
    let names = fs::read_dir("/proc").into_iter().flatten().flatten();
    names.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| name.parse::<u32>().is_ok())
}

/// Returns the fields from the state on. The state itself is not a number and becomes 0.
fn fields(pid: &str) -> Option<Vec<i64>> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    Some(rest.split_whitespace().map(|field| field.parse().unwrap_or_default()).collect())
}
