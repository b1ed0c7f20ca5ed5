//! Products of halves by the op table on libtorch and by the engine on the CPU, whose library multiplies some of them.

use gt_compiler::{
    NativeConfig,
    torch::{Device, TorchConfig, engine, ops},
};

use crate::sweeps::{
    halves::halves,
    tapes::{eager, fused, one},
};

#[test]
fn the_op_table_adds_in_f32() {
    halves(&mut |tape, data| one(ops::run_tape(tape, data, Device::Cpu)));
}

#[test]
fn the_engine_adds_in_f32() {
    let host = NativeConfig { threads: 2, store: None, ..NativeConfig::host() };
    let mut engine = engine(&TorchConfig { host, ..TorchConfig::host(Device::Cpu) }).unwrap();
    halves(&mut |tape, data| one(eager(engine.as_mut(), tape, data)));
    halves(&mut |tape, data| one(fused(engine.as_mut(), tape, data)));
}
