//! `headwater lag`

use std::io::IsTerminal;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use clap::Args;
use headwater::{Headwater, Holder, SubscriberInfo, SubscriberStore};
use serde_json::json;

use crate::commands::subscribers::view;
use crate::connection::ConnectionArgs;
use crate::duration::{format_age, parse_short};
use crate::failure::Failure;
use crate::held;
use crate::output::{Output, grouped, printable};

/// Clears the terminal and goes to its corner.
const REDRAW: &str = "\x1b[2J\x1b[H";

/// Show how far subscribers are behind, of one namespace or of all
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater lag
  headwater lag -n shop --watch
  headwater lag --watch --interval 10s --json >> lag.jsonl

BEHIND counts sequences: at most so many events. FOR is the age of the oldest of them. Whoever
holds a log back is named, with the statement that ends it.")]
pub(crate) struct Lag {
    /// The namespace; without it, all
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Again and again, until Ctrl-C: redrawn in a terminal, else one line a subscriber
    #[arg(long)]
    watch: bool,
    /// How often
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = parse_short, requires = "watch")]
    interval: Duration,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

/// A namespace, who holds it back, and its subscribers.
type Lags = Vec<(String, Vec<Holder>, Vec<SubscriberInfo>)>;

impl Lag {
    pub(crate) async fn run(self, connection: &ConnectionArgs) -> Result<(), Failure> {
        let headwater = connection.connect().await?;
        let mut output = Output::new();
        if !self.watch {
            let lags = held::unless_locked(&headwater, self.look(&headwater)).await?;
            if self.json {
                lines(&mut output, &lags, true)?
            } else {
                table(&mut output, &lags)?
            }
            headwater.shutdown().await;
            return output.finish();
        }
        let redraw = !self.json && std::io::stdout().is_terminal();
        loop {
            let lags = held::unless_locked(&headwater, self.look(&headwater)).await?;
            if redraw {
                output.line(format_args!("{REDRAW}{}\n", Utc::now().format("%F %T UTC")))?;
                table(&mut output, &lags)?;
            } else {
                lines(&mut output, &lags, self.json)?;
            }
            output.flush()?;
            tokio::time::sleep(self.interval).await;
        }
    }

    async fn look(&self, headwater: &Headwater) -> Result<Lags, Failure> {
        let names = match &self.namespace {
            Some(name) => vec![name.clone()],
            None => headwater.namespaces().await?.into_iter().map(|info| info.name).collect(),
        };
        let mut lags = Vec::new();
        for name in names {
            let subscribers = headwater.namespace(&name).await?.subscribers().subscribers().await?;
            let holders = held::holders(headwater, &name).await?;
            lags.push((name, holders, subscribers));
        }
        Ok(lags)
    }
}

fn table(output: &mut Output, lags: &Lags) -> Result<(), Failure> {
    let heading = ["NAMESPACE", "SUBSCRIBER", "STATE", "POSITION", "BEHIND", "FOR"].map(String::from);
    let all = lags.iter().flat_map(|(namespace, _, all)| all.iter().map(move |info| (namespace, info)));
    let rows = all.map(|(namespace, info)| {
        [
            namespace.clone(),
            printable(&info.subscriber_id),
            view::state(info).into(),
            info.position.to_string(),
            grouped(info.lag_events),
            format_age(info.lag),
        ]
    });
    output.table(&[heading].into_iter().chain(rows).collect::<Vec<_>>())?;
    lags.iter().try_for_each(|(namespace, holders, _)| held::print(output, namespace, holders))
}

fn lines(output: &mut Output, lags: &Lags, as_json: bool) -> Result<(), Failure> {
    let now: DateTime<Utc> = Utc::now();
    let all = lags.iter().flat_map(|(namespace, holders, all)| all.iter().map(move |info| (namespace, holders, info)));
    for (namespace, holders, info) in all {
        let holders = held::of_subscriber(holders, &info.subscriber_id);
        if as_json {
            output.json(&json!({
                "at": now,
                "namespace": namespace,
                "subscriber_id": info.subscriber_id,
                "state": view::state(info),
                "position": info.position,
                "lag_events": info.lag_events,
                "lag_seconds": info.lag.as_secs_f64(),
                "held_by": holders,
            }))?;
            continue;
        }
        let at = now.to_rfc3339_opts(SecondsFormat::Secs, true);
        let (id, state) = (printable(&info.subscriber_id), view::state(info));
        let (events, age) = (grouped(info.lag_events), format_age(info.lag));
        let by: Vec<_> = holders.iter().map(|holder| printable(&holder.to_string())).collect();
        let by = if by.is_empty() { String::new() } else { format!(", held back by {}", by.join("; ")) };
        output.line(format_args!("{at}  {namespace}  {id}  {state}  {events} behind for {age}{by}"))?;
    }
    Ok(())
}
