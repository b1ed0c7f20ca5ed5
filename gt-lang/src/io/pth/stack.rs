//! The values on the stack of a pickle machine, and the dictionary keys that say where it stands.
//!
//! Guarantees: the keys are found on any stack, with one look at each value. Does not: find the
//! keys of a dictionary that was finished before and is only referred to.

use gt_ir::DType;

/// A value on the machine's stack; what holds others stands in a list of the machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    Mark,
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(usize),
    Tuple(usize),
    List(usize),
    Dict(usize),
    Global(Global),
    Storage(usize),
    Tensor(usize),
}

/// The names a state may mention.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Global {
    OrderedDict,
    Tensor,
    Parameter,
    Size,
    Storage(Kind),
}

/// What the elements of a storage are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Kind {
    /// The dtype of the numbers, or of the parts of complex ones.
    pub(super) dtype: DType,
    pub(super) is_complex: bool,
}

impl Kind {
    /// Bytes of an element.
    pub(super) fn width(self) -> usize {
        self.dtype.size() * if self.is_complex { 2 } else { 1 }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let complex = if self.is_complex { "complex numbers of " } else { "" };
        write!(f, "{complex}{}", self.dtype)
    }
}

/// The keys of the dictionaries that are open on the stack, outermost first.
pub(super) fn names(stack: &[Value], key: impl Fn(Value) -> Option<String>) -> Vec<String> {
    let mut names = Vec::new();
    let mut rest = stack;
    while let Some(at) = rest.iter().position(|value| matches!(value, Value::Dict(_))) {
        rest = &rest[at + 1..];
        // Several items come behind a mark, a single one without.
        if let [Value::Mark, items @ ..] = rest {
            rest = items;
        }
        while let [_, value, next @ ..] = rest {
            if is_unfinished(*value, next) {
                break;
            }
            rest = next;
        }
        if let [last, inner @ ..] = rest {
            names.extend(key(*last));
            rest = inner;
        }
    }
    names
}

/// Whether this is not yet the value it is to be: a function before its arguments, or a container
/// being filled.
fn is_unfinished(value: Value, next: &[Value]) -> bool {
    let filled =
        matches!(value, Value::Dict(_) | Value::List(_)) && next.first() == Some(&Value::Mark);
    filled || matches!(value, Value::Global(_) | Value::Mark)
}
