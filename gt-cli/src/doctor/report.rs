//! The findings, as text for a terminal and as an object for programs. This file looks at nothing
//! itself.

use gt_ir::error::Hinted;
use serde_json::{Map, Value, json};
use std::io::IsTerminal;

/// All findings, by subject.
pub(super) struct Report {
    pub(super) sections: Vec<Section>,
}

/// The findings about one subject.
pub(super) struct Section {
    name: &'static str,
    lines: Vec<Line>,
}

struct Line {
    name: String,
    text: String,
    value: Value,
    finding: Option<Finding>,
}

/// A problem that the user can fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    weight: Weight,
    pub(super) what: String,
    fix: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weight {
    /// A requested feature does not work.
    Trouble,
    /// Everything works, and could be better.
    Advice,
}

impl Finding {
    pub(super) fn trouble(what: impl Into<String>, fix: impl Into<String>) -> Finding {
        Finding { weight: Weight::Trouble, what: what.into(), fix: fix.into() }
    }

    pub(super) fn advice(what: impl Into<String>, fix: impl Into<String>) -> Finding {
        Finding { weight: Weight::Advice, what: what.into(), fix: fix.into() }
    }

    pub(super) fn is_trouble(&self) -> bool {
        self.weight == Weight::Trouble
    }

    /// A trouble from an error and its hint.
    pub(super) fn of(about: &str, error: &impl Hinted) -> Finding {
        let (what, fix) = (error.message(), error.hint().unwrap_or_default());
        Finding::trouble(format!("{about}: {what}"), fix)
    }
}

impl Section {
    pub(super) fn new(name: &'static str) -> Section {
        Section { name, lines: Vec::new() }
    }

    /// Adds a line whose value is its text.
    pub(super) fn say(&mut self, name: impl Into<String>, text: impl Into<String>) {
        let text = text.into();
        self.line(name, text.clone(), Value::String(text), None);
    }

    /// Adds a line: its text, its value for programs, and its problem.
    pub(super) fn line(
        &mut self,
        name: impl Into<String>,
        text: impl Into<String>,
        value: Value,
        finding: Option<Finding>,
    ) {
        self.lines.push(Line { name: name.into(), text: text.into(), value, finding });
    }
}

impl Report {
    fn findings(&self, weight: Weight) -> Vec<&Finding> {
        let lines = self.sections.iter().flat_map(|section| &section.lines);
        lines.filter_map(|line| line.finding.as_ref()).filter(|f| f.weight == weight).collect()
    }

    /// Whether everything requested works.
    pub(super) fn is_well(&self) -> bool {
        self.findings(Weight::Trouble).is_empty()
    }

    pub(super) fn json(&self) -> Value {
        let of = |weight| -> Vec<Value> {
            let findings = self.findings(weight).into_iter();
            findings.map(|f| json!({ "what": f.what, "fix": f.fix })).collect()
        };
        let mut object = Map::new();
        object.insert("ok".into(), self.is_well().into());
        for section in &self.sections {
            let lines = section.lines.iter().map(|line| (key(&line.name), line.value.clone()));
            object.insert(key(section.name), Value::Object(lines.collect()));
        }
        object.insert("troubles".into(), of(Weight::Trouble).into());
        object.insert("advice".into(), of(Weight::Advice).into());
        Value::Object(object)
    }

    pub(super) fn text(&self) -> String {
        let colors = std::io::stdout().is_terminal()
            && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let paint = Paint { colors };
        let mut text = String::new();
        for section in self.sections.iter().filter(|section| !section.lines.is_empty()) {
            text += &section.text(&paint);
        }
        for finding in self.findings(Weight::Trouble) {
            text += &finding.text(&paint.red("trouble"));
        }
        for finding in self.findings(Weight::Advice) {
            text += &finding.text(&paint.yellow("advice"));
        }
        text + if self.is_well() { "everything requested works\n" } else { "" }
    }
}

impl Section {
    fn text(&self, paint: &Paint) -> String {
        let width = self.lines.iter().map(|line| line.name.chars().count()).max().unwrap_or(0);
        let mut text = format!("{}\n", paint.bold(self.name));
        for Line { name, text: said, .. } in &self.lines {
            text += &format!("  {name:<width$}  {said}\n");
        }
        text + "\n"
    }
}

impl Finding {
    fn text(&self, label: &str) -> String {
        let fix = if self.fix.is_empty() {
            String::new()
        } else {
            format!("\n  to fix it: {}", self.fix.replace('\n', "\n    "))
        };
        format!("{label}: {}{fix}\n\n", self.what)
    }
}

/// A name as a key of an object.
fn key(name: &str) -> String {
    name.replace([' ', ':'], "_").to_lowercase()
}

struct Paint {
    colors: bool,
}

impl Paint {
    fn painted(&self, code: &str, text: &str) -> String {
        if self.colors { format!("\x1b[{code}m{text}\x1b[0m") } else { text.into() }
    }

    fn bold(&self, text: &str) -> String {
        self.painted("1", text)
    }

    fn red(&self, text: &str) -> String {
        self.painted("1;31", text)
    }

    fn yellow(&self, text: &str) -> String {
        self.painted("33", text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let mut section = Section::new("network");
        let fix = "gt-cli server -p 0";
        section.line("port", "taken", false.into(), Some(Finding::advice("it is taken", fix)));
        let error = gt_ir::OpError::new("no device").hint("cpu or cuda");
        section.line("a b", "x", 1.into(), Some(Finding::of("GT_DEVICE", &error)));
        Report { sections: vec![section] }
    }

    #[test]
    fn only_trouble_is_a_failure() {
        let mut report = report();
        assert!(!report.is_well());
        report.sections[0].lines.pop();
        assert!(report.is_well());
    }

    #[test]
    fn text_and_object_say_the_same() {
        let text = report().text();
        assert!(
            text.starts_with(
                "network\n  port  taken\n  a b   x\n\ntrouble: GT_DEVICE: no device\n  to fix \
                 it: cpu or cuda\n"
            ),
            "{text}"
        );
        assert!(
            text.ends_with("advice: it is taken\n  to fix it: gt-cli server -p 0\n\n"),
            "{text}"
        );
        let object = report().json();
        assert_eq!(object["network"], json!({ "port": false, "a_b": 1 }));
        assert_eq!(object["troubles"][0]["fix"], "cpu or cuda");
        assert_eq!(object["ok"], false);
    }
}
