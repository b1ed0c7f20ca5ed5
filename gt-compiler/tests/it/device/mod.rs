//! Programs on a simulated device: replayed, step by step and instruction by instruction they give
//! the bits of the native engine.

mod attention;
mod downloads;
mod faults;
mod graphs;
mod launches;
mod overwriting;
mod random;

use gt_compiler::simulated::{Simulation, SimulationConfig};
use gt_compiler::{Engine, EngineError, Numerics, Options, Program, Value};
use gt_ir::{HostTensor, Scalar, Segment, Shape};

/// A simulated device, its engine, and a program.
struct Lab {
    simulation: Simulation,
    engine: Box<dyn Engine>,
    program: Program,
    scalars: Vec<Scalar>,
}

fn segment(text: &str) -> Segment {
    let (tape, _) = gt_ir::text::parse(&format!("gt tape 1\n{text}")).unwrap();
    gt_ir::graph::segment(&tape, |_| None).unwrap()
}

impl Lab {
    fn new(config: SimulationConfig, text: &str) -> Lab {
        Lab::under(config, text, Numerics::Exact)
    }

    fn under(config: SimulationConfig, text: &str, numerics: Numerics) -> Lab {
        let simulation = Simulation::new(config);
        let engine = simulation.engine().unwrap();
        let segment = segment(text);
        let compiler = engine.compiler();
        let compiled = compiler.compile(
            &segment.graph,
            &segment.donated,
            &Options { numerics, ..Options::default() },
        );
        let scalars = segment.graph.slots().to_vec();
        Lab { simulation, program: compiled.unwrap().program, engine, scalars }
    }

    fn with(text: &str) -> Lab {
        Lab::new(SimulationConfig::default(), text)
    }

    fn give(&mut self, elements: &[f32]) -> Value {
        self.engine.upload(&floats(elements)).unwrap()
    }

    fn give_indices(&mut self, elements: &[i64]) -> Value {
        let shape = Shape::new(&[elements.len()]).unwrap();
        self.engine.upload(&HostTensor::from_vec(elements.to_vec(), shape).unwrap()).unwrap()
    }

    fn read(&mut self, value: &Value) -> Vec<f32> {
        self.engine.download(value).unwrap().to_vec().unwrap()
    }

    fn run(&mut self, inputs: Vec<Value>) -> Result<Vec<Value>, EngineError> {
        let mut inputs = inputs;
        let scalars = self.scalars.clone();
        Ok(self.engine.run(&self.program, &mut inputs, &scalars)?.into_vec())
    }

    /// Runs a program of one result.
    fn one(&mut self, inputs: Vec<Value>) -> Value {
        self.run(inputs).unwrap().pop().unwrap()
    }

    fn replays(&self) -> u64 {
        self.engine.stats().graph_replays
    }
}

fn floats(elements: &[f32]) -> HostTensor {
    HostTensor::from_vec(elements.to_vec(), Shape::new(&[elements.len()]).unwrap()).unwrap()
}
