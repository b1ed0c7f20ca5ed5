//! Compares five kinds of gradients with finite differences: `cargo run --release --example
//! autograd`.
//!
//! The gradients are computed by hand, by `grad`, by `vjp`, through a function with its own
//! gradient, and as gradients of gradients. A gradient is a list of instructions on the tape, and
//! so are the gradients written by hand below. The training at the end uses them; GT recognizes,
//! compiles and replays its steps as it does with autograd.

use anyhow::{Result, ensure};
use gt::autograd::{Function, Graph, apply, grad, grad_with, vjp};
use gt::prelude::*;
use std::io::Write;

/// The errors of finite differences in `f64` are about 1e-9 here.
const TOLERANCE: f64 = 1e-7;

/// The training data of a network of two layers: inputs and targets.
struct Data {
    x: DynTensor,
    y: DynTensor,
}

/// The parameters: the weight and the bias of the first layer, and the weight of the second.
type Params = [DynTensor; 3];

/// The mean squared error of `tanh(x w1 + b1) w2`.
fn loss(data: &Data, [w1, b1, w2]: &Params) -> DynTensor {
    let hidden = (data.x.matmul(w1) + b1).tanh();
    (hidden.matmul(w2) - &data.y).square().mean(..)
}

/// The same loss with its gradients by the chain rule, from the last operation to the first.
fn loss_and_gradients(data: &Data, [w1, b1, w2]: &Params) -> (DynTensor, Params) {
    let hidden = (data.x.matmul(w1) + b1).tanh();
    let error = hidden.matmul(w2) - &data.y;
    let d_output = &error * (2.0 / error.numel() as f64);
    let d_w2 = hidden.t().matmul(&d_output);
    let d_hidden = d_output.matmul(&w2.t());
    let d_sum = d_hidden * (-hidden.square() + 1.0);
    let d_w1 = data.x.t().matmul(&d_sum);
    (error.square().mean(..), [d_w1, d_sum.sum(0), d_w2])
}

/// `x sigmoid(x)`, with a gradient that needs only x. Autograd would keep the sigmoid as well.
struct Swish;

impl Function for Swish {
    fn forward(&self, inputs: &[DynTensor]) -> DynTensor {
        &inputs[0] * inputs[0].sigmoid()
    }

    fn backward(
        &self,
        inputs: &[DynTensor],
        _output: &DynTensor,
        grad: &DynTensor,
    ) -> Vec<Option<DynTensor>> {
        let (x, s) = (&inputs[0], inputs[0].sigmoid());
        vec![Some(grad * &s * (x * (-&s + 1.0) + 1.0))]
    }
}

/// The central difference `(f(x + h) - f(x - h)) / 2h` of `f` at `x` for each element of `x`.
fn differences(f: impl Fn(&DynTensor) -> DynTensor, x: &DynTensor) -> Result<DynTensor> {
    const H: f64 = 1e-5;
    let values: Vec<f64> = x.to_vec()?;
    let moved = |i: usize, by: f64| {
        let mut values = values.clone();
        values[i] += by;
        no_grad(|| f(&DynTensor::from_vec(values, x.shape())).item())
    };
    let slope = |i| Ok((moved(i, H)? - moved(i, -H)?) / (2.0 * H));
    let slopes = (0..values.len()).map(slope).collect::<Result<Vec<f64>>>()?;
    Ok(DynTensor::from_vec(slopes, x.shape()))
}

/// Prints the differences between gradients, and keeps the largest.
struct Judge {
    out: std::io::Stdout,
    worst: f64,
}

impl Judge {
    fn compare(&mut self, what: &str, found: &DynTensor, wanted: &DynTensor) -> Result<()> {
        let apart = (found - wanted).abs().max(..).item()?;
        self.worst = self.worst.max(apart);
        writeln!(self.out, "{what:<58} {apart:.1e}")?;
        ensure!(apart < TOLERANCE, "{what}: a gradient is wrong");
        Ok(())
    }
}

/// The parameters, with the one at index `at` replaced by `x`.
fn with(params: &Params, at: usize, x: &DynTensor) -> Params {
    let mut params = params.clone();
    params[at] = x.clone();
    params
}

/// Compares the gradients of the network, computed in three ways, with finite differences.
fn first_order(judge: &mut Judge, data: &Data, params: &Params) -> Result<()> {
    let (_, by_hand) = loss_and_gradients(data, params);
    let inputs: Vec<&DynTensor> = params.iter().collect();
    let one = DynTensor::scalar(1.0);
    let of_slice = |p: &[DynTensor]| loss(data, &[p[0].clone(), p[1].clone(), p[2].clone()]);
    let (_, by_vjp) = vjp(of_slice, &inputs, &one)?;
    let leaves = params.clone().map(|p| p.requires_grad());
    let by_grad = grad(&loss(data, &leaves), &leaves.iter().collect::<Vec<_>>())?;
    for (at, name) in ["first weight", "bias", "second weight"].into_iter().enumerate() {
        let wanted = differences(|x| loss(data, &with(params, at, x)), &params[at])?;
        judge.compare(&format!("{name}, by hand"), &by_hand[at], &wanted)?;
        judge.compare(&format!("{name}, by `grad`"), &by_grad[at], &wanted)?;
        judge.compare(&format!("{name}, by `vjp`"), &by_vjp[at], &wanted)?;
    }
    Ok(())
}

/// The product of the Hessian of the loss and a vector, by double backpropagation: the gradient of
/// the dot product of gradient and vector. The Hessian itself is not computed.
fn second_order(judge: &mut Judge, data: &Data, params: &Params) -> Result<()> {
    let w1 = params[0].clone().requires_grad();
    let direction = w1.detach().randn_like();
    let slope = grad_with(&loss(data, &with(params, 0, &w1)), None, &[&w1], Graph::Create)?;
    let along = (&slope[0] * &direction).sum(..);
    let product = grad(&along, &[&w1])?.remove(0);
    let slope_along = |x: &DynTensor| {
        let (_, [d_w1, ..]) = loss_and_gradients(data, &with(params, 0, x));
        (d_w1 * &direction).sum(..)
    };
    let wanted = differences(slope_along, &params[0])?;
    judge.compare("Hessian times a vector, by `grad` of `grad`", &product, &wanted)
}

/// A function with its own gradient has gradients of any order, because its gradient consists of
/// operations.
fn custom(judge: &mut Judge) -> Result<()> {
    let x = DynTensor::from_slice(&[-3.0, -0.4, 0.0, 0.7, 5.0], [5]).requires_grad();
    let slope = grad_with(&apply(Swish, &[&x]), None, &[&x], Graph::Create)?.remove(0);
    let curvature = grad(&slope, &[&x])?.remove(0);
    let swish = |x: &DynTensor| (x * x.sigmoid()).sum(..);
    judge.compare("swish, by its own gradient", &slope, &differences(swish, &x.detach())?)?;
    let slope_of = |x: &DynTensor| {
        let s = x.sigmoid();
        (&s * (x * (-&s + 1.0) + 1.0)).sum(..)
    };
    let wanted = differences(slope_of, &x.detach())?;
    judge.compare("swish, the gradient of its gradient", &curvature, &wanted)
}

/// Gradient descent without autograd. Returns the losses before and after.
fn descend(data: &Data, mut params: Params) -> Result<(f64, f64)> {
    let before = loss(data, &params).item()?;
    for _ in 0..2_000 {
        let (_, gradients) = loss_and_gradients(data, &params);
        params = std::array::from_fn(|i| &params[i] - &gradients[i] * 0.2);
    }
    Ok((before, loss(data, &params).item()?))
}

fn main() -> Result<()> {
    manual_seed(0);
    let normal = |sizes: [usize; 2]| DynTensor::randn(sizes, DType::F64);
    let x = normal([32, 3]);
    let data = Data { y: (&x * 1.5).sin().sum(keepdim(1)), x };
    let params = [normal([3, 8]), DynTensor::zeros([8], DType::F64), normal([8, 1]) * 0.3];
    let mut judge = Judge { out: std::io::stdout(), worst: 0.0 };
    first_order(&mut judge, &data, &params)?;
    second_order(&mut judge, &data, &params)?;
    custom(&mut judge)?;
    let (before, after) = descend(&data, params)?;
    writeln!(judge.out, "2,000 steps with gradients by hand: loss from {before:.3} to {after:.4}")?;
    ensure!(after < before / 10.0, "gradient descent did not reduce the loss");
    writeln!(judge.out, "largest difference: {:.1e}", judge.worst)?;
    Ok(())
}
