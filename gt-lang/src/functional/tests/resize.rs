//! Means of parts of images against plain loops, for every number of elements and of parts.

use super::*;

/// The mean of each part of a line, by PyTorch's rule.
fn means(line: &[f64], parts: usize) -> Vec<f64> {
    let n = line.len();
    let part = |i: usize| &line[i * n / parts..((i + 1) * n).div_ceil(parts)];
    (0..parts).map(|i| part(i).iter().sum::<f64>() / part(i).len() as f64).collect()
}

#[test]
fn parts_of_any_number_have_their_means() {
    let (session, _) = Reference::session();
    let _entered = session.enter();
    for n in 1..9 {
        for parts in 1..11 {
            let (line, want) = (numbers(n), means(&numbers(n), parts));
            let wide = DynTensor::from_vec(line.clone(), [1, 1, n]);
            close(&adaptive_avg_pool2d(&wide, [1, parts]), &want);
            let tall = DynTensor::from_vec(line, [1, n, 1]);
            close(&adaptive_avg_pool2d(&tall, [parts, 1]), &want);
        }
    }
}

/// What is not part of a mean does not reach it, however large.
#[test]
fn infinities_stay_in_their_parts() {
    let (session, _) = Reference::session();
    let _entered = session.enter();
    let x = DynTensor::from_vec(vec![f64::INFINITY, 1.0, 2.0, 3.0, f64::NAN], [1, 1, 5]);
    let means = list(&adaptive_avg_pool2d(&x, [1, 3]));
    assert!(means[0].is_infinite() && means[2].is_nan(), "{means:?}");
    assert_eq!(means[1], 2.0);
}

#[test]
fn narrow_floats_are_summed_wide_and_others_refused() {
    let (session, _) = Reference::session();
    let _entered = session.enter();
    let large = DynTensor::full([1, 1, 5], 60_000.0, DType::F16);
    let means = adaptive_avg_pool2d(&large, [1, 3]);
    assert_eq!((means.dtype(), list(&means)), (DType::F16, vec![60_000.0; 3]));
    let refused = |x: DynTensor, size| adaptive_avg_pool2d(&x, size).error().unwrap();
    let none = refused(DynTensor::zeros([1, 4, 4], DType::F32), [0, 2]);
    assert_eq!(none.message(), "adaptive_avg_pool2d: [0, 2] parts of the last axes of f32[1,4,4]");
    let whole = refused(DynTensor::zeros([1, 4, 4], DType::I64), [3, 3]);
    assert_eq!(whole.message(), "adaptive_avg_pool2d: takes floats, but got i64[1,4,4]");
}
