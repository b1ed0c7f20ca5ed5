//! What functions compute, against plain loops and known values.

mod resize;

use gt_ir::DType;

use super::*;
use crate::core::step;
use crate::reference::Reference;

fn numbers(n: usize) -> Vec<f64> {
    (0..n).map(|i| ((i * 37 + 11) % 23) as f64 * 0.25 - 2.0).collect()
}

fn tensor(sizes: &[usize]) -> DynTensor {
    DynTensor::from_vec(numbers(sizes.iter().product()), sizes)
}

fn list(x: &DynTensor) -> Vec<f64> {
    x.to_dtype(DType::F64).to_vec().unwrap()
}

fn close(x: &DynTensor, want: &[f64]) {
    let got = list(x);
    assert_eq!(got.len(), want.len());
    for (a, b) in got.iter().zip(want) {
        assert!((a - b).abs() < 1e-9 * (1.0 + b.abs()), "{got:?}\n{want:?}");
    }
}

/// The sum over every assignment of the letters, by odometer.
fn by_loops(equation: &str, operands: &[&DynTensor]) -> Vec<f64> {
    let (inputs, output) = equation.split_once("->").unwrap();
    let inputs: Vec<&str> = inputs.split(',').collect();
    let mut sizes: Vec<(char, usize)> = Vec::new();
    for (letters, x) in inputs.iter().zip(operands) {
        for (c, &n) in letters.chars().zip(x.shape().sizes()) {
            if !sizes.iter().any(|(known, _)| *known == c) {
                sizes.push((c, n));
            }
        }
    }
    let size = |c: char| sizes.iter().find(|(known, _)| *known == c).unwrap().1;
    let data: Vec<Vec<f64>> = operands.iter().map(|x| list(x)).collect();
    let mut out = vec![0.0; output.chars().map(size).product()];
    let at = |letters: &str, place: &[usize]| {
        letters.chars().fold(0, |flat, c| {
            flat * size(c) + place[sizes.iter().position(|(known, _)| *known == c).unwrap()]
        })
    };
    let total: usize = sizes.iter().map(|(_, n)| n).product();
    for flat in 0..total {
        let mut rest = flat;
        let place: Vec<usize> = sizes
            .iter()
            .map(|(_, n)| {
                let i = rest % n;
                rest /= n;
                i
            })
            .collect();
        let product: f64 = inputs.iter().zip(&data).map(|(l, d)| d[at(l, &place)]).product();
        out[at(output, &place)] += product;
    }
    out
}

#[test]
fn einsum_is_the_sum_over_all_letters() {
    let (session, _) = Reference::session();
    let _entered = session.enter();
    let cases: &[(&str, &[&[usize]])] = &[
        ("ij,jk->ik", &[&[2, 3], &[3, 4]]),
        ("ij,jk->ki", &[&[2, 3], &[3, 4]]),
        ("bij,bjk->bik", &[&[2, 3, 4], &[2, 4, 2]]),
        ("bhqd,bkhd->bhqk", &[&[2, 2, 3, 2], &[2, 4, 2, 2]]),
        ("i,j->ij", &[&[3], &[2]]),
        ("i,i->", &[&[3], &[3]]),
        ("ij->", &[&[2, 3]]),
        ("ij->ji", &[&[2, 3]]),
        ("ii->i", &[&[3, 3]]),
        ("ii->", &[&[3, 3]]),
        ("iji->j", &[&[2, 3, 2]]),
        ("ab,bc,cd->ad", &[&[2, 3], &[3, 2], &[2, 4]]),
        ("ab,ab,b->a", &[&[2, 3], &[2, 3], &[3]]),
        ("abc,d->bd", &[&[2, 3, 2], &[2]]),
    ];
    for (equation, shapes) in cases {
        let operands: Vec<DynTensor> = shapes.iter().map(|s| tensor(s)).collect();
        let operands: Vec<&DynTensor> = operands.iter().collect();
        close(&einsum(equation, operands.iter().copied()), &by_loops(equation, &operands));
    }
    let (a, b) = (tensor(&[2, 1, 3, 4]), tensor(&[5, 4, 2]));
    let ellipsis = einsum("...ij,...jk->...ik", [&a, &b]);
    close(&ellipsis, &list(&a.matmul(&b)));
    assert_eq!(ellipsis.shape().sizes(), [2, 5, 3, 2]);
    close(
        &einsum("ij,jk", [&tensor(&[2, 3]), &tensor(&[3, 2])]),
        &list(&tensor(&[2, 3]).matmul(&tensor(&[3, 2]))),
    );
}

#[test]
fn what_einsum_cannot_read_is_said() {
    let (session, _) = Reference::session();
    let _entered = session.enter();
    let x = tensor(&[2, 3]);
    let message = |equation: &str| {
        einsum(equation, [&x, &x]).error().map(|e| e.message().to_owned()).unwrap_or_default()
    };
    assert_eq!(message("ij,jk->ik"), "einsum: axis `j` has size 3 and size 2");
    assert_eq!(message("ij->i"), "einsum: `ij->i` names 1 operands, but got 2");
    assert_eq!(message("ij,ijk->i"), "einsum: `ijk` does not name the axes of f64[2,3]");
    assert_eq!(
        message("ij,ij->k"),
        "einsum: the result of `ij,ij->k` repeats an axis or has one that no operand has"
    );
    assert_eq!(message("i1,ij->i"), "einsum: `1` in `i1` is no axis");
}

#[test]
fn index_tensors_pick_as_in_numpy() {
    let (session, _) = Reference::session();
    let _entered = session.enter();
    let x = DynTensor::arange(0, 24, 1, DType::I64).reshape([2, 3, 4]);
    let i = |v: &[i64]| DynTensor::from_slice(v, [v.len()]);
    let ints = |x: &DynTensor| x.to_vec::<i64>().unwrap();
    assert_eq!(ints(&x.slice((1, &i(&[2, -3]), 0))), [20, 12]);
    // Neighbours: in place.
    let y = x.slice((.., &i(&[0, 2]), &i(&[3, -1])));
    assert_eq!((y.shape().sizes().to_vec(), ints(&y)), (vec![2, 2], vec![3, 11, 15, 23]));
    // Apart: in front.
    let y = x.slice((&i(&[0, 1, 1]), .., &i(&[1, 0, 3])));
    assert_eq!(
        (y.shape().sizes().to_vec(), ints(&y)),
        (vec![3, 3], vec![1, 5, 9, 12, 16, 20, 15, 19, 23])
    );
    // Broadcast against each other: rows and columns of a block.
    let y = x.slice((0, &i(&[2, 0]).unsqueeze(1), &i(&[1, 3])));
    assert_eq!((y.shape().sizes().to_vec(), ints(&y)), (vec![2, 2], vec![9, 11, 1, 3]));
    // A position is checked on its own axis, though the flattened one would have it.
    assert!(x.slice((.., &i(&[0]), &i(&[4]))).to_vec::<i64>().is_err());
    let error = x.slice((x.gt(3), 0)).error().unwrap();
    assert_eq!(error.message(), "slice: an index tensor must hold integers, but is bool[2,3,4]");
}

#[test]
fn assignment_changes_the_part_alone() {
    let (session, _) = Reference::session();
    let _entered = session.enter();
    let x = DynTensor::zeros([3, 4], DType::I64);
    let ints = |x: &DynTensor| x.to_vec::<i64>().unwrap();
    assert_eq!(ints(&x.slice_assign((1, 1..3), 7)), [0, 0, 0, 0, 0, 7, 7, 0, 0, 0, 0, 0]);
    let v = DynTensor::from_vec(vec![1_i64, 2], [2]);
    assert_eq!(
        ints(&x.slice_assign((step(.., 2), step(1.., 2)), &v)),
        [0, 1, 0, 2, 0, 0, 0, 0, 0, 1, 0, 2]
    );
    assert_eq!(ints(&x.slice_assign(.., 5)), [5; 12]);
    assert_eq!(ints(&x.slice_assign((-1, -1), 2.9)), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    assert_eq!(ints(&x), [0; 12]);
    let bad = x.slice_assign((0, ..), &DynTensor::zeros([3], DType::I64));
    assert!(bad.error().is_some());
}

#[test]
fn parts_are_arranged_as_in_pytorch() {
    let (session, _) = Reference::session();
    let _entered = session.enter();
    let x = DynTensor::arange(0, 6, 1, DType::I64).reshape([2, 3]);
    let ints = |x: &DynTensor| x.to_vec::<i64>().unwrap();
    assert_eq!(ints(&x.roll(1, 1)), [2, 0, 1, 5, 3, 4]);
    assert_eq!(ints(&x.roll(-4, 1)), [1, 2, 0, 4, 5, 3]);
    assert_eq!(ints(&x.repeat([2, 1])), [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5]);
    assert_eq!(x.repeat([2, 0, 1]).shape().sizes(), [2, 0, 3]);
    assert_eq!(ints(&x.repeat_interleave(2, 0)), [0, 1, 2, 0, 1, 2, 3, 4, 5, 3, 4, 5]);
    assert_eq!(ints(&x.movedim(0, 1)), [0, 3, 1, 4, 2, 5]);
    assert_eq!(ints(&x.pad([(0, 1), (-1, 1)], 9)), [1, 2, 9, 4, 5, 9, 9, 9, 9]);
    assert_eq!(ints(&x.flip(..)), [5, 4, 3, 2, 1, 0]);
    assert_eq!(ints(&x.argmin(1)), [0, 0]);
    assert!(x.split_sizes([1, 1], 1)[0].error().is_some());
    assert!(x.repeat([2]).error().is_some());
}

#[test]
fn batch_norm_moves_the_running_statistics() {
    let (session, _) = Reference::session();
    let _entered = session.enter();
    let x = DynTensor::from_vec(vec![1.0, 10.0, 3.0, 14.0], [2, 2]);
    let (zeros, ones) = (DynTensor::zeros([2], DType::F64), DynTensor::ones([2], DType::F64));
    let y = batch_norm(&x, (&zeros, &ones), (&ones, &zeros), 0.1, 0.0);
    close(&y.output, &[-1.0, -1.0, 1.0, 1.0]);
    close(&y.running_mean, &[0.2, 1.2]);
    close(&y.running_var, &[0.9 + 0.2, 0.9 + 0.8]);
}

#[test]
fn draws_follow_their_weights() {
    let (session, _) = Reference::session();
    let _entered = session.enter();
    let weights = DynTensor::from_vec(vec![1.0, 0.0, 3.0, 1.0, 1.0, 0.0], [2, 3]);
    let draws: Vec<i64> = weights.multinomial(4000).to_vec().unwrap();
    let share = |row: usize, class: i64| {
        draws[row * 4000..][..4000].iter().filter(|d| **d == class).count() as f64 / 4000.0
    };
    assert!((share(0, 2) - 0.75).abs() < 0.03 && (share(1, 0) - 0.5).abs() < 0.03);
    assert_eq!((share(0, 1), share(1, 2)), (0.0, 0.0));
    let p: Vec<f64> = DynTensor::full([4000], 0.3, DType::F64).bernoulli().to_vec().unwrap();
    assert!((p.iter().sum::<f64>() / 4000.0 - 0.3).abs() < 0.03);
}

#[test]
fn no_gradient_flows_into_padding() {
    let (session, _) = Reference::session();
    let _entered = session.enter();
    let table = tensor(&[3, 2]).requires_grad();
    let index = DynTensor::from_vec(vec![0_i64, 1, 1, 0], [4]);
    let rows = table.embedding_with_padding(&index, 1);
    close(&rows, &list(&table.embedding(&index)));
    rows.sum(..).backward().unwrap();
    close(&table.grad().unwrap(), &[2.0, 2.0, 0.0, 0.0, 0.0, 0.0]);
}

/// Convolution by its definition.
fn convolved(x: &DynTensor, w: &DynTensor, how: Convolution) -> Vec<f64> {
    let [n, c, h, wd] = *x.shape().sizes() else { panic!() };
    let [o, each, kh, kw] = *w.shape().sizes() else { panic!() };
    let out = |i: usize, size: usize, k: usize| {
        (size + 2 * how.padding[i] - how.dilation[i] * (k - 1) - 1) / how.stride[i] + 1
    };
    let (oh, ow) = (out(0, h, kh), out(1, wd, kw));
    let (x, w) = (list(x), list(w));
    let mut y = vec![0.0; n * o * oh * ow];
    for (flat, y) in y.iter_mut().enumerate() {
        let (b, f, i, j) = (flat / (o * oh * ow), flat / (oh * ow) % o, flat / ow % oh, flat % ow);
        for (e, p, q) in (0..each * kh * kw).map(|k| (k / (kh * kw), k / kw % kh, k % kw)) {
            let channel = f / (o / how.groups) * each + e;
            let row = (i * how.stride[0] + p * how.dilation[0]).checked_sub(how.padding[0]);
            let column = (j * how.stride[1] + q * how.dilation[1]).checked_sub(how.padding[1]);
            if let (Some(r), Some(s)) = (row.filter(|r| *r < h), column.filter(|s| *s < wd)) {
                *y +=
                    x[((b * c + channel) * h + r) * wd + s] * w[((f * each + e) * kh + p) * kw + q];
            }
        }
    }
    y
}

#[test]
fn convolution_is_its_definition_and_the_transpose_its_adjoint() {
    let (session, _) = Reference::session();
    let _entered = session.enter();
    let plain = Convolution::default();
    let cases = [
        ([2, 3, 6, 5], [4, 3, 3, 2], plain),
        ([1, 2, 5, 5], [2, 2, 1, 1], Convolution { stride: [2, 3], ..plain }),
        ([2, 4, 6, 6], [2, 2, 3, 3], Convolution { padding: [1, 2], groups: 2, ..plain }),
        (
            [1, 1, 7, 8],
            [1, 1, 2, 3],
            Convolution { stride: [2, 1], dilation: [3, 2], padding: [1, 0], ..plain },
        ),
        ([2, 2, 4, 4], [4, 1, 2, 2], Convolution { stride: [2, 2], groups: 2, ..plain }),
    ];
    for (image, kernel, how) in cases {
        let (x, w) = (tensor(&image), tensor(&kernel));
        let y = conv2d(&x, &w, None, how);
        close(&y, &convolved(&x, &w, how));
        // <conv(x), g> = <x, transpose(g)>, which output padding brings to the size of x.
        let g = y.mul(0.5).add(1.0);
        let output_padding = [0, 1].map(|i| {
            let size =
                image[2 + i] + 2 * how.padding[i] - how.dilation[i] * (kernel[2 + i] - 1) - 1;
            size % how.stride[i]
        });
        let back = conv_transpose2d(&g, &w, None, Convolution { output_padding, ..how });
        assert_eq!(back.shape().sizes(), image);
        close(&x.mul(&back).sum(..), &list(&y.mul(&g).sum(..)));
    }
}

#[test]
fn order_and_permutations() {
    let (session, _) = Reference::session();
    let _entered = session.enter();
    let x = DynTensor::from_vec(vec![3.0, 1.0, 2.0, 1.0, 5.0, 4.0], [2, 3]);
    let (values, places) = x.topk(2, 1);
    close(&values, &[3.0, 2.0, 5.0, 4.0]);
    close(&places, &[0.0, 2.0, 1.0, 2.0]);
    close(&x.median(1).0, &[2.0, 4.0]);
    close(&x.sort(0, false).0, &[1.0, 1.0, 2.0, 3.0, 5.0, 4.0]);
    let mut p: Vec<i64> = DynTensor::randperm(50).to_vec().unwrap();
    assert!(!p.is_sorted());
    p.sort_unstable();
    assert_eq!(p, (0..50).collect::<Vec<_>>());
    let drawn =
        DynTensor::from_vec(vec![1.0, 0.0, 2.0, 3.0], [4]).multinomial_without_replacement(3);
    let mut drawn: Vec<i64> = drawn.to_vec().unwrap();
    drawn.sort_unstable();
    assert_eq!(drawn, [0, 2, 3]);
}

#[test]
fn classes_that_do_not_fit_the_scores_are_refused() {
    let (session, _) = Reference::session();
    let _entered = session.enter();
    let scores = DynTensor::zeros([4, 10], DType::F32);
    let how = CrossEntropy { label_smoothing: 0.1, ..CrossEntropy::default() };
    let few = DynTensor::from([1_i64, 2, 3]);
    let floats = DynTensor::from([1.0_f32, 2.0, 3.0, 4.0]);
    let cases = [
        (
            cross_entropy(&scores, &few),
            "cross_entropy: i64[3] does not name a class for each row of f32[4,10]",
        ),
        (cross_entropy_with(&scores, &few, &how), "cross_entropy: i64[3] does not name"),
        (nll_loss(&scores, &few.unsqueeze(0)), "nll_loss: i64[1,3] does not name"),
        (
            cross_entropy(&scores, &floats),
            "cross_entropy: the classes must be integers, but are f32[4]",
        ),
        (cross_entropy(&scores.softmax(7), &few), "softmax: axis 7 is out of range"),
    ];
    for (loss, want) in cases {
        let error = loss.item().unwrap_err();
        assert!(
            error.message().starts_with(want) && error.loc().file().ends_with("tests.rs"),
            "{error}"
        );
    }
    assert_eq!(cross_entropy(&scores.slice(0), &DynTensor::scalar(3_i64)).sizes(), [0_usize; 0]);
}

/// Neither an infinity that goes elsewhere nor a value that is replaced has a part in a gradient.
#[test]
fn what_meets_at_a_place_has_a_gradient_of_its_own() {
    let (session, _) = Reference::session();
    let _entered = session.enter();
    let gradient = |base: &[f32], src: &[f32], index: &[i64], how, own| {
        let base = DynTensor::from_slice(base, [base.len()]);
        let src = DynTensor::from_slice(src, [src.len()]).requires_grad();
        let index = DynTensor::from_slice(index, [index.len()]);
        let y = base.scatter_reduce(0, &index, &src, how, own);
        y.sum(..).backward().unwrap();
        src.grad().unwrap().to_vec::<f32>().unwrap()
    };
    let least = f32::NEG_INFINITY;
    assert_eq!(gradient(&[5.0], &[least], &[0], ScatterReduce::Amax, false), [1.0]);
    assert_eq!(gradient(&[1.0, 2.0], &[3.0, 3.0], &[1, 1], ScatterReduce::Amax, true), [0.5; 2]);
    let inf = f32::INFINITY;
    assert_eq!(gradient(&[1.0; 2], &[2.0, inf], &[0, 1], ScatterReduce::Prod, true), [1.0; 2]);
}
