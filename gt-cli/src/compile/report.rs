//! The report of a compilation, as text and as an object. Only the object contains times, so texts
//! are equal in every run.

use anyhow::Result;
use gt_compiler::report::Search;
use gt_compiler::{Cost, Report};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Costs before and after, as comments.
pub(super) fn costs(report: &Report) -> String {
    let mut text = format!("# {:<16} {:>14} {:>14}\n", "cost", "before", "after");
    let Report { before, after, nodes, peak, .. } = report;
    let of = |cost: &Cost| [cost.bytes, cost.flops, cost.launches];
    let names = ["bytes", "flops", "launches"];
    let rows = names.iter().zip(of(before)).zip(of(after)).map(|((name, b), a)| (*name, b, a));
    let rows =
        rows.chain([("nodes", nodes[0] as u64, nodes[1] as u64), ("peak bytes", peak[0], peak[1])]);
    for (name, before, after) in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# {name:<16} {before:>14} {after:>14}");
    }
    let micro = |cost: &Cost| format!("{:.3}", cost.seconds * 1e6);
    let _ = writeln!(text, "# {:<16} {:>14} {:>14}", "microseconds", micro(before), micro(after));
    text
}

/// The result of the search for cheaper equal programs, with its rules and patterns.
pub(super) fn search(report: &Report) -> String {
    let Search { blocks, distinct, nodes, classes, iterations, stop, improved, seconds: _ } =
        &report.egraph;
    let mut text = format!(
        "# e-graph: {blocks} blocks, {distinct} distinct; {nodes} nodes in {classes} classes \
         after {iterations} iterations; {stop}; {}\n",
        if *improved { "a cheaper program was taken" } else { "the program as given was cheapest" }
    );
    for (title, list) in [("patterns", &report.recognized), ("rules", &report.rules)] {
        let _ = writeln!(text, "# {title}{}", if list.is_empty() { ": none" } else { "" });
        for (name, count) in list {
            let _ = writeln!(text, "{name:<32} {count:>6}");
        }
    }
    let _ = writeln!(text, "# nodes after each pass");
    for pass in &report.passes {
        let _ = writeln!(text, "{:<32} {:>6}", pass.name, pass.nodes);
    }
    text + &costs(report)
}

/// The whole report.
pub(super) fn json(report: &Report) -> Result<Value> {
    let pairs = |list: &[(String, usize)]| {
        list.iter().map(|(name, count)| json!({ "name": name, "count": count })).collect::<Vec<_>>()
    };
    let mut object = serde_json::to_value(report)?;
    object["rules"] = json!(pairs(&report.rules));
    object["recognized"] = json!(pairs(&report.recognized));
    Ok(object)
}
