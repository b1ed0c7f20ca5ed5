//! The macros of GT's language: `#[derive(Module)]` and `seq!`.
//!
//! Guarantees: the struct stays as written, no second type appears; what is generated refers to the
//! language by the name that the dependent gave it; a mistake in the input is reported at the
//! offending token, all mistakes of one struct at once. It knows nothing of tensors or shapes: it
//! walks fields, the traits of `gt::nn` do the rest.

mod module;
mod named;
mod seq;
mod signal;

use proc_macro::TokenStream;

/// Makes a plain struct a model: `Module` (parameters with dotted names, train/eval), `Init`
/// (`Model::new()`, where every field can be built) and `Display` (the layers with their parameter
/// counts).
///
/// Fields may carry `#[module(skip)]` (not a part of the model: no parameters inside) and
/// `#[module(init = expr)]` (how `new` builds it). `#[module(args(c: &Config))]` on the struct
/// gives `new` arguments, which the `init`s of the fields use: `Model::new(&config)`.
///
/// With `#[signal("layer1")]` a field has a signal: its parameters are created in it, and a method
/// of the field's name applies it there, so that `self.fc1(&x)` is `self.fc1.forward(&x)` inside
/// `signal::scope("layer1")`. `#[signal]` takes the field's own name, `#[signal("layer1", backward
/// = "grad1")]` names the signal of its gradients, and `#[signal]` on the struct is one on every
/// field.
///
/// Only the method enters the signal. `self.fc1.forward(&x)` applies the layer where it is called,
/// since a field is what its type makes it; so does a bare `self.fc1` in [`seq!`](macro@seq), where
/// `self.fc1(_)` is the method. rustc says ``method `fc1` is never used`` of a private field's
/// signal that nothing enters.
#[proc_macro_derive(Module, attributes(module, signal))]
pub fn derive_module(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    module::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Passes a tensor through layers from left to right: `seq!(x => self.fc1, Relu, self.fc2)`.
///
/// A step is anything with a `forward(&x)`: a layer, a model, or an activation value such as
/// `Relu`. A call with `_` in place of one argument is given the tensor there: `seq!(x =>
/// self.fc1(_), Relu, self.attend(_, &mask))`. The sequence is an expression, not a type: it is
/// nested calls, and an error points at the step that does not fit.
#[proc_macro]
pub fn seq(input: TokenStream) -> TokenStream {
    seq::expand(input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}
