//! CUDA C++ to machine code, by NVRTC.
//!
//! NVRTC is found and loaded when the first compiler is made (`find`), and needs neither a device
//! nor a driver. What was compiled once is kept on disk, in the folder of compiled programs and by
//! its rules. May be called from any number of threads.

mod ffi;
mod find;

#[cfg(test)]
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::{ffi::CString, path::PathBuf};

use serde::{Deserialize, Serialize};

use super::source::{Source, unit};
use crate::{error::EngineError, native::files};
use ffi::Nvrtc;
#[cfg(test)]
pub(super) use find::for_test;

/// How texts are compiled.
///
/// Nothing is contracted (`--fmad=false`): `a * b + c` has the bits of its two operations, as it
/// has when each is a kernel of its own, so that when a plan takes over changes no result. Division
/// and square root round correctly, and numbers below the normal ones count. The library's own
/// functions use fused operations where they mean to. `--minimal` leaves out declarations no kernel
/// uses.
const FLAGS: &[&str] = &[
    "--std=c++17",
    "--fmad=false",
    "--ftz=false",
    "--prec-div=true",
    "--prec-sqrt=true",
    "--minimal",
];

/// Compiles for one architecture.
pub(crate) struct Compiler {
    nvrtc: Nvrtc,
    flags: Vec<String>,
    folder: Option<PathBuf>,
    /// Texts that were not found on disk.
    #[cfg(test)]
    translated: AtomicUsize,
}

/// What is kept on disk. The key is compared: names are only hashes.
#[derive(Serialize, Deserialize)]
struct Kept {
    key: String,
    cubin: Vec<u8>,
}

impl Compiler {
    /// For devices of compute capability `major.minor`; what is compiled is kept in `folder`.
    ///
    /// # Errors
    /// NVRTC cannot be loaded: where it was looked for, and what to do.
    pub(crate) fn new(
        (major, minor): (i32, i32),
        folder: Option<PathBuf>,
    ) -> Result<Compiler, EngineError> {
        let nvrtc = find::load()?;
        let architecture = format!("--gpu-architecture=sm_{major}{minor}");
        let flags = FLAGS.iter().map(|f| (*f).to_owned()).chain([architecture]).collect();
        let folder = folder.and_then(|folder| files::prepare(&folder).ok());
        Ok(Compiler {
            nvrtc,
            flags,
            folder,
            #[cfg(test)]
            translated: AtomicUsize::new(0),
        })
    }

    /// The machine code (a cubin) of kernels of different names.
    ///
    /// # Errors
    /// A text does not compile: GT's fault; the compiler's words, and the line.
    pub(crate) fn compile(&self, sources: &[Source]) -> Result<Vec<u8>, EngineError> {
        let text = unit(sources);
        let key = format!("{:?} {}\n{text}", self.nvrtc.version(), self.flags.join(" "));
        if let Some(cubin) = self.find(&key) {
            return Ok(cubin);
        }
        #[cfg(test)]
        self.translated.fetch_add(1, Relaxed);
        let cubin = self.translate(&text)?;
        self.keep(key, &cubin);
        Ok(cubin)
    }

    /// How many texts it had to compile.
    #[cfg(test)]
    pub(crate) fn translated(&self) -> usize {
        self.translated.load(Relaxed)
    }

    fn translate(&self, text: &str) -> Result<Vec<u8>, EngineError> {
        let failed = |why: String| EngineError::Codegen(format!("NVRTC: {why}"));
        let flags: Result<Vec<CString>, _> =
            self.flags.iter().map(|f| CString::new(f.as_str())).collect();
        let flags = flags.map_err(|e| failed(e.to_string()))?;
        let program = self.nvrtc.program(text).map_err(failed)?;
        match program.compile(&flags) {
            Ok(()) => program.cubin().map_err(failed),
            Err(why) => Err(failed(explained(&why, &program.log(), text))),
        }
    }

    fn path(&self, key: &str) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(format!("{}.cubin", files::name(&[key.as_bytes()]))))
    }

    fn find(&self, key: &str) -> Option<Vec<u8>> {
        let path = self.path(key)?;
        let kept: Kept = postcard::from_bytes(&std::fs::read(&path).ok()?).ok()?;
        (kept.key == key).then(|| files::touch(&path))?;
        Some(kept.cubin)
    }

    /// Keeping is an effort only: a disk that is full costs time later.
    fn keep(&self, key: String, cubin: &[u8]) {
        let Some(path) = self.path(&key) else { return };
        if let Ok(bytes) = postcard::to_stdvec(&Kept { key, cubin: cubin.to_vec() })
            && files::write_whole(&path, &bytes).is_ok()
            && let Some(folder) = &self.folder
        {
            files::prune(folder);
        }
    }
}

/// The compiler's words, and the first line it complains about.
fn explained(why: &str, log: &str, text: &str) -> String {
    let first = log.lines().find(|l| l.contains("error")).unwrap_or_default();
    let number = first.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
    let number = number.and_then(|(n, _)| n.parse::<usize>().ok());
    let line = number.and_then(|n| text.lines().nth(n.checked_sub(1)?));
    match line {
        Some(line) => format!("{why}: {log}\nthe line is: {}", line.trim()),
        None => format!("{why}: {log}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_text_shows_its_line() {
        let text = "first\n  int x = y;\nthird";
        let log = "kernels.cu(2): error: identifier \"y\" is undefined";
        let shown = explained("NVRTC_ERROR_COMPILATION (6)", log, text);
        assert!(shown.ends_with("the line is: int x = y;"), "{shown}");
    }

    #[test]
    fn compiled_kernels_are_kept() {
        let folder = std::env::temp_dir().join(format!("gt-cubins-{}", std::process::id()));
        let Some(compiler) = find::for_test((9, 0), Some(folder.clone())) else { return };
        let source = Source {
            name: "nothing".into(),
            text: "extern \"C\" __global__ void nothing() {}\n".into(),
            grid: 1,
            block: 32,
        };
        let cubin = compiler.compile(std::slice::from_ref(&source)).unwrap();
        assert!(cubin.starts_with(b"\x7fELF"));
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
        assert_eq!(compiler.compile(std::slice::from_ref(&source)).unwrap(), cubin);
        let wrong = Source { text: source.text.replace("void", "viod"), ..source };
        let error = compiler.compile(&[wrong]).unwrap_err().to_string();
        assert!(error.contains("the line is: extern"), "{error}");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
