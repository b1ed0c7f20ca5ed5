//! The reader of tables never panics on any bytes, with a header and without. A table that is read
//! is written and read back as it was.

use gt_ir::testing::same_bits;
use gt_lang::io::csv::{Header, from_bytes, to_bytes};

pub(crate) fn check(bytes: &[u8]) {
    for header in [Header::Yes, Header::No] {
        if let Ok(table) = from_bytes(bytes, header, "x.csv") {
            let written = to_bytes(&table).expect("what was read can be written");
            let again = from_bytes(&written, header, "x.csv").expect("what was written is read");
            assert_eq!(again.columns, table.columns);
            assert!(same_bits(&again.values, &table.values), "{table:?} {again:?}");
        }
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let texts = ["x,y\n1,2.5\n-3e4,\n", "1 , 2\n nan,inf\n", "\"a, b\",c\n0.1,\"2\"\n"];
    texts.map(|text| text.as_bytes().to_vec()).to_vec()
}
