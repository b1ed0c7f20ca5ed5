//! The tape being filled: names for new values, source places, signal scopes, and the segment not
//! yet submitted.
//!
//! Guarantees: recording one instruction hashes no text and allocates nothing beyond the buffer,
//! which is reused in size. Every segment stands alone: scopes open at its end are closed in it and
//! opened again in the next.

use std::sync::Arc;

use gt_ir::splitmix::{GAMMA, mix};
use gt_ir::tape::Operands;
use gt_ir::verify::MAX_SCOPES;
use gt_ir::{Entry, Instr, Loc, Op, Tape, Type, ValueId};

use super::Place;
use super::period::{MAX_PERIOD, Periods, SEGMENT_ENTRIES};
use super::step::Steps;
use super::trace::Trace;
use crate::{config, scope};

/// Bytes uploaded after which a segment is submitted: they wait at the other end for the entries
/// that use them.
const MAX_UPLOADED: usize = 64 << 20;
/// Source places remembered by address; two that collide only cost a look-up in the shared table.
const PLACES: usize = 256;

/// The buffer of a session and all that depends on the order of its entries.
///
/// An entry is pushed in one of five ways: [`instr`](Recorder::instr), [`input`](Recorder::input),
/// [`free`](Recorder::free), [`output`](Recorder::output), and the scopes that an instruction
/// follows.
pub(super) struct Recorder {
    entries: Vec<Entry>,
    next_value: u64,
    places: Box<[(usize, Loc); PLACES]>,
    /// The scopes open on the tape; those of the thread that recorded last.
    scopes: Vec<scope::Open>,
    seed: u64,
    seeds_drawn: u64,
    /// A copy of all that is submitted, while someone wants one.
    trace: Option<Trace>,
    closed: bool,
    periods: Periods,
    /// The room made for a segment.
    room: usize,
    /// Bytes uploaded for this segment.
    uploaded: usize,
    steps: Steps,
    /// The version of the configuration of signals that the backend knows.
    pub(super) signals_told: u64,
}

impl Recorder {
    pub(super) fn new(seed: u64) -> Recorder {
        Recorder {
            entries: Vec::with_capacity(SEGMENT_ENTRIES + 16),
            next_value: 0,
            places: Box::new([(0, Loc::NONE); PLACES]),
            scopes: Vec::new(),
            seed,
            seeds_drawn: 0,
            trace: None,
            closed: false,
            periods: Periods::new(),
            room: SEGMENT_ENTRIES,
            uploaded: 0,
            steps: Steps::default(),
            signals_told: 0,
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether the segment should end here.
    pub(super) fn is_full(&mut self) -> bool {
        let full = self.uploaded >= MAX_UPLOADED;
        match self.periods.is_due(self.entries.len()) {
            None => full || self.is_long(),
            Some(due) => full || due || self.entries.len() >= MAX_PERIOD,
        }
    }

    /// Whether there are so many entries that the worker should begin. What lives from segment to
    /// segment is put together from all micro-batches, so these wait for the end of a step.
    fn is_long(&self) -> bool {
        let n = self.entries.len();
        n >= MAX_PERIOD || (n >= SEGMENT_ENTRIES && !config::takes_turns())
    }

    /// A step of the program ends: whether its segment is to be submitted at once. It waits when a
    /// read came soon after the last one, so that step and read are one segment.
    pub(super) fn end_step(&mut self) -> bool {
        self.periods.mark();
        let waits = self.steps.end();
        if waits {
            self.close_scopes(0);
            self.steps.wait_at(self.entries.len());
        }
        !waits
    }

    /// The segment of a step that waited for a read which did not come.
    #[inline]
    pub(super) fn take_overdue(&mut self) -> Option<Tape> {
        let at = self.steps.overdue()?;
        let after = self.entries.split_off(at.min(self.entries.len()));
        let entries = std::mem::replace(&mut self.entries, after);
        self.keep_trace(&entries);
        (!entries.is_empty()).then_some(Tape { entries })
    }

    /// A boundary that the program makes without a step or a read.
    pub(super) fn mark(&mut self) {
        self.periods.mark();
    }

    /// A name that no value of this session had before.
    pub(super) fn new_value(&mut self) -> ValueId {
        let id = ValueId(self.next_value);
        self.next_value += 1;
        id
    }

    /// Records an instruction, under the scopes of the calling thread.
    pub(super) fn instr(&mut self, op: &Op, inputs: Operands, place: Place) -> (ValueId, Loc) {
        self.follow_scopes();
        let out = self.new_value();
        let loc = self.loc(place);
        self.periods.instr(op, &inputs, out.0);
        self.push(|| Entry::Instr(Instr { out, op: *op, inputs, loc }));
        (out, loc)
    }

    /// Records a value given from outside.
    pub(super) fn input(&mut self, ty: Type) -> ValueId {
        let out = self.new_value();
        self.periods.input(&ty);
        self.uploaded += ty.bytes();
        self.push(|| Entry::Input { out, ty, name: None });
        out
    }

    /// Records that the last handle to a value is gone.
    pub(super) fn free(&mut self, value: ValueId) {
        self.periods.free(value, self.next_value);
        self.push(|| Entry::Free(value));
    }

    /// Records that a value is read: a boundary between segments.
    pub(super) fn output(&mut self, value: ValueId) {
        self.periods.mark();
        self.steps.read();
        self.push(|| Entry::Output { value, name: None });
    }

    /// The entry is made where it stays, after room was made for it: moved there it would be copied
    /// whole, and an entry is as large as its largest kind.
    fn push(&mut self, entry: impl FnOnce() -> Entry) {
        self.steps.entry();
        if !self.closed {
            self.entries.extend(std::iter::once_with(entry));
        }
    }

    /// The number of a source place, remembered by its address.
    pub(super) fn loc(&mut self, place: Place) -> Loc {
        let location = match place {
            Place::Caller(location) => location,
            Place::Known(loc) => return loc,
        };
        let address = std::ptr::from_ref(location) as usize;
        let slot = &mut self.places[(address >> 3) % PLACES];
        if slot.0 != address {
            *slot = (address, Loc::from(location));
        }
        slot.1
    }

    /// Closes and opens scopes on the tape until they are those of this thread.
    fn follow_scopes(&mut self) {
        if scope::innermost() == self.scopes.last().map_or(0, |s| s.id) {
            return;
        }
        scope::with_open(|open| {
            // Scopes deeper than a tape may have are left out: names are hints.
            let open = &open[..open.len().min(MAX_SCOPES)];
            let shared = self.scopes.iter().zip(open).take_while(|(a, b)| a.id == b.id).count();
            self.close_scopes(shared);
            for scope in &open[shared..] {
                self.push(|| Entry::Enter(scope.name.clone()));
                self.scopes.push(scope.clone());
            }
        });
    }

    /// The entry recorded last.
    pub(super) fn last_entry(&self) -> Option<&Entry> {
        self.entries.last()
    }

    /// Closes scopes on the tape until so many are open.
    fn close_scopes(&mut self, keep: usize) {
        while self.scopes.len() > keep {
            let name = self.scopes.pop().map(|s| s.name).unwrap_or_else(|| Arc::from(""));
            self.push(|| Entry::Exit(name));
        }
    }

    /// The segment so far; `None` when nothing was recorded.
    pub(super) fn take_segment(&mut self) -> Option<Tape> {
        self.close_scopes(0);
        self.uploaded = 0;
        self.steps.submitted();
        if self.entries.is_empty() {
            return None;
        }
        // Room for as many as lately: too little would be copied, too much would be memory the
        // cache has not seen.
        self.room = self.entries.len().max(self.room - self.room / 8);
        let entries = std::mem::replace(&mut self.entries, Vec::with_capacity(self.room + 16));
        self.keep_trace(&entries);
        Some(Tape { entries })
    }

    /// Copies entries that are submitted into the trace, if there is one.
    fn keep_trace(&mut self, entries: &[Entry]) {
        if let Some(trace) = &mut self.trace {
            trace.keep(entries);
        }
    }

    /// Notes the type of a value that is recorded or used.
    pub(super) fn note_type(&mut self, value: ValueId, ty: &Type) {
        if let Some(trace) = &mut self.trace {
            trace.note(value, ty);
        }
    }

    /// The type of a value recorded since the trace began.
    pub(super) fn traced_type(&self, value: ValueId) -> Option<Type> {
        self.trace.as_ref()?.ty(value)
    }

    /// Begins a trace, in place of the one before.
    pub(super) fn start_trace(&mut self) {
        self.trace = Some(Trace::from(ValueId(self.next_value)));
    }

    /// Ends the trace: a program of its own.
    pub(super) fn stop_trace(&mut self) -> Tape {
        self.trace.take().map(|trace| trace.tape(&[])).unwrap_or_default()
    }

    /// Ends the trace: the entries as they were submitted.
    pub(super) fn stop_trace_as_submitted(&mut self) -> Tape {
        self.trace.take().map(Trace::into_submitted).unwrap_or_default()
    }

    pub(super) fn is_traced(&self) -> bool {
        self.trace.is_some()
    }

    /// What was recorded since the trace began; without one what is not submitted yet.
    pub(super) fn tape(&self) -> Tape {
        match &self.trace {
            Some(trace) => trace.tape(&self.entries),
            None => Tape { entries: self.entries.clone() },
        }
    }

    /// Drops what is recorded, and whatever is recorded from here on.
    pub(super) fn close(&mut self) {
        self.closed = true;
        self.entries = Vec::new();
    }

    pub(super) fn reseed(&mut self, seed: u64) {
        self.set_rng_state((seed, 0));
    }

    /// The seed, and how many random tensors were drawn since it was set.
    pub(super) fn rng_state(&self) -> (u64, u64) {
        (self.seed, self.seeds_drawn)
    }

    /// Continues from a state as [`Recorder::rng_state`] gave it.
    pub(super) fn set_rng_state(&mut self, (seed, drawn): (u64, u64)) {
        (self.seed, self.seeds_drawn) = (seed, drawn);
    }

    /// The seed of the next random tensor: the session's seed and how many were drawn before, mixed
    /// (SplitMix64), so that neighbouring seeds and neighbouring tensors are unrelated.
    pub(super) fn next_seed(&mut self) -> i64 {
        self.seeds_drawn = self.seeds_drawn.wrapping_add(1);
        let state = mix(self.seed).wrapping_add(self.seeds_drawn.wrapping_mul(GAMMA));
        mix(state).cast_signed()
    }
}
