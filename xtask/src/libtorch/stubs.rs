//! Stub libraries in place of the CUDA libraries that PyTorch's build for CUDA loads, so that it
//! starts on the CPU without gigabytes of libraries.
//!
//! `nm` lists the symbols that PyTorch's libraries import. Each symbol of NVIDIA's libraries, and
//! of PyTorch's own CUDA part, becomes a function that returns 0, which means success and no
//! devices. A program on the CPU calls few of these functions. `cc` links the libraries under the
//! expected names. GT itself does not use them.

use crate::shell::Step;
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// PyTorch's libraries that are installed and import symbols of missing libraries.
const THERE: &[&str] =
    &["libtorch_python.so", "libtorch_cpu.so", "libtorch_global_deps.so", "libshm.so", "libc10.so"];
/// The missing libraries that are made even if no symbol of them is imported.
const NOT_THERE: &[&str] =
    &["libtorch.so", "libtorch_cuda.so", "libc10_cuda.so", "libcudnn.so.9", "libcufile.so.0"];
/// The prefixes of symbols that belong to Python and the standard library of C++.
const ELSEWHERE: &[&str] =
    &["Py", "_Py", "_ZNSt", "_ZNKSt", "_ZSt", "_Zd", "_Zn", "_ZTH", "_ITM", "__gmon"];
/// The file that is written when all libraries are made.
const DONE: &str = "stubs-made";

/// Makes the missing libraries in PyTorch's folder of libraries.
pub(super) fn make(folder: &Path) -> Result<()> {
    if folder.join(DONE).exists() {
        return Ok(());
    }
    let own = names(folder, "--defined-only")?;
    let mut libraries: BTreeMap<String, BTreeSet<String>> =
        NOT_THERE.iter().map(|name| ((*name).to_owned(), BTreeSet::new())).collect();
    for symbol in names(folder, "--undefined-only")? {
        if let Some(library) = library_of(&symbol, &own) {
            let name = symbol.split('@').next().unwrap_or(&symbol).to_owned();
            libraries.entry(library).or_default().insert(name);
        }
    }
    println!("making {} libraries in place of CUDA's", libraries.len());
    libraries.iter().try_for_each(|(library, symbols)| link(folder, library, symbols))?;
    fs::write(folder.join(DONE), "").context("cannot write to the folder of libraries")
}

/// The dynamic symbols of the installed libraries.
fn names(folder: &Path, which: &str) -> Result<BTreeSet<String>> {
    let paths = THERE.iter().map(|name| folder.join(name).to_string_lossy().into_owned());
    let words: Vec<String> = ["-D".to_owned(), which.to_owned()].into_iter().chain(paths).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let listing =
        Step::new("nm", &words).read().context("hint: `nm` and `cc` come with a C compiler")?;
    Ok(listing
        .lines()
        .filter_map(|line| line.split_whitespace().last())
        .map(str::to_owned)
        .collect())
}

/// The missing library that defines a symbol: by the symbol's version, or because no other library
/// defines it.
fn library_of(symbol: &str, own: &BTreeSet<String>) -> Option<String> {
    match symbol.split_once('@') {
        Some((_, version)) => {
            let version = version.trim_start_matches('@');
            version.starts_with("libcu").then(|| version.to_owned())
        }
        None if own.contains(symbol) || ELSEWHERE.iter().any(|start| symbol.starts_with(start)) => {
            None
        }
        None if symbol.starts_with("cuFile") => Some("libcufile.so.0".into()),
        // A heading of the listing.
        None if symbol.ends_with(".so:") || symbol.starts_with('/') => None,
        None => Some("libtorch_cuda.so".into()),
    }
}

/// The C source of the stub for a symbol.
fn stub(symbol: &str) -> String {
    if let Some(name) = symbol.strip_prefix("_ZTI") {
        // The type information of a class, which is registered by name.
        return format!("const void *const {symbol}[4] = {{CLASS + 16, \"{name}\"}};\n");
    }
    if symbol.starts_with("_ZTV") || symbol.ends_with("9allocatorE") {
        return format!("char {symbol}[1024];\n");
    }
    if symbol.contains("get_gil_checker") {
        // A reference that is written through at startup.
        return format!("static char room[4096];\nvoid *{symbol}(void) {{ return room; }}\n");
    }
    format!("long {symbol}(void) {{ return 0; }}\n")
}

fn link(folder: &Path, library: &str, symbols: &BTreeSet<String>) -> Result<()> {
    let mut source = "extern char _ZTVN10__cxxabiv117__class_type_infoE[];\n#define CLASS \
                      _ZTVN10__cxxabiv117__class_type_infoE\n"
        .to_owned();
    symbols.iter().for_each(|symbol| source.push_str(&stub(symbol)));
    let [code, versions] = ["stub.c", "stub.map"].map(|name| folder.join(name));
    let mut map = String::new();
    let _ = writeln!(map, "{library} {{ global: *; }};");
    fs::write(&code, source).context("cannot write a stub")?;
    fs::write(&versions, map).context("cannot write a stub")?;
    let output = folder.join(library).to_string_lossy().into_owned();
    let mut step = Step::new("cc", &["-shared", "-fPIC", "-w", "-fno-builtin", "-o", &output])
        .args(&[&code.to_string_lossy(), &format!("-Wl,-soname,{library}"), "-Wl,--no-as-needed"]);
    if !library.ends_with(".so") {
        step = step.args(&[&format!("-Wl,--version-script={}", versions.display())]);
    }
    step.args(&["-lstdc++"]).read()?;
    [code, versions].iter().try_for_each(fs::remove_file).context("cannot remove a stub's source")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_looked_for_where_they_would_come_from() {
        let own = BTreeSet::from(["_ZN2at3addEv".to_owned()]);
        let of = |symbol| library_of(symbol, &own);
        assert_eq!(of("cudaMalloc@libcudart.so.13").as_deref(), Some("libcudart.so.13"));
        assert_eq!(of("memcpy@GLIBC_2.14"), None);
        assert_eq!(of("_ZN2at3addEv"), None);
        assert_eq!(of("PyList_New"), None);
        assert_eq!(of("_ZN4c10d15get_gil_checkerEv").as_deref(), Some("libtorch_cuda.so"));
        assert_eq!(of("cuFileRead").as_deref(), Some("libcufile.so.0"));
    }
}
