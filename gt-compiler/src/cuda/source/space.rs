//! The iteration space of a kernel, brought into the shape its text is written from.
//!
//! Guarantees: every iteration of the spec is there once; the flat index of a reduction counts its
//! elements in logical order. It writes nothing.

use crate::kernel::{Access, Cut, KernelSpec, Loop};

/// Extents and indices below this fit 32 bits with room for a block beyond the end.
const NARROW: u64 = 1 << 31;

/// A spec without loops of one iteration, neighbors merged where every access walks them as one.
pub(super) struct Space {
    pub(super) spec: KernelSpec,
    /// Loops `..n_parallel` are parallel.
    pub(super) n_parallel: usize,
    /// Whether it combines elements.
    pub(super) folds: bool,
    /// Reduce loops by dims that are neighbors, outermost first, and the iterations of each in a
    /// piece.
    pub(super) groups: Vec<Group>,
    pub(super) cut: Option<Cut>,
    /// Whether indices need 64 bits.
    pub(super) wide: bool,
}

/// Reduce loops whose dims are neighbors.
pub(super) struct Group {
    pub(super) loops: Vec<usize>,
    pub(super) extent: usize,
    /// Iterations in one piece of the reduction.
    pub(super) len: usize,
}

impl Space {
    pub(super) fn new(spec: &KernelSpec, cut: Option<Cut>) -> Space {
        let mut spec = spec.clone();
        if spec.stores.iter().all(|s| s.fold.is_none()) {
            // What is stored in every iteration may be in any order.
            spec.loops.iter_mut().for_each(|l| *l = Loop::parallel(l.extent));
        }
        Space::of(spec, cut)
    }

    /// The space of a kernel whose first loop walks rows: the other loops, folded or not, are what
    /// the threads of a row share.
    pub(super) fn of_rows(spec: &KernelSpec) -> Space {
        let mut spec = spec.clone();
        for l in spec.loops.iter_mut().skip(1).filter(|l| !l.reduce) {
            *l = Loop { extent: l.extent, reduce: true, joined: true };
        }
        Space::of(spec, None)
    }

    fn of(mut spec: KernelSpec, cut: Option<Cut>) -> Space {
        drop_unit_loops(&mut spec);
        if spec.loops.iter().all(|l| !l.reduce) {
            // One element each is its own fold.
            spec.stores.iter_mut().for_each(|s| s.fold = None);
        }
        merge_loops(&mut spec);
        let n_parallel = spec.loops.iter().filter(|l| !l.reduce).count();
        let folds = spec.stores.iter().any(|s| s.fold.is_some());
        let groups = groups(&spec, cut);
        let mut space = Space { spec, n_parallel, folds, groups, cut, wide: false };
        space.wide = space.reach() >= NARROW;
        space
    }

    /// Number of elements of the parallel loops together.
    pub(super) fn parallel_len(&self) -> usize {
        self.spec.parallel_len()
    }

    /// Elements that one result of one piece is made of.
    pub(super) fn reduced_len(&self) -> usize {
        self.groups.iter().map(|g| g.len).product()
    }

    /// Pieces of the reduction.
    pub(super) fn n_chunks(&self) -> usize {
        self.cut.map_or(1, |c| c.n_chunks)
    }

    /// The largest index or count that the text computes.
    fn reach(&self) -> u64 {
        let rows = self.parallel_len() as u64 * self.n_chunks() as u64;
        let along = |a: &Access| {
            let far = |(l, s): (&Loop, &i64)| l.extent as u64 * s.max(&0).unsigned_abs();
            a.offset.max(0) as u64 + self.spec.loops.iter().zip(&a.strides).map(far).sum::<u64>()
        };
        let loads = self.spec.loads().map(|(_, a)| a);
        let all = loads.chain(self.spec.stores.iter().map(|s| &s.access));
        all.map(along).fold(rows.max(self.reduced_len() as u64 * 2), u64::max)
    }

    /// A number as a literal of the index type.
    pub(super) fn literal(&self, n: impl Into<i128>) -> String {
        let n: i128 = n.into();
        if self.wide { format!("{}ull", n as u64) } else { format!("{}u", n as u32) }
    }

    /// The index type.
    pub(super) fn index(&self) -> &'static str {
        if self.wide { "u64" } else { "u32" }
    }

    /// The index an access gives at a point, whose coordinate along each loop is an expression.
    /// Unsigned arithmetic wraps, so that negative strides need no other type.
    pub(super) fn at(&self, access: &Access, coordinates: &[String]) -> String {
        let number = |n: i64| self.literal(i128::from(n.unsigned_abs()));
        let moved = access.strides.iter().zip(coordinates).filter(|(s, _)| **s != 0);
        let mut terms: Vec<(i64, String)> = moved
            .map(|(&s, coordinate)| match s {
                1 | -1 => (s, coordinate.clone()),
                s => (s, format!("{coordinate} * {}", number(s))),
            })
            .collect();
        if access.offset != 0 || terms.is_empty() {
            terms.insert(0, (access.offset, number(access.offset)));
        }
        sum(&terms)
    }

    /// The coordinates along loops of which `flat` is the row-major index.
    pub(super) fn split(&self, loops: &[usize], flat: &str) -> Vec<String> {
        let mut inner: usize = 1;
        let mut out = Vec::new();
        for (k, &l) in loops.iter().enumerate().rev() {
            let extent = self.spec.loops[l].extent;
            let own = match inner {
                1 => flat.to_owned(),
                n => format!("{flat} / {}", self.literal(n.max(1) as i128)),
            };
            out.push(match k {
                0 => own,
                _ => format!("{own} % {}", self.literal(extent.max(1) as i128)),
            });
            inner = inner.saturating_mul(extent);
        }
        out.reverse();
        out
    }
}

/// Terms with their signs.
fn sum(terms: &[(i64, String)]) -> String {
    let mut out = String::new();
    for (sign, term) in terms {
        out += match (out.is_empty(), *sign < 0) {
            (true, false) => "",
            (true, true) => "-",
            (false, false) => " + ",
            (false, true) => " - ",
        };
        out += term;
    }
    out
}

fn drop_unit_loops(spec: &mut KernelSpec) {
    for l in (0..spec.loops.len()).rev() {
        if spec.loops[l].extent != 1 {
            continue;
        }
        let dropped = spec.loops.remove(l);
        if let Some(next) = spec.loops.get_mut(l) {
            next.joined &= dropped.joined;
        }
        for access in spec.accesses_mut() {
            access.strides.remove(l);
        }
    }
}

fn merge_loops(spec: &mut KernelSpec) {
    for inner in (1..spec.loops.len()).rev() {
        let (a, b) = (spec.loops[inner - 1], spec.loops[inner]);
        let fits = |x: &Access| x.strides[inner - 1] == x.strides[inner] * b.extent as i64;
        if a.reduce != b.reduce || b.reduce && !b.joined || !spec.accesses().all(fits) {
            continue;
        }
        spec.loops[inner - 1] = Loop { extent: a.extent * b.extent, ..a };
        spec.loops.remove(inner);
        for access in spec.accesses_mut() {
            access.strides.remove(inner - 1);
        }
    }
}

fn groups(spec: &KernelSpec, cut: Option<Cut>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (l, of) in spec.loops.iter().enumerate().filter(|(_, l)| l.reduce) {
        match groups.last_mut() {
            Some(group) if of.joined => {
                group.loops.push(l);
                group.extent *= of.extent;
            }
            _ => groups.push(Group { loops: vec![l], extent: of.extent, len: 0 }),
        }
    }
    for (i, group) in groups.iter_mut().enumerate() {
        let chunk = cut.filter(|c| c.at == i).map(|c| c.chunk);
        group.len = chunk.unwrap_or(group.extent);
    }
    groups
}
