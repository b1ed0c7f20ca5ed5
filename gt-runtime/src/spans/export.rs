//! The queue of spans, and the thread that sends them.
//!
//! There is room for some thousand spans, and what is in the queue is sent once in a second, so a
//! process sends so many in a second at most. Spans for which there is no room are counted. A
//! collector that fails is left alone for some seconds. Each request has a deadline, answers are
//! bounded, and no redirection is followed. The end of the program waits a second for the last
//! spans. Losses are a warning, once, and a number at the next span that is sent (`gt.lost`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use opentelemetry::trace::{
    Link, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{Array, InstrumentationScope, KeyValue, StringValue, Value};
use opentelemetry_otlp::{SpanExporter as Otlp, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanExporter as _, SpanLinks};

use super::endpoint::endpoint;
use super::{Amount, Rank, Span, Words};
use crate::clock::{self, Time};
use crate::identity;
use crate::messages::{self, Area};

/// The time between two sendings.
const EVERY: Duration = Duration::from_secs(1);
/// The most spans in the queue.
const MOST: usize = 4096;
/// The most first spans of traces above that.
const FIRST: usize = 256;
/// The most spans of a request.
const BATCH: usize = 512;
/// The longest time of a request.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long a collector that failed is left alone.
const PAUSE: Duration = Duration::from_secs(5);
/// The longest wait at the end of the program.
const FAREWELL: Duration = Duration::from_secs(1);
/// The most characters of a text.
const MAX_TEXT: usize = 256;

/// A way to a collector.
#[derive(Debug)]
pub(crate) struct Exporter {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Notified when the sender is in a hurry.
    wake: Condvar,
    /// Notified when the sender has sent.
    sent: Condvar,
}

#[derive(Debug, Default)]
struct State {
    spans: Vec<Span>,
    /// Spans that were lost, and are in no count that was sent.
    lost: u64,
    /// All spans that were lost.
    all_lost: u64,
    is_urgent: bool,
    is_sending: bool,
    is_closed: bool,
}

impl State {
    fn lose(&mut self, n: u64) {
        self.lost += n;
        self.all_lost += n;
    }
}

/// The exporter of the settings, one for the whole process.
pub(super) fn of_process() -> Option<&'static Exporter> {
    static EXPORTER: OnceLock<Option<Exporter>> = OnceLock::new();
    thread_local! {
        /// Sends the last spans when the program's thread ends: no static is dropped.
        static END: AtEnd = const { AtEnd };
    }
    let begun = EXPORTER.get_or_init(|| match endpoint() {
        Ok(there) => there.and_then(|there| Exporter::start(&there).map_err(warn).ok()),
        Err(why) => {
            warn(why);
            None
        }
    });
    if begun.is_some() {
        // A thread that ends has no later spans.
        let _ = END.try_with(|_| ());
    }
    begun.as_ref()
}

struct AtEnd;

impl Drop for AtEnd {
    fn drop(&mut self) {
        let Some(exporter) = of_process() else { return };
        let is_sent = exporter.flush(FAREWELL);
        let text = match (exporter.n_lost(), is_sent) {
            (0, true) => return,
            (0, false) => "the last spans are lost, for the collector does not answer".to_owned(),
            (n, _) => format!("{n} spans of this process were lost in all"),
        };
        messages::say(messages::Rank::Warning, Area::Client, &text);
    }
}

fn warn(why: String) {
    messages::say(messages::Rank::Warning, Area::Client, &format_args!("no spans are sent: {why}"));
}

impl Exporter {
    /// Starts to send to this address.
    pub(super) fn start(there: &str) -> Result<Exporter, String> {
        let shared = Arc::new(Shared::default());
        let (of_thread, there) = (shared.clone(), there.to_owned());
        let work = move || {
            if let Err(why) = of_thread.send_all(&there) {
                of_thread.close();
                warn(why);
            }
        };
        let thread = std::thread::Builder::new().name("gt-otel".into()).spawn(work);
        thread.map(|_| Exporter { shared }).map_err(|error| error.to_string())
    }

    /// Queues a span, or counts it if there is no room.
    pub(crate) fn add(&self, span: Span) {
        // Without the first span of a trace its others have no place.
        let most = if span.rank == Rank::First { MOST + FIRST } else { MOST };
        let mut state = self.shared.lock();
        match state.spans.len() < most && !state.is_closed {
            true => state.spans.push(span),
            false => state.lose(1),
        }
    }

    /// The number of spans that were lost so far.
    pub(super) fn n_lost(&self) -> u64 {
        self.shared.lock().all_lost
    }

    /// Sends all that is queued. Waits for this long at most, and tells whether it was long enough.
    pub(super) fn flush(&self, patience: Duration) -> bool {
        let mut state = self.shared.lock();
        state.is_urgent = true;
        self.shared.wake.notify_one();
        let waiting =
            |state: &mut State| !state.is_closed && (state.is_sending || !state.spans.is_empty());
        let waited = self.shared.sent.wait_timeout_while(state, patience, waiting);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.flush(FAREWELL);
        self.shared.close();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Code under the lock cannot panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        self.lock().is_closed = true;
        self.wake.notify_one();
        self.sent.notify_all();
    }

    /// The work of the thread, to the end of the exporter.
    fn send_all(&self, there: &str) -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let _within = runtime.enter();
        let begun = Otlp::builder().with_http().with_endpoint(there).with_timeout(PATIENCE).build();
        let mut otlp = begun.map_err(|error| error.to_string())?;
        otlp.set_resource(&resource());
        let mut has_warned = false;
        while let Some((spans, lost)) = self.next(EVERY) {
            let n = spans.len() as u64;
            let sent = runtime.block_on(send(&otlp, spans, lost));
            let mut state = self.lock();
            if let Err((n_lost, why)) = sent {
                state.lose(n_lost);
                state.lost += if n_lost == n { lost } else { 0 };
                if !std::mem::replace(&mut has_warned, true) {
                    warn_of_loss(n_lost, there, &why);
                }
                state = self.rest(state);
            }
            state.is_sending = false;
            self.sent.notify_all();
        }
        Ok(())
    }

    /// Leaves the collector alone. Whoever is in a hurry does not wait: what is queued is lost.
    fn rest<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.is_sending = false;
        self.sent.notify_all();
        let calm = |state: &mut State| !state.is_urgent && !state.is_closed;
        let waited = self.wake.wait_timeout_while(state, PAUSE, calm);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        if state.is_urgent {
            let n = state.spans.len() as u64;
            state.lose(n);
            state.spans.clear();
        }
        state
    }

    /// The spans of the queue and the number of those lost, once in a while. None at the end.
    fn next(&self, every: Duration) -> Option<(Vec<Span>, u64)> {
        let mut state = self.lock();
        loop {
            if state.is_closed {
                return None;
            }
            let calm = |state: &mut State| !state.is_urgent && !state.is_closed;
            let waited = self.wake.wait_timeout_while(state, every, calm);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.is_urgent = false;
            if !state.spans.is_empty() {
                state.is_sending = true;
                return Some((std::mem::take(&mut state.spans), std::mem::take(&mut state.lost)));
            }
            self.sent.notify_all();
        }
    }
}

fn warn_of_loss(n: u64, there: &str, why: &str) {
    let mut why: String = why.chars().take(MAX_TEXT).filter(|c| !c.is_control()).collect();
    why.insert_str(0, &format!("{n} spans are lost, for {there} does not take them: "));
    messages::say(messages::Rank::Warning, Area::Client, &why);
}

/// Sends spans in requests, and `lost` at the first. If one fails, the rest is lost: returns how
/// many, and why.
async fn send(otlp: &Otlp, spans: Vec<Span>, lost: u64) -> Result<(), (u64, String)> {
    let (mut left, zero) = (spans.len() as u64, zero());
    let mut spans = spans.into_iter().peekable();
    let mut lost = Some(lost).filter(|lost| *lost > 0);
    while spans.peek().is_some() {
        let count = lost.take().map(|lost| KeyValue::new("gt.lost", number(lost)));
        let mut batch: Vec<SpanData> =
            spans.by_ref().take(BATCH).map(|span| data(span, zero)).collect();
        let n = batch.len() as u64;
        batch.first_mut().into_iter().for_each(|first| first.attributes.extend(count.clone()));
        otlp.export(batch).await.map_err(|error| (left, error.to_string()))?;
        left -= n;
    }
    Ok(())
}

/// What the collector learns of the process.
fn resource() -> Resource {
    // Of the environment: OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES.
    let named = std::env::var_os("OTEL_SERVICE_NAME").is_some();
    let builder = Resource::builder().with_attributes([
        KeyValue::new("host.name", identity::machine()),
        KeyValue::new("process.pid", i64::from(std::process::id())),
    ]);
    if named { builder.build() } else { builder.with_service_name(identity::program()).build() }
}

/// The date of the time 0.
fn zero() -> SystemTime {
    let wall = Duration::from_nanos(clock::wall_nanos());
    SystemTime::UNIX_EPOCH + wall.saturating_sub(clock::now())
}

fn data(span: Span, zero: SystemTime) -> SpanData {
    let (trace, first) = span.origin.ids();
    let (id, parent, kind) = match span.rank {
        Rank::First => (SpanId::from(first), SpanId::INVALID, SpanKind::Client),
        Rank::Part => (SpanId::from(next_id()), SpanId::from(first), SpanKind::Internal),
    };
    let trace = TraceId::from(trace);
    let date = |time: Time| zero.checked_add(time).unwrap_or(zero);
    let mut links = SpanLinks::default();
    if span.rank == Rank::First {
        links.links.extend(outer().map(|outer| Link::new(outer, Vec::new(), 0)));
    }
    SpanData {
        span_context: context(trace, id),
        parent_span_id: parent,
        parent_span_is_remote: false,
        span_kind: kind,
        name: span.name.into(),
        start_time: date(span.began),
        end_time: date(span.began + span.took),
        attributes: attributes(span),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links,
        status: Status::Unset,
        instrumentation_scope: InstrumentationScope::builder("gt")
            .with_version(env!("CARGO_PKG_VERSION"))
            .build(),
    }
}

fn context(trace: TraceId, span: SpanId) -> SpanContext {
    SpanContext::new(trace, span, TraceFlags::SAMPLED, false, TraceState::default())
}

fn attributes(span: Span) -> Vec<KeyValue> {
    let mut list = Vec::with_capacity(6);
    let mut text = |name: &'static str, text: &str| {
        if !text.is_empty() {
            list.push(KeyValue::new(name, text.chars().take(MAX_TEXT).collect::<String>()));
        }
    };
    text("gt.session", &span.origin.session);
    text("gt.program", &span.origin.name);
    if let Words::End(why) = &span.words {
        text("gt.end", why);
    }
    if span.plan != 0 {
        text("gt.plan", &format!("{:032x}", span.plan));
    }
    if let Words::Signals(signals) = span.words
        && !signals.is_empty()
    {
        let names = signals.iter().map(|name| StringValue::from(name.clone())).collect();
        list.push(KeyValue::new("gt.signals", Value::Array(Array::String(names))));
    }
    if span.segment > 0 {
        list.push(KeyValue::new("gt.segment", number(span.segment)));
    }
    match span.amount {
        Amount::Nothing => {}
        Amount::Instructions(n) => list.push(KeyValue::new("gt.instructions", number(n))),
        Amount::Bytes(n) => list.push(KeyValue::new("gt.bytes", number(n))),
    }
    list
}

fn number(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// A number that no other span of the trace has, in all likelihood: the clock and the process make
/// it differ from those of other processes.
fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    static START: OnceLock<[u32; 2]> = OnceLock::new();
    let key = START.get_or_init(|| {
        let nanos = clock::wall_nanos();
        [nanos as u32 ^ std::process::id().rotate_left(16), (nanos >> 32) as u32]
    });
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    let [a, b, ..] = gt_ir::philox::philox4x32([n as u32, (n >> 32) as u32, 1, 0], *key);
    (u64::from(a) << 32 | u64::from(b)).max(1)
}

/// The span within which this program was started, as `TRACEPARENT` says.
fn outer() -> Option<SpanContext> {
    static OUTER: OnceLock<Option<SpanContext>> = OnceLock::new();
    OUTER.get_or_init(|| parent(&std::env::var("TRACEPARENT").ok()?)).clone()
}

/// A span from the form of W3C's trace context: `00-TRACE-SPAN-FLAGS`.
fn parent(text: &str) -> Option<SpanContext> {
    let mut parts = text.trim().split('-').skip(1);
    let trace = TraceId::from_hex(parts.next().filter(|part| part.len() == 32)?).ok()?;
    let span = SpanId::from_hex(parts.next().filter(|part| part.len() == 16)?).ok()?;
    Some(context(trace, span)).filter(SpanContext::is_valid)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Collector, Manner};
    use super::super::{Origin, Span};
    use super::*;
    use crate::ids::Incarnation;

    /// Longer than any step takes on a busy machine.
    const LONG: Duration = Duration::from_secs(60);

    fn there(collector: &Collector) -> String {
        format!("{}/v1/traces", collector.address())
    }

    fn span(name: &'static str, rank: Rank) -> Span {
        let origin = Arc::new(Origin::new(Incarnation(7), "s1", "digits"));
        let words = Words::Signals(vec!["step".to_owned(), "step/backward".to_owned()].into());
        let (began, took) = (Duration::from_secs(1), Duration::from_millis(2));
        let amount = Amount::Instructions(5);
        Span { name, rank, origin, began, took, amount, segment: 3, plan: 0xab, words }
    }

    #[test]
    fn a_collector_receives_spans_with_what_they_were_for() {
        let collector = Collector::start(Manner::Good).unwrap();
        let exporter = Exporter::start(&there(&collector)).unwrap();
        exporter.add(span("session", Rank::First));
        exporter.add(span("launch", Rank::Part));
        exporter.flush(LONG);
        let got = collector.wait(LONG, |spans| spans.len() >= 2);
        let [first, part] = &got[..] else { panic!("{got:#?}") };
        assert_eq!((&*first.name, &*part.name), ("session", "launch"));
        assert_eq!((&part.trace, &part.parent), (&first.trace, &first.id));
        assert_eq!((first.parent.as_str(), part.id == first.id), ("", false));
        assert_eq!(part.time.1 - part.time.0, 2_000_000);
        let said = |name: &str| part.attributes.get(name).map(String::as_str);
        assert_eq!([said("gt.session"), said("gt.program")], [Some("s1"), Some("digits")]);
        assert_eq!(said("gt.signals"), Some("step,step/backward"));
        assert_eq!([said("gt.segment"), said("gt.instructions")], [Some("3"), Some("5")]);
        assert_eq!(said("gt.plan"), Some(&*format!("{:032x}", 0xab)));
        assert_eq!((exporter.n_lost(), said("gt.lost")), (0, None));
    }

    #[test]
    fn a_bad_collector_costs_spans_which_are_counted_and_nothing_else() {
        const N: u64 = 10_000;
        let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut addresses = vec![format!("http://{gone}/v1/traces")];
        // Each collector lives to the end of the process.
        for manner in [Manner::Silent, Manner::Endless, Manner::Garbage] {
            addresses.push(there(&Collector::start(manner).unwrap()));
        }
        for there in addresses {
            let exporter = Exporter::start(&there).unwrap();
            let began = clock::now();
            (0..N).for_each(|_| exporter.add(span("launch", Rank::Part)));
            assert!(exporter.shared.lock().spans.len() <= MOST + FIRST);
            exporter.flush(LONG);
            assert_eq!(exporter.n_lost(), N, "{there}");
            assert!(clock::now() - began < LONG, "{there}");
        }
    }

    #[test]
    fn what_was_lost_is_said_when_a_collector_takes_spans() {
        let collector = Collector::start(Manner::Good).unwrap();
        let exporter = Exporter::start(&there(&collector)).unwrap();
        exporter.shared.lock().lose(9);
        exporter.add(span("launch", Rank::Part));
        exporter.flush(LONG);
        let got = collector.wait(LONG, |spans| !spans.is_empty());
        assert_eq!(got[0].attributes.get("gt.lost").map(String::as_str), Some("9"));
    }

    #[test]
    fn the_span_of_a_parent_has_the_form_of_the_standard() {
        let text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let found = parent(text).unwrap();
        assert_eq!(found.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
        for wrong in
            ["", "00", "00-0-0-01", &text.replace('a', "x"), &format!("00-{:032}-{:016}-01", 0, 0)]
        {
            assert_eq!(parent(wrong), None, "{wrong}");
        }
    }
}
