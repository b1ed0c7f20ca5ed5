//! Admission of segments to a session: the part of a segment that a worker runs, or the error that
//! breaks the session.
//!
//! A tape is verified entry by entry against the session's live values. A launch whose effect is
//! certain is admitted in one step. Any other launch is expanded and verified as a tape. Entries
//! that need a lost value are removed, and the values that they define are lost. Values above the
//! session's quota are lost as well (`quota`).

use super::{Session, error};
use crate::dispatcher::Config;
use crate::footprint::first_defined;
use crate::wire::RESERVED;
use gt_ir::backend::{ErrorKind, RunError};
use gt_ir::canonical::{Bindings, Template, expand};
use gt_ir::op::Operand;
use gt_ir::tape::{Entry, Instr, Tape, ValueId};
use gt_ir::verify::Fault;
use std::sync::Arc;

/// The hint for a session that held too many values.
const HOLD_FEWER: &str =
    "this session is over; in a new one, drop tensors as soon as they are not needed";

/// Refuses values that only the dispatcher may name: one of them is below `above`.
pub(super) fn check_name(above: u64) -> Result<(), RunError> {
    if above <= RESERVED {
        return Ok(());
    }
    let message = format!("values from {} on are named by the server", ValueId(RESERVED));
    Err(error(ErrorKind::Internal, message).hint("number the values of a session from %0 on"))
}

/// The part of a launch that a worker runs.
pub(in crate::dispatcher) enum Launched {
    /// All of it: the template, with the bindings of the launch.
    Whole(Arc<Template>),
    /// The expanded tape without the entries that need a lost value.
    Stripped(Arc<Tape>),
}

/// The most instructions of a segment in all rounds of its loops.
const MAX_IN_ROUNDS: usize = 1 << 20;

/// Whether the loops of a segment have no more instructions in all rounds than that: a worker runs
/// them, and some engines compile each.
fn bounded(tape: &Tape) -> Result<(), RunError> {
    let work = tape.instrs().map(|instr| instr.op.work()).fold(0, usize::saturating_add);
    if work <= MAX_IN_ROUNDS {
        return Ok(());
    }
    let message = format!(
        "a segment has {work} instructions in all rounds of its loops, more than {MAX_IN_ROUNDS}"
    );
    Err(error(ErrorKind::Resource, message)
        .hint("end steps between loops with `Session::step`, or make loops shorter"))
}

impl Session {
    /// Admits the next segment. Returns the part of it that a worker runs.
    pub(in crate::dispatcher) fn admit(
        &mut self,
        tape: Arc<Tape>,
        config: &Config,
    ) -> Result<Arc<Tape>, RunError> {
        self.verify(&tape)?;
        self.check_values(config)?;
        Ok(self.without_lost(&tape, config).map_or(tape, Arc::new))
    }

    /// A verified tape without the entries that need a lost value or exceed the quota. None if no
    /// entry does.
    fn without_lost(&mut self, tape: &Tape, config: &Config) -> Option<Tape> {
        let left = (!self.lost.is_empty()).then(|| self.strip(tape));
        let tape = left.as_ref().unwrap_or(tape);
        if self.refuse_excess(tape, config) { Some(self.strip(tape)) } else { left }
    }

    fn verify(&mut self, tape: &Tape) -> Result<(), RunError> {
        bounded(tape)?;
        let (first, above) = (self.verifier.n_seen(), self.above);
        for entry in &tape.entries {
            self.flight.is_mixed |= entry.defines().is_some_and(|value| value.0 < above);
            self.enter(entry).map_err(|fault| self.refusal(&fault, first))?;
        }
        Ok(())
    }

    /// As [`admit`](Session::admit), for a segment given as a template and its bindings.
    pub(in crate::dispatcher) fn launch(
        &mut self,
        number: u32,
        bindings: &Bindings,
        config: &Config,
    ) -> Result<Launched, RunError> {
        let refuse = |why: String| {
            let message = format!("the server refused a launch of template {number}: {why}");
            error(ErrorKind::Internal, message)
        };
        let Some(held) = self.templates.get(number) else {
            let hint =
                "define a template before its first launch, and again after it was forgotten";
            return Err(refuse("it is not defined".into()).hint(hint));
        };
        let template = Arc::clone(&held.template);
        let uploads = held.footprint.uploads.clone();
        if !self.replay(number, bindings, config) {
            let held = self.templates.get(number).ok_or_else(|| refuse("it is gone".into()))?;
            let hint =
                "bind values and literals in the order of the tape that defined the template";
            let tape = expand(&held.template, bindings)
                .map_err(|why| refuse(why.to_string()).hint(hint))?;
            let inputs = bindings.inputs.iter().map(|&value| self.verifier.ty(value)).collect();
            self.verify(&tape)?;
            self.n_verified += 1;
            if let Some(inputs) = inputs {
                self.templates.learn(number, bindings, inputs, &self.verifier);
            }
            self.check_values(config)?;
            if let Some(left) = self.without_lost(&tape, config) {
                return Ok(Launched::Stripped(Arc::new(left)));
            }
        } else {
            let first = first_defined(bindings).map_or(0, |first| first.0);
            for (at, ty) in uploads {
                self.declare(ValueId(first + u64::from(at)), ty);
            }
            self.check_values(config)?;
        }
        Ok(Launched::Whole(template))
    }

    /// Admits a launch in one step if its effect is certain and within the quota. Says whether it
    /// did.
    fn replay(&mut self, number: u32, bindings: &Bindings, config: &Config) -> bool {
        if !self.lost.is_empty() {
            return false;
        }
        let Session { templates, verifier, above, live_bytes, uploads, .. } = self;
        let (Some((held, variant)), Some(first)) =
            (templates.fitting(number, bindings, verifier, *above), first_defined(bindings))
        else {
            return false;
        };
        let bytes = *live_bytes + variant.bytes.0 - variant.bytes.1;
        let n_live = verifier.n_live() + variant.kept.len();
        if bytes + u128::from(uploads.early()) > u128::from(config.quota)
            || n_live.saturating_sub(held.footprint.freed.len()) > config.max_values
        {
            return false;
        }
        let freed = held.footprint.freed.iter();
        let freed = freed.filter_map(|&at| bindings.inputs.get(at as usize).copied());
        let kept = variant.kept.iter().map(|&(at, ty)| (ValueId(first.0 + u64::from(at)), ty));
        verifier.replay(freed, kept);
        *above = (*above).max(first.0.saturating_add(held.template.n_defined as u64));
        *live_bytes = bytes;
        true
    }

    fn check_values(&self, config: &Config) -> Result<(), RunError> {
        check_name(self.above)?;
        // Values above the limit are lost, and take some memory all the same.
        let n_held = self.verifier.n_live().max(self.uploads.len());
        let (held, most) = (n_held, config.max_values.saturating_mul(2));
        if held <= most {
            return Ok(());
        }
        let message = format!("the session holds {held} values, more than its limit of {most}");
        Err(error(ErrorKind::Resource, message).hint(HOLD_FEWER))
    }

    fn enter(&mut self, entry: &Entry) -> Result<(), Fault> {
        if let Entry::Free(value) = entry {
            let bytes = self.verifier.ty(*value).map_or(0, |ty| ty.bytes() as u128);
            self.verifier.entry(entry)?;
            self.live_bytes -= bytes;
        } else if let Some(ty) = self.verifier.entry(entry)? {
            self.above =
                self.above.max(entry.defines().map_or(0, |value| value.0.saturating_add(1)));
            self.live_bytes += ty.bytes() as u128;
            if let Entry::Input { out, ty, .. } = entry {
                self.declare(*out, *ty);
            }
        }
        Ok(())
    }

    fn refusal(&self, fault: &Fault, first: usize) -> RunError {
        let message = format!(
            "the server refused entry {} of segment {}: {}",
            fault.entry - first,
            self.n_segments,
            fault.message
        );
        RunError {
            hint: fault.hint.clone(),
            value: fault.value,
            loc: fault.loc,
            ..error(ErrorKind::Internal, message)
        }
    }

    /// The error of the first lost operand.
    pub(super) fn lost_operand(&self, instr: &Instr) -> Option<Arc<RunError>> {
        instr.inputs.iter().find_map(|operand| match operand {
            Operand::Value(value) => self.lost.cause(*value).cloned(),
            Operand::Scalar(_) => None,
        })
    }

    /// The tape without entries of lost values and entries that need one.
    fn strip(&mut self, tape: &Tape) -> Tape {
        let mut kept = Tape::default();
        for entry in &tape.entries {
            let keep = match entry {
                Entry::Instr(instr) => {
                    let itself = || self.lost.cause(instr.out).cloned();
                    let cause = self.lost_operand(instr).or_else(itself);
                    let keep = cause.is_none();
                    if let Some(cause) = cause {
                        // No type: the tape frees the value.
                        self.lost.add(instr.out, self.verifier.ty(instr.out), &cause);
                    }
                    keep
                }
                Entry::Free(value) => self.lost.remove(*value).is_none(),
                Entry::Input { out: value, .. } | Entry::Output { value, .. } => {
                    !self.lost.contains(*value)
                }
                Entry::Enter(_) | Entry::Exit(_) => true,
            };
            if keep {
                kept.entries.push(entry.clone());
            }
        }
        kept
    }
}
