//! A code generator of our own for processors with vectors of 512 or of 256 bits: sixteen lanes or
//! eight, masked tails, constants from memory.
//!
//! `emit` writes a nest as linear code on virtual registers (`ir`), with addresses in `memory`,
//! folds in `sums`, `across` and `rows`, the arithmetic in `lanes` and (for elements of eight
//! bytes) `pairs` and `longs`; `halves` moves `bf16` as words, and `streams` stores past the
//! caches. `alloc` gives it real registers, `encode` chooses the instructions of `isa`, and `asm`
//! writes their bytes. Most instructions are the same for both sizes of vectors; `ymm` has what is
//! different with 256 bits, and `pieces` what is moved in several instructions. Every element gets
//! the bits that the Cranelift path gives it, all NaN being one. A nest that this generator has no
//! code for is refused, and goes there.

mod across;
mod alloc;
mod asm;
mod call;
mod doubles;
mod emit;
mod encode;
mod halves;
mod ir;
mod isa;
mod lanes;
mod longs;
mod memory;
mod pairs;
mod pieces;
mod rows;
mod scalars;
mod streams;
mod sums;
mod vectors;
mod ymm;

use super::nest::Nest;
pub(super) use isa::Vectors;

/// A nest this generator has no code for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unsupported(pub(super) &'static str);

/// The code of a nest, its registers chosen.
pub(super) struct Generated {
    function: ir::Function,
    allocation: alloc::Allocation,
}

/// The code of a nest for such vectors, if there is any.
pub(super) fn generate(nest: &Nest, vectors: Vectors) -> Result<Generated, Unsupported> {
    let function = emit::emit(nest, vectors)?;
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

impl Vectors {
    /// Those that this processor has, the widest first.
    pub(super) fn here() -> Vec<Vectors> {
        let all = [Vectors::Zmm, Vectors::Ymm];
        all.into_iter().filter(|vectors| vectors.are_here()).collect()
    }

    #[cfg(all(target_arch = "x86_64", unix))]
    fn are_here(self) -> bool {
        use std::arch::is_x86_feature_detected as has;
        let ymm = has!("avx2") && has!("fma") && has!("f16c") && has!("bmi2");
        let zmm = || has!("avx512f") && has!("avx512vl") && has!("avx512bw") && has!("avx512dq");
        match self {
            Vectors::Ymm => ymm,
            Vectors::Zmm => ymm && zmm(),
        }
    }

    #[cfg(not(all(target_arch = "x86_64", unix)))]
    fn are_here(self) -> bool {
        false
    }
}
