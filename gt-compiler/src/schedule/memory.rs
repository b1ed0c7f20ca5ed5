//! Where the buffers of a plan lie: lifetimes, and one arena for what does not outlive a run.
//!
//! Buffers whose lifetimes overlap never overlap in the arena.

use serde::{Deserialize, Serialize};

/// Where a buffer lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Place {
    /// In the memory of an input.
    Input(u32),
    /// In memory of its own that outlives the run, or in that of a donated input nobody else holds.
    Output { donor: Option<u32> },
    /// In the arena, from this offset on.
    Arena(usize),
    /// Nowhere: the scratch of its tile, or no job is left that uses it.
    Nowhere,
}

/// First and last step of a plan that uses a buffer.
#[derive(Clone, Copy)]
pub(crate) struct Life {
    pub(crate) first: usize,
    pub(crate) last: usize,
}

impl Life {
    /// A buffer is used by this step, which comes after all that used it before.
    pub(crate) fn used(life: &mut Option<Life>, step: usize) {
        life.get_or_insert(Life { first: step, last: step }).last = step;
    }
}

/// Offsets for these buffers by their lifetimes, first fit, larger buffers first; and the end of
/// all.
pub(crate) fn layout(
    sizes: &[usize],
    mut todo: Vec<(usize, Life)>,
    align: usize,
) -> (Vec<(usize, usize)>, usize) {
    todo.sort_by_key(|(b, life)| (std::cmp::Reverse(sizes[*b]), life.first, *b));
    let mut placed: Vec<(usize, usize, Life)> = Vec::new(); // start, end, life; by start
    let (mut places, mut end) = (Vec::with_capacity(todo.len()), 0);
    for (b, life) in todo {
        // At least a line: code may load what does not change in a loop before it knows that the
        // loop has no rounds.
        let size = sizes[b].max(1).next_multiple_of(align);
        let mut at = 0;
        for (start, stop, other) in &placed {
            let overlaps = other.first <= life.last && life.first <= other.last;
            if !overlaps {
                continue;
            }
            if at + size <= *start {
                break;
            }
            at = at.max(*stop);
        }
        places.push((b, at));
        let position = placed.partition_point(|(start, ..)| *start <= at);
        placed.insert(position, (at, at + size, life));
        end = end.max(at + size);
    }
    (places, end)
}
