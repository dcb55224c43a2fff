//! `headwater cdc poison`

use chrono::SecondsFormat;
use clap::Args;
use headwater::Headwater;
use headwater::cdc::PoisonEvent;

use crate::failure::Failure;
use crate::output::{Output, printable};

/// List rows of the log that cannot be read as events. Readers skip them and do not wait for them
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater cdc poison -n shop
  headwater cdc poison -n shop --all --json

Repair the row in headwater.events, then run `headwater cdc redeliver`.")]
pub(crate) struct Poison {
    /// The namespace
    #[arg(short, long, value_name = "NAME")]
    namespace: String,
    /// Also list rows that were redelivered
    #[arg(long)]
    all: bool,
    /// List at most N rows
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

impl Poison {
    pub(super) async fn run(self, headwater: &Headwater, output: &mut Output) -> Result<(), Failure> {
        let poison = headwater.namespace(&self.namespace).await?.poison(self.all, self.limit).await?;
        if self.json {
            return poison.iter().try_for_each(|poison| output.json(poison));
        }
        if poison.is_empty() {
            return output.line("there is no poison");
        }
        let heading = ["SEQUENCE", "FOUND", "REDELIVERED", "ERROR"].map(String::from);
        let rows: Vec<_> = [heading].into_iter().chain(poison.iter().map(row)).collect();
        output.table(&rows)
    }
}

fn row(poison: &PoisonEvent) -> [String; 4] {
    let time = |time: chrono::DateTime<chrono::Utc>| time.to_rfc3339_opts(SecondsFormat::Secs, true);
    [
        poison.global_sequence.to_string(),
        time(poison.found_at),
        poison.redelivered_at.map(time).unwrap_or_default(),
        printable(&poison.error.replace('\n', " ")),
    ]
}
