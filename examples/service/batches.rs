//! Requests become batches: a task gathers those that arrive together, computes them, and answers
//! each.
//!
//! A batch waits for its result without holding up the thread, and the next batch is gathered
//! meanwhile. Batches are filled up to a power of two, so that there are few shapes and each has a
//! plan. The queue is bounded: a request that finds it full waits.

use std::time::Duration;

use gt::prelude::*;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout_at;

use super::data::PIXELS;
use super::model::{Images, Mlp};

/// The most requests that wait for a batch.
const QUEUE: usize = 1024;

/// The answer to a request.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// The digit with the highest probability.
    pub digit: usize,
    pub probability: f32,
    /// The requests that were computed together.
    pub batch: usize,
}

/// An image, and who asks.
struct Request {
    pixels: [f32; PIXELS],
    answer: oneshot::Sender<Result<Answer>>,
}

/// The way to the task that makes batches. Clones share it.
#[derive(Clone)]
pub struct Batches(mpsc::Sender<Request>);

impl Batches {
    /// Starts the task. A batch has at most `most` requests, and waits for as long as `wait` after
    /// the first.
    pub fn start(net: Mlp, most: usize, wait: Duration) -> Batches {
        let (send, requests) = mpsc::channel(QUEUE);
        tokio::spawn(gather(net, requests, most, wait));
        Batches(send)
    }

    /// The digit of an image; `None` if the service ends.
    pub async fn classify(&self, pixels: [f32; PIXELS]) -> Option<Result<Answer>> {
        let (answer, answered) = oneshot::channel();
        self.0.send(Request { pixels, answer }).await.ok()?;
        answered.await.ok()
    }
}

/// Gathers and computes batches until nobody can ask any longer.
async fn gather(net: Mlp, mut requests: mpsc::Receiver<Request>, most: usize, wait: Duration) {
    while let Some(first) = requests.recv().await {
        let end = tokio::time::Instant::now() + wait;
        let mut batch = vec![first];
        while batch.len() < most {
            match timeout_at(end, requests.recv()).await {
                Ok(Some(request)) => batch.push(request),
                Ok(None) | Err(_) => break,
            }
        }
        // Recorded here, and awaited by a task of its own.
        let probabilities = probabilities(&net, &batch).to_vec_async::<f32>();
        tokio::spawn(async move { answer(batch, probabilities.await) });
    }
}

/// The probabilities of ten digits for each image, and for the blank images that fill up the batch.
fn probabilities(net: &Mlp, batch: &[Request]) -> DynTensor {
    let mut pixels: Vec<f32> = batch.iter().flat_map(|request| request.pixels).collect();
    pixels.resize(batch.len().next_power_of_two() * PIXELS, 0.0);
    let images: Images = Tensor::from_vec(pixels);
    no_grad(|| net.forward(&images).softmax_last().into_dyn())
}

/// Answers each request of a batch. One that has been given up meanwhile is left out.
fn answer(batch: Vec<Request>, probabilities: Result<Vec<f32>>) {
    let n = batch.len();
    match probabilities {
        Ok(probabilities) => {
            for (request, row) in batch.into_iter().zip(probabilities.chunks_exact(10)) {
                let best = row.iter().copied().enumerate().max_by(|a, b| a.1.total_cmp(&b.1));
                let (digit, probability) = best.unwrap_or_default();
                let _ = request.answer.send(Ok(Answer { digit, probability, batch: n }));
            }
        }
        Err(error) => {
            for request in batch {
                let _ = request.answer.send(Err(error.clone()));
            }
        }
    }
}
