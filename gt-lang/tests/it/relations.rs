//! The relations of shapes against the dynamic operations: for every pair of ranks, the type of a result says what was recorded.

use gt::prelude::*;
use gt::typed::{
    Append, Axis, Broadcast, DimSpec, HasLast, InsertAxis, MatMul, Project, SetAxis, SwapAxes,
    SwapLast,
};

use crate::run;

/// Sizes that differ, so that a swapped dimension shows.
type A = N<2>;
type B = N<3>;
type C = N<4>;
type D = N<5>;
type E = N<6>;
type F = N<7>;

/// The result was recorded, with the sizes its type says.
fn agrees<S: Shape, K: Kind>(what: &str, result: &Tensor<S, K>) {
    if let Some(error) = result.error() {
        panic!("{what}: {error}");
    }
    let typed: Vec<Option<usize>> = S::DIMS
        .iter()
        .map(|dim| match dim {
            DimSpec::Static(size) => Some(*size),
            DimSpec::Named(_) | DimSpec::Open => None,
        })
        .collect();
    let recorded: Vec<usize> = result.sizes();
    assert_eq!(typed.len(), recorded.len(), "{what}: {typed:?} {recorded:?}");
    assert!(
        typed.iter().zip(&recorded).all(|(t, r)| t.is_none_or(|t| t == *r)),
        "{what}: {typed:?} {recorded:?}"
    );
}

fn broadcasts<L: StaticShape + Broadcast<R>, R: StaticShape>() {
    agrees("add", &(Tensor::<L>::zeros() + Tensor::<R>::zeros()));
    agrees("lt", &Tensor::<L>::zeros().lt(Tensor::<R>::zeros()));
}

fn multiplies<L: StaticShape + MatMul<R>, R: StaticShape>() {
    agrees("matmul", &Tensor::<L>::zeros().matmul(&Tensor::<R>::zeros()));
}

fn has_last<S: StaticShape + HasLast + Project<F, C> + Append<B>>() {
    let x = Tensor::<S>::zeros();
    agrees("sum_last", &x.sum_last());
    agrees("argmax_last", &x.argmax_last());
    let layer: Linear<F, C> = Linear::new();
    agrees("linear", &layer.forward(&x));
    agrees("one_hot", &x.int().one_hot::<B>());
    agrees("embedding", &Tensor::<(A, B)>::zeros().embedding(&x.int()));
}

fn has_axis<S, const X: usize>()
where
    S: StaticShape + Axis<X> + SetAxis<X, One> + SetAxis<X, Dyn> + SetAxis<X, N<9>>,
{
    let x = Tensor::<S>::zeros();
    agrees("sum_axis", &x.sum_axis::<X>());
    agrees("max_keep", &x.max_keep::<X>());
    agrees("mean_axis", &x.mean_axis::<X>());
    agrees("argmax_axis", &x.argmax_axis::<X>());
    agrees("softmax", &x.softmax::<X>());
    agrees("slice_axis", &x.slice_axis::<X>(0..1));
    agrees("select", &x.select::<X>(-1));
    agrees("cat", &cat::<X, _, _>([&x, &x]));
    agrees("index_select", &x.index_select::<X, N<9>>(&Tensor::zeros()));
}

fn swaps<S: StaticShape + SwapAxes<X, Y>, const X: usize, const Y: usize>() {
    agrees("transpose", &Tensor::<S>::zeros().transpose::<X, Y>());
}

fn transposes<S: StaticShape + SwapLast>() {
    agrees("t", &Tensor::<S>::zeros().t());
}

fn inserts<S: StaticShape + InsertAxis<X, One> + InsertAxis<X, Dyn>, const X: usize>() {
    let x = Tensor::<S>::zeros();
    agrees("unsqueeze", &x.unsqueeze::<X>());
    agrees("stack", &stack::<X, _, _>([&x, &x]));
}

#[test]
fn broadcasting_of_every_pair_of_ranks() {
    run(|| {
        broadcasts::<(), ()>();
        broadcasts::<(), (F,)>();
        broadcasts::<(), (E, F)>();
        broadcasts::<(), (D, E, F)>();
        broadcasts::<(), (C, D, E, F)>();
        broadcasts::<(), (B, C, D, E, F)>();
        broadcasts::<(), (A, B, C, D, E, F)>();
        broadcasts::<(F,), ()>();
        broadcasts::<(F,), (F,)>();
        broadcasts::<(One,), (F,)>();
        broadcasts::<(F,), (E, F)>();
        broadcasts::<(One,), (E, F)>();
        broadcasts::<(F,), (D, E, F)>();
        broadcasts::<(One,), (One, E, F)>();
        broadcasts::<(F,), (C, D, E, F)>();
        broadcasts::<(One,), (C, One, E, F)>();
        broadcasts::<(F,), (B, C, D, E, F)>();
        broadcasts::<(One,), (B, C, One, E, F)>();
        broadcasts::<(F,), (A, B, C, D, E, F)>();
        broadcasts::<(One,), (One, B, C, One, E, F)>();
        broadcasts::<(E, F), ()>();
        broadcasts::<(E, F), (F,)>();
        broadcasts::<(One, F), (F,)>();
        broadcasts::<(E, F), (E, F)>();
        broadcasts::<(One, F), (E, F)>();
        broadcasts::<(E, F), (D, E, F)>();
        broadcasts::<(One, F), (One, E, F)>();
        broadcasts::<(E, F), (C, D, E, F)>();
        broadcasts::<(One, F), (C, One, E, F)>();
        broadcasts::<(E, F), (B, C, D, E, F)>();
        broadcasts::<(One, F), (B, C, One, E, F)>();
        broadcasts::<(E, F), (A, B, C, D, E, F)>();
        broadcasts::<(One, F), (One, B, C, One, E, F)>();
        broadcasts::<(D, E, F), ()>();
        broadcasts::<(D, E, F), (F,)>();
        broadcasts::<(One, E, One), (F,)>();
        broadcasts::<(D, E, F), (E, F)>();
        broadcasts::<(One, E, One), (E, F)>();
        broadcasts::<(D, E, F), (D, E, F)>();
        broadcasts::<(One, E, One), (One, E, F)>();
        broadcasts::<(D, E, F), (C, D, E, F)>();
        broadcasts::<(One, E, One), (C, One, E, F)>();
        broadcasts::<(D, E, F), (B, C, D, E, F)>();
        broadcasts::<(One, E, One), (B, C, One, E, F)>();
        broadcasts::<(D, E, F), (A, B, C, D, E, F)>();
        broadcasts::<(One, E, One), (One, B, C, One, E, F)>();
        broadcasts::<(C, D, E, F), ()>();
        broadcasts::<(C, D, E, F), (F,)>();
        broadcasts::<(One, D, One, F), (F,)>();
        broadcasts::<(C, D, E, F), (E, F)>();
        broadcasts::<(One, D, One, F), (E, F)>();
        broadcasts::<(C, D, E, F), (D, E, F)>();
        broadcasts::<(One, D, One, F), (One, E, F)>();
        broadcasts::<(C, D, E, F), (C, D, E, F)>();
        broadcasts::<(One, D, One, F), (C, One, E, F)>();
        broadcasts::<(C, D, E, F), (B, C, D, E, F)>();
        broadcasts::<(One, D, One, F), (B, C, One, E, F)>();
        broadcasts::<(C, D, E, F), (A, B, C, D, E, F)>();
        broadcasts::<(One, D, One, F), (One, B, C, One, E, F)>();
        broadcasts::<(B, C, D, E, F), ()>();
        broadcasts::<(B, C, D, E, F), (F,)>();
        broadcasts::<(One, C, One, E, One), (F,)>();
        broadcasts::<(B, C, D, E, F), (E, F)>();
        broadcasts::<(One, C, One, E, One), (E, F)>();
        broadcasts::<(B, C, D, E, F), (D, E, F)>();
        broadcasts::<(One, C, One, E, One), (One, E, F)>();
        broadcasts::<(B, C, D, E, F), (C, D, E, F)>();
        broadcasts::<(One, C, One, E, One), (C, One, E, F)>();
        broadcasts::<(B, C, D, E, F), (B, C, D, E, F)>();
        broadcasts::<(One, C, One, E, One), (B, C, One, E, F)>();
        broadcasts::<(B, C, D, E, F), (A, B, C, D, E, F)>();
        broadcasts::<(One, C, One, E, One), (One, B, C, One, E, F)>();
        broadcasts::<(A, B, C, D, E, F), ()>();
        broadcasts::<(A, B, C, D, E, F), (F,)>();
        broadcasts::<(One, B, One, D, One, F), (F,)>();
        broadcasts::<(A, B, C, D, E, F), (E, F)>();
        broadcasts::<(One, B, One, D, One, F), (E, F)>();
        broadcasts::<(A, B, C, D, E, F), (D, E, F)>();
        broadcasts::<(One, B, One, D, One, F), (One, E, F)>();
        broadcasts::<(A, B, C, D, E, F), (C, D, E, F)>();
        broadcasts::<(One, B, One, D, One, F), (C, One, E, F)>();
        broadcasts::<(A, B, C, D, E, F), (B, C, D, E, F)>();
        broadcasts::<(One, B, One, D, One, F), (B, C, One, E, F)>();
        broadcasts::<(A, B, C, D, E, F), (A, B, C, D, E, F)>();
        broadcasts::<(One, B, One, D, One, F), (One, B, C, One, E, F)>();
    });
}

#[test]
fn products_of_every_pair_of_ranks() {
    run(|| {
        multiplies::<(E,), (E,)>();
        multiplies::<(E,), (E, F)>();
        multiplies::<(D, E), (E,)>();
        multiplies::<(D, E), (E, F)>();
        multiplies::<(D, D, E), (E,)>();
        multiplies::<(E,), (D, E, F)>();
        multiplies::<(D, D, E), (E, F)>();
        multiplies::<(D, E), (D, E, F)>();
        multiplies::<(D, D, E), (D, E, F)>();
        multiplies::<(One, D, E), (D, E, F)>();
        multiplies::<(C, D, D, E), (E,)>();
        multiplies::<(E,), (C, D, E, F)>();
        multiplies::<(C, D, D, E), (E, F)>();
        multiplies::<(D, E), (C, D, E, F)>();
        multiplies::<(C, D, D, E), (C, D, E, F)>();
        multiplies::<(One, One, D, E), (C, D, E, F)>();
        multiplies::<(B, C, D, D, E), (E,)>();
        multiplies::<(E,), (B, C, D, E, F)>();
        multiplies::<(B, C, D, D, E), (E, F)>();
        multiplies::<(D, E), (B, C, D, E, F)>();
        multiplies::<(B, C, D, D, E), (B, C, D, E, F)>();
        multiplies::<(One, One, One, D, E), (B, C, D, E, F)>();
        multiplies::<(A, B, C, D, D, E), (E,)>();
        multiplies::<(E,), (A, B, C, D, E, F)>();
        multiplies::<(A, B, C, D, D, E), (E, F)>();
        multiplies::<(D, E), (A, B, C, D, E, F)>();
        multiplies::<(A, B, C, D, D, E), (A, B, C, D, E, F)>();
        multiplies::<(One, One, One, One, D, E), (A, B, C, D, E, F)>();
    });
}

#[test]
fn axes_of_every_rank() {
    run(|| {
        has_axis::<(F,), 0>();
        has_axis::<(E, F), 0>();
        has_axis::<(E, F), 1>();
        has_axis::<(D, E, F), 0>();
        has_axis::<(D, E, F), 1>();
        has_axis::<(D, E, F), 2>();
        has_axis::<(C, D, E, F), 0>();
        has_axis::<(C, D, E, F), 1>();
        has_axis::<(C, D, E, F), 2>();
        has_axis::<(C, D, E, F), 3>();
        has_axis::<(B, C, D, E, F), 0>();
        has_axis::<(B, C, D, E, F), 1>();
        has_axis::<(B, C, D, E, F), 2>();
        has_axis::<(B, C, D, E, F), 3>();
        has_axis::<(B, C, D, E, F), 4>();
        has_axis::<(A, B, C, D, E, F), 0>();
        has_axis::<(A, B, C, D, E, F), 1>();
        has_axis::<(A, B, C, D, E, F), 2>();
        has_axis::<(A, B, C, D, E, F), 3>();
        has_axis::<(A, B, C, D, E, F), 4>();
        has_axis::<(A, B, C, D, E, F), 5>();
        has_last::<(F,)>();
        has_last::<(E, F)>();
        has_last::<(D, E, F)>();
        has_last::<(C, D, E, F)>();
        has_last::<(B, C, D, E, F)>();
    });
}

#[test]
fn swaps_and_new_axes_of_every_rank() {
    run(|| {
        swaps::<(F,), 0, 0>();
        swaps::<(E, F), 0, 0>();
        swaps::<(E, F), 0, 1>();
        swaps::<(E, F), 1, 0>();
        swaps::<(E, F), 1, 1>();
        swaps::<(D, E, F), 0, 0>();
        swaps::<(D, E, F), 0, 1>();
        swaps::<(D, E, F), 0, 2>();
        swaps::<(D, E, F), 1, 0>();
        swaps::<(D, E, F), 1, 1>();
        swaps::<(D, E, F), 1, 2>();
        swaps::<(D, E, F), 2, 0>();
        swaps::<(D, E, F), 2, 1>();
        swaps::<(D, E, F), 2, 2>();
        swaps::<(C, D, E, F), 0, 0>();
        swaps::<(C, D, E, F), 0, 1>();
        swaps::<(C, D, E, F), 0, 2>();
        swaps::<(C, D, E, F), 0, 3>();
        swaps::<(C, D, E, F), 1, 0>();
        swaps::<(C, D, E, F), 1, 1>();
        swaps::<(C, D, E, F), 1, 2>();
        swaps::<(C, D, E, F), 1, 3>();
        swaps::<(C, D, E, F), 2, 0>();
        swaps::<(C, D, E, F), 2, 1>();
        swaps::<(C, D, E, F), 2, 2>();
        swaps::<(C, D, E, F), 2, 3>();
        swaps::<(C, D, E, F), 3, 0>();
        swaps::<(C, D, E, F), 3, 1>();
        swaps::<(C, D, E, F), 3, 2>();
        swaps::<(C, D, E, F), 3, 3>();
        swaps::<(B, C, D, E, F), 0, 0>();
        swaps::<(B, C, D, E, F), 0, 1>();
        swaps::<(B, C, D, E, F), 0, 2>();
        swaps::<(B, C, D, E, F), 0, 3>();
        swaps::<(B, C, D, E, F), 0, 4>();
        swaps::<(B, C, D, E, F), 1, 0>();
        swaps::<(B, C, D, E, F), 1, 1>();
        swaps::<(B, C, D, E, F), 1, 2>();
        swaps::<(B, C, D, E, F), 1, 3>();
        swaps::<(B, C, D, E, F), 1, 4>();
        swaps::<(B, C, D, E, F), 2, 0>();
        swaps::<(B, C, D, E, F), 2, 1>();
        swaps::<(B, C, D, E, F), 2, 2>();
        swaps::<(B, C, D, E, F), 2, 3>();
        swaps::<(B, C, D, E, F), 2, 4>();
        swaps::<(B, C, D, E, F), 3, 0>();
        swaps::<(B, C, D, E, F), 3, 1>();
        swaps::<(B, C, D, E, F), 3, 2>();
        swaps::<(B, C, D, E, F), 3, 3>();
        swaps::<(B, C, D, E, F), 3, 4>();
        swaps::<(B, C, D, E, F), 4, 0>();
        swaps::<(B, C, D, E, F), 4, 1>();
        swaps::<(B, C, D, E, F), 4, 2>();
        swaps::<(B, C, D, E, F), 4, 3>();
        swaps::<(B, C, D, E, F), 4, 4>();
        swaps::<(A, B, C, D, E, F), 0, 0>();
        swaps::<(A, B, C, D, E, F), 0, 1>();
        swaps::<(A, B, C, D, E, F), 0, 2>();
        swaps::<(A, B, C, D, E, F), 0, 3>();
        swaps::<(A, B, C, D, E, F), 0, 4>();
        swaps::<(A, B, C, D, E, F), 0, 5>();
        swaps::<(A, B, C, D, E, F), 1, 0>();
        swaps::<(A, B, C, D, E, F), 1, 1>();
        swaps::<(A, B, C, D, E, F), 1, 2>();
        swaps::<(A, B, C, D, E, F), 1, 3>();
        swaps::<(A, B, C, D, E, F), 1, 4>();
        swaps::<(A, B, C, D, E, F), 1, 5>();
        swaps::<(A, B, C, D, E, F), 2, 0>();
        swaps::<(A, B, C, D, E, F), 2, 1>();
        swaps::<(A, B, C, D, E, F), 2, 2>();
        swaps::<(A, B, C, D, E, F), 2, 3>();
        swaps::<(A, B, C, D, E, F), 2, 4>();
        swaps::<(A, B, C, D, E, F), 2, 5>();
        swaps::<(A, B, C, D, E, F), 3, 0>();
        swaps::<(A, B, C, D, E, F), 3, 1>();
        swaps::<(A, B, C, D, E, F), 3, 2>();
        swaps::<(A, B, C, D, E, F), 3, 3>();
        swaps::<(A, B, C, D, E, F), 3, 4>();
        swaps::<(A, B, C, D, E, F), 3, 5>();
        swaps::<(A, B, C, D, E, F), 4, 0>();
        swaps::<(A, B, C, D, E, F), 4, 1>();
        swaps::<(A, B, C, D, E, F), 4, 2>();
        swaps::<(A, B, C, D, E, F), 4, 3>();
        swaps::<(A, B, C, D, E, F), 4, 4>();
        swaps::<(A, B, C, D, E, F), 4, 5>();
        swaps::<(A, B, C, D, E, F), 5, 0>();
        swaps::<(A, B, C, D, E, F), 5, 1>();
        swaps::<(A, B, C, D, E, F), 5, 2>();
        swaps::<(A, B, C, D, E, F), 5, 3>();
        swaps::<(A, B, C, D, E, F), 5, 4>();
        swaps::<(A, B, C, D, E, F), 5, 5>();
        transposes::<(E, F)>();
        transposes::<(D, E, F)>();
        transposes::<(C, D, E, F)>();
        transposes::<(B, C, D, E, F)>();
        transposes::<(A, B, C, D, E, F)>();
        inserts::<(), 0>();
        inserts::<(F,), 0>();
        inserts::<(F,), 1>();
        inserts::<(E, F), 0>();
        inserts::<(E, F), 1>();
        inserts::<(E, F), 2>();
        inserts::<(D, E, F), 0>();
        inserts::<(D, E, F), 1>();
        inserts::<(D, E, F), 2>();
        inserts::<(D, E, F), 3>();
        inserts::<(C, D, E, F), 0>();
        inserts::<(C, D, E, F), 1>();
        inserts::<(C, D, E, F), 2>();
        inserts::<(C, D, E, F), 3>();
        inserts::<(C, D, E, F), 4>();
        inserts::<(B, C, D, E, F), 0>();
        inserts::<(B, C, D, E, F), 1>();
        inserts::<(B, C, D, E, F), 2>();
        inserts::<(B, C, D, E, F), 3>();
        inserts::<(B, C, D, E, F), 4>();
        inserts::<(B, C, D, E, F), 5>();
    });
}
