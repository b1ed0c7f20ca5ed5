//! Work that the host does for a device: linear algebra, by the definition of the interpreter.
//!
//! The operands come to the host, which waits for them, and the result goes back. A plan with such
//! a step cannot be captured.

use std::fmt::Write as _;

use gt_ir::{Class, HostTensor, Op, Type, interp};

use super::gpu::Gpu;
use crate::{
    error::EngineError,
    schedule::{BufferId, Routine},
};

/// An op on buffers.
#[derive(Debug)]
pub(super) struct Hosted {
    op: Op,
    inputs: Vec<(BufferId, Type)>,
    out: BufferId,
}

impl Hosted {
    /// The routine as work for the host, if no device has kernels for it.
    pub(super) fn of(routine: &Routine) -> Option<Hosted> {
        let is_ours = routine.op.spec().class == Class::Matrix;
        let inputs = routine.inputs.to_vec();
        is_ours.then_some(Hosted { op: routine.op, inputs, out: routine.out })
    }

    /// Computes the result and copies it to the device.
    pub(super) fn run<G: Gpu>(
        &self,
        gpu: &G,
        address: impl Fn(BufferId) -> u64,
    ) -> Result<(), EngineError> {
        let operand = |(buffer, ty): &(BufferId, Type)| {
            let mut bytes = vec![0; ty.bytes()];
            if !bytes.is_empty() {
                gpu.words(address(*buffer), &mut bytes)?;
            }
            Ok(HostTensor::new(*ty, bytes.into())?)
        };
        let operands = self.inputs.iter().map(operand).collect::<Result<Vec<_>, EngineError>>()?;
        let args: Vec<_> = operands.iter().map(interp::Arg::Tensor).collect();
        let result = interp::eval(&self.op, &args).map_err(|e| EngineError::Call(e.to_string()))?;
        if result.bytes().is_empty() {
            return Ok(());
        }
        gpu.upload(result.bytes(), address(self.out))
    }

    /// The work as a line of a plan.
    pub(super) fn told(&self) -> String {
        let mut line = format!("{} on the host:", self.op);
        for (_, ty) in &self.inputs {
            // Writing to a string cannot fail.
            let _ = write!(line, " {ty}");
        }
        line
    }
}
