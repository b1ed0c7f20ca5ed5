//! Sharding rules: the factors of ops, by the rows' names for them. Whoever adds a row looks for
//! the rule that describes it; a row without one is computed whole, or by its expansion.

use smallvec::SmallVec;

use crate::{
    attr::AxisSet,
    factors::{Factors, Linear, Link, Links},
    layout::Combine,
    op::{Op, OperandType},
    shape::{Shape, Type},
};

type Result = Option<Factors>;

/// Pointwise: dimensions aligned from the right, as they broadcast.
pub(crate) fn aligned(_: &Op, ins: &[OperandType], out: &Type) -> Result {
    let operands = ins.iter().map(|operand| match operand {
        OperandType::Tensor(ty) => align(&ty.shape, &out.shape),
        OperandType::Scalar(_) => Some(Links::new()),
    });
    Some(Factors {
        operands: operands.collect::<Option<_>>()?,
        result: identity(out.shape.rank()),
        ..Factors::default()
    })
}

/// Pointwise, and the sum of results is the result of sums.
pub(crate) fn additive(op: &Op, ins: &[OperandType], out: &Type) -> Result {
    let all = ins.iter().all(|operand| matches!(operand, OperandType::Tensor(_)));
    let linear = if all { Linear::Together } else { Linear::No };
    Some(Factors { linear, ..aligned(op, ins, out)? })
}

/// Pointwise, and linear in each operand.
pub(crate) fn product(op: &Op, ins: &[OperandType], out: &Type) -> Result {
    Some(Factors { linear: Linear::Each, ..aligned(op, ins, out)? })
}

/// Pointwise, and linear in the first operand. A divisor that is a tensor may have zeros, and there
/// the quotients of addends are infinities of both signs, whose sum is NaN. A literal may be zero.
pub(crate) fn quotient(op: &Op, ins: &[OperandType], out: &Type) -> Result {
    let may_be_zero = match ins.get(1) {
        Some(OperandType::Tensor(_)) => true,
        Some(OperandType::Scalar(by)) => by.as_f64() == 0.0,
        None => false,
    };
    let linear = if may_be_zero { Linear::No } else { Linear::First };
    Some(Factors { linear, ..aligned(op, ins, out)? })
}

/// Along the axes of the attribute all elements are needed; all other dimensions are free.
pub(crate) fn reduced(op: &Op, ins: &[OperandType], out: &Type) -> Result {
    let [OperandType::Tensor(x), rest @ ..] = ins else { return None };
    let literals = rest.iter().all(|operand| matches!(operand, OperandType::Scalar(_)));
    literals.then(|| over(&x.shape, op.axes(), ins.len(), &out.shape))
}

/// A sum over the axes of the attribute: parts give partial sums.
pub(crate) fn sum(op: &Op, ins: &[OperandType], out: &Type) -> Result {
    contracted(op, ins, out, Combine::Sum, Linear::First)
}

/// The largest over the axes of the attribute.
pub(crate) fn max(op: &Op, ins: &[OperandType], out: &Type) -> Result {
    contracted(op, ins, out, Combine::Max, Linear::No)
}

/// The smallest over the axes of the attribute.
pub(crate) fn min(op: &Op, ins: &[OperandType], out: &Type) -> Result {
    contracted(op, ins, out, Combine::Min, Linear::No)
}

fn contracted(
    op: &Op,
    ins: &[OperandType],
    out: &Type,
    combine: Combine,
    linear: Linear,
) -> Result {
    let mut factors = reduced(op, ins, out)?;
    for axis in op.axes().iter() {
        *factors.operands.first_mut()?.get_mut(axis)? = Link::to(axis);
    }
    Some(Factors { combine: Some(combine), linear, ..factors })
}

/// A product over the last two axes.
pub(crate) fn matmul(_: &Op, ins: &[OperandType], out: &Type) -> Result {
    let [OperandType::Tensor(a), OperandType::Tensor(b)] = ins else { return None };
    let (ra, rb, n_result) = (a.shape.rank(), b.shape.rank(), out.shape.rank());
    let summed = Link::to(n_result);
    let n_batch = ra.max(rb).saturating_sub(2);
    // The result's dimensions: those of the batch, then the row of a and the column of b, if any.
    let (row, column) = (n_batch, n_batch + usize::from(ra > 1));
    let batch = |shape: &Shape, own: usize| -> Links {
        let link = |i: usize| {
            let at = n_batch - own + i;
            (shape.sizes()[i] == out.shape.sizes()[at]).then(|| Link::to(at)).flatten()
        };
        (0..own).map(link).collect()
    };
    let mut left = batch(&a.shape, ra.saturating_sub(2));
    left.extend((ra > 1).then(|| Link::to(row)));
    left.push(summed);
    let mut right = batch(&b.shape, rb.saturating_sub(2));
    right.push(summed);
    right.extend((rb > 1).then(|| Link::to(column)));
    Some(Factors {
        operands: SmallVec::from_vec(vec![left, right]),
        result: identity(n_result),
        combine: Some(Combine::Sum),
        linear: Linear::Each,
        addend: None,
    })
}

/// The same elements under another shape: the outermost dimensions of groups with equal numbers of
/// elements belong together.
pub(crate) fn reshape(_: &Op, ins: &[OperandType], out: &Type) -> Result {
    let [OperandType::Tensor(x)] = ins else { return None };
    let (from, to) = (x.shape.sizes(), out.shape.sizes());
    let (mut operand, mut result) = (Links::from_elem(None, from.len()), nothing(to.len()));
    if x.shape.numel() > 0 {
        let (mut i, mut j, mut factor) = (0, 0, 0);
        while i < from.len() && j < to.len() {
            let (first_i, first_j, n) = group(from, to, &mut i, &mut j);
            let link = |size: usize| Some(Link { factor, unit: n / size });
            (operand[first_i], result[first_j]) = (link(from[first_i]), link(to[first_j]));
            factor += 1;
        }
    }
    Some(moving(SmallVec::from_elem(operand, 1), result))
}

/// The smallest group of dimensions from `i` and `j` on that have equally many elements: the first
/// dimension of each side that is not 1, and the number of elements. Moves both behind the group.
fn group(from: &[usize], to: &[usize], i: &mut usize, j: &mut usize) -> (usize, usize, usize) {
    let skip = |sizes: &[usize], at: &mut usize| {
        while *at + 1 < sizes.len() && sizes[*at] == 1 {
            *at += 1;
        }
    };
    skip(from, i);
    skip(to, j);
    let (first_i, first_j) = (*i, *j);
    let (mut a, mut b) = (from[*i], to[*j]);
    (*i, *j) = (*i + 1, *j + 1);
    while a != b {
        if a < b && *i < from.len() {
            a *= from[*i];
            *i += 1;
        } else if *j < to.len() {
            b *= to[*j];
            *j += 1;
        } else {
            break;
        }
    }
    (first_i, first_j, a)
}

/// Axes in another order.
pub(crate) fn permute(op: &Op, ins: &[OperandType], out: &Type) -> Result {
    let [OperandType::Tensor(x)] = ins else { return None };
    let mut operand = nothing(x.shape.rank());
    match op {
        Op::Permute(perm) => {
            perm.axes().enumerate().for_each(|(to, from)| operand[from] = Link::to(to));
        }
        Op::Transpose(swap) => {
            operand = identity(x.shape.rank());
            operand.swap(swap.0.into(), swap.1.into());
        }
        _ => return None,
    }
    Some(moving(SmallVec::from_elem(operand, 1), identity(out.shape.rank())))
}

/// Dimensions aligned from the right, as they broadcast; elements only move.
pub(crate) fn expand(op: &Op, ins: &[OperandType], out: &Type) -> Result {
    quotient(op, ins, out)
}

/// Dimensions of which each operand has as many elements as the result are free; any other needs
/// all of its elements.
fn along(_: &Op, ins: &[OperandType], out: &Type) -> Result {
    let operands = ins.iter().map(|operand| match operand {
        OperandType::Tensor(ty) => identity(ty.shape.rank()),
        OperandType::Scalar(_) => Links::new(),
    });
    let mut factors = moving(operands.collect(), identity(out.shape.rank()));
    factors.linear = if ins.len() == 1 { Linear::First } else { Linear::No };
    let ranks = ins.iter().map(|operand| match operand {
        OperandType::Tensor(ty) => ty.shape.rank(),
        OperandType::Scalar(_) => 0,
    });
    for axis in 0..ranks.max().unwrap_or(0).max(out.shape.rank()) {
        let same = |operand: &OperandType| match operand {
            OperandType::Tensor(ty) => {
                axis < out.shape.rank() && ty.shape.sizes().get(axis) == out.shape.sizes().get(axis)
            }
            OperandType::Scalar(_) => true,
        };
        if !ins.iter().all(same) {
            close(&mut factors, axis);
        }
    }
    Some(factors)
}

/// As [`along`], but the axes of the attribute need all of their elements.
pub(crate) fn beside(op: &Op, ins: &[OperandType], out: &Type) -> Result {
    let mut factors = along(op, ins, out)?;
    op.axes().iter().for_each(|axis| close(&mut factors, axis));
    Some(factors)
}

/// As [`beside`], joined one after the other: the sum of results is the result of sums.
pub(crate) fn cat(op: &Op, ins: &[OperandType], out: &Type) -> Result {
    Some(Factors { linear: Linear::Together, ..beside(op, ins, out)? })
}

/// All dimensions but the last two are free.
pub(crate) fn matrices(op: &Op, ins: &[OperandType], out: &Type) -> Result {
    let mut factors = along(op, ins, out)?;
    let rank = out.shape.rank();
    (rank.saturating_sub(2)..rank).for_each(|axis| close(&mut factors, axis));
    Some(factors)
}

/// Linear algebra: leading dimensions are free, as they broadcast, and the columns of the right
/// side of a system are.
pub(crate) fn problems(op: &Op, ins: &[OperandType], out: &Type) -> Result {
    let leading = |operand: &OperandType| match operand {
        OperandType::Tensor(ty) => ty.shape.rank().saturating_sub(2),
        OperandType::Scalar(_) => 0,
    };
    let most = ins.iter().map(leading).max()?;
    let is_system = matches!(op, Op::Solve | Op::TriangularSolve(_));
    let columns = out.shape.rank() - 1;
    let links = |(i, operand): (usize, &OperandType)| {
        let OperandType::Tensor(ty) = operand else { return Links::new() };
        let before = most - leading(operand);
        let same = |axis: usize| ty.shape.sizes()[axis] == out.shape.sizes()[before + axis];
        let link = |axis: usize| if same(axis) { Link::to(before + axis) } else { None };
        let mut links: Links = (0..leading(operand)).map(link).collect();
        links.extend([None, if is_system && i == 1 { Link::to(columns) } else { None }]);
        links
    };
    let operands = ins.iter().enumerate().map(links).collect();
    let mut result: Links = identity(most);
    result.resize(out.shape.rank(), None);
    if is_system {
        result[columns] = Link::to(columns);
    }
    Some(Factors { operands, result, ..Factors::default() })
}

/// As [`matrices`], for the largest elements of windows: those of a sum are not the sum of those of
/// its addends.
pub(crate) fn pool(op: &Op, ins: &[OperandType], out: &Type) -> Result {
    Some(Factors { linear: Linear::No, ..matrices(op, ins, out)? })
}

/// The first dimension of the first operand, the batch, is free; the other operands are needed
/// whole.
pub(crate) fn batch(_: &Op, ins: &[OperandType], out: &Type) -> Result {
    let OperandType::Tensor(x) = ins.first()? else { return None };
    let mut operands: SmallVec<[Links; 3]> = ins.iter().map(closed).collect();
    *operands.first_mut()?.first_mut()? = Link::to(0);
    let mut result = nothing(out.shape.rank());
    *result.first_mut()? = Link::to(0);
    let same = x.shape.sizes()[0] == out.shape.sizes()[0];
    same.then(|| Factors { operands, result, ..Factors::default() })
}

/// A new last axis; all others are free.
pub(crate) fn one_hot(_: &Op, ins: &[OperandType], out: &Type) -> Result {
    let rank = out.shape.rank().checked_sub(1)?;
    let mut result = identity(rank);
    result.push(None);
    let operands = SmallVec::from_elem(identity(rank), ins.len());
    Some(Factors { operands, result, ..Factors::default() })
}

/// Normalization over the last dims, which are needed whole, as are weight and bias.
pub(crate) fn trailing(op: &Op, ins: &[OperandType], out: &Type) -> Result {
    let (Op::LayerNorm(last) | Op::RmsNorm(last)) = op else { return None };
    let free = out.shape.rank().checked_sub(last.0.into())?;
    let mut links = identity(free);
    links.resize(out.shape.rank(), None);
    let mut operands: SmallVec<[Links; 3]> = ins.iter().map(closed).collect();
    *operands.first_mut()? = links.clone();
    Some(Factors { operands, result: links, ..Factors::default() })
}

/// Normalization by channels (axis 1) with given statistics: every dimension is free, and the
/// statistics go with the channels.
pub(crate) fn channels(_: &Op, ins: &[OperandType], out: &Type) -> Result {
    let rank = out.shape.rank();
    let links = |(i, operand): (usize, &OperandType)| match operand {
        OperandType::Scalar(_) => Links::new(),
        OperandType::Tensor(_) if i == 0 => identity(rank),
        OperandType::Tensor(ty) if ty.shape.rank() == 1 && rank > 1 => {
            SmallVec::from_elem(Link::to(1), 1)
        }
        OperandType::Tensor(_) => closed(operand),
    };
    let operands = ins.iter().enumerate().map(links).collect();
    Some(Factors { operands, result: identity(rank), ..Factors::default() })
}

/// A convolution: batch, output channels and, contracted, input channels; images are needed whole.
pub(crate) fn conv(op: &Op, ins: &[OperandType], out: &Type) -> Result {
    let Op::Conv2d(conv) = op else { return None };
    if conv.groups != 1 {
        return batch(op, ins, out);
    }
    let summed = Link::to(2);
    let operands = vec![
        Links::from_slice(&[Link::to(0), summed, None, None]),
        Links::from_slice(&[Link::to(1), summed, None, None]),
    ];
    Some(Factors {
        operands: operands.into(),
        result: Links::from_slice(&[Link::to(0), Link::to(1), None, None]),
        combine: Some(Combine::Sum),
        linear: Linear::Each,
        addend: None,
    })
}

/// Attention and its gradient: batch and heads, where all operands have them.
pub(crate) fn attention(_: &Op, ins: &[OperandType], out: &Type) -> Result {
    let rank = out.shape.rank();
    let free = rank.checked_sub(2)?;
    let links = |operand: &OperandType| match operand {
        OperandType::Scalar(_) => Some(Links::new()),
        OperandType::Tensor(ty) => {
            let mut links = align(&ty.shape, &out.shape)?;
            let own = ty.shape.rank();
            (own.saturating_sub(2)..own).for_each(|axis| links[axis] = None);
            Some(links)
        }
    };
    let mut result = identity(free);
    result.resize(rank, None);
    let operands: SmallVec<[Links; 3]> = ins.iter().map(links).collect::<Option<_>>()?;
    let mut factors = Factors { operands, result, ..Factors::default() };
    // Query, key and value must agree: with fewer heads of key and value, none may be split.
    for axis in 0..free {
        let size = out.shape.sizes()[axis];
        let agrees = |operand: &OperandType| match operand {
            OperandType::Tensor(ty) if ty.shape.rank() == rank => ty.shape.sizes()[axis] == size,
            OperandType::Tensor(_) | OperandType::Scalar(_) => true,
        };
        if !ins.iter().take(4).all(agrees) {
            close(&mut factors, axis);
        }
    }
    Some(factors)
}

/// Elements of x by an index of the same rank: dimensions beside the axis in which both have
/// equally many elements, and all positions of the index along the axis.
pub(crate) fn gather(op: &Op, ins: &[OperandType], out: &Type) -> Result {
    let [OperandType::Tensor(x), OperandType::Tensor(index)] = ins else { return None };
    let axes = op.axes();
    let link = |i: usize| {
        let same = x.shape.sizes()[i] == index.shape.sizes()[i];
        (same && !axes.contains(i)).then(|| Link::to(i)).flatten()
    };
    let first: Links = (0..x.shape.rank()).map(link).collect();
    let free = |(i, own): (usize, &Option<Link>)| {
        if axes.contains(i) { Link::to(i) } else { *own }
    };
    let result: Links = first.iter().enumerate().map(free).collect();
    let operands = SmallVec::from_vec(vec![first, result.clone()]);
    let same = result.len() == out.shape.rank();
    same.then(|| Factors { operands, result, linear: Linear::First, ..Factors::default() })
}

/// A base with the elements of src added at positions: dimensions beside the axis in which all
/// three have equally many elements; positions along the axis give partial sums.
pub(crate) fn scatter_add(op: &Op, ins: &[OperandType], out: &Type) -> Result {
    let [OperandType::Tensor(base), OperandType::Tensor(index), OperandType::Tensor(_)] = ins
    else {
        return None;
    };
    let (axes, rank) = (op.axes(), out.shape.rank());
    let link = |i: usize| {
        let same = base.shape.sizes()[i] == index.shape.sizes()[i];
        (same && !axes.contains(i)).then(|| Link::to(i)).flatten()
    };
    let base: Links = (0..rank).map(link).collect();
    let mut given = base.clone();
    axes.iter().for_each(|axis| given[axis] = Link::to(rank));
    let operands = SmallVec::from_vec(vec![base.clone(), given.clone(), given]);
    Some(added(operands, base))
}

/// Whole slices of x by an index: the dimensions of x beside the axis, and those of the index.
pub(crate) fn index_select(op: &Op, ins: &[OperandType], out: &Type) -> Result {
    let [OperandType::Tensor(x), OperandType::Tensor(index)] = ins else { return None };
    let (axis, n_index) = (op.axes().iter().next()?, index.shape.rank());
    let first = around(axis, x.shape.rank(), n_index);
    let second: Links = (axis..axis + n_index).map(Link::to).collect();
    let operands = SmallVec::from_vec(vec![first, second]);
    let result = identity(out.shape.rank());
    Some(Factors { operands, result, linear: Linear::First, ..Factors::default() })
}

/// A base with whole slices of src added: the dimensions beside the axis; positions give partial
/// sums.
pub(crate) fn index_add(op: &Op, ins: &[OperandType], out: &Type) -> Result {
    let [OperandType::Tensor(_), OperandType::Tensor(index), OperandType::Tensor(src)] = ins else {
        return None;
    };
    let (axis, n_index) = (op.axes().iter().next()?, index.shape.rank());
    let base = around(axis, out.shape.rank(), n_index);
    let positions: Links = (axis..axis + n_index).map(Link::to).collect();
    let operands = vec![base.clone(), positions, identity(src.shape.rank())];
    Some(added(operands.into(), base))
}

/// The factors of a tensor one axis of which stands for `n` others.
fn around(axis: usize, rank: usize, n: usize) -> Links {
    let link = |i: usize| match i {
        _ if i < axis => Link::to(i),
        _ if i == axis => None,
        _ => Link::to(i + n - 1),
    };
    (0..rank).map(link).collect()
}

/// A base to which the rest is added.
fn added(operands: SmallVec<[Links; 3]>, result: Links) -> Factors {
    let (combine, addend) = (Some(Combine::Sum), Some(0));
    Factors { operands, result, combine, linear: Linear::No, addend }
}

/// What only moves elements of its first operand.
fn moving(operands: SmallVec<[Links; 3]>, result: Links) -> Factors {
    Factors { operands, result, linear: Linear::First, ..Factors::default() }
}

fn over(x: &Shape, axes: AxisSet, n_operands: usize, out: &Shape) -> Factors {
    let link = |i: usize| if axes.contains(i) { None } else { Link::to(i) };
    let first: Links = (0..x.rank()).map(link).collect();
    let kept = out.rank() == x.rank();
    let result = (0..x.rank()).filter(|&i| kept || !axes.contains(i)).map(link).collect();
    let mut operands = SmallVec::from_elem(Links::new(), n_operands);
    operands[0] = first;
    Factors { operands, result, ..Factors::default() }
}

/// The factors of a shape whose dimensions stand for those of the result, aligned from the right;
/// none where it has more dimensions.
fn align(shape: &Shape, out: &Shape) -> Option<Links> {
    let before = out.rank().checked_sub(shape.rank())?;
    let link = |(i, &size): (usize, &usize)| {
        if size == out.sizes()[before + i] { Link::to(before + i) } else { None }
    };
    Some(shape.sizes().iter().enumerate().map(link).collect())
}

fn identity(rank: usize) -> Links {
    (0..rank).map(Link::to).collect()
}

fn nothing(rank: usize) -> Links {
    SmallVec::from_elem(None, rank)
}

fn closed(operand: &OperandType) -> Links {
    match operand {
        OperandType::Tensor(ty) => nothing(ty.shape.rank()),
        OperandType::Scalar(_) => Links::new(),
    }
}

/// All elements along a dimension are needed.
fn close(factors: &mut Factors, axis: usize) {
    let links = factors.operands.iter_mut().chain([&mut factors.result]);
    links.filter_map(|links| links.get_mut(axis)).for_each(|link| *link = None);
}
