//! What a client records whose session lives on several workers: signals that ask for workers,
//! scopes that name them, and instructions whose elements depend on other elements, so that members
//! of the gang need each other's values.

use super::Client;
use crate::clock::Time;
use crate::sim::Random;
use crate::wire::FromClient;
use gt_ir::attr::{Axis, AxisSet, Keep, Reduce, Slice};
use gt_ir::signal::{ShardConfig, SignalConfig, Signals};
use gt_ir::tape::{Entry, Instr, ValueId};
use gt_ir::{Loc, Op, Operand, Scalar};
use std::sync::Arc;

/// The signals of a client. It does not configure all of them.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

impl Client {
    /// Says something else about the signals.
    pub(super) fn configure(&mut self, now: Time, random: &mut Random) {
        if random.percent(50) {
            self.submit(now);
        }
        let mut signals = Signals::new();
        for name in &NAMES[..random.below(NAMES.len() as u64) as usize] {
            let config = SignalConfig { shard: shard(random), ..SignalConfig::default() };
            signals.set(name, config).expect("a valid configuration");
        }
        self.say(now, FromClient::Configure(Arc::new(signals)));
    }

    /// Enters the scope of a signal, or leaves all scopes.
    pub(super) fn enter(&mut self, number: u64) {
        let name = NAMES.get(number as usize).filter(|_| self.habits.spread);
        self.scope = name.map(|name| Arc::from(*name));
    }

    /// Adds entries in the current scope.
    pub(super) fn push(&mut self, entry: Entry) {
        self.segment.extend(self.scope.clone().map(Entry::Enter));
        self.segment.push(entry);
        self.segment.extend(self.scope.clone().map(Entry::Exit));
    }

    /// An instruction that fails on a worker, if there are elements to select.
    fn fail(&mut self, a: Operand) {
        let Operand::Value(value) = a else { return };
        let ty = *self.live[&value].ty();
        let beyond = Operand::Scalar(Scalar::I64(1 << 20));
        let index = self.compute(Op::Full(ty), &[beyond]);
        let (out, data) = (self.value(), self.live[&value].clone());
        self.live.insert(out, data);
        self.poisoned.insert(out);
        let inputs = [a, Operand::Value(index)].into_iter().collect();
        let op = Op::IndexSelect(Axis(0));
        self.push(Entry::Instr(Instr { out, op, inputs, loc: Loc::NONE }));
        self.free_value(index);
    }

    /// A random instruction on all elements of a value.
    pub(super) fn mixed(&mut self, a: ValueId, random: &mut Random) {
        let n = self.habits.n_elements;
        let axes: AxisSet = std::iter::once(0).collect();
        let (a, part) = (Operand::Value(a), random.below(n as u64 + 1));
        match random.below(6) {
            5 if random.percent(20) => self.fail(a),
            0 => {
                let total = self.compute(Op::Sum(Reduce { axes, keep: Keep::Yes }), &[a]);
                self.compute(Op::Add, &[a, Operand::Value(total)]);
                self.free_value(total);
            }
            1 => {
                self.compute(Op::Flip(gt_ir::attr::Axes(axes)), &[a]);
            }
            2 => {
                self.compute(Op::CumSum(Axis(0)), &[a]);
            }
            3 => {
                let ty = *self.live.values().next().expect("a live value").ty();
                let scalar = Scalar::I64(random.below(1000) as i64);
                self.compute(Op::Full(ty), &[Operand::Scalar(scalar)]);
            }
            _ => {
                let slice = |start, stop| Op::Slice(Slice { axis: 0, start, stop, step: 1 });
                let first = self.compute(slice(0, part), &[a]);
                let second = self.compute(slice(part, n as u64), &[a]);
                let parts = [Operand::Value(second), Operand::Value(first)];
                self.compute(Op::Cat(Axis(0)), &parts);
                self.free_value(first);
                self.free_value(second);
            }
        }
    }
}

fn shard(random: &mut Random) -> Option<ShardConfig> {
    let mut listed: Vec<u32> = (0..4).filter(|_| random.percent(50)).collect();
    if random.percent(50) {
        listed.reverse();
    }
    let workers = (random.percent(60) && !listed.is_empty()).then_some(listed);
    let axis = if random.percent(10) { 3 } else { 0 };
    let replicated = random.percent(20);
    let config = ShardConfig { axis: axis.into(), workers, replicated, ..ShardConfig::default() };
    random.percent(90).then_some(config)
}
