//! Which dtypes libtorch multiplies faster than the native engine on a processor.
//!
//! Decided by what the processor is and nothing else. On x86-64, of libtorch's libraries (MKL and
//! oneDNN) it is known and was measured, with the example `product_cost` on an AMD processor with
//! AVX-512:
//! - `f32` and `f64`: MKL has its best kernels for Intel's processors only. Others get those of
//!   AVX2, where the native engine's are as wide as the processor: there they take half the time
//!   however operands lie (as long for matrices of 16 rows), and with AVX2 alone they are no
//!   slower.
//! - `bf16`: oneDNN multiplies in `bf16` where the processor can, as the native engine does. It
//!   takes four fifths of the time for large matrices, and up to twice the time for few rows.
//! - `f16`: the same is for processors with AVX-512 FP16. On others libtorch has plain loops, which
//!   take twice to a hundred times as long.

use gt_ir::DType;

/// Those of this processor.
pub(super) fn faster() -> Vec<DType> {
    #[cfg(target_arch = "x86_64")]
    let faster = |dtype: &DType| X86::here().is_faster(*dtype);
    #[cfg(not(target_arch = "x86_64"))]
    let faster = |dtype: &DType| dtype.is_float();
    DType::ALL.into_iter().filter(faster).collect()
}

/// What decides on x86-64.
#[cfg(target_arch = "x86_64")]
struct X86 {
    is_intel: bool,
    has_bf16: bool,
    has_f16: bool,
}

#[cfg(target_arch = "x86_64")]
impl X86 {
    fn here() -> X86 {
        let maker = std::arch::x86_64::__cpuid(0);
        let name = [maker.ebx, maker.edx, maker.ecx].map(u32::to_le_bytes);
        X86 {
            is_intel: name.as_flattened() == b"GenuineIntel",
            has_bf16: is_x86_feature_detected!("avx512bf16"),
            has_f16: is_x86_feature_detected!("avx512fp16"),
        }
    }

    fn is_faster(&self, dtype: DType) -> bool {
        match dtype {
            DType::F32 | DType::F64 => self.is_intel,
            DType::Bf16 => self.has_bf16,
            DType::F16 => self.has_f16,
            DType::I64 | DType::I32 | DType::U8 | DType::Bool => false,
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn the_rule_for_known_processors() {
        use DType::{Bf16, F16, F32, F64};
        let faster = |is_intel, has_bf16, has_f16| {
            let processor = X86 { is_intel, has_bf16, has_f16 };
            DType::ALL.into_iter().filter(|d| processor.is_faster(*d)).collect::<Vec<_>>()
        };
        assert_eq!(faster(true, true, true), [F32, F64, Bf16, F16], "Sapphire Rapids");
        assert_eq!(faster(true, false, false), [F32, F64], "Skylake");
        assert_eq!(faster(false, true, false), [Bf16], "Zen 4 and 5");
        assert!(faster(false, false, false).is_empty(), "Zen 3");
    }

    /// The maker's name is read in the order in which processors give it.
    #[test]
    #[cfg(target_os = "linux")]
    fn the_maker_is_who_the_system_says_it_is() {
        let told = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        if let Some(line) = told.lines().find(|line| line.starts_with("vendor_id")) {
            assert_eq!(X86::here().is_intel, line.ends_with("GenuineIntel"));
        }
    }
}
