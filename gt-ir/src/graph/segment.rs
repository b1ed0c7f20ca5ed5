//! From a segment of a session to its graph: what it computes, from what, and which values outlive
//! it.
//!
//! Guarantees: inputs are the values from outside in canonical order (by first use, a free being a
//! use), then uploads in order; scalar slots are in order of occurrence. So the k-th input of a
//! template's graph is bound by the k-th value of [`Bindings`](crate::canonical::Bindings), and so
//! are the slots. Outputs are the values that are read, and those defined here and not freed, each
//! once: values from outside in order, then what is defined, in order.

use std::collections::BTreeSet;

use super::{
    Graph,
    build::{LowerError, Lowering},
};
use crate::{
    canonical::Canonicalizer,
    error::OpError,
    shape::Type,
    tape::{Entry, Tape, ValueId},
};

/// A segment as a graph, and the session's names for what goes in and what comes out.
#[derive(Clone, Debug)]
pub struct Segment {
    /// The computation, [traced](crate::graph::Stage::Traced).
    pub graph: Graph,
    /// The value each input of the graph is.
    pub inputs: Vec<ValueId>,
    /// Whether an input is freed here without being an output: its memory may be used for something
    /// else.
    pub donated: Vec<bool>,
    /// The value each output of the graph is.
    pub outputs: Vec<ValueId>,
}

impl Segment {
    /// The values that come out, with the types the rules infer for them, names of dimensions
    /// included.
    pub fn typed_outputs(&self) -> impl Iterator<Item = (ValueId, Type)> {
        let types = self.graph.outputs().iter().map(|id| self.graph.node(*id).ty);
        self.outputs.iter().copied().zip(types)
    }
}

/// The graph of a segment. `ty` knows the types of the values that come from outside.
///
/// ```
/// use gt_ir::{graph::segment, text};
/// let (tape, _) = text::parse("gt tape 1\n%8 = mul %3, 0.1\nfree %3\n").unwrap();
/// let segment = segment(&tape, |_| "f32[2]".parse().ok()).unwrap();
/// assert_eq!(segment.donated, [true]); // the product may take the memory of %3
/// assert_eq!(segment.outputs[0].to_string(), "%8");
/// ```
///
/// # Errors
/// The first entry that is not valid; a verified segment has none.
pub fn segment(tape: &Tape, ty: impl Fn(ValueId) -> Option<Type>) -> Result<Segment, LowerError> {
    let mut form = Form::default();
    form.outside(tape, &ty)?;
    form.uploads(tape)?;
    for (entry, e) in tape.entries.iter().enumerate() {
        form.entry(e).map_err(|error| LowerError { entry, error })?;
    }
    Ok(form.finish(tape))
}

#[derive(Default)]
struct Form {
    lowering: Lowering,
    inputs: Vec<ValueId>,
    read: BTreeSet<ValueId>,
    freed: BTreeSet<ValueId>,
}

impl Form {
    /// The inputs that come from outside.
    fn outside(
        &mut self,
        tape: &Tape,
        ty: impl Fn(ValueId) -> Option<Type>,
    ) -> Result<(), LowerError> {
        let mut numbers = Canonicalizer::new();
        for (entry, e) in tape.entries.iter().enumerate() {
            numbers.push(e);
            for &value in &numbers.inputs()[self.inputs.len()..] {
                let unknown = || OpError::new(format!("{value} is not alive"));
                let ty = ty(value).ok_or_else(|| LowerError { entry, error: unknown() })?;
                self.lowering.input(value, ty);
                self.inputs.push(value);
            }
        }
        Ok(())
    }

    fn uploads(&mut self, tape: &Tape) -> Result<(), LowerError> {
        for (entry, e) in tape.entries.iter().enumerate() {
            if let Entry::Input { out, ty, name: _ } = e {
                self.fresh(*out).map_err(|error| LowerError { entry, error })?;
                self.lowering.input(*out, *ty);
                self.inputs.push(*out);
            }
        }
        Ok(())
    }

    fn fresh(&self, value: ValueId) -> Result<(), OpError> {
        match self.lowering.value(value) {
            Ok(_) => Err(OpError::new(format!("second definition of {value}"))),
            Err(_) => Ok(()),
        }
    }

    fn entry(&mut self, entry: &Entry) -> Result<(), OpError> {
        match entry {
            Entry::Input { .. } => return Ok(()),
            Entry::Free(value) => {
                self.lowering.value(*value)?;
                self.freed.insert(*value);
            }
            Entry::Output { value, name: _ } => {
                self.read.insert(*value);
            }
            Entry::Instr(instr) => self.fresh(instr.out)?,
            Entry::Enter(_) | Entry::Exit(_) => (),
        }
        self.lowering.entry(entry)
    }

    fn finish(self, tape: &Tape) -> Segment {
        let uploads = tape.entries.iter().filter(|e| matches!(e, Entry::Input { .. })).count();
        let outside = &self.inputs[..self.inputs.len() - uploads];
        let outside = outside.iter().copied().filter(|value| self.read.contains(value));
        let here = tape.entries.iter().filter_map(Entry::defines);
        let lives = |value: &ValueId| self.read.contains(value) || !self.freed.contains(value);
        let outputs: Vec<ValueId> = outside.chain(here.filter(lives)).collect();
        let kept: BTreeSet<ValueId> = outputs.iter().copied().collect();
        let donated =
            self.inputs.iter().map(|v| self.freed.contains(v) && !kept.contains(v)).collect();
        let graph = self.lowering.finish(&outputs);
        Segment { graph, inputs: self.inputs, donated, outputs }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{
        HostTensor,
        canonical::canonical,
        interp,
        testing::{self, Config, Source},
        verify::Verifier,
    };

    /// A session that runs a tape in pieces, each as the graph of its template.
    #[derive(Default)]
    struct Pieces {
        verifier: Verifier,
        values: BTreeMap<ValueId, HostTensor>,
        read: BTreeMap<ValueId, HostTensor>,
    }

    impl Pieces {
        fn run(&mut self, piece: &Tape, data: &BTreeMap<ValueId, HostTensor>) {
            let (template, bindings) = canonical(piece);
            let names: Vec<ValueId> =
                bindings.inputs.iter().copied().chain(bindings.defined.iter()).collect();
            let name = |id: &ValueId| names[id.0 as usize];
            let before = self.verifier.clone();
            let form = segment(&template.tape, |id| before.ty(name(&id))).unwrap();
            form.graph.validate().unwrap();
            for entry in &piece.entries {
                self.verifier.entry(entry).unwrap();
            }
            let inputs: Vec<ValueId> = form.inputs.iter().map(name).collect();
            assert_eq!(inputs[..template.n_inputs], bindings.inputs);
            let given = |id: &ValueId| self.values.get(id).unwrap_or_else(|| &data[id]).clone();
            let given: Vec<HostTensor> = inputs.iter().map(given).collect();
            let graph = form.graph.expanded().unwrap();
            let results = interp::run_graph(&graph, &given, &bindings.scalars).unwrap();
            assert_eq!(results.len(), form.outputs.len());
            for (id, result) in form.outputs.iter().map(name).zip(results) {
                assert!(self.values.insert(id, result).is_none() || inputs.contains(&id));
            }
            for (value, ty) in form.typed_outputs() {
                let inferred = self.verifier.ty(name(&value));
                assert!(inferred.is_none_or(|wanted| wanted == ty), "{value}: {ty}");
            }
            self.read(piece);
            for (id, donated) in inputs.iter().zip(&form.donated) {
                let read = piece
                    .entries
                    .iter()
                    .any(|e| matches!(e, Entry::Output { value, .. } if value == id));
                assert_eq!(*donated, !self.verifier.is_live(*id) && !read);
            }
            self.values.retain(|id, _| self.verifier.is_live(*id));
            let live: Vec<ValueId> = self.values.keys().copied().collect();
            assert_eq!(live, self.verifier.live(), "what lives on is an output");
        }

        fn read(&mut self, piece: &Tape) {
            for entry in &piece.entries {
                if let Entry::Output { value, .. } = entry {
                    self.read.insert(*value, self.values[value].clone());
                }
            }
        }
    }

    #[test]
    fn pieces_of_a_tape_compute_what_the_whole_does() {
        let mut source = Source::from_seed(11);
        let mut donated = 0;
        for _ in 0..400 {
            let tape = testing::tape(&mut source, &Config { instrs: 20, ..Config::default() });
            let data = testing::inputs(&tape, &mut source);
            let want = interp::run(&tape, &data).unwrap();
            let mut pieces = Pieces::default();
            let mut rest = &tape.entries[..];
            while !rest.is_empty() {
                let (piece, after) = rest.split_at(1 + source.below(rest.len()));
                rest = after;
                let piece = Tape { entries: piece.to_vec() };
                pieces.run(&piece, &data);
                let ty = |_| Some(Type::scalar(crate::DType::F32));
                donated +=
                    segment(&piece, ty).map_or(0, |s| s.donated.iter().filter(|d| **d).count());
            }
            // Names of dimensions are hints: a value handed through may have those of its operand.
            let plain = |values: &BTreeMap<ValueId, HostTensor>| -> Vec<_> {
                let one = |(id, v): (&ValueId, &HostTensor)| {
                    (*id, v.ty().dtype, v.ty().shape.unnamed(), v.bytes().to_vec())
                };
                values.iter().map(one).collect()
            };
            assert_eq!(plain(&pieces.read), plain(&want));
        }
        assert!(donated > 20, "{donated}");
    }

    #[test]
    fn values_unknown_or_defined_twice_are_refused() {
        let tape = |text: &str| crate::text::parse(&format!("gt tape 1\n{text}")).unwrap().0;
        let refused = |text: &str| segment(&tape(text), |_| None).unwrap_err().to_string();
        assert_eq!(refused("%1 = exp %0\n"), "entry 0: %0 is not alive");
        assert_eq!(refused("free %4\n"), "entry 0: %4 is not alive");
        let twice = "%0 = input : f32[2]\n%0 = exp %0\n";
        assert_eq!(refused(twice), "entry 1: second definition of %0");
        let freed = "%0 = input : f32[2]\nfree %0\n";
        let segment = segment(&tape(freed), |_| None).unwrap();
        assert_eq!((segment.donated, segment.outputs.len()), (vec![true], 0));
    }
}
