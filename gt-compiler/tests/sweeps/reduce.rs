//! Reductions over any axes, products, and what is composed of them.

use gt_ir::{
    DType, HostTensor, Op, Type,
    attr::{Axis, AxisSet, Keep, Order, Reduce, ReduceOne},
};

use super::{Run, check, edgy, plain, shape};

pub(crate) fn reductions(run: &mut Run<'_>) {
    let shapes = [
        shape(&[3, 40, 5]),
        shape(&[70]),
        shape(&[17, 64]),
        shape(&[2, 1, 9]),
        shape(&[4, 0]),
        shape(&[]),
    ];
    for (dtype, s) in DType::ALL.into_iter().flat_map(|d| shapes.iter().map(move |s| (d, *s))) {
        for mask in 0..1usize << s.rank() {
            let axes: AxisSet = (0..s.rank()).filter(|a| mask >> a & 1 == 1).collect();
            for keep in [Keep::No, Keep::Yes] {
                let reduce = Reduce { axes, keep };
                for op in [Op::Sum(reduce), Op::Max(reduce), Op::Min(reduce), Op::Mean(reduce)] {
                    check(run, op, &[&plain(Type::new(dtype, s), 1)], 8.0);
                }
                for op in [Op::Max(reduce), Op::Min(reduce)] {
                    check(run, op, &[&edgy(Type::new(dtype, s), 1)], 0.0);
                }
                // One element alone may be its own sum, where the interpreter's 0 + x takes the
                // sign off a zero.
                if axes.iter().map(|a| s.sizes()[a]).product::<usize>() != 1 {
                    check(run, Op::Sum(reduce), &[&edgy(Type::new(dtype, s), 1)], 8.0);
                }
            }
        }
        for axis in 0..s.rank() {
            check(
                run,
                Op::Argmax(ReduceOne { axis: axis as u8, keep: Keep::No }),
                &[&edgy(Type::new(dtype, s), 2)],
                0.0,
            );
            sorts(run, &edgy(Type::new(dtype, s), 2), axis);
        }
    }
}

/// In both orders.
fn sorts(run: &mut Run<'_>, x: &HostTensor, axis: usize) {
    for descending in [false, true] {
        check(run, Op::ArgSort(Order { axis: axis as u8, descending }), &[x], 0.0);
    }
}

pub(crate) fn long_reductions(run: &mut Run<'_>) {
    for sizes in [&[100_003][..], &[5000, 33], &[3, 40_000], &[20_000, 2, 3]] {
        for dtype in DType::ALL {
            for axis in 0..sizes.len() {
                let reduce = Reduce { axes: [axis].into_iter().collect(), keep: Keep::No };
                let x = plain(Type::new(dtype, shape(sizes)), axis);
                for op in [Op::Sum(reduce), Op::Max(reduce), Op::Min(reduce)] {
                    check(run, op, &[&x], 16.0);
                }
                sorts(run, &x, axis);
                sorts(run, &edgy(Type::new(dtype, shape(sizes)), axis), axis);
            }
        }
    }
}

pub(crate) fn products(run: &mut Run<'_>) {
    let pairs: [(&[usize], &[usize]); 9] = [
        (&[7, 5], &[5, 9]),
        (&[130, 70], &[70, 65]),
        (&[5], &[5]),
        (&[4, 3, 5], &[5, 6]),
        (&[2, 1, 3, 5], &[4, 5, 2]),
        (&[3, 0], &[0, 4]),
        (&[0, 3], &[3, 4]),
        (&[1, 40], &[40, 1]),
        (&[8, 16, 12], &[8, 12, 20]),
    ];
    for dtype in DType::ALL {
        for (a, b) in pairs {
            check(
                run,
                Op::MatMul,
                &[&plain(Type::new(dtype, shape(a)), 1), &plain(Type::new(dtype, shape(b)), 2)],
                32.0,
            );
        }
    }
}

pub(crate) fn compositions(run: &mut Run<'_>) {
    let x = |sizes: &[usize], seed: usize| {
        let s = shape(sizes);
        let value = |i: usize| (((i * 2_654_435_761 + seed) >> 7) % 4001) as f32 * 1e-3 - 2.0;
        HostTensor::from_vec((0..s.numel()).map(value).collect(), s).unwrap()
    };
    let tokens = x(&[3, 37, 130], 1);
    for axis in 0..3 {
        check(run, Op::Softmax(Axis(axis)), &[&tokens], 16.0);
        check(run, Op::LogSoftmax(Axis(axis)), &[&tokens], 64.0);
    }
    for op in [Op::Gelu, Op::GeluTanh, Op::Sigmoid, Op::Rsqrt, Op::Relu] {
        check(run, op, &[&tokens], 64.0);
    }
}
