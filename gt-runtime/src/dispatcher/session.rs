//! What a session holds: the types of its live values, what was lost with a worker, its uploads and its unanswered questions.
//!
//! A tape is admitted entry by entry; one that is not well formed, or asks for more than the session may hold, breaks the session
//! and nobody else. After a worker's loss the values it held are lost, each with the cause, and so is what is computed from
//! them: such entries are taken out of the tape, so that a worker sees only values it has. It sends nothing and knows no peers.

use super::Config;
use super::templates::Templates;
use crate::clock::Time;
use crate::footprint::first_defined;
use crate::ids::{PeerId, RequestId, WorkerId};
use crate::wire::Chunk;
use gt_ir::backend::{ErrorKind, RunError, WorkerStats};
use gt_ir::canonical::{Bindings, expand};
use gt_ir::op::Operand;
use gt_ir::shape::Type;
use gt_ir::signal::Signals;
use gt_ir::tape::{Entry, Tape, ValueId};
use gt_ir::verify::{Fault, Verifier};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Most uploads of one session whose input is not declared yet.
const MAX_EARLY_UPLOADS: usize = 1 << 12;

/// What to do about a session that held too much.
const HOLD_LESS: &str =
    "\nhint: this session is over; in a new one, drop tensors as soon as they are not needed";

/// One client's session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) peer: PeerId,
    /// Where its values live; none before the first work, and between a worker's loss and the next work.
    pub(super) home: Option<WorkerId>,
    /// How many workers it has lost.
    pub(super) attempt: u32,
    /// Work for a worker, while there is none.
    pub(super) waiting: VecDeque<Work>,
    /// Segments taken from the client, and those of them that ran.
    pub(super) n_segments: u64,
    pub(super) n_done: u64,
    pub(super) requests: BTreeMap<RequestId, Request>,
    /// When its worker last reported anything of it.
    pub(super) progress: Time,
    /// What ran on its home, as far as reported, and on the workers it has lost.
    pub(super) ran: WorkerStats,
    pub(super) ran_elsewhere: Vec<WorkerStats>,
    /// Why nothing more of it runs.
    pub(super) broken: Option<Arc<RunError>>,
    verifier: Verifier,
    /// One above the highest number of a value it has defined.
    above: u64,
    pub(super) templates: Templates,
    /// What the client says about its signals; no other session's concern.
    pub(super) signals: Arc<Signals>,
    /// The templates its home knows.
    pub(super) at_home: BTreeMap<u32, Arc<Tape>>,
    /// Launches verified in full.
    pub(super) n_verified: u64,
    /// Bytes of live values. Within one tape they may exceed what 64 bits can count before its end is checked.
    pub(super) live_bytes: u128,
    /// Live values that a worker's loss took, and those computed from them.
    pub(super) lost: BTreeMap<ValueId, Arc<RunError>>,
    pub(super) uploads: BTreeMap<ValueId, Upload>,
    /// Bytes of uploads whose input is not declared yet.
    early_bytes: u64,
}

/// Something for a worker to do, with the weight whose credit the client gets back when the worker has it.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Work {
    Run {
        seq: u64,
        tape: Arc<Tape>,
        weight: u64,
    },
    Define {
        template: u32,
        tape: Arc<Tape>,
        weight: u64,
    },
    /// With the template as it was when it was launched.
    Launch {
        seq: u64,
        template: u32,
        tape: Arc<Tape>,
        bindings: Arc<Bindings>,
        weight: u64,
    },
    Forget {
        template: u32,
    },
    Chunk {
        chunk: Chunk,
        weight: u64,
    },
    Fetch {
        request: RequestId,
        value: ValueId,
    },
    Stats {
        request: RequestId,
    },
}

/// What a worker is to run of a launch.
pub(super) enum Launched {
    /// The template, with the bindings it came with.
    Whole(Arc<Tape>),
    /// What is left of its tape without what needs a lost value.
    Stripped(Arc<Tape>),
}

/// A question not answered yet.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Request {
    pub(super) since: Time,
    /// What was asked for, with its type; none for the statistics.
    pub(super) value: Option<(ValueId, Type)>,
    /// How many bytes of the answer went to the client.
    pub(super) sent: u64,
}

/// Data of an input on its way.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Upload {
    ty: Type,
    received: u64,
    whole: bool,
    declared: bool,
    /// Its worker was lost: the rest is dropped.
    lost: bool,
}

impl Upload {
    fn is_over(&self) -> bool {
        self.declared && self.whole
    }
}

impl Session {
    pub(super) fn new(peer: PeerId, now: Time) -> Session {
        Session {
            peer,
            home: None,
            attempt: 0,
            waiting: VecDeque::new(),
            n_segments: 0,
            n_done: 0,
            requests: BTreeMap::new(),
            progress: now,
            ran: WorkerStats::default(),
            ran_elsewhere: Vec::new(),
            broken: None,
            verifier: Verifier::new(),
            above: 0,
            templates: Templates::default(),
            signals: Arc::default(),
            at_home: BTreeMap::new(),
            n_verified: 0,
            live_bytes: 0,
            lost: BTreeMap::new(),
            uploads: BTreeMap::new(),
            early_bytes: 0,
        }
    }

    /// Takes the next segment into the books and gives what a worker is to run of it.
    pub(super) fn admit(
        &mut self,
        tape: Arc<Tape>,
        config: &Config,
    ) -> Result<Arc<Tape>, RunError> {
        self.verify(&tape)?;
        self.check_limits(config)?;
        if self.lost.is_empty() { Ok(tape) } else { Ok(Arc::new(self.strip(&tape))) }
    }

    fn verify(&mut self, tape: &Tape) -> Result<(), RunError> {
        let first = self.verifier.n_seen();
        for entry in &tape.entries {
            self.enter(entry).map_err(|fault| self.refusal(&fault, first))?;
        }
        Ok(())
    }

    /// As [`admit`](Session::admit), for the next segment as a template and its bindings.
    pub(super) fn launch(
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
            return Err(refuse("it is not defined\nhint: define a template before its first launch, and again after it was forgotten".into()));
        };
        let template = Arc::clone(&held.template.tape);
        let uploads = held.footprint.uploads.clone();
        if !self.replay(number, bindings) {
            let held = self.templates.get(number).ok_or_else(|| refuse("it is gone".into()))?;
            let hint = "hint: bind what the tape that defined the template names, in its order";
            let tape =
                expand(&held.template, bindings).map_err(|why| refuse(format!("{why}\n{hint}")))?;
            let inputs = bindings.inputs.iter().map(|&value| self.verifier.ty(value)).collect();
            self.verify(&tape)?;
            self.n_verified += 1;
            if let Some(inputs) = inputs {
                self.templates.learn(number, bindings, inputs, &self.verifier);
            }
            self.check_limits(config)?;
            if !self.lost.is_empty() {
                return Ok(Launched::Stripped(Arc::new(self.strip(&tape))));
            }
        } else {
            let first = first_defined(bindings).map_or(0, |first| first.0);
            for (at, ty) in uploads {
                self.declare(ValueId(first + u64::from(at)), ty);
            }
            self.check_limits(config)?;
        }
        Ok(Launched::Whole(template))
    }

    /// Takes the effect of a launch into the books when it is certain; says whether it was.
    fn replay(&mut self, number: u32, bindings: &Bindings) -> bool {
        if !self.lost.is_empty() {
            return false;
        }
        let Session { templates, verifier, above, live_bytes, .. } = self;
        let (Some((held, variant)), Some(first)) =
            (templates.fitting(number, bindings, verifier, *above), first_defined(bindings))
        else {
            return false;
        };
        let freed = held.footprint.freed.iter();
        let freed = freed.filter_map(|&at| bindings.inputs.get(at as usize).copied());
        let kept = variant.kept.iter().map(|&(at, ty)| (ValueId(first.0 + u64::from(at)), ty));
        verifier.replay(freed, kept);
        *above = (*above).max(first.0.saturating_add(held.template.n_defined as u64));
        *live_bytes = *live_bytes + variant.bytes.0 - variant.bytes.1;
        true
    }

    fn check_limits(&self, config: &Config) -> Result<(), RunError> {
        if self.verifier.n_live() > config.max_values {
            let message = format!(
                "the session holds {} values, more than its limit of {}",
                self.verifier.n_live(),
                config.max_values
            );
            return Err(error(ErrorKind::Resource, message + HOLD_LESS));
        }
        self.check_quota(config)
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

    fn declare(&mut self, value: ValueId, ty: Type) {
        let upload = self.uploads.entry(value).or_insert(Upload {
            ty,
            received: 0,
            whole: false,
            declared: true,
            lost: false,
        });
        if !std::mem::replace(&mut upload.declared, true) {
            self.early_bytes -= upload.ty.bytes() as u64;
        }
        if upload.is_over() {
            self.uploads.remove(&value);
        }
    }

    fn refusal(&self, fault: &Fault, first: usize) -> RunError {
        let mut message = format!(
            "the server refused entry {} of segment {}: {}",
            fault.entry - first,
            self.n_segments,
            fault.message
        );
        if let Some(hint) = &fault.hint {
            message = format!("{message}\nhint: {hint}");
        }
        RunError { value: fault.value, loc: fault.loc, ..error(ErrorKind::Internal, message) }
    }

    fn check_quota(&self, config: &Config) -> Result<(), RunError> {
        let bytes = self.live_bytes + u128::from(self.early_bytes);
        if bytes <= u128::from(config.quota) {
            return Ok(());
        }
        let message = format!(
            "the session holds {bytes} bytes of tensors, more than its quota of {}",
            config.quota
        );
        Err(error(ErrorKind::Resource, message + HOLD_LESS))
    }

    /// The tape without what needs a lost value.
    fn strip(&mut self, tape: &Tape) -> Tape {
        let mut kept = Tape::default();
        for entry in &tape.entries {
            let keep = match entry {
                Entry::Instr(instr) => {
                    let cause = instr.inputs.iter().find_map(|operand| match operand {
                        Operand::Value(value) => self.lost.get(value).cloned(),
                        Operand::Scalar(_) => None,
                    });
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

    /// Takes a piece of an upload into the books; says whether a worker needs it.
    pub(super) fn upload(&mut self, chunk: &Chunk, config: &Config) -> Result<bool, RunError> {
        let refuse = |why: String| {
            Err(error(
                ErrorKind::Internal,
                format!("the server refused data of {}: {why}", chunk.value),
            ))
        };
        if chunk.offset == 0 && !self.uploads.contains_key(&chunk.value) {
            if self.verifier.is_live(chunk.value) {
                return refuse("it has its data already".into());
            }
            self.early_bytes = self.early_bytes.saturating_add(chunk.ty.bytes() as u64);
            self.uploads.insert(
                chunk.value,
                Upload { ty: chunk.ty, received: 0, whole: false, declared: false, lost: false },
            );
            if self.uploads.len() > MAX_EARLY_UPLOADS {
                return refuse(format!("more than {MAX_EARLY_UPLOADS} uploads are under way"));
            }
            self.check_quota(config)?;
        }
        let Some(upload) = self.uploads.get_mut(&chunk.value) else {
            return refuse(format!("its first piece begins at byte {}", chunk.offset));
        };
        let end = chunk.offset.checked_add(chunk.bytes.len() as u64);
        let fits = chunk.offset == upload.received
            && end.is_some_and(|end| end <= upload.ty.bytes() as u64);
        if !fits || !chunk.ty.same_layout(&upload.ty) || chunk.total != upload.ty.bytes() as u64 {
            let (got, want) = (chunk.offset, upload.received);
            return refuse(format!(
                "a piece at byte {got} of a {} does not follow {want} bytes of a {}",
                chunk.ty, upload.ty
            ));
        }
        upload.received += chunk.bytes.len() as u64;
        upload.whole = chunk.is_last();
        let wanted = !upload.lost;
        if upload.is_over() {
            self.uploads.remove(&chunk.value);
        }
        Ok(wanted)
    }

    /// The type of a value that can be read, or why it cannot.
    pub(super) fn readable(&self, value: ValueId, config: &Config) -> Result<Type, Arc<RunError>> {
        if let Some(why) = self.unanswerable(config) {
            return Err(why);
        }
        if let Some(cause) = self.lost.get(&value) {
            return Err(Arc::new(RunError { value: Some(value), ..RunError::clone(cause) }));
        }
        self.verifier.ty(value).ok_or_else(|| {
            let message = format!("cannot read {value}: it was freed, or never computed");
            Arc::new(RunError { value: Some(value), ..error(ErrorKind::Internal, message) })
        })
    }

    /// Why no question of the session can be answered now.
    pub(super) fn unanswerable(&self, config: &Config) -> Option<Arc<RunError>> {
        let full = self.requests.len() >= config.max_requests;
        let message = || format!("the session waits for {} answers already", self.requests.len());
        self.broken
            .clone()
            .or_else(|| full.then(|| Arc::new(error(ErrorKind::Resource, message()))))
    }

    /// The worker that held everything is gone: nothing that was live comes back. Gives the questions nobody will answer.
    pub(super) fn lose_home(&mut self, cause: &Arc<RunError>) -> BTreeMap<RequestId, Request> {
        self.home = None;
        self.attempt += 1;
        self.at_home.clear();
        self.n_done = self.n_segments;
        for upload in self.uploads.values_mut() {
            upload.lost = true;
        }
        let early =
            self.uploads.iter().filter(|(_, upload)| !upload.declared).map(|(&value, _)| value);
        let gone = self.verifier.live().into_iter().chain(early);
        for value in gone {
            self.lost.entry(value).or_insert_with(|| Arc::clone(cause));
        }
        std::mem::take(&mut self.requests)
    }

    /// Nothing more of the session runs. Gives the questions nobody will answer.
    pub(super) fn fail(&mut self, cause: &Arc<RunError>) -> BTreeMap<RequestId, Request> {
        self.broken = Some(Arc::clone(cause));
        self.home = None;
        self.lost.clear();
        self.uploads.clear();
        (self.live_bytes, self.early_bytes) = (0, 0);
        self.verifier = Verifier::new();
        self.templates.clear();
        self.at_home.clear();
        std::mem::take(&mut self.requests)
    }

    /// What the books must say, for `check`.
    pub(super) fn count_live(&self) -> u128 {
        self.verifier
            .live()
            .into_iter()
            .filter_map(|value| self.verifier.ty(value))
            .map(|ty| ty.bytes() as u128)
            .sum()
    }

    pub(super) fn n_live(&self) -> usize {
        self.verifier.n_live()
    }

    pub(super) fn is_live(&self, value: ValueId) -> bool {
        self.verifier.is_live(value)
    }
}

/// An error of the dispatcher's own.
pub(super) fn error(kind: ErrorKind, message: String) -> RunError {
    RunError {
        kind,
        message: crate::wire::codec::cut(message),
        value: None,
        loc: gt_ir::Loc::NONE,
        worker: None,
    }
}
