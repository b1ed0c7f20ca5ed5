//! The expansion of `seq!`: `x => a, b` is `b.forward(&a.forward(&x))`, each call spanned as its step.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{
    Expr, Result, Token, parse::ParseStream, parse::Parser, punctuated::Punctuated,
    spanned::Spanned,
};

/// Nested calls of `forward`, the first step innermost.
pub(crate) fn expand(input: TokenStream) -> Result<TokenStream> {
    let parse = |input: ParseStream<'_>| {
        let start: Expr = input.parse()?;
        input.parse::<Token![=>]>()?;
        Ok((start, Punctuated::<Expr, Token![,]>::parse_terminated(input)?))
    };
    let (start, steps) = parse.parse2(input)?;
    let mut value = quote! { #start };
    for step in &steps {
        value = quote_spanned! { step.span() => (#step).forward(&#value) };
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::expand;

    #[test]
    fn steps_nest_from_left_to_right() {
        let check = |input: &str, want: &str| {
            let tokens =
                expand(input.parse().expect("the test's input is tokens")).map(|t| t.to_string());
            assert_eq!(tokens.unwrap_or_else(|e| e.to_string()), want);
        };
        check("x => a, Relu,", "(Relu) . forward (& (a) . forward (& x))");
        check("x =>", "x");
        check("x, a", "expected `=>`");
    }
}
