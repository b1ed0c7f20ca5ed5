//! The shape of a nest: which loops there are after merging, in which order they run, which one is
//! vectorized and which ones are split.
//!
//! Guarantees: the choice depends on the spec alone (never on the number of threads), so that the
//! same program gives the same bits anywhere. It does not write code.

use gt_ir::DType;
use serde::{Deserialize, Serialize};
use smallvec::{SmallVec, smallvec};

use super::reorder::reorder;
use super::spec::{ACCUMULATORS, Access, Expr, FoldOrder, KernelSpec, Loop, PerLoop};

/// Elements one accumulator combines before its result is folded with others in `f64`.
const MAX_CHAIN: usize = 512;

/// Loops that run as one, outermost first: nearly always a single one.
pub(crate) type Walk = SmallVec<[usize; 2]>;

/// A spec with its loops brought into shape.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Nest {
    pub(crate) spec: KernelSpec,
    /// Loops of `spec` from the outermost to the innermost, the parallel ones first. Reduce loops
    /// whose dims are neighbors, but which some access does not walk as one, are one walk where
    /// their common index matters: where the walk is cut, or where it ends a row whose innermost
    /// loop is no multiple of the accumulators.
    pub(super) order: SmallVec<[Walk; 8]>,
    /// Position in `order` of the vectorized walk; those after it reduce.
    pub(super) vector: Option<usize>,
    /// Lanes of a 128-bit vector; 1 when this kernel runs on scalars.
    pub(super) lanes: usize,
    /// Vectors of 128 bits handled together.
    pub(super) unroll: usize,
    /// The walk whose range is the first argument, and how many of its iterations make one of that
    /// range.
    pub(super) split_parallel: Option<(usize, usize)>,
    /// The walk whose range is the second argument.
    pub(super) split_reduce: Option<usize>,
    cut: Option<Cut>,
    /// Position in `order` of the outermost loop of a row, if its loops stand one by one although
    /// their common index matters.
    pub(super) row: Option<usize>,
}

/// How a long reduction is done in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cut {
    /// Which of the reduced extents is cut.
    pub(crate) at: usize,
    /// Iterations of it in a piece.
    pub(crate) chunk: usize,
    pub(crate) n_chunks: usize,
}

/// Decides about pieces by the extents of the reduction alone (as [`KernelSpec::reduced_extents`]
/// gives them), so that the result is the same everywhere.
pub(crate) fn cut(extents: &[usize], order: FoldOrder) -> Option<Cut> {
    let at = extents
        .iter()
        .position(|e| *e >= 16)
        .or_else(|| (0..extents.len()).max_by_key(|&i| (extents[i], std::cmp::Reverse(i))))?;
    let target = MAX_CHAIN * if order == FoldOrder::Rows { ACCUMULATORS } else { 1 };
    let (extent, len) = (extents[at], extents.iter().product::<usize>());
    if len <= 2 * target {
        return None;
    }
    let mut chunk = (target / (len / extent)).max(1);
    if order == FoldOrder::Rows && at + 1 == extents.len() {
        chunk = chunk.next_multiple_of(ACCUMULATORS); // elements keep their accumulators
    }
    let n_chunks = extent.div_ceil(chunk);
    (n_chunks > 1).then_some(Cut { at, chunk, n_chunks })
}

impl Nest {
    pub(crate) fn new(mut spec: KernelSpec) -> Nest {
        drop_unit_loops(&mut spec);
        if spec.loops.iter().all(|l| !l.reduce) {
            // One element each is its own fold.
            spec.stores.iter_mut().for_each(|s| s.fold = None);
        }
        let folds = spec.stores.iter().any(|s| s.fold.is_some());
        let cut = if folds { cut(&spec.reduced_extents(), spec.fold_order) } else { None };
        let scale = merge_loops(&mut spec);
        let first = reorder(&mut spec);
        let (order, split_reduce) = walks(&spec, folds, cut);
        let vector = vectorized(&spec, &order);
        let split_parallel =
            if spec.rows { Some((first, scale)) } else { widest(&spec).map(|l| (l, 1)) };
        let (lanes, unroll) = (1, 1);
        let mut nest = Nest {
            spec,
            order,
            vector,
            lanes,
            unroll,
            split_parallel,
            split_reduce,
            cut,
            row: None,
        };
        (nest.lanes, nest.unroll) = nest.block();
        nest
    }

    /// The same nest with the loops of the last walk one by one, and with vectors in the loop where
    /// they are best then.
    pub(super) fn loop_by_loop(&self) -> Nest {
        let mut nest = self.clone();
        if nest.order.last().is_some_and(|walk| walk.len() > 1)
            && let Some(walk) = nest.order.pop()
        {
            nest.row = Some(nest.order.len());
            nest.order.extend(walk.into_iter().map(|l| smallvec![l]));
            nest.vector = vectorized(&nest.spec, &nest.order);
        }
        nest
    }

    /// Lanes and vectors of a block.
    fn block(&self) -> (usize, usize) {
        let Some(vector) = self.vector else { return (1, 1) };
        let (_, varying) = self.depths();
        let extent = self.order[vector].last().map_or(1, |&l| self.spec.loops[l].extent);
        let lanes = lanes(&self.spec, extent, &varying);
        if self.gathers_rows() {
            return (lanes, 1); // each vector has many accumulators
        }
        (lanes, unroll(&self.spec, extent / lanes))
    }

    /// Whether each lane has a row's accumulators of its own.
    pub(super) fn gathers_rows(&self) -> bool {
        self.folds()
            && self.spec.fold_order == FoldOrder::Rows
            && self.vector.is_some_and(|v| !self.is_reduce(v))
    }

    pub(super) fn folds(&self) -> bool {
        self.spec.stores.iter().any(|s| s.fold.is_some())
    }

    /// Accumulators a fold of elements of a dtype has; those beyond a short row would never be
    /// used.
    pub(super) fn accumulators(&self, dtype: DType) -> usize {
        let most = if dtype.size() == 8 { ACCUMULATORS / 2 } else { ACCUMULATORS };
        let n = self.order.len();
        match self.spec.fold_order {
            FoldOrder::Rows if n > 0 => {
                let row = (self.row.unwrap_or(n - 1)..n).map(|at| self.extent(at));
                row.product::<usize>().next_power_of_two().min(most)
            }
            FoldOrder::Rows | FoldOrder::Columns => 1,
        }
    }

    /// Iterations of the parallel range of a call.
    pub(crate) fn parallel_extent(&self) -> usize {
        self.split_parallel.map_or(1, |(at, scale)| self.extent(at) / scale)
    }

    /// Iterations of the reduce range of a call, which counts only where the reduction is cut.
    pub(crate) fn reduce_extent(&self) -> usize {
        self.split_reduce.map_or(1, |at| self.extent(at))
    }

    /// Iterations of a walk.
    pub(super) fn extent(&self, at: usize) -> usize {
        self.order[at].iter().map(|&l| self.spec.loops[l].extent).product()
    }

    pub(super) fn is_reduce(&self, at: usize) -> bool {
        self.spec.loops[self.order[at][0]].reduce
    }

    /// Position in `order` of the first reduce loop.
    pub(super) fn first_reduce(&self) -> Option<usize> {
        (0..self.order.len()).find(|&at| self.is_reduce(at))
    }

    /// The stride of an access along the innermost loop of a walk.
    pub(super) fn stride(&self, access: &Access, at: usize) -> i64 {
        self.order[at].last().map_or(0, |&l| access.strides[l])
    }

    /// For each node, how many walks it stands inside of, and whether it changes along the
    /// vectorized one.
    pub(super) fn depths(&self) -> (Vec<usize>, Vec<bool>) {
        let moves =
            |access: &Access, at: usize| self.order[at].iter().any(|&l| access.strides[l] != 0);
        let mut depth: Vec<usize> = Vec::new();
        let mut varying: Vec<bool> = Vec::new();
        for node in &self.spec.nodes {
            let (d, v) = match &node.expr {
                Expr::Load { access, .. } | Expr::Index(access) => (
                    (0..self.order.len())
                        .rev()
                        .find(|&at| moves(access, at))
                        .map_or(0, |at| at + 1),
                    self.vector.is_some_and(|v| moves(access, v)),
                ),
                Expr::Scalar(_)
                | Expr::Unary(..)
                | Expr::Binary(..)
                | Expr::Select(..)
                | Expr::Cast(_) => node.expr.operands().iter().fold((0, false), |(d, v), o| {
                    (d.max(depth[o.0 as usize]), v || varying[o.0 as usize])
                }),
            };
            depth.push(d);
            varying.push(v);
        }
        (depth, varying)
    }
}

fn drop_unit_loops(spec: &mut KernelSpec) {
    let first = usize::from(spec.rows);
    for l in (first..spec.loops.len())
        .rev()
        .filter(|&l| spec.loops[l].extent == 1)
        .collect::<PerLoop<usize>>()
    {
        let dropped = spec.loops.remove(l);
        if let Some(next) = spec.loops.get_mut(l) {
            next.joined &= dropped.joined;
        }
        for access in spec.accesses_mut() {
            access.strides.remove(l);
        }
    }
}

/// Makes one loop of two neighbors wherever every access walks them as one. Gives the extent of
/// what the row loop was merged with.
fn merge_loops(spec: &mut KernelSpec) -> usize {
    let mut scale = 1;
    for inner in (1..spec.loops.len()).rev() {
        let (a, b) = (spec.loops[inner - 1], spec.loops[inner]);
        let fits = |x: &Access| x.strides[inner - 1] == x.strides[inner] * b.extent as i64;
        let neighbors = a.reduce == b.reduce && (b.joined || !b.reduce);
        if !neighbors || !spec.accesses().all(fits) {
            continue;
        }
        if spec.rows && inner == 1 {
            scale = b.extent.max(1); // of an empty loop nothing is called
        }
        spec.loops[inner - 1] = Loop { extent: a.extent * b.extent, ..a };
        spec.loops.remove(inner);
        for access in spec.accesses_mut() {
            access.strides.remove(inner - 1);
        }
    }
    scale
}

/// The loops in running order, and the position of the one that is cut.
fn walks(spec: &KernelSpec, folds: bool, cut: Option<Cut>) -> (SmallVec<[Walk; 8]>, Option<usize>) {
    let of_kind =
        |reduce: bool| (0..spec.loops.len()).filter(move |&l| spec.loops[l].reduce == reduce);
    let mut order: SmallVec<[Walk; 8]> = of_kind(false).map(|l| smallvec![l]).collect();
    let mut groups: SmallVec<[Walk; 8]> = SmallVec::new();
    for l in of_kind(true) {
        match groups.last_mut() {
            Some(group) if spec.loops[l].joined => group.push(l),
            _ => groups.push(smallvec![l]),
        }
    }
    let (n_groups, mut split) = (groups.len(), None);
    for (i, group) in groups.into_iter().enumerate() {
        let is_cut = cut.is_some_and(|c| c.at == i);
        if is_cut {
            split = Some(order.len());
        }
        // Each element of a row has the accumulator of its number in the row: that in the innermost
        // loop says as much if whole rounds of accumulators fit.
        let inner = group.last().map_or(1, |&l| spec.loops[l].extent);
        let counts = folds && spec.fold_order == FoldOrder::Rows && i + 1 == n_groups;
        if is_cut || counts && !inner.is_multiple_of(ACCUMULATORS) {
            order.push(group);
        } else {
            order.extend(group.into_iter().map(|l| smallvec![l]));
        }
    }
    (order, split)
}

/// The position of the vectorized walk.
fn vectorized(spec: &KernelSpec, order: &[Walk]) -> Option<usize> {
    let is_reduce = |at: usize| spec.loops[order[at][0]].reduce;
    let n_parallel = (0..order.len()).filter(|&at| !is_reduce(at)).count();
    let innermost = |at: usize| order[at][order[at].len() - 1];
    let contiguous = |l: usize| spec.accesses().filter(|a| a.strides[l] == 1).count();
    let n_walks = order.len();
    if n_walks == 0 {
        return None;
    }
    let parallel = n_parallel.checked_sub(1);
    if n_walks == n_parallel {
        return parallel;
    }
    // A block of vectors lies in one run of the innermost loop.
    let last = innermost(n_walks - 1);
    let fits =
        order[n_walks - 1].len() == 1 || spec.loops[last].extent.is_multiple_of(ACCUMULATORS);
    let folds = spec.stores.iter().any(|s| s.fold.is_some());
    let Some(parallel) = parallel else {
        return (fits && spec.fold_order == FoldOrder::Rows).then_some(n_walks - 1);
    };
    if folds && spec.fold_order == FoldOrder::Columns || !fits {
        return Some(parallel);
    }
    // A result walks the last parallel loop, never a reduce loop: at equal counts the loads decide
    // for the reduce loop, unless that takes more of them from far apart.
    let across = innermost(parallel);
    let scattered = |l: usize| spec.loads().filter(|(_, a)| !matches!(a.strides[l], 0 | 1)).count();
    let wins = contiguous(last) >= 1
        && contiguous(last) + 1 >= contiguous(across)
        && scattered(last) <= scattered(across)
        && spec.loops[last].extent >= 8;
    Some(if wins { n_walks - 1 } else { parallel })
}

/// Lanes of a 128-bit vector along a loop of `extent` that fit every value computed in it.
fn lanes(spec: &KernelSpec, extent: usize, varying: &[bool]) -> usize {
    let (mut wide, mut narrow) = (false, false);
    let computed = spec.nodes.iter().zip(varying).filter(|(_, v)| **v).map(|(node, _)| node);
    for node in computed.chain(spec.stores.iter().map(|s| spec.node(s.value))) {
        match node.dtype {
            DType::F64 | DType::I64 => wide = true,
            DType::F32 | DType::I32 | DType::Bf16 | DType::F16 | DType::U8 => narrow = true,
            DType::Bool => (),
        }
    }
    let lanes = match (wide, narrow) {
        (true, true) => 1,
        (true, false) => 2,
        (false, _) => 4,
    };
    if extent < lanes { 1 } else { lanes }
}

/// How many vectors to handle together: enough to hide latency, few enough to keep short loops and
/// large bodies small.
fn unroll(spec: &KernelSpec, vectors: usize) -> usize {
    let most = match spec.nodes.iter().map(|n| n.expr.instructions()).sum::<u32>() {
        0..24 => 4,
        24..64 => 2,
        _ => 1,
    };
    match vectors {
        0..4 => 1,
        4..8 => most.min(2),
        _ => most,
    }
}

/// The parallel loop to cut into pieces: the outermost that has enough iterations, else the
/// longest.
fn widest(spec: &KernelSpec) -> Option<usize> {
    let parallel = || (0..spec.loops.len()).filter(|&l| !spec.loops[l].reduce);
    parallel()
        .find(|&l| spec.loops[l].extent >= 16)
        .or_else(|| parallel().max_by_key(|&l| (spec.loops[l].extent, std::cmp::Reverse(l))))
}
