//! A session: a connection to a running system, and the recorder that fills its tape.
//!
//! Guarantees: recording never waits for a result. Entries gather in a buffer that is submitted at
//! reads, at the end of steps, at `flush`, and when it is full, so the worker runs ahead of the
//! program. Several sessions may live in one process; each tensor remembers its own. A session
//! closes when its last handle and its last tensor are gone, or when told to.
//!
//! Does not: run anything, or know what is at the other end of the backend.

mod options;
mod period;
mod process;
mod recorder;
mod step;
mod trace;
mod watch;

use std::cell::RefCell;
use std::hash::{BuildHasher, RandomState};
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gt_ir::backend::{Backend, RunError, Stats, Target};
use gt_ir::tape::Operands;
use gt_ir::{HostTensor, Loc, Op, Operand, OperandType, Tape, Type, ValueId};

use crate::config;
use crate::error::{Error, ErrorKind, Result};
pub use options::Options;
pub use process::{connect, disconnect, workers};
use recorder::Recorder;
use watch::{Check, Watch};

// Opens a session with a system: the process's own, or a server. Defined in gt-runtime; declared
// here so that this crate, and with it the user's edit loop, stays free of the runtime's
// dependencies.
#[expect(
    unsafe_code,
    reason = "an extern declaration; gt-runtime defines the symbol with this very signature"
)]
// SAFETY: the definition in gt-runtime has this signature and is a safe function.
unsafe extern "Rust" {
    safe fn __gt_embedded_backend(
        target: Target<'_>,
    ) -> std::result::Result<Arc<dyn Backend>, RunError>;
}

/// A connection to a running system. Cloning copies a pointer.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// let session = Session::current()?; // the process's own, opened by the first operation
/// session.manual_seed(0);
/// let x = DynTensor::randn([4], DType::F32);
/// println!("{x}\n{} instructions ran", session.stats()?.total().instructions);
///
/// let other = Session::open()?; // one more, with values of its own
/// let _current = other.enter(); // this thread records there until the guard is dropped
/// # Ok::<(), gt::Error>(())
/// ```
#[derive(Clone)]
pub struct Session(Arc<Inner>);

/// What the handles of a session share; the last one to go closes it.
struct Inner {
    backend: Arc<dyn Backend>,
    recording: Mutex<Recording>,
}

/// What a watch has checked and a read has asked for. The next read asks again if this one is given
/// up.
struct Unjudged {
    session: Session,
    /// The value that holds the answers.
    value: ValueId,
    check: Option<Check>,
}

impl Unjudged {
    /// Gives the watch its answers.
    fn judge(mut self, flags: std::result::Result<HostTensor, RunError>) {
        let Some(check) = self.check.take() else { return };
        let Recording { recorder, watch } = &mut *self.session.lock();
        recorder.free(check.value);
        // The read itself reports a value that could not be computed at all.
        if let (Some(watch), Ok(flags)) = (watch, flags) {
            watch.judge(&check, &flags);
        }
    }
}

impl Drop for Unjudged {
    fn drop(&mut self) {
        let Some(check) = self.check.take() else { return };
        let Recording { recorder, watch } = &mut *self.session.lock();
        match watch {
            Some(watch) => watch.give_back(check),
            None => recorder.free(check.value),
        }
    }
}

/// What recording changes.
struct Recording {
    recorder: Recorder,
    /// Looks for NaN and infinities, while it is on.
    watch: Option<Box<Watch>>,
}

/// Where an instruction was written.
#[derive(Clone, Copy)]
pub(crate) enum Place {
    /// At a call in the user's program.
    Caller(&'static Location<'static>),
    /// Where another instruction was written.
    Known(Loc),
}

impl From<Place> for Loc {
    fn from(place: Place) -> Loc {
        match place {
            Place::Caller(location) => Loc::from(location),
            Place::Known(loc) => loc,
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.backend.close();
    }
}

thread_local! {
    static CURRENT: RefCell<Vec<Session>> = const { RefCell::new(Vec::new()) };
}

/// Makes a session the current one of this thread until it is dropped.
#[must_use = "the session is left when this is dropped"]
pub struct Entered {
    depth: usize,
    // Belongs to the thread that entered.
    _thread: PhantomData<*const ()>,
}

impl Session {
    /// A session with a running system. Random numbers differ from run to run until
    /// [`Session::manual_seed`] is called.
    pub fn with_backend(backend: Arc<dyn Backend>) -> Session {
        let seed = RandomState::new().hash_one(0);
        let recording = Recording { recorder: Recorder::new(seed), watch: Watch::of_environment() };
        Session(Arc::new(Inner { backend, recording: Mutex::new(recording) }))
    }

    /// The session this thread entered last, or else the process's own, which the first call opens.
    ///
    /// # Errors
    /// The embedded system did not start, or `GT_CONNECT` names a server that does not answer.
    pub fn current() -> Result<Session> {
        let entered = CURRENT.with_borrow(|stack| stack.last().cloned());
        entered.map_or_else(process::session, Ok)
    }

    /// One more session, with the system that the process's own session is with, or would be with
    /// if it were open. Each session has its values and its errors to itself, and may live on
    /// another worker; [enter](Session::enter) it to record in it.
    ///
    /// # Errors
    /// The system did not start, or the server does not answer in time, as for [`connect`].
    #[track_caller]
    pub fn open() -> Result<Session> {
        process::another(Location::caller())
    }

    /// One more session, with the server at `HOST:PORT`, beside the process's own; see [`connect`]
    /// for that one.
    ///
    /// # Errors
    /// The address is not `HOST:PORT`, no server answers there within two seconds, or on another
    /// machine within ten, or the server refuses.
    #[track_caller]
    pub fn connect(address: &str) -> Result<Session> {
        Options::new().server(address).open()
    }

    fn with(options: &Options, at: impl Into<Loc>) -> Result<Session> {
        let configured = &config::get_session_config()?;
        let Options { server, demand } = options;
        let target = Target { server: server.as_deref(), demand, configured };
        let opened = __gt_embedded_backend(target);
        opened.map(Session::with_backend).map_err(|e| Error::from_run(e, at))
    }

    /// Makes this the current session of this thread until the guard is dropped.
    pub fn enter(&self) -> Entered {
        CURRENT.with_borrow_mut(|stack| {
            stack.push(self.clone());
            Entered { depth: stack.len() - 1, _thread: PhantomData }
        })
    }

    /// Makes random numbers reproducible: the same seed and the same program give the same bits,
    /// whatever runs them.
    ///
    /// ```no_run
    /// # extern crate gt_lang as gt;
    /// # use gt::prelude::*;
    /// manual_seed(42);
    /// let x = DynTensor::randn([3], DType::F32).to_vec::<f32>()?;
    /// manual_seed(42);
    /// assert_eq!(DynTensor::randn([3], DType::F32).to_vec::<f32>()?, x); // on any machine
    /// # Ok::<(), gt::Error>(())
    /// ```
    pub fn manual_seed(&self, seed: u64) {
        self.lock().recorder.reseed(seed);
    }

    /// Where the generator of random numbers stands: its seed, and how many tensors were drawn
    /// since. Two sessions in the same state draw the same tensors.
    pub fn rng_state(&self) -> (u64, u64) {
        self.lock().recorder.rng_state()
    }

    /// Puts the generator of random numbers where [`Session::rng_state`] said it stood.
    pub fn set_rng_state(&self, state: (u64, u64)) {
        self.lock().recorder.set_rng_state(state);
    }

    /// Submits what is recorded so far, without waiting for it.
    pub fn flush(&self) {
        let recorder = &mut self.lock().recorder;
        recorder.mark();
        self.submit(recorder);
    }

    /// Says that one round of a loop ends here, such as a step of training: PyTorch/XLA's
    /// `mark_step`. What is recorded from one step to the next makes a segment, which is planned
    /// once and launched each time it comes again. Optimizers call this at the end of their `step`;
    /// loops without one run as well, and are found out.
    ///
    /// Submits the segment without waiting for it. If a read came soon after the last step, one is
    /// expected after this as well, and both are submitted as one segment; if none comes there, the
    /// segment is submitted as it was at the step.
    pub fn step(&self) {
        let recorder = &mut self.lock().recorder;
        if recorder.end_step() {
            self.submit(recorder);
        }
    }

    /// What ran so far in this session.
    ///
    /// # Errors
    /// The running system does not answer.
    #[track_caller]
    pub fn stats(&self) -> Result<Stats> {
        let at = Location::caller();
        self.check_open(Place::Caller(at))?;
        self.flush();
        self.tell_signals(&mut self.lock().recorder);
        self.0.backend.stats().map_err(|e| Error::from_run(e, at))
    }

    /// Starts keeping a copy of everything recorded from here on, for [`Session::stop_trace`]. The
    /// tape is a program of its own: tensors from before that are used become its inputs, so that
    /// `gt-cli compile` and `gt-cli run` take it as it is.
    ///
    /// ```no_run
    /// # extern crate gt_lang as gt;
    /// # use gt::prelude::*;
    /// let session = Session::current()?;
    /// session.start_trace();
    /// (DynTensor::ones([2, 3], DType::F32) * 2.0).item().ok();
    /// println!("{}", gt_ir::text::print(&session.stop_trace()));
    /// # Ok::<(), gt::Error>(())
    /// ```
    pub fn start_trace(&self) {
        let recorder = &mut self.lock().recorder;
        self.submit(recorder);
        recorder.start_trace();
    }

    /// The tape recorded since [`Session::start_trace`].
    pub fn stop_trace(&self) -> Tape {
        let recorder = &mut self.lock().recorder;
        self.submit(recorder);
        recorder.stop_trace()
    }

    /// The tape recorded since [`Session::start_trace`] as the running system was given it: a part
    /// of this session, which uses and frees tensors from before. For those who look at what
    /// becomes of such a part.
    pub fn stop_trace_as_submitted(&self) -> Tape {
        let recorder = &mut self.lock().recorder;
        self.submit(recorder);
        recorder.stop_trace_as_submitted()
    }

    /// Ends the session: everything it holds is freed, and reads of its tensors become errors.
    pub fn close(&self) {
        let mut recording = self.lock();
        self.submit(&mut recording.recorder);
        recording.recorder.close();
        drop(recording);
        self.0.backend.close();
    }

    /// Whether both are handles of one session.
    pub fn is(&self, other: &Session) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// What recording changes.
    fn lock(&self) -> MutexGuard<'_, Recording> {
        // A thread that panicked while recording leaves at worst one entry unrecorded.
        self.0.recording.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Submits under the lock: segments must reach the backend in the order they were recorded.
    fn submit(&self, recorder: &mut Recorder) {
        if let Some(segment) = recorder.take_segment() {
            self.tell_signals(recorder);
            self.0.backend.submit(segment);
        }
    }

    /// Hands over the configuration of signals if it changed since.
    fn tell_signals(&self, recorder: &mut Recorder) {
        if let Some((version, signals)) = config::newer_than(recorder.signals_told) {
            recorder.signals_told = version;
            self.0.backend.configure(signals);
        }
    }

    /// Submits a segment that is due: one held back for a read that did not come, or a full buffer.
    fn submit_if_full(&self, recorder: &mut Recorder) {
        if let Some(segment) = recorder.take_overdue() {
            self.tell_signals(recorder);
            self.0.backend.submit(segment);
        }
        if recorder.is_full() {
            self.submit(recorder);
        }
    }

    /// Records an instruction whose result has this type.
    pub(crate) fn instr(
        &self,
        op: &Op,
        inputs: Operands,
        types: &[OperandType],
        ty: &Type,
        place: Place,
    ) -> (ValueId, Loc) {
        let Recording { recorder, watch } = &mut *self.lock();
        if recorder.is_traced() {
            note_operands(recorder, &inputs, types);
        }
        let recorded = recorder.instr(op, inputs, place);
        recorder.note_type(recorded.0, ty);
        if let Some(watch) = watch {
            watch.result(recorder, recorded, op, ty);
        }
        self.submit_if_full(recorder);
        recorded
    }

    /// Hands data to the backend, ahead of the segment that declares it.
    pub(crate) fn upload(&self, data: HostTensor, place: Place) -> ValueId {
        let Recording { recorder, watch } = &mut *self.lock();
        let id = recorder.input(*data.ty());
        recorder.note_type(id, data.ty());
        if let Some(watch) = watch {
            watch.data(id, &data, || recorder.loc(place));
        }
        if !recorder.is_closed() {
            self.0.backend.upload(id, data);
        }
        self.submit_if_full(recorder);
        id
    }

    /// Records that a value is free.
    pub(crate) fn free(&self, value: ValueId) {
        let Recording { recorder, watch } = &mut *self.lock();
        if let Some(watch) = watch {
            watch.forget(value);
        }
        recorder.free(value);
        self.submit_if_full(recorder);
    }

    /// Waits for a value.
    pub(crate) fn fetch(&self, value: ValueId, ty: &Type, place: Place) -> Result<HostTensor> {
        for check in self.output(value, ty, place)? {
            let flags = self.0.backend.fetch(check.value);
            check.judge(flags);
        }
        self.judged()?;
        self.0.backend.fetch(value).map_err(|e| Error::from_run(e, place))
    }

    /// Asks for a value, without waiting for it.
    pub(crate) fn begin_fetch(
        &self,
        value: ValueId,
        ty: &Type,
        place: Place,
    ) -> Result<impl Future<Output = Result<HostTensor>> + Send + use<>> {
        let checks = self.output(value, ty, place)?;
        let ask = |check: Unjudged| (self.0.backend.begin_fetch(check.value), check);
        let checks: Vec<_> = checks.into_iter().map(ask).collect();
        let (session, fetching) = (self.clone(), self.0.backend.begin_fetch(value));
        Ok(async move {
            for (flags, check) in checks {
                check.judge(flags.await);
            }
            session.judged()?;
            fetching.await.map_err(|e| Error::from_run(e, place))
        })
    }

    /// Submits all that a value needs, to be asked for; gives what a watch wants to know before.
    fn output(&self, value: ValueId, ty: &Type, place: Place) -> Result<Vec<Unjudged>> {
        self.check_open(place)?;
        let mut recording = self.lock();
        let Recording { recorder, watch } = &mut *recording;
        recorder.note_type(value, ty);
        recorder.output(value);
        let checks = watch.as_mut().map(|watch| watch.take_checks(recorder)).unwrap_or_default();
        self.submit(recorder);
        let unjudged = |check: Check| Unjudged {
            session: self.clone(),
            value: check.value,
            check: Some(check),
        };
        Ok(checks.into_iter().map(unjudged).collect())
    }

    /// All that a watch has checked was judged; the first that is bad is the error of this read and
    /// of all to come.
    fn judged(&self) -> Result<()> {
        let Some(watch) = &mut self.lock().watch else { return Ok(()) };
        watch.judged();
        watch.bad().map_or(Ok(()), Err)
    }

    /// Begins to watch results for NaN and infinities, unless a watch is on already; says whether
    /// it began.
    pub(crate) fn watch(&self) -> bool {
        let watch = &mut self.lock().watch;
        let began = watch.is_none();
        watch.get_or_insert_default();
        began
    }

    /// Ends the watch.
    pub(crate) fn unwatch(&self) {
        let Recording { recorder, watch } = &mut *self.lock();
        if let Some(watch) = watch.take() {
            watch.end(recorder);
        }
    }

    /// The type of a value recorded since the trace began.
    pub(crate) fn traced_type(&self, value: ValueId) -> Option<Type> {
        self.lock().recorder.traced_type(value)
    }

    /// What the session has recorded: since its trace began, if it did, else what is not submitted
    /// yet.
    pub(crate) fn tape(&self) -> Tape {
        self.lock().recorder.tape()
    }

    /// Whether a trace began.
    pub(crate) fn is_traced(&self) -> bool {
        self.lock().recorder.is_traced()
    }

    /// The error of a closed session, for what needs an answer.
    fn check_open(&self, place: Place) -> Result<()> {
        let recorder = &mut self.lock().recorder;
        if recorder.is_closed() {
            let (kind, at) = (ErrorKind::Session, recorder.loc(place));
            let error = Error::new(kind, "the session is closed", at);
            return Err(error.hint(
                "read them before `close` or `gt::disconnect`, or open another with \
                 `Session::open`",
            ));
        }
        Ok(())
    }

    /// The seed of the next random tensor.
    pub(crate) fn next_seed(&self) -> i64 {
        self.lock().recorder.next_seed()
    }

    /// The number of a place in the user's program.
    pub(crate) fn loc(&self, place: Place) -> Loc {
        self.lock().recorder.loc(place)
    }
}

/// Notes the types of an instruction's operands.
fn note_operands(recorder: &mut Recorder, inputs: &[Operand], types: &[OperandType]) {
    for (input, ty) in inputs.iter().zip(types) {
        if let (Operand::Value(value), OperandType::Tensor(ty)) = (input, ty) {
            recorder.note_type(*value, ty);
        }
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Session").field(&Arc::as_ptr(&self.0)).finish()
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        // Guards dropped out of order leave with the outermost of them.
        let left = CURRENT.with_borrow_mut(|stack| stack.split_off(self.depth.min(stack.len())));
        drop(left);
    }
}

/// Seeds the current session; see [`Session::manual_seed`]. Without a session this does nothing:
/// the error that keeps it from opening is raised by the first read.
pub fn manual_seed(seed: u64) {
    if let Ok(session) = Session::current() {
        session.manual_seed(seed);
    }
}
