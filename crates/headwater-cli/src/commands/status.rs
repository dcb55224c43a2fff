//! `headwater status`

use clap::Args;
use headwater::Headwater;
use headwater::admin::{Holder, ServerStatus};
use headwater::log::{Horizon, Writer};
use serde_json::{Value, json};

use crate::connection::ConnectionArgs;
use crate::duration::format_age;
use crate::failure::{Failure, unless_gone};
use crate::held;
use crate::output::{Output, printable};

/// Show the server, the schema, the namespaces, and who holds their logs back
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater status
  headwater status --json | jq '.namespaces[] | select(.head > .horizon)'

If the database is not migrated, it shows only the server, and the exit code is 6.")]
pub(crate) struct Status {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Status {
    pub(crate) async fn run(self, connection: &ConnectionArgs) -> Result<(), Failure> {
        let headwater = connection.connect().await?;
        let server = headwater.admin().status().await?;
        if !server.durable {
            eprintln!("warning: fsync or synchronous_commit is off: a crash of the machine loses committed events");
        }
        // If the schema is missing or of another version, show the server before the command fails.
        let seen = held::unless_locked(&headwater, look(&headwater)).await;
        let mut output = Output::new();
        if self.json {
            output.json(&json(&server, seen.as_ref().unwrap_or(&Seen::default())))?;
        } else {
            print(&mut output, &server, seen.as_ref().ok())?;
        }
        output.finish()?;
        headwater.shutdown().await;
        seen.map(drop)
    }
}

/// A namespace.
struct Known {
    name: String,
    ordering: &'static str,
    horizon: Horizon,
    /// Who holds this namespace back. Empty if nobody holds it in particular.
    holders: Vec<Holder>,
}

/// What is known about all namespaces.
#[derive(Default)]
struct Seen {
    namespaces: Vec<Known>,
    /// Holders of all namespaces: locks on tables, and standbys that commits wait for.
    of_all: Vec<Holder>,
}

/// Looks at all namespaces with a few statements. Only namespaces that somebody holds are asked one
/// by one.
async fn look(headwater: &Headwater) -> Result<Seen, Failure> {
    let statuses = headwater.admin().namespace_statuses().await?;
    let of_all = headwater.admin().holders(None).await?;
    let mut namespaces = Vec::new();
    for status in statuses {
        let (horizon, holders) = if status.is_held {
            let horizon = unless_gone(horizon(headwater, &status.name).await)?;
            let holders = unless_gone(headwater.admin().holders(Some(&status.name)).await)?;
            let (Some(horizon), Some(holders)) = (horizon, holders) else { continue };
            (horizon, holders)
        } else {
            let end = status.last_sequence;
            (Horizon { head: end, horizon: end, writers: Vec::new() }, Vec::new())
        };
        namespaces.push(Known { name: status.name, ordering: status.ordering.as_str(), horizon, holders });
    }
    Ok(Seen { namespaces, of_all })
}

/// Returns how far a log is settled. While nobody writes, the head is the last event that can be
/// read. Later sequences were handed out to transactions that were rolled back, and would look like
/// a stall.
pub(crate) async fn horizon(headwater: &Headwater, namespace: &str) -> Result<Horizon, Failure> {
    // Look at the end first: an event beyond the horizon was then there when the horizon was read.
    let end = headwater.admin().log_end(namespace).await?;
    let horizon = headwater.admin().horizon(namespace).await?;
    let head = if horizon.writers.is_empty() { end.max(horizon.horizon) } else { horizon.head };
    Ok(Horizon { head, ..horizon })
}

fn print(output: &mut Output, server: &ServerStatus, seen: Option<&Seen>) -> Result<(), Failure> {
    let schema = match server.schema_version {
        0 => "not migrated".into(),
        version => format!("version {version}"),
    };
    output.table(&[
        ["server".into(), format!("PostgreSQL {} at {}", server.server_version, server.address)],
        ["started".into(), server.started_at.format("%F %T UTC").to_string()],
        ["durable".into(), if server.durable { "yes".into() } else { "NO".into() }],
        ["wal_level".into(), server.wal_level.clone()],
        ["schema".into(), schema],
    ])?;
    let Some(Seen { namespaces, of_all }) = seen else { return Ok(()) };
    output.line("")?;
    if namespaces.is_empty() {
        return output.line("no namespaces yet: headwater namespace create NAME");
    }
    let heading = ["NAMESPACE", "ORDERING", "HEAD", "HORIZON", "PENDING WRITERS"].map(String::from);
    let rows = namespaces.iter().map(|Known { name, ordering, horizon, .. }| {
        let writers = horizon.writers.len().to_string();
        [name.clone(), (*ordering).into(), horizon.head.to_string(), horizon.horizon.to_string(), writers]
    });
    output.table(&[heading].into_iter().chain(rows).collect::<Vec<_>>())?;
    namespaces.iter().try_for_each(|known| held::print(output, &known.name, &known.holders))?;
    if namespaces.iter().any(|known| !known.holders.is_empty()) {
        // The session that holds all namespaces is named there already.
        return Ok(());
    }
    held::print(output, held::ALL, of_all)
}

fn json(server: &ServerStatus, seen: &Seen) -> Value {
    let namespaces = seen.namespaces.iter().map(|Known { name, ordering, horizon, holders }| {
        let holders = if holders.is_empty() { &seen.of_all } else { holders };
        let mut value = json!({ "name": name, "ordering": ordering, "held_by": holders });
        if let (Value::Object(all), Value::Object(of_horizon)) = (&mut value, horizon_json(horizon)) {
            all.extend(of_horizon);
        }
        value
    });
    json!({
        "server": {
            "address": server.address,
            "version": server.server_version,
            "database": server.database,
            "started_at": server.started_at,
            "durable": server.durable,
            "wal_level": server.wal_level,
        },
        "schema_version": server.schema_version,
        "namespaces": namespaces.collect::<Vec<_>>(),
    })
}

/// The head, horizon and pending writers, as fields to add to a JSON object.
pub(crate) fn horizon_json(horizon: &Horizon) -> Value {
    json!({
        "head": horizon.head,
        "horizon": horizon.horizon,
        "pending_writers": horizon.writers.iter().map(writer_json).collect::<Vec<_>>(),
    })
}

pub(crate) fn writer_json(writer: &Writer) -> Value {
    json!({
        "pid": writer.pid,
        "application_name": writer.application_name,
        "above_sequence": writer.above_sequence,
        "started_at": writer.started_at,
        "age_seconds": writer.age.map(|age| age.as_secs_f64()),
    })
}

/// Names the process, its application, and how long its transaction has been open.
pub(crate) fn describe_writer(writer: &Writer) -> String {
    let application = writer.application_name.as_deref().map(printable).filter(|name| !name.is_empty());
    let who = match (writer.pid, application) {
        (Some(pid), Some(application)) => format!("pid {pid} ({application})"),
        (Some(pid), None) => format!("pid {pid}"),
        (None, application) => application.unwrap_or_else(|| "a prepared transaction".into()),
    };
    match writer.age {
        Some(age) => format!("{who}, its transaction is open for {}", format_age(age)),
        None => who,
    }
}
