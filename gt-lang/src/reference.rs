//! A backend that runs everything on the reference interpreter, inside the calling thread. For
//! tests: slow, obviously right.
//!
//! Guarantees: a failed instruction poisons its result, and reads of anything derived from it
//! report the first cause, as a running system does; values are freed when the tape says so, and
//! [`Reference::live`] counts the rest. Every entry is verified first: after a fault of the tape no
//! read succeeds.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gt_ir::backend::{Backend, ErrorKind, RunError, Stats, WorkerStats};
use gt_ir::canonical::{Bindings, Canonicalizer, Key};
use gt_ir::interp::{Arg, EvalError, eval};
use gt_ir::signal::Signals;
use gt_ir::verify::{Fault, Verifier};
use gt_ir::{Entry, HostTensor, Instr, OpError, Operand, Tape, ValueId};

use crate::session::Session;

/// The interpreter as a running system.
///
/// ```no_run
/// use gt_lang::{DynTensor, reference::Reference};
/// let (session, system) = Reference::session();
/// let _entered = session.enter();
/// let x = DynTensor::from([1.0f32, 2.0]) * 2.0;
/// assert_eq!(x.to_vec::<f32>()?, [2.0, 4.0]);
/// drop(x);
/// session.flush();
/// assert_eq!(system.live(), 0);
/// # Ok::<(), gt_lang::Error>(())
/// ```
#[derive(Default)]
pub struct Reference {
    state: Mutex<State>,
}

/// The values that are alive, and what has been submitted.
#[derive(Default)]
struct State {
    values: BTreeMap<ValueId, Result<HostTensor, RunError>>,
    /// Data of inputs whose declaration has not been submitted.
    uploads: BTreeMap<ValueId, HostTensor>,
    segments: Vec<usize>,
    keys: Vec<Key>,
    peak: usize,
    verifier: Verifier,
    /// The first entry that breaks a rule of tapes.
    fault: Option<Fault>,
    stats: WorkerStats,
    signals: Signals,
    closed: bool,
}

impl Reference {
    /// A new, empty system.
    pub fn new() -> Arc<Reference> {
        Arc::new(Reference::default())
    }

    /// A session with a new system, and the system itself to look into.
    pub fn session() -> (Session, Arc<Reference>) {
        let backend = Reference::new();
        (Session::with_backend(backend.clone()), backend)
    }

    /// How many values are alive.
    pub fn live(&self) -> usize {
        self.lock().values.len()
    }

    /// The most values that were ever alive at once.
    pub fn peak(&self) -> usize {
        self.lock().peak
    }

    /// The number of entries of each segment submitted so far.
    pub fn segments(&self) -> Vec<usize> {
        self.lock().segments.clone()
    }

    /// The canonical key of each segment submitted so far.
    pub fn keys(&self) -> Vec<Key> {
        self.lock().keys.clone()
    }

    /// The state, also after a test has panicked while it held the lock.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// A value that is alive, or the error that kept it from being computed.
    fn get(&self, value: ValueId) -> Result<HostTensor, RunError> {
        let missing =
            || RunError::new(ErrorKind::Internal, format!("{value} does not exist or was freed"));
        self.values.get(&value).cloned().unwrap_or_else(|| Err(missing()))
    }

    /// Runs one entry.
    fn step(&mut self, entry: Entry) {
        self.peak = self.peak.max(self.values.len());
        if let Err(fault) = self.verifier.entry(&entry) {
            self.fault.get_or_insert(fault);
        }
        match entry {
            Entry::Input { out, ty: _, name: _ } => {
                let missing = || RunError::new(ErrorKind::Internal, format!("no data for {out}"));
                let data = self.uploads.remove(&out).ok_or_else(missing);
                self.values.insert(out, data);
            }
            Entry::Instr(instr) => {
                let result = self.run(&instr);
                self.stats.instructions += 1;
                self.values.insert(instr.out, result);
            }
            Entry::Free(value) => {
                self.values.remove(&value);
            }
            Entry::Enter(_) | Entry::Exit(_) | Entry::Output { .. } => (),
        }
    }

    /// Runs one instruction; its error names the op and the types of the operands.
    fn run(&self, instr: &Instr) -> Result<HostTensor, RunError> {
        let mut values = Vec::new();
        for operand in &instr.inputs {
            values.push(match operand {
                Operand::Value(value) => Some(self.get(*value)?),
                Operand::Scalar(_) => None,
            });
        }
        let args =
            values.iter().zip(&instr.inputs).map(|(value, operand)| match (value, operand) {
                (Some(value), _) => Arg::Tensor(value),
                (None, Operand::Scalar(scalar)) => Arg::Scalar(*scalar),
                // Values were all found above.
                (None, Operand::Value(_)) => Arg::Scalar(gt_ir::Scalar::I64(0)),
            });
        eval(&instr.op, &args.collect::<Vec<_>>()).map_err(|error| {
            let shapes: Vec<String> = values
                .iter()
                .zip(&instr.inputs)
                .map(|(value, operand)| {
                    value.as_ref().map_or(operand.to_string(), |v| v.ty().to_string())
                })
                .collect();
            let (why, hint) = match error {
                EvalError::Op(OpError { message, hint }) => (message, hint),
                error => (error.to_string(), None),
            };
            let message = format!("{} {}: {why}", instr.op, shapes.join(", "));
            RunError {
                hint,
                value: Some(instr.out),
                loc: instr.loc,
                ..RunError::new(ErrorKind::Instruction, message)
            }
        })
    }
}

impl Backend for Reference {
    fn submit(&self, segment: Tape) {
        let mut state = self.lock();
        if !state.closed {
            state.segments.push(segment.entries.len());
            state.keys.push(Canonicalizer::new().segment(&segment, &mut Bindings::default()));
            state.stats.segments += 1;
            segment.entries.into_iter().for_each(|entry| state.step(entry));
        }
    }

    fn upload(&self, value: ValueId, data: HostTensor) {
        let mut state = self.lock();
        state.stats.bytes_in += data.bytes().len() as u64;
        state.uploads.insert(value, data);
    }

    fn configure(&self, signals: Signals) {
        self.lock().signals = signals;
    }

    fn fetch(&self, value: ValueId) -> Result<HostTensor, RunError> {
        let mut state = self.lock();
        if let Some(fault) = &state.fault {
            let message = format!("the tape is faulty at entry {}: {}", fault.entry, fault.message);
            return Err(RunError { loc: fault.loc, ..RunError::new(ErrorKind::Internal, message) });
        }
        let data = state.get(value)?;
        state.stats.bytes_out += data.bytes().len() as u64;
        Ok(data)
    }

    fn stats(&self) -> Result<Stats, RunError> {
        let mut worker = self.lock().stats.clone();
        (worker.name, worker.engine) = ("w0".to_owned(), "interpreter".to_owned());
        let signals = self.lock().signals.clone();
        Ok(Stats { workers: vec![worker], signals, ..Stats::default() })
    }

    fn close(&self) {
        *self.lock() = State { closed: true, ..State::default() };
    }
}

/// What the process falls back to in the tests of this crate, where no runtime is linked.
#[cfg(test)]
mod embedded {
    use super::*;
    use gt_ir::backend::Target;

    #[expect(
        unsafe_code,
        reason = "the symbol the session looks for; gt-runtime defines it in a whole program"
    )]
    // SAFETY: no other definition is linked into the tests of this crate, and the signature is the
    // declared one.
    #[unsafe(no_mangle)]
    fn __gt_embedded_backend(_: Target<'_>) -> Result<Arc<dyn Backend>, RunError> {
        Ok(Reference::new())
    }
}
