//! A code generator of our own for processors with 512-bit vectors: sixteen lanes, masked tails,
//! constants from memory.
//!
//! `emit` writes a nest as linear code on virtual registers (`ir`), with addresses in `memory`,
//! folds in `sums` and `across`, the arithmetic in `lanes` and (for elements of eight bytes)
//! `pairs`. `alloc` gives it real registers, `encode` chooses the instructions of `isa`, and `asm`
//! writes their bytes. Every element gets the bits that the Cranelift path gives it. A nest that
//! this generator has no code for is refused, and goes there.

mod across;
mod alloc;
mod asm;
mod call;
mod emit;
mod encode;
mod ir;
mod isa;
mod lanes;
mod memory;
mod pairs;
mod scalars;
mod sums;
mod vectors;

use super::nest::Nest;

/// A nest this generator has no code for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unsupported(pub(super) &'static str);

/// The code of a nest, its registers chosen.
pub(super) struct Generated {
    function: ir::Function,
    allocation: alloc::Allocation,
}

/// The code of a nest, if there is any.
pub(super) fn generate(nest: &Nest) -> Result<Generated, Unsupported> {
    let function = emit::emit(nest)?;
    let allocation = alloc::allocate(&function);
    Ok(Generated { function, allocation })
}

impl Generated {
    /// Position independent, for the System V calling convention.
    pub(super) fn bytes(&self) -> Vec<u8> {
        encode::encode(&self.function, &self.allocation)
    }

    /// As text, one instruction a line.
    pub(super) fn listing(&self) -> String {
        alloc::listing(&self.function, &self.allocation)
    }
}

/// Whether this processor has the instructions.
pub(super) fn available() -> bool {
    #[cfg(all(target_arch = "x86_64", unix))]
    {
        use std::arch::is_x86_feature_detected as has;
        has!("avx512f")
            && has!("avx512vl")
            && has!("avx512bw")
            && has!("avx512dq")
            && has!("bmi2")
            && has!("fma")
    }
    #[cfg(not(all(target_arch = "x86_64", unix)))]
    false
}
