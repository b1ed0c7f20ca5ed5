//! The parser never panics on any text. A parsed tape prints and parses back to the same tape.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok((tape, _)) = gt_ir::text::parse(text) {
        let printed = gt_ir::text::print(&tape);
        let (again, _) = gt_ir::text::parse(&printed).expect("what was printed parses");
        assert_eq!(again, tape, "{printed}");
    }
});
