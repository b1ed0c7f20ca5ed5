//! Products of halves, and layers, by the op table on libtorch and by the engine on the CPU, whose
//! library multiplies some of them.

use gt_compiler::{
    Engine, NativeConfig,
    torch::{Device, TorchConfig, engine, ops},
};

use crate::sweeps::{
    halves::halves,
    layers::layers,
    tapes::{eager, fused, one},
};

#[test]
fn the_op_table_adds_in_f32() {
    halves(&mut |tape, data| one(ops::run_tape(tape, data, Device::Cpu)));
}

fn host() -> Box<dyn Engine> {
    let host = NativeConfig { threads: 2, store: None, ..NativeConfig::host() };
    engine(&TorchConfig { host, ..TorchConfig::host(Device::Cpu) }).unwrap()
}

#[test]
fn the_engine_adds_in_f32() {
    let mut engine = host();
    halves(&mut |tape, data| one(eager(engine.as_mut(), tape, data)));
    halves(&mut |tape, data| one(fused(engine.as_mut(), tape, data)));
}

#[test]
fn the_engine_computes_layers() {
    layers(host().as_mut());
}
