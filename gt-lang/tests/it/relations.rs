//! The relations of shapes against the dynamic operations: for every pair of ranks, the type of a
//! result says what was recorded.

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
    let places: T![9; Int] = Tensor::zeros();
    let slices = x.index_select::<X, N<9>>(&places);
    agrees("index_select", &slices);
    agrees("index_add", &x.index_add::<X, _>(&places, &slices));
    agrees("index_copy", &x.index_copy::<X, _>(&places, &slices));
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

/// One call for each list of types and axes.
macro_rules! all {
    ($check:ident: $($($arg:tt),+;)*) => { $($check::<$($arg),+>();)* };
}

#[test]
fn broadcasting_of_every_pair_of_ranks() {
    run(|| {
        all! { broadcasts:
            (), (); (), (F,); (), (E, F); (), (D, E, F); (), (C, D, E, F); (), (B, C, D, E, F);
            (), (A, B, C, D, E, F); (F,), (); (F,), (F,); (One,), (F,); (F,), (E, F);
            (One,), (E, F); (F,), (D, E, F); (One,), (One, E, F); (F,), (C, D, E, F);
            (One,), (C, One, E, F); (F,), (B, C, D, E, F); (One,), (B, C, One, E, F);
            (F,), (A, B, C, D, E, F); (One,), (One, B, C, One, E, F); (E, F), (); (E, F), (F,);
            (One, F), (F,); (E, F), (E, F); (One, F), (E, F); (E, F), (D, E, F);
            (One, F), (One, E, F); (E, F), (C, D, E, F); (One, F), (C, One, E, F);
            (E, F), (B, C, D, E, F); (One, F), (B, C, One, E, F); (E, F), (A, B, C, D, E, F);
            (One, F), (One, B, C, One, E, F); (D, E, F), (); (D, E, F), (F,); (One, E, One), (F,);
            (D, E, F), (E, F); (One, E, One), (E, F); (D, E, F), (D, E, F);
            (One, E, One), (One, E, F); (D, E, F), (C, D, E, F); (One, E, One), (C, One, E, F);
            (D, E, F), (B, C, D, E, F); (One, E, One), (B, C, One, E, F);
            (D, E, F), (A, B, C, D, E, F); (One, E, One), (One, B, C, One, E, F); (C, D, E, F), ();
            (C, D, E, F), (F,); (One, D, One, F), (F,); (C, D, E, F), (E, F);
            (One, D, One, F), (E, F); (C, D, E, F), (D, E, F); (One, D, One, F), (One, E, F);
            (C, D, E, F), (C, D, E, F); (One, D, One, F), (C, One, E, F);
            (C, D, E, F), (B, C, D, E, F); (One, D, One, F), (B, C, One, E, F);
            (C, D, E, F), (A, B, C, D, E, F); (One, D, One, F), (One, B, C, One, E, F);
            (B, C, D, E, F), (); (B, C, D, E, F), (F,); (One, C, One, E, One), (F,);
            (B, C, D, E, F), (E, F); (One, C, One, E, One), (E, F); (B, C, D, E, F), (D, E, F);
            (One, C, One, E, One), (One, E, F); (B, C, D, E, F), (C, D, E, F);
            (One, C, One, E, One), (C, One, E, F); (B, C, D, E, F), (B, C, D, E, F);
            (One, C, One, E, One), (B, C, One, E, F); (B, C, D, E, F), (A, B, C, D, E, F);
            (One, C, One, E, One), (One, B, C, One, E, F); (A, B, C, D, E, F), ();
            (A, B, C, D, E, F), (F,); (One, B, One, D, One, F), (F,); (A, B, C, D, E, F), (E, F);
            (One, B, One, D, One, F), (E, F); (A, B, C, D, E, F), (D, E, F);
            (One, B, One, D, One, F), (One, E, F); (A, B, C, D, E, F), (C, D, E, F);
            (One, B, One, D, One, F), (C, One, E, F); (A, B, C, D, E, F), (B, C, D, E, F);
            (One, B, One, D, One, F), (B, C, One, E, F); (A, B, C, D, E, F), (A, B, C, D, E, F);
            (One, B, One, D, One, F), (One, B, C, One, E, F);
        }
    });
}

#[test]
fn products_of_every_pair_of_ranks() {
    run(|| {
        all! { multiplies:
            (E,), (E,); (E,), (E, F); (D, E), (E,); (D, E), (E, F); (D, D, E), (E,);
            (E,), (D, E, F); (D, D, E), (E, F); (D, E), (D, E, F); (D, D, E), (D, E, F);
            (One, D, E), (D, E, F); (C, D, D, E), (E,); (E,), (C, D, E, F); (C, D, D, E), (E, F);
            (D, E), (C, D, E, F); (C, D, D, E), (C, D, E, F); (One, One, D, E), (C, D, E, F);
            (B, C, D, D, E), (E,); (E,), (B, C, D, E, F); (B, C, D, D, E), (E, F);
            (D, E), (B, C, D, E, F); (B, C, D, D, E), (B, C, D, E, F);
            (One, One, One, D, E), (B, C, D, E, F); (A, B, C, D, D, E), (E,);
            (E,), (A, B, C, D, E, F); (A, B, C, D, D, E), (E, F); (D, E), (A, B, C, D, E, F);
            (A, B, C, D, D, E), (A, B, C, D, E, F); (One, One, One, One, D, E), (A, B, C, D, E, F);
        }
    });
}

#[test]
fn axes_of_every_rank() {
    run(|| {
        all! { has_axis:
            (F,), 0; (E, F), 0; (E, F), 1; (D, E, F), 0; (D, E, F), 1; (D, E, F), 2;
            (C, D, E, F), 0; (C, D, E, F), 1; (C, D, E, F), 2; (C, D, E, F), 3; (B, C, D, E, F), 0;
            (B, C, D, E, F), 1; (B, C, D, E, F), 2; (B, C, D, E, F), 3; (B, C, D, E, F), 4;
            (A, B, C, D, E, F), 0; (A, B, C, D, E, F), 1; (A, B, C, D, E, F), 2;
            (A, B, C, D, E, F), 3; (A, B, C, D, E, F), 4; (A, B, C, D, E, F), 5;
        }
        all! { has_last:
            (F,); (E, F); (D, E, F); (C, D, E, F); (B, C, D, E, F);
        }
    });
}

#[test]
fn swaps_and_new_axes_of_every_rank() {
    run(|| {
        all! { swaps:
            (F,), 0, 0; (E, F), 0, 0; (E, F), 0, 1; (E, F), 1, 0; (E, F), 1, 1; (D, E, F), 0, 0;
            (D, E, F), 0, 1; (D, E, F), 0, 2; (D, E, F), 1, 0; (D, E, F), 1, 1; (D, E, F), 1, 2;
            (D, E, F), 2, 0; (D, E, F), 2, 1; (D, E, F), 2, 2; (C, D, E, F), 0, 0;
            (C, D, E, F), 0, 1; (C, D, E, F), 0, 2; (C, D, E, F), 0, 3; (C, D, E, F), 1, 0;
            (C, D, E, F), 1, 1; (C, D, E, F), 1, 2; (C, D, E, F), 1, 3; (C, D, E, F), 2, 0;
            (C, D, E, F), 2, 1; (C, D, E, F), 2, 2; (C, D, E, F), 2, 3; (C, D, E, F), 3, 0;
            (C, D, E, F), 3, 1; (C, D, E, F), 3, 2; (C, D, E, F), 3, 3; (B, C, D, E, F), 0, 0;
            (B, C, D, E, F), 0, 1; (B, C, D, E, F), 0, 2; (B, C, D, E, F), 0, 3;
            (B, C, D, E, F), 0, 4; (B, C, D, E, F), 1, 0; (B, C, D, E, F), 1, 1;
            (B, C, D, E, F), 1, 2; (B, C, D, E, F), 1, 3; (B, C, D, E, F), 1, 4;
            (B, C, D, E, F), 2, 0; (B, C, D, E, F), 2, 1; (B, C, D, E, F), 2, 2;
            (B, C, D, E, F), 2, 3; (B, C, D, E, F), 2, 4; (B, C, D, E, F), 3, 0;
            (B, C, D, E, F), 3, 1; (B, C, D, E, F), 3, 2; (B, C, D, E, F), 3, 3;
            (B, C, D, E, F), 3, 4; (B, C, D, E, F), 4, 0; (B, C, D, E, F), 4, 1;
            (B, C, D, E, F), 4, 2; (B, C, D, E, F), 4, 3; (B, C, D, E, F), 4, 4;
            (A, B, C, D, E, F), 0, 0; (A, B, C, D, E, F), 0, 1; (A, B, C, D, E, F), 0, 2;
            (A, B, C, D, E, F), 0, 3; (A, B, C, D, E, F), 0, 4; (A, B, C, D, E, F), 0, 5;
            (A, B, C, D, E, F), 1, 0; (A, B, C, D, E, F), 1, 1; (A, B, C, D, E, F), 1, 2;
            (A, B, C, D, E, F), 1, 3; (A, B, C, D, E, F), 1, 4; (A, B, C, D, E, F), 1, 5;
            (A, B, C, D, E, F), 2, 0; (A, B, C, D, E, F), 2, 1; (A, B, C, D, E, F), 2, 2;
            (A, B, C, D, E, F), 2, 3; (A, B, C, D, E, F), 2, 4; (A, B, C, D, E, F), 2, 5;
            (A, B, C, D, E, F), 3, 0; (A, B, C, D, E, F), 3, 1; (A, B, C, D, E, F), 3, 2;
            (A, B, C, D, E, F), 3, 3; (A, B, C, D, E, F), 3, 4; (A, B, C, D, E, F), 3, 5;
            (A, B, C, D, E, F), 4, 0; (A, B, C, D, E, F), 4, 1; (A, B, C, D, E, F), 4, 2;
            (A, B, C, D, E, F), 4, 3; (A, B, C, D, E, F), 4, 4; (A, B, C, D, E, F), 4, 5;
            (A, B, C, D, E, F), 5, 0; (A, B, C, D, E, F), 5, 1; (A, B, C, D, E, F), 5, 2;
            (A, B, C, D, E, F), 5, 3; (A, B, C, D, E, F), 5, 4; (A, B, C, D, E, F), 5, 5;
        }
        all! { transposes:
            (E, F); (D, E, F); (C, D, E, F); (B, C, D, E, F); (A, B, C, D, E, F);
        }
        all! { inserts:
            (), 0; (F,), 0; (F,), 1; (E, F), 0; (E, F), 1; (E, F), 2; (D, E, F), 0; (D, E, F), 1;
            (D, E, F), 2; (D, E, F), 3; (C, D, E, F), 0; (C, D, E, F), 1; (C, D, E, F), 2;
            (C, D, E, F), 3; (C, D, E, F), 4; (B, C, D, E, F), 0; (B, C, D, E, F), 1;
            (B, C, D, E, F), 2; (B, C, D, E, F), 3; (B, C, D, E, F), 4; (B, C, D, E, F), 5;
        }
    });
}
