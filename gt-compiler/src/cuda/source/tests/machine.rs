//! Runs a schedule's launches one by one on host memory: kernels by their texts, matrix products of floats by the interpreter.
//!
//! Guarantees: a write outside of a buffer is found; it says nothing about reads.

use gt_ir::{
    DType, Graph, HostTensor, Op, Scalar, Shape, Type,
    interp::{self, Arg},
};

use crate::{
    cuda::source::{
        Source, fold, joint, kernel, product, routine,
        tests::host::{Host, Names},
    },
    native::{Launch, MatMul, Matrix, Piece, ScalarArg, Schedule, launches, scalar, schedule},
    options::{Numerics, Options},
    pipeline::optimize,
};

/// Bytes nobody should write.
const CANARY: u128 = 0xa5a5_a5a5_a5a5_a5a5_a5a5_a5a5_a5a5_a5a5;

/// A schedule, its launches and their texts.
pub(crate) struct Planned {
    schedule: Schedule,
    launches: Vec<Launch>,
    texts: Vec<Vec<Source>>,
}

impl Planned {
    /// The launches of a graph, as it is or made cheaper.
    pub(crate) fn new(graph: &Graph, names: &mut Names) -> Planned {
        let graph = optimize(graph, &Options::default(), &crate::Machine::default()).unwrap().graph;
        let mut schedule = schedule(&graph).unwrap();
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
            texts.iter().for_each(|source| host.launch(source, &args));
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
        Launch::Piece(Piece::Routine(r)) => routine(&names.fresh(), r),
        Launch::Affine(..) => unreachable!("not where results are exact"),
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
        Launch::Piece(Piece::Fold(_) | Piece::MatMul(_)) | Launch::Affine(..) => &[],
    }
}

/// Memory with a canary behind it.
struct Buffer {
    words: Vec<u128>,
    len: usize,
}

impl Buffer {
    fn new(len: usize) -> Buffer {
        Buffer { words: vec![CANARY; len.div_ceil(16) + 2], len }
    }

    fn address(&self) -> u64 {
        self.words.as_ptr() as u64
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.len]
    }

    fn is_whole(&self) -> bool {
        let bytes: &[u8] = bytemuck::cast_slice(&self.words);
        bytes[self.len..].iter().all(|b| *b == 0xa5)
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
