//! Ops that move elements, and sources.

use gt_ir::{
    DType, Op, Scalar, Type,
    attr::{Axis, Pad, Perm, Slice, Window},
    interp::Arg,
};

use super::{Run, check, check_args, edgy, shape};

pub(crate) fn movement(run: &mut Run<'_>) {
    for dtype in DType::ALL {
        let x = edgy(Type::new(dtype, shape(&[6, 5, 14])), 0);
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [0, 2, 1], [2, 0, 1]] {
            check(run, Op::Permute(Perm::new(&order).unwrap()), &[&x], 0.0);
        }
        for slice in [(0, 1, 6, 2), (1, 0, 5, 1), (2, 3, 14, 5), (2, 4, 4, 1)] {
            let (axis, start, stop, step) = slice;
            check(run, Op::Slice(Slice { axis, start, stop, step }), &[&x], 0.0);
        }
        for (axis, size, step, dilation) in [(2, 5, 1, 1), (2, 3, 4, 2), (0, 2, 2, 3), (1, 5, 1, 1)]
        {
            check(run, Op::Unfold(Window { axis, size, step, dilation }), &[&x], 0.0);
        }
        check(run, Op::Reshape(shape(&[30, 14])), &[&x], 0.0);
        check(run, Op::Expand(shape(&[2, 6, 5, 14])), &[&x], 0.0);
        for axis in 0..3 {
            let mut sizes = [6, 5, 14];
            sizes[axis] = 3;
            check(
                run,
                Op::Cat(Axis(axis as u8)),
                &[&x, &edgy(Type::new(dtype, shape(&sizes)), 4), &x],
                0.0,
            );
            for (lo, hi, interior) in [(1, 2, 0), (0, 0, 2), (0, 0, 0), (3, 0, 1)] {
                let pad = Op::Pad(Pad { axis: axis as u8, lo, hi, interior });
                let filler = [Arg::Tensor(&x), Arg::Scalar(Scalar::I64(3))];
                check_args(run, pad, &filler, 0.0);
            }
        }
    }
}

/// Values made of nothing: counted, and drawn by the one generator, so that all bits are equal.
pub(crate) fn sources(run: &mut Run<'_>) {
    let [seed, low, high] = [-7, -3, 200].map(|n| Arg::Scalar(Scalar::I64(n)));
    let start = Arg::Scalar(Scalar::F64(0.5));
    for dtype in DType::ALL {
        for sizes in [&[][..], &[7], &[300], &[2, 0], &[3, 5, 2]] {
            let ty = Type::new(dtype, shape(sizes));
            check_args(run, Op::Iota(ty), &[], 0.0);
            check_args(run, Op::Rand(ty), std::slice::from_ref(&seed), 0.0);
            check_args(run, Op::Randn(ty), std::slice::from_ref(&seed), 0.0);
            check_args(run, Op::Randint(ty), &[low.clone(), high.clone(), seed.clone()], 0.0);
            check_args(run, Op::Full(ty), std::slice::from_ref(&start), 0.0);
            check_args(run, Op::Arange(ty), &[start.clone(), low.clone()], 0.0);
        }
    }
}
