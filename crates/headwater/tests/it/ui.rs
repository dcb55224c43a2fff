//! What cannot be combined does not compile, with a message that helps.

#[test]
fn wrong_combinations_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
