//! `gt-cli schema`: the JSON Schema of configuration files.

use crate::files;
use anyhow::Result;
use std::path::Path;

pub(crate) fn print() -> Result<()> {
    files::write(Path::new("-"), text()?.as_bytes())
}

/// The schema as a file has it.
fn text() -> Result<String> {
    Ok(serde_json::to_string_pretty(&gt_ir::config::schema())? + "\n")
}

#[cfg(test)]
mod tests;
