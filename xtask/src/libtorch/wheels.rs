//! The pinned wheels, and the files taken from each.
//!
//! A pin is a project, a version and the hash of one file, so that every index gives the same
//! bytes. The index itself is the user's configuration. To move to another libtorch, change the
//! table and the version of `tch` in Cargo.toml together.

use super::Kind;
use std::fmt;

/// The version of libtorch that `tch` is made for.
pub(super) const TORCH: &str = "2.11.0";

/// The version of Python whose wheels are fetched.
pub(crate) const PYTHON: &str = "3.11";

/// A file of an index.
#[derive(Clone, Copy)]
pub(super) struct Wheel {
    pub(super) project: &'static str,
    pub(super) version: &'static str,
    pub(super) platform: &'static str,
    pub(super) megabytes: u32,
    pub(super) sha256: &'static str,
}

impl fmt::Display for Wheel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({} MB)", self.project, self.version, self.megabytes)
    }
}

/// Files taken from a wheel: the path of a file, or of a folder if it ends with a slash, and the
/// destination below the folder of the kind.
pub(super) struct Take {
    pub(super) from: String,
    pub(super) to: String,
}

impl Take {
    fn below(folder: &str, name: &str) -> Take {
        Take { from: format!("{folder}/{name}"), to: name.into() }
    }

    /// A file or a folder that keeps its name.
    fn as_it_is(name: &str) -> Take {
        Take { from: name.into(), to: name.into() }
    }

    /// A path that is left out of the folder around it. The entry stands before the folder's.
    pub(super) fn leave_out(from: &str) -> Take {
        Take { from: from.into(), to: String::new() }
    }

    pub(super) fn is_left_out(&self) -> bool {
        self.to.is_empty()
    }
}

/// A wheel and the files taken from it.
pub(super) struct Part {
    pub(super) wheel: Wheel,
    pub(super) takes: Vec<Take>,
}

const fn wheel(
    project: &'static str,
    version: &'static str,
    platform: &'static str,
    megabytes: u32,
    sha256: &'static str,
) -> Wheel {
    Wheel { project, version, platform, megabytes, sha256 }
}

#[rustfmt::skip]
mod pins {
    use super::{TORCH, Wheel, wheel};

    pub(super) const TORCH_WHEEL: Wheel = wheel("torch", TORCH, "manylinux_2_28_x86_64", 531, "7aa2f9bbc6d4595ba72138026b2074be1233186150e9292865e04b7a63b8c67a");
    pub(super) const CUPTI: Wheel = wheel("nvidia-cuda-cupti", "13.0.85", "manylinux_2_25_x86_64", 11, "4eb01c08e859bf924d222250d2e8f8b8ff6d3db4721288cf35d14252a4d933c8");
    pub(super) const RUNTIME: Wheel = wheel("nvidia-cuda-runtime", "13.0.96", "manylinux2014_x86_64", 2, "7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548");
    pub(super) const NVRTC: Wheel = wheel("nvidia-cuda-nvrtc", "13.0.88", "manylinux2010_x86_64", 90, "ad9b6d2ead2435f11cbb6868809d2adeeee302e9bb94bcf0539c7a40d80e8575");
    pub(super) const CRT: Wheel = wheel("nvidia-cuda-crt", "13.0.88", "manylinux2014_x86_64", 1, "2c8043c7c9e02492716426e9919fc78d2c5b3b2a7a768a88e952676b08aa55a4");
    pub(super) const CCCL: Wheel = wheel("nvidia-cuda-cccl", "13.0.85", "manylinux2014_x86_64", 3, "e0da7ad981f3a8aff08241b5bfc1af868742a63e2762f53a5171c492ef242649");
    pub(super) const NUMPY: (Wheel, &[&str]) = (wheel("numpy", "2.4.6", "manylinux_2_27_x86_64", 17, "89cd468399cfd2504718f0ba50e410dca55a170b61a02ad92bb18c8a65186e93"), &["numpy/", "numpy.libs/"]);
    pub(super) const TYPING: (Wheel, &[&str]) = (wheel("typing-extensions", "4.16.0", "any", 1, "481caa481374e813c1b176ada14e97f1f67a4539ce9cfeb3f350d78d6370c2e8"), &["typing_extensions.py"]);
    /// The packages that PyTorch and its tests import, and the folders taken from them.
    pub(super) const TO_IMPORT: &[(Wheel, &[&str])] = &[
        NUMPY,
        (wheel("sympy", "1.14.0", "any", 6, "e091cc3e99d2141a0ba2847328f5479b05d94a6635cb96148ccb3f34671bd8f5"), &["sympy/"]),
        (wheel("mpmath", "1.3.0", "any", 1, "a0b2b9fe80bbcd81a6647ff13108738cfb482d481d826cc0e02f5b35e5c88d2c"), &["mpmath/"]),
        TYPING,
        (wheel("expecttest", "0.3.0", "any", 1, "60f88103086e1754240b42175f622be83b6ffeac419434691ee5a5be819d0544"), &["expecttest/"]),
        (wheel("setuptools", "80.9.0", "any", 1, "062d34222ad13e0cc312a4c02d73f059e86a4acbfbdea8f8f76b28c99f306922"), &["setuptools/", "_distutils_hack/"]),
    ];
    /// ONNX and ONNX Runtime, the packages that they import, and the folders taken from them.
    pub(super) const ONNX: &[(Wheel, &[&str])] = &[
        (wheel("onnx", "1.23.2", "manylinux_2_28_x86_64", 9, "c03ecf6b835d136108eeaeeafbd0026fc7b3cf98661409fbc6b63d5a29361348"), &["onnx/"]),
        (wheel("onnxruntime", "1.32.0", "manylinux_2_28_x86_64", 28, "5a34fc4dfeb5a7b4a74c95dcba1e773d722abda720b474edf1b0c419dc6d163d"), &["onnxruntime/"]),
        (wheel("protobuf", "7.36.2", "manylinux2014_x86_64", 1, "89f23aa53c24553a2416fd4fd1ec06f74fa42b14b546d8883128813f775bbfd2"), &["google/"]),
        (wheel("ml-dtypes", "0.6.0", "manylinux_2_28_x86_64", 1, "6c8e39b53e90afda8ce52859c93de4dba3e02b76d85dcf091cc469f9184c6dae"), &["ml_dtypes/"]),
        (wheel("flatbuffers", "25.12.19", "any", 1, "7634f50c427838bb021c2d66a3d1168e9d199b0607e6329399f04846d42e20b4"), &["flatbuffers/"]),
        (wheel("packaging", "26.4", "any", 1, "81383611a09c1bc0b08b76e0fd5829d7c6824c65b27a6aee339da133f4233ea2"), &["packaging/"]),
        NUMPY,
        TYPING,
    ];
    /// The libraries that `libtorch_cuda.so` loads, which programs need to start.
    pub(super) const TO_RUN: &[(Wheel, &str)] = &[
        (wheel("nvidia-cublas", "13.1.0.3", "manylinux_2_27_x86_64", 423, "ee8722c1f0145ab246bccb9e452153b5e0515fd094c3678df50b2a0888b8b171"), "nvidia/cu13/lib/"),
        (wheel("nvidia-cufft", "12.0.0.61", "manylinux2014_x86_64", 214, "6c44f692dce8fd5ffd3e3df134b6cdb9c2f72d99cf40b62c32dde45eea9ddad3"), "nvidia/cu13/lib/"),
        (wheel("nvidia-cufile", "1.15.1.6", "manylinux2014_x86_64", 1, "08a3ecefae5a01c7f5117351c64f17c7c62efa5fffdbe24fc7d298da19cd0b44"), "nvidia/cu13/lib/"),
        (wheel("nvidia-curand", "10.4.0.35", "manylinux_2_27_x86_64", 60, "1aee33a5da6e1db083fe2b90082def8915f30f3248d5896bcec36a579d941bfc"), "nvidia/cu13/lib/"),
        (wheel("nvidia-cusolver", "12.0.4.66", "manylinux_2_27_x86_64", 201, "0a759da5dea5c0ea10fd307de75cdeb59e7ea4fcb8add0924859b944babf1112"), "nvidia/cu13/lib/"),
        (wheel("nvidia-cusparse", "12.6.3.3", "manylinux2014_x86_64", 146, "2b3c89c88d01ee0e477cb7f82ef60a11a4bcd57b6b87c33f789350b59759360b"), "nvidia/cu13/lib/"),
        (wheel("nvidia-nvjitlink", "13.0.88", "manylinux2010_x86_64", 41, "13a74f429e23b921c1109976abefacc69835f2f433ebd323d3946e11d804e47b"), "nvidia/cu13/lib/"),
        (wheel("nvidia-nvtx", "13.0.85", "manylinux1_x86_64", 1, "4936d1d6780fbe68db454f5e72a42ff64d1fd6397df9f363ae786930fd5c1cd4"), "nvidia/cu13/lib/"),
        (wheel("nvidia-cudnn-cu13", "9.19.0.56", "manylinux_2_27_x86_64", 366, "d20e1734305e9d68889a96e3f35094d733ff1f83932ebe462753973e53a572bf"), "nvidia/cudnn/lib/"),
        (wheel("nvidia-cusparselt-cu13", "0.8.0", "manylinux2014_x86_64", 170, "25e30a8a7323935d4ad0340b95a0b69926eee755767e8e0b1cf8dd85b197d3fd"), "nvidia/cusparselt/lib/"),
        (wheel("nvidia-nccl-cu13", "2.28.9", "manylinux_2_18_x86_64", 196, "e4553a30f34195f3fa1da02a6da3d6337d28f2003943aa0a3d247bbc25fefc42"), "nvidia/nccl/lib/"),
        (wheel("nvidia-nvshmem-cu13", "3.4.5", "manylinux2014_x86_64", 60, "290f0a2ee94c9f3687a02502f3b9299a9f9fe826e6d0287ee18482e78d495b80"), "nvidia/nvshmem/lib/"),
    ];
}

/// The wheels of a kind, and the files taken from each.
pub(super) fn parts(kind: Kind) -> Vec<Part> {
    match kind {
        Kind::Python => return python(),
        Kind::Onnx => return packages(pins::ONNX).collect(),
        Kind::Cpu | Kind::Cuda | Kind::CudaRun => (),
    }
    let mut parts = vec![
        Part { wheel: pins::TORCH_WHEEL, takes: torch(kind) },
        of_cuda(kind, pins::CUPTI, &["lib/libcupti.so.13"]),
        of_cuda(kind, pins::RUNTIME, &["lib/libcudart.so.13"]),
        of_cuda(kind, pins::NVRTC, &["lib/libnvrtc.so.13", "lib/libnvrtc-builtins.so.13.0"]),
    ];
    if kind != Kind::Cpu {
        parts.extend([pins::CRT, pins::CCCL].map(|wheel| of_cuda(kind, wheel, &[])));
    }
    if kind == Kind::CudaRun {
        parts.extend(pins::TO_RUN.iter().map(|&(wheel, folder)| Part {
            wheel,
            takes: vec![Take { from: folder.into(), to: "lib/".into() }],
        }));
    }
    parts
}

/// PyTorch without the files for GPUs and for compilers. `stubs` replaces the libraries for GPUs.
fn python() -> Vec<Part> {
    let out = [
        "include/",
        "share/",
        "bin/ptxas",
        "bin/protoc",
        "lib/libtorch.so",
        "lib/libtorch_cuda.so",
        "lib/libtorch_cuda_linalg.so",
        "lib/libtorch_nvshmem.so",
        "lib/libc10_cuda.so",
        "lib/libcaffe2_nvrtc.so",
    ];
    let mut takes: Vec<Take> =
        out.iter().map(|name| Take::leave_out(&format!("torch/{name}"))).collect();
    takes.extend(["torch/", "torchgen/", "functorch/"].map(Take::as_it_is));
    let torch = Part { wheel: pins::TORCH_WHEEL, takes };
    [torch].into_iter().chain(packages(pins::TO_IMPORT)).collect()
}

/// Packages of Python, of which the named folders are taken.
fn packages(wheels: &'static [(Wheel, &[&str])]) -> impl Iterator<Item = Part> {
    wheels.iter().map(|(wheel, names)| Part {
        wheel: *wheel,
        takes: names.iter().copied().map(Take::as_it_is).collect(),
    })
}

fn torch(kind: Kind) -> Vec<Take> {
    let mut names = vec!["include/", "lib/libtorch_cpu.so", "lib/libc10.so", "lib/libgomp.so.1"];
    if kind != Kind::Cpu {
        names.extend([
            "lib/libtorch.so",
            "lib/libtorch_cuda.so",
            "lib/libc10_cuda.so",
            "lib/libtorch_nvshmem.so",
        ]);
    }
    if kind == Kind::CudaRun {
        names.extend(["lib/libtorch_cuda_linalg.so", "lib/libcaffe2_nvrtc.so"]);
    }
    names.into_iter().map(|name| Take::below("torch", name)).collect()
}

/// A wheel of CUDA: its libraries, some of which `libtorch_cpu.so` needs on every machine, and its
/// headers for building with CUDA.
fn of_cuda(kind: Kind, wheel: Wheel, libraries: &[&str]) -> Part {
    let headers: &[&str] = if kind == Kind::Cpu { &[] } else { &["include/"] };
    let takes =
        headers.iter().chain(libraries).map(|name| Take::below("nvidia/cu13", name)).collect();
    Part { wheel, takes }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn destinations(kind: Kind) -> Vec<String> {
        parts(kind).into_iter().flat_map(|part| part.takes).map(|take| take.to).collect()
    }

    #[test]
    fn each_kind_has_what_the_smaller_one_has() {
        let of = Kind::ALL.map(destinations);
        assert!(of[0].iter().all(|name| of[1].contains(name)));
        assert!(of[1].iter().all(|name| of[2].contains(name)));
    }

    #[test]
    fn pins_are_whole_hashes_of_different_files() {
        // PyTorch's wheel is the first of both, and NumPy is for Python and ONNX.
        let all = parts(Kind::CudaRun).into_iter().chain(parts(Kind::Python).into_iter().skip(1));
        let of_onnx = parts(Kind::Onnx).into_iter().take(6);
        let hashes: Vec<&str> = all.chain(of_onnx).map(|part| part.wheel.sha256).collect();
        assert!(
            hashes
                .iter()
                .all(|hash| hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit()))
        );
        let different: std::collections::BTreeSet<_> = hashes.iter().collect();
        assert_eq!(different.len(), hashes.len());
    }
}
