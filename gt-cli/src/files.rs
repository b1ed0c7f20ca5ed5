//! Reading tapes and writing results. `-` is standard input or output.

use crate::fault::{Diagnosed, advised};
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use gt_compiler::ProgramFile;
use gt_ir::Tape;
use gt_ir::diagnostic::Diagnostic;
use gt_ir::verify::Verified;
use gt_ir::{binary, text, verify};
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

/// A tape that is well formed, and the types of its values.
pub(crate) struct Checked {
    pub(crate) tape: Tape,
    pub(crate) types: Verified,
}

/// All bytes of a file or of standard input.
pub(crate) fn read(path: &Path) -> Result<Bytes> {
    read_up_to(path, u64::MAX)
}

/// As [`read`], unless there are more bytes than this.
pub(crate) fn read_up_to(path: &Path, limit: u64) -> Result<Bytes> {
    let mut bytes = Vec::new();
    let said = || format!("cannot read {}", shown(path));
    let source = open(path).with_context(said)?;
    source.take(limit.saturating_add(1)).read_to_end(&mut bytes).with_context(said)?;
    ensure!(
        bytes.len() as u64 <= limit,
        "{} is larger than {limit} bytes, the limit of such a file",
        shown(path)
    );
    Ok(Bytes::from(bytes))
}

/// A file or standard input.
pub(crate) fn open(path: &Path) -> std::io::Result<Box<dyn Read>> {
    Ok(if is_dash(path) { Box::new(std::io::stdin().lock()) } else { Box::new(File::open(path)?) })
}

/// A new file, or standard output.
pub(crate) fn create(path: &Path) -> std::io::Result<Box<dyn Write>> {
    Ok(if is_dash(path) { Box::new(std::io::stdout()) } else { Box::new(File::create(path)?) })
}

/// Writes a file or standard output.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let said = || format!("cannot write {}", shown_output(path));
    if is_dash(path) {
        let mut out = std::io::stdout().lock();
        return out.write_all(bytes).and_then(|()| out.flush()).with_context(said);
    }
    std::fs::write(path, bytes).with_context(said)
}

/// A tape file in text or binary form, verified. Every fault is shown at its place.
pub(crate) fn tape(path: &Path) -> Result<Checked> {
    tape_of(path, read_up_to(path, text::MAX_BYTES as u64)?)
}

/// The verified tape in the bytes of a file.
pub(crate) fn tape_of(path: &Path, bytes: Bytes) -> Result<Checked> {
    ensure!(
        !ProgramFile::is(&bytes),
        advised(
            format!("{} is a compiled program, not a tape", shown(path)),
            "`gt-cli run` runs it"
        )
    );
    if binary::is_binary(&bytes) {
        return binary_tape(path, &bytes);
    }
    let source = String::from_utf8(bytes.into())
        .with_context(|| format!("{} is neither a tape nor a compiled program", shown(path)))?;
    match text::load(&source) {
        Ok(loaded) => Ok(Checked { tape: loaded.tape, types: loaded.verified }),
        Err(found) => Err(Diagnosed::new(found, shown(path), source).into()),
    }
}

/// Faults of a binary tape are shown at their places in its text form.
fn binary_tape(path: &Path, bytes: &[u8]) -> Result<Checked> {
    let tape = binary::decode(bytes).with_context(|| shown(path))?;
    verify::verify(&tape).map(|types| Checked { tape: tape.clone(), types }).map_err(|faults| {
        let (source, map) = text::print_mapped(&tape);
        let found: Vec<Diagnostic> = faults.iter().map(|fault| fault.diagnostic(&map)).collect();
        Diagnosed::new(found, format!("{} (in text form)", shown(path)), source).into()
    })
}

/// The name of the file in messages.
pub(crate) fn shown(path: &Path) -> String {
    if is_dash(path) { "standard input".into() } else { path.display().to_string() }
}

/// The name of a file that is written, in messages.
pub(crate) fn shown_output(path: &Path) -> String {
    if is_dash(path) { "to standard output".into() } else { path.display().to_string() }
}

/// Whether the path stands for standard input or output.
pub(crate) fn is_dash(path: &Path) -> bool {
    path == Path::new("-")
}
