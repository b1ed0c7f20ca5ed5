//! Members together compute what one computes: random tapes, signals and layouts, against the
//! interpreter.

use std::collections::BTreeMap;
use std::sync::Arc;

use gt_ir::canonical::{Bindings, Defined, Template, canonical, expand};
use gt_ir::layout::{Layout, Mesh, Spread};
use gt_ir::signal::{ShardAxis, ShardConfig, SignalConfig, Signals};
use gt_ir::testing::{self, Source};
use gt_ir::{Entry, HostTensor, Scalar, Tape, Type, ValueId, interp};

use super::{Literal, Local, Partition, Rates, Request, Step, at, partition};

/// What members hold, as the interpreter runs their tapes in lockstep.
struct Members<'a> {
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
    fn run(&mut self, partition: &Partition) {
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
                let results = interp::run(&tape, &data).unwrap_or_else(|e| panic!("{e}"));
                for (value, result) in results {
                    self.made[member].insert(number(value), result);
                }
            }
        }
        true
    }
}

/// The part of a tensor that a rank of a layout holds.
fn part(tensor: &HostTensor, layout: &Layout, rank: usize) -> HostTensor {
    let mut part = tensor.clone();
    for (axis, (first, end)) in layout.region(rank, &tensor.ty().shape).into_iter().enumerate() {
        let (start, stop) = (first as u64, end as u64);
        let slice = gt_ir::attr::Slice { axis: axis as u8, start, stop, step: 1 };
        part = interp::eval(&gt_ir::Op::Slice(slice), &[interp::Arg::Tensor(&part)]).unwrap();
    }
    part
}

/// A random layout of a value on some of the members.
fn layout(source: &mut Source<'_>, ty: &Type, n_members: u32) -> Layout {
    if source.chance(1, 3) {
        return at(source.below(n_members as usize) as u32);
    }
    let n = 1 + source.below(n_members as usize) as u32;
    let two = n.is_multiple_of(2) && source.chance(1, 2);
    let sizes = if two { vec![n as usize / 2, 2] } else { vec![n as usize] };
    let mesh = Arc::new(Mesh::new((0..n).collect(), &sizes).unwrap());
    let mut layout = Layout::whole(mesh);
    let mut free: Vec<usize> = (0..ty.shape.rank()).collect();
    for (axis, size) in sizes.iter().enumerate() {
        if !free.is_empty() && source.chance(3, 4) {
            let dim = free.remove(source.below(free.len()));
            let chunk = ty.shape.sizes()[dim].div_ceil(*size);
            layout.spreads[axis] = Spread::Split { dim: dim as u8, chunk };
        }
    }
    layout
}

/// A tape with its instructions put into random scopes.
fn scoped(tape: &Tape, source: &mut Source<'_>) -> Tape {
    let mut scoped = Tape::default();
    let mut open: Option<Arc<str>> = None;
    for entry in &tape.entries {
        if source.chance(1, 4) {
            scoped.entries.extend(open.take().map(Entry::Exit));
            if source.chance(2, 3) {
                let name: Arc<str> = ["a", "b", "c"][source.below(3)].into();
                scoped.entries.push(Entry::Enter(Arc::clone(&name)));
                open = Some(name);
            }
        }
        scoped.entries.push(entry.clone());
    }
    scoped.entries.extend(open.map(Entry::Exit));
    scoped
}

fn signals(source: &mut Source<'_>, n_members: u32) -> Signals {
    let mut signals = Signals::new();
    for name in ["a", "b"] {
        let mut workers: Vec<u32> = (0..n_members + 1).collect();
        workers.retain(|_| source.chance(2, 3));
        let mesh = (workers.len() == 4 && source.chance(2, 3))
            .then(|| workers.chunks(2).map(<[u32]>::to_vec).collect());
        let listed = workers.clone();
        let shard = ShardConfig {
            axis: ShardAxis::Number(source.below(4) as i64 - 2),
            columns: mesh.as_ref().map(|_| ShardAxis::Number(source.below(2) as i64 + 2)),
            workers: Some(listed).filter(|w| !w.is_empty() && mesh.is_none()),
            mesh,
            replicated: source.chance(1, 8),
            ..ShardConfig::default()
        };
        let config = SignalConfig { shard: Some(shard), ..SignalConfig::default() };
        signals.set(name, config).unwrap();
    }
    signals
}

/// A segment of a tape, the inputs of which are values from outside or uploads.
fn segment(tape: &Tape, source: &mut Source<'_>) -> (Tape, Vec<(ValueId, Type)>) {
    let (mut segment, mut outside) = (Tape::default(), Vec::new());
    for entry in &tape.entries {
        match entry {
            Entry::Input { out, ty, .. } if source.chance(2, 3) => outside.push((*out, *ty)),
            Entry::Output { .. } => {}
            Entry::Input { .. }
            | Entry::Instr(_)
            | Entry::Free(_)
            | Entry::Enter(_)
            | Entry::Exit(_) => segment.entries.push(entry.clone()),
        }
    }
    (segment, outside)
}

/// One random program: the values it leaves on its members are those of the interpreter.
fn check(seed: u64, config: &testing::Config) {
    let mut source = Source::from_seed(seed);
    let tape = testing::tape(&mut source, config);
    let data = testing::inputs(&tape, &mut source);
    let whole = interp::run(&tape, &data).unwrap();
    let (body, outside) = segment(&tape, &mut source);
    let body = scoped(&body, &mut source);
    let n_members = 1 + source.below(4) as u32;
    let (template, bindings) = canonical(&body);
    let inputs: Vec<(Type, Layout)> = bindings
        .inputs
        .iter()
        .map(|id| {
            let ty = outside.iter().find(|(other, _)| other == id).unwrap().1;
            (ty, layout(&mut source, &ty, n_members))
        })
        .collect();
    let signals = signals(&mut source, n_members);
    let request = Request {
        template: &template,
        inputs: &inputs,
        signals: &signals,
        n_members,
        rates: Rates::default(),
    };
    let text = || format!("seed {seed}, {n_members} members\n{body:?}\n{inputs:?}\n{signals:?}");
    let partition = partition(&request).unwrap_or_else(|e| panic!("{e}\n{}", text()));
    let name = |number: u32| match (number as usize).checked_sub(template.n_inputs) {
        None => bindings.inputs[number as usize],
        Some(k) => bindings.defined.get(k).unwrap(),
    };
    let mut members = Members {
        given: vec![BTreeMap::new(); n_members as usize],
        made: vec![BTreeMap::new(); n_members as usize],
        scalars: &bindings.scalars,
    };
    for (number, (_, layout)) in inputs.iter().enumerate() {
        for (rank, &member) in layout.mesh.members().iter().enumerate() {
            let held = part(&data[&bindings.inputs[number]], layout, rank);
            members.given[member as usize].insert(number as u32, held);
        }
    }
    for (number, value) in uploads(&template) {
        members.given[0].insert(number, data[&name(value.0 as u32)].clone());
    }
    let dump = || format!("{}\n{:#?}", text(), partition.parts);
    let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| members.run(&partition)));
    assert!(ran.is_ok(), "{}", dump());
    for kept in &partition.kept {
        let Some(expected) = whole.get(&name(kept.value)) else { continue };
        for (rank, &member) in kept.layout.mesh.members().iter().enumerate() {
            let got = members.get(member as usize, kept.names[rank]);
            let expected = part(expected, &kept.layout, rank);
            let difference = testing::difference(&got, &expected, 32.0);
            assert!(
                difference.is_none(),
                "{} on member {member}, {:?}: {difference:?}\n{}",
                name(kept.value),
                kept.layout,
                dump()
            );
        }
    }
}

fn uploads(template: &Template) -> Vec<(u32, ValueId)> {
    let entries = template.tape.entries.iter();
    let uploads = entries.filter_map(|entry| match entry {
        Entry::Input { out, .. } => Some((out.0 as u32, *out)),
        Entry::Instr(_)
        | Entry::Free(_)
        | Entry::Enter(_)
        | Entry::Exit(_)
        | Entry::Output { .. } => None,
    });
    uploads.collect()
}

/// Integers to the bit, floats within rounding.
#[test]
fn members_together_compute_what_one_computes() {
    for seed in 0..1_000 {
        check(2 * seed, &testing::Config::integers());
        check(2 * seed + 1, &testing::Config::default());
    }
}
