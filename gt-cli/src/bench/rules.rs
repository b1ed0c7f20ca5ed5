//! `gt-cli bench --rules`: the rules of the e-graph that fire in the step of each work, and the
//! time that the search saves, as the cost model estimates it. Only the time of planning is
//! measured.

use super::plan;
use super::works::Work;
use crate::args::ComputeArgs;
use crate::{files, system};
use anyhow::Result;
use gt_compiler::{Machine, Numerics, Options, Report, pipeline};
use gt_lang::Session;
use serde_json::{Value, json};
use std::path::Path;

/// The number of plannings, of which the fastest counts.
const RUNS: usize = 3;

/// Prints an object for each work and policy, and one with all rules.
pub(super) fn rules(works: &[&Work], compute: &ComputeArgs) -> Result<()> {
    for work in works {
        let session = Session::with_backend(system::open(None, compute, (false, None))?);
        let _current = session.enter();
        session.manual_seed(0);
        let graph = plan::recorded(&session, || Ok((work.prepare)()))?.graph;
        for numerics in Numerics::ALL {
            let options = Options { numerics, ..Options::default() };
            let plan = || pipeline::optimize(&graph, &options, &Machine::PROCESSOR);
            let reports = (0..RUNS).map(|_| Ok(plan()?.report)).collect::<Result<Vec<Report>>>()?;
            let line = format!("{}\n", object(work, numerics, &reports));
            files::write(Path::new("-"), line.as_bytes())?;
        }
    }
    let all: Vec<_> = pipeline::rules().map(|(rule, least)| [rule, least.name()]).collect();
    files::write(Path::new("-"), format!("{}\n", json!({ "all": all })).as_bytes())
}

fn object(work: &Work, numerics: Numerics, reports: &[Report]) -> Value {
    let search = |report: &Report| {
        let passes = report.passes.iter().filter(|pass| pass.name == "egraph");
        passes.map(|pass| pass.nanoseconds).sum::<u64>()
    };
    let fastest = |of: &dyn Fn(&Report) -> u64| reports.iter().map(of).min().unwrap_or_default();
    let report = &reports[0];
    json!({
        "work": work.name,
        "numerics": numerics.name(),
        "rules": report.rules,
        "patterns": report.recognized,
        "seconds": report.egraph.seconds,
        "improved": report.egraph.improved,
        "stop": report.egraph.stop,
        "blocks": [report.egraph.blocks, report.egraph.distinct],
        "search_ns": fastest(&search),
        "planning_ns": fastest(&|report| report.compile_ns),
    })
}
