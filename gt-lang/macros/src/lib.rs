//! The macros of GT's language: `#[derive(Module)]`.
//!
//! Guarantees: the struct stays as written, no second type appears; what is generated refers to the language as `::gt`; a mistake in
//! the input is reported at the offending token, all mistakes of one struct at once.
//! It knows nothing of tensors or shapes: it walks fields, the traits of `gt::nn` do the rest.

mod module;

use proc_macro::TokenStream;

/// Makes a plain struct a model: `Module` (parameters with dotted names, train/eval), `Init` (`Model::new()`, where every field can
/// be built) and `Display` (the layers with their parameter counts).
///
/// Fields may carry `#[module(skip)]` (not a part of the model: no parameters inside) and `#[module(init = expr)]` (how `new` builds it).
#[proc_macro_derive(Module, attributes(module))]
pub fn derive_module(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    module::expand(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}
