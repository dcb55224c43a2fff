//! Who holds appends and deliveries back, as every command that shows progress names them.

use std::time::Duration;

use headwater::{Headwater, Holder};

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
