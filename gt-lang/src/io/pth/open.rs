//! The name of what a pickle was making when it went wrong, from what lies on the machine's stack.
//!
//! Guarantees: total on any stack; looks at each value once. Does not: name what was made before
//! and is only referred to.

use super::pickle::Value;

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
