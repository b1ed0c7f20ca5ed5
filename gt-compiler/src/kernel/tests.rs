//! Random kernels: the same computation gives the same bits, however operands lie in memory,
//! whatever else the kernel stores, wherever the ranges are cut, and whichever generator made the
//! code. Nothing outside of the stores' places is written.
#![expect(unsafe_code, reason = "calls kernels on memory of its own")]

use std::iter::once;

use gt_ir::{DType, testing::Source};

use super::*;
use crate::kernel::spec::PerLoop;
use crate::kernel::wide::Vectors;

/// Bytes nobody should write.
const CANARY: u8 = 0xa5;

/// A computation without layouts: loads name an operand and the loops it depends on.
#[derive(Clone, Debug)]
struct Case {
    loops: PerLoop<Loop>,
    order: FoldOrder,
    rows: bool,
    /// Dtype and loops of each operand.
    operands: Vec<(DType, PerLoop<bool>)>,
    scalars: Vec<(DType, u64)>,
    nodes: Vec<Node>,
    stores: Vec<(ExprId, Option<Binary>)>,
}

/// A buffer: where the element of each iteration lies, and all bytes.
struct Memory {
    access: Access,
    words: Vec<u64>,
}

impl Memory {
    fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.words)
    }

    /// Moves the elements on so that the first one begins a line of the cache. There is room.
    fn align(&mut self, size: usize) {
        let first = self.words.as_ptr() as usize + self.access.offset as usize * size;
        self.access.offset += (first.wrapping_neg() % 64 / size) as i64;
    }
}

/// The iterations of the loops for which `over` holds, in order.
fn iterations(loops: &[Loop], over: impl Fn(usize) -> bool) -> Vec<Vec<usize>> {
    let mut out = vec![vec![]];
    for (l, of) in loops.iter().enumerate() {
        let n = if over(l) { of.extent } else { 1 };
        out = out
            .iter()
            .flat_map(|i: &Vec<usize>| (0..n).map(move |k| [i.as_slice(), &[k]].concat()))
            .collect();
    }
    out
}

fn at(access: &Access, i: &[usize]) -> usize {
    let moved: i64 = access.strides.iter().zip(i).map(|(s, &i)| s * i as i64).sum();
    (access.offset + moved) as usize
}

/// A layout of the loops for which `over` holds; plain or random.
fn layout(
    loops: &[Loop],
    over: impl Fn(usize) -> bool,
    random: Option<&mut Source<'_>>,
) -> (Access, usize) {
    let mut dims: Vec<usize> = (0..loops.len()).filter(|&l| over(l)).collect();
    let (mut step, mut offset) = (1, 0);
    if let Some(s) = random {
        if s.chance(1, 2) {
            for i in (1..dims.len()).rev() {
                dims.swap(i, s.below(i + 1));
            }
        }
        step = if s.chance(1, 3) { 1 + s.below(3) } else { 1 };
        offset = s.below(5);
    }
    let mut strides: PerLoop<i64> = PerLoop::from_elem(0, loops.len());
    for &l in dims.iter().rev() {
        strides[l] = step as i64;
        step *= loops[l].extent;
    }
    (Access { offset: offset as i64, strides }, offset + step)
}

fn element(dtype: DType, s: &mut Source<'_>) -> Vec<u8> {
    let special =
        [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e-42, -3e38, 1e6, 100.0, -88.5];
    let float = match s.below(8) {
        0 => special[s.below(special.len())],
        _ => (s.below(4001) as f32 - 2000.0) / 300.0,
    };
    match dtype {
        DType::F32 => float.to_ne_bytes().to_vec(),
        DType::F64 => f64::from(float).to_ne_bytes().to_vec(),
        DType::Bf16 => half::bf16::from_f32(float).to_ne_bytes().to_vec(),
        DType::F16 => half::f16::from_f32(float).to_ne_bytes().to_vec(),
        DType::I64 => (s.bits() as i64 >> s.below(64)).to_ne_bytes().to_vec(),
        DType::I32 => (s.bits() as i32 >> s.below(32)).to_ne_bytes().to_vec(),
        DType::U8 => vec![s.bits() as u8],
        DType::Bool => vec![s.below(2) as u8],
    }
}

const FUNCTIONS: &[Unary] = &[
    Unary::Neg,
    Unary::Abs,
    Unary::Exp,
    Unary::Log,
    Unary::Sqrt,
    Unary::Tanh,
    Unary::Exp2,
    Unary::Erf,
    Unary::Floor,
    Unary::Ceil,
    Unary::Trunc,
    Unary::Round,
    Unary::Sin,
    Unary::Cos,
];
const FLOAT: &[Binary] = &[
    Binary::Add,
    Binary::Sub,
    Binary::Mul,
    Binary::Div,
    Binary::Maximum,
    Binary::Pow,
    Binary::Fmod,
    Binary::Minimum,
];
const INTEGER: &[Binary] = &[
    Binary::Fmod,
    Binary::Add,
    Binary::Sub,
    Binary::Mul,
    Binary::Maximum,
    Binary::Minimum,
    Binary::BitwiseAnd,
    Binary::LeftShift,
    Binary::RightShift,
];
const LOGICAL: &[Binary] = &[
    Binary::Add,
    Binary::Mul,
    Binary::LogicalAnd,
    Binary::LogicalOr,
    Binary::LogicalXor,
    Binary::BitwiseAnd,
    Binary::Maximum,
    Binary::Lt,
    Binary::Eq,
];
const FOLDS: &[Binary] = &[Binary::Add, Binary::Mul, Binary::Maximum, Binary::Minimum];

impl Case {
    fn random(s: &mut Source<'_>, dtypes: &[DType]) -> Case {
        let extents = [1, 2, 3, 5, 8, 15, 16, 17, 31, 32, 33, 48, 70, 130, 250];
        let rank = 1 + s.below(3);
        let mut sizes: Vec<usize> = (0..rank).map(|_| extents[s.below(extents.len())]).collect();
        if s.chance(1, 12) {
            sizes = vec![1 + s.below(3), 40_000 + s.below(64)];
            if s.chance(1, 2) {
                sizes.swap(0, 1);
            }
        }
        while sizes.iter().product::<usize>() > 90_000 {
            sizes.pop();
        }
        let reduced: Vec<bool> = sizes.iter().map(|_| s.chance(2, 5)).collect();
        Case::over(s, dtypes, &sizes, &reduced)
    }

    /// Rows of two or three dims that do not merge, of which some operands depend on a part.
    fn of_rows(s: &mut Source<'_>, dtypes: &[DType]) -> Case {
        let extents = [2, 3, 7, 10, 16, 31, 32, 33, 50, 126];
        let mut sizes: Vec<usize> =
            (0..2 + s.below(2)).map(|_| extents[s.below(extents.len())]).collect();
        match s.below(4) {
            0 => sizes = vec![3 + s.below(1500), 2 + s.below(30)],
            1 => sizes.insert(0, 1 + s.below(9)),
            _ => (),
        }
        let n_kept = if sizes.len() > 2 { s.below(2) } else { 0 };
        let reduced: Vec<bool> = (0..sizes.len()).map(|d| d >= n_kept).collect();
        Case::over(s, dtypes, &sizes, &reduced)
    }

    fn over(s: &mut Source<'_>, dtypes: &[DType], sizes: &[usize], reduced: &[bool]) -> Case {
        let (_, loops, order) = reduction(sizes, |d| reduced[d]);
        let rows = s.chance(1, 3) && !loops[0].reduce;
        let mut case = Case {
            loops,
            order,
            rows,
            operands: vec![],
            scalars: vec![],
            nodes: vec![],
            stores: vec![],
        };
        for _ in 0..1 + s.below(3) {
            let dtype = dtypes[s.below(dtypes.len())];
            let over = (0..case.loops.len()).map(|_| s.chance(3, 4)).collect();
            case.operands.push((dtype, over));
            let buffer = case.operands.len() as u16 - 1;
            case.node(Expr::Load { buffer, access: Access::default() }, dtype);
        }
        if dtypes.contains(&DType::I64) && s.chance(1, 3) {
            let strides = case.loops.iter().map(|_| s.below(7) as i64 - 2).collect();
            case.node(Expr::Index(Access { offset: s.below(9) as i64, strides }), DType::I64);
        }
        if s.chance(1, 2) {
            let dtype = dtypes[s.below(dtypes.len())];
            let bits = match dtype {
                DType::F32 | DType::Bf16 | DType::F16 => {
                    u64::from([1.5f32, 0.0, -2.0][s.below(3)].to_bits())
                }
                DType::F64 => 1.5f64.to_bits(),
                DType::I64 | DType::I32 | DType::U8 | DType::Bool => s.below(2) as u64,
            };
            case.scalars.push((dtype, bits));
            case.node(Expr::Scalar(0), dtype);
        }
        for _ in 0..s.below(8) {
            case.grow(s, dtypes);
        }
        let last = ExprId(case.nodes.len() as u32 - 1);
        case.store(s, last);
        case
    }

    fn node(&mut self, expr: Expr, dtype: DType) -> ExprId {
        self.nodes.push(Node { expr, dtype });
        ExprId(self.nodes.len() as u32 - 1)
    }

    /// Adds an operation on values there are.
    fn grow(&mut self, s: &mut Source<'_>, dtypes: &[DType]) {
        let any = |s: &mut Source<'_>, case: &Case| {
            // Late values more often, so that chains grow.
            let n = case.nodes.len();
            ExprId(if s.chance(1, 2) { n - 1 } else { s.below(n) } as u32)
        };
        let a = any(s, self);
        let dtype = self.nodes[a.0 as usize].dtype;
        let b = any(s, self);
        let b = if self.nodes[b.0 as usize].dtype == dtype {
            b
        } else {
            self.node(Expr::Cast(b), dtype)
        };
        let (expr, dtype) = match s.below(6) {
            0 => (Expr::Cast(a), dtypes[s.below(dtypes.len())]),
            1 if dtype.is_float() => (Expr::Unary(FUNCTIONS[s.below(FUNCTIONS.len())], a), dtype),
            1 if dtype == DType::Bool => (Expr::Unary(Unary::LogicalNot, a), dtype),
            2 => (
                Expr::Binary(if s.chance(1, 2) { Binary::Lt } else { Binary::Eq }, a, b),
                DType::Bool,
            ),
            3 => {
                let c = any(s, self);
                let c = if self.nodes[c.0 as usize].dtype == DType::Bool {
                    c
                } else {
                    self.node(Expr::Cast(c), DType::Bool)
                };
                (Expr::Select(c, a, b), dtype)
            }
            _ => {
                let ops = if dtype.is_float() {
                    FLOAT
                } else if dtype == DType::Bool {
                    LOGICAL
                } else {
                    INTEGER
                };
                (Expr::Binary(ops[s.below(ops.len())], a, b), dtype)
            }
        };
        self.node(expr, dtype);
    }

    fn store(&mut self, s: &mut Source<'_>, value: ExprId) {
        let reduces = self.loops.iter().any(|l| l.reduce);
        let fold = (reduces && s.chance(3, 4)).then(|| FOLDS[s.below(FOLDS.len())]);
        self.stores.push((value, fold));
    }

    fn kept(&self, store: usize) -> impl Fn(usize) -> bool + '_ {
        let folds = self.stores[store].1.is_some();
        move |l| !(folds && self.loops[l].reduce)
    }

    fn spec(&self, inputs: &[Memory], outputs: &[Memory]) -> KernelSpec {
        let mut spec = KernelSpec {
            loops: self.loops.clone(),
            fold_order: self.order,
            rows: self.rows,
            buffers: self.operands.iter().map(|o| o.0).collect(),
            scalars: self.scalars.iter().map(|s| s.0).collect(),
            nodes: self.nodes.clone(),
            ..KernelSpec::default()
        };
        for node in &mut spec.nodes {
            if let Expr::Load { buffer, access } = &mut node.expr {
                *access = inputs[usize::from(*buffer)].access.clone();
            }
        }
        for ((value, fold), memory) in self.stores.iter().zip(outputs) {
            let buffer = spec.buffers.len() as u16;
            spec.buffers.push(spec.node(*value).dtype);
            spec.stores.push(Store {
                buffer,
                access: memory.access.clone(),
                value: *value,
                fold: *fold,
            });
        }
        spec
    }

    /// Runs the case with the given data (elements in order of iteration); gives the elements of
    /// each store in order.
    fn run(
        &self,
        compiler: &mut Compiler,
        data: &[Vec<Vec<u8>>],
        mut random: Option<&mut Source<'_>>,
    ) -> Vec<Vec<Vec<u8>>> {
        let mut inputs = Vec::new();
        for ((dtype, over), data) in self.operands.iter().zip(data) {
            // Sometimes an operand is spread out along loops it does not depend on.
            let spread = random.as_mut().is_some_and(|s| s.chance(1, 3));
            let held = |l: usize| over[l] || spread;
            let (access, len) = layout(&self.loops, held, random.as_deref_mut());
            let mut words = vec![0u64; (len * dtype.size()).div_ceil(8) + 16];
            let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
            let own = iterations(&self.loops, |l| over[l]);
            for i in iterations(&self.loops, held) {
                let key: Vec<usize> =
                    i.iter().enumerate().map(|(l, &k)| if over[l] { k } else { 0 }).collect();
                let from = own.binary_search(&key).unwrap();
                let to = at(&access, &i) * dtype.size();
                bytes[to..to + dtype.size()].copy_from_slice(&data[from]);
            }
            inputs.push(Memory { access, words });
        }
        let mut outputs = Vec::new();
        for (k, (value, _)) in self.stores.iter().enumerate() {
            let (access, len) = layout(&self.loops, self.kept(k), random.as_deref_mut());
            let size = self.nodes[value.0 as usize].dtype.size();
            let words = vec![u64::from_ne_bytes([CANARY; 8]); (len * size).div_ceil(8) + 16];
            let mut memory = Memory { access, words };
            if random.as_mut().is_some_and(|s| s.chance(1, 2)) {
                memory.align(size);
            }
            outputs.push(memory);
        }
        let mut spec = self.spec(&inputs, &outputs);
        if random.as_mut().is_some_and(|s| s.chance(1, 2)) {
            spec.streams = spec.stores.iter().map(|s| s.buffer).collect();
        }
        let nest = Nest::new(spec);
        // Code runs wherever it is put.
        let code = compiler.generate(&nest).unwrap();
        let kernel = compiler.load(&[code.clone(), code]).unwrap().remove(1);
        let folds = self.stores.iter().any(|s| s.1.is_some());
        let cut = if folds { cut(&nest.spec.reduced_extents(), self.order) } else { None };
        let n_chunks = cut.map_or(1, |c| c.n_chunks);
        let chunk = cut.map_or(usize::MAX, |c| c.chunk);
        let mut results: Vec<Vec<Vec<u8>>> = vec![vec![]; self.stores.len()];
        for r in 0..n_chunks {
            let reduce = Range {
                start: r.saturating_mul(chunk),
                end: (r + 1).saturating_mul(chunk).min(nest.reduce_extent()),
            };
            let mut start = 0;
            while start < nest.parallel_extent() {
                let left = nest.parallel_extent() - start;
                let n = random
                    .as_mut()
                    .map_or(left, |s| if s.chance(1, 2) { left } else { 1 + s.below(left) });
                let parallel = Range { start, end: start + n };
                let mut args: Vec<u64> = inputs.iter().map(|m| m.words.as_ptr() as u64).collect();
                args.extend(outputs.iter_mut().map(|m| m.words.as_mut_ptr() as u64));
                args.extend(self.scalars.iter().map(|s| s.1));
                // SAFETY: the buffers hold every iteration of the loops.
                unsafe { kernel.call(&args, parallel, reduce) };
                start += n;
            }
            for (k, output) in outputs.iter_mut().enumerate() {
                // A value that is not folded has one place however the reduction is cut.
                if self.stores[k].1.is_some() || r + 1 == n_chunks {
                    results[k].extend(self.collect(k, output));
                }
            }
        }
        results
    }

    /// The elements of a store, and that nothing else was written.
    fn collect(&self, store: usize, memory: &mut Memory) -> Vec<Vec<u8>> {
        let dtype = self.nodes[self.stores[store].0.0 as usize].dtype;
        let places: Vec<usize> = iterations(&self.loops, self.kept(store))
            .iter()
            .map(|i| at(&memory.access, i) * dtype.size())
            .collect();
        let found = places.iter().map(|&p| memory.bytes()[p..p + dtype.size()].to_vec()).collect();
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut memory.words);
        places.iter().for_each(|&p| bytes[p..p + dtype.size()].fill(CANARY));
        assert!(bytes.iter().all(|b| *b == CANARY), "bytes outside of a store were written");
        found
    }
}

/// Equal bits, all NaN being one.
fn same(dtype: DType, a: &[u8], b: &[u8]) -> bool {
    let nan = |x: &[u8]| match dtype {
        DType::F32 => f32::from_ne_bytes(x.try_into().unwrap()).is_nan(),
        DType::F64 => f64::from_ne_bytes(x.try_into().unwrap()).is_nan(),
        DType::F16 => half::f16::from_ne_bytes(x.try_into().unwrap()).is_nan(),
        DType::Bf16 => half::bf16::from_ne_bytes(x.try_into().unwrap()).is_nan(),
        DType::I64 | DType::I32 | DType::U8 | DType::Bool => false,
    };
    a == b || nan(a) && nan(b)
}

fn check(seed: u64, compilers: &mut [Compiler], dtypes: &[DType]) {
    let mut s = Source::from_seed(seed);
    let case = Case::random(&mut s, dtypes);
    has_one_result(seed, &mut s, &case, (compilers, dtypes));
}

fn has_one_result(
    seed: u64,
    s: &mut Source<'_>,
    case: &Case,
    (compilers, dtypes): (&mut [Compiler], &[DType]),
) {
    let data: Vec<Vec<Vec<u8>>> = case
        .operands
        .iter()
        .map(|(dtype, over)| {
            iterations(&case.loops, |l| over[l]).iter().map(|_| element(*dtype, s)).collect()
        })
        .collect();
    let want = case.run(&mut compilers[0], &data, None);
    for (which, compiler) in compilers.iter_mut().enumerate() {
        for _ in 0..2 {
            let mut more = case.clone();
            for _ in 0..s.below(3) {
                more.grow(s, dtypes);
                let value = ExprId(more.nodes.len() as u32 - 1);
                more.store(s, value);
            }
            let got = more.run(compiler, &data, Some(&mut *s));
            let dtype = case.nodes[case.stores[0].0.0 as usize].dtype;
            let differs = want[0].iter().zip(&got[0]).position(|(a, b)| !same(dtype, a, b));
            if let Some(i) = differs {
                panic!(
                    "seed {seed}, generator {which}: element {i} is {:x?}, not {:x?}\n{more:?}",
                    got[0][i], want[0][i]
                );
            }
        }
    }
}

fn seeds(start: u64) -> std::ops::Range<u64> {
    let n = std::env::var("GT_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(40);
    start..start + n
}

fn compilers() -> Vec<Compiler> {
    let wide = Vectors::here().into_iter().map(Some);
    once(None).chain(wide).map(|vectors| Compiler::with_vectors(vectors).unwrap()).collect()
}

#[test]
fn one_computation_has_one_result() {
    let mut compilers = compilers();
    for seed in seeds(0) {
        check(seed, &mut compilers, &[DType::F32, DType::F32, DType::I32, DType::Bool]);
    }
}

#[test]
fn narrow_elements_too() {
    let mut compilers = compilers();
    let dtypes = [DType::F32, DType::Bf16, DType::F16, DType::U8, DType::Bool, DType::I32];
    for seed in seeds(1_000_000) {
        check(seed, &mut compilers, &dtypes);
    }
}

/// Kernels of one dtype, whose vectors share words of memory.
#[test]
fn elements_of_two_bytes_too() {
    let mut compilers = compilers();
    let mut n_shared = 0;
    for seed in seeds(4_000_000) {
        let dtype = if seed % 4 == 0 { DType::F16 } else { DType::Bf16 };
        n_shared += u64::from(nest(seed, &[dtype]).loop_by_loop().by_words());
        check(seed, &mut compilers, &[dtype]);
    }
    assert!(8 * n_shared > seeds(0).end, "{n_shared} kernels that share words");
}

#[test]
fn wide_elements_too() {
    let mut compilers = compilers();
    let dtypes = [DType::F64, DType::I64, DType::F32, DType::Bool];
    for seed in seeds(2_000_000) {
        check(seed, &mut compilers, &dtypes);
    }
}

/// Accumulators that turn are those of the path without turns.
#[test]
fn rows_of_several_loops_too() {
    let mut compilers = compilers();
    let mut n_turning = 0;
    for seed in seeds(3_000_000) {
        let dtypes = match seed % 3 {
            0 => [DType::F32; 4],
            1 => [DType::F32, DType::U8, DType::Bool, DType::Bf16],
            _ => [DType::F64, DType::I64, DType::F32, DType::Bool],
        };
        let mut s = Source::from_seed(seed);
        let case = Case::of_rows(&mut s, &dtypes);
        let nest = plain(&case).loop_by_loop();
        n_turning += u64::from(nest.row.is_some());
        has_one_result(seed, &mut s, &case, (&mut compilers, &dtypes));
    }
    assert!(4 * n_turning > seeds(0).end, "{n_turning} cases with turns");
}

/// The plain nest of a random case.
fn nest(seed: u64, dtypes: &[DType]) -> Nest {
    plain(&Case::random(&mut Source::from_seed(seed), dtypes))
}

/// The nest of a case whose operands lie in order.
fn plain(case: &Case) -> Nest {
    let plain = |over: &dyn Fn(usize) -> bool| {
        let (access, _) = layout(&case.loops, over, None);
        Memory { access, words: vec![] }
    };
    let inputs: Vec<Memory> = case.operands.iter().map(|o| plain(&|l| o.1[l])).collect();
    let outputs: Vec<Memory> = (0..case.stores.len()).map(|k| plain(&case.kept(k))).collect();
    Nest::new(case.spec(&inputs, &outputs))
}

#[test]
fn what_streams_goes_past_the_caches() {
    let access = |stride| Access { offset: 0, strides: once(stride).collect() };
    let store = Store { buffer: 1, access: access(1), value: ExprId(0), fold: None };
    let copy = |dtype, streams: &[u16]| KernelSpec {
        loops: once(Loop::parallel(1 << 20)).collect(),
        buffers: vec![dtype; 2],
        nodes: vec![Node { expr: Expr::Load { buffer: 0, access: access(1) }, dtype }],
        stores: vec![store.clone()],
        streams: streams.iter().copied().collect(),
        ..KernelSpec::default()
    };
    // A block past the caches, the same through them, where lines do not fit, and a masked rest of
    // each. Two vectors of two bytes are one line.
    let stores = [(DType::F32, 4, 4 + 2), (DType::Bf16, 2, 2 + 2), (DType::F16, 2, 4 + 2)];
    let vectors = [Vectors::Ymm, Vectors::Zmm];
    for ((dtype, past, through), vectors) in stores.iter().flat_map(|of| vectors.map(|v| (of, v))) {
        let listing = |spec| wide::generate(&Nest::new(spec), vectors).unwrap().listing();
        assert!(!listing(copy(*dtype, &[])).contains("stream"));
        let streaming = listing(copy(*dtype, &[1]));
        let count = |what: &str| streaming.matches(what).count();
        let counts = [count("    stream "), count("    store("), count("    fence")];
        assert_eq!(counts, [*past, *through, 1], "{dtype}");
    }
}

#[test]
fn nearly_every_kernel_has_wide_code() {
    let dtypes =
        [DType::F32, DType::F32, DType::Bf16, DType::I32, DType::I64, DType::F64, DType::Bool];
    for vectors in [Vectors::Ymm, Vectors::Zmm] {
        let refused: Vec<&str> = seeds(0)
            .filter_map(|seed| wide::generate(&nest(seed, &dtypes), vectors).err().map(|e| e.0))
            .collect();
        assert!(refused.len() * 8 < seeds(0).count(), "{vectors:?}: {refused:?}");
    }
}

/// Every byte of the code belongs to an instruction, jumps lead to instructions, and constants lie
/// behind the code.
#[test]
fn wide_code_is_instructions_throughout() {
    use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind};
    let dtypes = DType::ALL;
    let vectors = [Vectors::Ymm, Vectors::Zmm];
    for (seed, vectors) in seeds(0).flat_map(|seed| vectors.map(|vectors| (seed, vectors))) {
        let Ok(generated) = wide::generate(&nest(seed, &dtypes), vectors) else { continue };
        let bytes = generated.bytes();
        let mut all: Vec<Instruction> = Vec::new();
        for instruction in &mut Decoder::new(64, &bytes, DecoderOptions::NONE) {
            assert!(!instruction.is_invalid(), "seed {seed}: {:#x}", instruction.ip());
            all.push(instruction);
            if instruction.mnemonic() == Mnemonic::Ret {
                break;
            }
        }
        let end = all.last().map_or(0, Instruction::next_ip);
        for instruction in &all {
            let jumps = instruction.op0_kind() == OpKind::NearBranch64;
            let target = instruction.near_branch_target();
            let reached = || all.binary_search_by_key(&target, Instruction::ip).is_ok();
            assert!(!jumps || reached(), "seed {seed}: {instruction:?}");
            let (constant, len) = (instruction.ip_rel_memory_address(), bytes.len() as u64);
            let behind = (end.next_multiple_of(64)..len).contains(&constant);
            assert!(!instruction.is_ip_rel_memory_operand() || behind, "seed {seed}");
        }
    }
}

#[test]
fn code_depends_on_the_nest_alone() {
    let mut compilers = compilers();
    for seed in seeds(0) {
        let nest = nest(seed, &[DType::F32, DType::I32, DType::F64]);
        for compiler in &mut compilers {
            let code = compiler.generate(&nest).unwrap();
            assert_eq!(code, compiler.generate(&nest.clone()).unwrap());
            let text = compiler.dump(&nest, Dump::Asm).unwrap();
            assert!(text.lines().count() > 1);
        }
    }
}
