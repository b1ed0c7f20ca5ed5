//! The timeline of a profile as events of Chrome's trace format, which Perfetto reads as well.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::attribute::{Place, lines, places};
use super::recorder::{Lane, Name, Recorder, Span};
use super::report::line_of;

/// The number of the process in the file.
const PROCESS: u32 = 1;

/// The jobs of a plan as the timeline shows them: name, and lines.
struct Shown(Vec<(String, String)>);

/// All events: names of lanes, spans, and memory as a counter.
pub(super) fn events(recorder: &Recorder) -> Vec<Value> {
    let lanes: std::collections::BTreeSet<&Lane> = recorder.spans.iter().map(|s| &s.lane).collect();
    let lanes: BTreeMap<&Lane, usize> = lanes.into_iter().zip(1..).collect();
    let plans: Vec<Shown> = recorder.plans.iter().map(shown).collect();
    let names = lanes.iter().map(|(lane, n)| {
        let name = match lane {
            Lane::Program => "program".to_owned(),
            Lane::Worker(name) => format!("worker {name}"),
            Lane::Compiler => "compiler".to_owned(),
        };
        json!({"ph": "M", "pid": PROCESS, "tid": n, "name": "thread_name", "args": {"name": name}})
    });
    let spans = recorder.spans.iter().flat_map(|span| {
        let lane = lanes.get(&span.lane).copied().unwrap_or(0);
        of_span(span, lane, &plans)
    });
    let memory = recorder.samples.iter().map(|&(at, bytes, _)| {
        json!({"ph": "C", "pid": PROCESS, "ts": micros(at), "name": "memory",
               "args": {"bytes": bytes}})
    });
    names.chain(spans).chain(memory).collect()
}

fn shown(plan: &super::recorder::Launches) -> Shown {
    let places: Vec<Place> = places(plan);
    let jobs = plan.program.jobs();
    Shown(jobs.iter().map(|job| (job.name.clone(), lines(job, &places).join(", "))).collect())
}

fn of_span(span: &Span, lane: usize, plans: &[Shown]) -> Vec<Value> {
    let event = |name: &str, at: u64, nanos: u64, lines: &str| {
        json!({"ph": "X", "pid": PROCESS, "tid": lane, "ts": micros(at), "dur": micros(nanos),
               "name": name, "args": {"lines": lines}})
    };
    match &span.name {
        Name::At(name, loc) => vec![event(name, span.at, span.nanos, &line_of(*loc))],
        Name::Plan(number, jobs) => {
            let mut all = vec![event("plan", span.at, span.nanos, "")];
            let names = plans.get(*number).map(|plan| &plan.0[..]).unwrap_or_default();
            // What a run takes beside its kernels comes mostly before them.
            let inner: u64 = jobs.iter().sum();
            let mut at = span.at + span.nanos.saturating_sub(inner);
            for (nanos, (name, lines)) in jobs.iter().zip(names) {
                all.push(event(name, at, *nanos, lines));
                at += nanos;
            }
            all
        }
    }
}

fn micros(nanos: u64) -> f64 {
    nanos as f64 / 1e3
}
