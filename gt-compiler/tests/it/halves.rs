//! Products of halves by the native engine and, where it is built, by a simulated device; and that
//! the bound they are held to breaks sums in halves.

use gt_compiler::{Arg, Engine};
use gt_ir::{
    DType, HostTensor, Op, Shape, Type, interp,
    testing::{Source, tensor},
};

use crate::{
    random::native,
    sweeps::{
        halves::{Operands, Terms, fault, halves, operands},
        tapes::{eager, fused, one},
    },
};

fn check(engine: &mut dyn Engine) {
    halves(&mut |tape, data| one(eager(engine, tape, data)));
    halves(&mut |tape, data| one(fused(engine, tape, data)));
}

#[test]
fn the_native_engine_adds_in_f32() {
    check(&mut native(2));
}

/// Also where there are no matrices, no rows or nothing to add.
#[test]
fn products_of_no_elements() {
    let mut engine = native(1);
    for (batch, m, n, k) in [(0, 2, 3, 4), (2, 0, 3, 4), (2, 3, 0, 4), (2, 3, 4, 0)] {
        let [a, b] = [[batch, m, k], [batch, k, n]].map(|sizes| {
            let ty = Type::new(DType::Bf16, Shape::new(&sizes).unwrap());
            engine.upload(&tensor(ty, &mut Source::from_seed(1))).unwrap()
        });
        let product = engine.execute(&Op::MatMul, &[Arg::Value(&a), Arg::Value(&b)]).unwrap();
        let got = engine.download(&product).unwrap();
        assert_eq!(got.ty().shape.sizes(), [batch, m, n]);
        assert!(got.to_f64().iter().all(|x| *x == 0.0));
    }
}

#[cfg(feature = "torch")]
#[test]
fn a_simulated_device_adds_in_f32() {
    let simulation = gt_compiler::simulated::Simulation::new(Default::default());
    check(simulation.engine().unwrap().as_mut());
}

/// A row by a column, the sum rounded to the dtype after every so many terms.
fn rounded_on_the_way([a, b]: &Operands, every: usize) -> HostTensor {
    let round = |x: f64| {
        let x = HostTensor::scalar(x);
        interp::eval(&Op::Cast(a.ty().dtype), &[interp::Arg::Tensor(&x)]).unwrap()
    };
    let (mut sum, mut part) = (0.0, 0.0);
    for (i, (a, b)) in a.to_f64().iter().zip(b.to_f64()).enumerate() {
        part += a * b;
        if (i + 1) % every == 0 {
            (sum, part) = (round(sum + part).to_f64()[0], 0.0);
        }
    }
    let reshape = Op::Reshape(Shape::new(&[1, 1, 1]).unwrap());
    interp::eval(&reshape, &[interp::Arg::Tensor(&round(sum + part))]).unwrap()
}

#[test]
fn the_bound_breaks_sums_that_are_rounded_on_the_way() {
    let mut source = Source::from_seed(3);
    for dtype in [DType::Bf16, DType::F16] {
        for terms in [Terms::Mixed, Terms::Growing, Terms::There] {
            let mut broken = |every| {
                let tries = (0..8).map(|_| operands(dtype, [1, 1, 1, 4096], terms, &mut source));
                tries.filter(|o| fault(o, &rounded_on_the_way(o, every)).is_some()).count()
            };
            assert_eq!(broken(4096), 0, "{dtype} {terms:?}: rounded once");
            assert!(broken(1) >= 6, "{dtype} {terms:?}: after every term");
            assert!(broken(16) >= 4, "{dtype} {terms:?}: after every 16 terms");
        }
    }
}
