//! What a user says and hears of plans.

use crate::process::Process;

const DIGITS: &str = "examples/digits";

#[test]
fn a_tier_that_is_none_is_told() {
    let run = Process::start_with(DIGITS, &["--epochs", "1"], &[("GT_TIER", "7")]).finish();
    let (_, said) = run.bad();
    assert!(said.contains("GT_TIER=7 is no tier") && said.contains("hint: 0 runs"), "{said}");
}
