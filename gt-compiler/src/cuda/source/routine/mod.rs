//! The steps that are no loop nests: sorting, running sums and products, the gather family, random
//! numbers.
//!
//! Guarantees: as `native::routines` to the bit, but for normal numbers in `f64`, whose functions
//! are CUDA's; the order of adding is that of the indices, whoever adds. A kernel takes the
//! routine's inputs, then its result.

mod argsort;
mod gather;
mod random;
mod scan;
mod scatter;

use gt_ir::{Op, Shape};

use super::{
    Source,
    text::{Frame, Parameter, Text},
};
use crate::schedule::Routine;

/// Threads of a block.
const BLOCK: usize = 256;

/// The kernels of a routine, to be launched one after the other with the same arguments.
#[expect(clippy::wildcard_enum_match_arm, reason = "the text of any other op does not compile")]
pub(super) fn write(name: &str, routine: &Routine) -> Vec<Source> {
    if let Op::IndexSelect(axis) | Op::IndexAdd(axis) | Op::ScatterAdd(axis) = routine.op
        && routine.out_ty.shape.numel() == 0
    {
        return vec![check(name, routine, usize::from(axis.0))];
    }
    match routine.op {
        Op::ArgSort(order) => argsort::write(name, routine, order),
        Op::CumSum(axis) => scan::sums(name, routine, usize::from(axis.0)),
        Op::CumProd(axis) => scan::products(name, routine, usize::from(axis.0)),
        Op::Gather(axis) => vec![gather::gather(name, routine, usize::from(axis.0))],
        Op::IndexSelect(axis) => vec![gather::index_select(name, routine, usize::from(axis.0))],
        Op::ScatterAdd(axis) => scatter::scatter_add(name, routine, usize::from(axis.0)),
        Op::IndexAdd(axis) => scatter::index_add(name, routine, usize::from(axis.0)),
        Op::Rand(_) | Op::Randn(_) | Op::Randint(_) => vec![random::write(name, routine)],
        // As for operations of expressions: the text does not compile.
        _ => vec![frame(name, routine, &[], 1).source(|text| {
            text.line(format!("no_routine_{}();", routine.op.name()));
        })],
    }
}

/// Looks at the indices of a routine that has nothing else to do.
fn check(name: &str, routine: &Routine, axis: usize) -> Source {
    let n = routine.inputs[1].1.shape.numel();
    let size = routine.inputs[0].1.shape.sizes()[axis];
    frame(name, routine, &["x", "index", "src"], n).source(|text| {
        Index::up_to(n).declare(text, n);
        text.line(format!("checked(index[i], {size}, error);"));
    })
}

/// An array as rows of `axis` slices of `inner` elements.
#[derive(Clone, Copy)]
struct Slices {
    outer: usize,
    axis: usize,
    inner: usize,
}

impl Slices {
    fn new(shape: &Shape, axis: usize) -> Slices {
        let sizes = shape.sizes();
        Slices {
            outer: sizes[..axis].iter().product(),
            axis: sizes[axis],
            inner: sizes[axis + 1..].iter().product(),
        }
    }
}

/// The type of indices up to a bound, and numbers in it.
#[derive(Clone, Copy)]
struct Index {
    wide: bool,
}

impl Index {
    fn up_to(bound: usize) -> Index {
        Index { wide: bound as u64 >= 1 << 31 }
    }

    fn ty(self) -> &'static str {
        if self.wide { "u64" } else { "u32" }
    }

    fn number(self, n: usize) -> String {
        if self.wide { format!("{n}ull") } else { format!("{n}u") }
    }

    /// Declares `i`, a thread's own number, and ends threads beyond `n`.
    fn declare(self, text: &mut Text, n: usize) {
        let block = if self.wide { "u64(blockIdx.x)" } else { "blockIdx.x" };
        text.line(format!("const {} i = {block} * {BLOCK}u + threadIdx.x;", self.ty()));
        text.line(format!("if (i >= {}) return;", self.number(n)));
    }

    /// `flat` decomposed over dims of these extents and strides, as one sum.
    fn affine(self, flat: &str, dims: &[(usize, usize)]) -> String {
        let mut inner = 1usize;
        let mut terms = Vec::new();
        for (d, &(extent, stride)) in dims.iter().enumerate().rev() {
            let mut own = flat.to_owned();
            if inner > 1 {
                own += &format!(" / {}", self.number(inner));
            }
            if d > 0 {
                own += &format!(" % {}", self.number(extent.max(1)));
            }
            if stride != 1 {
                own += &format!(" * {}", self.number(stride));
            }
            terms.push(own);
            inner = inner.saturating_mul(extent.max(1));
        }
        terms.reverse();
        if terms.is_empty() { self.number(0) } else { terms.join(" + ") }
    }
}

/// Dims (extent and strides of two arrays) without those of one element, neighbors merged where
/// both arrays walk them as one.
fn merged(dims: impl IntoIterator<Item = (usize, [usize; 2])>) -> Vec<(usize, [usize; 2])> {
    let mut out: Vec<(usize, [usize; 2])> = Vec::new();
    for (extent, strides) in dims.into_iter().filter(|d| d.0 != 1) {
        match out.last_mut() {
            Some(last) if (0..2).all(|k| last.1[k] == strides[k] * extent) => {
                *last = (last.0 * extent, strides);
            }
            _ => out.push((extent, strides)),
        }
    }
    out
}

/// The frame of a routine's kernel; `names` are those of its inputs.
fn frame<'a>(name: &'a str, routine: &Routine, names: &[&str], threads: usize) -> Frame<'a> {
    let inputs = routine.inputs.iter().zip(names).map(|((_, ty), name)| Parameter {
        name: (*name).to_owned(),
        dtype: ty.dtype,
        is_written: false,
    });
    let out = Parameter { name: "out".into(), dtype: routine.out_ty.dtype, is_written: true };
    let types: Vec<String> = inputs
        .clone()
        .zip(&routine.inputs)
        .map(|(p, (_, ty))| format!("{} {ty}", p.name))
        .collect();
    Frame {
        name,
        about: vec![format!(
            "{name}: {} from {}; to out {}",
            routine.op,
            types.join(", "),
            routine.out_ty
        )],
        parameters: inputs.chain([out]).collect(),
        grid: threads.div_ceil(BLOCK) as u64,
        block: BLOCK as u32,
        barriers: false,
        library: "",
    }
}
