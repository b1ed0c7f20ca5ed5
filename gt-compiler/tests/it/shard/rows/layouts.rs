//! The layouts that operands are tried in.

use std::sync::Arc;

use gt_compiler::shard::at;
use gt_ir::Type;
use gt_ir::layout::{Layout, Mesh, Spread};

fn mesh(sizes: &[usize]) -> Arc<Mesh> {
    let n: usize = sizes.iter().product();
    Arc::new(Mesh::new((0..n as u32).collect(), sizes).unwrap())
}

/// A dimension in so many parts; of odd numbers of elements the first part may have all.
fn split(ty: &Type, dim: usize, n: usize, uneven: bool) -> Spread {
    let size = ty.shape.sizes()[dim];
    let chunk = size.div_ceil(n) + usize::from(uneven && size > 1);
    Spread::Split { dim: dim as u8, chunk }
}

/// A value on a row of members, split along a dimension or whole.
pub(super) fn line(n: u32, dim: Option<usize>, ty: &Type) -> Layout {
    let whole = Layout::whole(mesh(&[n as usize]));
    match dim.filter(|dim| *dim < ty.shape.rank()) {
        Some(dim) => whole.with(0, split(ty, dim, n as usize, false)),
        None => whole,
    }
}

/// Numbers of members, with a layout for each operand.
pub(super) fn layouts(types: &[Type]) -> Vec<(u32, Vec<Layout>)> {
    let mut all = Vec::new();
    for n in [1, 2, 3, 4] {
        if n % 2 == 0 {
            all.extend(one_split(types, n));
        }
        all.extend(all_split(types, n));
    }
    all.extend(grids(types));
    all
}

/// One operand is split along one dimension; the others are whole, or on the last member.
fn one_split(types: &[Type], n: u32) -> Vec<(u32, Vec<Layout>)> {
    let mut found = Vec::new();
    for (i, ty) in types.iter().enumerate() {
        for dim in 0..ty.shape.rank() {
            let odd = (dim + n as usize) % 2 == 1;
            let layout = |(j, other): (usize, &Type)| match () {
                () if i == j => {
                    let whole = Layout::whole(mesh(&[n as usize]));
                    whole.with(0, split(ty, dim, n as usize, odd))
                }
                () if odd => at(n - 1),
                () => line(n, None, other),
            };
            found.push((n, types.iter().enumerate().map(layout).collect()));
        }
    }
    found
}

/// All operands are split along the same dimension, counted from the last or from the first.
fn all_split(types: &[Type], n: u32) -> Vec<(u32, Vec<Layout>)> {
    let most = types.iter().map(|ty| ty.shape.rank()).max().unwrap_or(0);
    let from_last = (0..most).map(|back| {
        let layout = |ty: &Type| line(n, ty.shape.rank().checked_sub(1 + back), ty);
        (n, types.iter().map(layout).collect())
    });
    let from_first =
        (0..most).map(|dim| (n, types.iter().map(|ty| line(n, Some(dim), ty)).collect()));
    let same = types.iter().all(|ty| ty.shape.rank() == most);
    from_last.chain(from_first.filter(|_| !same)).collect()
}

/// Operands on a grid of four members, split along two dimensions.
fn grids(types: &[Type]) -> Vec<(u32, Vec<Layout>)> {
    let grid = mesh(&[2, 2]);
    let mut found = Vec::new();
    for (first, second) in [(0, 1), (1, 0), (1, 2), (2, 0)] {
        let layout = |ty: &Type| {
            let mut layout = Layout::whole(Arc::clone(&grid));
            for (axis, back) in [first, second].into_iter().enumerate() {
                if let Some(dim) = ty.shape.rank().checked_sub(1 + back) {
                    layout = layout.with(axis, split(ty, dim, 2, axis == 1));
                }
            }
            layout
        };
        found.push((4, types.iter().map(layout).collect()));
    }
    found
}
