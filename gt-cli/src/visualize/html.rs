//! A timeline as one page with zoom, search and hover. The page loads nothing.

use super::model::{Kind, Timeline, legend};
use super::svg::{cut, time};
use serde_json::{Value, json};

const PAGE: &str = include_str!("page.html");
/// The most spans in a page; the longest are kept.
const MAX_SPANS: usize = 250_000;
/// The most samples of memory of a worker.
const MAX_SAMPLES: usize = 4000;
/// The most characters of the details of a span.
const MAX_DETAILS: usize = 240;

/// The page.
pub(super) fn page(timeline: &Timeline, title: &str) -> String {
    // Within a script, `<` could end it.
    let data = data(timeline, title).to_string().replace('<', "\\u003c");
    PAGE.replacen("/*DATA*/null", &data, 1)
}

fn data(timeline: &Timeline, title: &str) -> Value {
    let least = least(timeline);
    let number = |kind: Kind| Kind::ALL.iter().position(|k| *k == kind);
    let lanes = timeline.lanes.iter().map(|lane| {
        let spans = lane.spans.iter().filter(|span| span.took >= least).map(|span| {
            let details = cut(&span.details, MAX_DETAILS);
            json!([
                span.at,
                span.took,
                number(span.kind),
                cut(&span.name, 80),
                details,
                span.color()
            ])
        });
        json!({"name": lane.short(24), "spans": spans.collect::<Vec<_>>()})
    });
    let memory = timeline.memory.iter().map(|memory| {
        // Of samples that are too many, the highest of each few.
        let every = memory.samples.len().div_ceil(MAX_SAMPLES).max(1);
        let most = memory.samples.iter().map(|(_, bytes)| *bytes).max().unwrap_or(1).max(1);
        let highest = |few: &[(f64, u64)]| few.iter().copied().max_by_key(|(_, bytes)| *bytes);
        let samples: Vec<_> = memory.samples.chunks(every).filter_map(highest).collect();
        json!({"worker": memory.worker, "most": most, "samples": samples})
    });
    let transfers = timeline.transfers.iter().map(|t| json!([t.at, t.from, t.to, t.bytes, t.took]));
    let spans = timeline.lanes.iter().flat_map(|lane| &lane.spans);
    json!({
        "title": title,
        "about": format!("{} of {}, {} events", time(timeline.length),
                         timeline.processes.join(", "), timeline.n_events),
        "length": timeline.length,
        "longest": spans.map(|span| span.took).fold(0.0, f64::max),
        "kinds": Kind::ALL.map(|kind| [kind.name(), kind.color()]),
        "legend": legend(&timeline.lanes),
        "lanes": lanes.collect::<Vec<_>>(),
        "transfers": transfers.collect::<Vec<_>>(),
        "memory": memory.collect::<Vec<_>>(),
        "notes": timeline.notes,
    })
}

/// The shortest time of a span that is in the page.
fn least(timeline: &Timeline) -> f64 {
    let spans = timeline.lanes.iter().flat_map(|lane| &lane.spans);
    let mut times: Vec<f64> = spans.map(|span| span.took).collect();
    if times.len() <= MAX_SPANS {
        return 0.0;
    }
    times.sort_by(|a, b| b.total_cmp(a));
    times[MAX_SPANS]
}
