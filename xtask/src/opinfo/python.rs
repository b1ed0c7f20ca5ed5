//! A Python with PyTorch: the system's Python with fetched packages, or the Python that
//! `GT_OPINFO_PYTHON` names.
//!
//! The fetched packages are for one version of Python. If the system has another version, the error
//! names both.

use crate::libtorch::{for_python, unfit_python};
use anyhow::{Result, bail};
use std::path::PathBuf;

/// The variable that names a Python with PyTorch, NumPy and expecttest.
const OWN: &str = "GT_OPINFO_PYTHON";

/// A Python program, and the folder of its packages.
pub(crate) struct Python {
    pub(crate) program: PathBuf,
    /// `None` for a Python with its own packages.
    pub(crate) packages: Option<PathBuf>,
}

impl Python {
    /// The reason why this machine has no suitable Python, if it has none.
    pub(super) fn unfit() -> Result<Option<String>> {
        if std::env::var_os(OWN).is_some() {
            return Ok(None);
        }
        let hint = format!("{OWN} may name a Python with torch 2.11, numpy and expecttest");
        Ok(unfit_python("PyTorch")?.map(|why| format!("{why}\nhint: {hint}")))
    }

    /// The Python, with its packages fetched if they are missing.
    pub(crate) fn get() -> Result<Python> {
        if let Some(why) = Python::unfit()? {
            bail!(why);
        }
        Ok(match std::env::var_os(OWN) {
            Some(program) => Python { program: program.into(), packages: None },
            None => Python { program: "python3".into(), packages: Some(for_python()?) },
        })
    }
}
