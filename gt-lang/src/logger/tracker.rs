//! `Tracker`: where the curves, histograms and images of a run go.

use gt_ir::HostTensor;

use crate::error::Result;
use crate::state::Stateful;

/// Takes what a run tells of itself. [`RunLogger`](super::RunLogger) and
/// [`TensorBoard`](super::TensorBoard) are trackers; a program writes its own for another service,
/// and gives several to one [`RunLogger::also`](super::RunLogger::also).
///
/// ```no_run
/// # extern crate gt_lang as gt;
/// # use gt::prelude::*;
/// use gt::logger::Tracker;
///
/// /// Prints what it is told.
/// struct Lines;
///
/// impl Tracker for Lines {
///     fn scalars(&mut self, step: u64, values: &[(&str, f64)]) -> Result<()> {
///         println!("{step} {values:?}");
///         Ok(())
///     }
/// }
/// let mut log = RunLogger::new("run", &["loss"], 50)?.also(Lines);
/// # Ok::<(), gt::Error>(())
/// ```
pub trait Tracker: Send {
    /// A point of some curves: values by the names of the curves.
    ///
    /// # Errors
    /// It cannot be kept.
    #[track_caller]
    fn scalars(&mut self, step: u64, values: &[(&str, f64)]) -> Result<()>;

    /// The values of a tensor of any shape, as a histogram. Left out where there are none.
    ///
    /// # Errors
    /// It cannot be kept.
    #[track_caller]
    fn histogram(&mut self, step: u64, name: &str, values: &HostTensor) -> Result<()> {
        let _ = (step, name, values);
        Ok(())
    }

    /// An image: `[height, width]` or `[channels, height, width]` of 1 (gray), 3 or 4 (with
    /// opacity) channels; `u8` from 0 to 255 or floats from 0 to 1. Left out where there are none.
    ///
    /// # Errors
    /// It is no image, or cannot be kept.
    #[track_caller]
    fn image(&mut self, step: u64, name: &str, image: &HostTensor) -> Result<()> {
        let _ = (step, name, image);
        Ok(())
    }

    /// Brings what was told so far to where others see it.
    ///
    /// # Errors
    /// It cannot be kept.
    #[track_caller]
    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    /// What of it belongs into a checkpoint, such as the curves so far. Nothing, if it does not say
    /// otherwise.
    fn state(&mut self) -> Option<&mut dyn Stateful> {
        None
    }
}
