//! Checkpoints of training runs: model, optimizer, schedule, generator and counters in one file,
//! restored together or not at all.
//!
//! Guarantees: the file is replaced as a whole; its checksum is verified; every part is checked to
//! fit before the first is changed; what goes on from a restored checkpoint has the bits of what
//! would have gone on without stopping.
//!
//! ```no_run
//! # extern crate gt_lang as gt;
//! # use gt::prelude::*;
//! use gt::io::checkpoint;
//! # fn f(mut model: Linear<N<2>, N<3>>, mut optimizer: AdamW) -> Result<()> {
//! let (mut session, mut step) = (Session::current()?, 0_u64);
//! checkpoint::save(
//!     "run.safetensors",
//!     &[("model", &model), ("optimizer", &optimizer), ("rng", &session), ("step", &step)],
//! )?;
//! checkpoint::load(
//!     "run.safetensors",
//!     &mut [
//!         ("model", &mut model),
//!         ("optimizer", &mut optimizer),
//!         ("rng", &mut session),
//!         ("step", &mut step),
//!     ],
//! )?;
//! # Ok(())
//! # }
//! ```

use std::path::Path;

use super::{file_error, safetensors};
use crate::error::{Error, Result};
use crate::state::{StateDict, Stateful};

/// Writes the parts, each under its name.
///
/// # Errors
/// A part cannot be read from the workers, or the file cannot be written; an older file then is as
/// it was.
#[track_caller]
pub fn save(path: impl AsRef<Path>, parts: &[(&str, &dyn Stateful)]) -> Result<()> {
    let mut all = StateDict::new();
    for (name, part) in parts {
        all.nest(name, part.state_dict()?);
    }
    safetensors::save(path, &all)
}

/// Restores the parts from what is under their names. Parts of the file that are not asked for are
/// left out.
///
/// # Errors
/// The file cannot be read or is damaged, or a part does not fit; nothing is changed then.
#[track_caller]
pub fn load(path: impl AsRef<Path>, parts: &mut [(&str, &mut dyn Stateful)]) -> Result<()> {
    let path = path.as_ref();
    let all = safetensors::load(path)?;
    let mut commits = Vec::new();
    for (name, part) in parts {
        match part.prepare(&all.part(name)) {
            Ok(commit) => commits.push(commit),
            Err(e) => {
                let error = file_error(path, format!("{name}: {}", e.message()));
                return Err(e.cure().into_iter().fold(error, Error::hint));
            }
        }
    }
    commits.into_iter().for_each(|commit| commit());
    Ok(())
}
