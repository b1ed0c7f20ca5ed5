//! A timeline as events of Chrome's trace format, which Perfetto reads as well.

use super::model::Timeline;
use super::read::Party;
use gt_ir::units;
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
    let flows = timeline.transfers.iter().enumerate().flat_map(|(n, transfer)| {
        // An arrow binds to what is at its end (`bp`): a mark, as a lane may have no span there.
        let end = |phase: &str, lane: usize, at: f64| {
            let pid = process(timeline.lanes[lane].party);
            let mark = json!({"ph": "i", "pid": pid, "tid": lane, "ts": at, "s": "t",
                              "name": units::bytes(transfer.bytes), "cat": "transfer"});
            let flow = json!({"ph": phase, "bp": "e", "id": n, "pid": pid, "tid": lane, "ts": at,
                              "name": "transfer", "cat": "transfer"});
            [mark, flow]
        };
        let end_at = transfer.at + transfer.took;
        [end("s", transfer.from, transfer.at), end("f", transfer.to, end_at)].concat()
    });
    let all: Vec<Value> = names.into_iter().chain(lanes).chain(flows).chain(memory).collect();
    json!({"displayTimeUnit": "ms", "traceEvents": all}).to_string()
}
