//! Where a program runs: in this process, or on a server.

use anyhow::Result;
use gt_ir::backend::Backend;
use std::sync::Arc;

/// A session with the server at `address`, or with a system inside this process.
pub(crate) fn open(address: Option<&str>) -> Result<Arc<dyn Backend>> {
    anyhow::bail!("{address:?}")
}
