//! Typed operations: their values, their recorded shapes, and the errors of what types cannot know.

use gt::prelude::*;
use gt::typed::Shape;

use crate::run;

dims! { Batch, Seq }

/// `0, 1, 2, ...` as a tensor of the given run-time sizes.
fn counting<S: Shape>(sizes: &[usize]) -> Tensor<S> {
    let numel = Tensor::<S>::zeros_with(sizes).numel();
    Tensor::from_vec_with((0..numel).map(|i| i as f32).collect(), sizes)
}

fn b_is_one() -> T![3; Bool] {
    counting::<shape![3]>(&[]).eq(1.0)
}

/// The error a read of the tensor raises, without the place.
fn error<S: Shape, K: Kind>(tensor: &Tensor<S, K>) -> String {
    let error = tensor.as_dyn().to_host().expect_err("the tensor carries an error");
    match error.cure() {
        Some(hint) => format!("{}\nhint: {hint}", error.message()),
        None => error.message().to_string(),
    }
}

#[test]
fn operators_take_tensors_and_numbers_on_either_side() {
    run(|| {
        let x: T![Batch, 3] = counting(&[2]);
        let b: T![3] = counting(&[]);
        let check =
            |got: T![Batch, 3], want: [f32; 6]| assert_eq!(got.to_vec::<f32>(), Ok(want.to_vec()));
        check(&x + &b, [0., 2., 4., 3., 5., 7.]);
        check(x.clone() - &b, [0., 0., 0., 3., 3., 3.]);
        check(&b * x.clone(), [0., 1., 4., 0., 4., 10.]);
        check((x.clone() + 1.0) / (b.clone() + 1.0), [1., 1., 1., 4., 2.5, 2.]);
        check((2.0 * &x).relu(), [0., 2., 4., 6., 8., 10.]);
        check(1 - &x, [1., 0., -1., -2., -3., -4.]);
        check(-(&x - 1.0), [1., 0., -1., -2., -3., -4.]);
        let mut y = x.clone();
        y += &b;
        y *= 2.0;
        y -= 1.0;
        y /= &(&b + 1.0);
        check(y, [-1., 1.5, 7. / 3., 5., 4.5, 13. / 3.]);
        let mut n: T![3; Int] = Tensor::arange();
        n += 1;
        n *= n.clone();
        assert_eq!(n.to_vec::<i64>(), Ok(vec![1, 4, 9]));
    });
}

#[test]
fn kinds_promote_as_dtypes_do() {
    run(|| {
        let n: T![3; Int] = Tensor::from_vec(vec![1i64, 2, 3]);
        let x: T![3] = Tensor::from_vec(vec![0.5f32, 1.5, 2.5]);
        let half: T![3] = &n * 0.5;
        assert_eq!(half.to_vec::<f32>(), Ok(vec![0.5, 1.0, 1.5]));
        let twice: T![3; Int] = &n * 2;
        assert_eq!(twice.to_vec::<i64>(), Ok(vec![2, 4, 6]));
        let quotient: T![3] = &n / &n;
        assert_eq!(quotient.to_vec::<f32>(), Ok(vec![1.0; 3]));
        let mixed: T![3] = &n + &x;
        assert_eq!(mixed.dtype(), DType::F32);
        let more: T![3; Bool] = x.gt(1.0);
        assert_eq!(more.to_vec::<bool>(), Ok(vec![false, true, true]));
        let hits: T![; Int] = more.sum();
        assert_eq!(hits.item(), Ok(2.0));
        let kept: T![3] = more.where_(&x, 0.0);
        assert_eq!(kept.to_vec::<f32>(), Ok(vec![0.0, 1.5, 2.5]));
        let ordered: T![3; Bool] = n.eq(&n).logical_and(&more);
        assert_eq!(ordered.to_vec::<bool>(), Ok(vec![false, true, true]));
        assert_eq!(x.int().to_vec::<i64>(), Ok(vec![0, 1, 2]));
        assert_eq!(n.float().exp().dtype(), n.exp().dtype());
        assert_eq!(x.to_dtype(DType::F64).dtype(), DType::F64);
        assert_eq!(
            error(&x.to_dtype(DType::I64)),
            "to_dtype: dtype i64 is not of kind Float\nhint: `.float()`, `.int()` and `.bool()` \
             change the kind"
        );
    });
}

#[test]
fn reductions_drop_or_keep_the_axis() {
    run(|| {
        let x: T![Batch, 3] = counting(&[2]);
        let total: T![] = x.sum();
        assert_eq!(total.item(), Ok(15.0));
        let columns: T![3] = x.sum_axis::<0>();
        assert_eq!(columns.to_vec::<f32>(), Ok(vec![3., 5., 7.]));
        let rows: T![Batch] = x.mean_last();
        assert_eq!(rows.to_vec::<f32>(), Ok(vec![1., 4.]));
        let kept: T![Batch, 1] = x.max_keep::<1>();
        let shifted: T![Batch, 3] = &x - kept;
        assert_eq!(shifted.to_vec::<f32>(), Ok(vec![-2., -1., 0., -2., -1., 0.]));
        let best: T![Batch; Int] = x.argmax_last();
        assert_eq!(best.to_vec::<i64>(), Ok(vec![2, 2]));
        let p: T![Batch, 3] = x.softmax_last();
        assert!(
            p.sum_last().to_vec::<f32>().is_ok_and(|s| s.iter().all(|v| (v - 1.0).abs() < 1e-6))
        );
        let deviation: T![Batch] = x.std_last();
        assert_eq!(deviation.to_vec::<f32>(), Ok(vec![1., 1.]));
        let masked: T![Batch, 3] = x.masked_fill(&b_is_one(), -1.0);
        assert_eq!(masked.to_vec::<f32>(), Ok(vec![0., -1., 2., 3., -1., 5.]));
        let q: T![Batch, 3] = x.log_softmax::<1>().exp() - &p;
        assert!(q.abs().max().item().is_ok_and(|d| d < 1e-6));
    });
}

#[test]
fn products_broadcast_batches() {
    run(|| {
        let a: T![Batch, 2, 3] = counting(&[2]);
        let b: T![3, 1] = counting(&[]);
        let c: T![Batch, 2, 1] = a.matmul(&b);
        assert_eq!(c.to_vec::<f32>(), Ok(vec![5., 14., 23., 32.]));
        let square: T![Batch, 2, 2] = a.matmul(&a.t());
        assert_eq!(square.sizes(), [2, 2, 2]);
        let v: T![3] = counting(&[]);
        let dot: T![] = v.matmul(&v);
        assert_eq!(dot.item(), Ok(5.0));
        let row: T![Batch, 2] = a.matmul(&v);
        assert_eq!(row.sizes(), [2, 2]);
    });
}

#[test]
fn shapes_change_by_annotation_and_by_axis() {
    run(|| {
        let x: T![Batch, Seq, 6] = counting(&[2, 5]);
        let heads: T![Batch, Seq, 2, 3] = x.reshape();
        let swapped: T![Batch, 2, Seq, 3] = heads.transpose::<1, 2>();
        assert_eq!(swapped.as_dyn().shape().to_string(), "[Batch=2,2,Seq=5,3]");
        let back: T![Batch, Seq, 6] =
            swapped.permute::<shape![Batch, Seq, 2, 3]>([0, 2, 1, 3]).reshape();
        assert_eq!(back.to_vec::<f32>(), x.to_vec::<f32>());
        let flat: T![?, 6] = x.reshape();
        assert_eq!(flat.sizes(), [10, 6]);
        let split: T![?, ?] = x.reshape_with([20, 3]);
        assert_eq!(split.sizes(), [20, 3]);
        let part: T![Batch, ?, 6] = x.slice_axis::<1>(-4..4);
        assert_eq!(part.sizes(), [2, 3, 6]);
        let steps: T![Batch, ?, 6] = x.slice_axis::<1>(step(.., 2));
        assert_eq!(steps.sizes(), [2, 3, 6]);
        let last: T![Batch, 6] = x.select::<1>(-1);
        assert_eq!(last.select::<0>(0).to_vec::<f32>(), Ok(vec![24., 25., 26., 27., 28., 29.]));
        let joined = cat::<1, _, _>([&part, &part]);
        assert_eq!(joined.sizes(), [2, 6, 6]);
        let stacked: T![?, Batch, 6] = stack::<0, _, _>([&last, &last]);
        assert_eq!(stacked.sizes(), [2, 2, 6]);
        let wide: T![Batch, 1, 6] = last.unsqueeze::<1>();
        let squeezed: T![Batch, 6] = wide.squeeze::<1>();
        assert_eq!(squeezed.sizes(), [2, 6]);
        let expanded: T![4, Batch, 6] = last.expand();
        assert_eq!(expanded.sizes(), [4, 2, 6]);
        assert_eq!(wide.expand::<shape![Batch, 3, 6]>().sizes(), [2, 3, 6]);
    });
}

#[test]
fn indices_pick_rows_and_elements() {
    run(|| {
        let table: T![4, 2] = counting(&[]);
        let words: T![Batch, Seq; Int] = Tensor::from_vec_with(vec![3i64, 0, 1, 1], [2, 2]);
        let vectors: T![Batch, Seq, 2] = table.embedding(&words);
        assert_eq!(vectors.to_vec::<f32>(), Ok(vec![6., 7., 0., 1., 2., 3., 2., 3.]));
        let order: T![3; Int] = Tensor::from_vec(vec![2i64, 2, 0]);
        let picked: T![3, 2] = table.index_select::<0, _>(&order);
        assert_eq!(picked.to_vec::<f32>(), Ok(vec![4., 5., 4., 5., 0., 1.]));
        let columns: T![4, 1; Int] = Tensor::from_vec(vec![0i64, 1, 0, 1]);
        let one_each: T![4, 1] = table.gather::<1, _>(&columns);
        assert_eq!(one_each.to_vec::<f32>(), Ok(vec![0., 3., 4., 7.]));
        let hot: T![3, 4; Int] = order.one_hot::<N<4>>();
        assert_eq!(hot.sum_axis::<0>().to_vec::<i64>(), Ok(vec![1, 0, 2, 0]));
        let places: T![2; Int] = Tensor::from_vec(vec![3i64, 0]);
        let rows: T![2, 2] = Tensor::from_vec(vec![10.0f32, 20., 30., 40.]);
        let copied: T![4, 2] = table.index_copy::<0, _>(&places, &rows);
        assert_eq!(copied.to_vec::<f32>(), Ok(vec![30., 40., 2., 3., 4., 5., 10., 20.]));
        let added: T![4, 2] = table.index_add::<0, _>(&places, &rows);
        assert_eq!(added.to_vec::<f32>(), Ok(vec![30., 41., 2., 3., 4., 5., 16., 27.]));
        let positions: T![4; Int] = Tensor::arange();
        assert_eq!(positions.to_vec::<i64>(), Ok(vec![0, 1, 2, 3]));
    });
}

#[test]
fn creation_follows_the_type() {
    run(|| {
        let w: T![2, 3] = Tensor::randn();
        assert_eq!((w.sizes(), w.dtype()), (vec![2, 3], DType::F32));
        let ones: T![Batch, 3; Int] = Tensor::ones_with([4]);
        assert_eq!((ones.sum().item(), ones.dtype()), (Ok(12.0), DType::I64));
        let mask: T![2; Bool] = Tensor::zeros();
        assert_eq!(mask.to_vec::<bool>(), Ok(vec![false; 2]));
        let x: T![Batch, 3] = Tensor::from_vec(vec![0f32; 12]);
        assert_eq!(x.as_dyn().shape().to_string(), "[Batch=4,3]");
        let half: T![] = Tensor::full(0.5);
        assert_eq!(half.item(), Ok(0.5));
        let dice: T![100; Int] = Tensor::randint_with(1, 7, []);
        assert!(dice.to_vec::<i64>().is_ok_and(|d| d.iter().all(|n| (1..7).contains(n))));
    });
}

#[test]
fn what_types_cannot_know_is_an_error_of_the_next_read() {
    run(|| {
        let x: T![Batch, 3] = counting(&[2]);
        let y: T![Batch, 3] = counting(&[1]);
        assert_eq!(
            error(&(&x + &y)),
            "add: dimension Batch is both 2 and 1 in [Batch=2,3] and [Batch=1,3]\nhint: a named \
             dimension has one size in an operation; `?` dimensions may differ"
        );
        let longer: T![Batch, 3] = counting(&[4]);
        assert!(error(&(&x * &longer)).contains("[Batch=2,3]"));
        let raw = DynTensor::zeros([2, 785], DType::F32);
        assert_eq!(
            error(&<T![Batch, 784]>::from_dyn(raw.clone())),
            "from_dyn: the tensor has shape [2,785], but its type says [Batch,784]\nhint: both \
             need as many axes, and the sizes that the type knows"
        );
        assert_eq!(
            error(&<T![Batch]>::from_dyn(raw.clone())),
            "from_dyn: the tensor has shape [2,785], but its type says [Batch]\nhint: both need \
             as many axes, and the sizes that the type knows"
        );
        assert_eq!(
            error(&Tensor::<shape![?, ?], Int>::from_dyn(raw.clone())),
            "from_dyn: a tensor of type f32[2,785] is not of kind Int\nhint: `.float()`, `.int()` \
             and `.bool()` change the kind"
        );
        let open: T![?, ?] = Tensor::from_dyn(raw);
        let named: T![Batch, 785] = open.assume();
        assert_eq!(named.as_dyn().shape().to_string(), "[Batch=2,785]");
        assert_eq!(
            error(&open.assume::<shape![Batch, Batch]>()),
            "assume: dimension Batch is both 2 and 785 in [Batch=2,Batch=785]"
        );
        assert_eq!(
            error(&x.reshape::<shape![Batch, 4]>()),
            "reshape: shape [Batch=2,3] does not become [Batch,4]: 6 elements are not 8"
        );
        assert_eq!(
            error(&x.reshape::<shape![?, 4]>()),
            "reshape: shape [Batch=2,3] does not become [?,4]: 6 elements are not 4"
        );
        assert_eq!(
            error(&x.reshape::<shape![?, ?]>()),
            "reshape: shape [Batch=2,3] does not become [?,?]: 2 of its sizes are not \
             known\nhint: give them: `.reshape_with([sizes])`"
        );
        assert_eq!(
            error(&<T![Batch, 3]>::from_vec(vec![0f32; 7])),
            "from_vec: 7 elements do not make a tensor of shape [Batch,3]"
        );
        assert_eq!(
            error(&<T![Batch, Seq]>::zeros_with([3])),
            "zeros_with: shape [Batch,Seq] takes 2 sizes, but 1 were given: [3]\nhint: give those \
             of the named and run-time dimensions, outermost first"
        );
        let one: T![{ 1 }] = Tensor::zeros();
        let five: T![?] = counting(&[5]);
        assert_eq!(error(&(one + five)), "add: the result has shape [?=5], its type says [1]");
    });
}

#[test]
fn errors_name_the_line_of_the_typed_call() {
    run(|| {
        let x: T![Batch, 3] = counting(&[2]);
        let y: T![Batch, 3] = counting(&[4]);
        let line = line!() + 1;
        let sum = (&x + &y).relu() * 2.0;
        let error = sum.to_vec::<f32>().expect_err("the sizes of Batch differ");
        assert!(error.loc().file().ends_with("typed.rs"), "{error}");
        assert_eq!(error.loc().line(), line, "{error}");
    });
}

#[test]
fn gradients_flow_through_typed_code() {
    run(|| {
        let w = <T![3]>::from_vec(vec![1f32, 2., 3.]).requires_grad();
        let x: T![Batch, 3] = counting(&[2]);
        let loss = (&x * &w).sum();
        loss.backward().expect("the loss depends on w");
        assert_eq!(w.grad().expect("w is a leaf").to_vec::<f32>(), Ok(vec![3., 5., 7.]));
        let target: T![Batch, 3] = Tensor::zeros_with([2]);
        x.mse_loss(&target).backward().expect_err("nothing requires a gradient");
        w.zero_grad();
        assert!(w.grad().is_none());
        let mut leaf = w.clone();
        no_grad(|| leaf -= 1.0);
        assert_eq!(w.to_vec::<f32>(), Ok(vec![0., 1., 2.]));
        no_grad(|| w.assign(&Tensor::ones())).expect("w is a leaf of this shape");
        assert_eq!(leaf.to_vec::<f32>(), Ok(vec![1.; 3]));
    });
}

/// Typed code records what the same dynamic code records.
#[test]
fn the_tape_is_the_dynamic_one() {
    let trace = |program: &dyn Fn() -> DynTensor| {
        let (session, _system) = gt::reference::Reference::session();
        let _current = session.enter();
        session.start_trace();
        let result = program();
        let tape = session.stop_trace();
        drop(result);
        tape.instrs().map(|i| (i.op.to_string(), i.inputs.to_vec())).collect::<Vec<_>>()
    };
    let typed = trace(&|| {
        let x: T![4, 3] = Tensor::ones();
        let w: T![3, 2] = Tensor::zeros();
        let h = (x.matmul(&w) * 0.5 + 1.0).relu();
        h.mean_axis::<0>().softmax_last().into_dyn()
    });
    let dynamic = trace(&|| {
        let (x, w) = (DynTensor::ones([4, 3], DType::F32), DynTensor::zeros([3, 2], DType::F32));
        let h = (x.matmul(&w) * 0.5f64 + 1.0f64).relu();
        h.mean(0).softmax(-1)
    });
    assert_eq!(typed, dynamic);
}

#[test]
fn rows_of_later_have_their_shapes() {
    run(|| {
        let x: T![Batch, 3] = counting(&[2]);
        assert_eq!((x.silu() - &x * &x.sigmoid()).abs().max().item(), Ok(0.0));
        assert_eq!(x.cumsum::<1>().to_vec::<f32>(), Ok(vec![0., 1., 3., 3., 7., 12.]));
        assert_eq!(x.prod_last().to_vec::<f32>(), Ok(vec![0., 60.]));
        assert_eq!(x.flip::<1>().to_vec::<f32>(), Ok(vec![2., 1., 0., 5., 4., 3.]));
        let (top, at) = x.topk::<1>(2);
        assert_eq!(top.to_vec::<f32>(), Ok(vec![2., 1., 5., 4.]));
        assert_eq!(at.to_vec::<i64>(), Ok(vec![2, 1, 2, 1]));
        let part: T![2] = Tensor::ones();
        let assigned: T![Batch, 3] = x.slice_assign((1, 1..), &part);
        assert_eq!(assigned.to_vec::<f32>(), Ok(vec![0., 1., 2., 3., 1., 1.]));
        let image: T![Batch, 1, 4, 4] = counting(&[1]);
        let weight: T![2, 1, 3, 3] = Tensor::ones();
        let y: T![Batch, 2, ?, ?] = image.conv2d(&weight, None, functional::Convolution::default());
        assert_eq!(y.to_vec::<f32>(), Ok(vec![45., 54., 81., 90., 45., 54., 81., 90.]));
        let pooled: T![Batch, 1, ?, ?] = image.max_pool2d(functional::Pooling::of([2, 2]));
        assert_eq!(pooled.to_vec::<f32>(), Ok(vec![5., 7., 13., 15.]));
        let q: T![Batch, 2, 3, 4] = counting(&[1]);
        let k: T![Batch, 1, 5, 4] = counting(&[1]);
        let v: T![Batch, 1, 5, 2] = Tensor::ones_with([1]);
        let y: T![Batch, 2, 3, 2] =
            q.scaled_dot_product_attention(&k, &v, functional::Attention::default());
        assert_eq!(y.sum().item(), Ok(12.0));
    });
}
