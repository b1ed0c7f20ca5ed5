//! The expansion of `seq!`: `x => a, b` is `b.forward(&a.forward(&x))`, each call spanned as its
//! step; `x => f(_)` is `f(&x)`.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{
    Error, Expr, Result, Token, parse::ParseStream, parse::Parser, punctuated::Punctuated,
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
    steps.into_iter().try_fold(quote! { #start }, |value, step| {
        let span = step.span();
        Ok(match placed(step, &value)? {
            Placed::Call(call) => quote! { #call },
            Placed::Layer(layer) => quote_spanned! { span => (#layer).forward(&#value) },
        })
    })
}

/// A step of a sequence.
enum Placed {
    /// A call that says with `_` where the tensor goes, with the tensor there.
    Call(Expr),
    /// Anything else: a layer.
    Layer(Expr),
}

fn placed(mut step: Expr, value: &TokenStream) -> Result<Placed> {
    let args = match &mut step {
        Expr::MethodCall(call) => &mut call.args,
        Expr::Call(call) => &mut call.args,
        _ => return Ok(Placed::Layer(step)),
    };
    let mut places = args.iter_mut().filter(|arg| matches!(arg, Expr::Infer(_)));
    let Some(place) = places.next() else { return Ok(Placed::Layer(step)) };
    if let Some(second) = places.next() {
        return Err(Error::new(second.span(), "a step takes the tensor once"));
    }
    *place = Expr::Verbatim(quote_spanned! { place.span() => &#value });
    Ok(Placed::Call(step))
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
        check("x => self.a(_), Relu", "(Relu) . forward (& self . a (& x))");
        check("x => a, mix(1, _), c", "(c) . forward (& mix (1 , & (a) . forward (& x)))");
        check("x => make(1)", "(make (1)) . forward (& x)");
        check("x => f(_, _)", "a step takes the tensor once");
        check("x =>", "x");
        check("x, a", "expected `=>`");
    }
}
