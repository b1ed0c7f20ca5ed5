//! What a step comes to as a plan: kernels, launches, bytes. Found by compiling a recorded step once more, after everything was measured.
//!
//! The step is the second of a fresh start of the work, since an optimizer's first step makes what later ones update.

use super::works::Step;
use anyhow::Result;
use gt_compiler::{Compile, Options, Report};
use gt_ir::{Segment, Tape};
use gt_lang::Session;

/// The report of the plan of a step.
pub(super) fn report(
    session: &Session,
    compiler: &dyn Compile,
    prepare: impl FnOnce() -> Result<Step>,
) -> Result<Report> {
    let mut step = prepare()?;
    step()?;
    session.start_trace();
    step()?;
    of(&session.stop_trace(), compiler)
}

/// The report of the plan of a tape.
pub(super) fn of(tape: &Tape, compiler: &dyn Compile) -> Result<Report> {
    let Segment { graph, donated, .. } = gt_ir::segment(tape, |_| None)?;
    Ok(compiler.compile(&graph, &donated, &Options::from_env()?)?.report)
}
