//! `RunLogger`: the curves of a training run, live in the terminal and afterwards as a picture and
//! a table. [`TensorBoard`] writes event files; a [`Tracker`] takes what a run tells elsewhere.
//!
//! Guarantees: in a terminal a chart is drawn over itself at each interval, in colors unless
//! `NO_COLOR` is set; elsewhere each interval prints one line. What is printed goes to the error
//! stream, so that a program's output stays its own. `run.csv` and `run.svg` are replaced as
//! wholes. A logger is part of a checkpoint: a run that goes on has the curve from its beginning.
//!
//! Does not: read a clock (event files have times, and do), or tensors; numbers are given to it.
//!
//! ```no_run
//! # extern crate gt_lang as gt;
//! # fn f() -> gt::Result<()> {
//! let mut log = gt::logger::RunLogger::new("run", &["loss", "validation"], 50)?;
//! for step in 0..1000 {
//!     log.log(step, &[("loss", 1.0 / (step + 1) as f64)]);
//! }
//! log.finish()?;
//! # Ok(())
//! # }
//! ```

mod chart;
mod panels;
mod picture;
mod tensorboard;
#[cfg(test)]
pub(crate) mod tests;
mod tracker;

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use gt_ir::{Dim, HostTensor, Shape};

use crate::error::{Error, Result};
use crate::io::InFile;
use crate::io::csv::{self, Table};
use crate::state::{Commit, Misfits, StateDict, Stateful, data_error};
pub use tensorboard::TensorBoard;
pub use tracker::Tracker;

/// How what is logged is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// A line an interval.
    Lines,
    /// A chart drawn over itself.
    Chart { colors: bool },
}

/// One point of all curves: the step, and a value of each curve; NaN where there is none.
pub(crate) type Row = Vec<f64>;

/// Gathers the curves of a run and shows them.
pub struct RunLogger {
    folder: PathBuf,
    curves: Vec<String>,
    rows: Vec<Row>,
    every: usize,
    look: Look,
    out: Box<dyn Write + Send>,
    /// Lines of the chart drawn last, to draw over.
    drawn: usize,
    /// Who is told as well.
    others: Vec<Box<dyn Tracker>>,
    /// The first error of those, until it is told.
    failed: Option<Error>,
}

impl RunLogger {
    /// A logger of these curves, which shows them every so many points and writes `run.csv` and
    /// `run.svg` into a folder.
    ///
    /// # Errors
    /// The folder cannot be made.
    #[track_caller]
    pub fn new(folder: impl AsRef<Path>, curves: &[&str], every: usize) -> Result<RunLogger> {
        let folder = folder.as_ref().to_owned();
        std::fs::create_dir_all(&folder).in_file(&folder)?;
        let colors = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let look = match std::io::stderr().is_terminal() {
            true => Look::Chart { colors },
            false => Look::Lines,
        };
        Ok(RunLogger {
            folder,
            curves: curves.iter().map(|&name| name.to_owned()).collect(),
            rows: Vec::new(),
            every: every.max(1),
            look,
            out: Box::new(std::io::stderr()),
            drawn: 0,
            others: Vec::new(),
            failed: None,
        })
    }

    /// The logger with another tracker, which is told the same: all points, also of names that are
    /// no curve's here, and histograms and images.
    #[must_use]
    pub fn also(mut self, tracker: impl Tracker + 'static) -> RunLogger {
        self.others.push(Box::new(tracker));
        self
    }

    /// Adds a point: values by the names of their curves. Names that are no curve's are left out.
    /// An error of another tracker is told by the next [`RunLogger::save`].
    #[track_caller]
    pub fn log(&mut self, step: u64, values: &[(&str, f64)]) {
        self.tell(|tracker| tracker.scalars(step, values));
        let value = |curve: &String| values.iter().find(|(name, _)| name == curve);
        let found = self.curves.iter().map(|curve| value(curve).map_or(f64::NAN, |(_, v)| *v));
        self.rows.push([step as f64].into_iter().chain(found).collect());
        if self.rows.len().is_multiple_of(self.every) {
            self.show();
            self.tell(|tracker| tracker.flush());
        }
    }

    /// Tells the other trackers.
    #[track_caller]
    fn tell(&mut self, mut what: impl FnMut(&mut dyn Tracker) -> Result<()>) {
        for tracker in &mut self.others {
            if let Err(error) = what(&mut **tracker) {
                self.failed.get_or_insert(error);
            }
        }
    }

    /// The first error of another tracker that was not told.
    fn failure(&mut self) -> Result<()> {
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Writes `run.csv` and `run.svg`.
    ///
    /// # Errors
    /// A file cannot be written, or another tracker has failed.
    #[track_caller]
    pub fn save(&mut self) -> Result<()> {
        self.tell(|tracker| tracker.flush());
        let columns = ["step".to_owned()].into_iter().chain(self.curves.iter().cloned()).collect();
        csv::save(self.folder.join("run.csv"), &Table { columns, values: self.points()? })?;
        picture::save(&self.folder.join("run.svg"), &self.curves, &self.rows)?;
        self.failure()
    }

    /// Shows what came since the last interval, and saves.
    ///
    /// # Errors
    /// As [`RunLogger::save`].
    #[track_caller]
    pub fn finish(mut self) -> Result<()> {
        if !self.rows.len().is_multiple_of(self.every) {
            self.show();
        }
        self.save()
    }

    /// A terminal that does not take what is printed is no reason to stop training.
    fn show(&mut self) {
        let text = match self.look {
            Look::Lines => {
                self.rows.last().map_or(String::new(), |row| chart::line(&self.curves, row))
            }
            Look::Chart { colors } => {
                let chart = chart::draw(&self.curves, &self.rows, colors);
                let over = std::mem::replace(&mut self.drawn, chart.lines().count());
                let up = if over > 0 { format!("\x1b[{over}A\x1b[J") } else { String::new() };
                format!("{up}{chart}")
            }
        };
        let _ = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }

    #[track_caller]
    fn points(&self) -> Result<HostTensor> {
        let dims = [Dim::new(self.rows.len()), Dim::new(self.curves.len() + 1)];
        let made =
            Shape::from_dims(&dims).and_then(|s| HostTensor::from_vec(self.rows.concat(), s));
        match made {
            Ok(points) => Ok(points),
            Err(error) => Err(data_error(format!("logger: {}", error.message))),
        }
    }
}

impl Tracker for RunLogger {
    fn scalars(&mut self, step: u64, values: &[(&str, f64)]) -> Result<()> {
        self.log(step, values);
        self.failure()
    }

    fn histogram(&mut self, step: u64, name: &str, values: &HostTensor) -> Result<()> {
        self.tell(|tracker| tracker.histogram(step, name, values));
        self.failure()
    }

    fn image(&mut self, step: u64, name: &str, image: &HostTensor) -> Result<()> {
        self.tell(|tracker| tracker.image(step, name, image));
        self.failure()
    }

    fn flush(&mut self) -> Result<()> {
        self.save()
    }

    fn state(&mut self) -> Option<&mut dyn Stateful> {
        Some(self)
    }
}

impl Stateful for RunLogger {
    fn state_dict(&self) -> Result<StateDict> {
        let mut state = StateDict::new();
        state.insert("points", self.points()?);
        Ok(state)
    }

    fn prepare<'a>(&'a mut self, state: &StateDict) -> Result<Commit<'a>> {
        let mut misfits = Misfits::names("logger", state, &["points"]);
        let width = self.curves.len() + 1;
        let points = state.get("points");
        if points.is_some_and(|p| p.ty().shape.sizes().get(1) != Some(&width)) {
            misfits.push(format!("points: not of {} curves", self.curves.len()));
        }
        misfits.finish()?;
        let numbers = points.map(HostTensor::to_f64).unwrap_or_default();
        let rows = numbers.chunks_exact(width).map(<[f64]>::to_vec).collect();
        Ok(Box::new(move || self.rows = rows))
    }
}
