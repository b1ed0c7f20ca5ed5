//! A timeline as events of Chrome's trace format, which Perfetto reads as well.

use super::model::Timeline;
use super::read::Party;
use serde_json::{Value, json};

/// The file.
pub(super) fn events(timeline: &Timeline) -> String {
    let process = |party: Party| match party {
        Party::Client => 1,
        Party::Server => 2,
        Party::Worker => 3,
    };
    let names = [(1, "clients"), (2, "dispatcher"), (3, "workers")].map(|(pid, name)| {
        json!({"ph": "M", "pid": pid, "name": "process_name", "args": {"name": name}})
    });
    let lanes = timeline.lanes.iter().enumerate().flat_map(|(n, lane)| {
        let pid = process(lane.party);
        let name = json!({"ph": "M", "pid": pid, "tid": n, "name": "thread_name",
                          "args": {"name": lane.name}});
        let spans = lane.spans.iter().map(move |span| {
            let phase = if span.took > 0.0 { "X" } else { "i" };
            json!({"ph": phase, "pid": pid, "tid": n, "ts": span.at, "dur": span.took, "s": "t",
                   "name": span.name, "cat": span.kind.name(), "args": {"details": span.details}})
        });
        std::iter::once(name).chain(spans)
    });
    let memory = timeline.memory.iter().flat_map(|memory| {
        let name = format!("memory {}", memory.worker);
        memory.samples.iter().map(move |(at, bytes)| {
            json!({"ph": "C", "pid": 3, "ts": at, "name": name, "args": {"bytes": bytes}})
        })
    });
    let all: Vec<Value> = names.into_iter().chain(lanes).chain(memory).collect();
    json!({"displayTimeUnit": "ms", "traceEvents": all}).to_string()
}
