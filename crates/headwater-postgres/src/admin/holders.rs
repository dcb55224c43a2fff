//! Who holds back appends or deliveries.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, Utc};
use headwater_core::AdminError;
use serde::{Serialize, Serializer};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::database::error::admin_error;
use crate::database::number::{count, sequence_or_null};
use crate::{Database, sql};

/// Something that is held, and who holds it: appends or deliveries wait for it, or would wait if
/// there were any.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Holder {
    /// What is held: `log`, `counter`, `queue`, `claim`, `subscriber`, `schedule`, `due_event`,
    /// `settings`, `latch`, `table`, `slot` or `standby`. `headwater.holders` in docs/sql.md says
    /// what waits for each.
    pub holds: String,
    /// The name of the subscriber, schedule, table, slot or standby.
    pub name: Option<String>,
    /// The server process; `None`: a prepared transaction, or no process at all.
    pub pid: Option<i32>,
    /// The session's application_name, or the name of the prepared transaction.
    pub application_name: Option<String>,
    /// The login role.
    pub role: Option<String>,
    /// Whether that role has a grant in the namespace, or owns the schema.
    pub granted: Option<bool>,
    /// When its transaction began, by the database's clock; `None`: not visible to this role.
    pub since: Option<DateTime<Utc>>,
    /// How long ago its transaction began, at the time of the call.
    #[serde(rename = "age_seconds", serialize_with = "seconds")]
    pub age: Option<Duration>,
    /// How many sessions wait for it.
    pub waiting: u32,
    /// How long the first of these sessions has waited.
    #[serde(rename = "waiting_seconds", serialize_with = "seconds")]
    pub waiting_for: Option<Duration>,
    /// If `log` is held: its events lie above this sequence.
    pub above_sequence: Option<u64>,
    /// The statement that ends it.
    pub ended_by: String,
}

impl Holder {
    /// Returns whether it has been held for `at_least`, or somebody waits for it, or its age is not
    /// visible.
    pub fn is_lasting(&self, at_least: Duration) -> bool {
        self.waiting > 0 || self.age.is_none_or(|age| age >= at_least)
    }

    /// Returns whether it can hold back this subscriber. What is held of another subscriber cannot.
    pub fn concerns(&self, subscriber_id: &str) -> bool {
        !matches!(self.holds.as_str(), "queue" | "claim" | "subscriber") || self.name.as_deref() == Some(subscriber_id)
    }

    /// Describes what is held, and what waits for it.
    pub fn effect(&self) -> String {
        let name = self.name.as_deref().unwrap_or_default();
        match self.holds.as_str() {
            "log" => format!("may still commit events above {}", self.above_sequence.unwrap_or_default()),
            "counter" => "holds the counter of the log: every append waits".into(),
            "queue" => format!("holds the queue of subscriber {name}: every claim waits"),
            "claim" => format!("holds a claim of subscriber {name}: nobody else gets its events"),
            "subscriber" => format!("holds subscriber {name}: its checkpoints and leases wait"),
            "schedule" => format!("holds schedule {name}, which does not fire"),
            "due_event" => "holds events that are due, which are not appended".into(),
            "latch" => format!("holds the latch {name}: whoever is to do the same waits"),
            "settings" => "holds the settings of the namespace: maintenance waits".into(),
            "table" => format!("holds a lock on {name}, or is in the queue for one: whoever needs the table waits"),
            "slot" => format!("nobody reads replication slot {name}: the server keeps its WAL"),
            "standby" => format!("commits wait for the synchronous standbys {name}"),
            other => format!("holds {other} {name}"),
        }
    }
}

/// `pid 123 (psql, role eve, without a grant, open for 12s) may still commit events above 5`
impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_transaction = self.pid.is_some() || self.application_name.is_some();
        if !is_transaction {
            return f.write_str(&self.effect());
        }
        let application = self.application_name.as_deref().filter(|name| !name.is_empty());
        let mut facts = Vec::new();
        match (self.pid, application) {
            (Some(pid), application) => {
                write!(f, "pid {pid} (")?;
                facts.extend(application.map(str::to_owned));
            }
            (None, application) => write!(f, "{} (", application.unwrap_or("a prepared transaction"))?,
        }
        facts.push(self.role.as_deref().map_or("a role that is gone".into(), |role| format!("role {role}")));
        if self.granted == Some(false) {
            facts.push("without a grant".into());
        }
        facts.push(match (self.age, self.waiting_for) {
            (Some(age), _) => format!("open for {}", rounded(age)),
            (None, Some(waiting)) => format!("open for {} or longer", rounded(waiting)),
            (None, None) => "since when is not visible to this role".into(),
        });
        match self.waiting {
            0 => {}
            1 => facts.push("1 session waits".into()),
            waiting => facts.push(format!("{waiting} sessions wait")),
        }
        write!(f, "{}) {}", facts.join(", "), self.effect())
    }
}

fn rounded(age: Duration) -> String {
    match age.as_secs() {
        0 => format!("{}ms", age.as_millis()),
        seconds @ 1..120 => format!("{seconds}s"),
        seconds @ 120..7_200 => format!("{}m", seconds / 60),
        seconds => format!("{}h", seconds / 3_600),
    }
}

fn seconds<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    duration.map(|duration| duration.as_secs_f64()).serialize(serializer)
}

impl Database {
    /// Lists who holds back appends or deliveries of a namespace, oldest first. `None` lists what
    /// concerns all namespaces: locks on tables and commits that wait. It waits for nobody.
    pub async fn holders(&self, namespace: Option<&str>) -> Result<Vec<Holder>, AdminError> {
        let mut conn = self.pin().await.map_err(admin_error)?;
        let rows = sqlx::query(sql::admin::HOLDERS).bind(namespace).fetch_all(&mut *conn).await.map_err(admin_error);
        let rows = conn.end(rows, admin_error).await?;
        rows.iter().map(of_row).collect::<Result<_, _>>().map_err(admin_error)
    }
}

/// How long work may take before we check whether it waits for somebody.
const PATIENCE: Duration = Duration::from_secs(2);

impl Database {
    /// Runs `work`. If it takes seconds and somebody holds a lock on a table for which sessions
    /// wait, this gives up and returns that holder.
    pub async fn unless_locked<T>(&self, work: impl Future<Output = T>) -> Result<T, Holder> {
        let mut work = std::pin::pin!(work);
        loop {
            if let Ok(done) = tokio::time::timeout(PATIENCE, &mut work).await {
                return Ok(done);
            }
            let holders = self.holders(None).await.unwrap_or_default();
            if let Some(holder) = holders.into_iter().find(|holder| holder.holds == "table" && holder.waiting > 0) {
                return Err(holder);
            }
        }
    }
}

fn of_row(row: &PgRow) -> Result<Holder, sqlx::Error> {
    let duration = |column: &str| row.get::<Option<f64>, _>(column).map(|s| Duration::from_secs_f64(s.max(0.0)));
    Ok(Holder {
        holds: row.get("holds"),
        name: row.get("name"),
        pid: row.get("pid"),
        application_name: row.get("application_name"),
        role: row.get("role"),
        granted: row.get("granted"),
        since: row.get("since"),
        age: duration("age"),
        waiting: count(row, "waiting")?,
        waiting_for: duration("waiting_for"),
        above_sequence: sequence_or_null(row, "above_sequence")?,
        ended_by: row.get("ended_by"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder() -> Holder {
        Holder {
            holds: "log".into(),
            name: None,
            pid: Some(12),
            application_name: Some("psql".into()),
            role: Some("eve".into()),
            granted: Some(false),
            since: None,
            age: Some(Duration::from_millis(61_900)),
            waiting: 0,
            waiting_for: None,
            above_sequence: Some(5),
            ended_by: "SELECT pg_terminate_backend(12)".into(),
        }
    }

    #[test]
    fn a_holder_is_named_with_what_is_known_of_it() {
        let text = "pid 12 (psql, role eve, without a grant, open for 61s) may still commit events above 5";
        assert_eq!(holder().to_string(), text);
        let unseen = Holder { granted: Some(true), age: None, waiting: 2, ..holder() };
        let text = "pid 12 (psql, role eve, since when is not visible to this role, 2 sessions wait) may still commit events above 5";
        assert_eq!(unseen.to_string(), text);
        let prepared = Holder {
            holds: "counter".into(),
            pid: None,
            application_name: Some("prepared transaction x".into()),
            granted: Some(true),
            waiting: 1,
            ..holder()
        };
        let text = "prepared transaction x (role eve, open for 61s, 1 session waits) holds the counter of the log: every append waits";
        assert_eq!(prepared.to_string(), text);
        let slot = Holder {
            holds: "slot".into(),
            name: Some("s".into()),
            pid: None,
            application_name: None,
            role: None,
            ..holder()
        };
        assert_eq!(slot.to_string(), "nobody reads replication slot s: the server keeps its WAL");
    }

    #[test]
    fn a_subscriber_is_not_held_by_what_is_another_ones() {
        let queue = Holder { holds: "queue".into(), name: Some("mail".into()), ..holder() };
        assert!(queue.concerns("mail") && !queue.concerns("totals") && holder().concerns("totals"));
    }

    #[test]
    fn what_others_wait_for_lasts_and_so_does_what_cannot_be_seen() {
        let hour = Duration::from_secs(3_600);
        assert!(!holder().is_lasting(hour) && holder().is_lasting(Duration::from_secs(61)));
        assert!(Holder { waiting: 1, ..holder() }.is_lasting(hour));
        assert!(Holder { age: None, ..holder() }.is_lasting(hour));
    }
}
