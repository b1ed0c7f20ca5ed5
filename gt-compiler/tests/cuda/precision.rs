//! Products: full precision unless asked otherwise, on every dtype and layout.

use gt_compiler::{Arg, torch::TorchConfig};
use gt_ir::{DType, HostTensor, Op, Shape, interp, testing::Source};

use crate::{
    config, device,
    sweeps::{
        halves::halves,
        layers::layers,
        tapes::{eager, fused, one},
    },
};

/// Numbers that 10 bits of mantissa do not hold.
fn rough(sizes: &[usize], salt: u64) -> HostTensor {
    let shape = Shape::new(sizes).unwrap();
    let mut source = Source::from_seed(salt);
    let mut next = || (source.bits() >> 40) as f32 / (1 << 24) as f32 - 0.5;
    HostTensor::from_vec((0..shape.numel()).map(|_| next()).collect(), shape).unwrap()
}

/// The error of a product, as a part of its norm.
fn error(config: &TorchConfig) -> Option<f64> {
    let mut engine = device(config)?;
    let (a, b) = (rough(&[96, 300], 1), rough(&[300, 80], 2));
    let [wide_a, wide_b] =
        [&a, &b].map(|x| interp::eval(&Op::Cast(DType::F64), &[interp::Arg::Tensor(x)]).unwrap());
    let operands = [interp::Arg::Tensor(&wide_a), interp::Arg::Tensor(&wide_b)];
    let want = interp::eval(&Op::MatMul, &operands).unwrap().to_f64();
    let [a, b] = [&a, &b].map(|x| engine.upload(x).unwrap());
    let got = engine.execute(&Op::MatMul, &[Arg::Value(&a), Arg::Value(&b)]).unwrap();
    let got = engine.download(&got).unwrap().to_f64();
    let off: f64 = got.iter().zip(&want).map(|(g, w)| (g - w) * (g - w)).sum();
    Some((off / want.iter().map(|w| w * w).sum::<f64>()).sqrt())
}

/// Also beside an engine that rounds.
#[test]
fn products_round_to_tf32_only_where_asked() {
    let tf32 = TorchConfig { tf32: true, ..config() };
    let Some(rounded) = error(&tf32) else { return };
    let full = error(&config()).unwrap();
    assert!(full < 2e-6, "{full}");
    assert!(rounded < 2e-3, "{rounded}");
}

#[test]
fn products_of_halves_add_in_f32() {
    let Some(mut engine) = device(&config()) else { return };
    halves(&mut |tape, data| one(eager(engine.as_mut(), tape, data)));
    halves(&mut |tape, data| one(fused(engine.as_mut(), tape, data)));
}

#[test]
fn products_take_a_row_and_an_activation_along() {
    let Some(mut engine) = device(&config()) else { return };
    layers(engine.as_mut());
}
