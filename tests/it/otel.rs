//! Spans of programs, workers and a server, as a collector of OpenTelemetry receives them.

use crate::process::{Cluster, Process};
use gt_runtime::spans::testing::{Collector, Manner, Received};
use std::collections::BTreeSet;
use std::time::Duration;

const DIGITS: &str = "examples/digits";
/// Longer than any step takes on a busy machine.
const LONG: Duration = Duration::from_secs(120);

fn names(spans: &[Received]) -> BTreeSet<&str> {
    spans.iter().map(|span| span.name.as_str()).collect()
}

/// The spans, once there are some of each of these names.
#[track_caller]
fn all_of(collector: &Collector, wanted: &[&str]) -> Vec<Received> {
    let has_all = |spans: &[Received]| wanted.iter().all(|name| names(spans).contains(name));
    let spans = collector.wait(LONG, has_all);
    assert!(has_all(&spans), "{:?}", names(&spans));
    spans
}

#[test]
fn a_session_is_one_trace_of_its_program_its_worker_and_the_server() {
    let collector = Collector::start(Manner::Good).unwrap();
    let there = collector.address();
    let env = [("GT_OTEL", there.as_str())];
    let server = Process::start_with("gt-cli", &["server", "-p", "0"], &env);
    let cluster = Cluster::of(server, 1, |address, _| {
        Process::start_with("gt-cli", &["worker", "--connect", address], &env)
    });
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let env = [("OTEL_EXPORTER_OTLP_ENDPOINT", there.as_str()), ("TRACEPARENT", parent)];
    let words = ["--epochs", "20", "--connect", &cluster.address];
    Process::start_with(DIGITS, &words, &env).finish().good();
    let spans =
        all_of(&collector, &["session", "record", "wait", "read", "launch", "compile", "served"]);
    let first = spans.iter().find(|span| span.name == "session").unwrap();
    assert_eq!((first.service.as_str(), first.parent.as_str()), ("digits", ""));
    assert_eq!(first.links, ["0af7651916cd43dd8448eb211c80319c"]);
    for span in spans.iter().filter(|span| span.name != "session") {
        assert_eq!((&span.trace, &span.parent), (&first.trace, &first.id), "{span:?}");
        assert_eq!(span.attributes["gt.session"], "s1", "{span:?}");
        assert_eq!(span.attributes["gt.program"], "digits", "{span:?}");
        assert!(span.time.0 <= span.time.1, "{span:?}");
    }
    let of_worker = spans.iter().filter(|span| ["launch", "compile"].contains(&&*span.name));
    for span in of_worker {
        assert_eq!(span.service, "gt-cli");
        assert_eq!(span.attributes["gt.plan"].len(), 32, "{span:?}");
        assert_ne!(span.attributes["gt.instructions"], "0", "{span:?}");
    }
}

#[test]
fn a_program_without_a_server_sends_spans_too() {
    let collector = Collector::start(Manner::Good).unwrap();
    let env = [("GT_OTEL", &*collector.address())];
    Process::start_with(DIGITS, &["--epochs", "20"], &env).finish().good();
    let spans = all_of(&collector, &["session", "record", "wait", "launch", "compile"]);
    assert_eq!(spans.iter().map(|span| &span.trace).collect::<BTreeSet<_>>().len(), 1);
}

#[test]
fn a_collector_that_is_gone_silent_or_hostile_stops_no_program() {
    let bad = [Manner::Silent, Manner::Endless, Manner::Garbage];
    let bad = bad.map(|manner| Collector::start(manner).unwrap().address());
    for there in bad.iter().map(String::as_str).chain(["http://localhost:1"]) {
        let finished = Process::start_with(DIGITS, &["--epochs", "5"], &[("GT_OTEL", there)]);
        let finished = finished.finish();
        assert!(finished.stderr.contains("spans"), "{there}: {}", finished.stderr);
        finished.good();
    }
    let finished = Process::start_with(DIGITS, &["--epochs", "1"], &[("GT_OTEL", "pi")]).finish();
    let why = "no spans are sent: GT_OTEL=pi: this is no address of a collector";
    assert!(finished.stderr.contains(why), "{}", finished.stderr);
    finished.good();
}
