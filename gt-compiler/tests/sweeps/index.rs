//! Ops whose positions are data.

use gt_ir::{DType, HostTensor, Op, Type, attr::Axis};

use super::{Run, check, plain, shape};

fn index(sizes: &[usize], bound: i64) -> HostTensor {
    let s = shape(sizes);
    HostTensor::from_vec((0..s.numel() as i64).map(|i| (i * 7 + 3) % bound).collect(), s).unwrap()
}

/// Sizes at which threads share the work: by outer slices, by columns, and not at all. Positions
/// occur many times, so the order of adding shows.
pub(crate) fn large_gathers_and_scatters(run: &mut Run<'_>) {
    for dtype in [DType::F32, DType::I64, DType::Bool] {
        for sizes in [&[300, 333][..], &[2, 100, 201], &[70_001]] {
            for axis in 0..sizes.len() {
                let mut wide = sizes.to_vec();
                wide[axis] = 37;
                let base = plain(Type::new(dtype, shape(&wide)), 1);
                let src = plain(Type::new(dtype, shape(sizes)), 2);
                let (each, whole) = (index(sizes, 37), index(&sizes[axis..=axis], 37));
                let axis = Axis(axis as u8);
                check(run, Op::Gather(axis), &[&base, &each], 0.0);
                check(run, Op::IndexSelect(axis), &[&base, &whole], 0.0);
                check(run, Op::ScatterAdd(axis), &[&base, &each, &src], 16.0);
                check(run, Op::IndexAdd(axis), &[&base, &whole, &src], 16.0);
            }
        }
    }
}

pub(crate) fn gathers_and_scatters(run: &mut Run<'_>) {
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
