//! Texts of representative kernels, as a reviewer reads them: a change in a snapshot is a change in
//! what runs on a device.

use gt_ir::{lower, text};

use super::{host::Names, machine::Planned};
use crate::cuda::{
    nvrtc::for_test,
    source::{PRELUDE, Source},
};

/// A name, and the instructions of a tape.
pub(super) const SAMPLES: &[(&str, &str)] = &[
    (
        "chain",
        "%0 = input : f32[1048576]
         %1 = mul %0, 1.5 : f32[1048576]
         %2 = tanh %1 : f32[1048576]
         %3 = add %2, %0 : f32[1048576]
         output %3",
    ),
    (
        "odd_bias",
        "%0 = input : f32[64,1001]
         %1 = input : f32[1001]
         %2 = add %0, %1 : f32[64,1001]
         output %2",
    ),
    (
        "bias",
        "%0 = input : bf16[512,768]
         %1 = input : bf16[768]
         %2 = add %0, %1 : bf16[512,768]
         output %2",
    ),
    (
        "softmax_sum",
        "%0 = input : f32[4096,1024]
         %1 = max[1] %0 : f32[4096]
         %2 = reshape[4096,1] %1 : f32[4096,1]
         %3 = sub %0, %2 : f32[4096,1024]
         %4 = exp %3 : f32[4096,1024]
         %5 = sum[1] %4 : f32[4096]
         output %5",
    ),
    ("softmax", "%0 = input : bf16[4000,1000]\n%1 = softmax[1] %0 : bf16[4000,1000]\noutput %1"),
    (
        "layer_norm",
        "%0 = input : f32[8192,768]
         %1 = input : f32[768]
         %2 = input : f32[768]
         %3 = layer_norm[1] %0, %1, %2, 1e-5 : f32[8192,768]
         output %3",
    ),
    (
        "updates",
        "%0 = input : f32[768]
         %1 = input : f32[768]
         %2 = input : f32[768]
         %3 = input : f32[768]
         %4 = input : f32[50257,768]
         %5 = input : f32[50257,768]
         %6 = mul %1, 0.01 : f32[768]
         %7 = sub %0, %6 : f32[768]
         %8 = mul %3, 0.01 : f32[768]
         %9 = sub %2, %8 : f32[768]
         %10 = mul %5, 0.01 : f32[50257,768]
         %11 = sub %4, %10 : f32[50257,768]
         output %7
         output %9
         output %11",
    ),
    ("column_sum", "%0 = input : f32[512,768]\n%1 = sum[0] %0 : f32[768]\noutput %1"),
    ("long_sum", "%0 = input : f32[1000003]\n%1 = sum[0] %0 : f32[]\noutput %1"),
    (
        "variance",
        "%0 = input : bf16[8192,768]
         %1 = input : f32[8192,1]
         %2 = cast[f32] %0 : f32[8192,768]
         %3 = sub %2, %1 : f32[8192,768]
         %4 = mul %3, %3 : f32[8192,768]
         %5 = sum[1] %4 : f32[8192]
         output %5",
    ),
    (
        "transpose",
        "%0 = input : f32[1024,512]
         %1 = permute[1,0] %0 : f32[512,1024]
         %2 = neg %1 : f32[512,1024]
         output %2",
    ),
    (
        "half",
        "%0 = input : f32[65536]\n%1 = cast[bf16] %0 : bf16[65536]\n%2 = exp %1 : \
         bf16[65536]\noutput %2",
    ),
    ("argsort", "%0 = input : f32[4,3000]\n%1 = argsort[1] %0 : i64[4,3000]\noutput %1"),
    (
        "gather",
        "%0 = input : f32[512,50257]
         %1 = input : i64[512,1]
         %2 = gather[1] %0, %1 : f32[512,1]
         output %2",
    ),
    (
        "index_add",
        "%0 = input : f32[50257,768]
         %1 = input : i64[8192]
         %2 = input : f32[8192,768]
         %3 = index_add[0] %0, %1, %2 : f32[50257,768]
         output %3",
    ),
    (
        "integer_product",
        "%0 = input : i32[3,40,50]
         %1 = input : i32[50,60]
         %2 = matmul %0, %1 : i32[3,40,60]
         output %2",
    ),
    ("uniform", "%0 = rand[f32[1001]] 7 : f32[1001]\noutput %0"),
];

/// The kernels of a tape's instructions.
fn sources(name: &str, instructions: &str) -> Vec<Source> {
    let tape = format!("gt tape 1\n{instructions}\n");
    let tape: String = tape.lines().map(|line| format!("{}\n", line.trim())).collect();
    let graph = lower(&text::parse(&tape).unwrap().0).unwrap();
    Planned::new(&graph, &mut Names::of(name)).sources().cloned().collect()
}

/// A kernel without what all texts share.
fn own(source: &Source) -> String {
    let text = source.text.strip_prefix(PRELUDE).unwrap();
    let text = text.split("\n#ifdef GT_HOST_EMULATION").next().unwrap();
    let at = text.find(&format!("// {}", source.name)).unwrap();
    format!("// {} blocks of {}\n{}", source.grid, source.block, &text[at..])
}

#[test]
fn texts() {
    for (name, instructions) in SAMPLES {
        let shown: Vec<String> = sources(name, instructions).iter().map(own).collect();
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path("../../../../../snapshots");
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings.bind(|| insta::assert_snapshot!(format!("cuda_{name}"), shown.join("\n")));
    }
}

/// NVRTC takes every text, for the oldest and the newest architecture there is a text for.
#[test]
fn nvrtc_takes_them() {
    for capability in [(7, 5), (9, 0)] {
        let Some(compiler) = for_test(capability, None) else { return };
        let all: Vec<Source> = SAMPLES.iter().flat_map(|(n, i)| sources(n, i)).collect();
        let cubin = compiler.compile(&all).unwrap();
        assert!(cubin.starts_with(b"\x7fELF"));
    }
}

/// Programs of a device are not kept, but their texts are the same in every process, and what was
/// compiled of them is kept.
#[test]
fn a_second_start_compiles_nothing() {
    let folder = std::env::temp_dir().join(format!("gt-second-start-{}", std::process::id()));
    let start = || {
        let compiler = for_test((9, 0), Some(folder.clone()))?;
        for (name, instructions) in SAMPLES {
            compiler.compile(&sources(name, instructions)).unwrap();
        }
        Some(compiler.translated())
    };
    let Some(first) = start() else { return };
    assert_eq!((first, start()), (SAMPLES.len(), Some(0)));
    std::fs::remove_dir_all(folder).unwrap();
}
