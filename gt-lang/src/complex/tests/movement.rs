//! Moves: the order of the numbers is that of the same moves of their indices, which real tensors
//! make.

use super::*;
use crate::{keepdim, range, step};
use gt_ir::testing::Source;

/// Complex numbers, and their positions as a real tensor of the same shape.
fn both(sizes: &[usize]) -> (ComplexTensor, DynTensor) {
    let n: usize = sizes.iter().product();
    let places = DynTensor::arange(0, n as i64, 1, DType::F64).reshape(sizes);
    (ComplexTensor::new(&places, &(&places * -0.5)), places)
}

#[track_caller]
fn same(moved: &ComplexTensor, places: &DynTensor) {
    assert_eq!((moved.error(), moved.sizes()), (None, places.sizes()));
    let places: Vec<f64> = places.to_vec().unwrap();
    let want: Vec<C> = places.iter().map(|&place| c(place, place * -0.5)).collect();
    assert_eq!(moved.to_vec::<f64>().unwrap(), want);
}

#[test]
fn moves_are_those_of_real_tensors() {
    run(|| {
        let (z, x) = both(&[2, 3, 4]);
        same(&z.reshape([4, -1]), &x.reshape([4, -1]));
        same(&z.reshape([24]), &x.reshape([24]));
        same(&z.flatten(0, -2), &x.flatten(0, -2));
        same(&z.t(), &x.t());
        same(&z.permute([2, 0, -2]), &x.permute([2, 0, -2]));
        for axis in -3..3 {
            same(&z.transpose(axis, 1), &x.transpose(axis, 1));
            same(&z.flip(axis), &x.flip(axis));
            same(&z.narrow(axis, -2, 1), &x.narrow(axis, -2, 1));
            same(&ComplexTensor::cat([&z, &z], axis), &DynTensor::cat([&x, &x], axis));
            let index = DynTensor::from([[1_i64, 0], [0, 1]]);
            same(&z.index_select(axis, &index), &x.index_select(axis, &index));
            for (part, places) in z.split(2, axis).iter().zip(x.split(2, axis)) {
                same(part, &places);
            }
        }
        for axis in -4..4 {
            same(&z.unsqueeze(axis), &x.unsqueeze(axis));
            same(&z.unsqueeze(axis).squeeze(axis), &x);
            same(&ComplexTensor::stack([&z, &z], axis), &DynTensor::stack([&x, &x], axis));
        }
        same(&z.squeeze(1), &x);
        same(&z.flip(..), &x.flip(..));
        same(&z.flip([0, 2]), &x.flip([0, 2]));
        same(&z.unsqueeze(2).expand([2, 3, 5, -1]), &x.unsqueeze(2).expand([2, 3, 5, -1]));
        same(&z.expand([2, 2, 3, 4]), &x.expand([2, 2, 3, 4]));
    });
}

#[test]
fn parts_are_those_of_real_tensors() {
    run(|| {
        use crate::core::Index;
        let (z, x) = both(&[2, 3, 4]);
        macro_rules! check {
            ($($indices:expr),+ $(,)?) => { $( same(&z.slice($indices), &x.slice($indices)); )+ };
        }
        let index = DynTensor::from([1_i64, 0, 0]);
        check!(
            1,
            (0, 1, 2),
            (.., 1),
            (.., range(1, -1)),
            (.., .., step(.., 3)),
            (Index::Ellipsis, -1),
            (Index::Ellipsis, 0, ..),
            (Index::NewAxis, .., Index::Ellipsis, Index::NewAxis),
            (&index, ..),
            (.., &index),
            (&index, &index),
            (&index, .., &index),
            vec![],
        );
        assert_eq!(z.slice((0, 1, 2)).item().unwrap(), c(6.0, -3.0));
    });
}

#[test]
fn a_number_without_axes_has_the_axes_that_pytorch_gives_it() {
    run(|| {
        let (z, x) = both(&[]);
        for axis in [0, -1] {
            same(&z.squeeze(axis), &x.squeeze(axis));
            same(&z.transpose(axis, axis), &x.transpose(axis, axis));
            same(&z.unsqueeze(axis), &x.unsqueeze(axis));
            same(&z.sum(axis), &x.sum(axis));
            same(&z.flip(axis), &x.flip(axis));
        }
        same(&z.t(), &x.t());
        same(&z.flatten(0, -1), &x.flatten(0, -1));
        same(&z.reshape([1, 1]), &x.reshape([1, 1]));
        same(&z.expand([2, 3]), &x.expand([2, 3]));
        same(&z.sum(keepdim(..)), &x.sum(keepdim(..)));
        same(&ComplexTensor::stack([&z, &z], -1), &DynTensor::stack([&x, &x], -1));
    });
}

/// Chains of random moves.
#[test]
fn moves_follow_each_other() {
    run(|| {
        let mut source = Source::from_seed(11);
        for _ in 0..40 {
            let (mut z, mut x) = both(&[2, 3, 2]);
            for _ in 0..6 {
                let rank = x.rank();
                let axis = source.below(rank.max(1)) as i64
                    - if source.chance(1, 2) { rank as i64 } else { 0 };
                (z, x) = match source.below(5) {
                    0 if rank < 5 => (z.unsqueeze(axis), x.unsqueeze(axis)),
                    1 => (z.transpose(axis, 0), x.transpose(axis, 0)),
                    2 => (z.flip(axis), x.flip(axis)),
                    3 => (z.squeeze(axis), x.squeeze(axis)),
                    _ => (ComplexTensor::cat([&z, &z], axis), DynTensor::cat([&x, &x], axis)),
                };
                if x.numel() > 200 {
                    (z, x) = (z.narrow(axis, 0, 1), x.narrow(axis, 0, 1));
                }
            }
            same(&z, &x);
        }
    });
}
