//! The parser never panics on any text. A parsed tape prints and parses back to the same tape.

pub(crate) fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok((tape, _)) = gt_ir::text::parse(text) {
        let printed = gt_ir::text::print(&tape);
        let (again, _) = gt_ir::text::parse(&printed).expect("what was printed parses");
        assert_eq!(again, tape, "{printed}");
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        include_str!("../../gt-ir/tests/files/cat/everything.gt"),
        include_str!("../../gt-ir/tests/files/verify/text.gt"),
    ];
    texts.map(|text| text.as_bytes().to_vec()).to_vec()
}
