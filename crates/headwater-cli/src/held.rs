//! Who holds appends and deliveries back, as every command that shows progress names them.

use std::collections::BTreeMap;
use std::time::Duration;

use headwater::Headwater;
use headwater::admin::Holder;

use crate::failure::{Exit, Failure};
use crate::output::{Output, printable};

/// Transactions that are open for less, and for which nobody waits, hold nothing back that anybody would notice.
const LASTING: Duration = Duration::from_secs(1);

/// How the output names what concerns all namespaces.
pub(crate) const ALL: &str = "the database";

/// Who holds all namespaces back: locks on tables, standbys that commits wait for.
pub(crate) async fn holders_of_all(headwater: &Headwater) -> Result<Vec<Holder>, Failure> {
    let mut holders = headwater.holders(None).await?;
    holders.retain(|holder| holder.is_lasting(LASTING));
    Ok(holders)
}

/// Who holds a namespace back.
pub(crate) async fn holders(headwater: &Headwater, namespace: &str) -> Result<Vec<Holder>, Failure> {
    let mut holders = headwater.holders(Some(namespace)).await?;
    holders.retain(|holder| holder.is_lasting(LASTING));
    Ok(holders)
}

/// Who holds namespaces back, by the name of the namespace.
pub(crate) struct Holders {
    by_namespace: BTreeMap<String, Vec<Holder>>,
    /// Who holds all of them back.
    of_all: Vec<Holder>,
}

/// Who holds one namespace back, or each of all. Of all, only those that somebody holds are asked
/// by whom.
pub(crate) async fn look(headwater: &Headwater, namespace: Option<&str>) -> Result<Holders, Failure> {
    let held: Vec<String> = match namespace {
        Some(name) => vec![name.to_owned()],
        None => {
            let statuses = headwater.namespace_statuses().await?;
            statuses.into_iter().filter(|status| status.is_held).map(|status| status.name).collect()
        }
    };
    let of_all = if namespace.is_none() { holders_of_all(headwater).await? } else { Vec::new() };
    let mut by_namespace = BTreeMap::new();
    for name in held {
        let found = holders(headwater, &name).await?;
        by_namespace.insert(name, found);
    }
    Ok(Holders { by_namespace, of_all })
}

impl Holders {
    /// Those of a namespace.
    pub(crate) fn of(&self, namespace: &str) -> &[Holder] {
        self.by_namespace.get(namespace).filter(|holders| !holders.is_empty()).unwrap_or(&self.of_all)
    }

    /// Prints those for which `concerns` holds, of each namespace, each with the statement that
    /// ends it.
    pub(crate) fn print(&self, output: &mut Output, concerns: impl Fn(&str, &Holder) -> bool) -> Result<(), Failure> {
        for (namespace, holders) in &self.by_namespace {
            print(output, namespace, holders.iter().filter(|holder| concerns(namespace, holder)))?;
        }
        if self.by_namespace.values().any(|holders| !holders.is_empty()) {
            // The session that holds all of them was named there.
            return Ok(());
        }
        print(output, ALL, &self.of_all)
    }
}

/// Those of them that a subscriber is held by.
pub(crate) fn of_subscriber<'h>(holders: &'h [Holder], subscriber_id: &str) -> Vec<&'h Holder> {
    holders.iter().filter(|holder| holder.concerns(subscriber_id)).collect()
}

/// A namespace's holders, each with the statement that ends it.
pub(crate) fn print<'h>(
    output: &mut Output,
    namespace: &str,
    holders: impl IntoIterator<Item = &'h Holder>,
) -> Result<(), Failure> {
    let mut holders = holders.into_iter().peekable();
    if holders.peek().is_some() {
        output.line(format_args!("\n{namespace} is held back:"))?;
    }
    holders.try_for_each(|holder| {
        output.line(format_args!("  {}", printable(&holder.to_string())))?;
        output.line(format_args!("    to end it: {}", printable(&holder.ended_by)))
    })
}

/// Does the work of a command. If it takes long because somebody has locked a table, says who, instead of waiting with it.
pub(crate) async fn unless_locked<T>(
    headwater: &Headwater,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    match headwater.unless_locked(work).await {
        Ok(done) => done,
        Err(holder) => {
            let message = format!("what this command reads is locked: {}", printable(&holder.to_string()));
            Err(Failure::new(Exit::Conflict, message).help(format!("to end it: {}", printable(&holder.ended_by))))
        }
    }
}
