//! `TensorBoard`: event files, which `tensorboard --logdir FOLDER` shows.
//!
//! Guarantees: a file is a sequence of whole records, each with the checksums that TensorBoard
//! verifies; a run that is killed leaves what was flushed. Each run writes a file of its own, so
//! that a run that goes on from a checkpoint adds to the curves.
//!
//! Does not: write graphs, text, or sound.

mod event;
mod image;
mod record;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use gt_ir::HostTensor;

use super::Tracker;
use crate::error::Result;
use crate::io::InFile;
use event::{Event, Histogram, What};

/// Writes an event file.
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// use gt::logger::{TensorBoard, Tracker};
/// # fn f(layer: Linear<N<3>, N<2>>) -> Result<()> {
/// let mut board = TensorBoard::new("runs/first")?;
/// board.scalars(0, &[("loss", 2.5), ("lr", 1e-3)])?;
/// board.histogram(0, "weight", &layer.weight.as_dyn().to_host()?)?;
/// board.flush()?;
/// # Ok(())
/// # }
/// ```
pub struct TensorBoard {
    path: PathBuf,
    file: BufWriter<File>,
    now: fn() -> f64,
}

impl TensorBoard {
    /// A new event file in a folder, which is made if it is not there.
    ///
    /// # Errors
    /// The folder or the file cannot be made.
    #[track_caller]
    pub fn new(folder: impl AsRef<Path>) -> Result<TensorBoard> {
        TensorBoard::with_clock(folder.as_ref(), seconds)
    }

    /// As [`TensorBoard::new`], with another clock: seconds since 1970.
    #[track_caller]
    fn with_clock(folder: &Path, now: fn() -> f64) -> Result<TensorBoard> {
        std::fs::create_dir_all(folder).in_file(folder)?;
        let (at, process) = (now() as u64, std::process::id());
        // Runs of one process in one second have names of their own, too.
        let name = |i: u32| folder.join(format!("events.out.tfevents.{at:010}.gt.{process}.{i}"));
        let free = (0..).map(name).find(|path| !path.exists()).unwrap_or_else(|| name(0));
        let file = BufWriter::new(File::create_new(&free).in_file(&free)?);
        let mut board = TensorBoard { path: free, file, now };
        board.write(0, What::Version)?;
        board.flush()?;
        Ok(board)
    }

    #[track_caller]
    fn write(&mut self, step: u64, what: What<'_>) -> Result<()> {
        let event = Event { seconds: (self.now)(), step, what }.encoded();
        record::write(&mut self.file, &event).in_file(&self.path)
    }
}

impl Tracker for TensorBoard {
    fn scalars(&mut self, step: u64, values: &[(&str, f64)]) -> Result<()> {
        self.write(step, What::Scalars(values))
    }

    fn histogram(&mut self, step: u64, name: &str, values: &HostTensor) -> Result<()> {
        match Histogram::of(&values.to_f64()) {
            Some(histogram) => self.write(step, What::Histogram(name, &histogram)),
            None => Ok(()),
        }
    }

    fn image(&mut self, step: u64, name: &str, image: &HostTensor) -> Result<()> {
        let image = image::Png::of(image)?;
        self.write(step, What::Image(name, &image))
    }

    fn flush(&mut self) -> Result<()> {
        self.file.flush().in_file(&self.path)
    }
}

/// The time of an event, which TensorBoard shows.
fn seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: [&str; 3] = [
        "1a00000000000000129bd82d09000000000000f83f10001a0d627261696e2e4576656e743a32d3dc531e",
        "2500000000000000eabc36f309000000000000f83f10032a180a0b0a046c6f7373150000003f0a090a02",
        "6c72156f12833a5424ddbf",
    ];

    /// The file that the reader of the package `tensorboard` was seen to read: any change of its
    /// bytes needs that check again.
    #[test]
    fn a_file_has_these_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let mut board = TensorBoard::with_clock(folder.path(), || 1.5).unwrap();
        board.scalars(3, &[("loss", 0.5), ("lr", 1e-3)]).unwrap();
        board.flush().unwrap();
        let bytes = std::fs::read(&board.path).unwrap();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, HEX.concat());
        let name = board.path.file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with("events.out.tfevents.0000000001.gt."), "{name}");
        let other = TensorBoard::with_clock(folder.path(), || 1.5).unwrap();
        assert_ne!(other.path, board.path);
    }
}
