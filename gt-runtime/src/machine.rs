//! What this machine can do: the floating-point operations and the bytes of memory in a second that
//! the engine reaches on work that is best for it.
//!
//! A measurement takes about a tenth of a second. It is kept in the folder of compiled programs, so
//! plans that depend on it are the same from run to run. Another processor or another number of
//! threads is measured anew, and so is a machine whose file was deleted.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use gt_compiler::{Arg, Engine, Native, NativeConfig, Value, keep_file, kept_file};
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

/// A measurement as it is kept.
#[derive(Serialize, Deserialize)]
struct Kept {
    processor: String,
    machine: Machine,
}

impl Machine {
    /// This machine with so many threads: as it was measured before, or as it is now.
    #[must_use]
    pub fn with_threads(threads: usize) -> Machine {
        let mut measured = measurements();
        *measured.entry(threads).or_insert_with(|| Machine::kept_or_measured(threads))
    }

    /// This machine with so many threads, as far as it is known without a measurement.
    #[must_use]
    pub fn known(threads: usize) -> Machine {
        let found = measurements().get(&threads).copied();
        let found =
            found.or_else(|| read(&NativeConfig::host().store?, &name(threads), &processor()));
        found.unwrap_or(Machine { threads: threads as u64, ..Machine::default() })
    }

    fn kept_or_measured(threads: usize) -> Machine {
        let (processor, name) = (processor(), name(threads));
        let Some(folder) = NativeConfig::host().store else {
            return measure(threads).unwrap_or_default();
        };
        let kept = || read(&folder, &name, &processor);
        if let Some(machine) = kept() {
            return machine;
        }
        let machine = measure(threads).unwrap_or_default();
        // Of processes that start together, the first measurement is everybody's.
        if let Some(machine) = kept() {
            return machine;
        }
        if machine.flops > 0.0 {
            write(&folder, &name, &Kept { processor, machine });
        }
        machine
    }
}

/// The machine by numbers of threads, as this process has found it.
fn measurements() -> MutexGuard<'static, BTreeMap<usize, Machine>> {
    static MEASURED: Mutex<BTreeMap<usize, Machine>> = Mutex::new(BTreeMap::new());
    MEASURED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The file of a measurement.
fn name(threads: usize) -> String {
    let kind = if cfg!(debug_assertions) { "debug" } else { "release" };
    format!("machine-{kind}-{threads}.json")
}

fn read(folder: &Path, name: &str, processor: &str) -> Option<Machine> {
    let kept: Kept = serde_json::from_slice(&kept_file(folder, name)?).ok()?;
    (kept.processor == processor).then_some(kept.machine)
}

/// Nothing is lost if it cannot be written: the next process measures again.
fn write(folder: &Path, name: &str, kept: &Kept) {
    if let Ok(text) = serde_json::to_vec(kept) {
        let _ = keep_file(folder, name, &text);
    }
}

/// The name of the processor, as far as the system tells it.
fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name"));
    let name = name.and_then(|rest| rest.split_once(':')).map(|(_, name)| name.trim());
    name.unwrap_or(std::env::consts::ARCH).to_owned()
}

/// Measures on a thread of its own: a profile ends with the program's thread, which then has no
/// thread-locals any more, and products need some.
fn measure(threads: usize) -> Option<Machine> {
    std::thread::spawn(move || measured(threads)).join().ok().flatten()
}

fn measured(threads: usize) -> Option<Machine> {
    let config = NativeConfig { store: None, threads, ..NativeConfig::host() };
    let mut engine = Native::new(config).ok()?;
    let square = zeros(&mut engine, &[ROWS, ROWS])?;
    let product = best(&mut engine, &Op::MatMul, &[Arg::Value(&square), Arg::Value(&square)])?;
    let vector = zeros(&mut engine, &[ELEMENTS])?;
    let sum = [Arg::Value(&vector), Arg::Scalar(Scalar::F64(1.0))];
    let sum = best(&mut engine, &Op::Add, &sum)?;
    let n = ROWS as f64;
    let (flops, bytes) = (2.0 * n * n * n / product, 8.0 * ELEMENTS as f64 / sum);
    Some(Machine { flops, bytes, threads: threads as u64 })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_is_kept_for_its_processor() {
        let folder = std::env::temp_dir().join(format!("gt-machine-{}", std::process::id()));
        let machine = Machine { flops: 2e9, bytes: 1e9, threads: 2 };
        write(&folder, "m", &Kept { processor: "a".into(), machine });
        assert_eq!((read(&folder, "m", "a"), read(&folder, "m", "b")), (Some(machine), None));
        std::fs::write(folder.join("m"), "{\"processor\": 7").unwrap();
        assert_eq!(read(&folder, "m", "a"), None);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1, "nothing is left of writing");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_thread_computes_something_in_a_second() {
        let machine = measure(1).unwrap();
        assert!(machine.flops > 1e6 && machine.bytes > 1e6, "{machine:?}");
    }
}
