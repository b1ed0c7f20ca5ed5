//! Runs a schedule's launches one by one on host memory: kernels by their texts, matrix products of
//! floats and linear algebra by the interpreter.
//!
//! Guarantees: each buffer ends at a page nobody may touch, or up to fifteen bytes before it, and
//! those are looked at: so a write behind a buffer is found, and a read far behind it ends the
//! process. Everything is run twice, with blocks and threads in one order and in the other, and has
//! to give the same bits.

use gt_ir::{
    Class, DType, Graph, HostTensor, Op, Scalar, Shape, Type,
    interp::{self, Arg},
};

use crate::{
    buffer::{Pool, Storage},
    cuda::source::{
        Source, fold, joint, kernel, product, routine,
        tests::host::{Host, Names},
    },
    device::{Launch, launches},
    native::is_product,
    options::{Numerics, Options},
    pipeline::optimize_around,
    schedule::{
        BufferId, MatMul, Matrix, Piece, Routine, ScalarArg, Schedule, Updates, scalar, schedule,
    },
};

/// What bytes are that nobody wrote.
const CANARY: u8 = 0xa5;
/// What packs are aligned to.
const ALIGN: usize = 16;

/// A schedule, its launches and their texts.
pub(crate) struct Planned {
    schedule: Schedule,
    launches: Vec<Launch>,
    texts: Vec<Vec<Source>>,
}

impl Planned {
    /// The launches of a graph, as it is or made cheaper.
    pub(crate) fn new(graph: &Graph, names: &mut Names) -> Planned {
        let options = Options::default();
        let graph = optimize_around(graph, &options, &crate::Machine::PROCESSOR, is_product);
        let graph = graph.unwrap().graph;
        let mut schedule = schedule(&graph, Updates::Whole).unwrap();
        let launches = launches(&mut schedule, graph.inputs().len(), Numerics::Exact);
        let texts = launches.iter().map(|launch| texts(launch, names)).collect();
        Planned { schedule, launches, texts }
    }

    pub(crate) fn sources(&self) -> impl Iterator<Item = &Source> {
        self.texts.iter().flatten()
    }

    /// The outputs, or the index that is out of range.
    pub(crate) fn run(
        &self,
        host: &Host,
        inputs: &[&HostTensor],
        slots: &[Scalar],
    ) -> Result<Vec<HostTensor>, i64> {
        let [first, second] = [0, 1].map(|order| self.run_in(order, host, inputs, slots));
        match (&first, &second) {
            (Ok(a), Ok(b)) => {
                let equal = a.iter().zip(b).all(|(a, b)| a.bytes() == b.bytes());
                assert!(equal, "the order of blocks or threads changes a result");
            }
            // Which of several wrong indices is told may depend on it.
            (a, b) => assert_eq!(a.is_err(), b.is_err()),
        }
        first
    }

    fn run_in(
        &self,
        order: u32,
        host: &Host,
        inputs: &[&HostTensor],
        slots: &[Scalar],
    ) -> Result<Vec<HostTensor>, i64> {
        let mut memory: Vec<Buffer> = self.schedule.sizes.iter().map(|&n| Buffer::new(n)).collect();
        for (buffer, input) in memory.iter_mut().zip(inputs) {
            buffer.bytes().copy_from_slice(input.bytes());
        }
        for (launch, texts) in self.launches.iter().zip(&self.texts) {
            let mut error = [0u64; 2];
            let scalars: Vec<u64> =
                scalar_args(launch).iter().map(|s| scalar(*s, slots)).chain([0]).collect();
            let mut args: Vec<u64> = buffers(launch).iter().map(|&b| memory[b].address()).collect();
            args.extend([scalars.as_ptr() as u64, error.as_mut_ptr() as u64]);
            if let Launch::Piece(Piece::MatMul(work)) = launch
                && work.dtype.is_float()
            {
                multiply(work, &mut memory);
            }
            if let Launch::Piece(Piece::Routine(routine)) = launch
                && routine.op.spec().class == Class::Matrix
            {
                host_work(routine, &mut memory);
            }
            texts.iter().for_each(|source| host.launch_in(order, source, &args));
            if error[0] != 0 {
                return Err(error[1] as i64);
            }
        }
        assert!(memory.iter().all(Buffer::is_whole), "a kernel wrote beyond a buffer");
        let outputs = self.schedule.outputs.iter();
        Ok(outputs
            .map(|(id, ty)| {
                let bytes = memory[id.index()].bytes()[..ty.bytes()].to_vec();
                HostTensor::new(*ty, bytes.into()).unwrap()
            })
            .collect())
    }
}

fn texts(launch: &Launch, names: &mut Names) -> Vec<Source> {
    match launch {
        Launch::Joint { work, .. } => vec![joint(&names.fresh(), work)],
        Launch::Piece(Piece::Kernel(k)) => vec![kernel(&names.fresh(), &k.spec, k.cut)],
        Launch::Piece(Piece::Fold(f)) => vec![fold(&names.fresh(), f)],
        Launch::Piece(Piece::Routine(r)) if r.op.spec().class == Class::Matrix => Vec::new(),
        Launch::Piece(Piece::Routine(r)) => routine(&names.fresh(), r),
        Launch::Affine(..) | Launch::Piece(Piece::Attention(_)) => {
            unreachable!("not where results are exact")
        }
        Launch::Piece(Piece::MatMul(work)) if work.dtype.is_float() => Vec::new(),
        Launch::Piece(Piece::MatMul(work)) => vec![product(&names.fresh(), work)],
    }
}

fn buffers(launch: &Launch) -> Vec<usize> {
    match launch {
        Launch::Joint { buffers, .. } => buffers.iter().map(|b| b.index()).collect(),
        Launch::Piece(Piece::Kernel(k)) => k.buffers.iter().map(|b| b.index()).collect(),
        Launch::Piece(Piece::Fold(f)) => vec![f.from.index(), f.out.index()],
        Launch::Piece(Piece::Routine(r)) => {
            r.inputs.iter().map(|(b, _)| b.index()).chain([r.out.index()]).collect()
        }
        Launch::Piece(Piece::Attention(a)) => {
            a.reads().chain(a.writes()).map(|b| b.index()).collect()
        }
        Launch::Piece(Piece::MatMul(w)) | Launch::Affine(w, _) => {
            vec![w.lhs.buffer.index(), w.rhs.buffer.index(), w.out.index()]
        }
    }
}

fn scalar_args(launch: &Launch) -> &[ScalarArg] {
    match launch {
        Launch::Joint { scalars, .. } => scalars,
        Launch::Piece(Piece::Kernel(k)) => &k.scalars,
        Launch::Piece(Piece::Routine(r)) => &r.scalars,
        Launch::Piece(Piece::Fold(_) | Piece::MatMul(_) | Piece::Attention(_))
        | Launch::Affine(..) => &[],
    }
}

/// Linear algebra, which the host does for every device.
fn host_work(routine: &Routine, memory: &mut [Buffer]) {
    let operand = |(buffer, ty): &(BufferId, Type)| {
        let bytes = memory[buffer.index()].bytes()[..ty.bytes()].to_vec();
        HostTensor::new(*ty, bytes.into()).unwrap()
    };
    let operands: Vec<HostTensor> = routine.inputs.iter().map(operand).collect();
    let args: Vec<_> = operands.iter().map(Arg::Tensor).collect();
    let result = interp::eval(&routine.op, &args).unwrap();
    memory[routine.out.index()].bytes()[..result.bytes().len()].copy_from_slice(result.bytes());
}

/// Memory with nothing behind it.
struct Buffer {
    storage: Storage,
    len: usize,
}

impl Buffer {
    fn new(len: usize) -> Buffer {
        let whole = len.next_multiple_of(ALIGN).max(ALIGN);
        let mut storage = Pool::new(usize::MAX, true).alloc(whole).unwrap();
        storage.as_mut_slice().unwrap().fill(CANARY);
        Buffer { storage, len }
    }

    fn address(&self) -> u64 {
        self.storage.ptr() as u64
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.storage.as_mut_slice().unwrap()[..self.len]
    }

    fn is_whole(&self) -> bool {
        self.storage.as_slice()[self.len..].iter().all(|b| *b == CANARY)
    }
}

/// A matrix product by the interpreter, on operands made dense.
fn multiply(work: &MatMul, memory: &mut [Buffer]) {
    let operands =
        [(&work.lhs, [work.m, work.k]), (&work.rhs, [work.k, work.n])].map(|(matrix, last)| {
            let sizes: Vec<usize> = work.batch.iter().copied().chain(last).collect();
            dense(matrix, work.dtype, &sizes, memory)
        });
    let args = [Arg::Tensor(&operands[0]), Arg::Tensor(&operands[1])];
    let out = interp::eval(&Op::MatMul, &args).unwrap();
    memory[work.out.index()].bytes().copy_from_slice(out.bytes());
}

fn dense(matrix: &Matrix, dtype: DType, sizes: &[usize], memory: &mut [Buffer]) -> HostTensor {
    let (ty, from) =
        (Type::new(dtype, Shape::new(sizes).unwrap()), memory[matrix.buffer.index()].bytes());
    let mut bytes = Vec::with_capacity(ty.bytes());
    for flat in 0..ty.shape.numel() {
        let (mut rest, mut at) = (flat, matrix.access.offset);
        for (size, stride) in sizes.iter().zip(&matrix.access.strides).rev() {
            at += (rest % size) as i64 * stride;
            rest /= size;
        }
        let at = at as usize * dtype.size();
        bytes.extend_from_slice(&from[at..at + dtype.size()]);
    }
    HostTensor::new(ty, bytes.into()).unwrap()
}
