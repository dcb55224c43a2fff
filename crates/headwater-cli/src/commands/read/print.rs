//! Events and gaps as lines: for people, or as JSON.

use chrono::SecondsFormat;
use headwater::RecordedEvent;
use headwater::log::{Gap, GapState, Writer};
use serde_json::json;

use crate::commands::status::{describe_writer, writer_json};
use crate::failure::Failure;
use crate::output::{Output, printable, shortened, width};

/// The fewest characters of an event's data that a line shows.
const MIN_DATA: usize = 16;

pub(super) struct Printer {
    json: bool,
    width: Option<usize>,
}

impl Printer {
    pub(super) fn new(json: bool) -> Self {
        Printer { json, width: width() }
    }

    pub(super) fn event(&self, output: &mut Output, event: &RecordedEvent) -> Result<(), Failure> {
        if self.json { output.json(event) } else { output.line(event_line(event, self.width)) }
    }

    pub(super) fn gap(&self, output: &mut Output, gap: &Gap) -> Result<(), Failure> {
        if !self.json {
            return output.line(gap_line(gap));
        }
        let (state, writers) = match &gap.state {
            GapState::Permanent => ("permanent", None),
            GapState::Trimmed => ("trimmed", None),
            GapState::Poison => ("poison", None),
            GapState::Pending(writers) => ("pending", Some(writers.iter().map(writer_json).collect::<Vec<_>>())),
        };
        let mut gap = json!({ "first": gap.first, "last": gap.last, "state": state });
        if let Some(writers) = writers {
            gap["writers"] = writers.into();
        }
        output.json(&json!({ "gap": gap }))
    }
}

/// Sequence, time, stream@version, type, data: aligned if names have a usual length.
fn event_line(event: &RecordedEvent, width: Option<usize>) -> String {
    let sequence = event.sequence();
    let time = event.recorded_at().to_rfc3339_opts(SecondsFormat::Millis, true);
    let place = match (&event.stream_id, event.stream_version()) {
        (Some(stream), Some(version)) => format!("{}@{version}", printable(stream)),
        _ => "-".into(),
    };
    let front = format!("{sequence:>8}  {time}  {place:<20}  {:<20}", printable(&event.event_type));
    let data = printable(event.data_text());
    match width {
        Some(width) => {
            format!("{front}  {}", shortened(&data, width.saturating_sub(front.chars().count() + 2).max(MIN_DATA)))
        }
        None => format!("{front}  {data}"),
    }
}

fn range(gap: &Gap) -> String {
    if gap.first == gap.last { gap.first.to_string() } else { format!("{}-{}", gap.first, gap.last) }
}

fn gap_line(gap: &Gap) -> String {
    let range = range(gap);
    match &gap.state {
        GapState::Permanent => format!("{range:>8}  gap, permanent: rolled back"),
        GapState::Trimmed => format!("{range:>8}  gap, trimmed: older than the namespace keeps its events"),
        GapState::Poison => format!("{range:>8}  gap, poison: cannot be read as events, see `headwater cdc poison`"),
        GapState::Pending(writers) => {
            let writers: Vec<_> = writers.iter().map(describe_writer).collect();
            format!("{range:>8}  gap, pending: {}", writers.join("; "))
        }
    }
}

/// Returns what to say if the read ends at this gap and gaps are not shown.
pub(super) fn held_back(gap: &Gap) -> Option<String> {
    let GapState::Pending(writers) = &gap.state else { return None };
    Some(held_back_by(gap.first - 1, writers))
}

/// Says who holds the log back above a sequence.
pub(super) fn held_back_by(above: u64, writers: &[Writer]) -> String {
    let writers: Vec<_> = writers.iter().map(describe_writer).collect();
    format!("the log is held back above {above}: {}", writers.join("; "))
}

#[cfg(test)]
mod tests {
    use headwater::Event;

    use super::*;

    #[test]
    fn data_is_cut_to_the_width() {
        let mut event = Event::raw("OrderPlaced", json!({ "note": "x".repeat(200) })).in_stream("order-1");
        (event.global_sequence, event.stream_version) = (Some(7), Some(1));
        event.recorded_at = Some(event.created_at);
        let event = RecordedEvent::new(event).unwrap();
        assert_eq!(event_line(&event, Some(120)).chars().count(), 120);
        assert!(event_line(&event, Some(120)).ends_with("x…"));
        assert!(event_line(&event, None).ends_with("xxx\"}"));
        assert!(event_line(&event, Some(20)).ends_with('…'), "some of the data is shown in any case");
    }
}
