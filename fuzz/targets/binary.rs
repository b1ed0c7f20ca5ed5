//! Any bytes: the decoder answers, and what it accepts encodes and decodes back to the same tape,
//! and so does its canonical form.
#![no_main]

use gt_ir::{
    DType, Type,
    canonical::{canonical, expand},
    segment,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(tape) = gt_ir::binary::decode(bytes) {
        let again =
            gt_ir::binary::decode(&gt_ir::binary::encode(&tape)).expect("what was encoded decodes");
        assert_eq!(again, tape);
        let (template, bindings) = canonical(&tape);
        // What uses a value before it is defined has bindings that fit nothing.
        if let Ok(again) = expand(&template, &bindings) {
            assert_eq!(again, tape);
        }
        let _ = segment(&tape, |_| Some(Type::scalar(DType::F32)));
    }
});
