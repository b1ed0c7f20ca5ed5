//! A Python with PyTorch: the one of the system with fetched packages, or the one that
//! `GT_OPINFO_PYTHON` names.
//!
//! The packages are those of one version of Python; where the system has another one, the error
//! says so.

use crate::libtorch::{PYTHON, for_python};
use crate::shell::Step;
use anyhow::{Context, Result, bail};
use std::path::PathBuf;

/// Names a Python that has PyTorch, NumPy and expecttest.
const OWN: &str = "GT_OPINFO_PYTHON";

/// What to start, and where its packages are.
pub(super) struct Python {
    pub(super) program: PathBuf,
    /// None for one that has them itself.
    pub(super) packages: Option<PathBuf>,
}

impl Python {
    /// Why there is no Python for it here, if there is none.
    pub(super) fn unfit() -> Result<Option<String>> {
        if std::env::var_os(OWN).is_some() {
            return Ok(None);
        }
        let version = "import sys; print('%d.%d' % sys.version_info[:2])";
        let found = Step::new("python3", &["-c", version]).read().context("it takes `python3`")?;
        let why = format!(
            "PyTorch is fetched for Python {PYTHON}, but `python3` is {}\nhint: {OWN} may name a \
             Python with torch 2.11, numpy and expecttest",
            found.trim()
        );
        Ok((found.trim() != PYTHON).then_some(why))
    }

    /// The Python there is, its packages fetched first if they are not there.
    pub(super) fn get() -> Result<Python> {
        if let Some(why) = Python::unfit()? {
            bail!(why);
        }
        Ok(match std::env::var_os(OWN) {
            Some(program) => Python { program: program.into(), packages: None },
            None => Python { program: "python3".into(), packages: Some(for_python()?) },
        })
    }
}
