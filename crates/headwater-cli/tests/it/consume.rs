//! `consume`: events as JSON lines.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::common::{Cli, Said};
use rustix::process::Signal;
use serde_json::json;

#[tokio::test]
async fn each_event_is_written_once_from_run_to_run() {
    let cli = Cli::with_shop().await;
    cli.emit(1..=5);
    let first = cli.run(["consume", "-n", "shop", "-s", "m", "--json", "--count", "2"]).ok();
    assert_eq!((first.sequences(), first.err.as_str()), (vec![1, 2], ""));
    let event = cli.run(["read", "-n", "shop", "--limit", "1", "--json"]).ok().out;
    assert_eq!(first.out.lines().next(), event.lines().next(), "an event is written as `read` writes it");
    assert_eq!(cli.show("m")["position"], 2, "what was not asked for is not settled");

    let second = cli.consume_all("m", &[]).ok();
    assert_eq!((second.sequences(), second.err.as_str()), (vec![3, 4, 5], ""));
    assert_eq!(cli.consume_all("m", &[]).ok().out, "");

    let live = cli.consume("m", &[]);
    cli.emit(6..=7);
    assert_eq!([live.sequence(), live.sequence()], [6, 7]);
    let shown = cli.show_until("m", |shown| shown["state"] == "live" && shown["position"] == 7);
    assert!(shown["lease_left_seconds"].as_f64().unwrap() > 1.0, "{shown:#}");
    let stopped = live.stop(Signal::TERM).ok();
    assert!(stopped.err.contains("stopping on SIGTERM"), "{stopped:?}");
    let shown = cli.show("m");
    assert_eq!((&shown["owner"], &shown["state"], &shown["position"]), (&json!(null), &json!("no_owner"), &json!(7)));
    assert_eq!(cli.letters(), [json!(null); 0]);
}

#[tokio::test]
async fn signals_end_it_cleanly() {
    let cli = Cli::with_shop().await;
    cli.emit(1..=5);
    for (signal, code) in [(Signal::TERM, 0), (Signal::INT, 130), (Signal::HUP, 0)] {
        let subscriber = format!("m{code}{signal:?}");
        let consumer = cli.consume(&subscriber, &["--checkpoint", "1000/60s"]);
        assert_eq!([(); 5].map(|()| consumer.sequence()), [1, 2, 3, 4, 5]);
        assert_eq!(cli.show(&subscriber)["position"], 0, "nothing is written yet");
        let said = consumer.stop(signal);
        assert_eq!(said.code, Some(code), "{said:?}");
        let shown = cli.show(&subscriber);
        assert_eq!((&shown["position"], &shown["owner"]), (&json!(5), &json!(null)), "what was handled is written");
    }
}

#[tokio::test]
async fn a_signal_that_comes_twice_at_once_is_one() {
    let cli = Cli::with_shop().await;
    cli.emit_keyed(20, 20);
    let consumer = cli.consume("m", &["--partitions", "16"]);
    (0..20).for_each(|_| _ = consumer.sequence());
    // As `timeout` does it: to the process, and to its group.
    for _ in 0..5 {
        consumer.signal(Signal::TERM);
    }
    let said = consumer.wait().ok();
    assert_eq!(said.err.matches("stopping on SIGTERM").count(), 1, "{said:?}");
    let group = cli.run(["groups", "show", "-n", "shop", "m", "--json"]).ok().json();
    for partition in group["partitions"].as_array().unwrap() {
        assert_eq!(partition["owner"], json!(null), "{group:#}");
    }
    // What was printed is settled.
    assert!(cli.consume_all("m", &["--partitions", "16"]).ok().sequences().is_empty());
}

/// What a checkpoint was moved to, each time, by these arguments.
async fn written(cli: &Cli, subscriber: &str, args: &[&str]) -> Vec<i64> {
    let mut session = cli.db.session().await;
    let sql = "CREATE TABLE IF NOT EXISTS public.written (subscriber text, position bigint, n bigserial);
               CREATE OR REPLACE FUNCTION public.note_written() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS
                   'BEGIN INSERT INTO public.written VALUES (new.subscriber_id, new.position); RETURN NULL; END';
               CREATE OR REPLACE TRIGGER note_written AFTER UPDATE OF position ON headwater_private.subscribers
                   FOR EACH ROW WHEN (old.position <> new.position) EXECUTE FUNCTION public.note_written()";
    sqlx::raw_sql(sql).execute(&mut session).await.unwrap();
    let file = tempfile::tempfile().unwrap();
    let all = ["consume", "-n", "shop", "-s", subscriber, "--until-caught-up"].into_iter().chain(args.iter().copied());
    let child = cli.command(all).stdout(file).stderr(Stdio::piped()).spawn().unwrap();
    Said::from(child.wait_with_output().unwrap()).ok();
    let sql = "SELECT position FROM public.written WHERE subscriber = $1 ORDER BY n";
    sqlx::query_scalar(sql).bind(subscriber).fetch_all(&mut session).await.unwrap()
}

#[tokio::test]
async fn progress_is_written_once_per_flush_or_for_every_line() {
    let cli = Cli::with_shop().await;
    cli.emit(1..=500);
    let each: Vec<i64> = (1..=500).collect();
    assert_eq!(written(&cli, "every", &["--checkpoint", "every"]).await, each);
    // The log may be read in a few pieces.
    let flushed = written(&cli, "flushed", &[]).await;
    assert_eq!(flushed.last(), Some(&500));
    assert!(flushed.len() < 20, "{flushed:?}");
    let pieces = written(&cli, "pieces", &["--batch-size", "100"]).await;
    assert_eq!(pieces.last(), Some(&500));
    assert!((5..=10).contains(&pieces.len()), "{pieces:?}");
    let halves = written(&cli, "halves", &["--checkpoint", "50/60s"]).await;
    let steps = std::iter::once(&0).chain(&halves).zip(&halves).map(|(before, after)| after - before);
    assert!(steps.max() <= Some(50), "{halves:?}");
}

#[tokio::test]
async fn a_group_needs_few_connections() {
    let cli = Cli::with_shop().await;
    cli.emit_keyed(200, 50);
    let consumer = cli.consume("m", &["--partitions", "8"]);
    let mut session = cli.db.session().await;
    let count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'headwater-cli'";
    let mut most = 0_i64;
    for _ in 0..200 {
        consumer.sequence();
        most = most.max(sqlx::query_scalar(count).fetch_one(&mut session).await.unwrap());
    }
    assert!((2..=4).contains(&most), "{most} connections");
    consumer.stop(Signal::TERM).ok();
}

#[tokio::test]
async fn a_count_is_kept_in_every_mode() {
    let cli = Cli::with_shop().await;
    cli.emit_keyed(50, 10);
    for mode in [&[][..], &["--partitions", "4"], &["--shared"], &["--checkpoint", "every"], &["--rate", "1000"]] {
        let subscriber = format!("m{}", mode.join(""));
        let mut all = Vec::new();
        for count in ["7", "20"] {
            let said = cli
                .run(
                    ["consume", "-n", "shop", "-s", &subscriber, "--count", count]
                        .into_iter()
                        .chain(mode.iter().copied()),
                )
                .ok();
            assert_eq!(said.sequences().len().to_string(), count, "{mode:?}");
            all.extend(said.sequences());
        }
        all.extend(cli.consume_all(&subscriber, mode).ok().sequences());
        all.sort_unstable();
        assert_eq!(all, (1..=50).collect::<Vec<_>>(), "{mode:?}");
    }
}

#[tokio::test]
async fn a_closed_output_settles_nothing_and_ends_quietly() {
    let cli = Cli::with_shop().await;
    cli.emit(1..=3);
    // Nobody ever reads.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = cli.command(["consume", "-n", "shop", "-s", "m"]);
    let said: Said = command.stdout(writer).stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap().into();
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    assert_eq!(cli.show("m")["position"], 0);

    // As `| head -1`, also when no other event comes.
    let mut child = cli.spawn(["consume", "-n", "shop", "-s", "m", "--checkpoint", "1000/60s"]);
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    for _ in 0..3 {
        reader.read_line(&mut String::new()).unwrap();
    }
    drop(reader);
    let said: Said = child.wait_with_output().unwrap().into();
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    let shown = cli.show("m");
    assert_eq!((&shown["position"], &shown["owner"]), (&json!(3), &json!(null)), "what was written is settled");
    assert_eq!(cli.letters(), [json!(null); 0]);
}

#[tokio::test]
async fn an_output_that_fails_is_told_and_settles_nothing() {
    let cli = Cli::with_shop().await;
    cli.emit(1..=3);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = cli.command(["consume", "-n", "shop", "-s", "m"]);
    let child = command.stdout(full).stderr(Stdio::piped()).spawn().unwrap();
    Said::from(child.wait_with_output().unwrap()).fails(1, "failed to write to standard output: No space left");
    assert_eq!(cli.show("m")["position"], 0);
    assert_eq!(cli.letters(), [json!(null); 0]);
}

#[tokio::test]
async fn a_slow_reader_is_waited_for() {
    let cli = Cli::with_shop().await;
    let large: String =
        (0..40).map(|n| format!("{{\"type\": \"A\", \"data\": \"{n}{}\"}}\n", "x".repeat(20_000))).collect();
    cli.feed(["append", "-n", "shop", "--file", "-"], &large).ok();
    let mut child = cli.spawn(["consume", "-n", "shop", "-s", "m", "--until-caught-up"]);
    // The pipe is full long before the last line: until it is read, nothing beyond it is settled.
    cli.show_until("m", |shown| shown["position"].as_u64() >= Some(2));
    assert!(cli.show("m")["position"].as_u64().unwrap() < 10);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().count();
    assert_eq!((lines, child.wait().unwrap().code()), (40, Some(0)));
    assert_eq!(cli.show("m")["position"], 40);
}

#[tokio::test]
async fn events_are_chosen_by_place_type_and_stream() {
    let cli = Cli::with_shop().await;
    let lines = r#"{"type": "A", "stream": "order-1"}
{"type": "B", "stream": "order-1"}
{"type": "C", "stream": "user-1"}
{"type": "A", "stream": "user-1"}
{"type": "B"}
"#;
    cli.feed(["append", "-n", "shop", "--file", "-"], lines).ok();
    let got = |id: &str, args: &[&str]| cli.consume_all(id, args).ok().sequences();
    assert_eq!(got("a", &["--event-type", "A", "--event-type", "C"]), [1, 3, 4]);
    assert_eq!(got("b", &["--stream-prefix", "order-"]), [1, 2]);
    assert_eq!(got("c", &["--from", "3"]), [4, 5]);
    assert_eq!(got("d", &["--from", "beginning", "--poll-only", "--no-session-locks"]), [1, 2, 3, 4, 5]);
    assert_eq!(got("e", &["--from", "now"]), [0; 0]);
    assert_eq!(got("f", &["--from", "2001-01-01T00:00:00Z", "--single-instance"]), [1, 2, 3, 4, 5]);
    assert_eq!(got("g", &["--from", "2101-01-01T00:00:00Z"]), [0; 0]);
    for id in ["a", "b", "c", "d", "e", "f", "g"] {
        assert_eq!(cli.show(id)["position"], 5, "{id}: what is not its own is settled too");
    }
    let again = cli.consume_all("c", &["--from", "1"]).ok();
    assert_eq!(again.out, "");
    assert!(again.err.contains("exists and goes on after 5"), "{again:?}");
}

#[tokio::test]
async fn what_cannot_be_is_refused() {
    let cli = Cli::with_shop().await;
    let consume = |args: &[&str]| cli.run(["consume", "-n", "shop", "-s", "m"].iter().chain(args).copied());
    consume(&["--lease", "1s"]).fails(2, "invalid lease 1s: it is 2 s to 1 hour");
    consume(&["--batch-size", "0"]).fails(2, "invalid catch_up_batch_size 0");
    consume(&["--checkpoint", "often"]).fails(2, "as 100/200ms");
    consume(&["--checkpoint", "0/1s"]).fails(2, "batch_size is 1 to 100000");
    consume(&["--from", "yesterday"]).fails(2, "it is beginning, now");
    consume(&["--hold-for", "5"]).fails(2, "0 or forever");
    consume(&["--count", "0"]).fails(2, "--count");
    consume(&["--max-retries", "5"]).fails(2, "--exec");
    consume(&["--concurrency", "5"]).fails(2, "--exec");
    consume(&["--json", "--exec", "true"]).fails(2, "cannot be used with");
    consume(&["--exec", "true", "--handler-timeout", "0s"]).fails(2, "invalid handler_timeout");
    consume(&["--listen-url", "nonsense"]).fails(2, "invalid url for wake-ups");
    consume(&["--event-type", ""]).fails(2, "invalid event_type");
    cli.run(["consume", "-n", "shop", "-s", ""]).fails(2, "invalid subscriber_id");
    cli.run(["consume", "-n", "nope", "-s", "m"]).fails(4, "[WH001]");
    assert_eq!(cli.run(["subscribers", "list", "-n", "shop", "--json"]).ok().out, "", "nothing was made");
}
