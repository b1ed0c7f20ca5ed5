//! The expansion of `#[derive(Module)]`: the impls of three traits made of one pass over the
//! fields, and methods for those with signals.

use crate::named::language;
use crate::signal::{self, Signal};
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{
    Attribute, Data, DataStruct, DeriveInput, Error, Expr, Fields, FnArg, Ident, Result, Token,
    Type, Visibility, punctuated::Punctuated, spanned::Spanned,
};

/// One field of the struct, with what its attributes ask for.
struct Field<'a> {
    vis: &'a Visibility,
    name: &'a Ident,
    ty: &'a Type,
    options: Options,
    signal: Option<Signal>,
}

/// The contents of `#[module(..)]` on one field.
#[derive(Default)]
struct Options {
    skip: bool,
    init: Option<Expr>,
}

/// The impls of `Module`, `Init` and `Display` for a struct with named fields.
pub(crate) fn expand(input: &DeriveInput) -> Result<TokenStream> {
    let new_args = parse_args(&input.attrs)?;
    let fields = parse_fields(input)?;
    let impls = [
        module_impl(input, &fields),
        match &new_args {
            Some(new_args) => new_impl(input, &fields, new_args),
            None => init_impl(input, &fields),
        },
        display_impl(input),
        signal_impl(input, &fields),
    ];
    Ok(impls.into_iter().collect())
}

/// The arguments of a model's `new`.
type Args = Punctuated<FnArg, Token![,]>;

/// What `#[module(args(c: Config))]` on the struct says; none is a model that is built without
/// being told anything.
fn parse_args(attrs: &[Attribute]) -> Result<Option<Args>> {
    let mut args = None;
    for attr in attrs.iter().filter(|a| a.path().is_ident("module")) {
        attr.parse_nested_meta(|meta| {
            if !meta.path.is_ident("args") {
                return Err(meta.error(
                    "a struct has the option `args(name: Type, ..)`; `skip` and `init` belong on \
                     a field",
                ));
            }
            let inside;
            syn::parenthesized!(inside in meta.input);
            let parsed = Args::parse_terminated(&inside)?;
            if let Some(FnArg::Receiver(receiver)) = parsed.first() {
                return Err(Error::new(receiver.span(), "`new` has no `self`"));
            }
            match args.replace(parsed) {
                None => Ok(()),
                Some(_) => Err(meta.error("`args` is given twice")),
            }
        })?;
    }
    Ok(args)
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
    let all = signal::for_all(&input.attrs)?;
    let (mut fields, mut errors) = (Vec::new(), None::<Error>);
    for field in &named.named {
        match parse_field(field, all) {
            Ok(field) => fields.push(field),
            Err(error) => combine(&mut errors, error),
        }
    }
    errors.map_or(Ok(fields), Err)
}

fn parse_field(field: &syn::Field, all_signaled: bool) -> Result<Field<'_>> {
    let Some(name) = &field.ident else {
        return Err(Error::new(field.span(), "a model's fields need names"));
    };
    let options = parse_options(&field.attrs)?;
    let signal = signal::of_field(&field.attrs, &bare(name), all_signaled && !options.skip)?;
    if options.skip && signal.is_some() {
        let message = "a field that is no part of the model has no signal";
        return Err(Error::new(name.span(), message));
    }
    Ok(Field { vis: &field.vis, name, ty: &field.ty, options, signal })
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
        let gt = language(f.ty.span());
        quote_spanned! { f.ty.span() => #gt::nn::Module::visit_as(&self.#field, #text, visitor); }
    });
    let modes = parts.iter().map(|f| {
        let field = f.name;
        let gt = language(f.ty.span());
        quote_spanned! { f.ty.span() => #gt::nn::Module::set_mode(&mut self.#field, mode); }
    });
    let (title, gt) = (name.to_string(), language(Span::call_site()));
    quote! {
        #[diagnostic::do_not_recommend]
        impl #generics #gt::nn::Module for #name #args #bounds {
            fn describe(&self) -> ::std::string::String {
                ::std::string::String::from(#title)
            }
            fn visit(&self, visitor: &mut #gt::nn::Visitor<'_>) {
                #(#visits)*
            }
            fn set_mode(&mut self, mode: #gt::nn::Mode) {
                #(#modes)*
            }
        }
    }
}

/// `Init`, where each field without an `init` has it.
fn init_impl(input: &DeriveInput, fields: &[Field<'_>]) -> TokenStream {
    let (name, generics, values) = (&input.ident, buildable(input, fields), values(fields));
    let (generics, args, bounds) = generics.split_for_impl();
    let gt = language(Span::call_site());
    quote! {
        impl #generics #gt::nn::Init for #name #args #bounds {
            fn init() -> Self {
                #name { #(#values),* }
            }
        }
    }
}

/// `new` with arguments, which the `init`s of the fields may use.
fn new_impl(input: &DeriveInput, fields: &[Field<'_>], new_args: &Args) -> TokenStream {
    let (name, generics, values) = (&input.ident, buildable(input, fields), values(fields));
    let (generics, args, bounds) = generics.split_for_impl();
    let vis = &input.vis;
    quote! {
        impl #generics #name #args #bounds {
            /// The model for these arguments, with the initialization of all its parts.
            #[must_use]
            #[track_caller]
            #vis fn new(#new_args) -> Self {
                #name { #(#values),* }
            }
        }
    }
}

/// The generics of a struct whose fields can be built. The bounds name a lifetime they do not need:
/// a bound that does not hold then takes `new` away instead of being an error in itself.
fn buildable(input: &DeriveInput, fields: &[Field<'_>]) -> syn::Generics {
    let mut generics = input.generics.clone();
    let clause = generics.make_where_clause();
    let gt = language(Span::call_site());
    for field in fields.iter().filter(|f| f.options.init.is_none()) {
        let ty = field.ty;
        clause.predicates.push(syn::parse_quote! { for<'__gt> #ty: #gt::nn::Init });
    }
    generics
}

/// `field: value` for each field.
fn values(fields: &[Field<'_>]) -> Vec<TokenStream> {
    let gt = language(Span::call_site());
    let value = |f: &Field<'_>| {
        let (field, ty) = (f.name, f.ty);
        let value = match &f.options.init {
            Some(expr) => quote! { #expr },
            None => quote! { <#ty as #gt::nn::Init>::init() },
        };
        let value = f.signal.as_ref().map_or(value.clone(), |signal| signal.around(&value));
        quote! { #field: #value }
    };
    fields.iter().map(value).collect()
}

fn display_impl(input: &DeriveInput) -> TokenStream {
    let name = &input.ident;
    let (generics, args, bounds) = input.generics.split_for_impl();
    let gt = language(Span::call_site());
    quote! {
        impl #generics ::std::fmt::Display for #name #args #bounds {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(&#gt::nn::Module::summary(self))
            }
        }
    }
}

/// For each field with a signal, a method of its name that applies it there.
fn signal_impl(input: &DeriveInput, fields: &[Field<'_>]) -> TokenStream {
    let methods =
        fields.iter().filter_map(|f| Some(f.signal.as_ref()?.method(f.vis, f.name, f.ty)));
    let methods: Vec<_> = methods.collect();
    if methods.is_empty() {
        return TokenStream::new();
    }
    let name = &input.ident;
    let (generics, args, bounds) = input.generics.split_for_impl();
    quote! {
        impl #generics #name #args #bounds {
            #(#methods)*
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
        insta::with_settings!({
            snapshot_path => "../../../snapshots",
            prepend_module_to_snapshot => false
        }, {
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
    fn expansion_with_arguments() {
        insta::with_settings!({
            snapshot_path => "../../../snapshots",
            prepend_module_to_snapshot => false
        }, {
            insta::assert_snapshot!("derive_module_args", check(
                "#[module(args(c: &Config, depth: usize))]
                 pub struct Gpt {
                     #[module(init = Embedding::with_sizes(c.vocabulary, c.width))]
                     tokens: Embedding,
                     drop: Dropout,
                 }",
            ));
        });
    }

    #[test]
    fn expansion_with_signals() {
        insta::with_settings!({
            snapshot_path => "../../../snapshots",
            prepend_module_to_snapshot => false
        }, {
            insta::assert_snapshot!("derive_module_signals", check(
                "pub struct Mlp<H: Dim> {
                     #[signal(\"layer1\", backward = \"layer1_grad\")]
                     fc1: Linear<N<784>, H>,
                     #[signal]
                     #[module(init = repeat(2))]
                     pub layers: Stack<H>,
                     fc2: Linear<H, N<10>>,
                 }",
            ));
            insta::assert_snapshot!("derive_module_signal_each", check(
                "#[signal] struct Mlp {
                     fc1: Linear<N<2>, N<3>>,
                     #[module(skip)] n: usize,
                     #[signal(\"out\")] fc2: Linear<N<3>, N<2>>
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
            (
                "#[module(skip)] struct A { b: B }",
                "a struct has the option `args(name: Type, ..)`; `skip` and `init` belong on a \
                 field\n",
            ),
            ("#[module(args(self))] struct A { b: B }", "`new` has no `self`\n"),
            ("#[module(args(a: A), args(a: A))] struct A { b: B }", "`args` is given twice\n"),
            (
                "struct A { #[module(skipp)] b: B, #[module(init = 1, init = 2)] c: C }",
                "unknown option: the options of a field are `skip` and `init = expr`\n`init` is \
                 given twice\n",
            ),
            (
                "struct A { #[signal(layer1)] b: B, #[signal(1)] c: C, #[signal(\"\")] d: D, \
                 #[signal = \"x\"] e: E }",
                "the name of a signal is a string: `#[signal(\"layer1\")]`\nthe name of a signal \
                 is a string: `#[signal(\"layer1\")]`\nthe name of a signal is empty\na signal is \
                 named in parentheses: `#[signal(\"layer1\")]`\n",
            ),
            (
                "struct A { #[signal(\"x\", bakward = \"y\")] b: B, #[signal] #[signal] c: C, \
                 #[signal] #[module(skip)] d: D }",
                "unknown option: a signal has a name and `backward = \"name\"`\na field has one \
                 signal\na field that is no part of the model has no signal\n",
            ),
            (
                "#[signal(\"x\")] struct A { b: B }",
                "on a struct `#[signal]` puts each field under the signal of its own name; other \
                 names belong on the fields\n",
            ),
        ];
        for (input, want) in cases {
            assert_eq!(check(input), want, "{input}");
        }
    }
}
