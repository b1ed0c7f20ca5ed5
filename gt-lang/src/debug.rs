//! Looking into a running program: its tape, its workers, where a tensor comes from, and where
//! numbers first go wrong.
//!
//! ```no_run
//! # extern crate gt_lang as gt;
//! # use gt::prelude::*;
//! # use gt::debug;
//! # fn main() -> Result<()> {
//! let _watching = debug::watch_nan();     // reads fail at the first NaN, and name who made it
//! let _kept = debug::keep_tape();         // the tape is kept, to be printed
//! let x: T![3] = Tensor::ones();
//! let y = (x * 2.0).exp();
//! println!("{}", debug::explain(&y));     // op, operands, line, signal, worker, plans
//! debug::print_tape();
//! debug::print_worker_stats()
//! # }
//! ```
//!
//! Guarantees: nothing here changes a result, and what is not asked for costs nothing.

use std::fmt::Write as _;
use std::marker::PhantomData;
use std::sync::Arc;

use gt_ir::backend::{SegmentStats, Stats, WorkerStats};
use gt_ir::units::bytes;
use gt_ir::verify::Verifier;
use gt_ir::{Entry, Instr, Loc, Operand, Tape, Type, ValueId};

use crate::core::DynTensor;
use crate::core::tensor::Node;
use crate::core::tensor::{Made, Repr};
use crate::error::Result;
use crate::session::Session;
use crate::typed::AnyTensor;

/// Keeps the tape of the current session until it is dropped; see [`keep_tape`].
#[must_use = "the tape is kept until this is dropped"]
pub struct Kept(Option<Session>);

/// Keeps everything the current session records from here on, for [`get_tape`], [`print_tape`] and
/// [`explain`]. It takes memory: about a hundred bytes an instruction.
pub fn keep_tape() -> Kept {
    let session = Session::current().ok().filter(|session| !session.is_traced());
    if let Some(session) = &session {
        session.start_trace();
    }
    Kept(session)
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(session) = &self.0 {
            session.stop_trace();
        }
    }
}

/// What the current session has recorded: since [`keep_tape`], or without it what it has not handed
/// over yet.
pub fn get_tape() -> Tape {
    Session::current().map(|session| session.tape()).unwrap_or_default()
}

/// Prints [`get_tape`] on standard output, in the form that `gt-cli` reads.
#[expect(clippy::print_stdout, reason = "what it is called for")]
pub fn print_tape() {
    let kept = Session::current().is_ok_and(|session| session.is_traced());
    let which =
        if kept { "since it is kept" } else { "not handed over yet; `debug::keep_tape` keeps all" };
    let tape = get_tape();
    println!("# {} entries, {which}", tape.entries.len());
    print!("{}", gt_ir::text::print(&tape));
}

/// What the current session has run and holds, worker by worker.
///
/// # Errors
/// There is no session, or the running system does not answer.
#[track_caller]
pub fn worker_stats() -> Result<String> {
    Session::current()?.stats().map(|stats| describe(&stats))
}

/// Prints [`worker_stats`] on standard output.
///
/// # Errors
/// As [`worker_stats`].
#[track_caller]
#[expect(clippy::print_stdout, reason = "what it is called for")]
pub fn print_worker_stats() -> Result<()> {
    let text = worker_stats()?;
    print!("{text}");
    Ok(())
}

/// Watches the current session until it is dropped; see [`watch_nan`].
#[must_use = "the watch ends when this is dropped"]
pub struct Watching {
    session: Option<Session>,
    _thread: PhantomData<*const ()>,
}

/// Watches for NaN and infinities in what the current session records from here on. The first
/// instruction that makes a NaN, or an infinity out of finite numbers, is the error of the next
/// read and of all after it, with its line. `GT_NAN_WATCH=1` watches every session from its
/// beginning.
///
/// Infinities that the program gives itself, as literals (the minus infinity of a mask) or in data,
/// and what comes of them are no fault. Each float result is followed by a few more instructions
/// that ask about it, so programs run several times slower.
pub fn watch_nan() -> Watching {
    let session = Session::current().ok().filter(Session::watch);
    Watching { session, _thread: PhantomData }
}

impl Drop for Watching {
    fn drop(&mut self) {
        if let Some(session) = &self.session {
            session.unwatch();
        }
    }
}

/// Where a tensor comes from and where it is: the op that made it, its operands with their shapes,
/// the line, the signals, the worker its session lives on, and what became of the session's
/// segments, with reasons where they were not compiled.
///
/// Operands are known of tensors that gradients flow through and of what is not handed over yet;
/// while [`keep_tape`] keeps the tape, they and the signals are known of everything.
#[must_use]
pub fn explain<T: AnyTensor>(tensor: &T) -> String {
    let tensor = tensor.inner();
    let value = tensor.value();
    let (session, id) = match value.place() {
        Ok((session, id)) => (session.clone(), id),
        Err(error) => return format!("never computed, for an error: {error}\n"),
    };
    // Found before the question about the session, which hands over what was recorded.
    let origin = Origin::find(tensor, id, &session);
    let mut text = format!("{id}: {}\n", value.ty);
    origin.say(value.made, &mut text);
    // Writing to a string cannot fail.
    let _ = match session.stats() {
        Ok(stats) => write!(text, "{}", residence(&stats)),
        Err(error) => writeln!(text, "  its session does not answer: {error}"),
    };
    text
}

/// What is known of the making of a value.
#[derive(Default)]
struct Origin {
    call: Option<String>,
    signals: Vec<Arc<str>>,
    backward: Option<Arc<str>>,
    leaf: bool,
}

impl Origin {
    fn find(tensor: &DynTensor, id: ValueId, session: &Session) -> Origin {
        let mut origin = Origin { leaf: tensor.is_leaf(), ..Origin::on_tape(id, session) };
        if let Repr::Tracked(_, node) = &tensor.0 {
            origin.call = origin.call.or_else(|| of_node(node));
            origin.backward = node.signals.as_ref().map(|signals| signals.name().clone());
        }
        origin
    }

    fn on_tape(id: ValueId, session: &Session) -> Origin {
        let tape = session.tape();
        // Inputs have their types on the tape, and so has all that comes of them alone.
        let mut types = Verifier::new();
        let mut open = Vec::new();
        for entry in &tape.entries {
            match entry {
                Entry::Enter(name) => open.push(name.clone()),
                Entry::Exit(_) => drop(open.pop()),
                Entry::Instr(instr) if instr.out == id => {
                    let ty = |value| session.traced_type(value).or_else(|| types.ty(value));
                    let call = Some(call(instr, ty));
                    return Origin { call, signals: open, ..Origin::default() };
                }
                Entry::Instr(_) | Entry::Input { .. } | Entry::Free(_) | Entry::Output { .. } => (),
            }
            let _ = types.entry(entry);
        }
        Origin::default()
    }

    fn say(&self, Made { op, loc, .. }: Made, text: &mut String) {
        let made = match (&self.call, op) {
            (Some(call), _) => format!("made by {call}"),
            (None, Some(op)) => {
                format!("made by {} (of what, `debug::keep_tape` knows)", op.name())
            }
            (None, None) => "data the program gave".to_owned(),
        };
        let _ = writeln!(text, "  {made}");
        if loc != Loc::NONE {
            let _ = writeln!(text, "  at {loc}");
        }
        if !self.signals.is_empty() {
            let _ = writeln!(text, "  in signal {}", self.signals.join("/"));
        }
        if let Some(backward) = &self.backward {
            let _ = writeln!(text, "  its gradient in signal {backward}");
        }
        if self.leaf {
            let _ = writeln!(text, "  a leaf: gradients gather in it");
        }
    }
}

/// An instruction as a line: the op, then its operands with their types.
fn call(instr: &Instr, ty: impl Fn(ValueId) -> Option<Type>) -> String {
    let operands = instr.inputs.iter().map(|operand| match operand {
        Operand::Value(value) => {
            ty(*value).map_or_else(|| value.to_string(), |ty| format!("{value}: {ty}"))
        }
        Operand::Scalar(scalar) => scalar.to_string(),
    });
    format!("{} {}", instr.op, operands.collect::<Vec<_>>().join(", ")).trim_end().to_owned()
}

/// The call behind a node, while its graph is kept.
fn of_node(node: &Node) -> Option<String> {
    let saved = node.lock();
    let saved = saved.as_ref()?;
    let operands = saved.inputs.iter().map(|input| match input.operand {
        Operand::Value(value) => format!("{value}: {}", input.ty),
        Operand::Scalar(scalar) => scalar.to_string(),
    });
    Some(format!("{} {}", node.op, operands.collect::<Vec<_>>().join(", ")))
}

/// Where a session lives, and what became of its segments.
fn residence(stats: &Stats) -> String {
    let mut text = String::new();
    if let Some(home) = stats.workers.last() {
        let WorkerStats { name, engine, device, .. } = home;
        let on = if device.is_empty() { engine.clone() } else { format!("{engine} on {device}") };
        let session = if stats.session.is_empty() {
            String::new()
        } else {
            format!(", of session {}", stats.session)
        };
        let _ = writeln!(text, "  lives on worker {name} ({on}){session}");
    }
    text + &segments(stats)
}

/// What became of the segments.
fn segments(stats: &Stats) -> String {
    let SegmentStats { tapes, templates, launches, verified, misses, evictions } = stats.segments;
    let total = stats.total();
    let mut text = format!(
        "  segments: {tapes} sent whole, {launches} as launches of {templates} templates \
         ({verified} verified in full)\n"
    );
    let _ = writeln!(
        text,
        "  of {} run, {} ran as plans; {} instructions ran one by one",
        total.segments, total.launches, total.interpreted
    );
    if launches == 0 && tapes > 0 {
        text.push_str("  nothing is compiled as a whole before it is seen twice\n");
    }
    if misses + evictions > 0 {
        let _ =
            writeln!(text, "  {misses} were not the one expected, {evictions} templates given up");
    }
    for news in &stats.news {
        let _ = writeln!(text, "  lately: {news}");
    }
    text
}

fn describe(stats: &Stats) -> String {
    let mut text = String::new();
    for worker in &stats.workers {
        let _ = write!(text, "{}", Described(worker));
    }
    text + &segments(stats)
}

struct Described<'a>(&'a WorkerStats);

impl std::fmt::Display for Described<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let w = self.0;
        writeln!(f, "worker {}: {} {}", w.name, w.engine, w.device)?;
        writeln!(f, "  {} instructions in {} segments", w.instructions, w.segments)?;
        let ms = w.compile_ns as f64 / 1e6;
        writeln!(
            f,
            "  {} plans ready, {} kernels compiled in {ms:.1} ms",
            w.plans, w.kernels_compiled
        )?;
        let (own, all) = (w.busy_ns as f64 / 1e6, w.all_busy_ns as f64 / 1e6);
        writeln!(f, "  busy for {own:.1} ms, of {all:.1} ms for all sessions")?;
        writeln!(f, "  {} values of {}", w.live_values, bytes(w.live_bytes))?;
        writeln!(f, "  {} in, {} out", bytes(w.bytes_in), bytes(w.bytes_out))?;
        let m = &w.memory;
        writeln!(
            f,
            "  memory of all sessions: {} in use, {} at most, {} kept for reuse",
            bytes(m.live),
            bytes(m.peak),
            bytes(m.cached)
        )
    }
}
