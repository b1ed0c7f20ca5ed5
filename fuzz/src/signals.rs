//! The reader of configuration files never panics on any text. A configuration that is
//! read is written and read back as it was.

use gt_lang::config::parse_config;

pub(crate) fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(file) = parse_config(text, "x.yaml") {
        let written = serde_yaml::to_string(&file).expect("what was read can be written");
        let again = parse_config(&written, "x.yaml").expect("what was written is read");
        assert_eq!(again, file, "{written}");
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        "layer1:\n  shard:\n    axis: 0\n    workers: [0, 1]\n    replicated: false\n    open: \
         false\n    priority: 0\n    microbatches: 4\n    schedule: gpipe\n  backward: \
         layer1_grad\n  compile: true\n",
        "a: {shard: {axis: Batch}}\nb: &b {compile: true}\nc: *b\n",
        "session: {workers: 2, engine: native, device: cpu}\na: {}\n",
    ];
    texts.map(|text| text.as_bytes().to_vec()).to_vec()
}
