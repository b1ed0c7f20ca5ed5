//! The tape as the work of several workers: layouts, exchanges, and each worker's tapes.
//!
//! Only outputs are alive at the end. An input with the name of an output is state, such as a
//! parameter: it is where the step before has left it. Other inputs are uploads. Large ones come
//! in parts to the workers that need them, the others to worker 0.

use anyhow::{Context, Result, bail};
use gt_compiler::shard::{self, Auto, Exchange, Explained, Rates, Request};
use gt_ir::canonical::{Bindings, Template, canonical};
use gt_ir::layout::Layout;
use gt_ir::signal::Signals;
use gt_ir::{Entry, Tape, Type, ValueId};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// A tape on several workers, and on one.
pub(super) struct Sharded {
    tape: Tape,
    bindings: Bindings,
    n_workers: u32,
    /// The worker whose work is printed, if not all are.
    only: Option<u32>,
    explained: Explained,
    alone: Explained,
}

impl Sharded {
    /// The tape on so many workers, of which one may be asked for, and the ways to compute one of
    /// its instructions.
    pub(super) fn new(
        tape: &Tape,
        (signals, auto, rates): (&Signals, Option<Auto>, Rates),
        (n_workers, only): (u32, Option<u32>),
        asked: Option<ValueId>,
    ) -> Result<Sharded> {
        if let Some(only) = only.filter(|only| *only >= n_workers) {
            bail!("there is no worker {only}: the {n_workers} workers have numbers from 0 on");
        }
        let (program, state) = program(tape);
        let (template, bindings) = canonical(&program);
        let asked = asked.map(|value| number(&bindings, value)).transpose()?;
        let explain = |n_members, (signals, auto), (inputs, uploads): (&[_], &[Layout]), asked| {
            let template = &template;
            let request = Request { template, inputs, uploads, signals, n_members, auto, rates };
            shard::explain(&request, asked)
        };
        let held = bindings.inputs.iter().map(|value| (state[value].0, shard::at(0)));
        let mut inputs: Vec<(Type, Layout)> = held.collect();
        let none = Signals::new();
        let alone = explain(1, (&none, None), (&inputs, &[]), None)?;
        let first = explain(n_workers, (signals, auto), (&inputs, &[]), None)?;
        for (value, (ty, layout)) in bindings.inputs.iter().zip(&mut inputs) {
            let after = number(&bindings, state[value].1)?;
            let mut kept = first.partition.kept.iter();
            let kept = kept.find(|kept| kept.value == after && kept.ty == *ty);
            kept.into_iter().for_each(|kept| *layout = kept.layout.clone());
        }
        let uploads = cut(&template, &first.partition.uploads);
        let explained = explain(n_workers, (signals, auto), (&inputs, &uploads), asked)?;
        Ok(Sharded { tape: tape.clone(), bindings, n_workers, only, explained, alone })
    }

    /// What signals asked for and did not get.
    pub(super) fn warnings(&self) -> &[String] {
        &self.explained.partition.report.warnings
    }

    pub(super) fn text(&self) -> String {
        let (explained, tape, bindings) = (&self.explained, &self.tape, &self.bindings);
        format!(
            "# {} workers\n{}{}{}",
            self.n_workers,
            explained.sums(&self.alone),
            explained.tables(tape, bindings),
            explained.parts(tape, bindings, self.only)
        )
    }

    pub(super) fn dot(&self) -> String {
        self.explained.dot(&self.tape, &self.bindings)
    }

    pub(super) fn object(&self) -> Value {
        let Explained { partition, values, exchanges, seconds, waiting, peaks, .. } =
            &self.explained;
        let layouts = values.iter().enumerate().map(|(at, placed)| {
            let value = self.value(at as u32).unwrap_or_default();
            let layouts: Vec<String> = placed.layouts.iter().map(ToString::to_string).collect();
            let ty = placed.ty.to_string();
            json!({ "value": value, "type": ty, "layouts": layouts })
        });
        json!({
            "workers": self.n_workers,
            "bytes": partition.report.bytes,
            "messages": partition.report.messages,
            "rounds": partition.report.rounds,
            "seconds": seconds,
            "seconds_of_one_worker": self.alone.seconds,
            "plans": self.explained.plans.iter().map(plan).collect::<Vec<_>>(),
            "waiting": waiting,
            "peak_bytes": peaks,
            "peak_bytes_of_one_worker": self.alone.peaks.first(),
            "open": self.explained.wishes.iter().map(wish).collect::<Vec<_>>(),
            "layouts": layouts.collect::<Vec<_>>(),
            "exchanges": exchanges.iter().map(|e| self.exchange(e)).collect::<Vec<_>>(),
        })
    }

    /// The name of a value by its number.
    fn value(&self, number: u32) -> Option<String> {
        let Bindings { inputs, defined, .. } = &self.bindings;
        let mut values = inputs.iter().copied().chain(defined.iter());
        values.nth(number as usize).map(|value| value.to_string())
    }

    fn exchange(&self, exchange: &Exchange) -> Value {
        let name = |number: Option<u32>| number.and_then(|number| self.value(number));
        json!({
            "kind": exchange.kind.to_string(),
            "value": name(exchange.value),
            "type": exchange.ty.to_string(),
            "from": exchange.from.to_string(),
            "to": exchange.to.to_string(),
            "for": name(exchange.cause),
            "signal": exchange.signal.as_deref(),
            "bytes": exchange.bytes,
            "messages": exchange.messages,
            "rounds": [exchange.rounds.0, exchange.rounds.1],
            "seconds": exchange.seconds,
        })
    }
}

/// A way to spread the tape that was compared with others.
fn plan(plan: &shard::Alternative) -> Value {
    json!({ "name": plan.name, "seconds": plan.seconds, "peak_bytes": plan.peak })
}

/// What became of open signals.
fn wish(wish: &shard::Wish) -> Value {
    let signals: Vec<&str> = wish.signals.iter().map(|name| &**name).collect();
    json!({
        "signals": signals,
        "granted": wish.granted,
        "seconds_with": wish.with,
        "seconds_without": wish.without,
    })
}

/// The most workers that are taken because signals name them. Exchanges among all workers grow with
/// the square of their number.
const MAX_NAMED: u32 = 64;

/// As many workers as the signals name, and at least two; none if they name too many.
pub(super) fn named(signals: &Signals) -> Option<u32> {
    let n = signals.last_worker().map_or(2, |last| last.saturating_add(1).max(2));
    (n <= MAX_NAMED).then_some(n)
}

/// The state of a step: each input that is state, with its type and its value after the step.
type State = BTreeMap<ValueId, (Type, ValueId)>;

/// The tape as a step of a program that reads its outputs and keeps its state.
fn program(tape: &Tape) -> (Tape, State) {
    let (mut outputs, mut named) = (BTreeSet::new(), BTreeMap::new());
    for entry in &tape.entries {
        if let Entry::Output { value, name } = entry {
            outputs.insert(*value);
            named.extend(name.as_ref().map(|name| (name, *value)));
        }
    }
    let (mut state, mut alive, mut entries) = (State::new(), BTreeSet::new(), Vec::new());
    for entry in &tape.entries {
        alive.extend(entry.defines());
        match entry {
            Entry::Input { out, ty, name: Some(name) } if named.contains_key(name) => {
                state.insert(*out, (*ty, named[name]));
            }
            Entry::Free(value) if outputs.contains(value) => {}
            Entry::Free(value) => {
                alive.remove(value);
                entries.push(entry.clone());
            }
            Entry::Input { .. }
            | Entry::Instr(_)
            | Entry::Enter(_)
            | Entry::Exit(_)
            | Entry::Output { .. } => entries.push(entry.clone()),
        }
    }
    let ends = |value: &&ValueId| !outputs.contains(*value);
    entries.extend(alive.iter().filter(ends).map(|value| Entry::Free(*value)));
    (Tape { entries }, state)
}

/// Where uploads come that are needed in these layouts.
fn cut(template: &Template, needed: &[Layout]) -> Vec<Layout> {
    let types = template.tape.entries.iter().filter_map(|entry| match entry {
        Entry::Input { ty, .. } => Some(ty),
        Entry::Instr(_)
        | Entry::Free(_)
        | Entry::Enter(_)
        | Entry::Exit(_)
        | Entry::Output { .. } => None,
    });
    let is_cut = |ty: &Type, layout: &Layout| {
        ty.bytes() as u64 >= shard::LARGE_UPLOAD && shard::is_by_rows(layout, ty)
    };
    let come = |(ty, needed): (&Type, &Layout)| match is_cut(ty, needed) {
        true => needed.clone(),
        false => shard::at(0),
    };
    types.zip(needed).map(come).collect()
}

/// The number of a value in the segment.
fn number(bindings: &Bindings, value: ValueId) -> Result<u32> {
    let mut values = bindings.inputs.iter().copied().chain(bindings.defined.iter());
    let at = values.position(|other| other == value);
    at.map(|at| at as u32).with_context(|| format!("the tape has no value {value}"))
}
