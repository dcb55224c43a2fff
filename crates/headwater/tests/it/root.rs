//! The public names of the crate: which are at the root, and which in its modules. After a change:
//! `HEADWATER_UPDATE_SNAPSHOT=1 scripts/test -p headwater root`.

use std::collections::BTreeSet;
use std::path::Path;

use syn::{Item, UseTree, Visibility};

/// Names that a `use` makes, without the paths to them.
fn names(tree: &UseTree, found: &mut BTreeSet<String>) {
    match tree {
        UseTree::Path(path) => names(&path.tree, found),
        UseTree::Name(name) => _ = found.insert(name.ident.to_string()),
        UseTree::Rename(rename) => _ = found.insert(rename.rename.to_string()),
        UseTree::Group(group) => group.items.iter().for_each(|tree| names(tree, found)),
        UseTree::Glob(_) => panic!("a glob hides what is public"),
    }
}

fn public(items: &[Item], module: &str, lines: &mut Vec<String>) {
    let is_public = |visibility: &Visibility| matches!(visibility, Visibility::Public(_));
    let mut found = BTreeSet::new();
    for item in items {
        match item {
            Item::Use(item) if is_public(&item.vis) => names(&item.tree, &mut found),
            Item::Mod(item) if is_public(&item.vis) => {
                found.insert(format!("{}::", item.ident));
                if let Some((_, items)) = &item.content {
                    public(items, &format!("{module}{}::", item.ident), lines);
                }
            }
            _ => {}
        }
    }
    found.remove("__private");
    lines.extend(found.into_iter().map(|name| format!("{module}{name}")));
}

#[test]
fn the_public_names_are_those_of_the_snapshot() {
    let source = syn::parse_file(include_str!("../../src/lib.rs")).expect("lib.rs is Rust");
    let mut lines = Vec::new();
    public(&source.items, "", &mut lines);
    lines.sort_by_key(|line| (line.trim_end_matches(':').contains("::"), line.clone()));
    let now = lines.join("\n") + "\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/root.snapshot");
    if std::env::var_os("HEADWATER_UPDATE_SNAPSHOT").is_some() {
        std::fs::write(&path, &now).expect("the snapshot can be written");
    }
    let snapshot = std::fs::read_to_string(&path).expect("there is a snapshot");
    assert_eq!(now, snapshot, "a public name was added or removed");
    let at_root = lines.iter().filter(|line| !line.contains("::")).count();
    assert!(at_root <= 22, "{at_root} names at the root: put what few programs use into a module");
}
