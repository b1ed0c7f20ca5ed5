//! What the environment says of plans and templates, and whether to speak of them.
//!
//! `GT_TIER=0` keeps everything at one instruction after the other; `GT_TIER=1`, the default, makes
//! plans of what repeats. `GT_VERBOSE=1` has a client say on standard error what became a plan, and
//! why something did not.

use gt_ir::backend::{ErrorKind, RunError};

use crate::client::TemplateConfig;
use crate::worker::plans::{PlanConfig, When};

/// How far programs are compiled, on both sides of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tiers {
    /// What clients make of segments that repeat.
    pub templates: TemplateConfig,
    /// What workers make of templates.
    pub plans: PlanConfig,
}

impl Tiers {
    /// As the environment says.
    ///
    /// # Errors
    /// It says what is not known here.
    pub fn from_environment() -> Result<Tiers, RunError> {
        let read = || {
            Ok(Tiers {
                templates: TemplateConfig::from_environment()?,
                plans: PlanConfig::from_environment()?,
            })
        };
        read().map_err(|why: String| RunError::new(ErrorKind::Resource, why))
    }

    /// Templates whose plans are compiled at that time; without plans there are no templates
    /// either.
    #[must_use]
    pub fn compiled(when: When) -> Tiers {
        let tiers =
            Tiers { plans: PlanConfig { when, ..PlanConfig::default() }, ..Tiers::default() };
        let most = if when == When::Never { 0 } else { tiers.templates.most };
        Tiers { templates: TemplateConfig { most, ..tiers.templates }, ..tiers }
    }
}

/// The variable that says how far programs are compiled.
pub const TIER: &str = "GT_TIER";
/// The variable that asks for words about it.
pub const VERBOSE: &str = "GT_VERBOSE";

/// Whether what repeats is to become a plan.
///
/// # Errors
/// The variable names no tier.
pub fn plans_wanted() -> Result<bool, String> {
    match std::env::var(TIER).as_deref().map(str::trim) {
        Err(_) | Ok("" | "1") => Ok(true),
        Ok("0") => Ok(false),
        Ok(other) => Err(format!(
            "{TIER}={other} is no tier\nhint: 0 runs instruction by instruction, 1 makes plans of \
             what repeats"
        )),
    }
}

/// Whether clients are to say what becomes of their segments.
#[must_use]
pub fn is_verbose() -> bool {
    std::env::var(VERBOSE).is_ok_and(|text| !matches!(text.trim(), "" | "0"))
}
