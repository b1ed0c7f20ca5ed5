//! The dynamic tensor: operations and their spellings, data in and out. Mistakes, printing,
//! sessions and random programs have files of their own.

mod mistakes;
mod printing;
mod random;
mod reading;
mod sessions;

use gt_ir::{DType, Dim, DimName, Op, Shape};

use super::*;
use crate::reference::Reference;
use crate::{manual_seed, no_grad};

fn numbers(n: usize, sizes: &[usize]) -> DynTensor {
    DynTensor::from_vec((0..n).map(|i| i as f32).collect::<Vec<_>>(), sizes)
}

fn values(x: &DynTensor) -> Vec<f64> {
    x.to_dtype(DType::F64).to_vec().unwrap_or_else(|e| panic!("{e}"))
}

fn sizes(x: &DynTensor) -> Vec<usize> {
    x.shape().sizes().to_vec()
}

#[test]
fn operators_take_numbers_on_either_side() {
    let x = numbers(2, &[2]) + 1.0;
    assert_eq!(values(&(&x + 1)), [2.0, 3.0]);
    assert_eq!(values(&(1 - &x)), [0.0, -1.0]);
    assert_eq!(values(&(2.0 / x.clone())), [2.0, 1.0]);
    assert_eq!(values(&(&x * 0.5_f32 - 1_i64)), [-0.5, 0.0]);
    assert_eq!(values(&-(&x * &x)), [-1.0, -4.0]);
    assert_eq!(values(&(2.0 * &x).exp().log()), [2.0, 4.0]);
    // A number never widens within its kind; a float lifts integers to the default float.
    assert_eq!((&x + 1.0).dtype(), DType::F32);
    assert_eq!((x.to_dtype(DType::I32) + 1).dtype(), DType::I32);
    assert_eq!((x.to_dtype(DType::I32) + 1.5).dtype(), DType::F32);
    assert_eq!((x.to_dtype(DType::I64) / 2).dtype(), DType::F32);
}

#[test]
fn assigning_operators_make_new_values_or_update_leaves() {
    let mut x = numbers(2, &[2]);
    let before = x.clone();
    x += 1;
    x *= &before;
    x -= before.clone();
    x /= 0.5;
    assert_eq!(values(&x), [0.0, 2.0]);
    assert_eq!(values(&before), [0.0, 1.0]);
    let mut w = before.requires_grad();
    let seen_elsewhere = w.clone();
    no_grad(|| w -= 1.0);
    assert!(w.is_leaf() && w.is(&seen_elsewhere));
    assert_eq!(values(&seen_elsewhere), [-1.0, 0.0]);
    w += 1.0;
    let error = w.error().unwrap();
    assert!(error.message().starts_with("add_assign: a leaf that requires a gradient"), "{error}");
    assert_eq!(
        (error.cure(), error.loc().file()),
        (Some("change it inside `no_grad(|| ..)`"), file!())
    );
    assert_eq!(values(&seen_elsewhere), [-1.0, 0.0]);
}

#[test]
fn comparisons_and_logic_give_bools() {
    let x = numbers(4, &[4]);
    let even = DynTensor::from_slice(&[true, false, true, false], [4]);
    let read = |t: DynTensor| t.to_vec::<bool>().unwrap();
    assert_eq!(read(x.lt(2)), [true, true, false, false]);
    assert_eq!(read(x.ge(&x)), [true; 4]);
    assert_eq!(read(x.ne(1.0)), [true, false, true, true]);
    assert_eq!(read(x.gt(0).logical_and(&even)), [false, false, true, false]);
    assert_eq!(read(even.logical_not()), [false, true, false, true]);
    assert_eq!(values(&even.where_(&x, -1.0)), [0.0, -1.0, 2.0, -1.0]);
    assert_eq!(values(&x.masked_fill(&even, 9.0)), [9.0, 1.0, 9.0, 3.0]);
}

#[test]
fn operators_on_bits_are_rusts() {
    let (a, b) = ([12_i64, -7, 0, 1 << 40], [10_i64, 3, -1, 2]);
    let [x, y] = [a, b].map(|v| DynTensor::from_slice(&v, [4]));
    let read = |t: DynTensor| t.to_vec::<i64>().unwrap();
    let each = |f: fn(i64, i64) -> i64| a.iter().zip(b).map(|(a, b)| f(*a, b)).collect::<Vec<_>>();
    assert_eq!(read(&x & &y), each(|a, b| a & b));
    assert_eq!(read(&x | y.clone()), each(|a, b| a | b));
    assert_eq!(read(x.clone() ^ &y), each(|a, b| a ^ b));
    assert_eq!(read(!&x), each(|a, _| !a));
    assert_eq!(read((&x << 3) >> 3), a);
    assert_eq!(read(6 & &x), each(|a, _| 6 & a));
    assert_eq!(read(1 << DynTensor::from_slice(&[0_i64, 63, 64, -1], [4])), [1, i64::MIN, 0, 0]);
    assert_eq!(read(&x >> 100), [0, -1, 0, 0]);
    let odd = (&x & 1).eq(1);
    assert_eq!((!&odd ^ &odd).to_vec::<bool>().unwrap(), [true; 4]);
    let error = (&x & 1.5).to_vec::<f32>().unwrap_err();
    let message = "bitwise_and: takes integers and bool, but got i64[4] and 1.5";
    assert_eq!((error.message(), error.cure()), (message, Some("cast to an integer first")));
    let error = (&odd << &odd).to_vec::<bool>().unwrap_err();
    assert!(error.message().starts_with("bitwise_left_shift: not defined on bool"), "{error}");
}

#[test]
fn reductions_take_axes_in_many_spellings() {
    let x = numbers(6, &[2, 3]);
    assert_eq!(values(&x.sum(..)), [15.0]);
    assert_eq!(values(&x.sum(0)), [3.0, 5.0, 7.0]);
    assert_eq!(values(&x.sum([-1_i64])), [3.0, 12.0]);
    assert_eq!(sizes(&x.mean(keepdim(-1))), [2, 1]);
    assert_eq!(sizes(&x.max((vec![0_usize, 1].as_slice(), Keep::Yes))), [1, 1]);
    assert_eq!(values(&x.min([0, 1])), [0.0]);
    assert_eq!(values(&x.argmax(1)), [2.0, 2.0]);
    assert_eq!(values(&x.var(0)), [4.5, 4.5, 4.5]);
    assert!(
        values(&x.slice(0).std(0))[0] == 1.0 && values(&x.slice((0, 0..1)).var(..))[0].is_nan()
    );
    assert_eq!(x.to_dtype(DType::Bool).sum(..).dtype(), DType::I64);
    assert_eq!(sizes(&x.sum(&[] as &[i64])), [0_usize; 0]);
}

#[test]
fn shapes_move_as_in_pytorch() {
    let x = numbers(24, &[2, 3, 4]);
    assert_eq!(sizes(&x.reshape([4, -1])), [4, 6]);
    assert_eq!(sizes(&x.reshape([5, 5])), [5, 5], "a mistake has the shape that was asked for");
    assert_eq!(sizes(&x.sum(..).reshape([0_usize; 0])), [0_usize; 0]);
    assert_eq!(sizes(&x.flatten(0, 1)), [6, 4]);
    assert_eq!(sizes(&x.permute([2, 0, 1])), [4, 2, 3]);
    assert_eq!(sizes(&x.t()), [2, 4, 3]);
    assert_eq!(sizes(&x.unsqueeze(-1)), [2, 3, 4, 1]);
    assert_eq!(sizes(&x.unsqueeze(0).squeeze(0).squeeze(0)), [2, 3, 4]);
    assert_eq!(sizes(&x.expand([5, -1, 3, 4])), [5, 2, 3, 4]);
    assert_eq!(sizes(&DynTensor::cat([&x, &x], -1)), [2, 3, 8]);
    assert_eq!(sizes(&DynTensor::stack([&x, &x], 1)), [2, 2, 3, 4]);
    assert_eq!(x.split(3, 2).iter().map(sizes).collect::<Vec<_>>(), [[2, 3, 3], [2, 3, 1]]);
    assert_eq!(x.chunk(2, 1).iter().map(sizes).collect::<Vec<_>>(), [[2, 2, 4], [2, 1, 4]]);
    let named =
        Shape::from_dims(&[Dim { size: 6, name: DimName::new("Batch").unwrap() }, Dim::new(4)])
            .unwrap();
    assert_eq!(x.reshape(named).shape().to_string(), "[Batch=6,4]");
}

/// The positions a Python slice takes, written from its definition.
fn python_range(size: i64, start: Option<i64>, stop: Option<i64>, step: i64) -> Vec<i64> {
    let clip = |p: i64| if p < 0 { (p + size).max(0) } else { p.min(size) };
    let (mut at, stop) = (start.map_or(0, clip), stop.map_or(size, clip));
    let mut taken = Vec::new();
    while at < stop {
        taken.push(at);
        at += step;
    }
    taken
}

#[test]
fn slices_are_pythons() {
    let ends = [None, Some(0), Some(1), Some(4), Some(9), Some(-1), Some(-3), Some(-9)];
    for size in [0_usize, 1, 5] {
        let x = numbers(size, &[size]);
        for start in ends {
            for stop in ends {
                for by in [1, 2, 7] {
                    let part = x.slice(Index::Range { start, stop, step: by });
                    let want = python_range(size as i64, start, stop, by);
                    let want: Vec<f64> = want.into_iter().map(|p| p as f64).collect();
                    assert_eq!(values(&part), want, "{size} [{start:?}:{stop:?}:{by}]");
                }
            }
        }
    }
    let x = numbers(24, &[2, 3, 4]);
    assert_eq!(values(&x.slice((1, -1, range(1, -1)))), [21.0, 22.0]);
    assert_eq!(values(&x.slice((.., 0, step(.., 3)))), [0.0, 3.0, 12.0, 15.0]);
    assert_eq!(sizes(&x.slice((Index::Ellipsis, Index::NewAxis, 0))), [2, 3, 1]);
    assert_eq!(sizes(&x.slice(..)), [2, 3, 4]);
    assert_eq!(sizes(&x.slice(1_usize)), [3, 4]);
}

#[test]
fn picking_by_index() {
    let table = numbers(6, &[3, 2]);
    let index = DynTensor::from_slice(&[2_i64, 0, 2, 1], [2, 2]);
    assert_eq!(sizes(&table.embedding(&index)), [2, 2, 2]);
    assert_eq!(values(&table.embedding(&index)), [4.0, 5.0, 0.0, 1.0, 4.0, 5.0, 2.0, 3.0]);
    assert_eq!(values(&table.gather(0, &index)), [4.0, 1.0, 4.0, 3.0]);
    assert_eq!(values(&index.slice(0).one_hot(3)), [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]);
}

#[test]
fn creation() {
    assert_eq!(values(&DynTensor::arange(0, 5, 2, DType::I64)), [0.0, 2.0, 4.0]);
    assert_eq!(values(&DynTensor::arange(1.0, 0.0, -0.5, DType::F32)), [1.0, 0.5]);
    assert_eq!(sizes(&DynTensor::arange(3, 0, 1, DType::I64)), [0]);
    assert_eq!(values(&DynTensor::full([2], 7, DType::U8)), [7.0, 7.0]);
    assert_eq!(DynTensor::ones([2], DType::Bool).to_vec::<bool>().unwrap(), [true, true]);
    assert_eq!(values(&numbers(2, &[2]).zeros_like()), [0.0, 0.0]);
    assert_eq!(DynTensor::scalar(2.5_f32).item().unwrap(), 2.5);
    let (low, high) = (3, 6);
    let ints: Vec<i64> = DynTensor::randint(low, high, [100], DType::I64).to_vec().unwrap();
    assert!(ints.iter().all(|i| (low..high).contains(i)) && (low..high).all(|i| ints.contains(&i)));
}

#[test]
fn seeds_make_random_numbers_repeat() {
    let (session, _) = Reference::session();
    let _entered = session.enter();
    let draw =
        || (values(&DynTensor::randn([8], DType::F32)), values(&DynTensor::rand([8], DType::F32)));
    manual_seed(1);
    let first = draw();
    let second = draw();
    manual_seed(1);
    assert_eq!(draw(), first);
    assert_eq!(draw(), second);
    assert_ne!(first, second);
    manual_seed(2);
    assert_ne!(draw(), first);
    let (other, _) = Reference::session();
    let _entered = other.enter();
    assert_ne!(draw(), first, "sessions that were not seeded differ");
}

#[test]
fn any_op_of_the_table_can_be_recorded() {
    let x = numbers(2, &[2]);
    assert_eq!(values(&DynTensor::record(Op::Add, &[Arg::from(1), Arg::from(&x)])), [1.0, 2.0]);
    assert_eq!(
        DynTensor::record(Op::Add, &[Arg::from(&x)]).error().unwrap().message(),
        "add: takes 2 operands, but got 1"
    );
}

#[test]
fn arrays_of_numbers_are_tensors() {
    let (session, _) = Reference::session();
    let _entered = session.enter();
    let x = DynTensor::from([[[1_i64, 2], [3, 4], [5, 6]]]);
    assert_eq!((x.sizes(), x.dtype()), (vec![1, 3, 2], DType::I64));
    assert_eq!(x.to_vec::<i64>().unwrap(), [1, 2, 3, 4, 5, 6]);
    assert_eq!(DynTensor::from(true).ty(), gt_ir::Type::scalar(DType::Bool));
    assert_eq!(DynTensor::from([[0.0_f32; 0]; 2]).sizes(), [2, 0]);
    let (deep, line) = (DynTensor::from([[[[[[[[[1.0]]]]]]]]]), line!());
    assert_eq!(deep.error().map(|error| error.loc().line()), Some(line));
}
