//! `headwater status`

use clap::Args;
use headwater::{Headwater, Holder, Horizon, ServerStatus, Writer};
use serde_json::{Value, json};

use crate::connection::ConnectionArgs;
use crate::duration::format_age;
use crate::failure::Failure;
use crate::held;
use crate::output::{Output, printable};

/// Show the server, the schema, the namespaces, and who holds their logs back
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater status
  headwater status --json | jq '.namespaces[] | select(.head > .horizon)'

Of a database that is not migrated it shows what there is, and exits with 6.")]
pub(crate) struct Status {
    /// One JSON object
    #[arg(long)]
    json: bool,
}

impl Status {
    pub(crate) async fn run(self, connection: &ConnectionArgs) -> Result<(), Failure> {
        let headwater = connection.connect().await?;
        let server = headwater.status().await?;
        if !server.durable {
            eprintln!("warning: fsync or synchronous_commit is off: a crash of the machine loses committed events");
        }
        // What there is to show of a schema that is missing, or not ours, is shown before that ends the command.
        let namespaces = held::unless_locked(&headwater, look(&headwater)).await;
        let known = namespaces.as_deref().unwrap_or_default();
        let mut output = Output::new();
        if self.json {
            output.json(&json(&server, known))?;
        } else {
            print(&mut output, &server, known, namespaces.is_ok())?;
        }
        output.finish()?;
        headwater.shutdown().await;
        namespaces.map(drop)
    }
}

/// A namespace's name, ordering, horizon, and who holds it back.
type Known = (String, &'static str, Horizon, Vec<Holder>);

async fn look(headwater: &Headwater) -> Result<Vec<Known>, Failure> {
    let mut known = Vec::new();
    for info in headwater.namespaces().await? {
        let horizon = horizon(headwater, &info.name).await?;
        let holders = headwater.holders(Some(&info.name)).await?;
        known.push((info.name, info.ordering.as_str(), horizon, holders));
    }
    Ok(known)
}

/// How far a log is settled. While nobody writes, its head is the last event that can be read: sequences beyond were handed out to transactions that were rolled
/// back, and shown they would look like a stall.
pub(crate) async fn horizon(headwater: &Headwater, namespace: &str) -> Result<Horizon, Failure> {
    // First, so that whatever is beyond the horizon was there when that was looked at.
    let end = headwater.log_end(namespace).await?;
    let horizon = headwater.horizon(namespace).await?;
    let head = if horizon.writers.is_empty() { end.max(horizon.horizon) } else { horizon.head };
    Ok(Horizon { head, ..horizon })
}

fn print(output: &mut Output, server: &ServerStatus, known: &[Known], readable: bool) -> Result<(), Failure> {
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
    if !readable {
        return Ok(());
    }
    output.line("")?;
    if known.is_empty() {
        return output.line("no namespaces yet: headwater namespace create NAME");
    }
    let heading = ["NAMESPACE", "ORDERING", "HEAD", "HORIZON", "PENDING WRITERS"].map(String::from);
    let rows = known.iter().map(|(name, ordering, horizon, _)| {
        let writers = horizon.writers.len().to_string();
        [name.clone(), (*ordering).into(), horizon.head.to_string(), horizon.horizon.to_string(), writers]
    });
    output.table(&[heading].into_iter().chain(rows).collect::<Vec<_>>())?;
    known.iter().try_for_each(|(name, _, _, holders)| held::print(output, name, holders))
}

fn json(server: &ServerStatus, known: &[Known]) -> Value {
    let namespaces = known.iter().map(|(name, ordering, horizon, holders)| {
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

/// Head, horizon and pending writers, as fields to add to an object.
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

/// The process, its application, and for how long its transaction is open.
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
