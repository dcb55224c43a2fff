//! The pages of the repository: prose keeps to 100 columns, and every file, test and page that they
//! name is there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const WIDTH: usize = 100;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The files below a folder, without what is built or hidden.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap_or_default();
        if name.starts_with('.') || name == "target" {
            continue;
        }
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found
}

/// All files by their path from the root, as `/crates/…`.
fn names() -> BTreeSet<String> {
    let root = root();
    files(&root).iter().map(|path| format!("/{}", path.strip_prefix(&root).unwrap().display())).collect()
}

struct Page {
    name: String,
    text: String,
}

/// The pages for people.
fn pages() -> Vec<Page> {
    let is_page = |name: &&String| {
        name.starts_with("/docs/") && name.ends_with(".md")
            || ["/README.md", "/ARCHITECTURE.md", "/CONTRIBUTING.md"].contains(&name.as_str())
    };
    let read = |name: &String| Page { name: name.clone(), text: fs::read_to_string(root().join(&name[1..])).unwrap() };
    names().iter().filter(is_page).map(read).collect()
}

/// Those about the code, in which each name of a file or of a test means one that is there.
fn pages_about_the_code() -> Vec<Page> {
    let about_code = |page: &Page| {
        page.name.starts_with("/docs/design/")
            || ["/ARCHITECTURE.md", "/CONTRIBUTING.md", "/docs/security.md"].contains(&page.name.as_str())
    };
    pages().into_iter().filter(about_code).collect()
}

/// The lines of a page outside of code blocks, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        (!in_code && !is_fence).then_some((at + 1, line))
    })
}

/// What stands between backticks, and the words of drawings: of code blocks without a language.
fn names_of_code(text: &str) -> Vec<(usize, &str)> {
    let spans = prose(text).flat_map(|(at, line)| line.split('`').skip(1).step_by(2).map(move |span| (at, span)));
    let mut block = None;
    let mut drawn = Vec::new();
    for (at, line) in text.lines().enumerate() {
        match (line.strip_prefix("```"), block) {
            (Some(_), Some(_)) => block = None,
            (Some(language), None) => block = Some(language),
            (None, Some("")) => drawn.extend(line.split([' ', ',', ':']).map(|word| (at + 1, word))),
            (None, _) => {}
        }
    }
    spans.chain(drawn).collect()
}

#[test]
fn prose_is_wrapped() {
    let mut wrong = Vec::new();
    for page in pages() {
        for (at, line) in prose(&page.text) {
            let can_be_broken = line.trim_start_matches(['-', '*', ' ']).contains(' ');
            if line.chars().count() > WIDTH && can_be_broken && !line.starts_with(['|', '#']) {
                wrong.push(format!("{}:{at}", page.name));
            }
        }
    }
    assert!(wrong.is_empty(), "prose is wrapped at {WIDTH} columns, tables and code excepted: {wrong:#?}");
}

#[test]
fn architecture_is_a_page_of_250_lines() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    assert!(text.lines().count() <= 250, "{} lines: proofs belong into docs/design", text.lines().count());
    let wide: Vec<_> = text.lines().filter(|line| line.chars().count() > WIDTH).collect();
    assert!(wide.is_empty(), "{wide:#?}");
}

/// `a/b.rs` names a file whose path ends so, `a/b/` a folder, and `b.rs::c` a test or function of
/// that file.
#[test]
fn every_file_and_test_that_is_named_is_there() {
    let names = names();
    let mut missing = Vec::new();
    for page in pages_about_the_code() {
        for (at, span) in names_of_code(&page.text) {
            let (path, function) = span.split_once("::").map_or((span, None), |(path, name)| (path, Some(name)));
            let is_name = path.chars().all(|c| c.is_ascii_alphanumeric() || "._-/".contains(c));
            let is_file =
                [".rs", ".sql", ".md", ".toml", ".py", ".java", ".snapshot"].iter().any(|end| path.ends_with(end));
            let is_folder = path.ends_with('/') && path.len() > 1;
            if !is_name || path.starts_with('.') || !(is_file || is_folder) {
                continue;
            }
            let suffix = format!("/{}", path.trim_start_matches('/'));
            let is_meant = |name: &&String| if is_folder { name.contains(&suffix) } else { name.ends_with(&suffix) };
            let has_function = |name: &String| {
                let Some(function) = function else { return true };
                let text = fs::read_to_string(root().join(&name[1..])).unwrap();
                // Some tests are made by macros, from their names alone.
                text.contains(&format!("fn {function}(")) || text.contains(&format!("fn {function}<"))
            };
            if !names.iter().filter(is_meant).any(has_function) {
                missing.push(format!("{}:{at} names {span}", page.name));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

/// `crates/headwater/src/guides.rs` lists the pages whose Rust is compiled.
#[test]
fn every_block_of_rust_is_compiled() {
    let listed = fs::read_to_string(root().join("crates/headwater/src/guides.rs")).unwrap();
    let mut left_out = Vec::new();
    for page in pages() {
        for fence in page.text.lines().filter(|line| line.starts_with("```rust")) {
            let path = page.name.trim_start_matches("/docs");
            let is_listed = listed.contains(&format!("{path}\"")) || listed.contains(&format!("\"{}\"", &path[1..]));
            if fence.contains("ignore") || !is_listed {
                left_out.push(format!("{}: {fence}", page.name));
            }
        }
    }
    assert!(left_out.is_empty(), "{left_out:#?}");
}

/// A heading as the address of a link: `## What to know` is `#what-to-know`.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter(|(_, line)| line.starts_with('#'));
    let slug = |(_, line): (usize, &str)| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c)).collect::<String>().replace(' ', "-")
    };
    headings.map(slug).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut broken = Vec::new();
    for page in pages() {
        let folder = root().join(&page.name[1..]).parent().unwrap().to_path_buf();
        let text: String = prose(&page.text).map(|(_, line)| format!("{line}\n")).collect();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split([')', '\n']).next()) {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { root().join(&page.name[1..]) } else { folder.join(path) };
            let leads = match anchor {
                "" => target.exists(),
                anchor => fs::read_to_string(target).is_ok_and(|text| anchors(&text).contains(anchor)),
            };
            if !leads {
                broken.push(format!("{}: {link}", page.name));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}
