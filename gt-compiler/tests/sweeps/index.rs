//! Ops whose positions are data.

use gt_ir::{DType, HostTensor, Op, Type, attr::Axis};

use super::{Run, check, plain, shape};

pub(crate) fn gathers_and_scatters(run: &mut Run<'_>) {
    let index = |sizes: &[usize], bound: i64| {
        let s = shape(sizes);
        HostTensor::from_vec((0..s.numel() as i64).map(|i| (i * 7 + 3) % bound).collect(), s)
            .unwrap()
    };
    for dtype in DType::ALL {
        let x = plain(Type::new(dtype, shape(&[4, 6, 5])), 1);
        for axis in 0..3u8 {
            let bound = [4, 6, 5][usize::from(axis)];
            let same = index(&[3, 4, 5], bound);
            let src = plain(Type::new(dtype, shape(&[3, 4, 5])), 5);
            check(run, Op::Gather(Axis(axis)), &[&x, &same], 0.0);
            check(run, Op::ScatterAdd(Axis(axis)), &[&x, &same, &src], 4.0);
            let flat = index(&[2, 3], bound);
            check(run, Op::IndexSelect(Axis(axis)), &[&x, &flat], 0.0);
            let mut sizes: Vec<usize> = vec![4, 6, 5];
            sizes.splice(usize::from(axis)..usize::from(axis) + 1, [2, 3]);
            let src = plain(Type::new(dtype, shape(&sizes)), 6);
            check(run, Op::IndexAdd(Axis(axis)), &[&x, &flat, &src], 4.0);
        }
    }
}
