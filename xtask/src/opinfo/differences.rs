//! The intended differences from PyTorch: the rows of xtask/opinfo/differences.yaml, and their text
//! in docs/ops.md.
//!
//! A row names operators by their OpInfo names, the outcome that it allows, and, to restrict the
//! cases, dtypes, a part of the call and a part of the finding. Users read its reason. A row that
//! matches nothing in a full run is an error, so the list stays true.

use anyhow::{Context, Result};
use gt_ir::op::OpKind;
use serde::Deserialize;
use serde_json::Value;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;

/// The file, relative to the root.
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
    /// A part of the finding.
    #[serde(default)]
    why: String,
    reason: String,
    /// The ops whose sections show the reason, if their names differ from the operators'.
    #[serde(default)]
    under: Vec<String>,
    /// The operators that the row has matched.
    #[serde(skip)]
    used: RefCell<BTreeSet<String>>,
}

/// A finding about a case, printed by a program.
pub(super) struct Finding<'a> {
    pub(super) op: &'a str,
    pub(super) case: &'a str,
    pub(super) call: &'a str,
    pub(super) outcome: &'a str,
    pub(super) why: &'a str,
}

impl Finding<'_> {
    /// The finding of a line, if the line is a finding.
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
    /// Reads the rows of the file.
    pub(crate) fn read(root: &Path) -> Result<Differences> {
        let text =
            std::fs::read_to_string(root.join(FILE)).with_context(|| format!("no {FILE}"))?;
        Differences::parse(&text)
    }

    pub(crate) fn parse(text: &str) -> Result<Differences> {
        Ok(Differences(serde_yaml::from_str(text).context(FILE)?))
    }

    /// Whether a row allows this finding.
    pub(super) fn allow(&self, finding: &Finding<'_>) -> bool {
        let Some(row) = self.0.iter().find(|row| row.allows(finding)) else { return false };
        row.used.borrow_mut().insert(finding.op.to_owned());
        true
    }

    /// The operators of rows that matched no finding of the operator.
    pub(super) fn unused(&self) -> Vec<String> {
        let of_row = |row: &Row| {
            let unused = row.ops.iter().filter(|op| !row.used.borrow().contains(*op));
            let line = |op: &String| format!("{op}, {}: {}", row.outcome, row.reason.trim());
            unused.map(line).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(of_row).collect()
    }

    /// The reasons in the section of an op.
    pub(crate) fn of_op(&self, kind: OpKind) -> Vec<&str> {
        let rows = self.0.iter().filter(|row| row.sections().any(|name| name == kind.name()));
        rows.map(|row| row.reason.trim()).collect()
    }

    /// The operators that are not ops of the table, with the reasons.
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

    /// The names of the sections that show the row.
    fn sections(&self) -> impl Iterator<Item = &str> {
        let own = self.ops.iter().filter(|_| self.under.is_empty()).map(|op| plain(op));
        own.chain(self.under.iter().map(String::as_str))
    }
}

/// The name of an operator without its module and its variant.
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
