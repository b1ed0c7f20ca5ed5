//! Functions made of functions, as in `torch.func`: over a batch (`vmap`), and their derivatives as
//! matrices (`jacobian`, `hessian`) or along a direction (`jvp`).
//!
//! Guarantees: they nest in any order, with each other and with [`grad`](super::grad()): a function
//! may take gradients, and gradients flow through results to the inputs and to what the function
//! holds. Derivatives of what does not depend on the inputs, or by ops without a gradient, are 0.
//!
//! `vmap` runs the function once, on the first example, and records each of its instructions again
//! for the whole batch. What the first run computes is not used, so the worker's compiler drops it.
//! `jvp` is the derivative of a product with the Jacobian by its vector: two walks back, since GT
//! has no forward mode.

use std::collections::BTreeMap;
use std::panic::Location;
use std::sync::Arc;

use gt_ir::{Op, OpError, ValueId};

use super::batching::{Value, batch};
use super::custom::{Handwritten, joined};
use super::{Graph, custom, grad_with};
use crate::core::capture::{MAX_NOTES, Note, Noted, Repeat, capture};
use crate::core::tensor::{ByHand, Rule};
use crate::core::{Arg, DynTensor};
use crate::error::{Error, ErrorKind, Result};
use crate::no_grad::{NoGrad, enable_grad};
use crate::session::Session;

/// The result of a function that is transformed: a value, by default a tensor, or a `Result` with
/// one.
pub trait Outcome<T = DynTensor> {
    /// As a result.
    ///
    /// # Errors
    /// That of the function.
    fn outcome(self) -> Result<T>;
}

impl<T> Outcome<T> for T {
    fn outcome(self) -> Result<T> {
        Ok(self)
    }
}

impl<T> Outcome<T> for Result<T> {
    fn outcome(self) -> Result<T> {
        self
    }
}

/// `f` for each example of the inputs, which lie along their first axes: the results along a first
/// axis. PyTorch's `torch.vmap`. What `f` holds is the same for all examples, and so are the random
/// numbers that it draws.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// let (x, w) = (DynTensor::randn([8, 3], DType::F32), DynTensor::randn([3], DType::F32));
/// let y = autograd::vmap(|x| (&x[0] * &w).sum(..).tanh(), &[&x])?; // [8]
/// // A gradient for each example:
/// let loss = |x: &DynTensor, w: &DynTensor| (x * w).sum(..).square();
/// let w = w.requires_grad();
/// let slope = |x: &[DynTensor]| autograd::grad(&loss(&x[0], &w), &[&w]).map(|g| g[0].clone());
/// let each = autograd::vmap(slope, &[&x])?;
/// assert_eq!(each.sizes(), [8, 3]);
/// # Ok::<(), gt::Error>(())
/// ```
///
/// # Errors
/// That of `f`; also inputs without a common number of examples, and an `f` that reads a value that
/// depends on an example, or gives what it did not compute by recorded operations.
#[track_caller]
pub fn vmap<R: Outcome>(
    f: impl FnOnce(&[DynTensor]) -> R,
    inputs: &[&DynTensor],
) -> Result<DynTensor> {
    let n = examples(inputs)?;
    let mut results = map(|x| Ok(vec![Some(f(x).outcome()?)]), inputs, n)?;
    let result = results.pop().flatten();
    result.ok_or_else(|| refused("vmap: no result".to_owned(), "give one"))
}

/// The results of `f` for each of `n` examples, along a first axis of each.
#[track_caller]
fn map(
    f: impl FnOnce(&[DynTensor]) -> Result<Vec<Option<DynTensor>>>,
    inputs: &[&DynTensor],
    n: usize,
) -> Result<Vec<Option<DynTensor>>> {
    let firsts: Vec<DynTensor> = inputs.iter().map(|x| x.slice(0)).collect();
    let (results, notes) = capture("vmap", || f(&firsts))?;
    let results = results?;
    if let Some(error) = results.iter().flatten().find_map(DynTensor::error) {
        return Err(error);
    }
    if notes.len() > MAX_NOTES {
        return Err(refused(
            format!("vmap: the function records more than {MAX_NOTES} instructions"),
            "map a part of it",
        ));
    }
    // What the second run makes belongs to the session of the inputs.
    let session = inputs.first().and_then(|x| x.session());
    let _entered = session.as_ref().map(Session::enter);
    let mut again = Again { n, known: BTreeMap::new() };
    for (first, input) in firsts.iter().zip(inputs) {
        let whole = Value::Batched((*input).clone());
        again.learn(first, Known { value: whole, is_tracked: first.is_tracked() });
    }
    for note in &notes {
        again.record(note)?;
    }
    let all = results.iter().map(|result| {
        result.as_ref().map(|result| Ok(again.operand(result)?.batched(n))).transpose()
    });
    all.collect()
}

/// How many examples all inputs have.
#[track_caller]
fn examples(inputs: &[&DynTensor]) -> Result<usize> {
    if let Some(error) = inputs.iter().find_map(|x| x.error()) {
        return Err(error);
    }
    match common(inputs) {
        Some(n) if n > 0 => Ok(n),
        _ => {
            let types: Vec<String> = inputs.iter().map(|x| x.ty().to_string()).collect();
            Err(refused(
                format!("vmap: no number of examples is common to {}", types.join(" and ")),
                "the first axis of each input counts the examples; let the function hold what is \
                 the same for all of them",
            ))
        }
    }
}

/// The size of the first axis of all of these, if it is one.
pub(crate) fn common(inputs: &[&DynTensor]) -> Option<usize> {
    let mut sizes = inputs.iter().map(|x| x.sizes().first().copied());
    let first = sizes.next()??;
    sizes.all(|size| size == Some(first)).then_some(first)
}

#[track_caller]
pub(crate) fn refused(message: String, hint: &str) -> Error {
    Error::new(ErrorKind::Operation, message, Location::caller()).hint(hint)
}

/// The second run of a function, for all examples.
struct Again {
    n: usize,
    /// What values of the first run are for the batch.
    known: BTreeMap<ValueId, Known>,
}

/// A value of the second run.
struct Known {
    value: Value,
    /// Whether the instruction that computed it was tracked.
    is_tracked: bool,
}

impl Again {
    fn learn(&mut self, first: &DynTensor, known: Known) {
        if let Some(id) = first.value_id() {
            self.known.insert(id, known);
        }
    }

    /// Records an instruction of the first run for all examples, if it depends on them.
    #[track_caller]
    fn record(&mut self, note: &Note) -> Result<()> {
        let depends = |x: &DynTensor| x.value_id().is_some_and(|id| self.known.contains_key(&id));
        if !note.tensors().any(depends) {
            return Ok(());
        }
        let operands = note.operands.iter().map(|operand| match operand {
            Noted::Tensor(x) => self.operand(x),
            Noted::Scalar(scalar) => Ok(Value::Scalar(*scalar)),
        });
        let operands: Vec<Value> = operands.collect::<Result<_>>()?;
        let is_tracked = note.result.is_tracked();
        let (_mode, _place) = (NoGrad::switch(is_tracked), Repeat::begin(note));
        let value = match &note.rule {
            Some((rule, inputs)) => self.ruled(rule, inputs, &operands)?,
            None => batch(&note.op, &operands, self.n)?,
        };
        self.learn(&note.result, Known { value: Value::Batched(value), is_tracked });
        Ok(())
    }

    /// A value with a gradient rule of its own, for the batch.
    #[track_caller]
    fn ruled(
        &self,
        rule: &Arc<dyn Rule>,
        inputs: &[DynTensor],
        operands: &[Value],
    ) -> Result<DynTensor> {
        let value = operands.first().map(|value| value.batched(self.n));
        let value = value.ok_or_else(|| refused("vmap: a rule of nothing".to_owned(), ""))?;
        let Some(by_hand) = rule.by_hand() else { return Ok(without_gradient(&value)) };
        let inputs: Vec<Value> =
            inputs.iter().map(|input| self.operand(input)).collect::<Result<_>>()?;
        let is_batched = inputs.iter().map(|input| matches!(input, Value::Batched(_))).collect();
        let inputs = inputs.into_iter().filter_map(Value::into_tensor).collect::<Vec<_>>();
        let rule = Handwritten(for_each_example(by_hand.clone(), is_batched, self.n));
        Ok(joined(&value, &inputs, Arc::new(rule), Location::caller()))
    }

    /// What an operand of the first run is for the batch, with a history where it had one.
    #[track_caller]
    fn operand(&self, x: &DynTensor) -> Result<Value> {
        let Some(known) = x.value_id().and_then(|id| self.known.get(&id)) else {
            return Ok(Value::Same(x.clone()));
        };
        let Value::Batched(value) = &known.value else { return Ok(known.value.clone()) };
        // A leaf was made by the function, so no history is behind it.
        Ok(Value::Batched(match x.is_tracked() && known.is_tracked && !x.is_leaf() {
            true => value.clone(),
            false => value.detach(),
        }))
    }
}

/// Gradients written by hand, for a batch of which some inputs, the output and its gradient have
/// one for each example. Gradients of the other inputs add up over the examples.
fn for_each_example(by_hand: Arc<ByHand>, is_batched: Vec<bool>, n: usize) -> Arc<ByHand> {
    Arc::new(move |inputs, output, grad| {
        let batched = inputs.iter().zip(&is_batched).filter(|(_, is_batched)| **is_batched);
        let all: Vec<&DynTensor> = batched.map(|(input, _)| input).chain([output, grad]).collect();
        let one = |x: &[DynTensor]| {
            let (mut firsts, last) = (x.iter(), x.len().saturating_sub(2));
            let own = inputs.iter().zip(&is_batched).map(|(input, is_batched)| match is_batched {
                true => firsts.next().unwrap_or(input).clone(),
                false => input.clone(),
            });
            let own: Vec<DynTensor> = own.collect();
            Ok(by_hand(&own, &x[last], &x[last + 1]))
        };
        match map(one, &all, n) {
            Ok(grads) => {
                let grads = grads.into_iter().zip(&is_batched);
                let whole = grads.map(|(grad, is_batched)| match is_batched {
                    true => grad,
                    false => grad.map(|grad| grad.sum(0)),
                });
                whole.collect()
            }
            Err(error) => {
                inputs.iter().map(|x| Some(DynTensor::failed(error.clone(), x.ty()))).collect()
            }
        }
    })
}

/// A value whose history is computed again from the start (`checkpoint`), which is not known for a
/// batch: a walk back through it is an error.
#[track_caller]
fn without_gradient(value: &DynTensor) -> DynTensor {
    let error = refused(
        "vmap: no gradient flows back through a checkpoint in a mapped function".to_owned(),
        "take the gradient inside the mapped function, or map inside the checkpoint",
    );
    let leaf = value.zeros_like().requires_grad();
    custom(
        &[&leaf, &value.detach()],
        |x| x[1].clone(),
        move |x, _, _| vec![Some(DynTensor::failed(error.clone(), x[0].ty())), None],
    )
}

/// The tensor as the argument of a function that is differentiated: its history stays, and there is
/// a place for the gradient with respect to it.
#[track_caller]
fn argument(x: &DynTensor) -> DynTensor {
    match x.is_tracked() {
        true => DynTensor::record(Op::Reshape(x.shape()), &[Arg::Tensor(x)]),
        false => x.detach().requires_grad(),
    }
}

/// Whether the value of a function depends on nothing that has gradients: its derivatives are 0.
fn is_constant(y: &DynTensor) -> Result<bool> {
    y.error().map_or(Ok(!y.is_tracked()), Err)
}

/// The value of `f` at `inputs`, and its derivative along `tangents`, one of the type of each
/// input: the product of the Jacobian with a vector. PyTorch's `torch.func.jvp`.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// let (x, v) = (DynTensor::from([1.0, 2.0]), DynTensor::from([1.0, 0.0]));
/// let (y, along) = autograd::jvp(|x| x[0].square(), &[&x], &[&v])?; // [1, 4] and [2, 0]
/// # Ok::<(), gt::Error>(())
/// ```
///
/// # Errors
/// As [`grad`](super::grad()); also other numbers or types of tangents than of inputs.
#[track_caller]
pub fn jvp<R: Outcome>(
    f: impl FnOnce(&[DynTensor]) -> R,
    inputs: &[&DynTensor],
    tangents: &[&DynTensor],
) -> Result<(DynTensor, DynTensor)> {
    let fits = |(x, v): (&&DynTensor, &&DynTensor)| {
        x.dtype() == v.dtype() && x.shape().same_sizes(&v.shape())
    };
    if inputs.len() != tangents.len() || !inputs.iter().zip(tangents).all(fits) {
        let types = |list: &[&DynTensor]| {
            list.iter().map(|x| x.ty().to_string()).collect::<Vec<_>>().join(", ")
        };
        return Err(refused(
            format!("jvp: the inputs are {}, the tangents {}", types(inputs), types(tangents)),
            "give a tangent of the type of each input",
        ));
    }
    enable_grad(|| {
        let arguments: Vec<DynTensor> = inputs.iter().map(|x| argument(x)).collect();
        let y = f(&arguments).outcome()?;
        if is_constant(&y)? {
            return Ok((y.clone(), y.zeros_like()));
        }
        // The product with the Jacobian is linear in its vector, whatever that is.
        let vector = y.detach().zeros_like().requires_grad();
        let arguments: Vec<&DynTensor> = arguments.iter().collect();
        let products = grad_with(&y, Some(&vector), &arguments, Graph::Create)?;
        let along = products.iter().zip(tangents).map(|(g, v)| (g * *v).sum(..));
        let along = along
            .reduce(|a, b| a + b)
            .ok_or_else(|| refused("jvp: no inputs".to_owned(), "give one at least"))?;
        let derivative = match is_constant(&along)? {
            true => y.detach().zeros_like(),
            false => grad_with(&along, None, &[&vector], Graph::Create)?.remove(0),
        };
        Ok((y, derivative))
    })
}

/// The Jacobian of `f` at `x`: the derivative of each element of the value by each of `x`, of shape
/// `[value.., x..]`. PyTorch's `torch.func.jacrev`; the rows are one `vmap`.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// let x = DynTensor::from([1.0, 2.0]);
/// let matrix = autograd::jacobian(|x| x.square(), &x)?; // [[2, 0], [0, 4]]
/// # Ok::<(), gt::Error>(())
/// ```
///
/// # Errors
/// As [`grad`](super::grad()).
#[track_caller]
pub fn jacobian<R: Outcome>(f: impl FnOnce(&DynTensor) -> R, x: &DynTensor) -> Result<DynTensor> {
    enable_grad(|| {
        let argument = argument(x);
        let y = f(&argument).outcome()?;
        let n = y.numel();
        if is_constant(&y)? || n == 0 {
            let zeros = argument.detach().zeros_like();
            return Ok(zeros.expand([y.sizes(), x.sizes()].concat()));
        }
        let basis = y.on_own(|| DynTensor::eye(n, y.dtype()));
        let basis = basis.reshape([&[n], &y.sizes()[..]].concat());
        let row = |v: &[DynTensor]| {
            grad_with(&y, v.first(), &[&argument], Graph::Create).map(|mut g| g.remove(0))
        };
        let rows = vmap(row, &[&basis])?;
        Ok(rows.reshape([y.sizes(), x.sizes()].concat()))
    })
}

/// The Hessian of `f`, whose value is a single number, at `x`: its second derivatives, of shape
/// `[x.., x..]`. PyTorch's `torch.func.hessian`.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// let x = DynTensor::from([1.0, 2.0]);
/// let matrix = autograd::hessian(|x| x.pow(3).sum(..), &x)?; // [[6, 0], [0, 12]]
/// # Ok::<(), gt::Error>(())
/// ```
///
/// # Errors
/// As [`grad`](super::grad()); also a value of several elements.
#[track_caller]
pub fn hessian<R: Outcome>(f: impl FnOnce(&DynTensor) -> R, x: &DynTensor) -> Result<DynTensor> {
    let slope = |x: &DynTensor| {
        let y = f(x).outcome()?;
        if y.numel() != 1 && y.error().is_none() {
            let error = OpError::new(format!("hessian: the function's value is {}", y.ty()));
            let error =
                error.hint("it has second derivatives as a matrix if it is a single number");
            return Err(Error::from_op(error, Location::caller()));
        }
        match is_constant(&y)? {
            true => Ok(x.detach().zeros_like()),
            false => Ok(grad_with(&y, None, &[x], Graph::Create)?.remove(0)),
        }
    };
    jacobian(slope, x)
}
