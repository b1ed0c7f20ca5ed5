//! The expansion of `#[derive(Module)]`: three impls made of one pass over the fields.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{
    Attribute, Data, DataStruct, DeriveInput, Error, Expr, Fields, Ident, Result, Type,
    spanned::Spanned,
};

/// One field of the struct, with what its attributes ask for.
struct Field<'a> {
    name: &'a Ident,
    ty: &'a Type,
    options: Options,
}

/// The contents of `#[module(..)]` on one field.
#[derive(Default)]
struct Options {
    skip: bool,
    init: Option<Expr>,
}

/// The impls of `Module`, `Init` and `Display` for a struct with named fields.
pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    no_struct_options(&input.attrs)?;
    let fields = parse_fields(input)?;
    let impls = [module_impl(input, &fields), init_impl(input, &fields), display_impl(input)];
    Ok(impls.into_iter().collect())
}

fn no_struct_options(attrs: &[Attribute]) -> Result<()> {
    match attrs.iter().find(|a| a.path().is_ident("module")) {
        None => Ok(()),
        Some(attr) => Err(Error::new(attr.span(), "`#[module(..)]` belongs on a field")),
    }
}

fn parse_fields(input: &DeriveInput) -> Result<Vec<Field<'_>>> {
    let named = match &input.data {
        Data::Struct(DataStruct { fields: Fields::Named(named), .. }) => named,
        Data::Struct(DataStruct { fields: Fields::Unnamed(tuple), .. }) => {
            return Err(Error::new(
                tuple.span(),
                "a model's fields need names: parameters are named after them",
            ));
        }
        Data::Struct(DataStruct { fields: Fields::Unit, .. }) => {
            return Err(Error::new(
                input.ident.span(),
                "a model needs fields in braces: `struct Model { fc: Linear<..> }`",
            ));
        }
        Data::Enum(data) => {
            return Err(Error::new(
                data.enum_token.span(),
                "a model is a struct; `Module` cannot be derived for an enum",
            ));
        }
        Data::Union(data) => {
            return Err(Error::new(
                data.union_token.span(),
                "a model is a struct; `Module` cannot be derived for a union",
            ));
        }
    };
    let (mut fields, mut errors) = (Vec::new(), None::<Error>);
    for field in &named.named {
        match (&field.ident, parse_options(&field.attrs)) {
            (Some(name), Ok(options)) => fields.push(Field { name, ty: &field.ty, options }),
            (_, Err(error)) => combine(&mut errors, error),
            (None, Ok(_)) => {
                combine(&mut errors, Error::new(field.span(), "a model's fields need names"))
            }
        }
    }
    errors.map_or(Ok(fields), Err)
}

fn combine(errors: &mut Option<Error>, error: Error) {
    match errors {
        Some(all) => all.combine(error),
        None => *errors = Some(error),
    }
}

fn parse_options(attrs: &[Attribute]) -> Result<Options> {
    let mut options = Options::default();
    for attr in attrs.iter().filter(|a| a.path().is_ident("module")) {
        attr.parse_nested_meta(|meta| {
            if meta.path.is_ident("skip") {
                options.skip = true;
                Ok(())
            } else if meta.path.is_ident("init") {
                let expr = meta.value()?.parse()?;
                match options.init.replace(expr) {
                    None => Ok(()),
                    Some(_) => Err(meta.error("`init` is given twice")),
                }
            } else {
                Err(meta
                    .error("unknown option: the options of a field are `skip` and `init = expr`"))
            }
        })?;
    }
    Ok(options)
}

/// `Module`: children in the order of the fields, and the mode handed down to them.
fn module_impl(input: &DeriveInput, fields: &[Field<'_>]) -> TokenStream {
    let name = &input.ident;
    let (generics, args, bounds) = input.generics.split_for_impl();
    let parts: Vec<_> = fields.iter().filter(|f| !f.options.skip).collect();
    let visits = parts.iter().map(|f| {
        let (field, text) = (f.name, bare(f.name));
        // An error about the field's type points at that type.
        quote_spanned! { f.ty.span() => ::gt::nn::Module::visit_as(&self.#field, #text, visitor); }
    });
    let modes = parts.iter().map(|f| {
        let field = f.name;
        quote_spanned! { f.ty.span() => ::gt::nn::Module::set_mode(&mut self.#field, mode); }
    });
    let title = name.to_string();
    quote! {
        #[diagnostic::do_not_recommend]
        impl #generics ::gt::nn::Module for #name #args #bounds {
            fn describe(&self) -> ::std::string::String {
                ::std::string::String::from(#title)
            }
            fn visit(&self, visitor: &mut ::gt::nn::Visitor<'_>) {
                #(#visits)*
            }
            fn set_mode(&mut self, mode: ::gt::nn::Mode) {
                #(#modes)*
            }
        }
    }
}

/// `Init`, where each field without an `init` has it. The bounds name a lifetime they do not need: a bound that does not hold then
/// takes `new` away instead of being an error in itself.
fn init_impl(input: &DeriveInput, fields: &[Field<'_>]) -> TokenStream {
    let name = &input.ident;
    let mut generics = input.generics.clone();
    let clause = generics.make_where_clause();
    for field in fields.iter().filter(|f| f.options.init.is_none()) {
        let ty = field.ty;
        clause.predicates.push(syn::parse_quote! { for<'__gt> #ty: ::gt::nn::Init });
    }
    let values = fields.iter().map(|f| {
        let (field, ty) = (f.name, f.ty);
        match &f.options.init {
            Some(expr) => quote! { #field: #expr },
            None => quote! { #field: <#ty as ::gt::nn::Init>::init() },
        }
    });
    let (generics, args, bounds) = generics.split_for_impl();
    quote! {
        impl #generics ::gt::nn::Init for #name #args #bounds {
            fn init() -> Self {
                #name { #(#values),* }
            }
        }
    }
}

fn display_impl(input: &DeriveInput) -> TokenStream {
    let name = &input.ident;
    let (generics, args, bounds) = input.generics.split_for_impl();
    quote! {
        impl #generics ::std::fmt::Display for #name #args #bounds {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(&::gt::nn::Module::summary(self))
            }
        }
    }
}

/// The field's name as text: `r#type` is `type`.
fn bare(name: &Ident) -> syn::LitStr {
    let text = name.to_string();
    syn::LitStr::new(text.strip_prefix("r#").unwrap_or(&text), Span::call_site())
}

#[cfg(test)]
mod tests {
    use super::expand;

    fn check(input: &str) -> String {
        let input = syn::parse_str(input).expect("the test's input is Rust");
        match expand(&input) {
            Ok(tokens) => {
                prettyplease::unparse(&syn::parse2(tokens).expect("an expansion is Rust"))
            }
            Err(errors) => errors.into_iter().map(|e| format!("{}\n", e)).collect(),
        }
    }

    #[test]
    fn expansion() {
        insta::with_settings!({ snapshot_path => "../../../snapshots", prepend_module_to_snapshot => false }, {
            insta::assert_snapshot!("derive_module", check(
                "pub struct Block<H: Dim> {
                     ln: LayerNorm<H>,
                     #[module(init = repeat(2))]
                     layers: Vec<Linear<H, H>>,
                     #[module(skip, init = 0.5)]
                     scale: f64,
                     r#type: Linear<H, H>,
                 }",
            ));
        });
    }

    #[test]
    fn mistakes_are_named() {
        let cases = [
            ("enum A { B }", "a model is a struct; `Module` cannot be derived for an enum\n"),
            ("struct A(B);", "a model's fields need names: parameters are named after them\n"),
            ("struct A;", "a model needs fields in braces: `struct Model { fc: Linear<..> }`\n"),
            ("#[module(skip)] struct A { b: B }", "`#[module(..)]` belongs on a field\n"),
            (
                "struct A { #[module(skipp)] b: B, #[module(init = 1, init = 2)] c: C }",
                "unknown option: the options of a field are `skip` and `init = expr`\n`init` is given twice\n",
            ),
        ];
        for (input, want) in cases {
            assert_eq!(check(input), want, "{input}");
        }
    }
}
