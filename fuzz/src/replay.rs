//! A random program with loops reads the same bits, or the same errors, instruction by instruction
//! and as plans.

use std::sync::LazyLock;

use gt_compiler::{Native, NativeConfig};
use gt_ir::testing::{Config, Source};
use gt_runtime::embedded::System;
use gt_runtime::log::Log;
use gt_runtime::testing::{Program, first_difference};
use gt_runtime::tier::{Tiers, When};

fn system(when: When) -> System {
    let config = || NativeConfig {
        threads: 1,
        memory_limit: 1 << 28,
        cache_capacity: 256,
        store: None,
        guarded: true,
        team: None,
    };
    let engine = move |_| Ok(Box::new(Native::new(config())?) as Box<_>);
    System::configured(1, Box::new(engine), Tiers::compiled(when), Log::off()).expect("a system")
}

static EAGER: LazyLock<System> = LazyLock::new(|| system(When::Never));
static PLANNED: LazyLock<System> = LazyLock::new(|| system(When::Blocking));

pub(crate) fn check(bytes: &[u8]) {
    let mut source = Source::from_bytes(bytes);
    let config = match source.below(4) {
        0 => Config { wild_indices: true, ..Config::integers() },
        1 => Config::integers(),
        _ => Config::default(),
    };
    let program = Program::new(&mut source, &config, 8);
    let eager = program.run(&*EAGER.session(), true);
    let planned = program.run(&*PLANNED.session(), false);
    if let Some(difference) = first_difference(&eager, &planned) {
        panic!("{difference}\n{program:?}");
    }
}
