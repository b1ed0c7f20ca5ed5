//! Attention of queries to keys: scores, masks, softmax, and the mean of the values they weigh.
//!
//! Computed in a wide dtype throughout and rounded once: scores that were rounded would be far off
//! after the exponential.

use super::{
    derive::{misplaced, value, wide},
    infer::{Result, literal, tensor},
    statistic::ruler,
};
use crate::{
    attr::{Attention, AttentionGrad, AttentionInput, Axis, AxisSet, Keep},
    dtype::DType,
    emit::{Build, Emit, Emitted},
    error::OpError,
    grad::{Grads, Vjp, through},
    op::{Op, Operand, OperandType},
    shape::{Dim, Shape, Type},
    tape::ValueId,
};

/// The sizes of one call: `[.., heads, length, width]` queries, keys and values of `key_heads` and
/// `positions`.
struct Sizes {
    query: Shape,
    heads: usize,
    key_heads: usize,
    length: usize,
    positions: usize,
}

/// Reads the sizes off the three types; `None` when they do not go together.
///
/// Query, key and value have equal rank and equal leading axes. Query and key share a width, key
/// and value share heads and positions. The heads of the query are a multiple of those of the key:
/// grouped queries (Ainslie et al. 2023), with one key head as the extreme case (Shazeer 2019).
fn sizes(q: &Type, k: &Type, v: &Type) -> Option<Sizes> {
    let (rank, [q, k, v]) = (q.shape.rank(), [q.shape, k.shape, v.shape]);
    let same_rank = rank >= 2 && k.rank() == rank && v.rank() == rank;
    let from_end = |s: &Shape, i: usize| s.sizes()[rank - i];
    let lead = |s: &Shape| s.sizes()[..rank.saturating_sub(3)].to_vec();
    let head = |s: &Shape| if rank > 2 { from_end(s, 3) } else { 1 };
    if !same_rank || from_end(&q, 1) != from_end(&k, 1) || lead(&q) != lead(&k) {
        return None;
    }
    let aligned = k.sizes()[..rank - 1] == v.sizes()[..rank - 1];
    let (heads, key_heads) = (head(&q), head(&k));
    let grouped = heads == key_heads || (key_heads > 0 && heads % key_heads == 0);
    (aligned && grouped).then(|| Sizes {
        query: q,
        heads,
        key_heads,
        length: from_end(&q, 2),
        positions: from_end(&k, 2),
    })
}

impl Sizes {
    /// The query's shape with another last dimension.
    fn ending(&self, last: Dim) -> Result<Shape> {
        let rank = self.query.rank();
        Shape::collect(self.query.dims().take(rank - 1).chain([last]))
    }

    /// The same elements with the queries of the heads that share a key head one after the other.
    fn grouped(&self, last: Dim) -> Result<Shape> {
        if self.heads == self.key_heads {
            return self.ending(last);
        }
        let rows = self.heads / self.key_heads * self.length;
        let lead = self.query.dims().take(self.query.rank() - 3);
        Shape::collect(lead.chain([Dim::new(self.key_heads), Dim::new(rows), last]))
    }
}

/// `query, key, value, scale` and perhaps a mask to `[.., heads, length, width of the values]`.
pub(crate) fn infer(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let (q, k, v) = (tensor(op, ins, 0)?, tensor(op, ins, 1)?, tensor(op, ins, 2)?);
    literal(op, ins, 3)?;
    if !q.dtype.is_float() || k.dtype != q.dtype || v.dtype != q.dtype {
        let e = format!("{}: query {q}, key {k} and value {v} must share a float dtype", op.name());
        return Err(OpError::new(e));
    }
    let sizes = sizes(&q, &k, &v).ok_or_else(|| {
        OpError::new(format!("{}: query {q}, key {k} and value {v} do not go together", op.name()))
            .hint(
                "[.., heads, length, width], [.., key heads, positions, width] and [.., key \
                 heads, positions, any width]",
            )
    })?;
    if ins.len() > 4 {
        mask_fits(op, &tensor(op, ins, 4)?, &sizes)?;
    }
    let shape = sizes.ending(v.shape.dim(v.shape.rank() - 1))?;
    Ok(Type::new(q.dtype, shape))
}

/// `gradient of the result, operands of the forward op` to the type of the operand asked for.
pub(crate) fn infer_grad(op: &Op, ins: &[OperandType]) -> Result<Type> {
    let Op::ScaledDotProductAttentionGrad(AttentionGrad { kind, of }) = *op else {
        return Err(misplaced(op));
    };
    let (grad, forward) = (tensor(op, ins, 0)?, Op::ScaledDotProductAttention(kind));
    let result = infer(&forward, &ins[1..])?;
    if !grad.same_layout(&result) {
        let e = format!("{}: the gradient {grad} is not of the result's type {result}", op.name());
        return Err(OpError::new(e));
    }
    tensor(op, ins, 1 + of as usize)
}

/// Whether a mask broadcasts to the scores `[.., heads, length, positions]`.
///
/// A mask that is larger than the scores is refused: it would make a result of more axes than the
/// query has.
fn mask_fits(op: &Op, mask: &Type, sizes: &Sizes) -> Result<()> {
    let scores = sizes.ending(Dim::new(sizes.positions))?;
    let fits = mask.shape.broadcast(&scores).is_some_and(|s| s.same_sizes(&scores));
    if fits && (mask.dtype == DType::Bool || mask.dtype.is_float()) {
        return Ok(());
    }
    let e = format!("{}: mask {mask} does not fit scores of shape {scores}", op.name());
    Err(OpError::new(e).hint("a mask broadcasts to the scores, and is bool or float"))
}

/// softmax(q k^T scale + mask) v, in a wide dtype.
///
/// Heads that share a key head become more rows of one product, so that keys are never repeated.
pub(crate) fn expand(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let Op::ScaledDotProductAttention(kind) = *op else { return Err(misplaced(op)) };
    let (q, k, v) = (value(op, ins, 0)?, value(op, ins, 1)?, value(op, ins, 2)?);
    let (dtype, last) = (e.ty(q).dtype, e.ty(v).shape);
    let sizes = sizes(&e.ty(q), &e.ty(k), &e.ty(v)).ok_or_else(|| misplaced(op))?;
    let positions = Dim::new(sizes.positions);
    let [q, k, v] = [q, k, v].map(|x| e.cast(x, wide(dtype)));
    let (q, k, v) = (q?, k?, v?);
    let rows = e.reshape(q, sizes.grouped(sizes.query.dim(sizes.query.rank() - 1))?)?;
    let columns = e.transpose_last(k)?;
    let scores = e.matmul(rows, columns)?;
    let scores = e.reshape(scores, sizes.ending(positions)?)?;
    let scaled = e.mul(scores, ins[3])?;
    let mask = ins.get(4).map(|_| value(op, ins, 4)).transpose()?;
    let weights = weigh(e, scaled, kind, mask)?;
    let weights = e.reshape(weights, sizes.grouped(positions)?)?;
    let y = e.matmul(weights, v)?;
    let y = e.reshape(y, sizes.ending(last.dim(last.rank() - 1))?)?;
    e.cast(y, dtype)
}

/// Softmax over the positions that may be seen.
///
/// A hidden position has the score minus infinity, whose exponential is 0. A float mask is added
/// instead, so it may weaken a position without hiding it.
fn weigh(e: &mut dyn Emit, scores: ValueId, kind: Attention, mask: Option<ValueId>) -> Emitted {
    let shape = e.ty(scores).shape;
    let last = shape.rank() - 1;
    let mut seen = scores;
    if kind == Attention::Causal {
        let (row, column) =
            (ruler(e, &shape, last - 1, DType::I64)?, ruler(e, &shape, last, DType::I64)?);
        let before = e.ge(row, column)?;
        seen = e.select(before, seen, f64::NEG_INFINITY)?;
    }
    let softmax = Op::Softmax(Axis(last as u8));
    match mask {
        None => return e.emit(softmax, &[seen.into()]),
        Some(mask) if e.ty(mask).dtype == DType::Bool => {
            seen = e.select(mask, seen, f64::NEG_INFINITY)?;
        }
        Some(mask) => {
            let mask = e.cast(mask, e.ty(scores).dtype)?;
            seen = e.add(seen, mask)?;
        }
    }
    if shape.sizes()[last] == 0 {
        return Ok(seen);
    }
    // A row that sees nothing would be 0 / 0; it becomes 0, on the way back too.
    let most = e.max(seen, AxisSet::from_iter([last]), Keep::Yes)?;
    let blind = e.eq(most, f64::NEG_INFINITY)?;
    let seen = e.select(blind, 0, seen)?;
    let weights = e.emit(softmax, &[seen.into()])?;
    e.select(blind, 0, weights)
}

/// One instruction for each operand, which engines that have a call for all of them together know
/// by its name.
///
/// The scale and a mask of `bool` have no gradient.
pub(crate) fn grad(cx: &mut Vjp<'_>) -> Result<Grads> {
    let Op::ScaledDotProductAttention(kind) = *cx.op else { return Err(misplaced(cx.op)) };
    // A mask that is learned: no library has that gradient.
    if cx.wants(4) {
        return through(cx, expand);
    }
    let operands: Vec<Operand> = [cx.grad.into()].iter().chain(cx.inputs).copied().collect();
    let mut grads: Grads = std::iter::repeat_n(None, cx.inputs.len()).collect();
    for (i, of) in AttentionInput::ALL.into_iter().enumerate() {
        if cx.wants(i) {
            let op = Op::ScaledDotProductAttentionGrad(AttentionGrad { kind, of });
            grads[i] = Some(cx.e.emit(op, &operands)?);
        }
    }
    Ok(grads)
}

/// The gradient of one operand, by the scores computed again: nothing of the size of the scores is
/// kept between the passes.
///
/// As in FlashAttention (Dao et al. 2022), time is spent for memory: the scores have `length *
/// positions` elements for each head, which is more than all operands together for long sequences.
pub(crate) fn expand_grad(e: &mut dyn Emit, op: &Op, ins: &[Operand]) -> Emitted {
    let Op::ScaledDotProductAttentionGrad(AttentionGrad { kind, of }) = *op else {
        return Err(misplaced(op));
    };
    let (grad, forward) = (value(op, ins, 0)?, Op::ScaledDotProductAttention(kind));
    let wanted = AttentionInput::ALL.map(|input| input == of);
    let mut cx = Vjp { e, op: &forward, inputs: &ins[1..], output: grad, grad, wanted: &wanted };
    let mut grads = through(&mut cx, expand)?;
    grads[of as usize].take().ok_or_else(|| misplaced(op))
}
