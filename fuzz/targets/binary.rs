//! Any bytes: the decoder answers, and what it accepts encodes and decodes back to the same tape.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(tape) = gt_ir::binary::decode(bytes) {
        let again = gt_ir::binary::decode(&gt_ir::binary::encode(&tape)).expect("what was encoded decodes");
        assert_eq!(again, tape);
    }
});
