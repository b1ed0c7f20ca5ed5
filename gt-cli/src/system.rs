//! The system that runs a tape: in this process, or on a server.

use crate::args::ComputeArgs;
use crate::fault;
use anyhow::{Result, ensure};
use gt_ir::backend::Backend;
use gt_runtime::client;
use gt_runtime::embedded::System;
use std::sync::Arc;

/// The error of a command line that names a server and an engine.
pub(crate) fn chosen_there() -> anyhow::Error {
    fault::advised(
        "the workers of a server choose engine and device when they start",
        "leave out --engine and --device, or --connect and GT_CONNECT",
    )
}

/// A session with the server at `address`, or else with a system in this process, with the engine
/// and devices of the flags.
pub(crate) fn open(address: Option<&str>, compute: &ComputeArgs) -> Result<Arc<dyn Backend>> {
    match address {
        Some(address) => {
            ensure!(!compute.is_given(), chosen_there());
            client::connect(address)
        }
        None => System::own(&compute.wish(), None).map(|system| system.session()),
    }
    .map_err(fault::run_error)
}
