//! Elements and slices added, or otherwise combined, at positions that are data.
//!
//! Guarantees: floats that are added at one place are added in the order of the index, or in that
//! order within parts of it that are added up after each other; integers in any order, which
//! changes no bit of them. Below, "add" stands for other operations, too. Threads share what cannot
//! meet: the slices of an outer dimension, columns, or rows of the result. Each thread that has
//! rows reads all positions. What many positions add to few places has a table for each part of the
//! index, and the tables are added in their order. The number of parts depends on the sizes alone
//! for floats, and on the threads for integers. Does not check positions.
#![expect(unsafe_code, reason = "hands disjoint parts of a result to several threads")]

use std::ops::Range;

use bytemuck::Pod;

use super::{COPIED, GRAIN, Indexed, Rows};
use crate::native::{context::Target, slices::parallel_chunks};

/// Columns of one task at least: several lines of the cache.
const COLUMNS: usize = 64;
/// Elements of a slice for which a thread that has some rows reads the index of all, at least.
const WIDE: usize = 4;
/// Positions of the index by which rows are shared evenly.
const SAMPLES: usize = 1 << 12;
/// Elements of all tables at most: more would not stay in the caches.
const TABLES: usize = 1 << 22;
/// Parts of an index of floats that have tables, at most.
const PARTS: usize = 16;
/// Parts of the rows that are counted for it.
const BUCKETS: usize = 1 << 10;

/// Whether the order of additions matters to the bits of their result.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Kept,
    Free,
}

/// An addition at positions that have been checked.
pub(super) struct Add<'a> {
    pub(super) of: &'a Indexed<'a>,
    pub(super) index: &'a [i64],
    pub(super) src: &'a [u8],
    /// Whether an index is of whole slices.
    pub(super) slices: bool,
    /// Whether what was at the positions goes: those of one position are added up all the same.
    pub(super) replaces: bool,
}

/// What one task adds: the slices of these outer positions, at these rows, and of them these
/// columns.
struct Part {
    outer: Range<usize>,
    rows: Range<usize>,
    columns: Range<usize>,
}

impl Add<'_> {
    /// Adds to the base, or to what the result holds.
    pub(super) fn typed<T: Pod + Send + Sync>(
        &self,
        base: Option<&[u8]>,
        to: &mut [u8],
        order: Order,
        nothing: T,
        add: impl Fn(&mut [T], &[T]) + Sync,
    ) {
        if self.src.is_empty() || self.slices {
            self.of.copy_base(base, to);
        }
        if self.src.is_empty() {
            return;
        }
        let (src, to): (&[T], &mut [T]) =
            (bytemuck::cast_slice(self.src), bytemuck::cast_slice_mut(to));
        let clear = |to: &mut [T], _: &[T]| to.fill(nothing);
        if !self.slices {
            return self.elements(base.map(bytemuck::cast_slice), src, to, &clear, &add);
        }
        if self.replaces {
            self.slices(src, to, &clear);
        }
        match self.n_tables(order, to.len()) {
            Some(n_tables) => self.tables(n_tables, nothing, src, to, &add),
            None => self.slices(src, to, &add),
        }
    }

    /// The number of tables, if they are few elements beside what is added.
    fn n_tables(&self, order: Order, n_places: usize) -> Option<usize> {
        let cut = self.of.cut();
        let added = self.index.len() * cut.inner;
        let most = TABLES.min(added / 2) / n_places.max(1);
        let n_tables = match order {
            // As many for each of two, four and so on threads.
            Order::Kept => PARTS.min(added / GRAIN).min(most).checked_ilog2().map_or(0, |n| 1 << n),
            Order::Free => self.of.context.threads.count().min(added / GRAIN),
        };
        (cut.outer == 1 && n_tables > 1 && n_tables <= most).then_some(n_tables)
    }

    /// Each part of the index is added in a table of its own; the tables are added at last.
    fn tables<T: Pod + Send + Sync>(
        &self,
        n_tables: usize,
        nothing: T,
        src: &[T],
        to: &mut [T],
        add: &(impl Fn(&mut [T], &[T]) + Sync),
    ) {
        let (context, inner) = (self.of.context, self.of.cut().inner);
        let each = self.index.len().div_ceil(n_tables);
        let mut tables = vec![nothing; n_tables * to.len()];
        let bytes = size_of_val(to);
        parallel_chunks(context, bytemuck::cast_slice_mut(&mut tables), bytes, &|task, table| {
            let table: &mut [T] = bytemuck::cast_slice_mut(table);
            let first = (task * each).min(self.index.len());
            let index = &self.index[first..self.index.len().min(first + each)];
            for (row, &i) in src[first * inner..].chunks_exact(inner).zip(index) {
                add(&mut table[i as usize * inner..][..inner], row);
            }
        });
        let len = to.len();
        parallel_chunks(context, bytemuck::cast_slice_mut(to), COPIED, &|i, part| {
            let part: &mut [T] = bytemuck::cast_slice_mut(part);
            let at = i * (COPIED / size_of::<T>());
            for table in tables.chunks_exact(len) {
                let n = part.len();
                add(part, &table[at..][..n]);
            }
        });
    }

    /// Parts of `n` outer slices or columns, and how many one task has.
    fn tasks(&self, n: usize, least: usize) -> (usize, usize) {
        let each = n.div_ceil(2 * self.of.context.threads.count()).max(least);
        (n.div_ceil(each), each)
    }

    /// The parts of an addition of slices, for the threads there are now.
    fn parts(&self) -> Vec<Part> {
        let (cut, n, n_threads) =
            (self.of.cut(), self.index.len(), self.of.context.threads.count());
        let all = || Part { outer: 0..cut.outer, rows: 0..cut.axis, columns: 0..cut.inner };
        let each = |(n_tasks, each): (usize, usize), all: usize| {
            (0..n_tasks).map(move |task| task * each..all.min((task + 1) * each))
        };
        if cut.outer > 1 {
            let tasks = self.tasks(cut.outer, GRAIN.div_ceil(n * cut.inner));
            return each(tasks, cut.outer).map(|outer| Part { outer, ..all() }).collect();
        }
        if cut.inner >= WIDE && cut.inner < COLUMNS * n_threads && n * cut.inner >= 2 * GRAIN {
            let shares = self.shares(cut.axis, n_threads);
            return shares.into_iter().map(|rows| Part { rows, ..all() }).collect();
        }
        let tasks = self.tasks(cut.inner, COLUMNS.max(GRAIN / n));
        each(tasks, cut.inner).map(|columns| Part { columns, ..all() }).collect()
    }

    /// Ranges of the rows that the index names about equally often, by samples of it.
    fn shares(&self, n_rows: usize, n_shares: usize) -> Vec<Range<usize>> {
        let width = n_rows.div_ceil(BUCKETS).max(1);
        let mut counts = vec![0_usize; n_rows.div_ceil(width)];
        for i in self.index.iter().step_by(self.index.len() / SAMPLES + 1) {
            counts[*i as usize / width] += 1;
        }
        let most = counts.iter().sum::<usize>().div_ceil(n_shares);
        let (mut shares, mut start, mut counted) = (Vec::new(), 0, 0);
        for (bucket, count) in counts.iter().enumerate() {
            counted += count;
            if counted >= most {
                let end = n_rows.min((bucket + 1) * width);
                shares.push(start..end);
                (start, counted) = (end, 0);
            }
        }
        shares.push(start..n_rows);
        shares
    }

    fn slices<T: Pod + Send + Sync>(
        &self,
        src: &[T],
        to: &mut [T],
        add: &(impl Fn(&mut [T], &[T]) + Sync),
    ) {
        let (cut, n) = (self.of.cut(), self.index.len());
        let (slab, from) = (cut.axis * cut.inner, n * cut.inner);
        let target = Target(to.as_mut_ptr().cast());
        let one = |src: &[T], slab: usize, part: &Part| {
            if cut.inner == 1 && part.rows.len() == cut.axis {
                let line = target.address().cast::<T>().wrapping_add(slab);
                // SAFETY: as below, of all rows of this outer position.
                let line = unsafe { std::slice::from_raw_parts_mut(line, cut.axis) };
                return along(line, self.index, src, add);
            }
            for (row, &i) in src.chunks_exact(cut.inner).zip(self.index) {
                if !part.rows.contains(&(i as usize)) {
                    continue;
                }
                let at = slab + i as usize * cut.inner + part.columns.start;
                let to = target.address().cast::<T>().wrapping_add(at);
                // SAFETY: the slice has been checked, and these columns of it are this task's: no
                // other task has its outer position, its row and its columns.
                let to = unsafe { std::slice::from_raw_parts_mut(to, part.columns.len()) };
                add(to, &row[part.columns.clone()]);
            }
        };
        let parts = self.parts();
        self.of.context.threads.run(parts.len(), &|task, _| {
            for o in parts[task].outer.clone() {
                one(&src[o * from..][..from], o * slab, &parts[task]);
            }
        });
    }

    /// Elements that cannot meet are shared by their position in the first dimension, or by their
    /// column. A task that has positions of the first dimension copies the base there as well, and
    /// then has it in a cache.
    fn elements<T: Pod + Send + Sync>(
        &self,
        base: Option<&[T]>,
        src: &[T],
        to: &mut [T],
        clear: &(impl Fn(&mut [T], &[T]) + Sync),
        add: &(impl Fn(&mut [T], &[T]) + Sync),
    ) {
        let Indexed { ty, axis, step, .. } = self.of;
        let shape = &step.inputs[1].1.shape;
        let lines = Lines { of: self, rows: Rows::new(&ty.shape, shape, *axis), src };
        let sizes = shape.sizes();
        let (n_outer, columns) = (sizes[0], lines.rows.len);
        let n_lines = self.index.len() / columns;
        let (slab, n_slabs) = (ty.shape.strides()[0], ty.shape.sizes()[0]);
        if *axis > 0 && n_slabs > 1 {
            let target = Target(to.as_mut_ptr().cast());
            let per = n_lines / n_outer;
            let (n_tasks, each) = self.tasks(n_slabs, GRAIN.div_ceil(slab.max(per * columns)));
            return self.of.context.threads.run(n_tasks, &|task, _| {
                for slice in task * each..n_slabs.min((task + 1) * each) {
                    let at = target.address().cast::<T>().wrapping_add(slice * slab);
                    // SAFETY: no other task has this position of the first dimension.
                    let to = unsafe { std::slice::from_raw_parts_mut(at, slab) };
                    if let Some(base) = base {
                        to.copy_from_slice(&base[slice * slab..][..slab]);
                    }
                    let here = slice.min(n_outer) * per..(slice + 1).min(n_outer) * per;
                    if self.replaces {
                        // SAFETY: as above; these lines name places there.
                        unsafe { lines.apply(&target, here.clone(), 0..columns, clear) };
                    }
                    // SAFETY: as above.
                    unsafe { lines.apply(&target, here, 0..columns, add) };
                }
            });
        }
        self.of.copy_base(base.map(bytemuck::cast_slice), bytemuck::cast_slice_mut(to));
        let target = Target(to.as_mut_ptr().cast());
        let (n_tasks, each) = match axis + 1 < sizes.len() {
            true => self.tasks(columns, COLUMNS.max(GRAIN / n_lines)),
            false => (1, columns),
        };
        self.of.context.threads.run(n_tasks, &|task, _| {
            let part = task * each..columns.min((task + 1) * each);
            if self.replaces {
                // SAFETY: no other task has these columns, or there is one task.
                unsafe { lines.apply(&target, 0..n_lines, part.clone(), clear) };
            }
            // SAFETY: as above.
            unsafe { lines.apply(&target, 0..n_lines, part, add) };
        });
    }
}

/// Lines of the index, and what is added at their positions.
struct Lines<'a, T> {
    of: &'a Add<'a>,
    rows: Rows,
    src: &'a [T],
}

impl<T> Lines<'_, T> {
    /// Adds these columns of these lines.
    ///
    /// # Safety
    /// Positions have been checked, and nobody else has the places that these name in `target`.
    unsafe fn apply(
        &self,
        target: &Target,
        lines: Range<usize>,
        columns: Range<usize>,
        add: &impl Fn(&mut [T], &[T]),
    ) {
        let Lines { of: Add { of, index, .. }, rows, src } = self;
        for (row, base) in lines.clone().zip(rows.from(lines.start)) {
            let first = row * rows.len;
            if rows.is_along() {
                let line = target.address().cast::<T>().wrapping_add(base);
                // SAFETY: the line is inside the value, and nobody else has its places.
                let line =
                    unsafe { std::slice::from_raw_parts_mut(line, of.ty.shape.sizes()[of.axis]) };
                let range = first + columns.start..first + columns.end;
                along(line, &index[range.clone()], &src[range], add);
                continue;
            }
            for j in columns.clone() {
                let at = rows.at(base, index[first + j], j);
                let to = target.address().cast::<T>().wrapping_add(at);
                // SAFETY: the position has been checked, and nobody else has it.
                let to = unsafe { std::slice::from_mut(&mut *to) };
                add(to, std::slice::from_ref(&src[first + j]));
            }
        }
    }
}

/// Adds each element at its index in a line.
fn along<T>(line: &mut [T], index: &[i64], src: &[T], add: &impl Fn(&mut [T], &[T])) {
    for (i, s) in index.iter().zip(src) {
        add(std::slice::from_mut(&mut line[*i as usize]), std::slice::from_ref(s));
    }
}
