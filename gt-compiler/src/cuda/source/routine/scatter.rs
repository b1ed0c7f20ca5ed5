//! Adding where indices say.
//!
//! Each element of the result is added to by one thread, in the order of the indices. Where there
//! are many lines along the axis, each has a thread; where there are few but long ones, blocks own
//! rows of the result and look through all indices for them (`scatter.cuh`).

use gt_ir::DType;
use smallvec::smallvec;

use super::{BLOCK, Index, Slices, frame, merged};
use crate::{
    cuda::source::{
        Source, expression, kernel,
        text::{Text, register_type},
    },
    kernel::{Access, Binary, Expr, ExprId, KernelSpec, Loop, Node, Store},
    schedule::Routine,
};

const OWNERS: &str = include_str!("scatter.cuh");
const NAMES: [&str; 3] = ["base", "index", "src"];
/// Lines from which on each has a thread, and entries up to which it has anyway.
const MANY: usize = 2048;
const SHORT: usize = 64;
/// Blocks that keep a large device busy.
const BLOCKS: usize = 1056;

/// The base, copied.
fn base(name: &str, routine: &Routine) -> Source {
    let dtype = routine.out_ty.dtype;
    let all = Access { offset: 0, strides: smallvec![1] };
    let spec = KernelSpec {
        loops: smallvec![Loop::parallel(routine.out_ty.shape.numel())],
        buffers: routine.inputs.iter().map(|(_, ty)| ty.dtype).chain([dtype]).collect(),
        nodes: vec![Node { expr: Expr::Load { buffer: 0, access: all.clone() }, dtype }],
        stores: vec![Store { buffer: 3, access: all, value: ExprId(0), fold: None }],
        ..KernelSpec::default()
    };
    kernel(&format!("{name}_base"), &spec, None)
}

/// An element of the result and one of the source, added.
fn sum(dtype: DType, a: &str, b: &str) -> String {
    expression::binary(Binary::Add, dtype, a, b)
}

pub(super) fn scatter_add(name: &str, routine: &Routine, axis: usize) -> Vec<Source> {
    let (base_ty, index) = (&routine.inputs[0].1, routine.inputs[1].1.shape);
    let (to, from) = (base_ty.shape.strides(), index.strides());
    let dims = (0..index.rank()).filter(|&d| d != axis);
    let lines = Lines {
        size: base_ty.shape.sizes()[axis],
        stride: to[axis],
        n: index.sizes()[axis],
        step: from[axis],
        index_step: from[axis],
        dims: merged(dims.map(|d| (index.sizes()[d], [to[d], from[d]]))),
        is_shared: false,
    };
    vec![base(name, routine), lines.write(&format!("{name}_add"), routine)]
}

pub(super) fn index_add(name: &str, routine: &Routine, axis: usize) -> Vec<Source> {
    let slices = Slices::new(&routine.inputs[0].1.shape, axis);
    let n = routine.inputs[1].1.shape.numel();
    let lines = Lines {
        size: slices.axis,
        stride: slices.inner,
        n,
        step: slices.inner,
        index_step: 1,
        dims: merged([
            (slices.outer, [slices.axis * slices.inner, n * slices.inner]),
            (slices.inner, [1, 1]),
        ]),
        is_shared: true,
    };
    vec![base(name, routine), lines.write(&format!("{name}_add"), routine)]
}

/// Lines along the axis, each with indices and a source.
struct Lines {
    /// Of the result's axis, and its stride.
    size: usize,
    stride: usize,
    /// Entries of a line, and the distance of their source elements and of their indices.
    n: usize,
    step: usize,
    index_step: usize,
    /// Extents of the other dims, and their strides in the result and in the source.
    dims: Vec<(usize, [usize; 2])>,
    /// Whether all lines have the same indices.
    is_shared: bool,
}

impl Lines {
    fn len(&self) -> usize {
        self.dims.iter().map(|d| d.0).product()
    }

    fn is_empty(&self) -> bool {
        self.n == 0 || self.size == 0 || self.len() == 0
    }

    fn write(&self, name: &str, routine: &Routine) -> Source {
        let counts = self.n.max(self.size) as u64;
        let alone = self.n <= SHORT || self.len() >= MANY && !self.is_shared;
        if alone || counts >= 1 << 31 || self.is_empty() {
            return self.by_line(name, routine);
        }
        if self.is_shared && self.len() >= 32 {
            return self.by_rows(name, routine);
        }
        self.by_elements(name, routine)
    }

    fn kind(&self, routine: &Routine) -> Index {
        let largest = routine.inputs.iter().map(|(_, ty)| ty.shape.numel()).max();
        Index::up_to(largest.unwrap_or(0))
    }

    /// Where line `line` begins in the result and in the source.
    fn begin(&self, text: &mut Text, kind: Index, line: &str) {
        for (k, name) in ["to", "from"].into_iter().enumerate() {
            let dims: Vec<(usize, usize)> = self.dims.iter().map(|(e, s)| (*e, s[k])).collect();
            text.line(format!("const {} {name} = {};", kind.ty(), kind.affine(line, &dims)));
        }
    }

    /// Indices of a line begin here.
    fn index(&self) -> &'static str {
        if self.is_shared { "index" } else { "(index + from)" }
    }

    /// A thread for each line.
    fn by_line(&self, name: &str, routine: &Routine) -> Source {
        let (kind, dtype) = (self.kind(routine), routine.out_ty.dtype);
        frame(name, routine, &NAMES, self.len()).source(|text| {
            kind.declare(text, self.len());
            self.begin(text, kind, "i");
            let number = |n: usize| kind.number(n);
            text.open(format!("for ({} k = 0; k < {}; ++k)", kind.ty(), number(self.n)));
            let at = format!("{}[k * {}]", self.index(), number(self.index_step));
            text.line(format!("const u64 row = checked({at}, {}, error);", self.size));
            if self.size > 0 {
                let place = format!("to + {}(row) * {}", kind.ty(), number(self.stride));
                text.line(format!("auto& element = out[{place}];"));
                let source = format!("get(src[from + k * {}])", number(self.step));
                text.line(format!("put(element, {});", sum(dtype, "get(element)", &source)));
            }
            text.close();
        })
    }

    /// The blocks of a line or of some columns, each owning a part of the rows.
    fn parts(&self, groups: usize) -> usize {
        (BLOCKS / groups.max(1)).clamp(1, self.size)
    }

    /// Goes through the indices: `add` adds what a list names.
    fn through_lists(&self, text: &mut Text, parts: usize, add: impl FnOnce(&mut Text)) {
        text.line("__shared__ Entry list[LIST];");
        text.open(format!("for (u32 start = 0; start < {}u; start += LIST)", self.n));
        text.line(format!(
            "const u32 n = collect(list, {}, {}, start, {}u, {}u, {parts}u, part, error);",
            self.index(),
            self.index_step,
            self.n,
            self.size
        ));
        add(text);
        text.line("__syncthreads();");
        text.close();
    }

    /// Blocks own rows of a line; a row belongs to one of their threads.
    fn by_elements(&self, name: &str, routine: &Routine) -> Source {
        let (kind, dtype) = (self.kind(routine), routine.out_ty.dtype);
        let parts = self.parts(self.len());
        let mut frame = frame(name, routine, &NAMES, self.len() * parts * BLOCK);
        (frame.library, frame.barriers) = (OWNERS, true);
        frame.source(|text| {
            text.line(format!(
                "const u32 line = blockIdx.x / {parts}u, part = blockIdx.x % {parts}u;"
            ));
            self.begin(text, kind, "line");
            self.through_lists(text, parts, |text| {
                text.open("for (u32 k = 0; k < n; ++k)");
                text.line("const Entry entry = list[k];");
                text.line(format!("if (entry.row / {parts}u % THREADS != threadIdx.x) continue;"));
                let place = format!("{}(entry.row) * {}", kind.ty(), kind.number(self.stride));
                text.line(format!("auto& element = out[to + {place}];"));
                let source = format!("get(src[from + entry.from * {}])", kind.number(self.step));
                text.line(format!("put(element, {});", sum(dtype, "get(element)", &source)));
                text.close();
            });
        })
    }

    /// Blocks own rows and columns; a column belongs to one of their threads, which adds up what
    /// goes to one row before it writes.
    fn by_rows(&self, name: &str, routine: &Routine) -> Source {
        let kind = self.kind(routine);
        let tiles = self.len().div_ceil(BLOCK);
        let parts = self.parts(tiles);
        let mut frame = frame(name, routine, &NAMES, tiles * parts * BLOCK);
        (frame.library, frame.barriers) = (OWNERS, true);
        frame.source(|text| {
            text.line(format!("const u32 part = blockIdx.x % {parts}u;"));
            let ty = kind.ty();
            text.line(format!(
                "const {ty} column = {ty}(blockIdx.x / {parts}u) * {BLOCK}u + threadIdx.x;"
            ));
            self.begin(text, kind, "column");
            self.through_lists(text, parts, |text| {
                text.open(format!("if (column < {})", kind.number(self.len())));
                self.add_runs(text, kind, routine.out_ty.dtype);
                text.close();
            });
        })
    }

    /// Entries in order, four sources at a time, so that their loads are under way together.
    fn add_runs(&self, text: &mut Text, kind: Index, dtype: DType) {
        let (ty, value) = (kind.ty(), register_type(dtype));
        let place = |row: &str| format!("out[to + {ty}({row}) * {}]", kind.number(self.stride));
        text.line(format!("{value} sum = 0;"));
        text.open("for (u32 first = 0; first < n; first += 4)");
        text.line(format!("{value} sources[4];"));
        text.line("#pragma unroll");
        text.open("for (u32 u = 0; u < 4; ++u)");
        let source = format!("src[from + list[first + u].from * {}]", kind.number(self.step));
        text.line(format!("if (first + u < n) sources[u] = get({source});"));
        text.close();
        text.line("#pragma unroll");
        text.open("for (u32 u = 0; u < 4; ++u)");
        text.line("const u32 k = first + u;");
        text.line("if (k >= n) break;");
        text.line("const u32 row = list[k].row;");
        text.line(format!("if (k == 0 || row != list[k - 1].row) sum = get({});", place("row")));
        text.line(format!("sum = {};", sum(dtype, "sum", "sources[u]")));
        text.line(format!("if (k + 1 == n || row != list[k + 1].row) put({}, sum);", place("row")));
        text.close();
        text.close();
    }
}
