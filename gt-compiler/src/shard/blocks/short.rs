//! A segment without some of its alike layers, and what stands in it for the values that are left
//! out.

use gt_ir::canonical::{Template, canonical};
use gt_ir::layout::Layout;
use gt_ir::{Entry, Operand, Tape, Type, ValueId};

use super::facts::facts;
use super::runs::{Source, Wires, used};
use super::spans::{Spans, links};
use crate::shard::Request;

/// The entries that a shortened segment has at least, if that leaves layers to leave out.
const ENTRIES: usize = 400;
/// The fewest layers that are left, of which the first and the last differ from the others.
const LAYERS: usize = 4;

/// A shortened segment.
pub(in crate::shard) struct Short {
    template: Template,
    inputs: Vec<(Type, Layout)>,
    uploads: Vec<Layout>,
    /// For each value of the segment the value here that it is or that stands for it.
    pub(in crate::shard) stand_ins: Vec<usize>,
    /// The values of the segment that are values here.
    pub(in crate::shard) originals: Vec<usize>,
    /// How many layers are left out.
    pub(in crate::shard) left_out: usize,
}

impl Short {
    /// The segment with few layers, and with half as many; none if it has no layers, or few.
    pub(in crate::shard) fn pair(request: &Request<'_>) -> Option<[Short; 2]> {
        let wires = Wires::new(request)?;
        let runs = wires.runs();
        let links = links(&wires, &runs);
        let main = (0..runs.len()).max_by_key(|at| runs[*at].len())?;
        let times = runs[main].times;
        let entries = wires.entries.len();
        let layers = (ENTRIES * times / entries).max(LAYERS).next_multiple_of(4);
        let short = |left: usize| {
            let n = times.checked_sub(left).filter(|n| *n > 0)?;
            Short::new(request, &wires, &Spans::new(&runs, &links, (main, n))?, n)
        };
        let (long, short) = (short(layers)?, short(layers / 2)?);
        (long.template.tape.entries.len() * 2 < entries).then_some([long, short])
    }

    fn new(
        request: &Request<'_>,
        wires: &Wires<'_>,
        spans: &Spans,
        left_out: usize,
    ) -> Option<Short> {
        let kept = |entry: &usize| !spans.leave_out(*entry);
        let mut rewriting = Rewriting::new(request, wires, spans);
        let entries = (0..wires.entries.len()).filter(kept);
        let entries: Option<Vec<Option<Entry>>> =
            entries.map(|entry| rewriting.entry(entry)).collect();
        let (template, bindings) =
            canonical(&Tape { entries: entries?.into_iter().flatten().collect() });
        let originals = bindings.inputs.iter().copied().chain(bindings.defined.iter());
        let originals: Vec<usize> = originals.map(|value| value.0 as usize).collect();
        let mut here = vec![None; request.inputs.len() + request.template.n_defined];
        originals.iter().enumerate().for_each(|(at, value)| here[*value] = Some(at));
        let inputs = originals[..template.n_inputs].iter().map(|n| request.inputs[*n].clone());
        let uploads = wires
            .entries
            .iter()
            .enumerate()
            .filter_map(|(at, entry)| matches!(entry, Entry::Input { .. }).then_some(at));
        let uploads = request.uploads.iter().zip(uploads).filter(|(_, at)| kept(at));
        let short = Short {
            inputs: inputs.collect(),
            uploads: uploads.map(|(layout, _)| layout.clone()).collect(),
            stand_ins: stand_ins(wires, spans, &here)?,
            template,
            originals,
            left_out,
        };
        let own = facts(&short.request(request))?;
        let mut pairs = wires.facts.iter().zip(&short.stand_ins);
        pairs.all(|(fact, stand_in)| *fact == own[*stand_in]).then_some(short)
    }

    /// The request for this segment.
    pub(in crate::shard) fn request<'a>(&'a self, whole: &Request<'a>) -> Request<'a> {
        Request {
            template: &self.template,
            inputs: &self.inputs,
            uploads: &self.uploads,
            ..whole.clone()
        }
    }

    /// How many values of the whole segment each value stands for, itself included.
    pub(in crate::shard) fn times(&self) -> Vec<f64> {
        let mut times = vec![0.0; self.originals.len()];
        self.stand_ins.iter().for_each(|value| times[*value] += 1.0);
        times
    }
}

/// The entries that are left, with the values of neighbors in place of those that are left out.
struct Rewriting<'a> {
    wires: &'a Wires<'a>,
    spans: &'a Spans,
    /// The value that each entry defines.
    defined: Vec<Option<ValueId>>,
    /// Whether each value is there, and not yet freed.
    alive: Vec<bool>,
}

impl<'a> Rewriting<'a> {
    fn new(request: &Request<'_>, wires: &'a Wires<'a>, spans: &'a Spans) -> Rewriting<'a> {
        let mut alive = vec![true; request.inputs.len()];
        alive.resize(request.inputs.len() + request.template.n_defined, false);
        let defined = wires.entries.iter().map(Entry::defines).collect();
        Rewriting { wires, spans, defined, alive }
    }

    /// An entry that is left; `Some(None)` if it is about a value that is left out. None if the
    /// segment can not be shortened.
    fn entry(&mut self, at: usize) -> Option<Option<Entry>> {
        let mut entry = self.wires.entries[at].clone();
        match &mut entry {
            Entry::Instr(instr) => {
                for operand in &mut instr.inputs {
                    if let Operand::Value(value) = operand {
                        *value = self.value(at, *value)?;
                    }
                }
            }
            Entry::Free(value) | Entry::Output { value, .. } => match self.value(at, *value) {
                Some(near) => *value = near,
                None => return (!self.spans.contain(at)).then_some(None),
            },
            Entry::Input { .. } | Entry::Enter(_) | Entry::Exit(_) => {}
        }
        if let Entry::Free(value) = &entry {
            self.alive[value.0 as usize] = false;
        }
        entry.defines().iter().for_each(|value| self.alive[value.0 as usize] = true);
        Some(Some(entry))
    }

    /// The value that an entry uses in place of a value, if it is there.
    fn value(&self, user: usize, value: ValueId) -> Option<ValueId> {
        let near = match self.wires.source(value) {
            Source::Outside(_) => value,
            Source::Entry(entry) if !self.spans.leave_out(entry) => value,
            Source::Entry(_) if !self.spans.contain(user) => return None,
            Source::Entry(entry) => self.defined[self.spans.neighbor(entry)?]?,
        };
        self.alive[near.0 as usize].then_some(near)
    }
}

/// For each value of the segment the one that stands for it. `here` has the numbers of those that
/// are left.
fn stand_ins(wires: &Wires<'_>, spans: &Spans, here: &[Option<usize>]) -> Option<Vec<usize>> {
    let mut found = here.to_vec();
    for (at, entry) in wires.entries.iter().enumerate() {
        let own = &wires.entries[spans.stand_in(at)];
        let pairs = used(entry).chain(entry.defines()).zip(used(own).chain(own.defines()));
        for (value, own) in pairs {
            let known = here[own.0 as usize];
            found[value.0 as usize] = found[value.0 as usize].or(known);
        }
    }
    found.into_iter().collect()
}
