//! Configuration: how the work of a [scope](crate::signal) is to be spread, and the workers that
//! sessions ask for, as the program or a YAML file says.
//!
//! ```yaml
//! session:                 # the workers of sessions, where the program and the environment leave
//!   workers: 4             # the choice open: their number,
//!   engine: native         # their engine,
//!   device: cpu            # and their device
//!   auto: true             # their work is spread without signals, as its cost says
//!   zero: 2                # 1, 2: workers share out the state of optimizers; 3: parameters too
//! layer1:                  # a signal, by its name
//!   shard:
//!     axis: 0              # the axis that is cut: a number or a dimension's name (default 0)
//!     workers: [0, 1]      # who gets the parts (default, and `all`: all workers)
//!     mesh: [[0, 1], [2, 3]]  # instead of `workers`: the axis is cut by rows
//!     columns: -1          # the axis that the columns of the mesh cut
//!     replicated: false    # the whole for each of them instead
//!     open: false          # true: a wish, dropped in segments that are faster without it
//!     priority: 0          # of signals that contradict each other the lowest is heard first
//!     reduction: usual     # pinned: sums of floats to the bit as on one worker
//!     microbatches: 4      # each worker's part in parts that are computed one after the other
//!     schedule: 1f1b       # the order in which stages compute them, or gpipe
//!   backward: layer1_grad  # the signal of its gradients
//!   compile: true          # its segments run as compiled programs from the first time on
//! ```
//!
//! Guarantees: one configuration a process, which every session of it hands to its dispatcher
//! before the next segment; what is said later replaces what was said of a signal before; a file is
//! taken whole or not at all. What it asks for under `session` counts for sessions that are opened
//! afterwards. The file that `GT_CONFIG` names is read first of all. A configuration
//! changes the last bits of sums of floats, unless they are pinned, and no other result. A signal
//! without a scope is harmless.
//!
//! Does not: place anything. The dispatcher spreads a session over the workers of its signals.

use std::panic::Location;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use gt_ir::Loc;
use gt_ir::backend::Demand;
pub use gt_ir::config::ConfigFile;
pub use gt_ir::signal::{Schedule, ShardAxis, ShardConfig, SignalConfig, Signals};

use crate::error::{Error, ErrorKind, Result};

/// The variable that names a file to begin with.
pub const CONFIG: &str = "GT_CONFIG";
/// The most bytes of a file: more than any configuration within the limits takes.
const MAX_FILE: u64 = 4 << 20;

/// What files and the program said.
static CONFIGURATION: Mutex<ConfigFile> = Mutex::new(ConfigFile::new());
/// How often the configuration changed. It changes under the lock.
static VERSION: AtomicU64 = AtomicU64::new(0);
/// Whether a signal asks for micro-batches. It changes under the lock.
static TAKES_TURNS: AtomicBool = AtomicBool::new(false);

/// The configuration of the process; a writer that panicked leaves it whole.
fn lock() -> MutexGuard<'static, ConfigFile> {
    // Each change replaces it whole.
    CONFIGURATION.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says something about a signal, in place of what was said before, which is given back.
///
/// # Errors
/// What is said contradicts itself (an axis no tensor has, a worker listed twice) or is above a
/// limit, and everything stays as it was; or the file that `GT_CONFIG` names is faulty.
#[track_caller]
pub fn register_config(name: &str, config: SignalConfig) -> Result<Option<SignalConfig>> {
    let at = Location::caller();
    from_environment()?;
    change(|said| said.signals.set(name, config), at)
}

/// Takes the configuration in a YAML file, in the form the [module](self) shows; signals it does
/// not name stay as they are. The workers that it asks for are those of sessions opened afterwards.
///
/// # Errors
/// The file cannot be read, or something in it is wrong: the message says what, at which line, and
/// what it may have meant. Nothing of it is taken then.
#[track_caller]
pub fn load_config(path: impl AsRef<Path>) -> Result<()> {
    let at = Location::caller();
    from_environment()?;
    load(path.as_ref(), at.into())
}

/// What is said about all signals.
///
/// # Errors
/// The file that `GT_CONFIG` names is faulty.
pub fn get_config() -> Result<Signals> {
    from_environment()?;
    Ok(lock().signals.clone())
}

/// What is said about a signal, if anything.
///
/// # Errors
/// The file that `GT_CONFIG` names is faulty.
pub fn get_signal_config(name: &str) -> Result<Option<SignalConfig>> {
    from_environment()?;
    Ok(lock().signals.get(name).cloned())
}

/// The workers that sessions ask for, as the files that were loaded say.
///
/// # Errors
/// The file that `GT_CONFIG` names is faulty.
pub fn get_session_config() -> Result<Demand> {
    from_environment()?;
    Ok(lock().session.clone())
}

/// The configuration in a YAML text that messages call `name`, without taking it.
///
/// # Errors
/// Something in it is wrong; see [`load_config`].
pub fn parse_config(text: &str, name: &str) -> Result<ConfigFile> {
    let parsed = serde_yaml::from_str::<Option<ConfigFile>>(text);
    parsed.map(Option::unwrap_or_default).map_err(|error| faulty(&error, name))
}

/// The backward signal that is configured for a signal.
pub(crate) fn backward_of(name: &str) -> Option<String> {
    // A file that is faulty is reported where the session opens.
    let _ = from_environment();
    if VERSION.load(Ordering::Acquire) == 0 {
        return None;
    }
    lock().signals.get(name)?.backward.clone()
}

/// The configuration, with its version, when it changed since that version.
pub(crate) fn newer_than(known: u64) -> Option<(u64, Signals)> {
    if VERSION.load(Ordering::Acquire) == known {
        return None;
    }
    let said = lock();
    Some((VERSION.load(Ordering::Acquire), said.signals.clone()))
}

/// Whether a signal asks for micro-batches.
pub(crate) fn takes_turns() -> bool {
    TAKES_TURNS.load(Ordering::Acquire)
}

/// Takes the file that the environment names, the first time.
pub(crate) fn from_environment() -> Result<()> {
    static READ: OnceLock<Result<()>> = OnceLock::new();
    let read = || match gt_settings::var_os(CONFIG) {
        None => Ok(()),
        Some(path) => load(Path::new(&path), Loc::NONE).map_err(|error| {
            let said =
                Error::new(error.kind(), format!("{CONFIG}: {}", error.message()), Loc::NONE);
            error.cure().map_or(said.clone(), |cure| said.hint(cure))
        }),
    };
    READ.get_or_init(read).clone()
}

/// Reads a file and takes all of it, or nothing.
fn load(path: &Path, at: Loc) -> Result<()> {
    let name = path.display().to_string();
    let cannot = |why: String| {
        Error::new(ErrorKind::Data, format!("cannot read the configuration {name}: {why}"), at)
    };
    let size = std::fs::metadata(path).map_err(|error| cannot(error.to_string()))?.len();
    if size > MAX_FILE {
        return Err(cannot(format!("{size} bytes are more than the {MAX_FILE} one may have")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| cannot(error.to_string()))?;
    let read = parse_config(&text, &name).map_err(|error| error.or_at(at))?;
    let add = |said: &mut ConfigFile| {
        said.session = read.session.or(&said.session);
        let mut configs = read.signals.iter();
        configs.try_for_each(|(name, config)| said.signals.set(name, config.clone()).map(drop))
    };
    change(add, at)
}

/// Changes the configuration, or leaves it as it was.
fn change<T>(
    change: impl FnOnce(&mut ConfigFile) -> Result<T, gt_ir::signal::SignalError>,
    at: impl Into<Loc>,
) -> Result<T> {
    let mut said = lock();
    let mut changed = said.clone();
    let given = change(&mut changed)
        .map_err(|error| Error::new(ErrorKind::Signal, error.to_string(), at))?;
    *said = changed;
    TAKES_TURNS.store(said.signals.take_turns(), Ordering::Release);
    VERSION.fetch_add(1, Ordering::Release);
    Ok(given)
}

/// What is wrong with a file, at which line, and what was meant perhaps.
fn faulty(error: &serde_yaml::Error, name: &str) -> Error {
    let place =
        error.location().map_or_else(String::new, |at| format!(":{}:{}", at.line(), at.column()));
    let said = error.to_string();
    let message = said.split(" at line ").next().unwrap_or(&said);
    let error = Error::new(ErrorKind::Data, format!("{name}{place}: {message}"), Loc::NONE);
    match meant(message) {
        Some(word) => error.hint(format!("did you mean `{word}`?")),
        None => error,
    }
}

/// In a message that quotes what is unknown and then what is known: the known word that the unknown
/// one looks like.
fn meant(message: &str) -> Option<&str> {
    let quoted = ["unknown field ", "unknown variant "].iter();
    let (_, quoted) = quoted.filter_map(|unknown| message.split_once(unknown)).next()?;
    let mut words = quoted.split('`').skip(1).step_by(2);
    let unknown = words.next()?;
    let distance = |word: &&str| strsim::damerau_levenshtein(unknown, word);
    words.min_by_key(distance).filter(|word| distance(word) <= 1 + unknown.len() / 3)
}

#[cfg(test)]
mod tests;
