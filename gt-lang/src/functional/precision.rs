//! The dtypes of losses and biases inside [`autocast`](crate::autocast()).

use std::borrow::Cow;

use gt_ir::DType;

use crate::autocast::autocast_dtype;
use crate::core::DynTensor;

/// A loss's operand: inside autocast losses are computed in `f32`.
#[track_caller]
pub(crate) fn full(x: &DynTensor) -> Cow<'_, DynTensor> {
    let is_narrow = matches!(x.dtype(), DType::Bf16 | DType::F16);
    if is_narrow && autocast_dtype().is_some() {
        Cow::Owned(x.to_dtype(DType::F32))
    } else {
        Cow::Borrowed(x)
    }
}

/// What is added to a product: inside autocast it takes the product's dtype, so that the sum keeps
/// it, as PyTorch's one operation for both does.
#[track_caller]
pub(crate) fn biased(product: &DynTensor, bias: &DynTensor) -> DynTensor {
    match autocast_dtype() {
        Some(_) if product.dtype() != bias.dtype() => product.add(&bias.to_dtype(product.dtype())),
        Some(_) | None => product.add(bias),
    }
}
