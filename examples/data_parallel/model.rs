//! The network, in two stages, and its training data, which every thread computes for itself.

use gt::prelude::*;

dims! { Batch }

/// Sizes of the input, the hidden layer and the output.
const WIDTHS: [usize; 3] = [16, 64, 4];
/// Examples in a step.
pub const BATCH: usize = 64;
/// Steps of training.
pub const STEPS: u64 = 60;
const SEED: u64 = 11;

pub type Inputs = T![Batch, 16];
pub type Hidden = T![Batch, 64];
pub type Outputs = T![Batch, 4];

/// The first half of the network.
#[derive(Module)]
pub struct Stage1 {
    fc: Linear<N<16>, N<64>>,
}

impl Stage1 {
    pub fn forward(&self, x: &Inputs) -> Hidden {
        self.fc.forward(x).tanh()
    }
}

/// The second half of the network.
#[derive(Module)]
pub struct Stage2 {
    fc: Linear<N<64>, N<4>>,
}

impl Stage2 {
    pub fn loss(&self, hidden: &Hidden, y: &Outputs) -> T![] {
        self.fc.forward(hidden).mse_loss(y)
    }
}

/// The whole network.
#[derive(Module)]
pub struct Net {
    pub first: Stage1,
    pub second: Stage2,
}

impl Net {
    /// A network with the same weights in every session, because the seed determines them.
    pub fn seeded(session: &Session) -> Net {
        session.manual_seed(SEED);
        Net::new()
    }

    pub fn loss(&self, x: &Inputs, y: &Outputs) -> T![] {
        self.second.loss(&self.first.forward(x), y)
    }
}

pub fn optimizer(parameters: Vec<DynTensor>) -> Sgd {
    Sgd::new(parameters, SgdConfig { lr: 0.1, momentum: 0.9, ..Default::default() })
}

/// Examples as numbers on the host.
pub struct Examples {
    x: Vec<f32>,
    y: Vec<f32>,
}

impl Examples {
    /// The batch of a step. The targets are sines of sums of inputs.
    pub fn of_step(step: u64) -> Examples {
        let mut state = step.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1;
        let mut draw = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 40) as f32 / (1 << 23) as f32 - 1.0
        };
        let x: Vec<f32> = (0..BATCH * WIDTHS[0]).map(|_| draw()).collect();
        let sums = x.chunks(WIDTHS[0] / WIDTHS[2]).map(|part| part.iter().sum::<f32>().sin());
        Examples { y: sums.collect(), x }
    }

    /// One of `n` equal parts, as tensors of the current session.
    pub fn part(&self, i: usize, n: usize) -> (Inputs, Outputs) {
        let cut = |all: &[f32]| all[all.len() / n * i..all.len() / n * (i + 1)].to_vec();
        (Tensor::from_vec(cut(&self.x)), Tensor::from_vec(cut(&self.y)))
    }
}

/// The name of the worker of a session.
pub fn home(session: &Session) -> Result<String> {
    Ok(session.stats()?.workers.pop().map_or_else(String::new, |worker| worker.name))
}
