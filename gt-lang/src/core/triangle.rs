//! The positions of the elements of triangles of matrices.

use gt_ir::DType;

use super::DynTensor;

impl DynTensor {
    /// The positions of the elements on and below a diagonal of a matrix of this size (0 is the
    /// main one, positive ones lie above it), row after row: `i64[2, n]`, the numbers of the rows
    /// and those of the columns.
    ///
    /// ```no_run
    /// # extern crate gt_lang as gt;
    /// # use gt::prelude::*;
    /// let places = DynTensor::tril_indices(3, 3, -1);
    /// assert_eq!(places.to_vec::<i64>()?, [1, 2, 2, 0, 0, 1]);
    /// let x = DynTensor::randn([3, 3], DType::F32);
    /// let below = x.slice((&places.slice(0), &places.slice(1))); // [3]
    /// # Ok::<(), gt::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn tril_indices(rows: usize, columns: usize, diagonal: i64) -> DynTensor {
        let n = n_before(rows, columns, within(rows, columns, diagonal.saturating_add(1)));
        let (lengths, _) = lengths(rows, columns, diagonal.saturating_add(1));
        positions(&lengths, &lengths.zeros_like(), n)
    }

    /// The positions of the elements on and above a diagonal, as [`DynTensor::tril_indices`].
    #[must_use]
    #[track_caller]
    pub fn triu_indices(rows: usize, columns: usize, diagonal: i64) -> DynTensor {
        let before = n_before(rows, columns, within(rows, columns, diagonal));
        let (starts, lengths) = lengths(rows, columns, diagonal);
        positions(&lengths, &starts, rows as i128 * columns as i128 - before)
    }
}

/// A size as a number of tensors; more than any tensor has, if it does not fit.
fn whole(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// A diagonal that cuts a matrix of this size as the given one does.
fn within(rows: usize, columns: usize, diagonal: i64) -> i64 {
    diagonal.clamp(-whole(rows), whole(columns))
}

/// How many elements lie before column `row + diagonal` in all rows together.
fn n_before(rows: usize, columns: usize, diagonal: i64) -> i128 {
    let (rows, columns, diagonal) = (rows as i128, columns as i128, i128::from(diagonal));
    // The rows from `first` on have such elements, and those from `full` on have nothing else.
    let first = (-diagonal).clamp(0, rows);
    let full = (columns - diagonal).clamp(first, rows);
    let rising = (first + diagonal + full - 1 + diagonal) * (full - first) / 2;
    rising + (rows - full) * columns
}

/// How many elements of each row lie before column `row + diagonal`, and how many do not.
#[track_caller]
fn lengths(rows: usize, columns: usize, diagonal: i64) -> (DynTensor, DynTensor) {
    let diagonal = within(rows, columns, diagonal);
    let numbers = DynTensor::arange(0, whole(rows), 1, DType::I64);
    let before = (numbers + diagonal).maximum(0).minimum(whole(columns));
    let others = before.neg() + whole(columns);
    (before, others)
}

/// The positions of `n` elements: of each row those from a start, as many as its length.
#[track_caller]
fn positions(lengths: &DynTensor, starts: &DynTensor, n: i128) -> DynTensor {
    if n == 0 {
        return DynTensor::zeros([2, 0], DType::I64);
    }
    let numbers = DynTensor::arange(0, i64::try_from(n).unwrap_or(i64::MAX), 1, DType::I64);
    let ends = lengths.cumsum(0);
    let rows = ends.searchsorted(&numbers, true);
    // What is to be added to the number of an element to get its column.
    let offsets = starts + lengths - ends;
    let columns = numbers + offsets.index_select(0, &rows);
    DynTensor::stack([&rows, &columns], 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference::Reference;

    /// The positions where the triangle of ones is not 0.
    fn wanted(ones: &DynTensor) -> Vec<i64> {
        ones.nonzero().unwrap().t().to_vec().unwrap()
    }

    #[test]
    fn positions_are_those_of_the_triangles() {
        let (session, _system) = Reference::session();
        let _entered = session.enter();
        for (rows, columns) in [(0, 3), (3, 0), (1, 1), (4, 4), (3, 7), (7, 3)] {
            let ones = DynTensor::ones([rows, columns], DType::I64);
            for diagonal in [i64::MIN, -9, -3, -1, 0, 1, 2, 5, 9, i64::MAX] {
                let at = format!("{rows} x {columns}, {diagonal}");
                let within = diagonal.clamp(-99, 99);
                let below = DynTensor::tril_indices(rows, columns, diagonal);
                assert_eq!(below.to_vec::<i64>().unwrap(), wanted(&ones.tril(within)), "{at}");
                let above = DynTensor::triu_indices(rows, columns, diagonal);
                assert_eq!(above.to_vec::<i64>().unwrap(), wanted(&ones.triu(within)), "{at}");
                assert_eq!((below.size(0), above.dtype()), (2, DType::I64));
            }
        }
        let error = DynTensor::tril_indices(usize::MAX, 9, 0).to_host().unwrap_err();
        assert_eq!(error.loc().file(), file!());
    }
}
