//! A pipeline: the two halves of the network in two sessions, and micro-batches that pass through
//! both (GPipe: Huang et al. 2019).
//!
//! While the second stage works on one micro-batch, the first stage works on the next. Gradients
//! come back in the same order and are summed. Activations and gradients travel between the stages
//! as numbers on the host.

use super::model::{BATCH, Examples, Hidden, Net, Outputs, STEPS, home, optimizer};
use super::replicas::Outcome;
use anyhow::{Context, Result};
use gt::autograd::{Graph, grad_with};
use gt::prelude::*;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Micro-batches in a batch.
const PARTS: usize = 4;

type Numbers = Vec<f32>;

/// Trains each stage on its own thread. Returns the workers of both, and the last loss with the
/// second.
pub fn train() -> Result<[Outcome; 2]> {
    let (hidden, from_first) = channel();
    let (gradient, from_second) = channel();
    std::thread::scope(|scope| {
        let first = scope.spawn(move || first(&hidden, &from_second));
        let second = scope.spawn(move || second(&from_first, &gradient));
        let (first, second) = (first.join(), second.join());
        Ok([
            first.ok().context("the first stage panicked")??,
            second.ok().context("the second stage panicked")??,
        ])
    })
}

/// The first stage: sends its activations of each micro-batch, then receives their gradients.
fn first(out: &Sender<Numbers>, gradients: &Receiver<Numbers>) -> Result<Outcome> {
    let session = Session::open()?;
    let _entered = session.enter();
    let stage = Net::seeded(&session).first;
    let parameters = stage.parameters();
    let mut optimizer = optimizer(parameters.clone());
    for step in 0..STEPS {
        let examples = Examples::of_step(step);
        let mut made = Vec::new();
        for part in 0..PARTS {
            let hidden = stage.forward(&examples.part(part, PARTS).0);
            out.send(hidden.to_vec()?).context("the second stage has ended")?;
            made.push(hidden);
        }
        optimizer.zero_grad();
        for hidden in made {
            let hidden = hidden.into_dyn();
            let gradient = gradients.recv().context("the second stage has ended")?;
            let gradient = DynTensor::from_vec(gradient, hidden.shape());
            let inputs: Vec<&DynTensor> = parameters.iter().collect();
            let grads = grad_with(&hidden, Some(&gradient), &inputs, Graph::Free)?;
            parameters.iter().zip(&grads).for_each(|(p, g)| add_grad(p, g));
        }
        optimizer.step()?;
    }
    Ok(Outcome { home: home(&session)?, loss: f64::NAN })
}

/// The second stage: receives the activations of the first stage, and sends back their gradients.
fn second(hidden: &Receiver<Numbers>, out: &Sender<Numbers>) -> Result<Outcome> {
    let session = Session::open()?;
    let _entered = session.enter();
    let stage = Net::seeded(&session).second;
    let mut optimizer = optimizer(stage.parameters());
    let mut last = 0.0;
    for step in 0..STEPS {
        let examples = Examples::of_step(step);
        optimizer.zero_grad();
        last = 0.0;
        for part in 0..PARTS {
            let y: Outputs = examples.part(part, PARTS).1;
            let made = hidden.recv().context("the first stage has ended")?;
            let made: Hidden = Tensor::from_vec_with(made, [BATCH / PARTS]).requires_grad();
            let loss = stage.loss(&made, &y) / PARTS as f64;
            loss.backward()?;
            let gradient = made.as_dyn().grad().context("the activations have no gradient")?;
            out.send(gradient.to_vec()?).context("the first stage has ended")?;
            last += loss.item()?;
        }
        optimizer.step()?;
    }
    Ok(Outcome { home: home(&session)?, loss: last })
}

fn add_grad(parameter: &DynTensor, gradient: &DynTensor) {
    let sum = parameter.grad().map_or_else(|| gradient.clone(), |before| before + gradient);
    parameter.set_grad(Some(sum));
}
