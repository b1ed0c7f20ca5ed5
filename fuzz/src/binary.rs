//! The decoder never panics on any bytes. A decoded tape, and its canonical form, encodes and
//! decodes back to the same tape.

use gt_ir::{
    DType, Type,
    canonical::{canonical, expand},
    segment,
};

pub(crate) fn check(bytes: &[u8]) {
    if let Ok(tape) = gt_ir::binary::decode(bytes) {
        let again =
            gt_ir::binary::decode(&gt_ir::binary::encode(&tape)).expect("what was encoded decodes");
        assert_eq!(again, tape);
        let (template, bindings) = canonical(&tape);
        // The bindings of a tape that uses a value before its definition do not fit.
        if let Ok(again) = expand(&template, &bindings) {
            assert_eq!(again, tape);
        }
        let _ = segment(&tape, |_| Some(Type::scalar(DType::F32)));
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let text = include_str!("../../gt-ir/tests/files/cat/everything.gt");
    let (tape, _) = gt_ir::text::parse(text).expect("the file parses");
    vec![gt_ir::binary::encode(&tape)]
}
