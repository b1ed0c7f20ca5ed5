//! The processor and its memory.

use super::report::{Finding, Section};
use crate::doctor::system::size;
use serde_json::json;

/// The available memory below which the examples may not run.
const LITTLE: u64 = 256 << 20;

pub(super) fn section() -> Section {
    let mut section = Section::new("host");
    section.say("processor", model());
    let vectors = vectors();
    let narrow = (!vectors.contains(&"avx2"))
        .then(|| Finding::advice("the processor has no AVX2: code is for 128-bit vectors", ""));
    section.line("vectors", vectors.join(" "), json!(vectors), narrow);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    section.line("cores", cores.to_string(), cores.into(), None);
    let memory = [memory("MemTotal:"), memory("MemAvailable:")];
    let text = format!("{}, {} available", shown(memory[0]), shown(memory[1]));
    let little = memory[1].is_some_and(|bytes| bytes < LITTLE).then(|| {
        Finding::advice(
            "hardly any memory is available",
            "end other programs, or run on a larger machine",
        )
    });
    section.line("memory", text, json!({ "total": memory[0], "available": memory[1] }), little);
    section
}

fn model() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("model name"));
    line.map_or(std::env::consts::ARCH.into(), |l| l.trim_start_matches([' ', '\t', ':']).into())
}

/// The processor's vector instructions that matter to generated code and libtorch.
fn vectors() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    {
        let found = [
            ("sse4.2", is_x86_feature_detected!("sse4.2")),
            ("avx2", is_x86_feature_detected!("avx2")),
            ("fma", is_x86_feature_detected!("fma")),
            ("avx512f", is_x86_feature_detected!("avx512f")),
            ("avx512bw", is_x86_feature_detected!("avx512bw")),
            ("avx512dq", is_x86_feature_detected!("avx512dq")),
            ("avx512vl", is_x86_feature_detected!("avx512vl")),
            ("avx512bf16", is_x86_feature_detected!("avx512bf16")),
        ];
        found.into_iter().filter_map(|(name, there)| there.then_some(name)).collect()
    }
    #[cfg(not(target_arch = "x86_64"))]
    Vec::new()
}

/// A figure of `/proc/meminfo`, in bytes.
fn memory(name: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib << 10)
}

fn shown(bytes: Option<u64>) -> String {
    bytes.map_or("unknown".into(), size)
}
