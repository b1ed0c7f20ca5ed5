//! News of a server or a worker: lines on standard error, or objects on standard output with
//! `--json`.

use serde_json::json;
use std::io::Write;

/// Prints a line of news.
pub(crate) fn tell(json: bool, line: &str) {
    if json {
        news(json, &json!({ "event": "news", "text": line }).to_string());
    } else {
        news(json, line);
    }
}

/// Writes a text. An error is ignored, so that a server does not end with its terminal.
pub(crate) fn news(json: bool, text: &str) {
    let _ = if json {
        writeln!(std::io::stdout(), "{text}")
    } else {
        writeln!(std::io::stderr(), "{text}")
    };
}
