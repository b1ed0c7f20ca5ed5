//! The name of the language in the crate that uses a macro. A dependent may have given it any:
//! `tensors = { package = "gt-tensor", .. }`.

use proc_macro_crate::{FoundCrate, crate_name};
use proc_macro2::{Ident, Span, TokenStream};
use quote::quote_spanned;

/// The package of the language, and its library.
const PACKAGE: &str = "gt-tensor";
const LIBRARY: &str = "gt";

/// The path of the language, with the span of what an error in its use is about.
pub(crate) fn language(span: Span) -> TokenStream {
    let name = match crate_name(PACKAGE) {
        // Without a name of the dependent's own it is the name of the library.
        Ok(FoundCrate::Name(name)) if name != PACKAGE.replace('-', "_") => name,
        _ => LIBRARY.to_owned(),
    };
    let name = Ident::new(&name, span);
    quote_spanned! { span => ::#name }
}
