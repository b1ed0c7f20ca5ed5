//! Where a tape runs: in this process, or on a server.

use crate::fault;
use anyhow::Result;
use gt_ir::backend::Backend;
use gt_runtime::{client, embedded};
use std::sync::Arc;

/// A session with the server at `address`, or else with the system that programs use when they name none.
pub(crate) fn open(address: Option<&str>) -> Result<Arc<dyn Backend>> {
    address.map_or_else(embedded::backend, client::connect).map_err(fault::run_error)
}
