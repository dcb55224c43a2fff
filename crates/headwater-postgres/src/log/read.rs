//! Reads: pages of streams and of the log.
//!
//! The reader's half of the horizon. A contiguous run after the cursor needs no proof: nothing can
//! be missing inside it. At a hole, ask the server how far the log is settled, then read again in a
//! new statement, which has a new snapshot: what is still missing up to there is a permanent gap.
//! What lies beyond is pending, and its writers are named. The order of these two statements is the
//! proof. They must never become one.

use std::time::Duration;

use futures::TryStreamExt;
use headwater_core::{
    Direction, Gap, GapState, Gaps, History, Horizon, LogPage, LogQuery, LongTransactions, Look, LookAhead,
    MAX_PAGE_SIZE, NamespaceInfo, PassedOver, ReadError, RecordedEvent, StreamQuery, Writer, changed_above,
    missing_runs,
};
use sqlx::postgres::{PgArguments, PgRow, Postgres};
use sqlx::query::Query;
use sqlx::{PgConnection, Row};
use uuid::Uuid;

use crate::database::error::read_error;
use crate::database::number::{PgSequence, bound, int, sequence, sequence_or_null};
use crate::log::month_bounds::Months;
use crate::log::poison::Poisoned;
use crate::log::row::event as event_of;
use crate::sql;

/// A page ends when its payloads reach this many bytes. So memory is bounded, whatever the log
/// holds.
const PAGE_BYTES: usize = 8 * 1024 * 1024;

/// How many gaps one statement looks into.
const RANGES_AT_ONCE: usize = 1_000;

/// Rows, as far as they were read.
#[derive(Default)]
struct Rows {
    events: Vec<RecordedEvent>,
    /// How many rows there were, poison included.
    count: usize,
    /// The place of the last row.
    last: Option<u64>,
    /// Whether reading ended at [`PAGE_BYTES`].
    cut: bool,
    /// Places of the poison among the rows.
    poison: Vec<u64>,
    /// Bytes of the payloads.
    bytes: usize,
}

impl Rows {
    /// Returns whether there may be more rows.
    fn is_full(&self, limit: u32) -> bool {
        self.cut || self.count == limit as usize
    }
}

/// Reads rows up to [`PAGE_BYTES`]. Notes poison and passes over it.
async fn bounded(
    conn: &mut PgConnection,
    info: &NamespaceInfo,
    query: Query<'_, Postgres, PgArguments>,
) -> Result<Rows, ReadError> {
    let mut read = Rows::default();
    let mut poison = Poisoned::default();
    {
        let mut rows = query.fetch(&mut *conn);
        while let Some(row) = rows.try_next().await.map_err(read_error)? {
            read.count += 1;
            match event_of(&row) {
                Ok(event) => {
                    read.bytes += event.data_text().len();
                    read.last = Some(event.sequence().get());
                    read.events.push(event);
                }
                Err(error) => read.last = Some(poison.add(&row, &error)?),
            }
            if read.bytes >= PAGE_BYTES {
                read.cut = true;
                break;
            }
        }
    }
    poison.note(conn, info).await?;
    read.poison = poison.sequences();
    Ok(read)
}

/// Returns a page of a stream, and the poison that it passed over. More events are read in place of
/// the poison.
pub(crate) async fn stream_page(
    conn: &mut PgConnection,
    info: &NamespaceInfo,
    months: &Months,
    query: &StreamQuery,
) -> Result<(Vec<RecordedEvent>, Poisoned), ReadError> {
    let backwards = query.direction == Direction::Backwards;
    let (mut events, mut poison) = (Vec::new(), Poisoned::default());
    let (mut from, mut to) = (query.from_version.map(bound), query.to_version.map(bound));
    loop {
        let asked = query.page_size as usize - events.len();
        // Ask which months a stream lies in only where there are sealed months.
        let statement = match (months.is_empty(), backwards) {
            (false, _) => sqlx::query(sql::log::READ_STREAM).bind(&info.name),
            (true, false) => sqlx::query(sql::log::STREAM_PAGE).bind(info.id),
            (true, true) => sqlx::query(sql::log::STREAM_PAGE_BACK).bind(info.id),
        };
        let statement = statement.bind(&*query.stream_id).bind(from).bind(to).bind(int(asked));
        let statement = if months.is_empty() { statement } else { statement.bind(backwards) };
        let rows = statement.fetch_all(&mut *conn).await.map_err(read_error)?;
        poison.sort_out(&rows, &mut events)?;
        let last = rows.last().filter(|_| rows.len() == asked && events.len() < query.page_size as usize);
        let Some(last) = last else { return Ok((events, poison)) };
        let version: i64 = last.try_get(STREAM_VERSION).map_err(read_error)?;
        match query.direction {
            Direction::Forwards => from = Some(version + 1),
            Direction::Backwards => to = Some(version - 1),
        }
    }
}

/// Positions of an event's columns: see [`event_of`].
const STREAM_VERSION: usize = 3;
const GLOBAL_SEQUENCE: usize = 0;

/// Poison is an error here: the caller asked for exactly this event.
pub(crate) async fn event(
    conn: &mut PgConnection,
    namespace_id: i32,
    id: Uuid,
) -> Result<Option<RecordedEvent>, ReadError> {
    let statement = sqlx::query(sql::log::FIND_EVENTS).bind(namespace_id).bind(vec![id]);
    let row = statement.fetch_optional(conn).await.map_err(read_error)?;
    row.as_ref().map(event_of).transpose()
}

/// As [`stream_page`].
pub(crate) async fn correlated(
    conn: &mut PgConnection,
    namespace_id: i32,
    correlation_id: Uuid,
    after: u64,
    limit: u32,
) -> Result<(Vec<RecordedEvent>, Poisoned), ReadError> {
    let limit = limit.min(MAX_PAGE_SIZE) as usize;
    let (mut events, mut poison, mut after) = (Vec::new(), Poisoned::default(), bound(after));
    loop {
        let asked = limit - events.len();
        let statement = sqlx::query(sql::log::CORRELATION_PAGE)
            .bind(namespace_id)
            .bind(correlation_id)
            .bind(after)
            .bind(int(asked));
        let rows = statement.fetch_all(&mut *conn).await.map_err(read_error)?;
        poison.sort_out(&rows, &mut events)?;
        let last = rows.last().filter(|_| rows.len() == asked && events.len() < limit);
        let Some(last) = last else { return Ok((events, poison)) };
        after = last.try_get(GLOBAL_SEQUENCE).map_err(read_error)?;
    }
}

pub(crate) async fn causation_chain(
    conn: &mut PgConnection,
    namespace_id: i32,
    id: Uuid,
    limit: u32,
) -> Result<(Vec<RecordedEvent>, Poisoned), ReadError> {
    let limit = int(limit.min(MAX_PAGE_SIZE));
    let statement = sqlx::query(sql::log::CAUSATION_CHAIN).bind(namespace_id).bind(id).bind(limit);
    let rows = statement.fetch_all(conn).await.map_err(read_error)?;
    let (mut events, mut poison) = (Vec::new(), Poisoned::default());
    poison.sort_out(&rows, &mut events)?;
    Ok((events, poison))
}

/// The log to read, and in which history; `None`: any.
#[derive(Clone, Copy)]
pub(crate) struct Of<'a> {
    pub(crate) info: &'a NamespaceInfo,
    pub(crate) months: &'a Months,
    pub(crate) history: Option<History>,
}

/// Returns the server's history. If there is none yet, one begins here.
pub(crate) async fn history(conn: &mut PgConnection) -> Result<History, ReadError> {
    let history: Option<Uuid> = sqlx::query_scalar(sql::log::HISTORY).fetch_one(conn).await.map_err(read_error)?;
    let none = "the server is a standby, or may not be written to: it has no history of its own";
    history.map(History::new).ok_or_else(|| ReadError::NoProof(none.into()))
}

/// Returns how far the log is settled, and who may still commit beyond that; also in which history,
/// if that is known.
pub(crate) async fn horizon(
    conn: &mut PgConnection,
    info: &NamespaceInfo,
    history: Option<History>,
) -> Result<(Horizon, Option<History>), ReadError> {
    let statement = sqlx::query(sql::log::HORIZON).bind(&info.name).bind(history.map(History::id));
    let row = statement.fetch_one(&mut *conn).await.map_err(read_error)?;
    let horizon = sequence(&row, 0).map_err(read_error)?;
    let head = sequence(&row, 1).map_err(read_error)?;
    let present = row.get::<Option<Uuid>, _>(2).map(History::new);
    let writers = if horizon < head { writers(conn, info, history).await? } else { Vec::new() };
    Ok((Horizon { horizon, head, writers }, present))
}

/// Returns the highest sequence that can be read now.
pub(crate) async fn log_end(conn: &mut PgConnection, info: &NamespaceInfo) -> Result<u64, ReadError> {
    let end = sqlx::query_scalar(sql::log::LOG_END).bind(&info.name).fetch_one(conn).await;
    end.map(|PgSequence(end)| end).map_err(read_error)
}

/// Returns how far the log is settled, at most up to a place where the caller has seen an event
/// before. It reads no rows of events: all places up to there were handed out before this call,
/// each to a transaction that held its lock by then. A transaction whose lock is gone has ended.
pub(crate) async fn settled_up_to(
    conn: &mut PgConnection,
    info: &NamespaceInfo,
    history: Option<History>,
    seen: u64,
) -> Result<Horizon, ReadError> {
    let writers = writers(conn, info, history).await?;
    let horizon = writers.iter().map(|writer| writer.above_sequence).fold(seen, u64::min);
    Ok(Horizon { horizon, head: seen, writers })
}

async fn writers(
    conn: &mut PgConnection,
    info: &NamespaceInfo,
    history: Option<History>,
) -> Result<Vec<Writer>, ReadError> {
    let statement = sqlx::query(sql::log::WRITERS).bind(info.id).bind(history.map(History::id));
    let rows = statement.fetch_all(conn).await.map_err(read_error)?;
    let writer = |row: &PgRow| {
        Ok(Writer {
            above_sequence: sequence(row, 0)?,
            pid: row.get(1),
            application_name: row.get(2),
            started_at: row.get(3),
            age: row.get::<Option<f64>, _>(4).map(|age| Duration::from_secs_f64(age.max(0.0))),
            transaction: row.get(5),
        })
    };
    rows.iter().map(writer).collect::<Result<_, _>>().map_err(read_error)
}

/// A proved horizon, and in which history, if that is known.
type Proved = (u64, Option<History>);

/// Returns one page of the log, given what is known to be settled. Also returns what was proved to
/// be settled on the way.
pub(crate) async fn log_page(
    conn: &mut PgConnection,
    of: Of<'_>,
    query: &LogQuery,
    settled: u64,
) -> Result<(LogPage, Option<Proved>), ReadError> {
    if query.direction == Direction::Backwards {
        return log_page_back(conn, of, query, settled).await;
    }
    if query.up_to.is_some_and(|up_to| up_to <= query.after) {
        return Ok((LogPage { cursor: query.after, ..LogPage::default() }, None));
    }
    if settled > query.after {
        return Ok((settled_page(conn, of, query, settled).await?, None));
    }
    let mut beyond = None;
    if !query.is_filtered() {
        let read = fetch(conn, of, query, query.up_to).await?;
        let (full, first) = (read.is_full(query.page_size), read.events.first().map(|event| event.sequence().get()));
        let mut rows = read.events;
        let contiguous =
            rows.iter().zip(query.after.saturating_add(1)..).take_while(|(event, next)| event.sequence() == *next);
        let run = contiguous.count();
        if run > 0 || read.count == 0 {
            let more = full || run < rows.len() || run < read.count;
            rows.truncate(run);
            let cursor = query.after + run as u64;
            return Ok((LogPage { events: rows, gaps: Vec::new(), cursor, more }, None));
        }
        beyond = first.or(read.last.map(|last| last + 1));
    }
    let (proof, history) = horizon(conn, of.info, of.history).await?;
    let proved = Some((proof.horizon, history));
    if proof.horizon > query.after {
        let page = settled_page(conn, of, query, proof.horizon).await?;
        return Ok((page, proved));
    }
    let last = beyond.map_or(proof.head, |sequence| sequence - 1);
    let pending = (last > query.after && !proof.writers.is_empty()).then(|| Gap {
        first: query.after + 1,
        last,
        state: GapState::Pending(proof.writers.into_iter().filter(|writer| writer.above_sequence < last).collect()),
    });
    // The writer may have ended between the two reads. Then there is nobody to name, and the caller
    // can read on at once.
    let more = pending.is_none() && beyond.is_some();
    Ok((LogPage { events: Vec::new(), gaps: pending.into_iter().collect(), cursor: query.after, more }, proved))
}

/// Returns a page in which everything is settled, so that what is missing is a permanent gap.
pub(crate) async fn settled_page(
    conn: &mut PgConnection,
    of: Of<'_>,
    query: &LogQuery,
    settled: u64,
) -> Result<LogPage, ReadError> {
    let end = query.up_to.map_or(settled, |up_to| up_to.min(settled));
    let read = fetch(conn, of, query, Some(end)).await?;
    let full = read.is_full(query.page_size);
    let cursor = read.last.filter(|_| full).unwrap_or(end);
    let events = read.events;
    let gaps = if query.is_filtered() {
        Vec::new()
    } else {
        let present = events.iter().map(|event| event.sequence().get());
        let (months, runs) = (of.months, missing_runs(query.after, cursor, present));
        // The beginning of the log is trimmed. So only a page that begins with a hole can touch a
        // trimmed month that is not known yet.
        let begins = runs.first().is_some_and(|(first, last)| *first == query.after + 1 && *last > months.trimmed_to);
        // It may have been trimmed since the months were looked up, and must not be taken for
        // rolled back.
        let trimmed_to = if begins { Months::load(conn, of.info.id).await?.trimmed_to } else { months.trimmed_to };
        runs.into_iter().flat_map(|(first, last)| permanent(first, last, trimmed_to, &read.poison)).collect()
    };
    let more = full || query.up_to.is_none_or(|up_to| up_to > cursor);
    Ok(LogPage { events, gaps, cursor, more })
}

/// Returns what a reader of some types may pass in a settled part of the log. `None`: an event of
/// these types is near, or there is no index.
pub(crate) async fn pass_types(
    conn: &mut PgConnection,
    info: &NamespaceInfo,
    history: Option<History>,
    (after, settled): (u64, u64),
    event_types: &[String],
) -> Result<Option<PassedOver>, ReadError> {
    let statement = sqlx::query(sql::log::PASS_TYPES).bind(info.id).bind(bound(after)).bind(bound(settled));
    let row = statement.bind(event_types).bind(history.map(History::id)).fetch_optional(conn).await;
    let passed = |row: &PgRow| {
        Ok(PassedOver { up_to: sequence(row, 0)?, events: sequence(row, 1)?, sequence_sum: sequence(row, 2)? })
    };
    row.map_err(read_error)?.as_ref().map(passed).transpose().map_err(read_error)
}

/// Splits a permanent hole by its reason: trimmed, poison (places in order), or rolled back.
fn permanent(first: u64, last: u64, trimmed_to: u64, poison: &[u64]) -> Vec<Gap> {
    let mut gaps: Vec<Gap> = Vec::new();
    let mut add = |first: u64, last: u64, state: GapState| {
        if first > last {
            return;
        }
        match gaps.last_mut().filter(|before| before.state == state && before.last + 1 == first) {
            Some(before) => before.last = last,
            None => gaps.push(Gap { first, last, state }),
        }
    };
    add(first, last.min(trimmed_to), GapState::Trimmed);
    let kept = first.max(trimmed_to + 1);
    let mut next = kept;
    for at in poison.iter().copied().filter(|at| (kept..=last).contains(at)) {
        add(next, at - 1, GapState::Permanent);
        add(at, at, GapState::Poison);
        next = at + 1;
    }
    add(next, last, GapState::Permanent);
    gaps
}

async fn log_page_back(
    conn: &mut PgConnection,
    of: Of<'_>,
    query: &LogQuery,
    settled: u64,
) -> Result<(LogPage, Option<Proved>), ReadError> {
    let Of { info, months, .. } = of;
    // Without a known end, or with one that is not settled yet, start at the horizon.
    let (settled, proved) = match query.up_to {
        Some(up_to) if up_to <= settled => (settled, None),
        _ => {
            let (proof, history) = horizon(conn, info, of.history).await?;
            (proof.horizon.max(settled), Some((proof.horizon, history)))
        }
    };
    let top = query.up_to.map_or(settled, |up_to| up_to.min(settled));
    let bounds = months.backwards(top, query.after, whole_pages(query));
    let statement = sqlx::query(sql::log::LOG_PAGE_BACK)
        .bind(info.id)
        .bind(bound(top.saturating_add(1)))
        .bind(bound(query.after.saturating_add(1)))
        .bind(int(query.page_size));
    let read = bounded(conn, info, filters(statement, query).bind(bounds.from).bind(bounds.until)).await?;
    let full = read.is_full(query.page_size);
    let cursor = read.last.filter(|_| full).unwrap_or(query.after.saturating_add(1));
    let more = full && cursor > query.after.saturating_add(1);
    Ok((LogPage { events: read.events, gaps: Vec::new(), cursor, more }, proved))
}

/// Returns how many events a page surely has, if the log has them. For a read that leaves some out,
/// nobody knows.
fn whole_pages(query: &LogQuery) -> Option<u64> {
    (!query.is_filtered()).then_some(query.page_size.into())
}

async fn fetch(conn: &mut PgConnection, of: Of<'_>, query: &LogQuery, up_to: Option<u64>) -> Result<Rows, ReadError> {
    let mut bounds = of.months.forwards(query.after, up_to, whole_pages(query));
    loop {
        let statement = sqlx::query(sql::log::LOG_PAGE)
            .bind(of.info.id)
            .bind(bound(query.after))
            .bind(up_to.map(bound))
            .bind(int(query.page_size));
        let statement = filters(statement, query).bind(bounds.from).bind(bounds.until);
        let read = bounded(conn, of.info, statement.bind(of.history.map(History::id))).await?;
        if bounds.holds(read.is_full(query.page_size), read.last) {
            return Ok(read);
        }
        // Some of these months were trimmed since: what the log has now lies behind them.
        bounds = bounds.without_end();
    }
}

/// Returns what is visible after a cursor and in gaps before it, and how far the log is settled. It
/// looks into gaps after the proof, in a statement of its own, as everywhere here.
pub(crate) async fn look_again(conn: &mut PgConnection, of: Of<'_>, look: Look<'_>) -> Result<LookAhead, ReadError> {
    let Look { after, limit, gaps, .. } = look;
    let query = LogQuery::after(after).page_size(limit);
    if gaps.is_empty() {
        let read = fetch(conn, of, &query, None).await?;
        let (more, seen, events) = (read.is_full(limit), read.last.unwrap_or(after), read.events);
        if seen == after + events.len() as u64 {
            return Ok(LookAhead { events, seen, settled: seen, more, looked_to: after, ..LookAhead::default() });
        }
    }
    let (proof, _) = horizon(conn, of.info, of.history).await?;
    // Look into the gaps after the rest: a reader that sees an event then also sees what its stream
    // had before, even if that came in a gap.
    let read = fetch(conn, of, &query, None).await?;
    // If no writer has ended since the gaps were last looked into, they are unchanged. Ask for the
    // writers after the events were read. A writer that ended before the read may have let a later
    // event of its stream follow, which is among the events, and then its gap has to be looked into
    // now.
    let (writers, ended) = match read.last {
        Some(_) => {
            let writers = writers(conn, of.info, of.history).await?;
            let ended = proof.writers.into_iter().filter(|writer| !writer.is_among(&writers)).collect();
            (writers, ended)
        }
        None => (proof.writers, Vec::new()),
    };
    let above = changed_above(look.writers, &writers).unwrap_or(u64::MAX).min(look.looked_to);
    let unneeded = look.kept_after.min(proof.horizon);
    let asked: Gaps = gaps.within(above.max(unneeded).saturating_add(1), u64::MAX).collect();
    let in_gaps = in_gaps(conn, of, &asked, MAX_PAGE_SIZE).await?;
    let poison = in_gaps.poison.iter().chain(&read.poison).copied().collect();
    let full = in_gaps.is_full(MAX_PAGE_SIZE);
    let looked_into = in_gaps.last.filter(|_| full);
    let (seen, events, more) = match full {
        // What follows was read before the rest of the gaps will be.
        true => (after, Vec::new(), true),
        false => (read.last.unwrap_or(after), read.events, limit > 0 && (read.cut || read.count == limit as usize)),
    };
    Ok(LookAhead {
        events,
        filled: in_gaps.events,
        poison,
        seen,
        settled: proof.horizon.min(seen).min(looked_into.unwrap_or(u64::MAX)),
        writers,
        more,
        ended,
        // A gap among the events just read was seen empty after the writers of the proof were
        // listed. If its sequence was handed out before that, its writer was on that list, or has
        // ended without a commit. So the next look needs to look into it only if one of those
        // writers has ended.
        looked_to: looked_into.unwrap_or(seen.min(proof.head).max(after)),
    })
}

/// Returns what is visible in gaps, at most `limit` events.
pub(crate) async fn late_events(
    conn: &mut PgConnection,
    of: Of<'_>,
    gaps: &Gaps,
    limit: u32,
) -> Result<LookAhead, ReadError> {
    let read = in_gaps(conn, of, gaps, limit).await?;
    let seen = read.last.filter(|_| read.is_full(limit)).unwrap_or(u64::MAX);
    Ok(LookAhead { filled: read.events, poison: read.poison, seen, ..LookAhead::default() })
}

/// Returns a page of what is visible, settled or not.
pub(crate) async fn visible_page(
    conn: &mut PgConnection,
    of: Of<'_>,
    after: u64,
    up_to: u64,
    limit: u32,
) -> Result<LogPage, ReadError> {
    let read = fetch(conn, of, &LogQuery::after(after).page_size(limit), Some(up_to)).await?;
    let full = read.is_full(limit);
    let cursor = read.last.filter(|_| full).unwrap_or(up_to.max(after));
    let gaps = read.poison.iter().map(|at| Gap { first: *at, last: *at, state: GapState::Poison }).collect();
    Ok(LogPage { events: read.events, gaps, cursor, more: full })
}

/// Returns the transactions of a part of the log that may have events before it, or are spread over
/// it.
pub(crate) async fn long_transactions(
    conn: &mut PgConnection,
    of: Of<'_>,
    (after, up_to): (u64, u64),
    newest: u64,
    span: u64,
    limit: u32,
) -> Result<LongTransactions, ReadError> {
    let bounds = of.months.forwards(after, Some(up_to), None);
    let statement = sqlx::query(sql::log::LONG_TRANSACTIONS)
        .bind(of.info.id)
        .bind(bound(after))
        .bind(bound(up_to))
        .bind(bound(newest))
        .bind(bound(span))
        .bind(i64::from(limit))
        .bind(bounds.from)
        .bind(bounds.until)
        .bind(of.history.map(History::id));
    let rows = statement.fetch_all(conn).await.map_err(read_error)?;
    let mut long = LongTransactions { newest, ..LongTransactions::default() };
    for row in &rows {
        let first = sequence_or_null(row, 1).map_err(read_error)?;
        match sequence_or_null(row, 0).map_err(read_error)? {
            Some(transaction) => {
                let last = sequence(row, 2).map_err(read_error)?;
                long.transactions.push((transaction, first.unwrap_or_default(), last));
            }
            None => long.newest = long.newest.max(first.unwrap_or_default()),
        }
    }
    Ok(long)
}

/// Reads what is visible in gaps, some gaps at a time.
async fn in_gaps(conn: &mut PgConnection, of: Of<'_>, gaps: &Gaps, limit: u32) -> Result<Rows, ReadError> {
    let mut all = Rows::default();
    let mut ranges = gaps.iter().peekable();
    while let Some((lowest, _)) = ranges.peek().copied() {
        let some: Vec<(u64, u64)> = ranges.by_ref().take(RANGES_AT_ONCE).collect();
        let highest = some.last().map(|(_, last)| *last);
        let bounds = of.months.forwards(lowest.saturating_sub(1), highest, None);
        let (firsts, lasts): (Vec<i64>, Vec<i64>) =
            some.iter().map(|(first, last)| (bound(*first), bound(*last))).unzip();
        let left = limit - u32::try_from(all.count).unwrap_or(limit).min(limit);
        let statement = sqlx::query(sql::log::GAP_EVENTS)
            .bind(of.info.id)
            .bind(firsts)
            .bind(lasts)
            .bind(int(left))
            .bind(bounds.from)
            .bind(bounds.until)
            .bind(of.history.map(History::id));
        let read = bounded(conn, of.info, statement).await?;
        all.bytes += read.bytes;
        all.cut = read.cut || all.bytes >= PAGE_BYTES;
        all.count += read.count;
        all.last = read.last.or(all.last);
        all.events.extend(read.events);
        all.poison.extend(read.poison);
        if all.is_full(limit) {
            break;
        }
    }
    Ok(all)
}

fn filters<'q>(statement: Query<'q, Postgres, PgArguments>, query: &'q LogQuery) -> Query<'q, Postgres, PgArguments> {
    statement
        .bind((!query.event_types.is_empty()).then_some(&query.event_types))
        .bind(query.stream.as_deref())
        .bind(query.stream_prefix.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_falls_into_parts_by_why_it_stays() {
        let parts = |first, last, trimmed_to, poison: &[u64]| {
            let gaps = permanent(first, last, trimmed_to, poison).into_iter();
            gaps.map(|gap| (gap.first, gap.last, gap.state)).collect::<Vec<_>>()
        };
        use GapState::{Permanent, Poison, Trimmed};
        assert_eq!(parts(3, 9, 0, &[]), [(3, 9, Permanent)]);
        assert_eq!(parts(3, 9, 9, &[4]), [(3, 9, Trimmed)]);
        assert_eq!(parts(3, 9, 5, &[2, 12]), [(3, 5, Trimmed), (6, 9, Permanent)]);
        assert_eq!(parts(3, 9, 0, &[3, 4, 7]), [(3, 4, Poison), (5, 6, Permanent), (7, 7, Poison), (8, 9, Permanent)]);
        assert_eq!(parts(3, 5, 3, &[4, 5, 6]), [(3, 3, Trimmed), (4, 5, Poison)]);
    }
}
