//! `headwater read --follow`: prints the log as it grows.
//!
//! It ends when it is told to (Ctrl-C, SIGTERM, SIGHUP), after `--limit` events, or when the log
//! can no longer be followed. In each case it says where to go on. A database that goes away does
//! not end it.

use futures::{FutureExt, StreamExt};
use headwater::log::{FollowError, FollowQuery, Followed, Follower};

use super::Read;
use super::print::{Printer, held_back_by};
use crate::connection::ConnectionArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::signals::StopSignals;

/// What happened next.
enum Next {
    Item(Option<Result<Followed, FollowError>>),
    /// The command was told to stop.
    Stop,
}

impl Read {
    pub(crate) async fn follow(self, connection: &ConnectionArgs) -> Result<(), Failure> {
        // Listen first, so that no signal ends the process before it has printed the position.
        let mut signals = StopSignals::listen()?;
        let opening = async { Ok::<_, Failure>(connection.connect().await?.namespace(&self.namespace).await?) };
        let namespace = tokio::select! {
            opened = opening => opened?,
            _ = signals.received() => return Ok(()),
        };
        let mut output = Output::new();
        let mut follower = namespace.follow(self.follow_query());
        let followed = self.print_all(&mut follower, &mut signals, &mut output).await;
        let finished = output.finish();
        if followed.is_ok() && finished.is_ok() {
            let position = follower.position();
            eprintln!("stopped at {position}: go on with --after {position}");
        }
        followed.and(finished)
    }

    fn follow_query(&self) -> FollowQuery {
        let query = FollowQuery::after(self.after.unwrap_or(0)).event_types(&self.types);
        match &self.stream_prefix {
            Some(prefix) => query.stream_prefix(prefix),
            None => query,
        }
    }

    async fn print_all(
        &self,
        follower: &mut Follower,
        signals: &mut StopSignals,
        output: &mut Output,
    ) -> Result<(), Failure> {
        let printer = Printer::new(self.json);
        let mut left = self.limit;
        while left != Some(0) {
            match next(follower, signals, output).await? {
                Next::Stop | Next::Item(None) => return Ok(()),
                Next::Item(Some(Ok(Followed::Event(event)))) => {
                    printer.event(output, &event)?;
                    left = left.map(|left| left - 1);
                }
                Next::Item(Some(Ok(Followed::Stalled { from, writers, .. }))) => {
                    output.flush()?;
                    eprintln!("note: {}", held_back_by(u64::from(from) - 1, &writers));
                }
                Next::Item(Some(Ok(Followed::Resumed(position)))) => {
                    eprintln!("note: the log goes on after {position}");
                }
                Next::Item(Some(Ok(_))) => {}
                Next::Item(Some(Err(error))) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Returns what comes next. Flushes the output before it waits.
async fn next(follower: &mut Follower, signals: &mut StopSignals, output: &mut Output) -> Result<Next, Failure> {
    if signals.received().now_or_never().is_some() {
        return Ok(Next::Stop);
    }
    if let Some(item) = follower.next().now_or_never() {
        return Ok(Next::Item(item));
    }
    output.flush()?;
    Ok(tokio::select! {
        _ = signals.received() => Next::Stop,
        item = follower.next() => Next::Item(item),
    })
}
