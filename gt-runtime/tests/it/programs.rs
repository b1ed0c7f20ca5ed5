//! Small tapes, and an engine that misbehaves on request.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use gt_compiler::engine::{
    Arg, Compile, Compiled, Engine, EngineError, EngineInfo, EngineStats, Value,
};
use gt_compiler::{ArtifactError, Native, NativeConfig, Options, Program};
use gt_ir::backend::{Backend, RunError};
use gt_ir::{
    Entry, Graph, HostTensor, Instr, Loc, Op, Operand, Scalar, Shape, Tape, Type, ValueId,
};
use smallvec::SmallVec;

pub(crate) fn id(n: u64) -> ValueId {
    ValueId(n)
}

pub(crate) fn tensor(data: Vec<f32>) -> HostTensor {
    let shape = Shape::new(&[data.len()]).unwrap();
    HostTensor::from_vec(data, shape).unwrap()
}

pub(crate) fn input(out: u64, ty: Type) -> Entry {
    Entry::Input { out: id(out), ty, name: None }
}

#[track_caller]
pub(crate) fn instr(out: u64, op: Op, inputs: &[Operand]) -> Entry {
    let loc = Loc::from(std::panic::Location::caller());
    Entry::Instr(Instr { out: id(out), op, inputs: inputs.iter().copied().collect(), loc })
}

#[track_caller]
pub(crate) fn add(out: u64, a: u64, b: u64) -> Entry {
    instr(out, Op::Add, &[Operand::Value(id(a)), Operand::Value(id(b))])
}

#[track_caller]
pub(crate) fn add_scalar(out: u64, a: u64, b: f64) -> Entry {
    instr(out, Op::Add, &[Operand::Value(id(a)), Operand::Scalar(Scalar::F64(b))])
}

pub(crate) fn free(value: u64) -> Entry {
    Entry::Free(id(value))
}

pub(crate) fn output(value: u64) -> Entry {
    Entry::Output { value: id(value), name: None }
}

pub(crate) fn tape(entries: Vec<Entry>) -> Tape {
    Tape { entries }
}

/// Uploads a tensor as a value.
pub(crate) fn give(session: &dyn Backend, value: u64, data: HostTensor) {
    let ty = *data.ty();
    session.upload(id(value), data);
    session.submit(tape(vec![input(value, ty)]));
}

/// Reads a value.
pub(crate) fn read(session: &dyn Backend, value: u64) -> Result<Vec<f32>, RunError> {
    session.submit(tape(vec![output(value)]));
    session.fetch(id(value)).map(|data| data.to_vec().unwrap())
}

/// Adds a one and reads the sum repeatedly while a thread works. Returns how often.
pub(crate) fn count_while(session: &dyn Backend, other: JoinHandle<()>) -> u64 {
    give(session, 0, tensor(vec![0.0]));
    let mut i = 0;
    while !other.is_finished() {
        session.submit(tape(vec![add_scalar(i + 1, i, 1.0), free(i)]));
        i += 1;
        assert_eq!(read(session, i).unwrap(), [i as f32]);
    }
    other.join().unwrap();
    i
}

/// An engine that fails at `neg`, panics at `exp`, loses its device at `cos`, is slow at `sqrt`,
/// and never runs a plan.
pub(crate) struct Moody(Native);

impl Moody {
    pub(crate) fn boxed() -> Box<dyn Engine> {
        Box::new(Moody(Native::new(NativeConfig::host()).unwrap()))
    }
}

impl Engine for Moody {
    fn info(&self) -> EngineInfo {
        EngineInfo { name: "moody".into(), ..self.0.info() }
    }
    fn upload(&mut self, data: &HostTensor) -> Result<Value, EngineError> {
        self.0.upload(data)
    }
    fn execute(&mut self, op: &Op, args: &[Arg<'_>]) -> Result<Value, EngineError> {
        match op {
            Op::Neg => Err(EngineError::OutOfMemory { asked: 1 << 40, live: 7, limit: 8 }),
            Op::Exp => panic!("exp is too much"),
            Op::Cos => Err(EngineError::Device("it fell off the bus".into())),
            Op::Sqrt => {
                std::thread::sleep(Duration::from_millis(50));
                self.0.execute(op, args)
            }
            _ => self.0.execute(op, args),
        }
    }
    fn compiler(&self) -> Arc<dyn Compile> {
        Arc::new(Sulky(self.0.compiler()))
    }
    fn run(
        &mut self,
        _: &Program,
        _: &mut Vec<Value>,
        _: &[Scalar],
    ) -> Result<SmallVec<[Value; 4]>, EngineError> {
        Err(EngineError::OutOfMemory { asked: 1 << 40, live: 7, limit: 8 })
    }
    fn download(&mut self, value: &Value) -> Result<HostTensor, EngineError> {
        self.0.download(value)
    }
    fn stats(&self) -> EngineStats {
        self.0.stats()
    }
}

/// A compiler that panics at `sin`.
struct Sulky(Arc<dyn Compile>);

impl Compile for Sulky {
    fn compile(
        &self,
        region: &Graph,
        donated: &[bool],
        options: &Options,
    ) -> Result<Compiled, EngineError> {
        assert!(!region.to_string().contains(" sin "), "sin is too much");
        self.0.compile(region, donated, options)
    }
    fn load(&self, bytes: &[u8]) -> Result<Program, ArtifactError> {
        self.0.load(bytes)
    }
}

/// A unary op on a value.
#[track_caller]
pub(crate) fn unary(out: u64, op: Op, a: u64) -> Entry {
    instr(out, op, &[Operand::Value(id(a))])
}
