//! The fuzzer of the target that `GT_FUZZ_TARGET` names; its seeds go into the folder
//! `GT_FUZZ_CORPUS`.
#![no_main]

use std::{path::PathBuf, sync::OnceLock};

use gt_fuzz::{Target, target};
use libfuzzer_sys::fuzz_target;

static TARGET: OnceLock<&'static Target> = OnceLock::new();

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set; `cargo xtask fuzz` sets it"))
}

/// Finds the target and writes its seeds, before the fuzzer reads the corpus.
fn begin() {
    let target = target(&variable("GT_FUZZ_TARGET")).unwrap_or_else(|error| panic!("{error}"));
    let corpus = PathBuf::from(variable("GT_FUZZ_CORPUS"));
    for (i, seed) in (target.seeds)().iter().enumerate() {
        std::fs::write(corpus.join(format!("seed-{i}")), seed).expect("the corpus is writable");
    }
    let _ = TARGET.set(target);
}

fuzz_target!(
    init: begin(),
    |bytes: &[u8]| (TARGET.get().expect("`begin` set it").check)(bytes)
);
