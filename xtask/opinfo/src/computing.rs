//! One pass over a case: results, gradients and second gradients, all recorded before the first
//! read, so that they are one segment.
//!
//! For several results the gradients are those of the sum of the results' products with the given
//! gradients; for a single result they are computed directly. A result that depends on no leaf has
//! gradients of zeros, as in PyTorch with `materialize_grads`.

use gt::autograd::{Graph, grad_with};
use gt::{DynTensor, HostTensor};

use crate::arguments::{Arguments, Outcome};
use crate::protocol::Case;
use crate::table::Row;

/// Results, gradients, second gradients.
pub(crate) type Values = [Vec<HostTensor>; 3];

/// The tensors of a case in the current session. Tensors with gradients are leaves.
pub(crate) fn tensors(case: &Case) -> Vec<DynTensor> {
    let tensor = |(i, host): (usize, &HostTensor)| {
        let tensor = DynTensor::from_host(host.clone());
        if case.leaves.contains(&i) { tensor.requires_grad() } else { tensor }
    };
    case.tensors.iter().enumerate().map(tensor).collect()
}

/// Records one pass and reads its values.
pub(crate) fn pass(row: &Row, case: &Case, tensors: &[DynTensor]) -> Outcome<Values> {
    let arguments = Arguments::new(row.signature, case, tensors)?;
    let results = (row.run)(&arguments)?;
    arguments.all_used()?;
    let leaves: Vec<&DynTensor> = case.leaves.iter().map(|&i| &tensors[i]).collect();
    let given = |numbers: &[Option<usize>]| -> Vec<Option<DynTensor>> {
        numbers.iter().map(|n| n.and_then(|n| tensors.get(n).cloned())).collect()
    };
    let (mut first, mut second) = (Vec::new(), Vec::new());
    if !case.outer.is_empty() {
        let graph = if case.inner.is_empty() { Graph::Free } else { Graph::Create };
        first = gradients(&results, &given(&case.outer), &leaves, graph)?;
    }
    if !case.inner.is_empty() {
        second = gradients(&first, &given(&case.inner), &leaves, Graph::Free)?;
    }
    let read = |tensors: &[DynTensor]| tensors.iter().map(DynTensor::to_host).collect();
    let values: gt::Result<Vec<_>> =
        [&results, &first, &second].into_iter().map(|t| read(t)).collect();
    let mut values = values?.into_iter();
    Ok([(); 3].map(|()| values.next().unwrap_or_default()))
}

/// The gradients of `of` with respect to `leaves`, for these gradients of `of`.
fn gradients(
    of: &[DynTensor],
    given: &[Option<DynTensor>],
    leaves: &[&DynTensor],
    graph: Graph,
) -> gt::Result<Vec<DynTensor>> {
    let pairs = of.iter().zip(given).filter_map(|(x, g)| Some((x, g.as_ref()?)));
    let pairs: Vec<_> = pairs.filter(|(x, _)| x.error().is_some() || x.is_tracked()).collect();
    match pairs.as_slice() {
        [] => Ok(leaves.iter().map(|leaf| leaf.zeros_like()).collect()),
        [(one, gradient)] => grad_with(one, Some(gradient), leaves, graph),
        several => {
            let products = several.iter().map(|(x, g)| x.mul(*g).sum(..));
            let sum = products.reduce(|sum, next| sum.add(&next));
            sum.map_or_else(|| Ok(Vec::new()), |sum| grad_with(&sum, None, leaves, graph))
        }
    }
}
