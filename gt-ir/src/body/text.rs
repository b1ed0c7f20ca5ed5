//! The text form of a body: `mul(a0,a1)|add(v0,1.0)|v1,v0`, the instructions, then the results. It
//! stands in the brackets of an op, so it has no blanks.
//!
//! Guarantees: reads exactly what it writes; any other text is refused, also one whose brackets
//! nest deeper than those of loops in loops.

use std::{fmt, str::FromStr};

use smallvec::SmallVec;

use super::{Body, Lines, MAX_KEPT, Step, Term};
use crate::{attr::print_list, error::OpError, operand::MAX_OPERANDS};

/// What stands between the bodies of a choice.
pub(super) const ELSE: &str = "else";

/// The deepest brackets of a text that is read.
const MAX_DEPTH: usize = 16;

impl fmt::Display for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.steps {
            write!(f, "{}(", step.op)?;
            print_list(f, step.inputs.iter())?;
            f.write_str(")|")?;
        }
        print_list(f, self.results.iter())
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Term::Argument(i) => write!(f, "a{i}"),
            Term::Step(i) => write!(f, "v{i}"),
            Term::Scalar(scalar) => scalar.fmt(f),
        }
    }
}

/// Reads exactly what `Display` writes.
impl FromStr for Body {
    type Err = OpError;
    fn from_str(s: &str) -> Result<Body, OpError> {
        let body = lines(s).ok_or_else(|| OpError::new("not the body of a loop or a choice"))?;
        let body = Body::new(body)?;
        match body.0.text == s {
            true => Ok(body),
            false => Err(OpError::new(format!("the body of a loop or a choice is spelled {body}"))),
        }
    }
}

fn lines(s: &str) -> Option<Lines> {
    let (mut steps, mut rest) = (Vec::new(), s);
    while let Some(end) = outside(rest, '|')? {
        steps.push(step(&rest[..end], steps.len())?);
        rest = &rest[end + 1..];
    }
    let results: Vec<Term> = terms(rest, steps.len())?.into_iter().collect();
    Some(Lines { steps, results })
}

/// The texts of the two bodies of a choice.
pub(super) fn halves(s: &str) -> Option<(&str, &str)> {
    let mut start = 0;
    while let Some(end) = outside(&s[start..], '|')? {
        if &s[start..start + end] == ELSE {
            return Some((s[..start].strip_suffix('|')?, &s[start + end + 1..]));
        }
        start += end + 1;
    }
    None
}

fn step(s: &str, n_before: usize) -> Option<Step> {
    let open = outside(s, '(')??;
    let inputs = s[open + 1..].strip_suffix(')')?;
    Some(Step { op: s[..open].parse().ok()?, inputs: terms(inputs, n_before)? })
}

/// Whether the brackets of a text are not too deep to be read.
pub(super) fn can_be_read(s: &str) -> bool {
    outside(s, '\0').is_some()
}

/// The first place of a character outside of brackets; `None` if they are too deep.
fn outside(s: &str, wanted: char) -> Option<Option<usize>> {
    let mut depth = 0_usize;
    for (i, c) in s.char_indices() {
        match c {
            _ if c == wanted && depth == 0 => return Some(Some(i)),
            '[' | '(' if depth == MAX_DEPTH => return None,
            '[' | '(' => depth += 1,
            ']' | ')' => depth = depth.checked_sub(1)?,
            _ => {}
        }
    }
    Some(None)
}

fn terms(s: &str, n_steps: usize) -> Option<SmallVec<[Term; 3]>> {
    if s.is_empty() {
        return Some(SmallVec::new());
    }
    s.split(',').take(MAX_OPERANDS + 1).map(|term| self::term(term, n_steps)).collect()
}

fn term(s: &str, n_steps: usize) -> Option<Term> {
    let number = |digits: &str| digits.parse().ok().filter(|n| *n < MAX_KEPT);
    let term = match (s.strip_prefix('a'), s.strip_prefix('v')) {
        (Some(digits), _) => number(digits).map(Term::Argument),
        (_, Some(digits)) => number(digits).filter(|i| *i < n_steps).map(Term::Step),
        (None, None) => s.parse().ok().map(Term::Scalar),
    };
    term.filter(|term| term.to_string() == s)
}
