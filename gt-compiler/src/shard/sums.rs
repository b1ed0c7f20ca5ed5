//! What members do with large sums, such as those of gradients.
//!
//! Each member may combine all of a sum, and repeat what follows. Or each member combines a part of
//! it (reduce-scatter) and computes what follows of that part: an optimizer's update is shared out,
//! and its state stays in parts. The values that the update replaces are then gathered, or they
//! stay in parts, too, and the next segment takes its products in parts or gathers what it needs.
//!
//! A segment is partitioned in each way, and the way of least estimated time is taken. Values that
//! stay in parts are judged by the segment after this one, which finds them so.

use std::collections::BTreeMap;

use gt_ir::OpError;

use super::Request;
use super::report::Change;
use super::scopes::Dropped;
use super::sharder::{Sharder, Sums};

/// The part of the time that another way has to save: estimates are rough.
const LENIENCE: f64 = 0.05;

/// The way of least estimated time.
pub(super) fn decide(request: &Request<'_>, dropped: &Dropped) -> Result<Sums, OpError> {
    let (repeated, repeats) = estimate(request, dropped, Sums::Repeated)?;
    let mut best = (repeated, Sums::Repeated);
    if !repeats {
        return Ok(best.1);
    }
    let shared = estimate(request, dropped, Sums::Shared)?.0;
    let kept = next(request, dropped)?;
    for (seconds, sums) in [(Some(shared), Sums::Shared), (kept, Sums::Kept)] {
        if let Some(seconds) = seconds.filter(|seconds| *seconds < best.0 * (1.0 - LENIENCE)) {
            best = (seconds, sums);
        }
    }
    Ok(best.1)
}

/// Seconds of a segment that repeats itself: values that have come to other members stay there.
fn estimate(request: &Request<'_>, dropped: &Dropped, sums: Sums) -> Result<(f64, bool), OpError> {
    let once = |change: &Change| change.from.mesh != change.to.mesh;
    Sharder::new(request, dropped, sums)?.seconds(once)
}

/// Seconds of the segment if it finds its values as it has left them in parts. None if it leaves
/// none so.
fn next(request: &Request<'_>, dropped: &Dropped) -> Result<Option<f64>, OpError> {
    let left: BTreeMap<_, _> = Sharder::new(request, dropped, Sums::Kept)?.heirs()?;
    let mut inputs = request.inputs.to_vec();
    for (number, layout) in left {
        if let Some(input) = inputs.get_mut(number as usize) {
            input.1 = layout;
        }
    }
    if inputs == request.inputs {
        return Ok(None);
    }
    let request = Request { inputs: &inputs, ..request.clone() };
    Ok(Some(estimate(&request, dropped, Sums::Shared)?.0))
}
