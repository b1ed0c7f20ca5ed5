//! The GT call for each operator of PyTorch: rows of a name, a signature and a call, grouped as in
//! GT's own files.
//!
//! A name is OpInfo's name, followed by a slash and the variant. A row makes the call that a user
//! of GT would write in place of PyTorch's. It computes nothing else, except to convert PyTorch's
//! order of arguments and axes. A row reports arguments that it cannot express as absent.

mod fft;
mod functional;
mod linalg;
mod movement;
mod parts;
mod pointwise;
mod reduce;
mod source;

use gt::DynTensor;
use serde_json::{Value, json};

use crate::arguments::{Arguments, Outcome};

/// One operator of PyTorch.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// PyTorch's names of the arguments in PyTorch's order, with defaults.
    pub(crate) signature: &'static str,
    /// Whether values are random, so that only types are compared.
    pub(crate) random: bool,
    pub(crate) run: fn(&Arguments<'_>) -> Outcome<Vec<DynTensor>>,
}

/// The results of a row's call, as a list.
trait Results {
    fn list(self) -> Vec<DynTensor>;
}

impl Results for DynTensor {
    fn list(self) -> Vec<DynTensor> {
        vec![self]
    }
}

impl Results for (DynTensor, DynTensor) {
    fn list(self) -> Vec<DynTensor> {
        vec![self.0, self.1]
    }
}

impl Results for Vec<DynTensor> {
    fn list(self) -> Vec<DynTensor> {
        self
    }
}

/// Rows: `"name", "signature" => |arguments| call;`, with `random` before the arrow if values are
/// random.
macro_rules! rows {
    ($($name:literal, $signature:literal $($random:ident)? => |$a:ident| $call:expr;)*) => {
        pub(super) const ROWS: &[super::Row] = &[$(super::Row {
            name: $name,
            signature: $signature,
            random: rows!(@random $($random)?),
            run: |$a| Ok(super::Results::list($call)),
        }),*];
    };
    (@random) => { false };
    (@random random) => { true };
}
use rows;

const THEMES: &[&[Row]] = &[
    pointwise::ROWS,
    reduce::ROWS,
    movement::ROWS,
    parts::ROWS,
    source::ROWS,
    functional::ROWS,
    linalg::ROWS,
    fft::ROWS,
];

/// The row of this name.
pub(crate) fn row(name: &str) -> Option<&'static Row> {
    THEMES.iter().flat_map(|rows| rows.iter()).find(|row| row.name == name)
}

/// The names of all rows, for the first answer.
pub(crate) fn list() -> Value {
    let names: Vec<&str> = THEMES.iter().flat_map(|rows| rows.iter()).map(|row| row.name).collect();
    json!({ "rows": names })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use gt::ir::OpKind;

    /// Ops without an operator of the same name in PyTorch, and the operators that test them.
    const ELSEWHERE: &[(&str, &str)] = &[
        ("cast", "to"),
        ("gelu_tanh", "nn.functional.gelu"),
        ("iota", "arange"),
        ("rand", "rand_like"),
        ("pad", "constant_pad_nd"),
        ("slice_assign", "slice_scatter"),
        ("scaled_dot_product_attention_grad", "nn.functional.scaled_dot_product_attention"),
        ("fold", "unfold"),
        ("max", "amax"),
        ("min", "amin"),
        ("div", "true_divide"),
        ("scatter_max", "scatter_reduce/amax"),
        ("scatter_min", "scatter_reduce/amin"),
        ("scatter_mul", "scatter_reduce/prod"),
        ("norm", "linalg.vector_norm"),
        ("triangular_solve", "linalg.solve_triangular"),
        ("determinant", "linalg.det"),
    ];

    /// Ops without any operator in PyTorch: its loops and choices are functions of Python.
    const NOWHERE: &[&str] = &["scan", "cond"];

    /// Public functions without an operator in PyTorch.
    const OURS: &[&str] = &["attention_weights", "rotary_embedding", "rotary_tables"];

    fn names() -> BTreeSet<&'static str> {
        super::THEMES.iter().flat_map(|rows| rows.iter()).map(|row| row.name).collect()
    }

    #[test]
    fn names_are_there_once() {
        let n_rows: usize = super::THEMES.iter().map(|rows| rows.len()).sum();
        assert_eq!(names().len(), n_rows);
    }

    #[test]
    fn every_op_is_compared_with_one_of_pytorch() {
        let names = names();
        let plain = |name: &str| {
            let name = name.split('/').next().unwrap_or(name);
            name.rsplit('.').next().unwrap_or(name).to_owned()
        };
        let known: BTreeSet<String> = names.iter().map(|name| plain(name)).collect();
        let seen_elsewhere =
            |op: &str| ELSEWHERE.iter().any(|(name, row)| *name == op && names.contains(row));
        let ops = OpKind::ALL.iter().map(|kind| kind.name()).filter(|op| !NOWHERE.contains(op));
        let missing: Vec<&str> =
            ops.filter(|op| !known.contains(*op) && !seen_elsewhere(op)).collect();
        assert!(missing.is_empty(), "{missing:?} stand in no row");
    }

    #[test]
    fn every_function_is_called_by_a_row() {
        called(
            include_str!("../../../gt-lang/src/functional/mod.rs"),
            include_str!("table/functional.rs"),
        );
        called(include_str!("../../../gt-lang/src/linalg/mod.rs"), include_str!("table/linalg.rs"));
    }

    /// The functions that a module exports are called by these rows.
    fn called(public: &str, calls: &str) {
        let lists = public.split("pub use ").skip(1);
        let lists = lists.filter_map(|rest| rest.split(';').next()?.split("::").nth(1));
        let words = lists.flat_map(|list| list.split(|c: char| !c.is_alphanumeric() && c != '_'));
        let functions = words.filter(|word| word.starts_with(char::is_lowercase));
        let named =
            |f: &str| calls.contains(&format!("{f}(")) || calls.contains(&format!(", {f})"));
        // A function with default arguments calls the one with the suffix.
        let called =
            |f: &str| named(f) || calls.contains(&format!("{f}_with")) || OURS.contains(&f);
        let missing: Vec<&str> = functions.filter(|f| !called(f)).collect();
        assert!(missing.is_empty(), "{missing:?} are called by no row");
    }
}
