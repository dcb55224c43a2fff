//! `namespace rename`, `export` and `import`, from a shell.

use crate::common::Cli;

#[tokio::test]
async fn a_namespace_is_exported_imported_and_renamed() {
    let cli = Cli::with_shop().await;
    cli.emit(1..=2_500);
    let consumed = cli.run(["consume", "-n", "shop", "-s", "mailer", "--json", "--count", "100"]).ok();
    assert_eq!(consumed.json_lines().len(), 100);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.jsonl").into_os_string().into_string().unwrap();

    let said = cli.run(["namespace", "export", "shop", &file]).ok();
    assert!(said.err.contains("exported 2,500 events"), "{said:?}");
    // What is there is not written over.
    cli.run(["namespace", "export", "shop", &file]).fails(2, "failed to create");
    cli.run(["namespace", "import", &file]).fails(2, "exists already");
    cli.run(["namespace", "import", &file, "--as", "copy"]).ok();
    let piped = cli.run(["namespace", "export", "copy"]).ok().out;
    assert_eq!(piped.lines().filter(|line| line.contains(r#""kind": "event""#)).count(), 2_500);
    cli.feed(["namespace", "import", "-", "--as", "second"], &piped).ok();
    let cut_off = &piped[..piped.len() / 2];
    cli.feed(["namespace", "import", "-", "--as", "third"], cut_off).fails(2, "");
    cli.run(["namespace", "show", "third"]).fails(4, "does not exist");

    cli.run(["namespace", "rename", "copy", "store"]).ok();
    cli.run(["namespace", "rename", "store", "shop"]).fails(2, "exists already");
    for name in ["store", "second"] {
        cli.run(["audit", "-n", name]).ok();
        let shown = cli.run(["subscribers", "show", "-n", name, "mailer", "--json"]).ok().json();
        assert_eq!(shown["position"], 100, "{shown}");
        let events = cli.run(["read", "-n", name, "--json"]).ok().json_lines();
        assert_eq!(events.len(), 2_500);
    }
}

/// Whoever consumes from a namespace that is dropped ends, and says why.
#[tokio::test]
async fn consumers_of_a_dropped_namespace_end() {
    let cli = Cli::with_shop().await;
    cli.emit(1..=1);
    let exclusive = cli.consume("one", &["--node", "n1"]);
    let shared = cli.consume("queue", &["--shared", "--node", "n2"]);
    let group = cli.consume("group", &["--partitions", "2", "--node", "n3"]);
    for consumer in [&exclusive, &shared, &group] {
        assert_eq!(consumer.sequence(), 1);
    }
    cli.run(["namespace", "drop", "shop", "--confirm", "shop"]).fails(5, "is in use by node");
    cli.run(["namespace", "drop", "shop", "--confirm", "shop", "--force"]).ok();
    for consumer in [exclusive, shared, group] {
        consumer.wait().fails(4, "it was removed, or is not granted any more: namespace \"shop\" does not exist");
    }
}
