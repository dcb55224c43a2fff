//! Cron expressions in SQL: what they mean, also when clocks change, and what is refused.

use std::str::FromStr;

use chrono::{DateTime, Duration, LocalResult, Offset, TimeZone, Utc};
use chrono_tz::Tz;
use croner::Cron;
use headwater_testing::TestDatabase;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use sqlx::PgConnection;

/// The next due times as the clocks show them, without their seconds if these are 0.
async fn next(session: &mut PgConnection, cron: &str, zone: &str, after: &str, count: i32) -> Vec<String> {
    let preview = "SELECT replace(local_time, ':00+', '+') FROM headwater.next_runs($1, $2, $3::timestamptz, $4)";
    let rows = sqlx::query_scalar(preview).bind(cron).bind(zone).bind(after).bind(count).fetch_all(session).await;
    rows.unwrap_or_else(|error| panic!("{cron:?} in {zone}: {error}"))
}

#[tokio::test]
async fn expressions_mean_what_cron_says() {
    let db = TestDatabase::create().await;
    let mut session = db.session().await;
    // 1 January 2026 is a Thursday.
    let cases: [(&str, &[&str]); 18] = [
        ("*/20 * * * *", &["2026-01-01T00:20", "2026-01-01T00:40", "2026-01-01T01:00"]),
        ("5,7-9 3 * * *", &["2026-01-01T03:05", "2026-01-01T03:07", "2026-01-01T03:08", "2026-01-01T03:09"]),
        ("0 9-17/4 * * MON-FRI", &["2026-01-01T09:00", "2026-01-01T13:00", "2026-01-01T17:00", "2026-01-02T09:00"]),
        ("30 * * * * *", &["2026-01-01T00:00:30", "2026-01-01T00:01:30"]),
        ("*/40 59 23 31 DEC *", &["2026-12-31T23:59", "2026-12-31T23:59:40", "2027-12-31T23:59"]),
        ("0 0 * * sun", &["2026-01-04T00:00", "2026-01-11T00:00"]),
        ("0 0 * * 7", &["2026-01-04T00:00", "2026-01-11T00:00"]),
        ("0 0 * * SAT-SUN", &["2026-01-03T00:00", "2026-01-04T00:00", "2026-01-10T00:00"]),
        // Both days are restricted: one match is enough. A day that begins with * also restricts,
        // but then both must match.
        ("0 0 13 * FRI", &["2026-01-02T00:00", "2026-01-09T00:00", "2026-01-13T00:00", "2026-01-16T00:00"]),
        ("0 0 */13 * FRI", &["2026-02-27T00:00", "2026-03-27T00:00", "2026-05-01T00:00"]),
        ("0 0 L * *", &["2026-01-31T00:00", "2026-02-28T00:00", "2026-03-31T00:00"]),
        ("0 0 * * MON#1", &["2026-01-05T00:00", "2026-02-02T00:00"]),
        ("0 0 * * friL", &["2026-01-30T00:00", "2026-02-27T00:00"]),
        ("0 0 29 2 *", &["2028-02-29T00:00", "2032-02-29T00:00"]),
        ("@hourly", &["2026-01-01T01:00", "2026-01-01T02:00"]),
        (" @Daily ", &["2026-01-02T00:00", "2026-01-03T00:00"]),
        ("@weekly", &["2026-01-04T00:00"]),
        ("@yearly", &["2027-01-01T00:00", "2028-01-01T00:00"]),
    ];
    for (cron, expected) in cases {
        let due = next(&mut session, cron, "UTC", "2026-01-01T00:00:00.5Z", expected.len() as i32).await;
        let expected: Vec<_> = expected.iter().map(|time| format!("{time}+00:00")).collect();
        assert_eq!(due, expected, "{cron}");
    }
    assert_eq!(next(&mut session, "@monthly", "UTC", "2096-02-29T00:00:00Z", 1).await, ["2096-03-01T00:00+00:00"]);
    // From one 29th of February to the next it may be eight years, and a 30th never comes.
    assert_eq!(next(&mut session, "0 0 29 2 *", "UTC", "2096-02-29T00:00:00Z", 1).await, ["2104-02-29T00:00+00:00"]);
    assert!(next(&mut session, "0 0 30 2 *", "UTC", "2026-01-01T00:00:00Z", 1).await.is_empty());
}

#[tokio::test]
async fn a_fixed_time_comes_once_a_day_whatever_the_clocks_do() {
    let db = TestDatabase::create().await;
    let mut session = db.session().await;
    let copenhagen = "Europe/Copenhagen";
    // 02:00 to 03:00 is skipped on 29 March, and comes twice on 25 October.
    let skipped = ["2026-03-28T02:30+01:00", "2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"];
    assert_eq!(next(&mut session, "30 2 * * *", copenhagen, "2026-03-27T12:00:00Z", 3).await, skipped);
    let doubled = ["2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"];
    assert_eq!(next(&mut session, "30 2 * * *", copenhagen, "2026-10-24T12:00:00Z", 2).await, doubled);
    // Also when it is asked for between the two.
    assert_eq!(next(&mut session, "30 2 * * *", copenhagen, "2026-10-25T00:30:00Z", 1).await, doubled[1..]);
    // All that is skipped is due at one moment, together with what is due then anyway.
    let several = ["2026-03-29T01:00+01:00", "2026-03-29T03:00+02:00", "2026-03-30T01:00+02:00"];
    assert_eq!(next(&mut session, "0 1,2,3 * * *", copenhagen, "2026-03-28T12:00:00Z", 3).await, several);
    // A clock that is set by half an hour.
    let lord_howe = "Australia/Lord_Howe";
    let skipped = ["2026-10-03T02:15+10:30", "2026-10-04T02:30+11:00", "2026-10-05T02:15+11:00"];
    assert_eq!(next(&mut session, "15 2 * * *", lord_howe, "2026-10-02T12:00:00Z", 3).await, skipped);
    let doubled = ["2026-04-05T01:45+11:00", "2026-04-06T01:45+10:30"];
    assert_eq!(next(&mut session, "45 1 * * *", lord_howe, "2026-04-04T12:00:00Z", 2).await, doubled);
    // A day without midnight, and a day without its last hour: events of that day are due right
    // afterwards.
    let santiago = ["2026-09-06T01:00:00-03:00", "2026-09-07T00:00:00-03:00"];
    assert_eq!(next(&mut session, "0 0 * * *", "America/Santiago", "2026-09-05T12:00:00Z", 2).await, santiago);
    let nuuk = next(&mut session, "30 23 28 3 *", "America/Nuuk", "2026-03-28T12:00:00Z", 1).await;
    assert_eq!(nuuk, ["2026-03-29T00:00:00-01:00"]);
}

#[tokio::test]
async fn wildcards_and_steps_follow_the_clocks() {
    let db = TestDatabase::create().await;
    let mut session = db.session().await;
    let copenhagen = "Europe/Copenhagen";
    let skipped = ["2026-03-29T01:30+01:00", "2026-03-29T03:00+02:00", "2026-03-29T03:30+02:00"];
    assert_eq!(next(&mut session, "*/30 * * * *", copenhagen, "2026-03-29T00:00:00Z", 3).await, skipped);
    let both = [
        "2026-10-25T02:00+02:00",
        "2026-10-25T02:30+02:00",
        "2026-10-25T02:00+01:00",
        "2026-10-25T02:30+01:00",
        "2026-10-25T03:00+01:00",
    ];
    assert_eq!(next(&mut session, "*/30 * * * *", copenhagen, "2026-10-24T23:59:00Z", 5).await, both);
    // Hours that are skipped altogether.
    let days = ["2026-03-28T02:00+01:00", "2026-03-28T02:30+01:00", "2026-03-30T02:00+02:00"];
    assert_eq!(next(&mut session, "*/30 2 * * *", copenhagen, "2026-03-27T12:00:00Z", 3).await, days);
    let lord_howe = [
        "2026-04-05T01:30+11:00",
        "2026-04-05T01:45+11:00",
        "2026-04-05T01:30+10:30",
        "2026-04-05T01:45+10:30",
        "2026-04-05T02:00+10:30",
    ];
    assert_eq!(next(&mut session, "*/15 * * * *", "Australia/Lord_Howe", "2026-04-04T14:29:00Z", 5).await, lord_howe);
    let lord_howe = ["2026-10-04T01:45+10:30", "2026-10-04T02:30+11:00"];
    assert_eq!(next(&mut session, "*/15 * * * *", "Australia/Lord_Howe", "2026-10-03T15:00:00Z", 2).await, lord_howe);
}

#[tokio::test]
async fn what_is_no_expression_is_refused_with_its_reason() {
    let db = TestDatabase::create().await;
    let mut session = db.session().await;
    let cases = [
        ("61 * * * *", "minute '61' is not 0 to 59"),
        ("* 24 * * *", "hour '24' is not 0 to 23"),
        ("* * 0 * *", "day of month '0' is not 1 to 31"),
        ("* * * FOO *", "month 'FOO' is not 1 to 12 or JAN to DEC"),
        ("* * * * 8", "day of week '8' is not 0 to 7 or SUN to SAT"),
        ("* * * * 9#2", "day of week '9#2' is no value"),
        ("* * * * MON#6", "day of week 'MON#6' is no value"),
        ("30-10 * * * *", "minute '30-10' goes backwards: write 30-59,0-10"),
        ("*/0 * * * *", "minute '*/0' has a step of 0"),
        ("5/15 * * * *", "minute '5/15' has a step, but no range: write 5-59/15"),
        ("1,,2 * * * *", "minute '' is no value"),
        ("60 * * * * *", "second '60' is not 0 to 59"),
        ("a b c", "it has 3 fields"),
        ("", "fields"),
        ("@reboot", "it has 1 fields"),
        ("99999999999999999999 * * * *", "minute '99999999999999999999' is not 0 to 59"),
    ];
    for (cron, reason) in cases {
        let refused =
            sqlx::query("SELECT headwater_private.cron_next($1)").bind(cron).execute(&mut session).await.unwrap_err();
        let refused = refused.as_database_error().unwrap();
        assert_eq!(refused.code().as_deref(), Some("WH002"), "{cron:?}: {refused}");
        assert!(refused.message().contains(reason), "{cron:?}: {refused}");
    }
    for zone in ["Europe/Copenhagn", "CEST", "XYZ+3", "Etc/Foo+3", "", "UTC; DROP"] {
        let asking = sqlx::query("SELECT headwater_private.cron_next('* * * * *', $1)").bind(zone);
        let refused = asking.execute(&mut session).await.unwrap_err();
        let refused = refused.as_database_error().unwrap();
        assert_eq!(refused.code().as_deref(), Some("WH002"), "{zone:?}: {refused}");
        assert!(refused.message().contains("unknown time zone"), "{zone:?}: {refused}");
    }
    for zone in ["UTC", "CET", "Etc/GMT+3", "America/Port-au-Prince", "America/Argentina/Buenos_Aires", "europe/paris"]
    {
        let asking = sqlx::query("SELECT headwater_private.cron_next('* * * * *', $1)").bind(zone);
        asking.execute(&mut session).await.unwrap_or_else(|error| panic!("{zone}: {error}"));
    }
}

/// Zones whose rules no recent change of the time zone database touched: offsets of half and
/// quarter hours, changes at midnight, and changes by half an hour and by two hours.
const ZONES: [Tz; 11] = [
    Tz::UTC,
    Tz::Europe__Copenhagen,
    Tz::Europe__London,
    Tz::America__New_York,
    Tz::America__St_Johns,
    Tz::America__Havana,
    Tz::Antarctica__Troll,
    Tz::Australia__Lord_Howe,
    Tz::Australia__Sydney,
    Tz::Asia__Kathmandu,
    Tz::Pacific__Chatham,
];

/// The hours in which clocks of these zones are changed, from 2024 to 2028.
fn changes() -> Vec<(Tz, DateTime<Utc>)> {
    let begin = Utc.with_ymd_and_hms(2024, 1, 1, 0, 0, 0).unwrap();
    let hours = (0..5 * 8_766).map(|hour| begin + Duration::hours(hour));
    let offset = |zone: &Tz, at: DateTime<Utc>| zone.offset_from_utc_datetime(&at.naive_utc()).fix();
    let changed = |zone: Tz| {
        hours
            .clone()
            .filter(move |at| offset(&zone, *at) != offset(&zone, *at + Duration::hours(1)))
            .map(move |at| (zone, at))
    };
    ZONES.into_iter().flat_map(changed).collect()
}

struct Field {
    text: String,
    /// Its values, if it has no wildcard and no step.
    values: Option<Vec<u32>>,
}

fn field(random: &mut StdRng, low: u32, high: u32) -> Field {
    let value = random.random_range(low..=high);
    let fixed = |values: Vec<u32>, text: String| Field { text, values: Some(values) };
    match random.random_range(0..8) {
        0 | 1 => Field { text: "*".into(), values: None },
        2 => Field { text: format!("*/{}", random.random_range(2..=20.min(high))), values: None },
        3 if value + 4 <= high => Field { text: format!("{value}-{}/2", value + 4), values: None },
        4 if value < high => {
            let last = (value + random.random_range(1..=3)).min(high);
            fixed((value..=last).collect(), format!("{value}-{last}"))
        }
        5 => {
            let other = random.random_range(low..=high);
            fixed(vec![value, other], format!("{value},{other}"))
        }
        _ => fixed(vec![value], value.to_string()),
    }
}

/// Day of month, month, day of week. If both days are restricted, neither begins with a star:
/// croner takes a star as no restriction only when it stands alone.
fn days(random: &mut StdRng) -> String {
    let month = match random.random_range(0..3) {
        0 => field(random, 1, 12).text,
        _ => "*".into(),
    };
    let (day, weekday) = match random.random_range(0..8) {
        0 => (field(random, 1, 28).text, "*".into()),
        1 => ("*".into(), field(random, 0, 6).text),
        2 => (random.random_range(1..=28).to_string(), random.random_range(0..=6).to_string()),
        3 => ("L".into(), "*".into()),
        4 => ("*".into(), format!("{}#{}", random.random_range(0..=6), random.random_range(1..=4))),
        _ => ("*".to_owned(), "*".to_owned()),
    };
    format!("{day} {month} {weekday}")
}

/// When croner says that an expression is due next. Several fixed times are asked one by one,
/// because croner would skip all of them when the hour is skipped.
fn by_croner(fields: &[Field; 3], days: &str, after: DateTime<Tz>) -> Option<DateTime<Utc>> {
    let [Some(seconds), Some(minutes), Some(hours)] = fields.each_ref().map(|field| field.values.as_ref()) else {
        let [second, minute, hour] = fields.each_ref().map(|field| &field.text);
        return parsed(&format!("{second} {minute} {hour} {days}"))
            .find_next_occurrence(&after, false)
            .ok()
            .map(|due| due.to_utc());
    };
    let times = hours.iter().flat_map(|hour| minutes.iter().map(move |minute| (hour, minute)));
    let times = times.flat_map(|(hour, minute)| seconds.iter().map(move |second| (*hour, *minute, *second)));
    times.filter_map(|time| fixed_by_croner(time, days, after)).min()
}

/// When clocks are set forward, croner takes any fixed time that is not due on that day, or no
/// longer due, for a skipped one. These answers are ignored.
fn fixed_by_croner(time: (u32, u32, u32), days: &str, after: DateTime<Tz>) -> Option<DateTime<Utc>> {
    let (hour, minute, second) = time;
    let cron = parsed(&format!("{second} {minute} {hour} {days}"));
    let mut due = after;
    loop {
        due = cron.find_next_occurrence(&due, false).ok()?;
        let meant = due.date_naive().and_hms_opt(hour, minute, second).unwrap();
        if due.naive_local() == meant || due.timezone().from_local_datetime(&meant) == LocalResult::None {
            return Some(due.to_utc());
        }
    }
}

fn parsed(cron: &str) -> Cron {
    Cron::from_str(cron).unwrap_or_else(|error| panic!("croner refuses {cron:?}: {error}"))
}

#[tokio::test]
async fn due_times_are_those_of_croner() {
    let seed = std::env::var("HEADWATER_SEED").ok().map_or_else(rand::random, |seed| seed.parse().unwrap());
    println!("HEADWATER_SEED={seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let db = TestDatabase::create().await;
    let changes = changes();
    assert!(changes.len() > 50, "{changes:?}");
    let mut cases = Vec::new();
    for _ in 0..2_000 {
        let (zone, after) = match random.random_range(0..3) {
            0 => {
                let begin = Utc.with_ymd_and_hms(2024, 1, 1, 0, 0, 0).unwrap();
                let zone = ZONES[random.random_range(0..ZONES.len())];
                (zone, begin + Duration::seconds(random.random_range(0..5 * 365 * 86_400)))
            }
            // Around a change, more or less closely.
            near => {
                let (zone, at) = changes[random.random_range(0..changes.len())];
                let reach = if near == 1 { 4 * 3_600 } else { 3 * 86_400 };
                (zone, at + Duration::seconds(random.random_range(-reach..reach)))
            }
        };
        let seconds = match random.random_range(0..4) {
            0 => field(&mut random, 0, 59),
            _ => Field { text: "0".into(), values: Some(vec![0]) },
        };
        let last_hour = if random.random() { 23 } else { 3 };
        let fields = [seconds, field(&mut random, 0, 59), field(&mut random, 0, last_hour)];
        let days = days(&mut random);
        let expected = by_croner(&fields, &days, after.with_timezone(&zone));
        let [second, minute, hour] = &fields;
        let cron = match second.text.as_str() {
            "0" if random.random() => format!("{} {} {days}", minute.text, hour.text),
            second => format!("{second} {} {} {days}", minute.text, hour.text),
        };
        cases.push((cron, zone.name().to_owned(), after, expected));
    }
    let asking = "SELECT headwater_private.cron_after(headwater_private.cron_fields(c.cron), c.zone, c.after)
                    FROM unnest($1::text[], $2::text[], $3::timestamptz[]) WITH ORDINALITY AS c(cron, zone, after, ord) ORDER BY c.ord";
    let due: Vec<Option<DateTime<Utc>>> = sqlx::query_scalar(asking)
        .bind(cases.iter().map(|case| case.0.clone()).collect::<Vec<_>>())
        .bind(cases.iter().map(|case| case.1.clone()).collect::<Vec<_>>())
        .bind(cases.iter().map(|case| case.2).collect::<Vec<_>>())
        .fetch_all(&mut db.session().await)
        .await
        .unwrap();
    for ((cron, zone, after, expected), due) in cases.iter().zip(due) {
        assert_eq!(due, *expected, "{cron:?} in {zone} after {after}");
    }
}

/// The search finds the last due time of a range in a few steps. A walk through all due times ends
/// with the same one.
#[tokio::test]
async fn the_last_due_time_is_found_from_behind() {
    let db = TestDatabase::create().await;
    let differing = "
        WITH RECURSIVE cases AS (
            SELECT e.cron, z.zone, t.earliest, t.earliest + s.span AS latest
              FROM unnest(ARRAY['*/20 * * * *', '30 2 * * *', '0 */6 * * 1', '*/10 * 2 * * *', '0 0 L * *']) AS e(cron),
                   unnest(ARRAY['UTC', 'Europe/Copenhagen', 'Australia/Lord_Howe']) AS z(zone),
                   unnest(ARRAY['2026-03-28 20:00+00', '2026-10-24 21:10:07+00', '2026-04-04 14:31+00']::timestamptz[]) AS t(earliest),
                   unnest(ARRAY['1 second', '59 minutes', '7 hours', '40 hours']::interval[]) AS s(span)
        ), walk AS (
            SELECT c.*, headwater_private.cron_after(headwater_private.cron_fields(c.cron), c.zone, c.earliest - interval '1 microsecond') AS due, NULL::timestamptz AS last FROM cases c
            UNION ALL
            SELECT w.cron, w.zone, w.earliest, w.latest, headwater_private.cron_after(headwater_private.cron_fields(w.cron), w.zone, w.due), w.due
              FROM walk w WHERE w.due <= w.latest
        ), walked AS (
            SELECT w.cron, w.zone, w.earliest, w.latest, max(w.last) AS last FROM walk w GROUP BY 1, 2, 3, 4
        )
        SELECT count(*) FILTER (WHERE x.found IS DISTINCT FROM x.last), count(x.last), count(*)
          FROM (SELECT w.*, headwater_private.cron_before(headwater_private.cron_fields(w.cron), w.zone, w.earliest, w.latest) AS found FROM walked w) x";
    let (differing, found, all): (i64, i64, i64) =
        sqlx::query_as(differing).fetch_one(&mut db.session().await).await.unwrap();
    assert_eq!((differing, all), (0, 180));
    assert!((60..180).contains(&found), "{found}");
}
