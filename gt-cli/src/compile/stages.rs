//! The stages of a tape on its way to machine code, each made when it is first needed, and their
//! texts.

use super::report;
use crate::args::Emit;
use crate::artifact;
use anyhow::{Context, Result};
use gt_compiler::pipeline::{self, Optimized};
use gt_compiler::{Compiled, Dump, Engine, Machine, Native, NativeConfig, Options, Report, cost};
use gt_ir::canonical::{Template, canonical};
use gt_ir::graph::Legend;
use gt_ir::{Entry, Segment, Tape, ValueId};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

/// A program, with the stages made so far.
pub(crate) struct Stages<'a> {
    pub(crate) tape: &'a Tape,
    options: Options,
    pub(crate) segment: Segment,
    optimized: OnceCell<Optimized>,
    compiled: OnceCell<Compiled>,
}

impl Stages<'_> {
    pub(crate) fn new(tape: &Tape, options: Options) -> Result<Stages<'_>> {
        let segment = gt_ir::segment(&program(tape), |_| None)?;
        Ok(Stages { tape, options, segment, optimized: OnceCell::new(), compiled: OnceCell::new() })
    }

    /// The same for a worker that has so many bytes for values, those of the inputs among them.
    pub(crate) fn within(mut self, memory: Option<usize>) -> Self {
        let graph = &self.segment.graph;
        let given: usize = graph.inputs().iter().map(|id| graph.node(*id).ty.bytes()).sum();
        self.options.memory = memory.map(|memory| memory.saturating_sub(given));
        self
    }

    /// The text of a stage.
    pub(crate) fn text(&self, emit: Emit) -> Result<String> {
        Ok(match emit {
            Emit::Tape => gt_ir::text::print(self.tape),
            Emit::Canonical => self.canonical(),
            Emit::Graph => self.segment.graph.to_string(),
            Emit::Egraph => report::search(self.report()?),
            Emit::Optimized => {
                format!("{}{}", self.optimized()?.graph, report::costs(self.report()?))
            }
            Emit::Plan => self.compiled()?.program.dump(Dump::Plan)?,
            Emit::Kernels => self.compiled()?.program.dump(Dump::Kernels)?,
            Emit::Clif => self.compiled()?.program.dump(Dump::Clif)?,
            Emit::Asm => self.compiled()?.program.dump(Dump::Asm)?,
            Emit::Dot => self.dot()?,
            // Signals and workers are no part of this type.
            Emit::Sharded => String::new(),
        })
    }

    pub(crate) fn template(&self) -> Template {
        canonical(self.tape).0
    }

    /// The report of the compilation, or of the passes alone if nothing was compiled.
    pub(crate) fn report(&self) -> Result<&Report> {
        match self.compiled.get() {
            Some(compiled) => Ok(&compiled.report),
            None => Ok(&self.optimized()?.report),
        }
    }

    fn optimized(&self) -> Result<&Optimized> {
        if let Some(optimized) = self.optimized.get() {
            return Ok(optimized);
        }
        let made = pipeline::optimize(&self.segment.graph, &self.options, &Machine::PROCESSOR)?;
        Ok(self.optimized.get_or_init(|| made))
    }

    fn dot(&self) -> Result<String> {
        let graph = &self.optimized()?.graph;
        let mut names: BTreeMap<ValueId, Arc<str>> = BTreeMap::new();
        for entry in &self.tape.entries {
            if let Entry::Input { out: value, name: Some(name), .. }
            | Entry::Output { value, name: Some(name) } = entry
            {
                names.insert(*value, name.clone());
            }
        }
        let of =
            |values: &[ValueId]| values.iter().map(|value| names.get(value).cloned()).collect();
        let (inputs, outputs) = (of(&self.segment.inputs), of(&self.segment.outputs));
        Ok(graph.to_dot(&Legend { kernels: cost::kernels(graph), inputs, outputs }))
    }

    /// The compiled program, for this processor.
    pub(crate) fn compiled(&self) -> Result<&Compiled> {
        if let Some(compiled) = self.compiled.get() {
            return Ok(compiled);
        }
        let Segment { graph, donated, .. } = &self.segment;
        let compiler = Native::new(NativeConfig::host())?.compiler();
        let made = compiler.compile(graph, donated, &self.options)?;
        Ok(self.compiled.get_or_init(|| made))
    }

    /// The bytes of the compiled program's file.
    pub(crate) fn artifact(&self) -> Result<Vec<u8>> {
        const UNWRITABLE: &str = "the program cannot be written";
        let program = self.compiled()?.program.to_bytes().context(UNWRITABLE)?;
        artifact::file(self.tape, &self.segment, program)?.to_bytes().context(UNWRITABLE)
    }

    /// The tape in canonical form, with its key and its literals.
    fn canonical(&self) -> String {
        let (template, bindings) = canonical(self.tape);
        let mut text = format!("# key {}\n", template.key);
        for (slot, scalar) in bindings.scalars.iter().enumerate() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "# slot {slot} = {scalar} : {}", template.slots[slot]);
        }
        text + &gt_ir::text::print(&template.tape)
    }
}

/// The tape as a whole program: values alive at its end are freed there.
pub(crate) fn program(tape: &Tape) -> Tape {
    let mut alive: BTreeSet<ValueId> = tape.entries.iter().filter_map(Entry::defines).collect();
    for entry in &tape.entries {
        if let Entry::Free(value) = entry {
            alive.remove(value);
        }
    }
    let frees = alive.into_iter().map(Entry::Free);
    Tape { entries: tape.entries.iter().cloned().chain(frees).collect() }
}
