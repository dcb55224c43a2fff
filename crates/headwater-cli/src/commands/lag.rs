//! `headwater lag`

use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use std::time::Duration;

use chrono::{DateTime, SecondsFormat, Utc};
use clap::Args;
use headwater::Headwater;
use headwater::admin::Holder;
use headwater::delivery::{OperatorStore, PartitionInfo, SubscriberError, SubscriberInfo, SubscriberMode};
use headwater::queue::QueueInfo;
use serde_json::json;

use crate::commands::groups::view as groups;
use crate::commands::queue;
use crate::commands::subscribers::view;
use crate::connection::ConnectionArgs;
use crate::duration::{format_age, parse_short};
use crate::failure::{Failure, unless_gone};
use crate::held;
use crate::output::{Output, grouped, plural, printable};

/// Clears the terminal and moves the cursor to its top left corner.
const REDRAW: &str = "\x1b[2J\x1b[H";

/// Show how far behind subscribers are, of one namespace or of all
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  headwater lag
  headwater lag -n shop --watch
  headwater lag -n shop --partitions
  headwater lag --watch --interval 10s --json >> lag.jsonl

BEHIND and WAITING count sequences, so there are at most that many events. FOR is the age of the
oldest of them. Queues are shown in their own table: see `headwater queue`. A subscriber with
partitions is shown by the partition that is furthest behind; --partitions shows each partition, and
--json always has all of them. The output names who holds a log back, with the statement that ends
it.")]
pub(crate) struct Lag {
    /// The namespace [default: all]
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    /// Show one line per partition, for subscribers with partitions
    #[arg(long)]
    partitions: bool,
    /// Repeat until Ctrl-C. A terminal is redrawn; otherwise, each look prints one line per
    /// subscriber
    #[arg(long)]
    watch: bool,
    /// The time between two looks
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = parse_short, requires = "watch")]
    interval: Duration,
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

struct Lags {
    /// Each namespace with its holders and its subscribers.
    namespaces: Vec<(String, Vec<Holder>, Vec<SubscriberLag>)>,
    /// Holders of all namespaces.
    of_all: Vec<Holder>,
}

struct SubscriberLag {
    info: SubscriberInfo,
    /// Empty if the subscriber is not partitioned, or if its partitions were not asked for.
    partitions: Vec<PartitionInfo>,
    /// The queue, if the subscriber is shared.
    queue: Option<QueueInfo>,
}

impl SubscriberLag {
    /// The rows to show, with state, position and lag: one per partition, or one for the
    /// subscriber.
    fn rows(&self) -> Vec<(Option<&PartitionInfo>, &'static str, u64, u64)> {
        if self.partitions.is_empty() {
            let state = self.queue.as_ref().map_or(view::state(&self.info), view::queue_state);
            return vec![(None, state, self.info.position, self.info.lag_events)];
        }
        let mut rows = Vec::new();
        for partition in &self.partitions {
            let state = groups::state(&self.info, partition);
            rows.push((Some(partition), state, partition.position, partition.lag_events));
        }
        rows
    }
}

impl Lag {
    pub(crate) async fn run(self, connection: &ConnectionArgs) -> Result<(), Failure> {
        let headwater = connection.connect().await?;
        let mut output = Output::new();
        if !self.watch {
            let lags = held::unless_locked(&headwater, self.look(&headwater)).await?;
            if self.json {
                lines(&mut output, &lags, true)?
            } else {
                table(&mut output, &lags, self.partitions)?
            }
            headwater.shutdown().await;
            return output.finish();
        }
        let redraw = !self.json && std::io::stdout().is_terminal();
        loop {
            let lags = held::unless_locked(&headwater, self.look(&headwater)).await?;
            if redraw {
                output.line(format_args!("{REDRAW}{}\n", Utc::now().format("%F %T UTC")))?;
                table(&mut output, &lags, self.partitions)?;
            } else {
                lines(&mut output, &lags, self.json)?;
            }
            output.flush()?;
            tokio::time::sleep(self.interval).await;
        }
    }

    async fn look(&self, headwater: &Headwater) -> Result<Lags, Failure> {
        // Only namespaces that somebody holds are asked for their holders.
        let (all, queues, held) = match &self.namespace {
            Some(name) => {
                let store = headwater.namespace(name).await?.subscribers();
                let all = store.subscribers().await?.into_iter().map(|info| (name.clone(), info)).collect();
                (all, headwater.admin().queues_of(name, None).await?, BTreeSet::from([name.clone()]))
            }
            None => {
                let held = headwater.admin().namespace_statuses().await?.into_iter().filter(|status| status.is_held);
                let held = held.map(|status| status.name).collect();
                (headwater.admin().subscribers().await?, headwater.admin().queues().await?, held)
            }
        };
        let of_all = held::holders_of_all(headwater).await?;
        let mut queues: BTreeMap<(String, String), QueueInfo> =
            queues.into_iter().map(|queue| ((queue.namespace.clone(), queue.subscriber_id.clone()), queue)).collect();
        let mut by_namespace = BTreeMap::<String, Vec<SubscriberLag>>::new();
        for (name, info) in all {
            let wanted = self.partitions || self.json;
            let partitions = match info.mode {
                SubscriberMode::Partitioned { .. } if wanted => {
                    match partitions(headwater, &name, &info.subscriber_id).await? {
                        Some(partitions) => partitions,
                        None => continue,
                    }
                }
                _ => Vec::new(),
            };
            let queue = queues.remove(&(name.clone(), info.subscriber_id.clone()));
            by_namespace.entry(name).or_default().push(SubscriberLag { info, partitions, queue });
        }
        for name in &held {
            by_namespace.entry(name.clone()).or_default();
        }
        let mut namespaces = Vec::new();
        for (name, subscribers) in by_namespace {
            let holders = match held.contains(&name) {
                true => unless_gone(held::holders(headwater, &name).await)?.unwrap_or_default(),
                false => Vec::new(),
            };
            namespaces.push((name, holders, subscribers));
        }
        Ok(Lags { namespaces, of_all })
    }
}

/// Returns `None` if the subscriber, or its namespace, was removed in the meantime.
async fn partitions(
    headwater: &Headwater,
    namespace: &str,
    subscriber_id: &str,
) -> Result<Option<Vec<PartitionInfo>>, Failure> {
    let Some(namespace) = unless_gone(headwater.namespace(namespace).await)? else { return Ok(None) };
    match namespace.subscribers().group(subscriber_id).await {
        Err(SubscriberError::NotFound(_)) => Ok(None),
        group => Ok(unless_gone(group)?.map(|group| group.partitions)),
    }
}

fn table(output: &mut Output, lags: &Lags, by_partition: bool) -> Result<(), Failure> {
    let every = || lags.namespaces.iter().flat_map(|(namespace, _, all)| all.iter().map(move |lag| (namespace, lag)));
    let queues: Vec<&QueueInfo> = every().filter_map(|(_, lag)| lag.queue.as_ref()).collect();
    let all = || every().filter(|(_, lag)| lag.queue.is_none());
    let any = queues.is_empty() || all().next().is_some();
    if by_partition && any {
        let heading =
            ["NAMESPACE", "SUBSCRIBER", "PARTITION", "OWNER", "STATE", "POSITION", "BEHIND"].map(String::from);
        let rows = all().flat_map(|(namespace, lag)| {
            lag.rows().into_iter().map(move |(partition, state, position, events)| {
                [
                    namespace.clone(),
                    printable(&lag.info.subscriber_id),
                    partition.map_or("-".into(), |partition| partition.partition.to_string()),
                    partition.map_or_else(|| owner(&lag.info), groups::owner),
                    state.into(),
                    position.to_string(),
                    grouped(events),
                ]
            })
        });
        output.table(&[heading].into_iter().chain(rows).collect::<Vec<_>>())?;
    } else if any {
        let heading = ["NAMESPACE", "SUBSCRIBER", "STATE", "POSITION", "BEHIND", "FOR"].map(String::from);
        let rows = all().map(|(namespace, SubscriberLag { info, .. })| {
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
    }
    if !queues.is_empty() {
        if any {
            output.line("")?;
        }
        queue::table(output, queues)?;
    }
    let mut namespaces = lags.namespaces.iter();
    namespaces.try_for_each(|(namespace, holders, _)| held::print(output, namespace, holders))?;
    if lags.namespaces.iter().any(|(_, holders, _)| !holders.is_empty()) {
        // The session that holds all namespaces is named there already.
        return Ok(());
    }
    held::print(output, held::ALL, &lags.of_all)
}

fn owner(info: &SubscriberInfo) -> String {
    info.owner.as_ref().map_or("-".into(), |owner| printable(&owner.node))
}

fn lines(output: &mut Output, lags: &Lags, as_json: bool) -> Result<(), Failure> {
    let now: DateTime<Utc> = Utc::now();
    let all = lags.namespaces.iter().flat_map(|(namespace, holders, all)| {
        let holders = if holders.is_empty() { &lags.of_all } else { holders };
        all.iter().map(move |lag| (namespace, holders, lag))
    });
    for (namespace, holders, lag) in all {
        let info = &lag.info;
        let holders = held::of_subscriber(holders, &info.subscriber_id);
        if as_json {
            let partition = |(partition, state, position, lag_events): (Option<&PartitionInfo>, _, _, _)| {
                let partition = partition?;
                Some(json!({
                    "partition": partition.partition,
                    "owner": partition.owner,
                    "state": state,
                    "position": position,
                    "lag_events": lag_events,
                }))
            };
            let mut line = json!({
                "at": now,
                "namespace": namespace,
                "subscriber_id": info.subscriber_id,
                "mode": info.mode.name(),
                "state": lag.queue.as_ref().map_or(view::state(info), view::queue_state),
                "position": info.position,
                "lag_events": info.lag_events,
                "lag_seconds": info.lag.as_secs_f64(),
                "partitions": lag.rows().into_iter().filter_map(partition).collect::<Vec<_>>(),
                "held_by": holders,
            });
            if let Some(queue) = &lag.queue {
                line["workers"] = queue.workers.into();
                line["waiting"] = queue.waiting.into();
                line["in_flight"] = queue.in_flight.into();
                line["retries"] = queue.retries.into();
                line["left_behind"] = json!(queue.left_behind);
                line["rate"] = queue.rate.into();
            }
            output.json(&line)?;
            continue;
        }
        let at = now.to_rfc3339_opts(SecondsFormat::Secs, true);
        let (id, age) = (printable(&info.subscriber_id), format_age(info.lag));
        let by: Vec<_> = holders.iter().map(|holder| printable(&holder.to_string())).collect();
        let by = if by.is_empty() { String::new() } else { format!(", held back by {}", by.join("; ")) };
        if let Some(queue) = &lag.queue {
            let (state, workers) = (view::queue_state(queue), plural(queue.workers, "worker"));
            let (waiting, in_flight) = (grouped(queue.waiting), grouped(queue.in_flight));
            output.line(format_args!(
                "{at}  {namespace}  {id}  {state}  {waiting} waiting for {age}, {in_flight} in flight, {workers}{by}"
            ))?;
            continue;
        }
        for (partition, state, _, events) in lag.rows() {
            let events = grouped(events);
            match partition {
                None => {
                    output.line(format_args!("{at}  {namespace}  {id}  {state}  {events} behind for {age}{by}"))?;
                }
                Some(PartitionInfo { partition, .. }) => {
                    output.line(format_args!(
                        "{at}  {namespace}  {id}  partition {partition}  {state}  {events} behind{by}"
                    ))?;
                }
            }
        }
    }
    Ok(())
}
