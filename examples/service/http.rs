//! HTTP: `POST /classify` with the pixels in JSON. Connections, their time and the size of a
//! request are limited.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::batches::Batches;
use super::data::PIXELS;

/// The most connections at the same time. Further ones wait until one has ended.
const CONNECTIONS: usize = 256;
/// The most bytes of a request.
const BODY: usize = 16 << 10;
/// How long the head of a request may take, and a connection may be silent.
const HEAD: Duration = Duration::from_secs(10);
/// How long the body of a request may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Serves until the program ends.
pub async fn serve(listener: TcpListener, batches: Batches) {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&room).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            // The process has no file descriptor left.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let batches = batches.clone();
        tokio::spawn(async move {
            let service = service_fn(|request| answer(&batches, request));
            let mut http = http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(HEAD);
            // A peer that breaks the protocol or is slow has no answer.
            let _ = http.serve_connection(TokioIo::new(stream), service).await;
            drop(place);
        });
    }
}

async fn answer(
    batches: &Batches,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (code, text) = match (request.method(), request.uri().path()) {
        (&Method::POST, "/classify") => classify(batches, request).await,
        (_, "/classify") => (StatusCode::METHOD_NOT_ALLOWED, json!({ "error": "ask with POST" })),
        _ => (StatusCode::NOT_FOUND, json!({ "error": "there is /classify" })),
    };
    let mut response = Response::new(Full::new(Bytes::from(format!("{text}\n"))));
    *response.status_mut() = code;
    let json = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    Ok(response)
}

async fn classify(
    batches: &Batches,
    request: Request<Incoming>,
) -> (StatusCode, serde_json::Value) {
    let error = |code, why: String| (code, json!({ "error": why }));
    let body = Limited::new(request.into_body(), BODY).collect();
    let body = match tokio::time::timeout(PATIENCE, body).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(why)) => return error(StatusCode::BAD_REQUEST, why.to_string()),
        Err(_) => return error(StatusCode::REQUEST_TIMEOUT, "the body did not arrive".into()),
    };
    let pixels = match pixels(&body) {
        Ok(pixels) => pixels,
        Err(why) => return error(StatusCode::BAD_REQUEST, why),
    };
    match batches.classify(pixels).await {
        Some(Ok(is)) => {
            let (digit, probability, batch) = (is.digit, is.probability, is.batch);
            let answer = json!({ "digit": digit, "probability": probability, "batch": batch });
            (StatusCode::OK, answer)
        }
        Some(Err(why)) => error(StatusCode::INTERNAL_SERVER_ERROR, why.to_string()),
        None => error(StatusCode::SERVICE_UNAVAILABLE, "the service ends".into()),
    }
}

/// The pixels of a request.
fn pixels(body: &[u8]) -> Result<[f32; PIXELS], String> {
    let body: serde_json::Value =
        serde_json::from_slice(body).map_err(|why| format!("the body is not JSON: {why}"))?;
    let wanted = || format!("`pixels` must be {PIXELS} numbers");
    let numbers = body["pixels"].as_array().ok_or_else(wanted)?;
    let numbers = numbers.iter().map(|x| x.as_f64().map(|x| x as f32));
    let numbers: Vec<f32> = numbers.collect::<Option<_>>().ok_or_else(wanted)?;
    numbers.try_into().map_err(|_| wanted())
}
