//! Functions whose gradient is written by hand: PyTorch's `torch.autograd.Function`.

use std::panic::Location;
use std::sync::Arc;

use gt_ir::{Op, Shape};

use super::backward::Order;
use super::checkpoint::Recompute;
use super::node::{Edge, Node, Saved, edge, tensor};
use crate::core::record::try_record;
use crate::core::tensor::Repr;
use crate::core::{Arg, DynTensor};
use crate::error::{Error, ErrorKind, Result};
use crate::no_grad::{is_grad_enabled, no_grad};
use crate::session::Place;

/// A function with a gradient of its own.
pub trait Function: Send + Sync + 'static {
    /// The value. Not tracked: gradients come from [`Function::backward`] alone.
    fn forward(&self, inputs: &[DynTensor]) -> DynTensor;

    /// The gradient of each input, of its type, from that of the output; `None` where there is
    /// none. Where gradients of gradients are asked for, what this records is tracked.
    fn backward(
        &self,
        inputs: &[DynTensor],
        output: &DynTensor,
        grad: &DynTensor,
    ) -> Vec<Option<DynTensor>>;
}

/// A rule of a node that is not an op's.
#[derive(Clone)]
pub(crate) enum Custom {
    Function(Arc<dyn Function>),
    Recompute(Recompute),
}

/// Applies a function with a gradient of its own.
#[must_use]
#[track_caller]
pub fn apply(function: impl Function, inputs: &[&DynTensor]) -> DynTensor {
    let inputs: Vec<DynTensor> = inputs.iter().map(|&input| input.clone()).collect();
    let plain: Vec<DynTensor> = inputs.iter().map(DynTensor::detach).collect();
    let output = no_grad(|| function.forward(&plain));
    if !inputs.iter().any(DynTensor::is_tracked) {
        return output.detach();
    }
    joined(&output, &inputs, Custom::Function(Arc::new(function)), Location::caller())
}

/// [`apply`] for two closures: the value, and the gradients from inputs, output and its gradient.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// # let x = DynTensor::from([0.2f32, 0.7]).requires_grad();
/// // Rounds, and lets the gradient pass.
/// let rounded = autograd::custom(
///     &[&x],
///     |inputs| inputs[0].round(),
///     |_inputs, _output, grad| vec![Some(grad.clone())],
/// );
/// ```
#[must_use]
#[track_caller]
pub fn custom<F, B>(inputs: &[&DynTensor], forward: F, backward: B) -> DynTensor
where
    F: Fn(&[DynTensor]) -> DynTensor + Send + Sync + 'static,
    B: Fn(&[DynTensor], &DynTensor, &DynTensor) -> Vec<Option<DynTensor>> + Send + Sync + 'static,
{
    apply(Pair(forward, backward), inputs)
}

struct Pair<F, B>(F, B);

impl<F, B> Function for Pair<F, B>
where
    F: Fn(&[DynTensor]) -> DynTensor + Send + Sync + 'static,
    B: Fn(&[DynTensor], &DynTensor, &DynTensor) -> Vec<Option<DynTensor>> + Send + Sync + 'static,
{
    fn forward(&self, inputs: &[DynTensor]) -> DynTensor {
        (self.0)(inputs)
    }

    fn backward(
        &self,
        inputs: &[DynTensor],
        output: &DynTensor,
        grad: &DynTensor,
    ) -> Vec<Option<DynTensor>> {
        (self.1)(inputs, output, grad)
    }
}

/// The output as the result of a node with this rule. It becomes a value of its own, since the
/// function may have returned something older, and the walk goes by age.
pub(super) fn joined(
    output: &DynTensor,
    inputs: &[DynTensor],
    custom: Custom,
    at: &'static Location<'static>,
) -> DynTensor {
    if !is_grad_enabled() || !output.dtype().is_float() {
        return output.detach();
    }
    let (op, place) = (Op::Reshape(output.shape()), Place::Caller(at));
    let fresh = no_grad(|| try_record(&op, &[Arg::Tensor(&output.detach())], place));
    let fresh = match fresh {
        Ok(fresh) => fresh,
        Err(error) => return DynTensor::failed(error, output.ty()),
    };
    let (Some(id), Some(session)) = (fresh.value_id(), fresh.session()) else { return fresh };
    let value = fresh.value();
    let node = Node::custom(&op, session.loc(place), inputs, (id, &value), custom);
    DynTensor(Repr::Tracked(value, node))
}

/// One use of a rule in a walk.
pub(super) struct Call {
    pub(super) inputs: Vec<DynTensor>,
    edges: Vec<Option<Edge>>,
    output: Option<DynTensor>,
    grad: DynTensor,
    order: Order,
    rule: Option<Custom>,
    node: Arc<Node>,
}

impl Call {
    pub(super) fn new(node: &Arc<Node>, saved: &Saved, grad: DynTensor, order: Order) -> Call {
        let history = |edge: Option<&Edge>| match (&saved.custom, order) {
            (Some(Custom::Function(_)), Order::First) => None,
            _ => edge.cloned(),
        };
        let inputs = saved.inputs.iter().filter_map(|input| {
            Some(tensor(input.value.as_ref()?, history(input.edge.as_ref()).as_ref()))
        });
        let own = Edge::Node(node.clone());
        let output = saved.output.as_ref();
        Call {
            inputs: inputs.collect(),
            edges: saved.inputs.iter().map(|input| input.edge.clone()).collect(),
            output: output.map(|value| tensor(value, history(Some(&own)).as_ref())),
            grad,
            order,
            rule: saved.custom.clone(),
            node: node.clone(),
        }
    }

    /// What goes where.
    pub(super) fn gradients(self) -> Result<Vec<(Edge, DynTensor)>> {
        match (&self.rule, &self.output) {
            (Some(Custom::Recompute(rule)), _) => {
                let again = rule.run(&self.inputs);
                self.fits("checkpoint: the function computed again gives", &again, &self.grad)?;
                Ok(edge(&again).map(|edge| (edge, self.grad.clone())).into_iter().collect())
            }
            (Some(Custom::Function(function)), Some(output)) => {
                let grads = function.backward(&self.inputs, output, &self.grad);
                self.checked(grads)
            }
            _ => Ok(Vec::new()),
        }
    }

    /// The gradients with where they go; each must have the type of its input.
    fn checked(&self, grads: Vec<Option<DynTensor>>) -> Result<Vec<(Edge, DynTensor)>> {
        if grads.len() != self.inputs.len() {
            let (n, of) = (grads.len(), self.inputs.len());
            let error = self.error(format!("backward gave {n} gradients for {of} inputs"));
            return Err(error.hint("give one for each input, `None` where there is none"));
        }
        let mut out = Vec::new();
        for ((grad, edge), input) in grads.into_iter().zip(&self.edges).zip(&self.inputs) {
            let (Some(grad), Some(edge)) = (grad, edge) else { continue };
            self.fits("backward gave a gradient that is", &grad, input)?;
            let grad = if self.order == Order::First { grad.detach() } else { grad };
            out.push((edge.clone(), grad));
        }
        Ok(out)
    }

    fn fits(&self, what: &str, given: &DynTensor, wanted: &DynTensor) -> Result<()> {
        if let Some(error) = given.error() {
            return Err(error);
        }
        let sizes = |t: &DynTensor| -> (gt_ir::DType, Shape) { (t.dtype(), t.shape()) };
        let ((a, given_shape), (b, shape)) = (sizes(given), sizes(wanted));
        if a == b && given_shape.same_sizes(&shape) {
            return Ok(());
        }
        Err(self.error(format!("{what} {}, but {} is needed", given.ty(), wanted.ty())))
    }

    fn error(&self, message: String) -> Error {
        Error::new(ErrorKind::Gradient, format!("custom function: {message}"), self.node.loc)
    }
}
