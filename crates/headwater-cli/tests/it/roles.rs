//! `grant`, `revoke`, `grants`, and what the commands do as a role.

use crate::common::{Cli, Said, command};
use headwater_testing::TestRole;

/// Runs a command as a role.
fn run<'a>(role: &TestRole, args: impl IntoIterator<Item = &'a str>) -> Said {
    command().env("DATABASE_URL", &role.url).args(args).output().unwrap().into()
}

#[tokio::test]
async fn roles_are_granted_listed_and_revoked() {
    let cli = Cli::with_shop().await;
    let role = cli.db.role().await;
    let granted = cli.run(["grant", "-n", "shop", "--role", &role.name, "producer"]).ok();
    assert_eq!(granted.out, format!("role {} is producer of namespace shop\n", role.name));
    cli.run(["grant", "-n", "shop", "--role", &role.name, "consumer"]).ok();
    let listed = cli.run(["grants", "-n", "shop", "--json"]).ok().json_lines();
    let kinds: Vec<_> = listed.iter().map(|grant| (&grant["role"], &grant["kind"])).collect();
    assert_eq!(serde_json::json!(kinds), serde_json::json!([[role.name, "consumer"], [role.name, "producer"]]));
    assert!(cli.run(["grants"]).ok().out.contains(&role.name));

    cli.run(["grant", "-n", "shop", "--role", "nobody", "admin"]).fails(2, "role 'nobody' does not exist");
    cli.run(["grant", "-n", "shop", "--role", &role.name, "king"]).fails(2, "it is producer, consumer or admin");
    cli.run(["grant", "-n", "void", "--role", &role.name, "admin"]).fails(4, "[WH001]");
    run(&role, ["grant", "-n", "shop", "--role", &role.name, "admin"]).fails(1, "[WH015]");
    run(&role, ["migrate"]).fails(1, "[WH015]");

    let revoked = cli.run(["revoke", "-n", "shop", "--role", &role.name, "producer"]).ok();
    assert_eq!(revoked.out, format!("took 1 grant back from role {} in namespace shop\n", role.name));
    cli.run(["revoke", "-n", "shop", "--role", &role.name, "producer"]).fails(4, "has no such grant");
    cli.run(["revoke", "-n", "shop", "--role", &role.name]).ok();
    run(&role, ["read", "-n", "shop"]).fails(1, "[WH015]");
    cli.db.drop_role(role).await;
}

#[tokio::test]
async fn every_command_finds_no_namespace_of_others() {
    let cli = Cli::with_shop().await;
    cli.run(["namespace", "create", "bank"]).ok();
    cli.run(["emit", "-n", "bank", "Secret"]).ok();
    cli.consume_all("mailer", &[]).ok();
    let role = cli.db.role().await;
    cli.run(["grant", "-n", "shop", "--role", &role.name, "admin"]).ok();
    let commands: [&[&str]; 14] = [
        &["emit", "-n", "bank", "A"],
        &["append", "-n", "bank", "--stream", "s", "A"],
        &["read", "-n", "bank"],
        &["consume", "-n", "bank", "-s", "mailer", "--until-caught-up"],
        &["subscribers", "list", "-n", "bank"],
        &["subscribers", "show", "-n", "bank", "mailer"],
        &["groups", "list", "-n", "bank"],
        &["lag", "-n", "bank"],
        &["dead-letters", "list", "-n", "bank"],
        &["audit", "-n", "bank"],
        &["due", "list", "-n", "bank"],
        &["namespace", "show", "bank"],
        &["namespace", "set", "bank", "--notify", "false"],
        &["grants", "-n", "bank"],
    ];
    for args in commands {
        let theirs = run(&role, args.iter().copied()).fails(4, "[WH001]");
        let nobodys = run(&role, args.iter().map(|arg| if *arg == "bank" { "void" } else { arg })).fails(4, "[WH001]");
        assert_eq!(theirs.err.replace("bank", "void"), nobodys.err);
    }
    for args in [&["namespace", "list"][..], &["status"], &["grants"]] {
        let said = run(&role, args.iter().copied()).ok();
        assert!(said.out.contains("shop") && !said.out.contains("bank"), "{said:?}");
    }
    cli.run(["revoke", "-n", "shop", "--role", &role.name]).ok();
    cli.db.drop_role(role).await;
}

#[tokio::test]
async fn producers_and_consumers_use_the_command_for_their_part() {
    let cli = Cli::with_shop().await;
    let (producer, consumer) = (cli.db.role().await, cli.db.role().await);
    cli.run(["grant", "-n", "shop", "--role", &producer.name, "producer"]).ok();
    cli.run(["grant", "-n", "shop", "--role", &consumer.name, "consumer"]).ok();
    for _ in 0..3 {
        run(&producer, ["emit", "-n", "shop", "A"]).ok();
    }
    run(&producer, ["read", "-n", "shop"]).fails(1, "[WH015]");
    assert_eq!(run(&consumer, ["read", "-n", "shop", "--json"]).ok().json_lines().len(), 3);
    let consumed = run(&consumer, ["consume", "-n", "shop", "-s", "mailer", "--until-caught-up", "--json"]).ok();
    assert_eq!(consumed.json_lines().len(), 3, "{consumed:?}");
    let shared = ["consume", "-n", "shop", "-s", "work", "--shared", "--until-caught-up", "--json"];
    assert_eq!(run(&consumer, shared).ok().json_lines().len(), 3);
    assert_eq!(run(&consumer, ["subscribers", "list", "-n", "shop", "--json"]).ok().json_lines().len(), 2);
    run(&consumer, ["audit", "-n", "shop"]).ok();
    run(&consumer, ["emit", "-n", "shop", "A"]).fails(1, "[WH015]");
    for role in [producer, consumer] {
        cli.run(["revoke", "-n", "shop", "--role", &role.name]).ok();
        cli.db.drop_role(role).await;
    }
}
