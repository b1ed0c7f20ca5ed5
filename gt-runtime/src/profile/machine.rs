//! What this machine can do: the floating-point operations and the bytes of memory in a second that
//! the engine reaches on work that is best for it.

use std::sync::OnceLock;

use gt_compiler::{Arg, Engine, Native, NativeConfig, Value};
use gt_ir::{DType, HostTensor, Op, Scalar, Shape, Type};
use serde::{Deserialize, Serialize};

use crate::clock;

/// Rows of the square matrices whose product is measured.
const ROWS: usize = 768;
/// The elements of the vector whose sum with a number is measured: more than caches hold.
const ELEMENTS: usize = 12 << 20;
/// Each measurement is the best of so many.
const ROUNDS: usize = 3;

/// What the machine can do in a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Floating-point operations in `f32`, in a large matrix product. 0 if unknown.
    pub flops: f64,
    /// Bytes read and written, in a large sum. 0 if unknown.
    pub bytes: f64,
    /// The threads of kernels.
    pub threads: u64,
}

impl Machine {
    /// This machine, measured once in about a tenth of a second.
    pub(super) fn here() -> Machine {
        static HERE: OnceLock<Machine> = OnceLock::new();
        *HERE.get_or_init(|| measure().unwrap_or_default())
    }
}

fn measure() -> Option<Machine> {
    let config = NativeConfig { store: None, ..NativeConfig::host() };
    let threads = config.threads as u64;
    let mut engine = Native::new(config).ok()?;
    let square = zeros(&mut engine, &[ROWS, ROWS])?;
    let product = best(&mut engine, &Op::MatMul, &[Arg::Value(&square), Arg::Value(&square)])?;
    let vector = zeros(&mut engine, &[ELEMENTS])?;
    let sum = [Arg::Value(&vector), Arg::Scalar(Scalar::F64(1.0))];
    let sum = best(&mut engine, &Op::Add, &sum)?;
    let n = ROWS as f64;
    Some(Machine { flops: 2.0 * n * n * n / product, bytes: 8.0 * ELEMENTS as f64 / sum, threads })
}

fn zeros(engine: &mut Native, sizes: &[usize]) -> Option<Value> {
    let ty = Type::new(DType::F32, Shape::new(sizes).ok()?);
    let data = HostTensor::new(ty, vec![0_u8; ty.bytes()].into()).ok()?;
    engine.upload(&data).ok()
}

/// The seconds of the fastest run. The first run compiles.
fn best(engine: &mut Native, op: &Op, args: &[Arg<'_>]) -> Option<f64> {
    engine.execute(op, args).ok()?;
    let mut fastest = f64::INFINITY;
    for _ in 0..ROUNDS {
        let began = clock::now();
        engine.execute(op, args).ok()?;
        fastest = fastest.min((clock::now() - began).as_secs_f64());
    }
    (fastest > 0.0).then_some(fastest)
}
