//! Kernel texts compiled for the host by `g++`, and called.
//!
//! One compilation for many kernels: each stands in a namespace of its own. Blocks and threads take
//! their turns in one order or in the other, launch by launch, so that what depends on their order
//! has different results.
#![expect(unsafe_code, reason = "loads and calls what was compiled")]

use std::{
    ffi::OsStr,
    path::PathBuf,
    process::Command,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use libloading::Library;

use crate::cuda::source::{Source, unit};

/// Compiled kernels.
pub(crate) struct Host {
    library: Library,
    folder: PathBuf,
    /// Launches so far.
    launches: AtomicU32,
}

impl Host {
    /// Compiles kernels of different names.
    pub(crate) fn new(what: &str, sources: &[Source]) -> Host {
        let folder = std::env::temp_dir().join(format!("gt-kernels-{what}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (code, library) = (folder.join("kernels.cpp"), folder.join("kernels.so"));
        std::fs::write(&code, unit(sources)).unwrap();
        let [from, to] = [code.as_os_str(), library.as_os_str()];
        compile(&["-shared".as_ref(), "-fPIC".as_ref(), "-o".as_ref(), to, from]);
        // SAFETY: the library was made just now, and has no initializers beyond those of its zeroed
        // variables.
        let library = unsafe { Library::new(&library) }.unwrap();
        Host { library, folder, launches: AtomicU32::new(0) }
    }

    /// Runs a kernel to its end, the other way round than the one before.
    pub(crate) fn launch(&self, source: &Source, args: &[u64]) {
        self.launch_in(self.launches.fetch_add(1, Relaxed) % 2, source, args);
    }

    /// The same in order 0 or 1.
    pub(crate) fn launch_in(&self, order: u32, source: &Source, args: &[u64]) {
        type Order = unsafe extern "C" fn(u32);
        type Launch = unsafe extern "C" fn(u32, *const u64);
        let name = format!("{}_launch", source.name);
        // SAFETY: every text exports its launcher with this signature.
        let launch = unsafe { self.library.get::<Launch>(name.as_bytes()) }.unwrap();
        // SAFETY: every library has this function with this signature.
        let set = unsafe { self.library.get::<Order>(b"gt_emulation_order") }.unwrap();
        // SAFETY: it keeps a number.
        unsafe { set(order) };
        // SAFETY: the arguments are addresses of the buffers the kernel was made for, which outlive
        // the call.
        unsafe { launch(source.grid, args.as_ptr()) }
    }
}

/// `g++`, as kernel texts want it.
fn compile(words: &[&OsStr]) {
    let mut command = Command::new("g++");
    command.args(["-std=c++17", "-O1", "-w", "-ffp-contract=off", "-DGT_HOST_EMULATION"]);
    let output = command.args(words).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

impl Drop for Host {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.folder).unwrap();
    }
}

/// Names that tell kernels apart: a word and a number.
pub(crate) struct Names(String, usize);

impl Names {
    pub(crate) fn of(word: &str) -> Names {
        Names(word.to_owned(), 0)
    }

    pub(crate) fn fresh(&mut self) -> String {
        self.1 += 1;
        format!("{}{}", self.0, self.1)
    }
}

/// What a device leaves undefined ends the emulation with a word.
#[test]
fn the_emulation_finds_what_is_undefined() {
    let cases = [
        ("if (threadIdx.x < 7) __syncthreads();", "have ended, others wait"),
        (
            "if (threadIdx.x < 7) __syncthreads();\nelse\n__syncthreads();",
            "the first thread waits elsewhere",
        ),
        ("if (threadIdx.x < 7) put(x[0], __shfl_down_sync(0xffffffffu, 1.0f, 1));", "others wait"),
        ("put(x[0], __shfl_down_sync(0xffu, 1.0f, 1));", "a shuffle of some lanes only"),
        ("store<4>(x, load<4>(x + 1));", "a pack is not aligned"),
        ("__syncthreads();\nput(x[threadIdx.x], __shfl_down_sync(0xffffffffu, 1.0f, 1));", ""),
    ];
    let source = |(i, (body, _)): (usize, &(&str, &str))| Source {
        name: format!("case{i}"),
        text: format!(
            "__global__ void case{i}(f32* x) {{ {body} }}\nextern \"C\" void \
             case{i}_launch(unsigned grid, const unsigned long long* args) {{ \
             run_together(case{i}, grid, 32, args); }}\n"
        ),
        grid: 1,
        block: 32,
    };
    let sources: Vec<Source> = cases.iter().enumerate().map(source).collect();
    let calls: String = (0..cases.len())
        .map(|i| format!("if (n == {i}) in_case{i}::case{i}_launch(1, args);\n"))
        .collect();
    let main = format!(
        "\nint main(int n, char**) {{\n--n;\nalignas(16) static float x[64];\nconst unsigned long \
         long args[] = {{(unsigned long long)x}};\n{calls}}}\n"
    );
    let folder = std::env::temp_dir().join(format!("gt-undefined-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (code, program) = (folder.join("cases.cpp"), folder.join("cases"));
    std::fs::write(&code, unit(&sources) + &main).unwrap();
    compile(&["-o".as_ref(), program.as_os_str(), code.as_os_str()]);
    for (i, (body, said)) in cases.iter().enumerate() {
        let output = Command::new(&program).args(vec!["-"; i]).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.success(), said.is_empty(), "{body}: {told}");
        assert!(told.contains(said), "{body}: {told}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}
