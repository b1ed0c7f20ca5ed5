//! Random programs of loops, for tests and fuzzers. A repeated segment must give the same bits in
//! every way of running it.
//!
//! A program repeats a few random segments, in an order that may repeat too. Results of one round
//! are inputs of the next, literals change from round to round, and values are freed at random
//! places. A value that most rounds free unused is read, or lives on, in some rounds. Equal choices
//! give equal programs. This module is not part of the public API.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use gt_ir::backend::{Backend, RunError};
use gt_ir::testing::{
    Config, Source, difference, ill_conditioned, inputs, same_bits, special_inputs, tape,
};
use gt_ir::{DType, Entry, HostTensor, Op, Operand, Scalar, Tape, Type, ValueId, interp};

/// A program of loops.
#[derive(Clone, Debug)]
pub struct Program {
    bodies: Vec<Body>,
    /// The body of each round.
    pub rounds: Vec<usize>,
}

#[derive(Clone, Debug)]
struct Body {
    tape: Tape,
    data: BTreeMap<ValueId, HostTensor>,
    /// Whether uploads have a segment of their own.
    apart: bool,
    /// Whether results of the previous round become inputs if their types fit.
    carries: bool,
    /// The outputs that most rounds do not read.
    unread: BTreeSet<ValueId>,
}

/// The values that a round read.
pub type Round = Vec<(ValueId, Result<HostTensor, RunError>)>;

impl Program {
    /// A program of at most `most` rounds.
    pub fn new(source: &mut Source<'_>, config: &Config, most: usize) -> Program {
        let n = 1 + source.below(3);
        let mut bodies: Vec<Body> = (0..n).map(|_| Body::new(source, config)).collect();
        if source.chance(1, 2) {
            bodies.extend(bodies[0].rewired(source));
        }
        let mut rounds = Vec::new();
        while rounds.len() < most {
            let (body, times) = (source.below(bodies.len()), 1 + source.below(4));
            rounds.extend(std::iter::repeat_n(body, times));
            if source.chance(1, 3) {
                rounds.extend_from_within(..);
            }
            if source.is_empty() {
                rounds.extend([0; 4]);
                break;
            }
        }
        rounds.truncate(most);
        Program { bodies, rounds }
    }

    /// Runs the program, and returns the values that each round read. `check` compares every round
    /// with the reference interpreter, and panics on a difference that rounding does not explain.
    pub fn run(&self, session: &dyn Backend, check: bool) -> Vec<Round> {
        let mut running = Running { session, next: 0, alive: Vec::new(), results: Vec::new() };
        let rounds = self.rounds.iter().enumerate();
        rounds.map(|(n, &body)| running.round(&self.bodies[body], n, check)).collect()
    }
}

impl Body {
    fn new(source: &mut Source<'_>, config: &Config) -> Body {
        let tape = tape(source, config);
        let make = if source.chance(1, 4) { special_inputs } else { inputs };
        let data = make(&tape, source);
        let outputs = tape.entries.iter().filter_map(output);
        let unread = outputs.filter(|_| source.chance(1, 3)).collect();
        Body { tape, data, apart: source.chance(1, 2), carries: source.chance(2, 3), unread }
    }

    /// The body with the two operands of one instruction exchanged. None if the result is not
    /// valid.
    fn rewired(&self, source: &mut Source<'_>) -> Option<Body> {
        let mut other = self.clone();
        let n = other.tape.entries.len();
        for _ in 0..n {
            let at = source.below(n);
            if let Entry::Instr(instr) = &mut other.tape.entries[at]
                && instr.inputs.len() == 2
            {
                instr.inputs.swap(0, 1);
                return gt_ir::verify::verify(&other.tape).is_ok().then_some(other);
            }
        }
        None
    }
}

struct Running<'a> {
    session: &'a dyn Backend,
    next: u64,
    /// The live values.
    alive: Vec<ValueId>,
    /// The values that the last round read, with types and data.
    results: Vec<(ValueId, Type, HostTensor)>,
}

impl Running<'_> {
    fn round(&mut self, body: &Body, n: usize, check: bool) -> Round {
        let (mut names, mut data) = (HashMap::new(), BTreeMap::new());
        let mut results = std::mem::take(&mut self.results);
        for (old, given) in &body.data {
            let same = |(_, ty, _): &(ValueId, Type, HostTensor)| ty.same_layout(given.ty());
            if let Some(at) = results.iter().position(same).filter(|_| body.carries) {
                let (value, _, held) = results.remove(at);
                names.insert(*old, value);
                data.insert(*old, held);
            }
        }
        let used: Vec<ValueId> = names.values().copied().collect();
        let mut entries = Vec::new();
        // In some rounds the values of the round before live on.
        if n % 7 != 5 {
            let unused = self.alive.iter().filter(|value| !used.contains(value));
            entries.extend(unused.map(|&value| Entry::Free(value)));
            self.alive.retain(|value| used.contains(value));
        }
        let (uploads, rest): (Vec<&Entry>, Vec<&Entry>) =
            body.tape.entries.iter().partition(|e| body.apart && matches!(e, Entry::Input { .. }));
        for entry in uploads {
            entries.extend(self.entry(body, entry, n, &mut names, &mut data));
        }
        if body.apart {
            self.session.submit(Tape { entries: std::mem::take(&mut entries) });
        }
        for entry in rest {
            entries.extend(self.entry(body, entry, n, &mut names, &mut data));
        }
        self.session.submit(Tape { entries });
        let mut read = self.read(body, &names);
        if check && read.iter().all(|(_, value)| value.is_ok()) {
            reference(&varied(&body.tape, n), &data, &names, &read);
        }
        // In some rounds the program reads a value that it otherwise frees unused.
        if n % 5 == 3
            && let Some(&value) = self.alive.get(n % self.alive.len().max(1))
            && read.iter().all(|(other, _)| *other != value)
        {
            read.push((value, self.session.fetch(value)));
        }
        self.results = read
            .iter()
            .filter_map(|(value, held)| {
                Some((*value, *held.as_ref().ok()?.ty(), held.clone().ok()?))
            })
            .collect();
        read
    }

    /// An entry of a body for the session. None for an upload that a carried value replaces.
    fn entry(
        &mut self,
        body: &Body,
        entry: &Entry,
        n: usize,
        names: &mut HashMap<ValueId, ValueId>,
        data: &mut BTreeMap<ValueId, HostTensor>,
    ) -> Option<Entry> {
        let mut entry = varied_entry(entry, n);
        match &mut entry {
            Entry::Input { out, .. } if names.contains_key(out) => return None,
            Entry::Input { out, .. } => {
                let given = body.data.get(out).cloned()?;
                data.insert(*out, given.clone());
                *out = self.define(*out, names);
                self.session.upload(*out, given);
            }
            Entry::Instr(instr) => {
                for operand in &mut instr.inputs {
                    if let Operand::Value(value) = operand {
                        *value = names[value];
                    }
                }
                instr.out = self.define(instr.out, names);
            }
            Entry::Free(value) => {
                *value = names[value];
                let freed = *value;
                self.alive.retain(|alive| *alive != freed);
            }
            // Nothing need say that a value which nobody reads can be read.
            Entry::Output { value, .. } if body.apart && body.unread.contains(value) => {
                return None;
            }
            Entry::Output { value, .. } => *value = names[value],
            Entry::Enter(_) | Entry::Exit(_) => {}
        }
        Some(entry)
    }

    fn define(&mut self, old: ValueId, names: &mut HashMap<ValueId, ValueId>) -> ValueId {
        let new = ValueId(self.next);
        self.next += 1;
        names.insert(old, new);
        self.alive.push(new);
        new
    }

    fn read(&self, body: &Body, names: &HashMap<ValueId, ValueId>) -> Round {
        let outputs = body.tape.entries.iter().filter_map(output);
        let read = outputs.filter(|value| !body.unread.contains(value)).map(|old| names[&old]);
        read.map(|value| (value, self.session.fetch(value))).collect()
    }
}

fn output(entry: &Entry) -> Option<ValueId> {
    match entry {
        Entry::Output { value, .. } => Some(*value),
        _ => None,
    }
}

/// A body with the literals of the n-th round.
fn varied(tape: &Tape, n: usize) -> Tape {
    Tape { entries: tape.entries.iter().map(|entry| varied_entry(entry, n)).collect() }
}

fn varied_entry(entry: &Entry, n: usize) -> Entry {
    let mut entry = entry.clone();
    if let Entry::Instr(instr) = &mut entry
        && !matches!(instr.op, Op::Randint(_))
    {
        for operand in &mut instr.inputs {
            match operand {
                Operand::Scalar(Scalar::F64(x)) if n % 2 == 1 => *x *= 0.5,
                Operand::Scalar(Scalar::I64(x)) => *x += (n % 3) as i64,
                Operand::Scalar(_) | Operand::Value(_) => {}
            }
        }
    }
    entry
}

fn reference(
    tape: &Tape,
    data: &BTreeMap<ValueId, HostTensor>,
    names: &HashMap<ValueId, ValueId>,
    read: &Round,
) {
    // Programs that only the interpreter refuses (an overflow in an index) are not compared.
    let Ok(wanted) = interp::run(tape, data) else { return };
    if ill_conditioned(tape) {
        return;
    }
    for (old, wanted) in &wanted {
        let found = read.iter().find(|(value, _)| *value == names[old]);
        let Some((value, Ok(found))) = found else { continue };
        // A result in a wide type may have the rounding of a narrow type.
        let tolerance = match wanted.ty().dtype {
            DType::F64 => 1e12,
            DType::F32 => 3e4,
            _ => 64.0,
        };
        if let Some(difference) = difference(wanted, found, tolerance) {
            panic!("{value}: {difference}\n{}", gt_ir::text::print(tape));
        }
    }
}

/// The first difference between two runs of a program, bit by bit.
#[must_use]
pub fn first_difference(a: &[Round], b: &[Round]) -> Option<String> {
    let rounds = a.iter().zip(b).enumerate();
    for (n, (a, b)) in rounds {
        for ((value, x), (_, y)) in a.iter().zip(b) {
            let same = match (x, y) {
                (Ok(x), Ok(y)) => same_bits(x, y), // names of dimensions are hints
                (Err(x), Err(y)) => x == y,
                (Ok(_), Err(_)) | (Err(_), Ok(_)) => false,
            };
            if !same {
                return Some(format!("round {n}, {value}: {}", both(x, y)));
            }
        }
    }
    (a.len() != b.len()).then(|| format!("{} rounds and {}", a.len(), b.len()))
}

fn both(x: &Result<HostTensor, RunError>, y: &Result<HostTensor, RunError>) -> String {
    match (x, y) {
        (Ok(x), Ok(y)) => {
            let at = x.bytes().iter().zip(y.bytes()).position(|(a, b)| a != b);
            let n = at.unwrap_or(0) / x.ty().dtype.size();
            let of = |t: &HostTensor| t.to_f64().get(n).copied();
            format!("{} and {}: element {n} is {:?} and {:?}", x.ty(), y.ty(), of(x), of(y))
        }
        (x, y) => format!("{x:?} and {y:?}"),
    }
}
