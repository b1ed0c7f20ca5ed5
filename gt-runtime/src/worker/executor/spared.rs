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
use gt_ir::{Instr, Operand, ValueId};

use super::{Executor, Trouble};
use crate::footprint::{Ids, idle};
use crate::ids::SessionId;
use crate::profile;
use crate::wire::Order;
use crate::worker::definition::Definition;
use crate::worker::device::Device;
use crate::worker::fates::{Sparing, needed};
use crate::worker::job::Task;
use crate::worker::table::{Aim, Outcome, Table, Watched};

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
        let (freed, open) = watched.open.iter().partition(|(_, value)| idle.contains(value));
        watched.open = open;
        let may_wait = match &mut watched.aim {
            Aim::Learn(unused) => {
                unused.extend(table.sizes(freed));
                true
            }
            Aim::Make(roots) => !roots.iter().any(|(root, _)| idle.contains(root)),
        };
        if may_wait && task.computes_nothing() && !watched.open.is_empty() {
            table.watched = Some(watched);
            return;
        }
        match watched.aim {
            Aim::Learn(unused) => {
                let of = (&watched.defined.template, &watched.defined.footprint);
                watched.defined.fates.note(of, &unused, plans.least_unused());
            }
            Aim::Make(_) => watched.make(table, device, name, trouble),
        }
    }

    /// Notes that a value is about to be read.
    pub(super) fn used(&mut self, session: SessionId, value: ValueId) {
        let Executor { device, name, sessions, trouble, .. } = self;
        let Some(table) = sessions.get_mut(&session) else { return };
        let Some(watched) = &mut table.watched else { return };
        let Some(place) = watched.open.iter().position(|(_, open)| *open == value) else { return };
        if let Aim::Learn(_) = watched.aim {
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
        let watched = Watched {
            defined: defined.clone(),
            bindings: bindings.clone(),
            open: open.collect(),
            aim: Aim::Learn(Vec::new()),
        };
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
    let (defined, bindings) = (defined.clone(), bindings.clone());
    Watched { defined, bindings, open: open.collect(), aim: Aim::Make(roots) }
}

impl Table {
    /// The bytes of values, without memory that others of the table have as well.
    fn sizes(&self, values: Vec<(u32, ValueId)>) -> Vec<(u32, usize)> {
        let own: Ids = values.iter().map(|(_, value)| *value).collect();
        let others = self.ready().filter(|(value, _)| !own.contains(value));
        let mut known: HashSet<usize> = others.map(|(_, held)| held.address()).collect();
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
    /// Makes the results that were left out and are not freed.
    fn make(self, table: &mut Table, device: &mut Device, worker: &str, trouble: &mut Trouble) {
        let Watched { defined, bindings, open, aim: Aim::Make(roots) } = self else { return };
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
        for (root, value) in roots {
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
        for value in instr.inputs.iter().filter_map(Operand::value).chain([instr.out]) {
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
        (Order::Run(tape), _) => Some(idle(tape)),
        (Order::Launch { bindings, .. }, Some(defined)) => {
            let idle = defined.footprint.idle.iter();
            Some(idle.filter_map(|at| bindings.inputs.get(*at as usize).copied()).collect())
        }
        _ => None,
    }
}
