//! The configuration of the instruction log, by variables or by the flags of `gt-cli`.
//!
//! A wrong value is an error that names the variable and the allowed values. `%p` in the name of
//! the file stands for the number of the process, so that processes with one environment do not
//! share a file.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use gt_settings::LEAST_LOG;

/// The variable that names the file.
pub const VARIABLE: &str = "GT_INSTRUCTION_LOG";
/// The variable for the form of the lines.
pub const FORMAT: &str = "GT_LOG_FORMAT";
/// The variable for the size at which a file is full.
pub const SIZE: &str = "GT_LOG_SIZE";
/// The variable for the detail.
pub const DETAIL: &str = "GT_LOG_DETAIL";

/// The form of the lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Columns, separated by `|`.
    #[default]
    Seed,
    /// Few columns: `[TAPE 0.003s] RECV | s1 | Launch | ..`.
    Tape,
    /// One JSON object on each line, which `gt-cli visualize` reads.
    Json,
}

/// How much a launch of a plan writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Detail {
    /// One line for each event.
    #[default]
    Events,
    /// Also a line for each instruction that a launch stands for.
    Instructions,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Format::Seed => "seed",
            Format::Tape => "tape",
            Format::Json => "json",
        })
    }
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Detail::Events => "events",
            Detail::Instructions => "instructions",
        })
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Format, String> {
        match text.trim() {
            "seed" => Ok(Format::Seed),
            "tape" => Ok(Format::Tape),
            "json" => Ok(Format::Json),
            other => Err(format!("`{other}` is no form of the log: use seed, tape or json")),
        }
    }
}

impl FromStr for Detail {
    type Err = String;

    fn from_str(text: &str) -> Result<Detail, String> {
        match text.trim() {
            "events" => Ok(Detail::Events),
            "instructions" => Ok(Detail::Instructions),
            other => Err(format!("`{other}` is no detail of the log: use events or instructions")),
        }
    }
}

/// The configuration of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogConfig {
    /// The file, or a named pipe.
    pub path: PathBuf,
    /// The form of the lines.
    pub format: Format,
    /// How much a launch writes.
    pub detail: Detail,
    /// The bytes at which the file is renamed and a new one begun. None for no limit.
    pub size: Option<u64>,
}

impl LogConfig {
    /// Lines in columns, in one file without a limit.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> LogConfig {
        let (format, detail) = (Format::default(), Detail::default());
        LogConfig { path: path.into(), format, detail, size: None }
    }

    /// This file, with the form, size and detail of the environment.
    ///
    /// # Errors
    /// A variable has a value that it cannot have.
    pub fn with_environment(path: impl Into<PathBuf>) -> Result<LogConfig, String> {
        let usual = LogConfig::new(path);
        Ok(LogConfig {
            format: variable(FORMAT)?.unwrap_or(usual.format),
            detail: variable(DETAIL)?.unwrap_or(usual.detail),
            size: variable::<Size>(SIZE)?.map(|size| size.0),
            ..usual
        })
    }

    /// The configuration of the environment. None if it names no file.
    ///
    /// # Errors
    /// As [`LogConfig::with_environment`].
    pub fn from_environment() -> Result<Option<LogConfig>, String> {
        let path = gt_settings::var_os(VARIABLE);
        path.map(LogConfig::with_environment).transpose()
    }

    /// The path of this process.
    pub(super) fn own_path(&self) -> PathBuf {
        match self.path.to_str() {
            Some(path) if path.contains("%p") => {
                path.replace("%p", &std::process::id().to_string()).into()
            }
            _ => self.path.clone(),
        }
    }
}

fn variable<T: FromStr<Err = String>>(name: &str) -> Result<Option<T>, String> {
    match gt_settings::var(name) {
        Some(text) if !text.trim().is_empty() => {
            text.parse().map(Some).map_err(|why: String| format!("{name}: {why}"))
        }
        _ => Ok(None),
    }
}

/// A number of bytes: `500000`, `64K`, `64MiB`, `2G`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let size = gt_settings::quantity::bytes(text).ok().filter(|size| *size >= LEAST_LOG);
        let wrong = || {
            format!(
                "`{text}` is no size of at least 64K: use a number of bytes, or one with K, M, G"
            )
        };
        size.map(Size).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_and_a_lower_limit() {
        let size = |text: &str| text.parse::<Size>().map(|size| size.0);
        assert_eq!(size("65536"), Ok(65536));
        assert_eq!(size(" 64K "), Ok(65536));
        assert_eq!(size("3MiB"), Ok(3 << 20));
        assert_eq!(size("2g"), Ok(2 << 30));
        for wrong in ["", "K", "1", "-1M", "12Q", "99999999999G", "1.5M"] {
            assert!(size(wrong).is_err_and(|why| why.contains("at least 64K")), "{wrong}");
        }
    }

    #[test]
    fn forms_and_details_have_names() {
        assert_eq!("json".parse(), Ok(Format::Json));
        assert_eq!("instructions".parse(), Ok(Detail::Instructions));
        assert!("xml".parse::<Format>().is_err_and(|why| why.contains("seed, tape or json")));
        assert!("all".parse::<Detail>().is_err_and(|why| why.contains("events or instructions")));
    }
}
