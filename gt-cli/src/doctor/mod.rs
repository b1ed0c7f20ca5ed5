//! `gt-cli doctor`: what this build and this machine support, what does not work, and the command
//! that fixes it.
//!
//! It tries things and changes nothing. A requested feature that does not work is a trouble, and
//! makes the exit status 1. A possible improvement is advice.

mod build;
mod cuda;
mod host;
mod report;
mod settings;
mod system;

use crate::args::DoctorArgs;
use crate::fault::Silent;
use crate::files;
use anyhow::{Result, bail};
use report::Report;
pub(crate) use settings::mistake;
use std::path::Path;

pub(crate) fn doctor(args: &DoctorArgs, json: bool) -> Result<()> {
    let report = look(args);
    let text = if json { format!("{}\n", report.json()) } else { report.text() };
    files::write(Path::new("-"), text.as_bytes())?;
    if report.is_well() { Ok(()) } else { bail!(Silent(1)) }
}

fn look(args: &DoctorArgs) -> Report {
    let gpus = cuda::gpus();
    Report {
        sections: vec![
            build::section(),
            build::engines(&gpus),
            host::section(),
            cuda::section(&gpus),
            system::network(args.port),
            system::cache(),
            settings::section(),
        ],
    }
}
