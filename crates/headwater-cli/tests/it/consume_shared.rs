//! `consume --shared`: processes that are workers of one queue.

use crate::common::Cli;
use rustix::process::Signal;

fn sorted(mut sequences: Vec<u64>) -> Vec<u64> {
    sequences.sort_unstable();
    sequences
}

#[tokio::test]
async fn processes_share_a_queue() {
    let cli = Cli::with_shop().await;
    let (a, b) = (cli.consume("m", &["--shared"]), cli.consume("m", &["--shared", "--prefetch", "5"]));
    cli.emit(1..=60);
    cli.show_until("m", |shown| shown["position"] == 60);
    let mut all = a.stop(Signal::TERM).ok().sequences();
    all.extend(b.stop(Signal::TERM).ok().sequences());
    assert_eq!(sorted(all), (1..=60).collect::<Vec<_>>());
    assert_eq!(cli.show("m")["mode"], "shared");
}

#[tokio::test]
async fn commands_run_at_once_and_what_fails_becomes_a_dead_letter() {
    let cli = Cli::with_shop().await;
    cli.emit(1..=12);
    let fails =
        "test $HEADWATER_GLOBAL_SEQUENCE != 5 || { echo broken >&2; exit 65; }; echo $HEADWATER_GLOBAL_SEQUENCE";
    let said = cli.consume_all("m", &["--shared", "--concurrency", "4", "--exec", fails]).ok();
    let handled = said.out.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(sorted(handled), (1..=12).filter(|sequence| *sequence != 5).collect::<Vec<_>>());
    let letters = cli.letters();
    assert_eq!((letters.len(), letters[0]["event"]["global_sequence"].as_u64()), (1, Some(5)));
}

#[tokio::test]
async fn the_event_of_a_killed_worker_goes_to_another() {
    let cli = Cli::with_shop().await;
    cli.emit(1..=1);
    // For as long as the worker is there.
    let hangs = "echo $HEADWATER_GLOBAL_SEQUENCE; while kill -0 $PPID; do sleep 0.05; done 2>/dev/null";
    let a = cli.consume("m", &["--shared", "--visibility", "1s", "--exec", hangs]);
    assert_eq!(a.line(), "1");
    let b = cli.consume("m", &["--shared", "--visibility", "1s"]);
    a.stop(Signal::KILL);
    assert_eq!(b.sequence(), 1);
    cli.show_until("m", |shown| shown["position"] == 1);
    b.stop(Signal::TERM).ok();
}

#[tokio::test]
async fn what_is_beyond_the_count_is_left_as_it_was() {
    let cli = Cli::with_shop().await;
    cli.emit(1..=9);
    let mut all = Vec::new();
    for count in ["2", "3"] {
        let said = cli.consume("m", &["--shared", "--count", count, "--prefetch", "2"]).wait().ok();
        all.extend(said.sequences());
    }
    assert_eq!(all.len(), 5);
    all.extend(cli.consume_all("m", &["--shared"]).ok().sequences());
    assert_eq!(sorted(all), (1..=9).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_queue_is_consumed_as_one() {
    let cli = Cli::with_shop().await;
    cli.emit(1..=1);
    cli.consume_all("queue", &["--shared"]).ok();
    cli.consume_all("single", &[]).ok();
    cli.consume_all("queue", &[]).fails(5, "subscriber \"queue\" is shared, not exclusive [WH013]");
    cli.consume_all("single", &["--shared"]).fails(5, "subscriber \"single\" is exclusive, not shared [WH013]");
    cli.consume_all("queue", &["--shared", "--visibility", "10ms"]).fails(2, "invalid visibility 10ms");
    cli.consume_all("queue", &["--shared", "--partitions", "3"]).fails(2, "cannot be used with");
    cli.consume_all("queue", &["--visibility", "10s"]).fails(2, "--shared");
}

#[tokio::test]
async fn a_queue_is_paused_resumed_and_removed_under_its_workers() {
    let cli = Cli::with_shop().await;
    let worker = cli.consume("m", &["--shared"]);
    cli.emit(1..=1);
    assert_eq!(worker.sequence(), 1);
    cli.run(["subscribers", "pause", "-n", "shop", "m"]).ok();
    worker.says("paused: ");
    cli.emit(2..=2);
    assert_eq!(cli.show("m")["state"], "paused");
    cli.run(["subscribers", "resume", "-n", "shop", "m"]).ok();
    assert_eq!(worker.sequence(), 2);
    cli.run(["subscribers", "remove", "-n", "shop", "m", "--yes", "--force"]).ok();
    worker.wait().fails(4, "it was removed: subscriber \"m\" does not exist");
}

#[tokio::test]
async fn an_event_of_priority_goes_first() {
    let cli = Cli::with_shop().await;
    cli.emit(1..=20);
    cli.run(["emit", "-n", "shop", "urgent"]).ok();
    let worker = cli.consume("m", &["--shared", "--priority", "urgent", "--prefetch", "0"]);
    assert_eq!(worker.sequence(), 21);
    assert_eq!(worker.sequence(), 1);
    worker.stop(Signal::TERM).ok();
    cli.consume("n", &["--priority", "urgent"]).wait().fails(2, "--shared");
}

#[tokio::test]
async fn a_rate_is_kept() {
    let cli = Cli::with_shop().await;
    cli.emit(1..=30);
    for args in [&["--rate", "0.001"][..], &["--rate", "0.001", "--shared"]] {
        let subscriber = if args.len() > 2 { "shared" } else { "exclusive" };
        let consumer = cli.consume(subscriber, args);
        assert_eq!(consumer.sequence(), 1);
        cli.show_until(subscriber, |shown| shown["position"] == 1);
        assert_eq!(consumer.stop(Signal::TERM).ok().out, "");
    }
    cli.consume("n", &["--rate", "0"]).wait().fails(2, "invalid rate_limit 0: it is more than 0");
    cli.consume("n", &["--rate", "many"]).wait().fails(2, "--rate");
}
