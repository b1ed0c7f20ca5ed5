//! One op on an engine, for the sweeps over engines.

use gt_compiler::{Arg, Engine};
use gt_ir::{HostTensor, Op, interp};

/// One op on an engine.
pub(crate) fn op(engine: &mut dyn Engine, what: &Op, args: &[interp::Arg<'_>]) -> HostTensor {
    let values = args.iter().map(|arg| match arg {
        interp::Arg::Tensor(tensor) => Ok(engine.upload(tensor).unwrap()),
        interp::Arg::Scalar(scalar) => Err(*scalar),
    });
    let values: Vec<_> = values.collect();
    let args: Vec<Arg<'_>> =
        values.iter().map(|v| v.as_ref().map_or_else(|s| Arg::Scalar(*s), Arg::Value)).collect();
    let got = engine.execute(what, &args).unwrap();
    engine.download(&got).unwrap()
}
