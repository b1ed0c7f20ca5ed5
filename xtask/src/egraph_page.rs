//! docs/egraph.md: which rules of the e-graph fire in the works of `gt-cli bench`, and what the
//! search saves by the estimate of the cost model. Counts and estimates do not depend on the
//! machine; the times are of the one that wrote the page.

use anyhow::{Context, Result};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use crate::shell::cargo;

const PAGE: &str = "docs/egraph.md";

const HEAD: &str = "\
# What the e-graph earns

<!-- written by `cargo xtask egraph` -->

The e-graph searches for a cheaper equal program in the step of each work of `gt-cli bench`,
under each numerics policy. *Estimate* is the cost of the step before and after the search, by the
cost model. A search that finds nothing cheaper leaves the graph as it is. *Search* is the time of
the search in milliseconds, *planning* the time of all passes. Tests show for each rule that it
fires on random programs, that both of its sides compute the same, and that a filetest becomes
cheaper by it.
";

/// A line of `gt-cli bench --rules`.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    All { all: Vec<[String; 2]> },
    Work(Work),
}

/// A work under a policy.
#[derive(Deserialize)]
struct Work {
    work: String,
    numerics: String,
    rules: Vec<(String, usize)>,
    seconds: [f64; 2],
    improved: bool,
    stop: String,
    blocks: [usize; 2],
    search_ns: u64,
    planning_ns: u64,
}

/// Writes the page anew.
pub(crate) fn write(root: &Path) -> Result<()> {
    let bench = ["run", "--release", "-p", "gt-cli", "--", "bench", "--rules"];
    let lines = cargo(&bench).read()?;
    std::fs::write(root.join(PAGE), page(&lines)?).with_context(|| format!("cannot write {PAGE}"))
}

fn page(lines: &str) -> Result<String> {
    let (mut works, mut all) = (Vec::new(), Vec::new());
    for line in lines.lines() {
        match serde_json::from_str(line).with_context(|| format!("not a work: {line}"))? {
            Line::All { all: rules } => all = rules,
            Line::Work(work) => works.push(work),
        }
    }
    Ok(format!("{HEAD}{}{}", searches(&works)?, rules(&works, &all)?))
}

fn searches(works: &[Work]) -> Result<String> {
    let mut text = "\n| work | policy | estimate, µs | saved | blocks (distinct) | ended by \
                    | search | planning |\n|---|---|---:|---:|---:|---|---:|---:|\n"
        .to_owned();
    for work in works {
        let [before, after] = work.seconds.map(|seconds| seconds * 1e6);
        let saved = if work.improved {
            format!("{:.1} %", (1.0 - after / before) * 100.0)
        } else {
            String::new()
        };
        let [search, planning] = [work.search_ns, work.planning_ns].map(|ns| ns as f64 / 1e6);
        writeln!(
            text,
            "| `{}` | {} | {before:.1} → {after:.1} | {saved} | {} ({}) | {} \
             | {search:.2} | {planning:.2} |",
            work.work, work.numerics, work.blocks[0], work.blocks[1], work.stop
        )?;
    }
    Ok(text)
}

fn rules(works: &[Work], all: &[[String; 2]]) -> Result<String> {
    let mut found: BTreeMap<&str, Vec<&Work>> = BTreeMap::new();
    for work in works {
        for (rule, _) in &work.rules {
            found.entry(rule).or_default().push(work);
        }
    }
    let mut text =
        "\n## Rules that fire\n\n| rule | from policy | works |\n|---|---|---|\n".to_owned();
    let mut silent = Vec::new();
    for [rule, policy] in all {
        let Some(works) = found.get(rule.as_str()) else {
            silent.push(format!("`{rule}` ({policy})"));
            continue;
        };
        let mut names: Vec<String> = works.iter().map(|work| format!("`{}`", work.work)).collect();
        names.dedup();
        writeln!(text, "| `{rule}` | {policy} | {} |", names.join(", "))?;
    }
    writeln!(text, "\n## Rules that fire in none of the works\n\n{}", silent.join(", "))?;
    Ok(text)
}
