//! The ways of an op along the turns of its mesh. Turns may cut a dimension that members cut, and
//! micro-batches stay what they are from stage to stage, so the ways are found otherwise than along
//! axes of members.

use gt_ir::factors::Links;
use gt_ir::layout::{Layout, Spread};
use gt_ir::{Class, OperandType, Shape};

use super::{Along, Question};

/// The ways of an op along the turns of a mesh, after those chosen along its other axes. Operands
/// on other members count, too: a micro-batch stays one from stage to stage.
pub(super) fn candidates(question: &Question<'_>, whole: &Layout, chosen: &[Along]) -> Vec<Along> {
    let mut found = Vec::new();
    let n = whole.mesh.turns();
    let operands = question.operands.iter().zip(question.types);
    for ((operand, ty), links) in operands.zip(&question.factors.operands) {
        let OperandType::Tensor(ty) = ty else { continue };
        for layout in operand.layouts() {
            if let (Some(Spread::Partial(combine)), true) =
                (layout.spreads.last(), layout.mesh == whole.mesh)
            {
                found.push(Along::Pass(*combine));
            }
            found.extend(cut(layout, &ty.shape, links, chosen, n));
        }
    }
    if let Some(wish) = question.wish
        && question.op.spec().class == Class::Contract
        && found.is_empty()
    {
        found.extend(cut(wish, &question.out.shape, &question.factors.result, chosen, n));
    }
    found.push(Along::Same);
    found.dedup();
    found
}

/// The factor that a layout cuts into turns, with the elements of a turn where other axes are
/// spread as they are chosen.
fn cut(layout: &Layout, shape: &Shape, links: &Links, chosen: &[Along], n: usize) -> Option<Along> {
    let &Spread::Split { dim, chunk } = layout.spreads.last()? else { return None };
    let link = (*links.get(usize::from(dim))?)?;
    let (first, end) = layout.at_once().region(0, shape)[usize::from(dim)];
    let of_factor = |along: &Along| match *along {
        Along::Factor(factor, chunk) if factor == link.factor => Some(chunk),
        Along::Factor(..) | Along::Same | Along::Pass(_) => None,
    };
    let part = chosen.iter().find_map(of_factor);
    let part = part.unwrap_or(shape.sizes()[usize::from(dim)] * link.unit);
    let same = part == (end - first) * link.unit;
    let chunk = if same { chunk } else { (part / link.unit.max(1)).div_ceil(n) };
    Some(Along::Factor(link.factor, chunk.max(1) * link.unit))
}

/// Whether the turns of members have all of a dimension that the members have.
pub(super) fn covers(layout: &Layout, dim: usize, shape: &Shape) -> bool {
    let Some(&Spread::Split { dim: last, chunk }) = layout.spreads.last() else { return true };
    let (first, end) = layout.at_once().region(0, shape)[dim];
    layout.mesh.turns() == 1
        || usize::from(last) != dim
        || layout.mesh.turns() * chunk >= end - first
}
