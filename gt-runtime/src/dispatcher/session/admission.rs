//! Segments into a session's books: what of one a worker is to run, or why the session ends with
//! it.
//!
//! A tape is verified entry by entry against the session's live values. A launch whose effect is
//! certain is taken in one step; any other is expanded and verified as the tape it stands for.
//! Entries that need a lost value are taken out, and what they define is lost, too; so is what the
//! session has no room for (`quota`).

use super::{Session, error};
use crate::dispatcher::Config;
use crate::footprint::first_defined;
use gt_ir::backend::{ErrorKind, RunError};
use gt_ir::canonical::{Bindings, expand};
use gt_ir::op::Operand;
use gt_ir::tape::{Entry, Instr, Tape, ValueId};
use gt_ir::verify::Fault;
use std::sync::Arc;

/// What to do about a session that held too many values.
const HOLD_FEWER: &str =
    "this session is over; in a new one, drop tensors as soon as they are not needed";

/// What a worker is to run of a launch.
pub(in crate::dispatcher) enum Launched {
    /// The template, with the bindings it came with.
    Whole(Arc<Tape>),
    /// What is left of its tape without what needs a lost value.
    Stripped(Arc<Tape>),
}

impl Session {
    /// Takes the next segment into the books and gives what a worker is to run of it.
    pub(in crate::dispatcher) fn admit(
        &mut self,
        tape: Arc<Tape>,
        config: &Config,
    ) -> Result<Arc<Tape>, RunError> {
        self.verify(&tape)?;
        self.check_values(config)?;
        Ok(self.without_lost(&tape, config).map_or(tape, Arc::new))
    }

    /// What is left of a verified tape without what needs a lost value and what there is no room
    /// for; none where that is all of it.
    fn without_lost(&mut self, tape: &Tape, config: &Config) -> Option<Tape> {
        let left = (!self.lost.is_empty()).then(|| self.strip(tape));
        let tape = left.as_ref().unwrap_or(tape);
        if self.refuse_excess(tape, config) { Some(self.strip(tape)) } else { left }
    }

    fn verify(&mut self, tape: &Tape) -> Result<(), RunError> {
        let first = self.verifier.n_seen();
        for entry in &tape.entries {
            self.enter(entry).map_err(|fault| self.refusal(&fault, first))?;
        }
        Ok(())
    }

    /// As [`admit`](Session::admit), for the next segment as a template and its bindings.
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
        let template = Arc::clone(&held.template.tape);
        let uploads = held.footprint.uploads.clone();
        if !self.replay(number, bindings, config) {
            let held = self.templates.get(number).ok_or_else(|| refuse("it is gone".into()))?;
            let hint = "bind what the tape that defined the template names, in its order";
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

    /// Takes the effect of a launch into the books when it is certain and there is room for it;
    /// says whether it was so.
    fn replay(&mut self, number: u32, bindings: &Bindings, config: &Config) -> bool {
        if !self.lost.is_empty() {
            return false;
        }
        let Session { templates, verifier, above, live_bytes, early_bytes, .. } = self;
        let (Some((held, variant)), Some(first)) =
            (templates.fitting(number, bindings, verifier, *above), first_defined(bindings))
        else {
            return false;
        };
        let bytes = *live_bytes + variant.bytes.0 - variant.bytes.1;
        if bytes + u128::from(*early_bytes) > u128::from(config.quota) {
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
        let (held, most) = (self.verifier.n_live(), config.max_values);
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

    /// The error of an operand that is lost.
    pub(super) fn lost_operand(&self, instr: &Instr) -> Option<Arc<RunError>> {
        instr.inputs.iter().find_map(|operand| match operand {
            Operand::Value(value) => self.lost.get(value).cloned(),
            Operand::Scalar(_) => None,
        })
    }

    /// The tape without what is lost or needs a lost value.
    fn strip(&mut self, tape: &Tape) -> Tape {
        let mut kept = Tape::default();
        for entry in &tape.entries {
            let keep = match entry {
                Entry::Instr(instr) => {
                    let itself = || self.lost.get(&instr.out).cloned();
                    let cause = self.lost_operand(instr).or_else(itself);
                    let keep = cause.is_none();
                    if let Some(cause) = cause {
                        self.lost.insert(instr.out, cause);
                    }
                    keep
                }
                Entry::Free(value) => self.lost.remove(value).is_none(),
                Entry::Input { out: value, .. } | Entry::Output { value, .. } => {
                    !self.lost.contains_key(value)
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
