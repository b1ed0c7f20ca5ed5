//! The two systems that run a case: a system without plans, and a system that waits for each plan.
//!
//! Both have the engine that the environment chooses. Their bits must be equal; the answer names
//! the place where they are not.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use gt::{HostTensor, Session};
use gt_runtime::embedded::System;
use gt_runtime::log::Log;
use gt_runtime::tier::TemplateConfig;
use gt_runtime::tier::{Tiers, When};

use crate::arguments::{Outcome, Stop};
use crate::computing::{Values, pass, tensors};
use crate::protocol::{Answer, Case, Computed};
use crate::table::{Row, row};

/// The number of passes: the first is new, the second is defined, the third runs as a plan, and the
/// fourth runs when nothing is new.
const PASSES: usize = 4;

/// The place and the message of the last panic of any thread.
static LAST_PANIC: Mutex<String> = Mutex::new(String::new());

pub(crate) struct Systems {
    eager: Session,
    planned: Session,
}

/// Records the messages of panics, for the answer to the case.
pub(crate) fn listen_to_panics() {
    std::panic::set_hook(Box::new(|panic| {
        *LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner) = panic.to_string();
    }));
}

fn last_panic() -> String {
    std::mem::take(&mut *LAST_PANIC.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Systems {
    pub(crate) fn start() -> Result<Systems, String> {
        let session = |tiers: Tiers| {
            let system = System::start_with(1, tiers, Log::off()).map_err(|e| e.to_string())?;
            Ok::<_, String>(Session::with_backend(system.session()))
        };
        let planned = Tiers::compiled(When::Blocking);
        let templates = TemplateConfig { least: 1, ..planned.templates };
        Ok(Systems {
            eager: session(Tiers::compiled(When::Never))?,
            planned: session(Tiers { templates, ..planned })?,
        })
    }

    /// Runs a case on both systems.
    pub(crate) fn answer(&self, case: &Case) -> Answer {
        let Some(row) = row(&case.op) else {
            return Answer::Absent("the operator".into());
        };
        let computed = catch_unwind(AssertUnwindSafe(|| self.computed(row, case)));
        match computed {
            Ok(Ok(computed)) => Answer::Computed(computed),
            Ok(Err(Stop::Absent(reason))) => Answer::Absent(reason),
            Ok(Err(Stop::Failed(error))) => match last_panic() {
                panic if panic.is_empty() => Answer::Refused(error.to_string()),
                panic => Answer::Panic(panic),
            },
            Err(_) => Answer::Panic(last_panic()),
        }
    }

    fn computed(&self, row: &Row, case: &Case) -> Outcome<Computed> {
        let values = run(&self.eager, row, case, 1)?.remove(0);
        let plan = match run(&self.planned, row, case, PASSES) {
            Ok(planned) => planned.iter().enumerate().find_map(|(n, planned)| {
                Some(format!("pass {n}: {}", difference(&values, planned)?))
            }),
            Err(Stop::Failed(error)) => Some(format!("an error: {error}")),
            Err(absent) => return Err(absent),
        };
        Ok(Computed { values, plan, random: row.random })
    }
}

/// Runs several passes in one session, on the same tensors.
fn run(session: &Session, row: &Row, case: &Case, passes: usize) -> Outcome<Vec<Values>> {
    let _entered = session.enter();
    let tensors = tensors(case);
    let one = |_| {
        session.manual_seed(7);
        pass(row, case, &tensors)
    };
    (0..passes).map(one).collect()
}

/// The place where two passes differ in a bit.
fn difference(a: &Values, b: &Values) -> Option<String> {
    let names = ["result", "gradient", "second gradient"];
    for ((a, b), name) in a.iter().zip(b).zip(names) {
        let differing = a.iter().zip(b).position(|(a, b)| a != b);
        if let Some(i) = differing {
            return Some(format!("{name} {i}: {}", element(&a[i], &b[i])));
        }
    }
    None
}

/// The first element whose bits differ between two tensors.
fn element(a: &HostTensor, b: &HostTensor) -> String {
    if a.ty() != b.ty() {
        return format!("{} is {}", a.ty(), b.ty());
    }
    let size = a.ty().dtype.size();
    let pairs = a.bytes().chunks(size).zip(b.bytes().chunks(size));
    let at = pairs.into_iter().position(|(a, b)| a != b).unwrap_or_default();
    let value = |t: &HostTensor| t.to_f64().get(at).copied().unwrap_or_default();
    format!("element {at} is {} by instructions, {} as a plan", value(a), value(b))
}
