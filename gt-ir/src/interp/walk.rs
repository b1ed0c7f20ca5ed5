//! Walks over strided index spaces, one addition a step in the common case.
//!
//! Each data movement and reduction of the interpreter is a walk: the positions of one array in
//! row-major order, told as offsets into another. A stride of zero repeats, a larger one skips, a
//! negative one turns around.

use smallvec::SmallVec;

use crate::shape::MAX_RANK;

/// One stride an axis.
pub(super) type Strides = SmallVec<[isize; MAX_RANK]>;

/// The strides of a row-major array.
pub(super) fn row_major(sizes: &[usize]) -> Strides {
    let mut strides: Strides = sizes.iter().map(|_| 1).collect();
    for axis in (1..sizes.len()).rev() {
        strides[axis - 1] = strides[axis].wrapping_mul(sizes[axis] as isize);
    }
    strides
}

/// The offsets that the positions of `sizes`, in row-major order, have under `strides`.
pub(super) struct Walk {
    sizes: SmallVec<[usize; MAX_RANK]>,
    strides: Strides,
    index: SmallVec<[usize; MAX_RANK]>,
    offset: isize,
    left: usize,
}

impl Walk {
    /// Starts at `start`. `strides` has an entry for each of `sizes`. Steps wrap: an axis of one
    /// element may have any.
    pub(super) fn new(sizes: &[usize], strides: &[isize], start: isize) -> Walk {
        debug_assert_eq!(sizes.len(), strides.len(), "a stride for each axis");
        Walk {
            sizes: sizes.into(),
            strides: strides.into(),
            index: sizes.iter().map(|_| 0).collect(),
            offset: start,
            left: sizes.iter().product(),
        }
    }
}

impl Iterator for Walk {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if self.left == 0 {
            return None;
        }
        let here = self.offset;
        self.left -= 1;
        for axis in (0..self.sizes.len()).rev() {
            self.index[axis] += 1;
            self.offset = self.offset.wrapping_add(self.strides[axis]);
            if self.index[axis] < self.sizes[axis] {
                break;
            }
            self.index[axis] = 0;
            self.offset = self
                .offset
                .wrapping_sub(self.strides[axis].wrapping_mul(self.sizes[axis] as isize));
        }
        Some(here as usize)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Walk {}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(sizes: &[usize], strides: &[isize], start: isize) -> Vec<usize> {
        Walk::new(sizes, strides, start).collect()
    }

    #[test]
    fn a_walk_visits_each_position_once_in_order() {
        assert_eq!(row_major(&[2, 3, 4]).as_slice(), [12, 4, 1]);
        assert_eq!(walk(&[2, 3], &row_major(&[2, 3]), 0), [0, 1, 2, 3, 4, 5]);
        assert_eq!(walk(&[3, 2], &[1, 3], 0), [0, 3, 1, 4, 2, 5]);
        assert_eq!(walk(&[2, 2], &[0, 1], 5), [5, 6, 5, 6]);
        assert_eq!(walk(&[3], &[-2], 5), [5, 3, 1]);
        assert_eq!(walk(&[], &[], 7), [7]);
        assert_eq!(walk(&[2, 0], &[1, 1], 0), [0_usize; 0]);
    }
}
