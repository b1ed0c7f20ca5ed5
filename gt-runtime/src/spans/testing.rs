//! A collector for tests: an HTTP server that decodes what arrives, or misbehaves.

use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;

/// The longest body of a request.
const MOST: usize = 16 << 20;

/// What a collector does with a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Manner {
    /// Takes it.
    Good,
    /// Reads it and never answers.
    Silent,
    /// Answers without end.
    Endless,
    /// Answers with something that is not HTTP.
    Garbage,
}

/// A span, as a collector has it.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// The name of the service.
    pub service: String,
    /// What was done.
    pub name: String,
    /// The trace in hexadecimal digits.
    pub trace: String,
    /// Its own number in hexadecimal digits.
    pub id: String,
    /// The number of its parent. Empty if it has none.
    pub parent: String,
    /// The traces that it links to.
    pub links: Vec<String>,
    /// Its beginning and its end, in nanoseconds since 1970.
    pub time: (u64, u64),
    /// Its attributes as texts.
    pub attributes: BTreeMap<String, String>,
}

/// A collector on this machine, to the end of the process.
#[derive(Debug)]
pub struct Collector {
    address: SocketAddr,
    got: Arc<Got>,
}

#[derive(Debug, Default)]
struct Got {
    spans: Mutex<Vec<Received>>,
    came: Condvar,
}

impl Collector {
    /// Starts one that behaves in this manner.
    ///
    /// # Errors
    /// The machine has no free port, or no thread can be started.
    pub fn start(manner: Manner) -> io::Result<Collector> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let (address, got) = (listener.local_addr()?, Arc::new(Got::default()));
        let of_thread = got.clone();
        std::thread::Builder::new().name("collector".into()).spawn(move || {
            for stream in listener.incoming().flatten() {
                let got = of_thread.clone();
                // A client that breaks the connection has no answer.
                std::thread::spawn(move || drop(serve(stream, manner, &got)));
            }
        })?;
        Ok(Collector { address, got })
    }

    /// Its address, for `GT_OTEL`.
    #[must_use]
    pub fn address(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The spans so far, once they are as they should be, or after so long.
    pub fn wait(
        &self,
        patience: Duration,
        mut is_enough: impl FnMut(&[Received]) -> bool,
    ) -> Vec<Received> {
        let spans = self.got.spans.lock().unwrap_or_else(PoisonError::into_inner);
        let more = |spans: &mut Vec<Received>| !is_enough(spans);
        let waited = self.got.came.wait_timeout_while(spans, patience, more);
        waited.unwrap_or_else(PoisonError::into_inner).0.clone()
    }
}

fn serve(stream: TcpStream, manner: Manner, got: &Got) -> io::Result<()> {
    let (mut from, mut to) = (BufReader::new(stream.try_clone()?), stream);
    loop {
        let body = body(&mut from)?;
        match manner {
            Manner::Good => {
                let request = ExportTraceServiceRequest::decode(&body[..])?;
                got.spans.lock().unwrap_or_else(PoisonError::into_inner).extend(spans(request));
                got.came.notify_all();
                to.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")?;
            }
            // Waits until the other side has given up.
            Manner::Silent => drop(from.read(&mut [0])?),
            Manner::Garbage => return to.write_all(b"SSH-2.0-OpenSSH_9.6\r\n"),
            Manner::Endless => {
                to.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")?;
                loop {
                    to.write_all(b"10000\r\n")?;
                    to.write_all(&[b'x'; 0x10000])?;
                    to.write_all(b"\r\n")?;
                }
            }
        }
    }
}

/// The body of the next request.
fn body(from: &mut BufReader<TcpStream>) -> io::Result<Vec<u8>> {
    let (mut length, mut line) = (0, String::new());
    loop {
        line.clear();
        if from.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match line.trim_end().split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.trim().parse().unwrap_or(0).min(MOST);
            }
            _ if line.trim().is_empty() => break,
            _ => {}
        }
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body)?;
    Ok(body)
}

fn spans(request: ExportTraceServiceRequest) -> Vec<Received> {
    let mut all = Vec::new();
    for of_process in request.resource_spans {
        let resource = of_process.resource.map(|found| texts(found.attributes)).unwrap_or_default();
        let service = resource.get("service.name").cloned().unwrap_or_default();
        for span in of_process.scope_spans.into_iter().flat_map(|scope| scope.spans) {
            all.push(received(service.clone(), span));
        }
    }
    all
}

fn received(service: String, span: Span) -> Received {
    Received {
        service,
        name: span.name,
        trace: hex(&span.trace_id),
        id: hex(&span.span_id),
        parent: hex(&span.parent_span_id),
        links: span.links.iter().map(|link| hex(&link.trace_id)).collect(),
        time: (span.start_time_unix_nano, span.end_time_unix_nano),
        attributes: texts(span.attributes),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn texts(attributes: Vec<KeyValue>) -> BTreeMap<String, String> {
    attributes
        .into_iter()
        .map(|pair| (pair.key, pair.value.map(text).unwrap_or_default()))
        .collect()
}

fn text(value: AnyValue) -> String {
    match value.value {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::ArrayValue(list)) => {
            list.values.into_iter().map(text).collect::<Vec<_>>().join(",")
        }
        other => format!("{other:?}"),
    }
}
