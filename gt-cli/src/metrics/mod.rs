//! `gt-cli server --metrics`: metrics for Prometheus, and whether the server lives and is ready,
//! over HTTP.
//!
//! A side door: a thread of its own, with tokio, which asks the server as any monitor does. It
//! carries no tensors, and what happens here delays no program. Connections, their time, the size
//! of a request and the rate of questions to the server are limited, so a slow or hostile peer
//! costs little. Nothing is changed by a request.

mod names;

use crate::fault::advised;
use anyhow::{Context, Error, Result};
use gt_runtime::clock::{self, Time};
use gt_runtime::server::Observer;
use gt_runtime::wire::Status;
use gt_runtime::zmq::Address;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, oneshot};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

/// The most connections at the same time. A further one ends the oldest, so that peers that say
/// nothing keep nobody out.
const MOST: usize = 32;
/// How long a connection may take, from its first byte to its last.
const LIFE: Duration = Duration::from_secs(5);
/// The most bytes of the head of a request.
const HEAD: usize = 16 << 10;
/// How long the server may take for an answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long an answer of the server is given again.
const FRESH: Duration = Duration::from_millis(200);

/// Starts to serve at an address. Returns the address with its port.
pub(crate) fn serve(address: &Address, observer: Observer) -> Result<SocketAddr> {
    let about = || format!("cannot serve metrics at {address}");
    let listener = TcpListener::bind((address.host.as_str(), address.port)).map_err(|error| {
        let text = format!("{}: {error}", about());
        match error.kind() {
            ErrorKind::AddrInUse => advised(
                text,
                "another program listens there; choose another port, or 0 for any that is free",
            ),
            _ => Error::msg(text),
        }
    })?;
    listener.set_nonblocking(true).with_context(about)?;
    let bound = listener.local_addr().with_context(about)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let door = Arc::new(Door { observer, last: Mutex::new(None) });
    let work = move || runtime.block_on(accept(listener, door));
    std::thread::Builder::new().name("gt-metrics".into()).spawn(work).with_context(about)?;
    Ok(bound)
}

/// The way to the server, and its last answer.
struct Door {
    observer: Observer,
    last: Mutex<Option<(Time, Arc<Status>)>>,
}

async fn accept(listener: TcpListener, door: Arc<Door>) {
    // An error means that the runtime has no reactor, which it has.
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let mut open: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // The process has no file descriptor left.
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        open.retain(|connection| !connection.is_finished());
        if open.len() >= MOST
            && let Some(oldest) = open.pop_front()
        {
            oldest.abort();
        }
        let door = Arc::clone(&door);
        let connection = tokio::spawn(async move {
            let answer = service_fn(|request| answer(&door, request));
            let mut http = http1::Builder::new();
            let connection = http
                .keep_alive(false)
                .max_buf_size(HEAD)
                .serve_connection(TokioIo::new(stream), answer);
            // A peer that breaks the protocol or is slow has no answer.
            let _ = timeout(LIFE, connection).await;
        });
        open.push_back(connection.abort_handle());
    }
}

async fn answer(
    door: &Door,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (code, kind, text) = match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, path @ ("/metrics" | "/healthz" | "/readyz")) => {
            said(path, door.status().await.as_deref())
        }
        (&Method::GET | &Method::HEAD, _) => {
            (404, TEXT, "there are /metrics, /healthz and /readyz\n".into())
        }
        _ => (405, TEXT, "ask with GET\n".into()),
    };
    let code = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(kind));
    Ok(response)
}

const TEXT: &str = "text/plain; charset=utf-8";
/// The format that Prometheus reads.
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The status code, kind and text of an answer. Without a status the server does not answer.
fn said(path: &str, status: Option<&Status>) -> (u16, &'static str, String) {
    let Some(status) = status else {
        return (503, TEXT, "the server does not answer\n".into());
    };
    let not_ready = match (status.ending, status.workers.is_empty()) {
        (true, _) => Some("the server ends soon"),
        (false, true) => Some("the server has no worker"),
        (false, false) => None,
    };
    match (path, not_ready) {
        ("/metrics", _) => (200, EXPOSITION, names::exposition(status)),
        ("/readyz", Some(why)) => (503, TEXT, format!("{why}\n")),
        _ => (200, TEXT, "ok\n".into()),
    }
}

impl Door {
    /// The state of the server. Questions at the same time share an answer.
    async fn status(&self) -> Option<Arc<Status>> {
        let mut last = self.last.lock().await;
        if let Some((at, status)) = &*last
            && clock::now() < *at + FRESH
        {
            return Some(Arc::clone(status));
        }
        let (tell, told) = oneshot::channel();
        self.observer.ask(move |status| {
            // Whoever asked may have given up.
            let _ = tell.send(Arc::new(status.clone()));
        });
        let status = timeout(PATIENCE, told).await.ok()?.ok()?;
        *last = Some((clock::now(), Arc::clone(&status)));
        Some(status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gt_runtime::wire::WorkerStatus;

    #[test]
    fn a_server_is_ready_with_a_worker_until_it_ends() {
        let code = |path: &str, status: &Status| said(path, Some(status)).0;
        let mut status = Status::default();
        assert_eq!((code("/healthz", &status), code("/readyz", &status)), (200, 503));
        status.workers.push(WorkerStatus::default());
        assert_eq!(code("/readyz", &status), 200);
        status.ending = true;
        assert_eq!((code("/healthz", &status), code("/readyz", &status)), (200, 503));
        assert_eq!(["/metrics", "/healthz", "/readyz"].map(|path| said(path, None).0), [503; 3]);
    }
}
