//! Products of `bf16` and `f16` are sums in `f32` or better that are rounded once: against `f64`,
//! within a bound that sums in halves break.
//!
//! A product of two halves is exact in `f32`. So an element may be off by its own rounding and by
//! what sums in `f32` lose, which is a small part of the sum of its absolute terms. Sums in a half
//! lose thousands of times as much over thousands of terms, and in `f16` overflow on the way.

use std::collections::BTreeMap;

use gt_ir::{DType, HostTensor, Op, Shape, Tape, ValueId, attr::Perm, interp, testing::Source};

/// What sums in `f32` may lose in any order, as a part of the sum of the absolute terms. The units
/// of GPUs for products cut off bits where they add, so 4,096 terms lose four times as much as
/// rounded sums do. Sums in a float of 16 bits lose sixteen times as much as this.
const LOST: f64 = 1.0 / (1 << 15) as f64;

/// How the terms of a sum follow each other.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Terms {
    /// Of both signs, so that the sum is much smaller than all that is added.
    Mixed,
    /// Of one sign, so that the sum grows until a half no longer feels a term.
    Growing,
    /// Large ones, then as large ones of the other sign: half way the sum is beyond `f16`.
    There,
}

/// Batches, rows, columns and terms: vectors and matrices, small and large, also of lengths that no
/// vector divides.
const SIZES: [[usize; 4]; 7] = [
    [1, 1, 1, 8192],
    [1, 1, 40, 4096],
    [1, 40, 1, 4096],
    [1, 5, 7, 5003],
    [1, 65, 33, 4096],
    [3, 16, 16, 4096],
    [2, 2, 3, 20_000],
];

/// Whether the left and the right side lie transposed.
const LAYOUTS: [[bool; 2]; 3] = [[false, false], [true, false], [false, true]];

/// Both sides of a product.
pub(crate) type Operands = [HostTensor; 2];

/// Every kind of product by whoever is tested, who is given a tape and its inputs.
pub(crate) fn halves(run: &mut dyn FnMut(&Tape, &BTreeMap<ValueId, HostTensor>) -> HostTensor) {
    let mut source = Source::from_seed(17);
    let kinds = [DType::Bf16, DType::F16].into_iter().flat_map(|dtype| SIZES.map(|s| (dtype, s)));
    for (dtype, size) in kinds {
        for terms in [Terms::Mixed, Terms::Growing, Terms::There] {
            let operands = operands(dtype, size, terms, &mut source);
            for turned in LAYOUTS {
                let lying = [0, 1].map(|i| match turned[i] {
                    true => transposed(&operands[i]),
                    false => operands[i].clone(),
                });
                let inputs = (0..2).map(ValueId).zip(lying).collect();
                let got = run(&tape(dtype, size, turned), &inputs);
                let fault = fault(&operands, &got);
                assert_eq!(fault, None, "{dtype} {size:?} {terms:?}, transposed {turned:?}");
            }
        }
    }
}

fn tape(dtype: DType, [batch, m, n, k]: [usize; 4], turned: [bool; 2]) -> Tape {
    let mut text = String::from("gt tape 1\n");
    for (i, [rows, columns]) in [[m, k], [k, n]].into_iter().enumerate() {
        let ty = |rows, columns| format!("{dtype}[{batch},{rows},{columns}]");
        text += &match turned[i] {
            true => format!("%{i} = input : {}\n", ty(columns, rows)),
            false => format!("%{i} = input : {}\n", ty(rows, columns)),
        };
    }
    let mut sides = ["%0", "%1"];
    for (i, view) in ["%2", "%3"].into_iter().enumerate().filter(|(i, _)| turned[*i]) {
        text += &format!("{view} = transpose[1,2] {}\n", sides[i]);
        sides[i] = view;
    }
    text += &format!("%4 = matmul {}, {}\noutput %4\n", sides[0], sides[1]);
    gt_ir::text::parse(&text).unwrap().0
}

/// Operands whose products are such terms.
pub(crate) fn operands(
    dtype: DType,
    [batch, m, n, k]: [usize; 4],
    terms: Terms,
    source: &mut Source<'_>,
) -> Operands {
    let mut number = |depth: usize, is_left: bool| {
        let size = source.below(1 << 12) as f32 / (1 << 11) as f32;
        match terms {
            Terms::Mixed => 2.0 * size - 2.0,
            Terms::Growing => size,
            Terms::There if is_left && depth >= k / 2 => -8.0 * size,
            Terms::There => 8.0 * size,
        }
    };
    let left = (0..batch * m * k).map(|i| number(i % k, true)).collect();
    let right = (0..batch * k * n).map(|i| number(i / n % k, false)).collect();
    let tensor = |elements: Vec<f32>, rows, columns| {
        let shape = Shape::new(&[batch, rows, columns]).unwrap();
        by(Op::Cast(dtype), &HostTensor::from_vec(elements, shape).unwrap())
    };
    [tensor(left, m, k), tensor(right, k, n)]
}

/// The first element that sums in `f32` do not explain.
pub(crate) fn fault(operands: &Operands, got: &HostTensor) -> Option<String> {
    let wide = operands.each_ref().map(|x| by(Op::Cast(DType::F64), x));
    let product = |[a, b]: &Operands| {
        interp::eval(&Op::MatMul, &[interp::Arg::Tensor(a), interp::Arg::Tensor(b)]).unwrap()
    };
    let (want, total) = (product(&wide), product(&wide.each_ref().map(|x| by(Op::Abs, x))));
    // Half a unit in the last of 8 or 11 bits.
    let rounding = if got.ty().dtype == DType::Bf16 { 1.0 / 256.0 } else { 1.0 / 2048.0 };
    let all = want.to_f64().into_iter().zip(total.to_f64()).zip(got.to_f64());
    all.enumerate().find_map(|(i, ((want, total), got))| {
        let allowed = LOST * total + rounding * (want.abs() + LOST * total);
        // Also where it is not a number.
        let fits = (got - want).abs() <= allowed;
        (!fits).then(|| format!("element {i} is {got} instead of {want}, {allowed} allowed"))
    })
}

fn transposed(x: &HostTensor) -> HostTensor {
    by(Op::Permute(Perm::new(&[0, 2, 1]).unwrap()), x)
}

fn by(op: Op, x: &HostTensor) -> HostTensor {
    interp::eval(&op, &[interp::Arg::Tensor(x)]).unwrap()
}
