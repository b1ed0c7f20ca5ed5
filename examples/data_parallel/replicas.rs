//! Data parallelism: several sessions with a replica of the network each. Every replica trains on
//! its part of each batch, and all use the mean of their gradients.
//!
//! Gradients travel as numbers on the host through the main thread, which adds them in the order of
//! the replicas. The replicas therefore stay equal to the bit.

use super::model::{Examples, Net, STEPS, home, optimizer};
use anyhow::{Context, Result};
use gt::prelude::*;
use std::sync::mpsc::{Receiver, Sender, channel};

/// The gradients of all parameters, in their order.
type Gradients = Vec<Vec<f32>>;

/// The result of a replica: the name of its worker, and its last loss.
pub struct Outcome {
    pub home: String,
    pub loss: f64,
}

/// Trains `n` replicas, each on its own thread.
pub fn train(n: usize) -> Result<Vec<Outcome>> {
    std::thread::scope(|scope| {
        let mut links = Vec::new();
        let mut replicas = Vec::new();
        for i in 0..n {
            let (to_mean, own) = channel();
            let (mean, from_mean) = channel();
            links.push((own, mean));
            replicas.push(scope.spawn(move || replica(i, n, &to_mean, &from_mean)));
        }
        for _ in 0..STEPS {
            if exchange(&links).is_err() {
                break; // A replica has ended. Its error is returned below.
            }
        }
        drop(links);
        let ended = replicas.into_iter().map(|r| r.join().ok().context("a replica panicked")?);
        ended.collect()
    })
}

/// Sends the mean of all gradients to each replica.
fn exchange(links: &[(Receiver<Gradients>, Sender<Gradients>)]) -> Result<()> {
    let mut mean: Option<Gradients> = None;
    for (own, _) in links {
        let own = own.recv()?;
        match &mut mean {
            None => mean = Some(own),
            Some(sum) => {
                sum.iter_mut().flatten().zip(own.iter().flatten()).for_each(|(a, b)| *a += b)
            }
        }
    }
    let mut mean = mean.context("there is no replica")?;
    mean.iter_mut().flatten().for_each(|x| *x /= links.len() as f32);
    links.iter().try_for_each(|(_, to)| Ok(to.send(mean.clone())?))
}

/// Trains one replica, in its own session.
fn replica(
    i: usize,
    n: usize,
    out: &Sender<Gradients>,
    mean: &Receiver<Gradients>,
) -> Result<Outcome> {
    let session = Session::open()?;
    let _entered = session.enter();
    let net = Net::seeded(&session);
    let mut optimizer = optimizer(net.parameters());
    let mut last = 0.0;
    for step in 0..STEPS {
        let (x, y) = Examples::of_step(step).part(i, n);
        let loss = net.loss(&x, &y);
        optimizer.zero_grad();
        loss.backward()?;
        let gradients = net.parameters().iter().map(read).collect::<Result<_>>()?;
        out.send(gradients).context("the other replicas have ended")?;
        let mean = mean.recv().context("the other replicas have ended")?;
        for (parameter, gradient) in net.parameters().iter().zip(mean) {
            parameter.set_grad(Some(DynTensor::from_vec(gradient, parameter.shape())));
        }
        optimizer.step()?;
        last = loss.item()?;
    }
    Ok(Outcome { home: home(&session)?, loss: last })
}

fn read(parameter: &DynTensor) -> Result<Vec<f32>> {
    Ok(parameter.grad().context("a parameter has no gradient")?.to_vec()?)
}
