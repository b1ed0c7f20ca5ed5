//! A fold has the same bits however its operand lies in memory and whatever is kept beside it.

use gt_ir::DType;

use super::host::{Host, Names};
use crate::{
    cuda::source::{Source, kernel},
    kernel::{Access, Binary, Cut, Expr, ExprId, FoldOrder, KernelSpec, Loop, Node, Store, cut},
};

/// What is folded: extents in logical order, and whether each is.
type Dims = &'static [(usize, bool)];

const FOLDS: &[(Dims, FoldOrder)] = &[
    (&[(37, false), (3, true)], FoldOrder::Rows),
    (&[(40, false), (24, true)], FoldOrder::Rows),
    (&[(33, false), (131, true)], FoldOrder::Rows),
    (&[(70, false), (768, true)], FoldOrder::Rows),
    (&[(35, false), (1500, true)], FoldOrder::Rows),
    (&[(2, false), (40_000, true)], FoldOrder::Rows),
    (&[(36, false), (5, true), (12, true)], FoldOrder::Rows),
    (&[(4, true), (33, false), (50, true)], FoldOrder::Rows),
    (&[(100, true), (48, false)], FoldOrder::Columns),
    (&[(9, true), (30, true), (40, false)], FoldOrder::Columns),
    (&[(3000, true), (33, false)], FoldOrder::Columns),
    (&[(3, true), (2, false), (1000, true), (34, false)], FoldOrder::Columns),
];

/// One fold in one layout.
struct Layout {
    /// The dims in the order they lie in memory, outermost first.
    order: Vec<usize>,
    source: Source,
    access: Access,
    loops: Vec<Loop>,
    /// Partial results of a result, and results.
    rows: (usize, usize),
}

/// Dims in the order of the loops.
fn in_loops(dims: Dims) -> Vec<usize> {
    let kept = (0..dims.len()).filter(|&d| !dims[d].1);
    kept.chain((0..dims.len()).filter(|&d| dims[d].1)).collect()
}

fn layout(dims: Dims, of: FoldOrder, op: Binary, order: Vec<usize>, name: String) -> Layout {
    let at = in_loops(dims);
    let loops: Vec<Loop> = at
        .iter()
        .map(|&d| Loop {
            extent: dims[d].0,
            reduce: dims[d].1,
            joined: dims[d].1 && d > 0 && dims[d - 1].1,
        })
        .collect();
    let mut strides = vec![0; dims.len()];
    let mut step = 1;
    for &d in order.iter().rev() {
        strides[d] = step;
        step *= dims[d].0 as i64;
    }
    let access = Access { offset: 0, strides: at.iter().map(|&d| strides[d]).collect() };
    let mut to: Vec<i64> = vec![0; dims.len()];
    let mut step = 1;
    for l in (0..loops.len()).rev().filter(|&l| !loops[l].reduce) {
        to[l] = step;
        step *= loops[l].extent as i64;
    }
    let spec = KernelSpec {
        loops: loops.iter().copied().collect(),
        fold_order: of,
        buffers: vec![DType::F32; 2],
        nodes: vec![Node {
            expr: Expr::Load { buffer: 0, access: access.clone() },
            dtype: DType::F32,
        }],
        stores: vec![Store {
            buffer: 1,
            access: Access { offset: 0, strides: to.iter().copied().collect() },
            value: ExprId(0),
            fold: Some(op),
        }],
        ..KernelSpec::default()
    };
    let cut: Option<Cut> = cut(&spec.reduced_extents(), of);
    let rows = (cut.map_or(1, |c| c.n_chunks), spec.parallel_len());
    Layout { order, source: kernel(&name, &spec, cut), access, loops, rows }
}

/// All orders of some dims.
fn orders(n: usize) -> Vec<Vec<usize>> {
    let mut out = vec![vec![]];
    for d in 0..n {
        out = out
            .iter()
            .flat_map(|order: &Vec<usize>| {
                (0..=order.len()).map(move |i| [&order[..i], &[d], &order[i..]].concat())
            })
            .collect();
    }
    out
}

/// An element by its place in the logical order of the loops.
fn element(i: usize) -> f32 {
    ((i * 7919 + 13) % 10_007) as f32 / 313.0 - 14.5
}

impl Layout {
    fn run(&self, host: &Host) -> Vec<u32> {
        let n: usize = self.loops.iter().map(|l| l.extent).product();
        // Sixteen bytes are what vectors of the host want.
        let mut words = vec![0u128; n.div_ceil(4)];
        let x: &mut [f32] = bytemuck::cast_slice_mut(&mut words);
        for i in 0..n {
            let (mut rest, mut at) = (i, 0);
            for (l, stride) in self.loops.iter().zip(&self.access.strides).rev() {
                at += (rest % l.extent) as i64 * stride;
                rest /= l.extent;
            }
            x[at as usize] = element(i);
        }
        let out = vec![0u128; (self.rows.0 * self.rows.1).div_ceil(4)];
        let (scalars, error) = ([0u64], [0u64; 2]);
        let args = [words.as_ptr() as u64, out.as_ptr() as u64];
        host.launch(
            &self.source,
            &[&args[..], &[scalars.as_ptr() as u64, error.as_ptr() as u64]].concat(),
        );
        bytemuck::cast_slice(&out)[..self.rows.0 * self.rows.1].to_vec()
    }

    /// The sum of one result in `f64`.
    fn want(&self, result: usize) -> f64 {
        let n: usize = self.loops.iter().filter(|l| l.reduce).map(|l| l.extent).product();
        (0..n).map(|r| f64::from(element(result * n + r))).sum()
    }
}

#[test]
fn layouts_change_no_bit() {
    let mut names = Names::of("fold");
    let all: Vec<Vec<Layout>> = FOLDS
        .iter()
        .map(|(dims, of)| {
            let orders = orders(dims.len()).into_iter();
            orders.map(|o| layout(dims, *of, Binary::Add, o, names.fresh())).collect()
        })
        .collect();
    let sources: Vec<Source> = all.iter().flatten().map(|l| l.source.clone()).collect();
    let host = Host::new("order", &sources);
    for (layouts, (dims, _)) in all.iter().zip(FOLDS) {
        let first = layouts[0].run(&host);
        for layout in layouts {
            assert_eq!(first, layout.run(&host), "{dims:?} {:?}", layout.order);
        }
        let (n_pieces, n) = layouts[0].rows;
        for result in 0..n {
            let pieces = (0..n_pieces).map(|p| f64::from(f32::from_bits(first[p * n + result])));
            let (got, want) = (pieces.sum::<f64>(), layouts[0].want(result));
            assert!((got - want).abs() < 0.02, "{dims:?}: {got} and {want}");
        }
    }
}

/// What is kept beside a result changes nothing of it.
#[test]
fn neighbors_change_no_bit() {
    let dims: [Dims; 3] =
        [&[(1, false), (5000, true)], &[(3, false), (5000, true)], &[(300, false), (5000, true)]];
    let mut names = Names::of("beside");
    let layouts = dims.map(|d| layout(d, FoldOrder::Rows, Binary::Add, vec![0, 1], names.fresh()));
    let host = Host::new("beside", &layouts.each_ref().map(|l| l.source.clone()));
    let results = layouts.each_ref().map(|l| l.run(&host)[0]);
    assert_eq!([results[0]; 3], results);
}
