//! `consume --config`: options from a file.

use std::path::PathBuf;

use crate::common::{Cli, Said};

struct File {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl File {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("headwater.toml");
        std::fs::write(&path, text).unwrap();
        File { _folder: folder, path }
    }

    /// `consume` with this file and these words.
    fn consume(&self, cli: &Cli, args: &[&str]) -> Said {
        let config = self.path.to_str().unwrap();
        cli.run(["consume", "--config", config].into_iter().chain(args.iter().copied()))
    }
}

#[tokio::test]
async fn a_file_has_what_is_not_typed() {
    let cli = Cli::with_shop().await;
    cli.emit(1..=5);
    let file = File::new(
        "namespace = \"shop\"\nsubscriber = \"m\"\nuntil-caught-up = true\nevent_type = [\"A\"]\ncount = 2\n",
    );
    assert_eq!(file.consume(&cli, &[]).ok().sequences(), [1, 2]);
    assert_eq!(file.consume(&cli, &["--count", "1"]).ok().sequences(), [3], "what is typed wins");
    assert_eq!(file.consume(&cli, &["-s", "other", "--count", "9"]).ok().sequences(), [1, 2, 3, 4, 5]);
    assert_eq!(cli.show("m")["position"], 3);
    // The variable of the environment too; and the file where there is none.
    let nowhere =
        File::new("namespace = 'shop'\nsubscriber = 'm'\ncount = 1\ndatabase-url = 'postgres://nobody@127.0.0.1:1/x'");
    assert_eq!(nowhere.consume(&cli, &[]).ok().sequences(), [4]);
    let url = format!("namespace = 'shop'\nsubscriber = 'm'\ncount = 1\ndatabase-url = {:?}", cli.db.url);
    let file = File::new(&url);
    let mut command = crate::common::command();
    let said: Said = command.args(["consume", "--config", file.path.to_str().unwrap()]).output().unwrap().into();
    assert_eq!(said.ok().sequences(), [5]);
}

#[tokio::test]
async fn a_file_is_as_strict_as_the_command_line() {
    let cli = Cli::with_shop().await;
    let refused =
        |text: &str, saying: &str| _ = File::new(text).consume(&cli, &["-n", "shop", "-s", "m"]).fails(2, saying);
    refused("leese = '10s'", "there is no key \"leese\"");
    refused("lease = 'soon'", "invalid value of key \"lease\"");
    refused("shared = 1", "invalid value of key \"shared\": it is true or false");
    refused("lease = '1s'", "invalid lease 1s: it is 2 s to 1 hour");
    refused("max-retries = 5", "--exec");
    refused("json = true\nexec = 'true'", "cannot be used with");
    refused("= 1", "is not valid TOML");
    File::new("subscriber = 'm'").consume(&cli, &[]).fails(2, "--namespace");
    cli.run(["consume", "-n", "shop", "-s", "m", "--config", "/nowhere.toml"]).fails(2, "/nowhere.toml");
    assert_eq!(cli.run(["subscribers", "list", "-n", "shop", "--json"]).ok().out, "", "nothing was made");
}
