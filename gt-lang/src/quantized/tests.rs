//! Products of quantized matrices against those of the floats that they stand for.

use gt_ir::DType;

use super::{QuantizeConfig, Quantized};
use crate::autograd::grad;
use crate::core::DynTensor;
use crate::nn::{Linear, Module, QuantizedLinear};
use crate::reference::Reference;
use crate::state::Stateful;

fn run(test: impl FnOnce()) {
    let (session, _) = Reference::session();
    let _entered = session.enter();
    test();
}

fn list(x: &DynTensor) -> Vec<f64> {
    x.to_dtype(DType::F64).to_vec().unwrap()
}

fn distance(x: &DynTensor, y: &DynTensor) -> f64 {
    assert_eq!(x.sizes(), y.sizes());
    list(x).iter().zip(list(y)).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max)
}

const ALL: [QuantizeConfig; 4] = [
    QuantizeConfig { bits: 8, group: 32 },
    QuantizeConfig { bits: 8, group: 5 },
    QuantizeConfig { bits: 4, group: 32 },
    QuantizeConfig { bits: 4, group: 1 },
];

/// A number is at most half a step from where it was.
#[test]
fn numbers_stay_near() {
    run(|| {
        for how in ALL {
            let columns = 6 * how.group;
            let mut weight = DynTensor::randn([7, columns], DType::F32) * 0.3;
            weight = DynTensor::cat([&weight, &DynTensor::zeros([1, columns], DType::F32)], 0);
            let quantized = Quantized::of(&weight, how).unwrap();
            let groups = weight.reshape([8, 6, how.group]);
            let range = match how.bits {
                8 => groups.abs().max(-1) * (2.0 / 254.0),
                _ => (groups.max(-1) - groups.min(-1)) / 15.0,
            };
            let most = range.unsqueeze(-1).expand([8, 6, how.group]).reshape([8, columns]);
            let off = (quantized.dequantize() - &weight).abs() - most * 0.501;
            let largest = list(&off).into_iter().fold(f64::MIN, f64::max);
            assert!(largest <= 1e-6, "{how:?}: {largest}");
            assert_eq!(quantized.sizes(), [8, columns]);
            let bytes = 8 * columns * usize::from(how.bits) / 8;
            let scales = 8 * 6 * 4 * if how.bits == 8 { 1 } else { 2 };
            assert_eq!(quantized.bytes(), bytes + scales, "{how:?}");
        }
    });
}

/// With few rows and with many, and for the gradient.
#[test]
fn products_are_those_of_the_floats() {
    run(|| {
        for how in ALL {
            let columns = 4 * how.group;
            let quantized =
                Quantized::of(&DynTensor::randn([9, columns], DType::F32), how).unwrap();
            let floats = quantized.dequantize();
            for sizes in [vec![columns], vec![1, columns], vec![2, 2, columns], vec![6, columns]] {
                for dtype in [DType::F32, DType::Bf16] {
                    let x = DynTensor::randn(&sizes[..], dtype).requires_grad();
                    let (got, want) =
                        (quantized.linear(&x), x.to_dtype(DType::F32).matmul(&floats.t()));
                    let want = want.to_dtype(dtype);
                    assert_eq!(got.ty().unnamed(), want.ty().unnamed());
                    let near = if dtype == DType::F32 { 1e-4 } else { 0.15 };
                    assert!(distance(&got, &want) < near, "{how:?} {sizes:?} {dtype}");
                    let slope = |y: &DynTensor| {
                        grad(&y.to_dtype(DType::F32).square().sum(..), &[&x]).unwrap().remove(0)
                    };
                    let near = if dtype == DType::F32 { 1e-2 } else { 4.0 };
                    assert!(distance(&slope(&got), &slope(&want)) < near, "{how:?} {sizes:?}");
                }
            }
        }
    });
}

#[test]
fn layers_keep_names_and_refuse_what_does_not_fit() {
    run(|| {
        let layer: Linear = Linear::with_sizes(64, 3);
        let how = QuantizeConfig { bits: 4, group: 32 };
        let small = QuantizedLinear::of(&layer, how).unwrap();
        assert_eq!(small.describe(), "QuantizedLinear(64 -> 3, 4 bits)");
        let x = DynTensor::randn([5, 64], DType::F32);
        let state = small.state_dict().unwrap();
        let names: Vec<&str> = state.iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["bias", "weight.minima", "weight.numbers", "weight.scales"]);
        let mut other: QuantizedLinear =
            QuantizedLinear::of(&Linear::with_sizes(64, 3), how).unwrap();
        other.load_state_dict(&state).unwrap();
        assert_eq!(distance(&other.forward(&x), &small.forward(&x)), 0.0);
        assert!(distance(&small.forward(&x), &layer.forward(&x)) < 0.3);
        assert!(small.forward(&DynTensor::randn([2, 63], DType::F32)).error().is_some());

        let error = |x: &DynTensor, how| Quantized::of(x, how).unwrap_err().to_string();
        let weight = DynTensor::randn([3, 96], DType::F32);
        let found = error(&weight, how);
        assert!(found.contains("3 groups of 32, which is odd"), "{found}");
        let found = error(&weight, QuantizeConfig { bits: 8, group: 40 });
        assert!(found.contains("96 columns are not whole groups of 40"), "{found}");
        let found = error(&weight, QuantizeConfig { bits: 8, group: 0 });
        assert!(found.contains("groups of 0"), "{found}");
        let found = error(&weight, QuantizeConfig { bits: 3, group: 32 });
        assert!(found.contains("3 bits"), "{found}");
        let found = error(&weight.sum(0), how);
        assert!(found.contains("takes a matrix of floats, but got f32[96]"), "{found}");
    });
}
