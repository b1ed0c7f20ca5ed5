//! What a file may hold that cannot be read, in words: what it is, and what to save instead.
//!
//! Does not: decide what is read; `pickle` does.

use crate::io::Refusal;

/// Kinds of values by the names that pickles mention them by, and what to do about each.
const KINDS: &[(&[&str], &str, &str)] = &[
    (&["_rebuild_qtensor"], "a quantized tensor", "save `tensor.dequantize()`"),
    (&["_rebuild_sparse_tensor"], "a sparse tensor", "save `tensor.to_dense()`"),
    (&["_rebuild_nested_tensor"], "a nested tensor", "save `tensor.to_padded_tensor(0)`"),
    (
        &["_rebuild_parameter_with_state", "_rebuild_from_type_v2", "_rebuild_wrapper_subclass"],
        "a tensor of a class of its own, or one with attributes",
        "save `tensor.detach().as_subclass(torch.Tensor).clone()`",
    ),
    (
        &["_rebuild_meta_tensor_no_storage"],
        "a tensor on the device `meta`, which has no values",
        "give it values before it is saved",
    ),
    (
        &["_rebuild_device_tensor_from_numpy", "_rebuild_device_tensor_from_cpu_tensor"],
        "a tensor of another device",
        "save `tensor.cpu()`",
    ),
    (
        &["CharStorage", "ShortStorage"],
        "a tensor of small integers (int8, int16), dtypes without a counterpart here",
        "save `tensor.int()`",
    ),
    (
        &["QInt8Storage", "QUInt8Storage", "QInt32Storage", "QUInt4x2Storage", "QUInt2x4Storage"],
        "a quantized tensor",
        "save `tensor.dequantize()`",
    ),
    (
        &["_rebuild_tensor_v3", "UntypedStorage"],
        "a tensor of a dtype without a counterpart here",
        "save `tensor.float()`, or `tensor.long()`",
    ),
];

/// The error of a name that is not followed.
pub(super) fn refusal(module: &str, name: &str) -> Refusal {
    let ours = module.starts_with("torch");
    match KINDS.iter().find(|(names, ..)| ours && names.contains(&name)) {
        Some((_, what, cure)) => {
            Refusal::new(format!("{what} (`{module}.{name}`) cannot be read")).hint(*cure)
        }
        None => {
            let message = "which states do not need; it is not followed";
            Refusal::new(format!("the file mentions `{module}.{name}`, {message}"))
                .hint("save the values alone, as `torch.save(model.state_dict(), path)` does")
        }
    }
}

/// The error of a tensor whose values are to be changed in a way that is not known.
pub(super) fn lazy(what: &str) -> Refusal {
    let what: String = what.chars().take(40).collect();
    Refusal::new(format!(
        "the tensor's values are to be changed by `{what}`, which is not known here"
    ))
    .hint("save `tensor.resolve_conj().resolve_neg().clone()`")
}
