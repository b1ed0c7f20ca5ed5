//! `#[signal("name")]` on the fields of a model: what it says, and the method that applies a layer
//! inside its signal.

use crate::named::language;
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{
    Attribute, Error, Ident, LitStr, Meta, Result, Token, Type, Visibility, parse::Parse,
    parse::ParseStream, spanned::Spanned,
};

/// The signal of one field.
pub(crate) struct Signal {
    name: LitStr,
    backward: Option<LitStr>,
    /// Nobody asked for this one by itself, so its method may well be unused.
    implied: bool,
}

/// What stands in the parentheses.
#[derive(Default)]
struct Said {
    name: Option<LitStr>,
    backward: Option<LitStr>,
}

impl Parse for Said {
    fn parse(input: ParseStream<'_>) -> Result<Said> {
        let mut said = Said::default();
        if !input.is_empty() && !input.peek(Ident) {
            said.name = Some(named(input)?);
        } else if input.peek(Ident) && !input.peek2(Token![=]) {
            return Err(input.error("the name of a signal is a string: `#[signal(\"layer1\")]`"));
        }
        if said.name.is_some() && !input.is_empty() {
            input.parse::<Token![,]>()?;
        }
        if !input.is_empty() {
            let key: Ident = input.parse()?;
            if key != "backward" {
                let message = "unknown option: a signal has a name and `backward = \"name\"`";
                return Err(Error::new(key.span(), message));
            }
            input.parse::<Token![=]>()?;
            said.backward = Some(named(input)?);
            input.parse::<Option<Token![,]>>()?;
        }
        Ok(said)
    }
}

fn named(input: ParseStream<'_>) -> Result<LitStr> {
    let name: LitStr = input.parse().map_err(|error| {
        Error::new(error.span(), "the name of a signal is a string: `#[signal(\"layer1\")]`")
    })?;
    if name.value().is_empty() {
        return Err(Error::new(name.span(), "the name of a signal is empty"));
    }
    Ok(name)
}

/// Whether the attributes of a struct ask for a signal for each of its fields.
pub(crate) fn for_all(attrs: &[Attribute]) -> Result<bool> {
    let Some(attr) = only(attrs)? else { return Ok(false) };
    match &attr.meta {
        Meta::Path(_) => Ok(true),
        Meta::List(_) | Meta::NameValue(_) => Err(Error::new(
            attr.meta.span(),
            "on a struct `#[signal]` puts each field under the signal of its own name; other \
             names belong on the fields",
        )),
    }
}

/// The signal that the attributes of a field ask for.
pub(crate) fn of_field(attrs: &[Attribute], name: &LitStr, all: bool) -> Result<Option<Signal>> {
    let Some(attr) = only(attrs)? else {
        return Ok(all.then(|| Signal { name: name.clone(), backward: None, implied: true }));
    };
    let Said { name: said, backward } = match &attr.meta {
        Meta::Path(_) => Said::default(),
        Meta::List(_) => attr.parse_args()?,
        Meta::NameValue(meta) => {
            let message = "a signal is named in parentheses: `#[signal(\"layer1\")]`";
            return Err(Error::new(meta.eq_token.span(), message));
        }
    };
    Ok(Some(Signal { name: said.unwrap_or_else(|| name.clone()), backward, implied: false }))
}

fn only(attrs: &[Attribute]) -> Result<Option<&Attribute>> {
    let mut ours = attrs.iter().filter(|attr| attr.path().is_ident("signal"));
    let first = ours.next();
    match ours.next() {
        None => Ok(first),
        Some(second) => Err(Error::new(second.span(), "a field has one signal")),
    }
}

impl Signal {
    /// An expression that opens its scope.
    fn scope(&self) -> TokenStream {
        let Signal { name, backward, .. } = self;
        let (backward, gt) = (backward.iter(), language(Span::call_site()));
        quote! { #gt::signal::scope(#name) #(.backward(#backward))* }
    }

    /// An expression evaluated in its scope.
    pub(crate) fn around(&self, expr: &TokenStream) -> TokenStream {
        let scope = self.scope();
        quote! {{
            let _scope = #scope;
            #expr
        }}
    }

    /// A method of the field's name that applies the layer in its scope.
    pub(crate) fn method(&self, vis: &Visibility, field: &Ident, ty: &Type) -> TokenStream {
        let (scope, gt) = (self.scope(), language(field.span()));
        let unused = self.implied.then(|| quote! { #[allow(dead_code)] });
        let doc = format!(" `{field}` applied to `x`, in the signal `{}`.", self.name.value());
        // As if it stood at the field, so that rustc names the field when nothing calls the method.
        quote_spanned! { field.span() =>
            #[doc = #doc]
            #unused
            #[track_caller]
            #vis fn #field<__X>(&self, x: &__X) -> <#ty as #gt::nn::Forward<__X>>::Out
            where
                #ty: #gt::nn::Forward<__X>,
            {
                let _scope = #scope;
                #gt::nn::Forward::forward(&self.#field, x)
            }
        }
    }
}
