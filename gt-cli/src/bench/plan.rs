//! A step of a work as a graph, and the kernels, launches and bytes of its plan. The plan is found
//! by compiling a recorded step again, after the measurement.
//!
//! The work is started again for this, and its second step is recorded, because an optimizer's
//! first step makes values that later steps update.

use super::step::Step;
use anyhow::Result;
use gt_compiler::{Compile, Options, Report};
use gt_ir::verify::Verifier;
use gt_ir::{Segment, Tape, ValueId};
use gt_lang::Session;

/// The report of the plan of a step.
pub(super) fn report(
    session: &Session,
    compiler: &dyn Compile,
    prepare: impl FnOnce() -> Result<Step>,
) -> Result<Report> {
    let Segment { graph, donated, .. } = recorded(session, prepare)?;
    Ok(compiler.compile(&graph, &donated, &Options::from_env()?)?.report)
}

/// A step as a segment.
pub(super) fn recorded(
    session: &Session,
    prepare: impl FnOnce() -> Result<Step>,
) -> Result<Segment> {
    session.start_trace();
    let mut step = prepare()?;
    step()?;
    let before = session.stop_trace();
    session.start_trace();
    step()?;
    let tape = session.stop_trace_as_submitted();
    let mut types = Verifier::new();
    // An error would leave a value without a type, so compiling the step would fail.
    before.entries.iter().for_each(|entry| drop(types.entry(entry)));
    Ok(gt_ir::segment(&tape, |value| types.ty(value))?)
}

/// The report of the plan of a tape.
pub(super) fn of(
    tape: &Tape,
    compiler: &dyn Compile,
    ty: impl Fn(ValueId) -> Option<gt_ir::Type>,
) -> Result<Report> {
    let Segment { graph, donated, .. } = gt_ir::segment(tape, ty)?;
    Ok(compiler.compile(&graph, &donated, &Options::from_env()?)?.report)
}
