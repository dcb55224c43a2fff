//! What the macros refuse, and with which messages. After a change, run `TRYBUILD=overwrite cargo
//! test -p headwater-derive`.

#[test]
fn ui() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/ui/pass/*.rs");
    cases.compile_fail("tests/ui/fail/*.rs");
}
