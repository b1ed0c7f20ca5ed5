//! News of a server or a worker: lines on standard error, or objects on standard output with
//! `--json`.
//!
//! A thread of its own writes them, so that nobody who leaves the output unread, such as a stopped
//! terminal, stops the process. Above a number of unwritten lines further ones are dropped and
//! counted.

use serde_json::json;
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// The most unwritten lines.
const MOST: usize = 1024;
/// How long the end of the process waits for unwritten lines.
const FAREWELL: Duration = Duration::from_millis(300);

/// The number of dropped lines that were not reported.
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Why results could not be written.
static LOST: OnceLock<std::io::Error> = OnceLock::new();

/// The way to the writing thread, if it could be started.
static WRITER: OnceLock<Option<SyncSender<Order>>> = OnceLock::new();

enum Order {
    /// Write a line, to standard output or standard error.
    Write(bool, String),
    /// Say when everything before is written.
    Answer(SyncSender<()>),
}

/// Prints a line of news.
pub(crate) fn tell(json: bool, line: &str) {
    if json {
        news(json, &json!({ "event": "news", "text": line }).to_string());
    } else {
        news(json, line);
    }
}

/// Writes a line of results. The first error is kept for the end of the process.
pub(crate) fn print(text: &str) {
    if let Err(error) = writeln!(std::io::stdout(), "{text}") {
        // Another thread's error says the same.
        let _ = LOST.set(error);
    }
}

/// Fails if results could not be written.
pub(crate) fn printed() -> anyhow::Result<()> {
    LOST.get().map_or(Ok(()), |error| {
        let said = format!("cannot write to standard output: {error}");
        Err(std::io::Error::new(error.kind(), said).into())
    })
}

/// Writes a text soon. An error is ignored, so that a server does not end with its terminal.
pub(crate) fn news(json: bool, text: &str) {
    let Some(writer) = writer() else { return write(json, text) };
    if writer.try_send(Order::Write(json, text.to_owned())).is_err() {
        DROPPED.fetch_add(1, Ordering::Relaxed);
    }
}

/// Waits until the news are written, or for a moment if nobody reads them.
pub(crate) fn flush() {
    let (tell, told) = sync_channel(1);
    let Some(Some(writer)) = WRITER.get() else { return };
    // Without room in the queue nobody reads.
    if writer.try_send(Order::Answer(tell)).is_ok() {
        let _ = told.recv_timeout(FAREWELL);
    }
}

/// Starts the writing thread if it does not run yet.
fn writer() -> Option<&'static SyncSender<Order>> {
    let start = || {
        let (send, orders) = sync_channel(MOST);
        let write = move || write_all(&orders);
        std::thread::Builder::new().name("gt-news".into()).spawn(write).ok().map(|_| send)
    };
    WRITER.get_or_init(start).as_ref()
}

fn write_all(orders: &Receiver<Order>) {
    for order in orders {
        match order {
            Order::Write(json, text) => {
                write(json, &text);
                let n = DROPPED.swap(0, Ordering::Relaxed);
                if n > 0 {
                    tell(json, &format!("{n} lines were dropped, because they were not read"));
                }
            }
            // Whoever asked may have gone on.
            Order::Answer(to) => drop(to.send(())),
        }
    }
}

fn write(json: bool, text: &str) {
    let _ = if json {
        writeln!(std::io::stdout(), "{text}")
    } else {
        writeln!(std::io::stderr(), "{text}")
    };
}
