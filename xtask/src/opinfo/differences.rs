//! Where GT differs from PyTorch and is meant to: the rows of xtask/opinfo/differences.yaml, and
//! what docs/ops.md says of them.
//!
//! A row names operators as OpInfo does, the outcome it allows, and, where it is not for all cases,
//! dtypes and parts of the call and of what was found. Its reason is what users read. A row that
//! nothing was found for in a full run is an error, so that the list says what is.

use anyhow::{Context, Result};
use gt_ir::op::OpKind;
use serde::Deserialize;
use serde_json::Value;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;

/// The file, from the root.
pub(crate) const FILE: &str = "xtask/opinfo/differences.yaml";

/// One intended difference.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    ops: Vec<String>,
    outcome: String,
    #[serde(default)]
    dtypes: Vec<String>,
    /// A part of the call.
    #[serde(default)]
    call: String,
    /// A part of what was found.
    #[serde(default)]
    why: String,
    reason: String,
    /// The ops of the table whose sections tell it, where operators have other names.
    #[serde(default)]
    under: Vec<String>,
    /// The operators it was found for.
    #[serde(skip)]
    used: RefCell<BTreeSet<String>>,
}

/// What a program says of a case.
pub(super) struct Finding<'a> {
    pub(super) op: &'a str,
    pub(super) case: &'a str,
    pub(super) call: &'a str,
    pub(super) outcome: &'a str,
    pub(super) why: &'a str,
}

impl Finding<'_> {
    /// The finding of a line, if it is one.
    pub(super) fn of(line: &Value) -> Option<Finding<'_>> {
        let text = |name: &str| line[name].as_str();
        Some(Finding {
            op: text("op")?,
            case: text("case")?,
            call: text("call")?,
            outcome: text("outcome")?,
            why: text("why").unwrap_or_default(),
        })
    }
}

pub(crate) struct Differences(Vec<Row>);

impl Differences {
    /// The file's rows.
    pub(crate) fn read(root: &Path) -> Result<Differences> {
        let text =
            std::fs::read_to_string(root.join(FILE)).with_context(|| format!("no {FILE}"))?;
        Differences::parse(&text)
    }

    pub(crate) fn parse(text: &str) -> Result<Differences> {
        Ok(Differences(serde_yaml::from_str(text).context(FILE)?))
    }

    /// Whether a row allows this.
    pub(super) fn allow(&self, finding: &Finding<'_>) -> bool {
        let Some(row) = self.0.iter().find(|row| row.allows(finding)) else { return false };
        row.used.borrow_mut().insert(finding.op.to_owned());
        true
    }

    /// The operators of rows that allowed nothing of them.
    pub(super) fn unused(&self) -> Vec<String> {
        let of_row = |row: &Row| {
            let unused = row.ops.iter().filter(|op| !row.used.borrow().contains(*op));
            let told = |op: &String| format!("{op}, {}: {}", row.outcome, row.reason.trim());
            unused.map(told).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(of_row).collect()
    }

    /// What the section of an op of the table says.
    pub(crate) fn of_op(&self, kind: OpKind) -> Vec<&str> {
        let rows = self.0.iter().filter(|row| row.sections().any(|name| name == kind.name()));
        rows.map(|row| row.reason.trim()).collect()
    }

    /// What is told of operators that are no rows of the table: their names, and the reason.
    pub(crate) fn of_functions(&self) -> Vec<(String, &str)> {
        let is_op = |name: &str| OpKind::ALL.iter().any(|kind| kind.name() == name);
        let others = |row: &Row| {
            let names = row.ops.iter().filter(|op| row.under.is_empty() && !is_op(plain(op)));
            let mut names: Vec<String> = names.map(|op| format!("`{}`", plain(op))).collect();
            names.dedup();
            names.join(", ")
        };
        let all = self.0.iter().map(|row| (others(row), row.reason.trim()));
        all.filter(|(names, _)| !names.is_empty()).collect()
    }
}

impl Row {
    fn allows(&self, finding: &Finding<'_>) -> bool {
        let dtype = finding.case.split(':').next().unwrap_or_default();
        self.ops.iter().any(|op| op == finding.op)
            && self.outcome == finding.outcome
            && (self.dtypes.is_empty() || self.dtypes.iter().any(|d| d == dtype))
            && finding.call.contains(&self.call)
            && finding.why.contains(&self.why)
    }

    /// The names its sections may have.
    fn sections(&self) -> impl Iterator<Item = &str> {
        let own = self.ops.iter().filter(|_| self.under.is_empty()).map(|op| plain(op));
        own.chain(self.under.iter().map(String::as_str))
    }
}

/// An operator without its module and its variant.
fn plain(op: &str) -> &str {
    let name = op.split('/').next().unwrap_or(op);
    name.rsplit('.').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &str = "
- ops: [sum, nn.functional.relu]
  outcome: differ
  dtypes: [f32]
  why: signs of zero
  reason: Zero has no sign.
- ops: [t]
  outcome: refused
  reason: A vector has no columns.
";

    #[test]
    fn a_row_allows_what_it_names_and_nothing_else() {
        let rows = Differences::parse(ROWS).unwrap();
        let found =
            |op, case, outcome, why| rows.allow(&Finding { op, case, call: "", outcome, why });
        let zeros = "signs of zero in 1";
        assert!(found("sum", "f32:sample:1", "differ", zeros));
        assert!(!found("sum", "f64:sample:1", "differ", zeros));
        assert!(!found("sum", "f32:sample:1", "differ", "values in 1"));
        assert!(!found("t", "f32:sample:1", "differ", ""));
        assert_eq!(rows.unused().len(), 2);
    }

    #[test]
    fn sections_have_what_is_theirs() {
        let rows = Differences::parse(ROWS).unwrap();
        assert_eq!(rows.of_op(OpKind::Relu), ["Zero has no sign."]);
        assert_eq!(rows.of_op(OpKind::Exp), Vec::<&str>::new());
        assert_eq!(rows.of_functions(), [("`t`".to_owned(), "A vector has no columns.")]);
    }
}
