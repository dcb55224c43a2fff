//! What users copy from the pages has the versions of this workspace.

const WORKSPACE: &str = include_str!("../../../../Cargo.toml");
const PAGES: [(&str, &str); 3] = [
    ("README.md", include_str!("../../../../README.md")),
    ("crates/headwater/README.md", include_str!("../../README.md")),
    ("crates/headwater-testing/README.md", include_str!("../../../headwater-testing/README.md")),
];

/// The version that a line such as `name = "1.2"` or `name = { version = "1.2", … }` asks for.
fn version<'a>(lines: &'a str, name: &str) -> Option<&'a str> {
    let line = lines.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(" = ")))?;
    let (_, value) = line.split_once(" = ")?;
    value.trim_start_matches("{ version = ").trim_start_matches('"').split('"').next()
}

/// The blocks of a page that stand in a user's `Cargo.toml`.
fn dependencies(page: &str) -> String {
    let blocks = page.split("```toml\n").skip(1).filter_map(|block| block.split("```").next());
    blocks.filter(|block| block.contains("dependencies]")).collect()
}

#[test]
fn dependencies_have_the_versions_of_the_workspace() {
    let own = version(WORKSPACE, "version").expect("the workspace has a version");
    let own = own.rsplit_once('.').expect("three numbers").0;
    for (page, text) in PAGES {
        let lines = dependencies(text);
        let mut checked = 0;
        for line in lines.lines().filter(|line| line.contains(" = ")) {
            let (name, _) = line.split_once(' ').expect("a name");
            let workspace = if name.starts_with("headwater") { Some(own) } else { version(WORKSPACE, name) };
            assert_eq!(version(line, name), workspace, "{page}: {name}");
            checked += 1;
        }
        assert!(checked > 0, "{page} has no dependencies");
    }
    for name in ["headwater", "serde", "sqlx", "tokio"] {
        assert!(version(&dependencies(PAGES[0].1), name).is_some(), "README.md names {name}");
    }
}

/// The command is installed before it is used.
#[test]
fn the_readme_installs_the_command_first() {
    let install = PAGES[0].1.find("cargo install --path crates/headwater-cli").expect("the README says how to install");
    let used = PAGES[0].1.find("\nheadwater ").expect("the README uses the command");
    assert!(install < used);
}
