//! Names who holds appends and deliveries back, for every command that shows progress.

use std::collections::BTreeMap;
use std::time::Duration;

use headwater::Headwater;
use headwater::admin::Holder;

use crate::failure::{Exit, Failure, unless_gone};
use crate::output::{Output, printable};

/// A holder that is younger than this, and for which nobody waits, is not shown.
const LASTING: Duration = Duration::from_secs(1);

/// The name in the output for what concerns all namespaces.
pub(crate) const ALL: &str = "the database";

/// Returns who holds all namespaces back: locks on tables, and standbys that commits wait for.
pub(crate) async fn holders_of_all(headwater: &Headwater) -> Result<Vec<Holder>, Failure> {
    let mut holders = headwater.admin().holders(None).await?;
    holders.retain(|holder| holder.is_lasting(LASTING));
    Ok(holders)
}

/// Returns who holds a namespace back.
pub(crate) async fn holders(headwater: &Headwater, namespace: &str) -> Result<Vec<Holder>, Failure> {
    let mut holders = headwater.admin().holders(Some(namespace)).await?;
    holders.retain(|holder| holder.is_lasting(LASTING));
    Ok(holders)
}

/// The holders of one namespace or of all.
pub(crate) struct Holders {
    by_namespace: BTreeMap<String, Vec<Holder>>,
    /// Holders of all namespaces.
    of_all: Vec<Holder>,
}

/// Finds who holds one namespace back, or all namespaces. Among all, only namespaces that are held
/// are asked for their holders.
pub(crate) async fn look(headwater: &Headwater, namespace: Option<&str>) -> Result<Holders, Failure> {
    let held: Vec<String> = match namespace {
        Some(name) => vec![name.to_owned()],
        None => {
            let statuses = headwater.admin().namespace_statuses().await?;
            statuses.into_iter().filter(|status| status.is_held).map(|status| status.name).collect()
        }
    };
    let of_all = if namespace.is_none() { holders_of_all(headwater).await? } else { Vec::new() };
    let mut by_namespace = BTreeMap::new();
    for name in held {
        if let Some(found) = unless_gone(holders(headwater, &name).await)? {
            by_namespace.insert(name, found);
        }
    }
    Ok(Holders { by_namespace, of_all })
}

impl Holders {
    /// Returns the holders of a namespace. If it has none of its own, returns the holders of all
    /// namespaces.
    pub(crate) fn of(&self, namespace: &str) -> &[Holder] {
        self.by_namespace.get(namespace).filter(|holders| !holders.is_empty()).unwrap_or(&self.of_all)
    }

    /// Prints the holders of each namespace that `concerns` accepts. Each is printed with the
    /// statement that ends it.
    pub(crate) fn print(&self, output: &mut Output, concerns: impl Fn(&str, &Holder) -> bool) -> Result<(), Failure> {
        for (namespace, holders) in &self.by_namespace {
            print(output, namespace, holders.iter().filter(|holder| concerns(namespace, holder)))?;
        }
        if self.by_namespace.values().any(|holders| !holders.is_empty()) {
            // The session that holds all namespaces is named there already.
            return Ok(());
        }
        print(output, ALL, &self.of_all)
    }
}

/// Returns the holders that hold this subscriber back.
pub(crate) fn of_subscriber<'h>(holders: &'h [Holder], subscriber_id: &str) -> Vec<&'h Holder> {
    holders.iter().filter(|holder| holder.concerns(subscriber_id)).collect()
}

/// Prints the holders of a namespace, each with the statement that ends it.
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

/// Runs the work of a command. If it waits for a table that somebody has locked, this ends the wait
/// and fails with the name of the holder.
pub(crate) async fn unless_locked<T>(
    headwater: &Headwater,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    match headwater.admin().unless_locked(work).await {
        Ok(done) => done,
        Err(holder) => {
            let message = format!("what this command reads is locked: {}", printable(&holder.to_string()));
            Err(Failure::new(Exit::Conflict, message).help(format!("to end it: {}", printable(&holder.ended_by))))
        }
    }
}
