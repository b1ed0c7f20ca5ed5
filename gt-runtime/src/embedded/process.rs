//! The system of programs that name none: the server that the environment names, else the process's
//! own system.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use gt_compiler::options::switch;
use gt_ir::backend::{Backend, Demand, ErrorKind, MAX_WORKERS, RunError, Target, possible_workers};

use super::{Handle, System};
use crate::choice::{DEVICE, ENGINE, Wish};
use crate::messages;

/// The variable that names a server.
pub const CONNECT: &str = "GT_CONNECT";
/// The variable for the number of workers.
pub const WORKERS: &str = "GT_WORKERS";
/// The variable that names a collector of spans.
const SPANS: &str = "GT_OTEL";
/// The variable that says whether work is spread without signals.
const AUTO: &str = "GT_AUTO_SHARD";

/// The process's own system, while it has a session.
static SYSTEM: Mutex<Weak<Handle>> = Mutex::new(Weak::new());

/// The number of workers of the environment, else `usual`.
pub(super) fn usual_workers(usual: usize) -> Result<usize, RunError> {
    let Some(text) = gt_settings::var(WORKERS) else { return Ok(usual) };
    match text.trim().parse() {
        Ok(n) if possible_workers(n).is_ok() => Ok(n),
        _ => Err(RunError::new(
            ErrorKind::Resource,
            format!("{WORKERS}={text} is not a number of workers from 1 to {MAX_WORKERS}"),
        )),
    }
}

/// The process's own system: the running system, else a new one.
fn own(demand: &Demand) -> Result<System, RunError> {
    let workers = demand.workers;
    // A panic while a system starts leaves no half-made state.
    let mut running = SYSTEM.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = running.upgrade() {
        let (n_workers, in_use) = (handle.0.n_workers, handle.0.in_use());
        match workers {
            Some(wanted) if wanted != n_workers && in_use => {
                let message = format!(
                    "the process already runs {n_workers} worker(s), but {wanted} were requested"
                );
                let error = RunError::new(ErrorKind::Resource, message);
                return Err(error.hint("set the number of workers before the first operation"));
            }
            Some(wanted) if wanted != n_workers => (),
            // Its dispatcher says which workers there are if none fits.
            Some(_) | None if in_use || handle.0.fits(demand) => return Ok(System(handle)),
            Some(_) | None => (),
        }
    }
    let system = System::own(&Wish::of(demand)?, workers)?;
    *running = Arc::downgrade(&system.0);
    Ok(system)
}

/// Opens a session with a server, or with the system of programs that name none: the server that
/// `GT_CONNECT` names, else the process's own system, which ends with its last session.
///
/// # Errors
/// The server cannot be reached, the system cannot be started, or it already runs with another
/// number of workers.
pub fn open(target: Target<'_>) -> Result<Arc<dyn Backend>, RunError> {
    notice()?;
    let named = gt_settings::var(CONNECT).filter(|address| !address.trim().is_empty());
    let Target { server, demand, configured } = target;
    let demand = Demand { auto: demand.auto.or(auto()?), ..demand.clone() };
    match server.or(named.as_deref()) {
        Some(address) => connect(address, &demand.or(configured)),
        None => {
            let demand = demand.or(&left_open(configured));
            own(&demand).map(|system| system.session_asking(&demand))
        }
    }
}

#[cfg(feature = "cluster")]
fn connect(address: &str, demand: &Demand) -> Result<Arc<dyn Backend>, RunError> {
    crate::client::connect_asking(address, demand)
}

#[cfg(not(feature = "cluster"))]
fn connect(address: &str, _: &Demand) -> Result<Arc<dyn Backend>, RunError> {
    let message = format!("cannot connect to {address}: the program is built without servers");
    let hint = "give the dependency `gt-tensor` its feature `cluster`";
    Err(RunError::new(ErrorKind::Connection, message).hint(hint))
}

/// Fails if the user's settings are faulty. Tells once of variables that have no effect.
fn notice() -> Result<(), RunError> {
    static TOLD: OnceLock<Option<String>> = OnceLock::new();
    let problem = TOLD.get_or_init(|| {
        for odd in gt_settings::odd_variables() {
            messages::print(&format_args!("{}: {}", odd.what, odd.cure));
        }
        if cfg!(not(feature = "otel")) && gt_settings::var(SPANS).is_some() {
            let why = "this program is built without the feature `otel`";
            messages::print(&format_args!("{SPANS} has no effect: {why}"));
        }
        gt_settings::problem()
    });
    match problem {
        None => Ok(()),
        Some(why) => Err(RunError::new(ErrorKind::Resource, why.clone())
            .hint("`gt-cli config` shows all settings")),
    }
}

/// Whether the environment asks for work that is spread without signals.
fn auto() -> Result<Option<bool>, RunError> {
    let Some(text) = gt_settings::var(AUTO) else { return Ok(None) };
    let hint = "1 spreads work without signals, 0 does not";
    let auto = switch(AUTO, Some(text), false, hint);
    auto.map(Some).map_err(|why| RunError::of(ErrorKind::Resource, &why))
}

/// What a configuration asks for, without the choices that the environment makes. An environment
/// that names an engine or a device chooses both.
fn left_open(configured: &Demand) -> Demand {
    let is_set = |name| gt_settings::var_os(name).is_some();
    let chosen = is_set(ENGINE) || is_set(DEVICE);
    let of = |named: &Option<String>| named.clone().filter(|_| !chosen);
    Demand {
        workers: configured.workers.filter(|_| !is_set(WORKERS)),
        engine: of(&configured.engine),
        device: of(&configured.device),
        ..configured.clone()
    }
}

#[expect(
    unsafe_code,
    reason = "the one symbol by which a front end that knows no runtime finds it: see \
              gt_ir::backend::OpenBackend"
)]
// SAFETY: no other item of the program has this name, and gt-lang declares it with this very
// signature.
#[unsafe(no_mangle)]
fn __gt_embedded_backend(target: Target<'_>) -> Result<Arc<dyn Backend>, RunError> {
    open(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_settings_knows_how_many_workers_there_can_be() {
        let setting = gt_settings::Setting::of_variable(WORKERS).unwrap();
        assert_eq!(setting.values.numbers, Some((1, MAX_WORKERS as u64)));
    }
}
