//! What members compute together: the interpreter or an engine runs their tapes in lockstep, and
//! the values that they leave are compared with those of one worker.

use std::collections::BTreeMap;

use gt_compiler::shard::{
    self, Auto, Kept, Literal, Local, Partition, Rates, Request, Step, partition,
};
use gt_ir::canonical::{Bindings, Defined, Template, canonical, expand};
use gt_ir::layout::Layout;
use gt_ir::signal::Signals;
use gt_ir::{Entry, HostTensor, Scalar, Tape, Type, ValueId, interp};

/// Rates under which members share all work out, and move the most between them.
pub(crate) const SHARED: Rates =
    Rates { latency: 0.0, exchange: 1e18, flops: 1e3, memory: 1e3, alone: 1.0 };

/// Rates under which only the number of exchanges counts, so that partial sums pass as far as they
/// may.
pub(crate) const LATE: Rates =
    Rates { latency: 20e-6, exchange: 1e18, flops: 1e18, memory: 1e18, alone: 1.0 };

/// Runs a tape on its inputs.
pub(crate) type Runner<'a> = &'a dyn Fn(&Tape, &Values) -> Values;
/// Tensors by their names.
pub(crate) type Values = BTreeMap<ValueId, HostTensor>;

/// The reference interpreter.
pub(crate) fn interpreted(tape: &Tape, data: &Values) -> Values {
    interp::run(tape, data).unwrap_or_else(|e| panic!("{e}"))
}

/// A value that members leave: its name, its layout, and the part of each member of the layout.
pub(crate) type Left = (ValueId, Layout, Vec<HostTensor>);

/// A segment on several members.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) segment: Tape,
    /// The values from outside, and where they are.
    pub(crate) outside: Vec<(ValueId, Layout)>,
    /// Where uploads come, in their order; the others come to member 0.
    pub(crate) uploads: Vec<Layout>,
    pub(crate) signals: Signals,
    pub(crate) n_members: u32,
    /// How layouts are planned.
    pub(crate) auto: Option<Auto>,
    pub(crate) rates: Rates,
}

impl Case {
    /// Runs the case on these values from outside and uploads. `compare` gets the name of each
    /// value that is left, the part of it that a member should hold, and the part that it holds.
    /// It says what is wrong.
    pub(crate) fn check(
        &self,
        data: &Values,
        whole: &Values,
        compare: impl Fn(ValueId, &HostTensor, &HostTensor) -> Option<String>,
    ) {
        self.check_on(&interpreted, data, whole, compare);
    }

    /// As `check`, where `run` runs the tapes of members.
    pub(crate) fn check_on(
        &self,
        run: Runner<'_>,
        data: &Values,
        whole: &Values,
        compare: impl Fn(ValueId, &HostTensor, &HostTensor) -> Option<String>,
    ) {
        for (value, layout, parts) in self.left(run, data) {
            let Some(expected) = whole.get(&value) else { continue };
            for (rank, got) in parts.iter().enumerate() {
                if let Some(wrong) = compare(value, &part(expected, &layout, rank), got) {
                    let member = layout.mesh.members()[rank];
                    panic!("{value} on member {member}, {layout}: {wrong}\n{self:?}");
                }
            }
        }
    }

    /// The segment as the work of members.
    pub(crate) fn partition(&self, data: &Values) -> Partition {
        let (template, bindings) = canonical(&self.segment);
        let inputs = self.inputs(&bindings, data);
        let request = Request {
            template: &template,
            inputs: &inputs,
            signals: &self.signals,
            uploads: &self.uploads,
            n_members: self.n_members,
            auto: self.auto,
            rates: self.rates,
        };
        partition(&request).unwrap_or_else(|e| panic!("{e}\n{self:#?}"))
    }

    /// The types and places of the values from outside, in the order of their numbers.
    fn inputs(&self, bindings: &Bindings, data: &Values) -> Vec<(Type, Layout)> {
        let layout = |id: &ValueId| &self.outside.iter().find(|(other, _)| other == id).unwrap().1;
        bindings.inputs.iter().map(|id| (*data[id].ty(), layout(id).clone())).collect()
    }

    /// What members leave when they have run.
    pub(crate) fn left(&self, run: Runner<'_>, data: &Values) -> Vec<Left> {
        let (template, bindings) = canonical(&self.segment);
        let inputs = self.inputs(&bindings, data);
        let partition = self.partition(data);
        let name = |number: u32| match (number as usize).checked_sub(template.n_inputs) {
            None => bindings.inputs[number as usize],
            Some(k) => bindings.defined.get(k).unwrap(),
        };
        let mut members = Members {
            run,
            given: vec![BTreeMap::new(); self.n_members as usize],
            made: vec![BTreeMap::new(); self.n_members as usize],
            scalars: &bindings.scalars,
        };
        for (number, (_, layout)) in inputs.iter().enumerate() {
            for (rank, &member) in layout.mesh.members().iter().enumerate() {
                let held = part(&data[&bindings.inputs[number]], layout, rank);
                members.given[member as usize].insert(number as u32, held);
            }
        }
        for (i, number) in uploads(&template).into_iter().enumerate() {
            let (whole, home) = (&data[&name(number)], shard::at(0));
            let layout = self.uploads.get(i).unwrap_or(&home);
            for (rank, &member) in layout.mesh.members().iter().enumerate() {
                members.given[member as usize].insert(number, part(whole, layout, rank));
            }
        }
        let dump = || format!("{self:?}\n{:#?}", partition.parts);
        let go = std::panic::AssertUnwindSafe(|| members.go(&partition));
        assert!(std::panic::catch_unwind(go).is_ok(), "{}", dump());
        let parts = |kept: &Kept| {
            let holders = kept.layout.mesh.members().iter().zip(&kept.names);
            let parts = holders.map(|(member, name)| members.get(*member as usize, *name));
            (name(kept.value), kept.layout.clone(), parts.collect())
        };
        partition.kept.iter().map(parts).collect()
    }
}

/// The numbers of the uploads of a segment.
fn uploads(template: &Template) -> Vec<u32> {
    let entries = template.tape.entries.iter();
    let uploads = entries.filter_map(|entry| match entry {
        Entry::Input { out, .. } => Some(out.0 as u32),
        Entry::Instr(_)
        | Entry::Free(_)
        | Entry::Enter(_)
        | Entry::Exit(_)
        | Entry::Output { .. } => None,
    });
    uploads.collect()
}

/// What members hold, as somebody runs their tapes in lockstep.
struct Members<'a> {
    run: Runner<'a>,
    given: Vec<BTreeMap<u32, HostTensor>>,
    made: Vec<BTreeMap<u32, HostTensor>>,
    scalars: &'a [Scalar],
}

impl Members<'_> {
    fn get(&self, member: usize, local: Local) -> HostTensor {
        match local {
            Local::Given(number) => self.given[member][&number].clone(),
            Local::Made(number) => {
                let made = self.made[member].get(&number);
                made.unwrap_or_else(|| panic!("member {member} lacks {local:?}")).clone()
            }
        }
    }

    /// Runs each member as far as it comes, until all are done.
    fn go(&mut self, partition: &Partition) {
        let mut next = vec![0; partition.parts.len()];
        loop {
            let mut moved = false;
            for (member, next) in next.iter_mut().enumerate() {
                while let Some(step) = partition.parts[member].steps.get(*next) {
                    if !self.step(member, step) {
                        break;
                    }
                    *next += 1;
                    moved = true;
                }
            }
            if (0..next.len()).all(|m| next[m] == partition.parts[m].steps.len()) {
                return;
            }
            assert!(moved, "members wait for each other");
        }
    }

    /// Does a step; false when something has not been received yet.
    fn step(&mut self, member: usize, step: &Step) -> bool {
        match step {
            Step::Send { value, to, made } => {
                let sent = self.get(member, *value);
                assert!(self.made[*to as usize].insert(*made, sent).is_none(), "sent twice");
            }
            Step::Run(phase) => {
                let n_inputs = phase.template.n_inputs;
                let number = |value: ValueId| phase.first + (value.0 - n_inputs as u64) as u32;
                let received = |entry: &Entry| match entry {
                    Entry::Input { out, .. } => self.made[member].contains_key(&number(*out)),
                    Entry::Instr(_)
                    | Entry::Free(_)
                    | Entry::Enter(_)
                    | Entry::Exit(_)
                    | Entry::Output { .. } => true,
                };
                if !phase.template.tape.entries.iter().all(received) {
                    return false;
                }
                let mut tape = Tape::default();
                let mut data = BTreeMap::new();
                for (i, local) in phase.inputs.iter().enumerate() {
                    let held = self.get(member, *local);
                    let out = ValueId(i as u64);
                    tape.entries.push(Entry::Input { out, ty: *held.ty(), name: None });
                    data.insert(out, held);
                }
                let literals = phase.literals.iter().map(|literal| match literal {
                    Literal::Slot(slot) => self.scalars[*slot as usize],
                    Literal::Number(scalar) => *scalar,
                });
                let bindings = Bindings {
                    inputs: (0..n_inputs as u64).map(ValueId).collect(),
                    defined: Defined::Run(
                        ValueId(n_inputs as u64),
                        phase.template.n_defined as u64,
                    ),
                    scalars: literals.collect(),
                };
                let bound = expand(&phase.template, &bindings).expect("bindings fit");
                let mut alive = Vec::new();
                for entry in &bound.entries {
                    if let Entry::Input { out, .. } = entry {
                        data.insert(*out, self.made[member][&number(*out)].clone());
                    }
                    alive.extend(entry.defines());
                    if let Entry::Free(value) = entry {
                        alive.retain(|other| other != value);
                        if (value.0 as usize) < n_inputs {
                            match phase.inputs[value.0 as usize] {
                                Local::Given(n) => self.given[member].remove(&n),
                                Local::Made(n) => self.made[member].remove(&n),
                            };
                        } else {
                            self.made[member].remove(&number(*value));
                        }
                    }
                    tape.entries.push(entry.clone());
                }
                let outputs = alive.iter().map(|&value| Entry::Output { value, name: None });
                tape.entries.extend(outputs);
                for (value, result) in (self.run)(&tape, &data) {
                    self.made[member].insert(number(value), result);
                }
            }
        }
        true
    }
}

/// The part of a tensor that a rank of a layout holds.
pub(crate) fn part(tensor: &HostTensor, layout: &Layout, rank: usize) -> HostTensor {
    let mut part = tensor.clone();
    for (axis, (first, end)) in layout.region(rank, &tensor.ty().shape).into_iter().enumerate() {
        let (start, stop) = (first as u64, end as u64);
        let slice = gt_ir::attr::Slice { axis: axis as u8, start, stop, step: 1 };
        part = interp::eval(&gt_ir::Op::Slice(slice), &[interp::Arg::Tensor(&part)]).unwrap();
    }
    part
}
