//! A simulated device that runs the texts of CUDA kernels, compiled for the host: what a GPU would
//! run, launch by launch.
//!
//! Compiling takes seconds, so it is done once for everything a test runs: first all of it on a
//! device whose functions do nothing, which collects the kernels, then once more for the results.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};

use gt_ir::testing::{Config, Source as Random, inputs, same_bits, tape};
use gt_ir::{Entry, HostTensor, Op, Operand, Tape, ValueId};

use super::{Shared, Simulation, SimulationConfig, lock, space::Space};
use crate::{
    cuda::source::{Source, fold, joint, kernel, routine, tests::host::Host},
    device::Work,
    engine::{Arg, Engine, Value},
    error::EngineError,
    options::Options,
};

/// The kernels of a test.
#[derive(Default)]
pub(crate) struct Texts {
    known: Mutex<BTreeMap<Vec<u8>, Arc<[Source]>>>,
    host: OnceLock<Host>,
}

/// The kernels of one piece of work.
pub(crate) struct TextFunction {
    sources: Arc<[Source]>,
    n_buffers: usize,
    texts: Arc<Texts>,
}

impl Texts {
    pub(super) fn function(self: &Arc<Self>, work: &Work) -> TextFunction {
        let mut known = lock(&self.known);
        let name = format!("work{}", known.len());
        let write = || match work {
            Work::Kernel { spec, cut } => vec![kernel(&name, spec, *cut)],
            Work::Joint(work) => vec![joint(&name, work)],
            Work::Fold(work) => vec![fold(&name, work)],
            Work::Routine(work) => routine(&name, work),
        };
        let spelled = postcard::to_stdvec(work).unwrap();
        let sources = known.entry(spelled).or_insert_with(|| write().into()).clone();
        let n_buffers = match work {
            Work::Kernel { spec, .. } => spec.buffers.len(),
            Work::Joint(work) => work.buffers.len(),
            Work::Fold(_) => 2,
            Work::Routine(work) => work.inputs.len() + 1,
        };
        TextFunction { sources, n_buffers, texts: self.clone() }
    }

    /// Compiles what was collected.
    fn compile(&self, what: &str) {
        let sources: Vec<Source> =
            lock(&self.known).values().flat_map(|sources| sources.iter().cloned()).collect();
        let _ = self.host.set(Host::new(what, &sources));
    }
}

impl TextFunction {
    pub(super) fn run(&self, space: &Space, args: &[u64]) -> Result<(), EngineError> {
        let Some(host) = self.texts.host.get() else { return Ok(()) };
        assert_eq!(args.len(), self.n_buffers + 2);
        let (buffers, words) = args.split_at(self.n_buffers);
        let mut found: Vec<u64> = buffers
            .iter()
            .map(|at| Ok(space.find(*at, 1)? as u64))
            .collect::<Result<_, EngineError>>()?;
        // Works without scalars and checks may have no words at all.
        found.extend(words.iter().map(|at| space.find(*at, 0).map_or(0, |at| at as u64)));
        self.sources.iter().for_each(|source| host.launch(source, &found));
        Ok(())
    }
}

type Results = Result<BTreeMap<ValueId, HostTensor>, EngineError>;

fn instructions(
    engine: &mut dyn Engine,
    tape: &Tape,
    data: &BTreeMap<ValueId, HostTensor>,
) -> Results {
    let (mut values, mut outputs) = (BTreeMap::<ValueId, Value>::new(), BTreeMap::new());
    for entry in &tape.entries {
        match entry {
            Entry::Input { out, .. } => drop(values.insert(*out, engine.upload(&data[out])?)),
            Entry::Instr(i) => {
                let arg = |o: &Operand| match o {
                    Operand::Value(v) => Arg::Value(&values[v]),
                    Operand::Scalar(s) => Arg::Scalar(*s),
                };
                let args: Vec<Arg<'_>> = i.inputs.iter().map(arg).collect();
                let value = engine.execute(&i.op, &args)?;
                values.insert(i.out, value);
            }
            Entry::Output { value, .. } => {
                outputs.insert(*value, engine.download(&values[value])?);
            }
            Entry::Free(_) | Entry::Enter(_) | Entry::Exit(_) => (),
        }
    }
    Ok(outputs)
}

/// The results of five runs of a tape as a program whose inputs may be overwritten where the tape
/// frees them.
fn program(
    engine: &mut dyn Engine,
    tape: &Tape,
    data: &BTreeMap<ValueId, HostTensor>,
) -> Vec<Results> {
    let segment = gt_ir::graph::segment(tape, |_| None).unwrap();
    let compiler = engine.compiler();
    let compiled = compiler.compile(&segment.graph, &segment.donated, &Options::default());
    let program = compiled.unwrap().program;
    let given: Vec<Value> =
        segment.inputs.iter().map(|id| engine.upload(&data[id]).unwrap()).collect();
    let mut run = || {
        let mut values = given.clone();
        for (value, donated) in values.iter_mut().zip(&segment.donated) {
            if *donated {
                *value = engine.execute(&Op::Expand(value.ty.shape), &[Arg::Value(&*value)])?;
            }
        }
        let results = engine.run(&program, &mut values, segment.graph.slots())?;
        let names = segment.outputs.iter().copied();
        names.zip(results).map(|(name, v)| Ok((name, engine.download(&v)?))).collect()
    };
    (0..5).map(|_| run()).collect()
}

fn pass(texts: &Arc<Texts>, tapes: &[(u64, Tape, BTreeMap<ValueId, HostTensor>)]) -> u64 {
    let simulation = Simulation::new(SimulationConfig::default());
    let mut engine = simulation.engine_of(Shared::Texts(texts.clone()));
    for (seed, tape, data) in tapes {
        let wanted = instructions(&mut *engine, tape, data);
        let runs = program(&mut *engine, tape, data);
        if texts.host.get().is_none() {
            continue;
        }
        for (n, run) in runs.iter().enumerate() {
            let text = || format!("seed {seed}, run {n}\n{}", gt_ir::text::print(tape));
            match (&wanted, run) {
                (Ok(wanted), Ok(run)) => {
                    for (id, wanted) in wanted {
                        let equal = run.get(id).is_none_or(|run| same_bits(wanted, run));
                        assert!(equal, "{id}: {wanted:?} and {:?}: {}", run[id], text());
                    }
                }
                // An instruction nobody needs is no part of the program, so its error is not.
                (Err(EngineError::Index { .. }), _) => (),
                (wanted, run) => panic!("{wanted:?} and {run:?}: {}", text()),
            }
        }
    }
    engine.stats().graph_replays
}

fn check(what: &str, config: &Config, seeds: Range<u64>) -> u64 {
    let texts = Arc::new(Texts::default());
    let case = |seed| {
        let mut source = Random::from_seed(seed);
        let tape = tape(&mut source, config);
        let data = inputs(&tape, &mut source);
        (seed, tape, data)
    };
    let tapes: Vec<_> = seeds.map(case).collect();
    pass(&texts, &tapes);
    texts.compile(what);
    pass(&texts, &tapes)
}

/// The kernels a GPU would run give a program, replayed, the bits of its instructions.
#[test]
fn the_texts_of_kernels_give_the_same_bits_on_every_tier() {
    let replays = check("device", &Config::default(), 0..45);
    assert!(replays > 40, "{replays} replays");
}

#[test]
fn the_texts_of_kernels_find_the_indices_that_are_wrong() {
    let config = Config { wild_indices: true, empty: false, ..Config::integers() };
    check("device-indices", &config, 500..520);
}
