//! Stream modifiers: the extension point by which a program inserts its own transformers into the
//! stream of instructions, in the client, the dispatcher or the worker.
//!
//! A modifier takes each segment and returns the segment in its place: the same, another one with
//! the same effect on later segments, or an error, which refuses it. A refused segment ends its
//! session with the reason; on a worker, only the values that the segment defines get the reason as
//! their error. Clients and workers pass every segment. A dispatcher passes a segment that comes
//! again once, when its template is defined, and tells its launches (`launched`). Modifiers are
//! inserted before the first session, server or worker of the process, and stay. The log has a line
//! MODIFIER for each segment that is changed or refused. The built-in transformers do not use this
//! interface: templates (`client/templates.rs`), the cut for several workers (`gt_compiler::shard`)
//! and plans (`worker/plans.rs`) keep state that sessions share.
//!
//! ```
//! use gt_ir::{Op, Tape};
//! use gt_runtime::modifier::{Modifier, Place, insert, stats};
//!
//! /// Counts products, and forbids random numbers.
//! #[derive(Default)]
//! struct Rules(u64);
//!
//! impl Modifier for Rules {
//!     fn name(&self) -> &str {
//!         "rules"
//!     }
//!     fn process(&mut self, segment: Tape) -> Result<Tape, String> {
//!         self.0 += segment.instrs().filter(|i| i.op == Op::MatMul).count() as u64;
//!         let found = segment.instrs().find(|i| i.op.name() == "rand").map(|i| i.loc);
//!         found.map_or(Ok(segment), |loc| Err(format!("rand is forbidden here ({loc})")))
//!     }
//!     fn stats(&self) -> Vec<(String, u64)> {
//!         vec![("products".into(), self.0)]
//!     }
//! }
//!
//! insert(Place::Client, Rules::default());
//! assert_eq!(stats(Place::Client)[0].1, [("products".to_owned(), 0)]);
//! ```

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gt_ir::Tape;

use crate::ids::PeerId;
use crate::log::{Line, Log, Source, What};
use crate::wire::{Body, FromClient, Message, Order, Packet};

/// A transformer of the stream of instructions.
pub trait Modifier: Send {
    /// A name for the log and for statistics.
    fn name(&self) -> &str;

    /// Takes a segment, and returns the segment in its place. It must define and free the same
    /// values.
    ///
    /// # Errors
    /// The segment is refused for this reason, which reads of its values return.
    fn process(&mut self, segment: Tape) -> Result<Tape, String>;

    /// Takes note that a segment is launched again that has passed before, as the template with
    /// this number of its session.
    fn launched(&mut self, _template: u32) {}

    /// Counts of its work so far, by name.
    fn stats(&self) -> Vec<(String, u64)>;
}

/// Where a modifier is inserted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Before segments of this process's programs become templates.
    Client,
    /// Where this process's dispatcher receives what clients send.
    Dispatcher,
    /// Where workers of this process run segments.
    Worker,
}

/// The name of a modifier, and its counts.
pub type Counted = (String, Vec<(String, u64)>);

type Inserted = Vec<(Place, Box<dyn Modifier>)>;

static INSERTED: Mutex<Inserted> = Mutex::new(Vec::new());
/// Whether there is a modifier at each place: a look at a flag is all that others pay.
static AT: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

fn inserted() -> MutexGuard<'static, Inserted> {
    // A modifier that panicked keeps its place, and the next segment passes it again.
    INSERTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Inserts a modifier behind the others at its place.
pub fn insert(place: Place, modifier: impl Modifier + 'static) {
    inserted().push((place, Box::new(modifier)));
    AT[place as usize].store(true, Ordering::Release);
}

/// The counts of the modifiers at a place, in their order.
#[must_use]
pub fn stats(place: Place) -> Vec<Counted> {
    let inserted = inserted();
    let here = inserted.iter().filter(|(at, _)| *at == place);
    here.map(|(_, modifier)| (modifier.name().to_owned(), modifier.stats())).collect()
}

/// Whether there is a modifier at a place.
#[inline]
pub(crate) fn is_at(place: Place) -> bool {
    AT[place as usize].load(Ordering::Acquire)
}

/// Passes a segment through the modifiers at a place.
pub(crate) fn pass(
    place: Place,
    source: Source<'_>,
    log: &Log,
    mut segment: Tape,
) -> Result<Tape, String> {
    for (_, modifier) in inserted().iter_mut().filter(|(at, _)| *at == place) {
        let before = log.is_on().then(|| segment.clone());
        let passed = modifier.process(segment);
        let line = Line::new(What::Modifier, source, "");
        let name = modifier.name();
        segment = match passed {
            Err(why) => {
                log.write(&Line { command: name, ..line }, format_args!("refused: {why}"));
                return Err(format!("the modifier {name} refused a segment: {why}"));
            }
            Ok(after) => after,
        };
        if let Some(before) = before.filter(|before| *before != segment) {
            let n = (before.entries.len(), segment.entries.len());
            let line = Line { command: name, ..line };
            log.write(&line, format_args!("{} entries became {}", n.0, n.1));
        }
    }
    Ok(segment)
}

/// Tells the modifiers at a place that a template is launched.
fn launched(place: Place, template: u32) {
    let mut inserted = inserted();
    let here = inserted.iter_mut().filter(|(at, _)| *at == place);
    here.for_each(|(_, modifier)| modifier.launched(template));
}

/// Passes what a client sends through the dispatcher's modifiers. A refusal is the reason why the
/// session ends.
pub(crate) fn arrive(peer: PeerId, log: &Log, packet: &mut Packet) -> Result<(), String> {
    let Body::Data { message: Message::FromClient(FromClient::Order(order)), .. } =
        &mut packet.body
    else {
        return Ok(());
    };
    let (place, name) = (Place::Dispatcher, peer.to_string());
    let source = Source::Client(&name);
    match order {
        Order::Run(tape) | Order::Define { tape, .. } => {
            *tape = Arc::new(pass(place, source, log, Tape::clone(tape))?);
        }
        Order::Launch { template, .. } => launched(place, *template),
        Order::Forget { .. }
        | Order::Chunk(_)
        | Order::Fail { .. }
        | Order::Fetch { .. }
        | Order::Send { .. }
        | Order::Learn { .. }
        | Order::Perform(_)
        | Order::Stats { .. } => {}
    }
    Ok(())
}
