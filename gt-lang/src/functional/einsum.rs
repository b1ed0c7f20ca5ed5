//! Einstein's summation: `einsum("bij,bjk->bik", [&a, &b])`, as in PyTorch and NumPy.
//!
//! Operands are multiplied in pairs, each by one matrix product: axes in both and still needed are
//! the batch, axes in both and needed no more are summed, the rest are rows and columns. A product
//! that sums nothing is one of elements. `path` chooses the pairs.

mod path;

use gt_ir::OpError;

use crate::core::{Axes, DynTensor};

/// One operand with the letters of its axes; the axes of an ellipsis have the letters `0`, `1`, ..
/// counted from the last.
struct Term {
    x: DynTensor,
    axes: Vec<char>,
}

/// The sum over all letters that the result does not have of the product of the operands. Without
/// `->` the result has the letters that occur once, in alphabetical order, after those of the
/// ellipsis. A letter twice in one operand takes its diagonal.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// let q = DynTensor::randn([2, 4, 5, 8], DType::F32);
/// let k = DynTensor::randn([2, 4, 6, 8], DType::F32);
/// let scores = functional::einsum("bhqd,bhkd->bhqk", [&q, &k]);
/// assert_eq!(scores.sizes(), [2, 4, 5, 6]);
/// ```
#[must_use]
#[track_caller]
pub fn einsum<'a>(equation: &str, operands: impl IntoIterator<Item = &'a DynTensor>) -> DynTensor {
    let operands: Vec<&DynTensor> = operands.into_iter().collect();
    let Some(first) = operands.first() else {
        return DynTensor::cat(operands, 0); // Says that a tensor is needed.
    };
    let (terms, output) = match parse(equation, &operands) {
        Ok(parsed) => parsed,
        Err(error) => {
            return first.record_with(|_| {
                Err(OpError { message: format!("einsum: {}", error.message), ..error })
            });
        }
    };
    let mut terms: Vec<Term> = terms.into_iter().map(diagonals).collect();
    while let Some((left, right)) = path::next(&terms, &output) {
        let (right, left) = (terms.remove(right), terms.remove(left));
        let later = |c: &char| output.contains(c) || terms.iter().any(|t| t.axes.contains(c));
        let both = product(left, right, &later);
        terms.push(both);
    }
    let Some(last) = terms.pop() else { return (*first).clone() };
    ordered(&summed(last, &|c| output.contains(c)), &output)
}

/// The terms of the operands and the letters of the result, checked against the ranks.
fn parse(equation: &str, operands: &[&DynTensor]) -> Result<(Vec<Term>, Vec<char>), OpError> {
    let text: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
    let (inputs, output) = match text.split_once("->") {
        Some((inputs, output)) => (inputs, Some(output)),
        None => (text.as_str(), None),
    };
    let parts: Vec<&str> = inputs.split(',').collect();
    if parts.len() != operands.len() {
        let e = format!("`{equation}` names {} operands, but got {}", parts.len(), operands.len());
        return Err(OpError::new(e));
    }
    let mut terms = Vec::new();
    let mut widest = 0;
    for (part, &x) in parts.iter().zip(operands) {
        let named = part.replace("...", "").chars().count();
        let open = x.rank().checked_sub(named).filter(|n| *n == 0 || part.contains("..."));
        let open = open.ok_or_else(|| {
            OpError::new(format!("`{part}` does not name the axes of {}", x.ty()))
        })?;
        widest = widest.max(open);
        terms.push(Term { x: x.clone(), axes: letters(part, open)? });
    }
    sizes_agree(&terms)?;
    let output = match output {
        Some(output) => letters(output, widest)?,
        None => implied(&terms, widest),
    };
    let unique = output.iter().enumerate().all(|(i, c)| !output[..i].contains(c));
    let known = output.iter().all(|c| terms.iter().any(|t| t.axes.contains(c)));
    if !unique || !known {
        return Err(OpError::new(format!(
            "the result of `{equation}` repeats an axis or has one that no operand has"
        )));
    }
    Ok((terms, output))
}

/// The letters of one part, the ellipsis spelled out.
fn letters(part: &str, open: usize) -> Result<Vec<char>, OpError> {
    let digits: String = (0..open as u32).rev().filter_map(|i| char::from_digit(i, 10)).collect();
    let spelled = part.replacen("...", &digits, 1);
    match spelled.chars().find(|c| !c.is_ascii_alphabetic() && !digits.contains(*c)) {
        Some(c) => Err(OpError::new(format!("`{c}` in `{part}` is no axis"))
            .hint("axes are letters, `...` the others")),
        None => Ok(spelled.chars().collect()),
    }
}

/// The axes of a result that is not spelled: those of the ellipsis, then the letters that occur
/// once.
fn implied(terms: &[Term], widest: usize) -> Vec<char> {
    let all: Vec<char> = terms.iter().flat_map(|t| t.axes.iter().copied()).collect();
    let mut once: Vec<char> = all.iter().copied().filter(|c| c.is_alphabetic()).collect();
    once.retain(|c| all.iter().filter(|o| *o == c).count() == 1);
    once.sort_unstable();
    (0..widest as u32).rev().filter_map(|i| char::from_digit(i, 10)).chain(once).collect()
}

/// Every letter has one size; 1 broadcasts.
fn sizes_agree(terms: &[Term]) -> Result<(), OpError> {
    let mut seen: Vec<(char, usize)> = Vec::new();
    for term in terms {
        for (c, &size) in term.axes.iter().zip(term.x.shape().sizes()) {
            match seen.iter_mut().find(|(known, _)| known == c) {
                None => seen.push((*c, size)),
                Some((_, known)) if *known == 1 => *known = size,
                Some((_, known)) if *known == size || size == 1 => (),
                Some((_, known)) => {
                    return Err(OpError::new(format!(
                        "axis `{c}` has size {known} and size {size}"
                    )));
                }
            }
        }
    }
    Ok(())
}

/// A letter that stands twice in an operand: only the elements where both positions are equal,
/// summed over one of them.
#[track_caller]
fn diagonals(mut term: Term) -> Term {
    while let Some((i, j)) = twice(&term.axes) {
        let n = term.x.shape().sizes()[i];
        let last = term.x.movedim(i as i64, -1).movedim(j as i64 - 1, -1);
        let line = DynTensor::arange(0, n as i64, 1, gt_ir::DType::I64);
        let apart = line.unsqueeze(-1).ne(&line);
        let kept = last.masked_fill(&apart, 0).to_dtype(term.x.dtype()).sum(-1);
        let c = term.axes.remove(j);
        term.axes.remove(i);
        term.axes.push(c);
        term.x = kept;
    }
    term
}

/// Two positions that have one letter: a diagonal is taken there.
fn twice(axes: &[char]) -> Option<(usize, usize)> {
    (0..axes.len()).find_map(|j| axes[..j].iter().position(|c| *c == axes[j]).map(|i| (i, j)))
}

/// A term summed over the axes that occur nowhere else.
#[track_caller]
fn summed(term: Term, needed: &dyn Fn(&char) -> bool) -> Term {
    let gone: Vec<usize> = (0..term.axes.len()).filter(|&i| !needed(&term.axes[i])).collect();
    if gone.is_empty() {
        return term;
    }
    let x = term.x.sum(Axes::from(gone.as_slice()));
    Term { x, axes: term.axes.into_iter().filter(|c| needed(c)).collect() }
}

/// The product of two terms: one matrix product over the letters that both have and no later term
/// needs.
#[track_caller]
fn product(left: Term, right: Term, later: &dyn Fn(&char) -> bool) -> Term {
    let (l, r) = (left.axes.clone(), right.axes.clone());
    let left = summed(left, &|c| later(c) || r.contains(c));
    let right = summed(right, &|c| later(c) || l.contains(c));
    let (in_left, in_right) = (|c: &char| left.axes.contains(c), |c: &char| right.axes.contains(c));
    let pick = |axes: &[char], f: &dyn Fn(&char) -> bool| {
        axes.iter().copied().filter(|c| f(c)).collect::<Vec<_>>()
    };
    let batch = pick(&left.axes, &|c| in_right(c) && later(c));
    let inner = pick(&left.axes, &|c| in_right(c) && !later(c));
    let rows = pick(&left.axes, &|c| !in_right(c));
    let columns = pick(&right.axes, &|c| !in_left(c));
    if inner.is_empty() {
        let axes = [batch, rows, columns].concat();
        return Term { x: beside(&left, &axes).mul(&beside(&right, &axes)), axes };
    }
    // An axis of size 1 broadcasts, so both sides bring the larger size.
    let size = |c: &char| size_of(&left, c).max(size_of(&right, c));
    let sizes = |axes: &[char]| axes.iter().map(&size).collect::<Vec<_>>();
    let volume = |axes: &[char]| sizes(axes).iter().product::<usize>();
    let a = matrix(&left, &[&batch, &rows, &inner], &size, [volume(&rows), volume(&inner)]);
    let b = matrix(&right, &[&batch, &inner, &columns], &size, [volume(&inner), volume(&columns)]);
    let axes: Vec<char> = batch.into_iter().chain(rows).chain(columns).collect();
    Term { x: a.matmul(&b).reshape(sizes(&axes)), axes }
}

/// The size that a term gives a letter; 1 where it lacks the letter.
fn size_of(term: &Term, c: &char) -> usize {
    term.axes.iter().position(|a| a == c).map_or(1, |i| term.x.shape().sizes()[i])
}

/// A term with these axes, among which are all of its own; the others have size 1.
#[track_caller]
fn beside(term: &Term, axes: &[char]) -> DynTensor {
    let own: Vec<char> = axes.iter().copied().filter(|c| term.axes.contains(c)).collect();
    let sizes: Vec<usize> = axes.iter().map(|c| size_of(term, c)).collect();
    ordered(term, &own).reshape(sizes)
}

/// A term as a batch of matrices: its axes in the order of the three groups, the last two of which
/// become one axis each.
#[track_caller]
fn matrix(
    term: &Term,
    groups: &[&Vec<char>; 3],
    size: &dyn Fn(&char) -> usize,
    last: [usize; 2],
) -> DynTensor {
    let order: Vec<char> = groups.iter().flat_map(|g| g.iter().copied()).collect();
    let x = ordered(term, &order);
    let full: Vec<usize> = order.iter().map(size).collect();
    let x = if x.shape().sizes() == full { x } else { x.expand(&full) };
    let sizes: Vec<usize> = groups[0].iter().map(size).chain(last).collect();
    if x.shape().sizes() == sizes { x } else { x.reshape(sizes) }
}

/// The axes in this order, which names all of them.
#[track_caller]
fn ordered(term: &Term, order: &[char]) -> DynTensor {
    if term.axes == order {
        return term.x.clone();
    }
    let at = |c: &char| term.axes.iter().position(|a| a == c).unwrap_or(0) as i64;
    term.x.permute(order.iter().map(at).collect::<Vec<_>>())
}
