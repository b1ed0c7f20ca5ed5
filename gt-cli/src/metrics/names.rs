//! The metrics by name, as a table: what Prometheus reads, the guide lists and dashboards draw.
//!
//! Times are in seconds and sizes in bytes. Counters only grow while the server runs. The number of
//! series is limited: of sessions, those that have run longest are named.

use gt_runtime::wire::{SessionStatus, Status, Work, WorkerStatus};
use std::cmp::Reverse;
use std::fmt::Write as _;

/// The most sessions that are named.
const MOST_SESSIONS: usize = 100;
/// The most links that are named.
const MOST_LINKS: usize = 500;

/// A metric.
pub(super) struct Metric {
    pub(super) name: &'static str,
    /// Whether it only grows.
    pub(super) counts: bool,
    /// What it says.
    pub(super) help: &'static str,
    read: Read,
}

/// How a metric is read.
enum Read {
    Server(fn(&Status) -> f64),
    /// Segments by the way in which they ran.
    Ways(fn(&Status) -> Work),
    Worker(fn(&WorkerStatus) -> f64),
    WorkerWays,
    Session(fn(&SessionStatus) -> f64),
    /// Bytes of links in both directions.
    Links,
    Queued,
}

const fn counter(name: &'static str, help: &'static str, read: Read) -> Metric {
    Metric { name, counts: true, help, read }
}

const fn gauge(name: &'static str, help: &'static str, read: Read) -> Metric {
    Metric { name, counts: false, help, read }
}

#[rustfmt::skip]
pub(super) const METRICS: &[Metric] = &[
    gauge("gt_up_info", "1, with the version of the server.", Read::Server(|_| 1.0)),
    gauge("gt_ending", "1 while the server drains.", Read::Server(|s| f64::from(u8::from(s.ending)))),
    gauge("gt_workers", "Workers that are ready.", Read::Server(|s| s.workers.len() as f64)),
    gauge("gt_sessions", "Open sessions.", Read::Server(|s| s.n_sessions as f64)),
    gauge("gt_kept_bytes", "Bytes that the dispatcher keeps for sessions.", Read::Server(|s| s.kept as f64)),
    counter("gt_sessions_opened_total", "Sessions that were opened.", Read::Server(|s| s.totals.opened as f64)),
    counter("gt_sessions_killed_total", "Sessions that somebody ended.", Read::Server(|s| s.totals.killed as f64)),
    counter("gt_workers_joined_total", "Workers that joined.", Read::Server(|s| s.totals.joined as f64)),
    counter("gt_workers_lost_total", "Workers that ended without a good-bye, or with sessions on them.", Read::Server(|s| s.totals.lost as f64)),
    counter("gt_workers_left_total", "Workers that said good-bye and had no session.", Read::Server(|s| s.totals.left as f64)),
    counter("gt_refused_total", "Peers that were refused.", Read::Server(|s| s.totals.refused as f64)),
    counter("gt_segments_total", "Segments that ran, as plans or instruction by instruction.", Read::Ways(|s| s.totals.work)),
    counter("gt_instructions_total", "Instructions that ran.", Read::Server(|s| s.totals.work.instructions as f64)),
    counter("gt_worker_busy_seconds_total", "Time in which segments ran on a worker.", Read::Worker(|w| seconds(w.work.busy))),
    counter("gt_worker_segments_total", "Segments that a worker ran.", Read::WorkerWays),
    counter("gt_worker_instructions_total", "Instructions that a worker ran.", Read::Worker(|w| w.work.instructions as f64)),
    gauge("gt_worker_memory_bytes", "Memory of a worker for values.", Read::Worker(|w| w.memory as f64)),
    gauge("gt_worker_used_bytes", "Memory that values take on a worker.", Read::Worker(|w| w.used as f64)),
    gauge("gt_worker_queue", "Segments that a worker has and that have not run.", Read::Worker(|w| w.queue as f64)),
    gauge("gt_worker_sessions", "Sessions that live on a worker.", Read::Worker(|w| w.sessions as f64)),
    counter("gt_session_busy_seconds_total", "Time of workers that a session has used.", Read::Session(|s| seconds(s.work.busy))),
    counter("gt_session_segments_total", "Segments of a session that ran.", Read::Session(|s| s.work.segments as f64)),
    counter("gt_session_instructions_total", "Instructions of a session that ran.", Read::Session(|s| s.work.instructions as f64)),
    counter("gt_session_up_bytes_total", "Bytes of tensors that a session has sent.", Read::Session(|s| s.up as f64)),
    counter("gt_session_down_bytes_total", "Bytes of tensors that a session has read.", Read::Session(|s| s.down as f64)),
    counter("gt_session_plans_total", "Programs that were compiled for a session.", Read::Session(|s| s.plans as f64)),
    counter("gt_session_compile_seconds_total", "Time of compiling for a session.", Read::Session(|s| seconds(s.compiled))),
    gauge("gt_session_live_bytes", "Bytes of the live values of a session.", Read::Session(|s| s.bytes as f64)),
    gauge("gt_session_values", "Live values of a session.", Read::Session(|s| s.values as f64)),
    gauge("gt_session_waiting", "Segments of a session that have not run.", Read::Session(|s| s.waiting as f64)),
    counter("gt_link_bytes_total", "Bytes that went from one end of a link to the other.", Read::Links),
    gauge("gt_link_queued_bytes", "Bytes that wait to go over a link.", Read::Queued),
];

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

/// All metrics in the text format of Prometheus.
pub(super) fn exposition(status: &Status) -> String {
    let mut sessions: Vec<&SessionStatus> = status.sessions.iter().collect();
    sessions.sort_by_key(|session| Reverse(session.work.busy));
    sessions.truncate(MOST_SESSIONS);
    let mut text = String::new();
    for metric in METRICS {
        let Metric { name, help, .. } = metric;
        let kind = if metric.counts { "counter" } else { "gauge" };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        metric.samples(status, &sessions, &mut |labels, value| {
            let _ = writeln!(text, "{name}{} {value}", braces(labels));
        });
    }
    text
}

impl Metric {
    fn samples(
        &self,
        status: &Status,
        sessions: &[&SessionStatus],
        add: &mut impl FnMut(&[(&str, &str)], f64),
    ) {
        match &self.read {
            Read::Server(read) if self.name == "gt_up_info" => {
                add(&[("version", &*status.version)], read(status));
            }
            Read::Server(read) => add(&[], read(status)),
            Read::Ways(read) => ways(read(status), &[], add),
            Read::Worker(read) => {
                status.workers.iter().for_each(|worker| add(&of_worker(worker), read(worker)));
            }
            Read::WorkerWays => {
                status.workers.iter().for_each(|w| ways(w.work, &of_worker(w), add));
            }
            Read::Session(read) => sessions.iter().for_each(|session| {
                let user = session.user.to_string();
                let labels =
                    [("session", &*session.id), ("program", &*session.program), ("user", &*user)];
                add(&labels, read(session));
            }),
            Read::Links => status.links.iter().take(MOST_LINKS).for_each(|link| {
                add(&[("from", &*link.from), ("to", &*link.to)], link.there.bytes as f64);
                add(&[("from", &*link.to), ("to", &*link.from)], link.back.bytes as f64);
            }),
            Read::Queued => status.links.iter().take(MOST_LINKS).for_each(|link| {
                add(&[("from", &*link.to), ("to", &*link.from)], link.queued as f64);
            }),
        }
    }
}

fn of_worker(worker: &WorkerStatus) -> [(&str, &str); 3] {
    [("worker", &*worker.id), ("name", &*worker.name), ("device", &*worker.device)]
}

fn ways(work: Work, labels: &[(&str, &str)], add: &mut impl FnMut(&[(&str, &str)], f64)) {
    let eager = work.segments.saturating_sub(work.planned);
    for (way, n) in [("plan", work.planned), ("eager", eager)] {
        let labels: Vec<(&str, &str)> = labels.iter().copied().chain([("way", way)]).collect();
        add(&labels, n as f64);
    }
}

fn braces(labels: &[(&str, &str)]) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let escaped =
        |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let pairs = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
    format!("{{{}}}", pairs.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The names of metrics in a text.
    fn named(text: &str) -> BTreeSet<String> {
        let is_part = |c: char| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit();
        let words = text.split(|c| !is_part(c)).filter(|word| word.starts_with("gt_"));
        words.map(str::to_owned).collect()
    }

    /// The queries of a dashboard, wherever they stand.
    fn queries(value: &serde_json::Value, found: &mut Vec<String>) {
        match value {
            serde_json::Value::Object(fields) => fields.iter().for_each(|(name, value)| {
                if let ("expr" | "query" | "definition", Some(text)) = (&**name, value.as_str()) {
                    found.push(text.to_owned());
                }
                queries(value, found);
            }),
            serde_json::Value::Array(list) => list.iter().for_each(|value| queries(value, found)),
            _ => {}
        }
    }

    #[test]
    fn the_dashboard_draws_metrics_that_there_are_and_the_guide_names_all() {
        let dashboard = include_str!("../../../docs/grafana/gt.json");
        let mut found = Vec::new();
        queries(&serde_json::from_str(dashboard).unwrap(), &mut found);
        let drawn = named(&found.join(" "));
        let all: BTreeSet<String> = METRICS.iter().map(|metric| metric.name.to_owned()).collect();
        assert!(drawn.len() > 12 && drawn.is_subset(&all), "{:?}", drawn.difference(&all));
        for metric in METRICS {
            let is_rated = found.iter().any(|query| {
                query.contains(&format!("rate({}[", metric.name))
                    || query.contains(&format!("rate({}{{", metric.name))
            });
            assert!(metric.counts || !is_rated, "{} is no counter", metric.name);
            assert_eq!(metric.counts, metric.name.ends_with("_total"), "{}", metric.name);
        }
        let guide = named(include_str!("../../../docs/guide/src/monitoring.md"));
        assert_eq!(all.difference(&guide).collect::<Vec<_>>(), Vec::<&String>::new());
    }

    #[test]
    fn every_line_is_of_the_text_format_and_series_are_limited() {
        let mut status = Status {
            workers: vec![WorkerStatus { name: "w1 \"a\\b\"\n(pi)".into(), ..Default::default() }],
            ..Status::default()
        };
        status.sessions = vec![SessionStatus::default(); 1000];
        let text = exposition(&status);
        assert!(text.contains("name=\"w1 \\\"a\\\\b\\\"\\n(pi)\""), "{text}");
        for line in text.lines().filter(|line| !line.starts_with("# ")) {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(name.starts_with("gt_") && value.parse::<f64>().is_ok(), "{line}");
        }
        let n = text.lines().filter(|line| line.starts_with("gt_session_values{")).count();
        assert_eq!(n, MOST_SESSIONS);
    }
}
