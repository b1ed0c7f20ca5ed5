//! News of a server or a worker: lines on standard error, or with `--json` objects on standard
//! output.

use serde_json::json;
use std::io::Write;

/// Reports an event to whoever watches.
pub(crate) fn tell(json: bool, line: &str) {
    if json {
        news(json, &json!({ "event": "news", "text": line }).to_string());
    } else {
        news(json, line);
    }
}

/// Writes a text, and goes on when nobody reads it any more: a server does not end because its
/// terminal did.
pub(crate) fn news(json: bool, text: &str) {
    let _ = if json {
        writeln!(std::io::stdout(), "{text}")
    } else {
        writeln!(std::io::stderr(), "{text}")
    };
}
