//! Matrix products of integers and booleans, which libraries do not multiply on a GPU.
//!
//! Guarantees: the interpreter's bits (integers wrap, booleans are `or` of `and`); one thread sums
//! one element, in order. It is simple and not fast: what is worth multiplying by the million is
//! floats.

use gt_ir::DType;

use super::{
    Source,
    text::{Frame, Parameter, Text},
};
use crate::schedule::{MatMul, Matrix};

const BLOCK: u32 = 256;

/// The kernel of a product.
pub(super) fn write(name: &str, work: &MatMul) -> Source {
    let n_elements = work.batch.iter().product::<usize>() * work.m * work.n;
    let parameter =
        |name: &str| Parameter { name: name.into(), dtype: work.dtype, is_written: name == "out" };
    let frame = Frame {
        name,
        about: vec![format!("{name}: a product of {} matrices", work.dtype)],
        parameters: ["lhs", "rhs", "out"].map(parameter).into(),
        grid: (n_elements as u64).div_ceil(u64::from(BLOCK)),
        block: BLOCK,
        barriers: false,
        library: "",
    };
    frame.source(|text| {
        text.line(format!("const i64 i = i64(blockIdx.x) * {BLOCK} + threadIdx.x;"));
        text.line(format!("if (i >= {n_elements}ll) return;"));
        begin(text, work);
        sum(text, work);
    })
}

/// Declares `l` and `r`, where the row and the column begin whose product is element `i`.
fn begin(text: &mut Text, work: &MatMul) {
    let [m, n] = [work.m, work.n].map(|size| size.max(1));
    let rank = work.batch.len();
    let stride = |matrix: &Matrix, d: usize| matrix.access.strides[d];
    let [lo, ro] = [&work.lhs, &work.rhs].map(|matrix| matrix.access.offset);
    let (lr, rc) = (stride(&work.lhs, rank), stride(&work.rhs, rank + 1));
    text.line(format!(
        "i64 l = i / {n}ll % {m}ll * {lr}ll + {lo}ll, r = i % {n}ll * {rc}ll + {ro}ll;"
    ));
    let mut inner = m * n;
    for (d, &size) in work.batch.iter().enumerate().rev() {
        let [by_l, by_r] = [&work.lhs, &work.rhs].map(|matrix| stride(matrix, d));
        let size = size.max(1);
        text.line(format!(
            "l += i / {inner}ll % {size}ll * {by_l}ll, r += i / {inner}ll % {size}ll * {by_r}ll;"
        ));
        inner *= size;
    }
}

fn sum(text: &mut Text, work: &MatMul) {
    let rank = work.batch.len();
    let (lc, rr) = (work.lhs.access.strides[rank + 1], work.rhs.access.strides[rank]);
    let [x, y] = [format!("lhs[l + j * {lc}ll]"), format!("rhs[r + j * {rr}ll]")];
    text.line("u64 sum = 0;");
    let step = match work.dtype {
        DType::Bool => format!("sum |= {x}.bits & {y}.bits;"),
        DType::F32
        | DType::F64
        | DType::Bf16
        | DType::F16
        | DType::I64
        | DType::I32
        | DType::U8 => format!("sum += u64({x}) * u64({y});"),
    };
    text.line(format!("for (i64 j = 0; j < {}ll; ++j) {step}", work.k));
    text.line(match work.dtype {
        DType::Bool => "out[i].bits = u8(sum);",
        DType::U8 => "out[i] = u8(sum);",
        DType::I32 => "out[i] = i32(sum);",
        DType::F32 | DType::F64 | DType::Bf16 | DType::F16 | DType::I64 => "out[i] = i64(sum);",
    });
}
