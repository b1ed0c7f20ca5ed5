//! Random valid tapes and data for them, for property tests, differential tests and fuzzers; and
//! what filetests expect.
//!
//! ```
//! use gt_ir::testing::{Config, Source, inputs, tape};
//! let mut source = Source::from_seed(7);
//! let tape = tape(&mut source, &Config::default());
//! let data = inputs(&tape, &mut source);
//! let outputs = gt_ir::interp::run(&tape, &data);
//! assert!(outputs.is_ok());
//! ```
//!
//! Guarantees: every tape verifies and runs without an error (unless [`Config::wild_indices`] is
//! set); equal sources and configurations give equal tapes; every op of the table occurs. It is no
//! part of the public API.

mod data;
mod derived;
pub mod filetest;
mod generator;
mod operands;
mod propose;
mod source;

pub use data::{
    difference, ill_conditioned, inputs, same_bits, special_inputs, special_tensor, tensor, units,
};
pub use source::Source;

use crate::{dtype::DType, op::OpKind, tape::Tape};

use generator::Generator;

/// What tapes to make.
#[derive(Clone, Debug)]
pub struct Config {
    /// How many instructions are tried for; a few of them fail to find operands.
    pub instrs: usize,
    /// The most dimensions of a value.
    pub max_rank: usize,
    /// The largest size of a dimension that is drawn.
    pub max_size: usize,
    /// The most elements of a value.
    pub max_numel: usize,
    /// The dtypes that inputs and casts draw from; index operands and comparisons bring `i64` and
    /// `bool` besides.
    pub dtypes: Vec<DType>,
    /// Allow sizes of zero.
    pub empty: bool,
    /// Let indices be any integers, so that runs may end in an out-of-range error.
    pub wild_indices: bool,
    /// Let ops that jump (comparisons, casts to integers, argmax) take floats that engines may
    /// round differently. Without it results of different engines stay close; with it one may
    /// legitimately see `1 < 1.0000001` and the other not.
    pub jumps: bool,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            instrs: 12,
            max_rank: 4,
            max_size: 6,
            max_numel: 400,
            dtypes: DType::ALL.to_vec(),
            empty: true,
            wild_indices: false,
            jumps: false,
        }
    }
}

impl Config {
    /// Tapes over integers and bools alone, whose results all engines agree on to the bit.
    pub fn integers() -> Config {
        Config { dtypes: vec![DType::I64, DType::I32, DType::U8, DType::Bool], ..Config::default() }
    }
}

/// A random tape that verifies. Every value that is not freed is an output.
pub fn tape(source: &mut Source<'_>, config: &Config) -> Tape {
    let mut generator = Generator::new(source, config);
    for _ in 0..1 + generator.below(3) {
        let ty = generator.ty(None);
        generator.input(ty);
    }
    for _ in 0..config.instrs {
        if generator.is_exhausted() {
            break;
        }
        let kind = OpKind::ALL[generator.below(OpKind::ALL.len())];
        // Inputs that a refused proposal brought along stay: they are valid entries.
        if let Some((op, inputs)) = propose::propose(&mut generator, kind) {
            generator.emit(op, &inputs);
        }
        generator.between();
    }
    generator.finish()
}
