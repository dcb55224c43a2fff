//! `consume --exec`: events handled by a command.

use std::path::Path;

use crate::common::Cli;
use rustix::process::Signal;
use serde_json::{Value, json};

/// Whether a process is there and does something.
fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

fn error(letter: &Value, attempt: usize) -> &str {
    letter["attempts"][attempt]["errors"][0].as_str().unwrap()
}

#[tokio::test]
async fn a_command_gets_the_event_and_its_environment() {
    let cli = Cli::with_shop().await;
    cli.run(["append", "-n", "shop", "-s", "order-1", "Placed", r#"{"total": 5}"#]).ok();
    cli.run(["emit", "-n", "shop", "Other"]).ok();
    let print = "for name in NAMESPACE SUBSCRIBER EVENT_TYPE GLOBAL_SEQUENCE STREAM_ID EVENT_ID; do \
                 eval echo \"$name=\\${HEADWATER_$name-unset}\"; done; cat";
    let said = cli.consume_all("m", &["--exec", print]).ok();
    let events = cli.run(["read", "-n", "shop", "--json"]).ok();
    let [first, second] = &events.json_lines()[..] else { panic!("two events") };
    let mut lines = events.out.lines();
    let expected = format!(
        "NAMESPACE=shop\nSUBSCRIBER=m\nEVENT_TYPE=Placed\nGLOBAL_SEQUENCE=1\nSTREAM_ID=order-1\nEVENT_ID={}\n{}\n\
         NAMESPACE=shop\nSUBSCRIBER=m\nEVENT_TYPE=Other\nGLOBAL_SEQUENCE=2\nSTREAM_ID=unset\nEVENT_ID={}\n{}\n",
        first["id"].as_str().unwrap(),
        lines.next().unwrap(),
        second["id"].as_str().unwrap(),
        lines.next().unwrap(),
    );
    assert_eq!(said.out, expected);
    assert_eq!(cli.letters(), [json!(null); 0]);
    // One that does not read its input has handled it all the same.
    let large = format!("\"{}\"", "x".repeat(500_000));
    cli.feed(["emit", "-n", "shop", "Large", "-"], &large).ok();
    cli.consume_all("m", &["--exec", "exec <&-; true", "--max-retries", "0"]).ok();
    assert_eq!(cli.letters(), [json!(null); 0]);
}

#[tokio::test]
async fn failures_become_dead_letters_with_their_attempts() {
    let cli = Cli::with_shop().await;
    cli.emit(1..=4);
    let script = r#"
        case $HEADWATER_GLOBAL_SEQUENCE in
            1) echo "the bank is closed" >&2; exit 3;;
            2) echo "no such card" >&2; exit 65;;
            3) kill -9 $$;;
            *) head -c 10000 /dev/zero | tr '\0' x >&2; echo END >&2; exit 1;;
        esac"#;
    let said = cli.consume_all("m", &["--exec", script, "--max-retries", "2", "--retry-delay", "1ms"]).ok();
    assert!(said.err.contains("the bank is closed\n"), "stderr is passed on: {said:?}");
    let letters = cli.letters();
    let tries: Vec<_> = letters.iter().map(|letter| letter["attempts"].as_array().unwrap().len()).collect();
    assert_eq!(tries, [3, 1, 3, 3]);
    assert_eq!(error(&letters[0], 2), "the command exited with 3: the bank is closed");
    assert_eq!(error(&letters[1], 0), "the command exited with 65: no such card");
    assert_eq!(error(&letters[2], 0), "the command was ended by signal 9");
    let long = error(&letters[3], 0);
    assert!(long.starts_with("the command exited with 1: xxx") && long.ends_with("xEND"), "{long}");
    assert!((4_000..=4_130).contains(&long.len()), "{}", long.len());
    assert_eq!(cli.show("m")["position"], 4);
    assert_eq!(cli.show("m")["dead_letters"], 4);
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_killed_with_all_it_started() {
    let cli = Cli::with_shop().await;
    cli.emit(1..=1);
    let args = ["--exec", "echo begun >&2; sleep 1000 & echo $!; wait", "--handler-timeout", "300ms"];
    let said = cli.consume_all("m", &[&args[..], &["--max-retries", "1", "--retry-delay", "1ms"]].concat()).ok();
    let pids: Vec<_> = said.out.lines().collect();
    assert_eq!(pids.len(), 2);
    assert!(!pids.iter().any(|pid| runs(pid)), "{pids:?}");
    let letters = cli.letters();
    assert_eq!(error(&letters[0], 1), "the command took longer than 300ms and was killed: begun");
}

#[tokio::test]
async fn what_a_command_leaves_behind_does_not_hold_the_next() {
    let cli = Cli::with_shop().await;
    cli.emit(1..=3);
    let said = cli.consume_all("m", &["--exec", "sleep 1000 >/dev/null & echo $!"]).ok();
    let pids: Vec<_> = said.out.lines().collect();
    assert!(pids.len() == 3 && pids.iter().all(|pid| runs(pid)), "{pids:?}");
    for pid in pids {
        let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
        rustix::process::kill_process(pid, Signal::KILL).unwrap();
    }
}

#[tokio::test]
async fn exhaustion_parks_a_key_or_pauses() {
    let cli = Cli::with_shop().await;
    for key in ["a", "b", "a", "b"] {
        cli.run(["emit", "-n", "shop", "A", "--key", key]).ok();
    }
    let fails = "[ $HEADWATER_GLOBAL_SEQUENCE != 1 ] || exit 65; echo $HEADWATER_GLOBAL_SEQUENCE";
    let said = cli.consume_all("parks", &["--exec", fails, "--on-exhaustion", "park-key"]).ok();
    assert_eq!(said.out, "2\n4\n");
    let letters = cli.letters();
    let states: Vec<_> = letters.iter().map(|letter| (&letter["event"]["global_sequence"], &letter["state"])).collect();
    assert_eq!(states, [(&json!(1), &json!("dead")), (&json!(3), &json!("parked"))]);

    let paused = cli.consume("pauses", &["--exec", "exit 65", "--on-exhaustion", "pause"]);
    paused.says("paused: `headwater subscribers resume` lets it go on");
    let shown = cli.show("pauses");
    assert_eq!((&shown["state"], &shown["position"]), (&json!("paused"), &json!(0)));
    paused.stop(Signal::TERM).ok();
    cli.run(["subscribers", "resume", "-n", "shop", "pauses"]).ok();
    assert_eq!(cli.consume_all("pauses", &[]).ok().sequences(), [1, 2, 3, 4]);
}

#[tokio::test]
async fn commands_of_different_keys_run_at_once() {
    let cli = Cli::with_shop().await;
    cli.emit(1..=3);
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().display();
    // Each waits for the other two.
    let meet = format!(
        "touch {place}/$HEADWATER_GLOBAL_SEQUENCE; until [ $(ls {place} | wc -l) = 3 ]; do sleep 0.01; done; echo met"
    );
    let said = cli.consume_all("m", &["--exec", &meet, "--concurrency", "3", "--max-retries", "0"]).ok();
    assert_eq!(said.out, "met\nmet\nmet\n");
}

#[tokio::test]
async fn a_count_leaves_the_next_event_alone() {
    let cli = Cli::with_shop().await;
    cli.emit(1..=20);
    for run in 1..=3 {
        let args = ["consume", "-n", "shop", "-s", "m", "--count", "5", "--max-retries", "0", "--exec"];
        let said = cli.run(args.into_iter().chain(["echo x; cat >/dev/null"])).ok();
        assert_eq!((said.out.lines().count(), said.err.as_str()), (5, ""));
        assert_eq!(cli.show("m")["position"], 5 * run);
    }
    let args = ["consume", "-n", "shop", "-s", "n", "--count", "7", "--max-retries", "0", "--concurrency", "4"];
    let said = cli.run(args.into_iter().chain(["--checkpoint", "100/1s", "--exec", "echo x"])).ok();
    assert_eq!((said.out.lines().count(), said.err.as_str()), (7, ""));
    assert_eq!(cli.show("n")["position"], 7);
    assert_eq!(cli.letters(), [json!(null); 0]);
}

#[tokio::test]
async fn a_signal_lets_the_command_finish_and_a_second_does_not() {
    let cli = Cli::with_shop().await;
    cli.emit(1..=2);
    let folder = tempfile::tempdir().unwrap();
    let go = folder.path().join("go");
    let wait = format!("echo $$; until [ -e {} ]; do sleep 0.01; done; echo done", go.display());
    let consumer = cli.consume("m", &["--exec", &wait]);
    let pid = consumer.line();
    consumer.signal(Signal::TERM);
    consumer.says("stopping on SIGTERM");
    assert!(runs(&pid));
    std::fs::write(&go, "").unwrap();
    let said = consumer.wait().ok();
    assert_eq!(said.out, "done\n");
    assert_eq!(cli.show("m")["position"], 1);

    std::fs::remove_file(&go).unwrap();
    let consumer = cli.consume("m", &["--exec", &wait]);
    let pid = consumer.line();
    consumer.signal(Signal::TERM);
    consumer.says("stopping on SIGTERM");
    // One that comes at once is the same wish. Who insists is heard.
    consumer.signal(Signal::INT);
    assert!(runs(&pid));
    let said = consumer.insist(Signal::INT).fails(130, "again");
    assert_eq!(said.out, "");
    let begin = std::time::Instant::now();
    while runs(&pid) {
        assert!(begin.elapsed().as_secs() < 10, "the command was killed too");
    }
    assert_eq!(cli.show("m")["position"], 1);
}

#[tokio::test]
async fn a_signal_lets_all_commands_finish() {
    let cli = Cli::with_shop().await;
    cli.emit(1..=2);
    let folder = tempfile::tempdir().unwrap();
    let go = folder.path().join("go");
    let wait = format!("echo begun; until [ -e {} ]; do sleep 0.01; done; echo done", go.display());
    let consumer = cli.consume("m", &["--exec", &wait, "--concurrency", "2"]);
    assert_eq!([consumer.line(), consumer.line()], ["begun", "begun"]);
    consumer.signal(Signal::TERM);
    consumer.says("stopping on SIGTERM");
    std::fs::write(&go, "").unwrap();
    assert_eq!(consumer.wait().ok().out, "done\ndone\n");
    assert_eq!(cli.show("m")["position"], 2);
}
