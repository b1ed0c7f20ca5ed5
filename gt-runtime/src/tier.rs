//! The configuration of templates and plans, and the environment variables that set it.
//!
//! With `GT_TIER=0` everything runs instruction by instruction. With `GT_TIER=1`, the default,
//! repeated segments become plans. With `GT_VERBOSE=1` a client reports which segments became
//! plans, and why others did not (`messages`).

use gt_compiler::Options;
use gt_ir::backend::{ErrorKind, RunError};

use crate::messages::{self, Area, Rank};
use crate::wire::{MAX_TEMPLATE_ENTRIES, MAX_TEMPLATES};

/// Unused results of fewer bytes are made.
const UNUSED: usize = 64 << 10;
/// Segments with fewer entries do not become templates.
const SMALL: usize = 4;

/// The configuration of templates and plans, for both sides of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tiers {
    /// The configuration of clients' templates.
    pub templates: TemplateConfig,
    /// The configuration of workers' plans.
    pub plans: PlanConfig,
}

impl Tiers {
    /// The configuration of the environment.
    ///
    /// # Errors
    /// A variable has an unknown value.
    pub fn from_environment() -> Result<Tiers, RunError> {
        Ok(Tiers {
            templates: TemplateConfig::from_environment()?,
            plans: PlanConfig::from_environment()?,
        })
    }

    /// Templates whose plans are compiled at this time. Without plans there are no templates.
    #[must_use]
    pub fn compiled(when: When) -> Tiers {
        let tiers =
            Tiers { plans: PlanConfig { when, ..PlanConfig::default() }, ..Tiers::default() };
        let most = if when == When::Never { 0 } else { tiers.templates.most };
        Tiers { templates: TemplateConfig { most, ..tiers.templates }, ..tiers }
    }
}

/// How a client makes templates of repeated segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TemplateConfig {
    /// The most templates, up to [`MAX_TEMPLATES`]. With 0 every segment is sent as a tape.
    pub most: u32,
    /// The most entries of all templates together, up to [`MAX_TEMPLATE_ENTRIES`].
    pub entries: usize,
    /// Segments with fewer entries are sent as tapes.
    pub least: usize,
}

impl Default for TemplateConfig {
    fn default() -> Self {
        TemplateConfig { most: MAX_TEMPLATES, entries: MAX_TEMPLATE_ENTRIES, least: SMALL }
    }
}

impl TemplateConfig {
    /// The default, or no templates with `GT_TIER=0`.
    ///
    /// # Errors
    /// The variable has an unknown value.
    pub fn from_environment() -> Result<TemplateConfig, RunError> {
        let wanted = plans_wanted()?;
        Ok(TemplateConfig { most: if wanted { MAX_TEMPLATES } else { 0 }, ..Self::default() })
    }
}

/// When plans are compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum When {
    /// Never: everything runs instruction by instruction, as with `GT_TIER=0`.
    Never,
    /// On a background thread, while launches run instruction by instruction.
    #[default]
    Background,
    /// Before the first launch that can use them. For tests and measurements.
    Blocking,
}

/// How a worker makes and keeps plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanConfig {
    /// When they are compiled.
    pub when: When,
    /// How they are compiled.
    pub options: Options,
    /// The most plans kept.
    pub most: usize,
    /// The bytes of results that nothing uses which are worth a plan without them.
    pub least_unused: usize,
}

impl PlanConfig {
    /// Plans compiled in the background, or never with `GT_TIER=0`, under the policy of
    /// `GT_NUMERICS`.
    ///
    /// # Errors
    /// A variable has an unknown value.
    pub fn from_environment() -> Result<PlanConfig, RunError> {
        let when = if plans_wanted()? { When::Background } else { When::Never };
        let options = Options::from_env().map_err(|e| RunError::of(ErrorKind::Resource, &e))?;
        Ok(PlanConfig { when, options, ..PlanConfig::default() })
    }
}

impl Default for PlanConfig {
    fn default() -> PlanConfig {
        let (when, options) = (When::default(), Options::default());
        PlanConfig { when, options, most: 256, least_unused: UNUSED }
    }
}

/// The variable that turns plans on or off.
pub const TIER: &str = "GT_TIER";

/// Whether repeated segments become plans.
///
/// # Errors
/// The variable has an unknown value.
pub fn plans_wanted() -> Result<bool, RunError> {
    match gt_settings::var(TIER).as_deref().map(str::trim) {
        None | Some("" | "1") => Ok(true),
        Some("0") => Ok(false),
        Some(other) => {
            let error = RunError::new(ErrorKind::Resource, format!("{TIER}={other} is not a tier"));
            Err(error.hint("0 runs instruction by instruction, 1 makes plans of repeated segments"))
        }
    }
}

/// Whether clients report which of their segments become plans.
#[must_use]
pub fn is_verbose() -> bool {
    messages::wants(Rank::News, Area::Compile)
}
