//! All integration tests of `headwater-testing`, as one binary: it is linked once, and nextest runs
//! each test in a process of its own.

mod own_server;
mod readme;

#[test]
fn the_readme_shows_a_test_that_runs() {
    let readme = include_str!("../../README.md");
    let shown = readme.split_once("```rust\n").and_then(|(_, rest)| rest.split_once("```")).map(|(block, _)| block);
    assert_eq!(shown, Some(include_str!("readme.rs")), "README.md and tests/it/readme.rs differ");
}
