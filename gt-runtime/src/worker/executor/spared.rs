//! Results that nobody uses: the launches that are watched for them, and what is made of results
//! that were left out and are wanted after all.
//!
//! A result is unused if the first thing that happens to it is that the next segment, or one
//! before it that computes nothing, frees it. A launch that left results out is remembered with
//! what they are computed from until then. If one of them is read before, or not freed then, all
//! that are not freed are computed instruction by instruction, as launches without a plan are. So
//! are they when one of the values that they are computed from is freed before: nothing stays in
//! memory for them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use gt_compiler::engine::Value;
use gt_ir::canonical::{Bindings, expand};
use gt_ir::verify::IdHash;
use gt_ir::{Entry, Instr, Tape, ValueId};

use super::{Executor, Trouble};
use crate::ids::SessionId;
use crate::profile;
use crate::wire::Order;
use crate::worker::definition::Definition;
use crate::worker::device::Device;
use crate::worker::fates::{Sparing, needed, operands};
use crate::worker::job::Task;
use crate::worker::table::{Outcome, Table, Watched};

/// Values by their numbers.
type Ids = HashSet<ValueId, IdHash>;

impl Executor {
    /// Ends the watch over the results of the last launch, because a segment is about to begin. One
    /// that is not `final`, because a modifier may change it, may use any of them.
    pub(super) fn judge(&mut self, task: &Task, is_final: bool) {
        let Executor { device, name, sessions, trouble, plans, .. } = self;
        let Some(table) = sessions.get_mut(&task.session) else { return };
        if table.watched.is_none() {
            return;
        }
        let Some(idle) = idle_of(task) else { return };
        let idle = if is_final { idle } else { Ids::default() };
        let Some(mut watched) = table.watched.take() else { return };
        let Watched { open, unused, roots, .. } = &mut watched;
        let (freed, rest) = open.iter().partition(|(_, value)| idle.contains(value));
        *open = rest;
        if roots.is_none() {
            unused.extend(table.sizes(freed));
        }
        let is_root_freed = watched.roots.iter().flatten().any(|(root, _)| idle.contains(root));
        let goes_on = task.computes_nothing() && !watched.open.is_empty() && !is_root_freed;
        match goes_on {
            true => table.watched = Some(watched),
            false if watched.roots.is_none() => watched.learn(plans.least_unused()),
            false => watched.make(table, device, name, trouble),
        }
    }

    /// Notes that a value is about to be read.
    pub(super) fn used(&mut self, session: SessionId, value: ValueId) {
        let Executor { device, name, sessions, trouble, .. } = self;
        let Some(table) = sessions.get_mut(&session) else { return };
        let Some(watched) = &mut table.watched else { return };
        let Some(place) = watched.open.iter().position(|(_, open)| *open == value) else { return };
        if watched.roots.is_none() {
            watched.open.swap_remove(place);
        } else if let Some(watched) = table.watched.take() {
            watched.make(table, device, name, trouble);
        }
    }

    /// Watches the results of a launch that makes all of them, if nobody knows yet what becomes of
    /// them.
    pub(super) fn watch(
        &mut self,
        session: SessionId,
        defined: &Arc<Definition>,
        bindings: &Arc<Bindings>,
    ) {
        if self.plans.is_off() || !defined.fates.are_watched() {
            return;
        }
        let kept = defined.footprint.kept.iter();
        let open = kept.filter_map(|at| Some((*at, bindings.defined.get(*at as usize)?)));
        let open = open.collect();
        let watched = Watched::new(defined, bindings, open, None);
        self.sessions.entry(session).or_default().watched = Some(watched);
    }
}

/// The watch over the results that a launch leaves out. `given` are its inputs and uploads.
pub(super) fn left_out(
    sparing: &Sparing,
    (defined, bindings): (&Arc<Definition>, &Arc<Bindings>),
    given: &[Value],
) -> Watched {
    let defines = |at: u32| bindings.defined.get(at as usize);
    let id = |root: usize| match root.checked_sub(bindings.inputs.len()) {
        None => bindings.inputs.get(root).copied(),
        Some(upload) => defines(defined.footprint.uploads.get(upload)?.0),
    };
    let root = |root: &u32| Some((id(*root as usize)?, given.get(*root as usize)?.clone()));
    let roots = sparing.roots.iter().filter_map(root).collect();
    let open = sparing.results.iter().filter_map(|at| Some((*at, defines(*at)?)));
    Watched::new(defined, bindings, open.collect(), Some(roots))
}

impl Table {
    /// The bytes of values, without memory that others of the table have as well.
    fn sizes(&self, values: Vec<(u32, ValueId)>) -> Vec<(u32, usize)> {
        let own: Ids = values.iter().map(|(_, value)| *value).collect();
        let mut known = self.addresses(|value| !own.contains(&value));
        let mut bytes = |value: &ValueId| match self.get(*value) {
            Some(Outcome::Ready(held)) if known.insert(held.address()) => held.bytes(),
            Some(Outcome::Ready(_) | Outcome::Failed(_)) | None => 0,
        };
        values.iter().map(|(at, value)| (*at, bytes(value))).collect()
    }

    /// Puts `nothing` into the place of results that a launch has left out, and watches them.
    pub(super) fn leave_out(&mut self, watched: Watched, nothing: &Value) {
        for (_, value) in &watched.open {
            self.insert(*value, Outcome::Ready(nothing.clone()));
        }
        self.watched = Some(watched);
    }
}

impl Watched {
    fn new(
        defined: &Arc<Definition>,
        bindings: &Arc<Bindings>,
        open: Vec<(u32, ValueId)>,
        roots: Option<Vec<(ValueId, Value)>>,
    ) -> Watched {
        let (defined, bindings) = (defined.clone(), bindings.clone());
        Watched { defined, bindings, open, unused: Vec::new(), roots }
    }

    /// Notes which results were unused.
    fn learn(self, least: usize) {
        let Watched { defined, unused, .. } = self;
        defined.fates.note((&defined.template, &defined.footprint), &unused, least);
    }

    /// Makes the results that were left out and are not freed.
    fn make(self, table: &mut Table, device: &mut Device, worker: &str, trouble: &mut Trouble) {
        let Watched { defined, bindings, open, roots, .. } = self;
        if open.is_empty() {
            return;
        }
        defined.fates.was_wrong();
        // Bindings that a launch ran with fit its template.
        let tape = expand(&defined.template, &bindings).unwrap_or_default();
        let needed = needed(&tape, open.iter().map(|(_, value)| *value));
        let instrs: Vec<&Instr> =
            tape.instrs().filter(|instr| needed.contains(&instr.out)).collect();
        let mut last_uses = last_uses(&instrs);
        let mut made = Table::default();
        for (root, value) in roots.into_iter().flatten() {
            made.insert(root, Outcome::Ready(value));
        }
        for instr in &instrs {
            let outcome = made.execute(device, instr, worker, trouble);
            if let Some((at, _)) = open.iter().find(|(_, value)| *value == instr.out) {
                table.insert(instr.out, outcome.clone());
                if profile::is_on() {
                    table.made_at(instr.out, defined.line_of(*at));
                }
            }
            made.insert(instr.out, outcome);
            for value in last_uses.remove(&instr.out).into_iter().flatten() {
                made.remove(value);
            }
        }
        // An error that it was about says so itself.
        trouble.was_short();
        table.instructions += instrs.len() as u64;
        table.interpreted += instrs.len() as u64;
    }
}

/// For each instruction, by its result, the values that no later one uses.
fn last_uses(instrs: &[&Instr]) -> HashMap<ValueId, Vec<ValueId>> {
    let (mut seen, mut last) = (Ids::default(), HashMap::<ValueId, Vec<ValueId>>::new());
    for instr in instrs.iter().rev() {
        for value in operands(instr).chain([instr.out]) {
            if seen.insert(value) {
                last.entry(instr.out).or_default().push(value);
            }
        }
    }
    last
}

/// The values that a segment frees and does nothing else with; `None` for another order.
fn idle_of(task: &Task) -> Option<Ids> {
    match (&task.order, &task.template) {
        (Order::Run(tape), _) => Some(idle_in(tape)),
        (Order::Launch { bindings, .. }, Some(defined)) => {
            let idle = defined.footprint.idle.iter();
            Some(idle.filter_map(|at| bindings.inputs.get(*at as usize).copied()).collect())
        }
        _ => None,
    }
}

/// The values that a tape frees and does nothing else with.
fn idle_in(tape: &Tape) -> Ids {
    let mut idle = Ids::default();
    for entry in &tape.entries {
        match entry {
            Entry::Free(value) => _ = idle.insert(*value),
            Entry::Instr(_) | Entry::Input { .. } | Entry::Output { .. } => {}
            Entry::Enter(_) | Entry::Exit(_) => {}
        }
    }
    for entry in &tape.entries {
        match entry {
            Entry::Instr(instr) => operands(instr).for_each(|value| _ = idle.remove(&value)),
            Entry::Output { value, .. } => _ = idle.remove(value),
            Entry::Free(_) | Entry::Input { .. } | Entry::Enter(_) | Entry::Exit(_) => {}
        }
    }
    idle
}
