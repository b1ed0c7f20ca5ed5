//! Hints for words that the text form does not know: the word that was probably meant, and its
//! spelling.

use crate::{
    diagnostic::{Diagnostic, Span, nearest},
    op::{OpKind, ParseOpError},
    shape::Type,
};

/// The name in front of the brackets.
pub(super) fn head(atom: &str) -> &str {
    atom.split('[').next().unwrap_or(atom)
}

/// The op that an atom names, whatever its attribute.
pub(super) fn op_kind(atom: &str) -> Option<OpKind> {
    OpKind::ALL.iter().copied().find(|kind| kind.name() == head(atom))
}

/// The error with the nearest of the candidates as its hint, if one is near enough to be meant.
pub(super) fn suggest<'a>(
    error: Diagnostic,
    word: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Diagnostic {
    match nearest(word, candidates) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error,
    }
}

/// The error of an atom that is not an op: an unknown name, or a known one with an attribute that
/// it does not take, needs or cannot read. The hint has the right spelling.
pub(super) fn bad_op(atom: &str, span: Span, error: ParseOpError) -> Diagnostic {
    let Some(kind) = op_kind(atom) else {
        let error = Diagnostic::at(span, format!("unknown op `{}`", head(atom)));
        return suggest(error, head(atom), OpKind::ALL.iter().map(|kind| kind.name()));
    };
    let name = kind.name();
    match error {
        ParseOpError::Attribute("") => Diagnostic::at(span, format!("`{name}` takes no attribute"))
            .hint(format!("write `{name}`")),
        ParseOpError::Attribute(_) | ParseOpError::Unknown if !atom.contains('[') => {
            Diagnostic::at(span, format!("`{name}` needs an attribute"))
                .hint(format!("write `{name}[{}]`", kind.spec().attr))
        }
        ParseOpError::Attribute(_) | ParseOpError::Unknown => {
            let body = atom.get(name.len() + 1..atom.len() - 1).unwrap_or_default();
            let cause = if kind.spec().attr == "type" { body.parse::<Type>().err() } else { None };
            let message = cause.map_or_else(
                || format!("bad attribute in `{atom}`"),
                |error| format!("{name}: {}", error.message),
            );
            Diagnostic::at(span, message).hint(format!("write `{name}[{}]`", kind.spec().attr))
        }
    }
}

/// What to write instead of a word that is no operand. Integers above 64 bits and numbers with a
/// plus sign look like numbers, so they get hints of their own.
pub(super) fn scalar_hint(word: &str) -> String {
    let digits = word.strip_prefix(['-', '+']).unwrap_or(word);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return "operands are values (`%3`) and numbers (`1.5`, `2`, `true`, `inf`, `nan`)".into();
    }
    if word.starts_with('+') {
        format!("write `{digits}`")
    } else {
        "integers have 64 bits; write a float with a point".into()
    }
}
