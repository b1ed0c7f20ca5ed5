//! Functions whose gradient is written by hand: PyTorch's `torch.autograd.Function`.

use std::panic::Location;
use std::sync::Arc;

use gt_ir::{Op, Operand, ValueId};

use crate::core::capture;
use crate::core::record::try_record;
use crate::core::tensor::{
    ByHand, Call, Edge, Input, Node, Order, Repr, Rule, Saved, edge, tensor,
};
use crate::core::{Arg, DynTensor};
use crate::error::{Error, ErrorKind, Result};
use crate::no_grad::{is_grad_enabled, no_grad};

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

/// Applies a function with a gradient of its own.
#[must_use]
#[track_caller]
pub fn apply(function: impl Function, inputs: &[&DynTensor]) -> DynTensor {
    let inputs: Vec<DynTensor> = inputs.iter().map(|input| input.present()).collect();
    let plain: Vec<DynTensor> = inputs.iter().map(DynTensor::detach).collect();
    let output = no_grad(|| function.forward(&plain));
    if !inputs.iter().any(DynTensor::is_tracked) {
        return output.detach();
    }
    let rule =
        Handwritten(Arc::new(move |inputs, output, grad| function.backward(inputs, output, grad)));
    joined(&output, &inputs, Arc::new(rule), Location::caller())
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

/// The two closures of [`custom`].
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
    rule: Arc<dyn Rule>,
    at: &'static Location<'static>,
) -> DynTensor {
    if !is_grad_enabled() || !output.dtype().is_float() {
        return output.detach();
    }
    let (op, place) = (Op::Reshape(output.shape()), capture::place(at));
    let fresh = no_grad(|| try_record(&op, &[Arg::Tensor(&output.detach())], place));
    let fresh = match fresh {
        Ok(fresh) => fresh,
        Err(error) => return DynTensor::failed(error, output.ty()),
    };
    let (Some(id), Some(session)) = (fresh.value_id(), fresh.session()) else { return fresh };
    let value = fresh.value();
    let kept = inputs.iter().map(|tensor| Input {
        operand: tensor.value_id().map_or(Operand::Value(ValueId(u64::MAX)), Operand::Value),
        ty: tensor.ty(),
        value: Some(tensor.value()),
        edge: edge(tensor),
    });
    let kept = kept.collect();
    let saved = Saved { inputs: kept, output: Some(value.clone()), rule: Some(rule.clone()) };
    let loc = session.loc(place);
    let result = DynTensor(Repr::Tracked(value, Node::new(&op, loc, id, saved)));
    capture::note_rule(&op, &output.detach(), &result, (&rule, inputs), loc);
    result
}

/// The rule of a [`Function`].
pub(super) struct Handwritten(pub(super) Arc<ByHand>);

impl Rule for Handwritten {
    fn by_hand(&self) -> Option<&Arc<ByHand>> {
        Some(&self.0)
    }

    fn gradients(&self, call: Call) -> Result<Vec<(Edge, DynTensor)>> {
        let history = |edge| (call.order == Order::Higher).then_some(edge).flatten();
        let inputs = call.inputs.iter().map(|(value, edge)| tensor(value, history(edge.as_ref())));
        let inputs: Vec<DynTensor> = inputs.collect();
        let own = Edge::Node(call.node.clone());
        let output = tensor(&call.output, history(Some(&own)));
        let grads = (self.0)(&inputs, &output, &call.grad);
        if grads.len() != inputs.len() {
            let (n, of) = (grads.len(), inputs.len());
            let error = call.error(format!("backward gave {n} gradients for {of} inputs"));
            return Err(error.hint("give one for each input, `None` where there is none"));
        }
        let mut out = Vec::new();
        for ((grad, (_, edge)), input) in grads.into_iter().zip(&call.inputs).zip(&inputs) {
            let (Some(grad), Some(edge)) = (grad, edge) else { continue };
            call.fits("backward gave a gradient that is", &grad, input)?;
            let grad = if call.order == Order::First { grad.detach() } else { grad };
            out.push((edge.clone(), grad));
        }
        Ok(out)
    }
}

impl Call {
    /// Whether a tensor that a function gave has the dtype and sizes of the one it stands for.
    pub(super) fn fits(&self, what: &str, given: &DynTensor, wanted: &DynTensor) -> Result<()> {
        if let Some(error) = given.error() {
            return Err(error);
        }
        if given.dtype() == wanted.dtype() && given.shape().same_sizes(&wanted.shape()) {
            return Ok(());
        }
        Err(self.error(format!("{what} {}, but {} is needed", given.ty(), wanted.ty())))
    }

    /// The error of a function, at the line that applied it.
    fn error(&self, message: String) -> Error {
        Error::new(ErrorKind::Gradient, format!("custom function: {message}"), self.node.loc)
    }
}
