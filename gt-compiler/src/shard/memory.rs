//! The memory that members need for the values of a partition, by their tapes.
//!
//! An estimate: what is made and used element by element within a tape stays in the caches and
//! counts nothing, and what is only moved within a tape is read where it is. Anything else counts
//! from its instruction to its last use. What a member holds and the segment does not use is not
//! counted.

use std::collections::{BTreeMap, BTreeSet};

use gt_ir::op::infer;
use gt_ir::{Class, Entry, Instr, Operand, OperandType, Type, ValueId};
use smallvec::SmallVec;

use super::cost::{fuses, is_fused};
use super::report::Placed;
use super::{Local, Part, Partition, Phase, Step};

/// The most bytes of values that each member has at a time.
pub(super) fn peaks(partition: &Partition, values: &[Placed]) -> Vec<u64> {
    let members = partition.parts.iter().enumerate();
    members.map(|(member, part)| peak(part, &held(part, member as u32, values))).collect()
}

/// The values that a member has before its first phase, as far as it uses them, by number.
pub(super) fn held(part: &Part, member: u32, values: &[Placed]) -> BTreeMap<u32, Type> {
    let mut used = Vec::new();
    for step in &part.steps {
        match step {
            Step::Run(phase) => used.extend(phase.inputs.iter().copied()),
            Step::Send { value, .. } => used.push(*value),
        }
    }
    let given = used.into_iter().filter_map(|local| match local {
        Local::Given(number) => Some(number),
        Local::Made(_) => None,
    });
    let local = |number: u32| {
        let placed = &values[number as usize];
        let layout = placed.layouts.first()?.at_once();
        let rank = layout.mesh.rank_of(member)?;
        Some(layout.local(rank, &placed.ty))
    };
    given.map(|n| (n, local(n).unwrap_or(values[n as usize].ty))).collect()
}

/// The walk over one member's steps.
#[derive(Default)]
struct Walk {
    alive: BTreeMap<Local, Type>,
    bytes: u64,
    most: u64,
}

fn peak(part: &Part, held: &BTreeMap<u32, Type>) -> u64 {
    let mut walk = Walk::default();
    held.iter().for_each(|(number, ty)| walk.add(Local::Given(*number), *ty));
    for step in &part.steps {
        if let Step::Run(phase) = step {
            walk.phase(phase);
        }
    }
    walk.most
}

impl Walk {
    fn add(&mut self, local: Local, ty: Type) {
        self.alive.insert(local, ty);
        self.bytes += ty.bytes() as u64;
        self.most = self.most.max(self.bytes);
    }

    fn free(&mut self, local: Local) {
        let bytes = self.alive.remove(&local).map_or(0, |ty| ty.bytes() as u64);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    fn phase(&mut self, phase: &Phase) {
        let local = |value: ValueId| match phase.inputs.get(value.0 as usize) {
            Some(input) => *input,
            None => Local::Made(phase.first + (value.0 as usize - phase.inputs.len()) as u32),
        };
        let cached = cached(phase);
        let mut types: BTreeMap<Local, Type> = BTreeMap::new();
        for entry in &phase.template.tape.entries {
            match entry {
                Entry::Input { out, ty, .. } => self.add(local(*out), *ty),
                Entry::Instr(instr) => {
                    let Some(ty) = self.result(instr, local, &types) else { continue };
                    match cached.contains(&instr.out) {
                        true => drop(types.insert(local(instr.out), ty)),
                        false => self.add(local(instr.out), ty),
                    }
                }
                Entry::Free(value) => self.free(local(*value)),
                Entry::Enter(_) | Entry::Exit(_) | Entry::Output { .. } => {}
            }
        }
    }

    /// The type of an instruction's result; `types` has what is alive in the caches only.
    fn result(
        &self,
        instr: &Instr,
        local: impl Fn(ValueId) -> Local,
        types: &BTreeMap<Local, Type>,
    ) -> Option<Type> {
        let operand = |operand: &Operand| match operand {
            Operand::Value(value) => {
                let local = local(*value);
                let ty = self.alive.get(&local).or_else(|| types.get(&local));
                ty.map(|ty| OperandType::Tensor(*ty))
            }
            Operand::Scalar(scalar) => Some(OperandType::Scalar(*scalar)),
        };
        let types: Option<SmallVec<[OperandType; 3]>> = instr.inputs.iter().map(operand).collect();
        infer(&instr.op, &types?).ok()
    }
}

/// The values that a tape makes and that take no memory.
fn cached(phase: &Phase) -> BTreeSet<ValueId> {
    let (mut cached, mut freed) = (BTreeMap::new(), Vec::new());
    for entry in &phase.template.tape.entries {
        match entry {
            Entry::Instr(instr) => {
                let class = instr.op.spec().class;
                for input in &instr.inputs {
                    let Operand::Value(value) = input else { continue };
                    cached.entry(*value).and_modify(|(cached, _)| *cached &= fuses(class));
                }
                cached.insert(instr.out, (is_fused(class), class == Class::Move));
            }
            Entry::Free(value) => freed.push(*value),
            Entry::Input { .. } | Entry::Enter(_) | Entry::Exit(_) | Entry::Output { .. } => {}
        }
    }
    freed.sort_unstable();
    let within = |value: &ValueId| freed.binary_search(value).is_ok();
    let counts_nothing = |(value, (near, moved))| (near || moved).then_some(value);
    cached.into_iter().filter_map(counts_nothing).filter(within).collect()
}
