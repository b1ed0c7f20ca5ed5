//! Kernels that fold elements.
//!
//! The one order of folding: element `r` of a result (in logical order, of one piece where the
//! reduction is cut) goes to lane `r / 4 % lanes`, there to accumulator `r % 4` (`lane`). At the
//! end a lane folds the upper half of its accumulators onto the lower until one is left, then lanes
//! fold so within each 32, then those of the groups. How many lanes there are is decided by how
//! many elements there are.
//!
//! Which threads do a lane's work is decided by layout and changes no bit: neighboring threads are
//! neighboring lanes of a result (`Along`), or neighboring results (`Across`), whichever makes
//! neighbors in memory.

use gt_ir::DType;

use crate::kernel::Binary;

use super::{
    Source,
    body::{Body, Level},
    expression,
    space::Space,
    text::{Frame, Text, register_type},
};

/// Accumulators of a lane.
pub(super) const WIDTH: usize = 4;
/// Blocks that keep a large device busy.
const BUSY: usize = 264;
/// Shared memory that every device has, and how much of it folds may need.
const SHARED: usize = 48 << 10;
const RESERVED: usize = 4 << 10;

/// Lanes that fold a result of `len` elements.
fn lanes(len: usize) -> usize {
    match len.div_ceil(WIDTH) {
        n if n <= 32 => n.max(1).next_power_of_two(),
        n if n <= 256 => 32,
        _ => 256,
    }
}

/// Which threads do the work.
#[derive(Clone, Copy, Debug)]
pub(super) enum Mapping {
    /// A block has `rows` results, each with a thread a lane.
    Along { rows: usize },
    /// A block has `x` results, one a neighboring thread, each with `y` threads that take turns at
    /// its lanes.
    Across { x: usize, y: usize },
}

/// A kernel that folds.
pub(super) struct Reduce<'s> {
    pub(super) space: &'s Space,
    pub(super) body: Body<'s>,
    pub(super) lanes: usize,
    pub(super) mapping: Mapping,
    /// Results, those of all pieces.
    pub(super) n_rows: usize,
}

pub(super) fn write(name: &str, space: &Space) -> Source {
    let n_rows = space.parallel_len() * space.n_chunks();
    let lanes = lanes(space.reduced_len());
    let mapping = mapping(space, lanes, n_rows);
    let body = body(space);
    let (grid, block) = match mapping {
        Mapping::Along { rows } => (n_rows.div_ceil(rows), rows * lanes),
        Mapping::Across { x, y } => (n_rows.div_ceil(x), x * y),
    };
    let frame = Frame {
        name,
        about: body.about(name),
        parameters: body.parameters(),
        grid: grid as u64,
        block: block as u32,
        barriers: lanes > 1,
        library: "",
    };
    let reduce = Reduce { space, body, lanes, mapping, n_rows };
    frame.source(|text| reduce.write(text))
}

/// Threads of rows of which some elements are folded, or none.
pub(super) fn lanes_of<'s>(spaces: impl Iterator<Item = &'s Space> + Clone) -> usize {
    let folded = spaces.clone().filter(|space| space.folds).map(Space::reduced_len).max();
    lanes(folded.or(spaces.map(Space::reduced_len).max()).unwrap_or(1))
}

/// Rows of a block whose rows have so many threads, and want so many bytes each.
pub(super) fn rows_of_block(lanes: usize, n_rows: usize, bytes: usize) -> usize {
    let mut rows = (256 / lanes).max(1);
    let is_idle = |rows: usize| rows * lanes > 32 && n_rows.div_ceil(rows) < BUSY;
    while rows > 1 && (is_idle(rows) || rows * bytes > SHARED - RESERVED) {
        rows /= 2;
    }
    rows
}

/// One of several kernels over the same rows, of which each has `lanes` neighboring threads and a
/// block has `rows`.
pub(super) fn along(space: &Space, [lanes, rows, n_rows]: [usize; 3]) -> Reduce<'_> {
    let (body, mapping) = (body(space), Mapping::Along { rows });
    Reduce { space, body, lanes, mapping, n_rows }
}

fn body(space: &Space) -> Body<'_> {
    let inner = inner(space);
    let level_of = |l: usize| match space.spec.loops[l].reduce {
        false => Level::Fixed,
        true if inner.is_some_and(|inner| inner != l) => Level::Step,
        true => Level::Element,
    };
    let mut body = Body::new(space, WIDTH, inner, level_of);
    if space.cut.is_some() || !space.reduced_len().is_multiple_of(WIDTH) {
        body.live = Some("limit - step".into());
    }
    body
}

/// The loop neighboring elements of a result go along, where they go along one.
pub(super) fn inner(space: &Space) -> Option<usize> {
    let group = space.groups.last()?;
    let &last = group.loops.last()?;
    let alone = space.groups.len() == 1 && group.loops.len() == 1;
    let (of_loop, of_piece) = (space.spec.loops[last].extent, group.len);
    let whole = of_piece.is_multiple_of(WIDTH) && (alone || of_loop.is_multiple_of(WIDTH));
    (whole || alone && space.cut.is_none()).then_some(last)
}

fn mapping(space: &Space, lanes: usize, n_rows: usize) -> Mapping {
    let along = || Mapping::Along { rows: rows_of_block(lanes, n_rows, 0) };
    if lanes == 1 || !is_across(space) {
        return along();
    }
    let stores = space.spec.stores.iter().filter(|s| s.fold.is_some());
    let bytes: usize = stores.map(|s| lanes * space.spec.node(s.value).dtype.size().max(4)).sum();
    // Eight neighbors of four bytes are what memory moves at least.
    let fits = |x: &usize| x * bytes <= SHARED && (*x == 8 || n_rows.div_ceil(*x) >= BUSY / 2);
    let x = [32, 16, 8].into_iter().find(fits);
    let Some(x) = x.map(|x| x.min(n_rows.next_power_of_two())) else { return along() };
    let threads = if n_rows.div_ceil(x) < BUSY { 1024 } else { 256 };
    Mapping::Across { x, y: (threads / x).min(lanes) }
}

/// Whether more loads find neighbors along the kept elements than along the folded ones.
fn is_across(space: &Space) -> bool {
    let Some(kept) = space.n_parallel.checked_sub(1) else { return false };
    let folded = space.spec.loops.len() - 1;
    let beside = |l: usize| space.spec.loads().filter(|(_, a)| a.strides[l] == 1).count();
    beside(kept) > beside(folded)
}

impl Reduce<'_> {
    fn write(&self, text: &mut Text) {
        self.place(text, self.space.wide);
        self.at_place(text);
    }

    /// What a thread does that knows its row and its lane.
    pub(super) fn at_place(&self, text: &mut Text) {
        let index = self.space.index();
        let kept = self.kept_coordinates(text);
        self.limit(text);
        self.body.fixed_values(text, &kept);
        match self.mapping {
            Mapping::Along { .. } => {
                self.accumulate(text, &kept);
                self.folds(|k, op, dtype| self.fold_along(text, k, op, dtype));
            }
            Mapping::Across { x, y } => {
                self.folds(|k, _, dtype| {
                    let ty = register_type(dtype);
                    text.line(format!("__shared__ {ty} lanes{k}[{}][{x}];", self.lanes));
                });
                text.open(format!("for ({index} lane = y; lane < {}; lane += {y})", self.lanes));
                self.accumulate(text, &kept);
                self.folds(|k, _, _| text.line(format!("lanes{k}[lane][x] = total{k};")));
                text.close();
                self.fold_across(text, y);
                self.folds(|k, _, dtype| {
                    text.line(format!("const {} total{k} = lanes{k}[0][x];", register_type(dtype)));
                });
            }
        }
        self.results(text, &kept);
    }

    /// Calls `f` with each folding store, its operation and the dtype of its accumulators.
    pub(super) fn folds(&self, mut f: impl FnMut(usize, Binary, DType)) {
        for (k, store) in self.space.spec.stores.iter().enumerate() {
            if let Some(op) = store.fold {
                f(k, op, accumulator(self.space.spec.node(store.value).dtype));
            }
        }
    }

    /// Which result and which lane a thread works on.
    pub(super) fn place(&self, text: &mut Text, wide: bool) {
        let lanes = self.lanes;
        let (index, block) = if wide { ("u64", "u64(blockIdx.x)") } else { ("u32", "blockIdx.x") };
        let last = self.n_rows as i128 - 1;
        let last = if wide { format!("{last}ull") } else { format!("{last}u") };
        let row = match self.mapping {
            Mapping::Along { rows } => {
                text.line(format!("const u32 lane = threadIdx.x % {lanes}u;"));
                format!("{block} * {rows}u + threadIdx.x / {lanes}u")
            }
            Mapping::Across { x, .. } => {
                text.line(format!("const u32 x = threadIdx.x % {x}u, y = threadIdx.x / {x}u;"));
                format!("{block} * {x}u + x")
            }
        };
        text.line(format!("const {index} at = {row};"));
        text.line("// Threads beyond the last result do as it does and write nothing.");
        text.line(match self.n_rows > 1 {
            true => format!("const {index} row = at < {last} ? at : {last};"),
            false => format!("const {index} row = 0;"),
        });
    }

    /// Declares the coordinates along the parallel loops, and the piece.
    fn kept_coordinates(&self, text: &mut Text) -> Vec<String> {
        let (space, index) = (self.space, self.space.index());
        let mut flat = "row";
        if space.cut.is_some() {
            let n = space.literal(space.parallel_len() as i128);
            text.line(match space.parallel_len() {
                1 => format!("const {index} piece = row;"),
                _ => format!("const {index} piece = row / {n}, kept = row % {n};"),
            });
            flat = "kept";
        }
        let loops: Vec<usize> = (0..space.n_parallel).collect();
        let mut names: Vec<String> = match loops.len() {
            0 => Vec::new(),
            1 => vec![flat.to_owned()],
            _ => {
                let of = space.split(&loops, flat);
                for (l, coordinate) in of.iter().enumerate() {
                    text.line(format!("const {index} i{l} = {coordinate};"));
                }
                loops.iter().map(|l| format!("i{l}")).collect()
            }
        };
        names.resize(space.spec.loops.len(), String::new());
        names
    }

    /// Declares how many elements a result has, and where its piece begins.
    fn limit(&self, text: &mut Text) {
        let (space, index) = (self.space, self.space.index());
        let Some(cut) = space.cut else {
            let n = space.literal(space.reduced_len() as i128);
            return text.line(format!("const {index} limit = {n};"));
        };
        let number = |n: usize| space.literal(n as i128);
        let (chunk, extent) = (number(cut.chunk), number(space.groups[cut.at].extent));
        text.line(format!("const {index} first = piece * {chunk};"));
        if cut.at > 0 {
            return text.line(format!("const {index} limit = {};", number(space.reduced_len())));
        }
        let rest: usize = space.groups[1..].iter().map(|g| g.len).product();
        let times = if rest == 1 { String::new() } else { format!(" * {}", number(rest)) };
        text.line(format!(
            "const {index} limit = ({extent} - first < {chunk} ? {extent} - first : \
             {chunk}){times};"
        ));
    }

    /// Folds the lanes of a result, which are neighboring threads.
    fn fold_along(&self, text: &mut Text, k: usize, op: Binary, dtype: DType) {
        let total = format!("total{k}");
        let shuffle = |text: &mut Text, from: usize| {
            let ty = register_type(dtype);
            text.open(format!("for (u32 half = {from}; half > 0; half /= 2)"));
            text.line(format!("const {ty} other = __shfl_down_sync(0xffffffffu, {total}, half);"));
            text.line(format!("{total} = {};", expression::binary(op, dtype, &total, "other")));
            text.close();
        };
        match self.lanes {
            1 => (),
            lanes if lanes <= 32 => shuffle(text, lanes / 2),
            lanes => {
                let groups = lanes / 32;
                shuffle(text, 16);
                text.line(format!("__shared__ {} group{k}[{groups}];", register_type(dtype)));
                text.line(format!("if (lane % 32u == 0) group{k}[lane / 32u] = {total};"));
                text.line("__syncthreads();");
                text.line(format!("{total} = group{k}[lane % {groups}u];"));
                shuffle(text, groups / 2);
            }
        }
    }

    /// Folds the lanes of neighboring results, which lie in shared memory.
    fn fold_across(&self, text: &mut Text, y: usize) {
        let mut round = |from: usize, stride: usize, taken: &str| {
            text.open(format!("for (u32 half = {from}; half >= {stride}; half /= 2)"));
            text.line("__syncthreads();");
            text.open(format!(
                "for (u32 lane = y * {stride}; lane < {}; lane += {})",
                self.lanes,
                y * stride
            ));
            text.line(format!("if ({taken} >= half) continue;"));
            self.folds(|k, op, dtype| {
                let own = format!("lanes{k}[lane][x]");
                let sum = expression::binary(op, dtype, &own, &format!("lanes{k}[lane + half][x]"));
                text.line(format!("{own} = {sum};"));
            });
            text.close();
            text.close();
        };
        round(self.lanes.min(32) / 2, 1, "lane % 32u");
        if self.lanes > 32 {
            round(self.lanes / 2, 32, "lane");
        }
        text.line("__syncthreads();");
    }

    /// Stores what was folded.
    fn results(&self, text: &mut Text, kept: &[String]) {
        let one = match self.mapping {
            Mapping::Along { .. } => "lane",
            Mapping::Across { .. } => "y",
        };
        if !self.space.folds {
            return;
        }
        let n = self.space.literal(self.n_rows as i128);
        text.open(format!("if ({one} == 0 && at < {n})"));
        self.folds(|k, _, dtype| {
            let store = &self.space.spec.stores[k];
            let to = self.body.buffer_dtype(store.buffer);
            let value = expression::cast(dtype, to, &format!("total{k}"));
            let mut at = self.space.at(&store.access, kept);
            if self.space.cut.is_some() {
                at = match self.space.parallel_len() {
                    1 => format!("piece + {at}"),
                    n => format!("piece * {} + {at}", self.space.literal(n as i128)),
                };
            }
            text.line(format!("put(b{}[{at}], {value});", store.buffer));
        });
        text.close();
    }
}

/// The dtype accumulators have: 16-bit floats add up in `f32`.
fn accumulator(dtype: DType) -> DType {
    match dtype {
        DType::Bf16 | DType::F16 => DType::F32,
        DType::F32 | DType::F64 | DType::I64 | DType::I32 | DType::U8 | DType::Bool => dtype,
    }
}
