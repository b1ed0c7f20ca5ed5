//! The system that runs a tape: in this process, or on a server.

use crate::args::ComputeArgs;
use crate::fault;
use anyhow::Result;
use gt_ir::backend::{Backend, Demand};
use gt_runtime::client;
use gt_runtime::embedded::System;
use std::sync::Arc;

/// A session with the server at `address`, on a worker with the engine and device of the flags, or
/// else with a system in this process with this engine and these devices. With `auto` its work is
/// spread without signals, with `zero` workers share out what they would repeat.
pub(crate) fn open(
    address: Option<&str>,
    compute: &ComputeArgs,
    (auto, zero): (bool, Option<u8>),
) -> Result<Arc<dyn Backend>> {
    let demand = Demand { auto: auto.then_some(true), zero, ..compute.demand() };
    match address {
        Some(address) => client::connect_asking(address, &demand),
        None => System::own(&compute.wish(), None).map(|system| system.session_asking(&demand)),
    }
    .map_err(fault::run_error)
}
