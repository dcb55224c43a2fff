//! Asks for confirmation before a change that cannot be undone.

use std::io::{IsTerminal, Write};

use clap::Args;

use crate::failure::Failure;

#[derive(Debug, Args)]
pub(crate) struct ConfirmArgs {
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
}

impl ConfirmArgs {
    /// Says what will happen and asks for confirmation. Without a terminal, this fails unless --yes
    /// was given.
    pub(crate) async fn confirm(&self, what: &str) -> Result<(), Failure> {
        if self.yes {
            return Ok(());
        }
        if !std::io::stdin().is_terminal() {
            return Err(Failure::invalid(format!("not confirmed: {what}")).help("repeat it with --yes"));
        }
        eprint!("{what}\ngo on? [y/N] ");
        _ = std::io::stderr().flush();
        // Read on another thread, so that Ctrl-C can end the process while it waits for the answer.
        let answer = tokio::task::spawn_blocking(|| {
            let mut answer = String::new();
            std::io::stdin().read_line(&mut answer).map(|_| answer)
        });
        match answer.await {
            Ok(Ok(answer)) if ["y", "yes"].contains(&answer.trim().to_lowercase().as_str()) => Ok(()),
            _ => Err(Failure::invalid("not confirmed: nothing was done")),
        }
    }
}
