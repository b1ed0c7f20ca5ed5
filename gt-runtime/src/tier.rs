//! How far programs are compiled: the configuration of templates and plans, and the environment
//! variables that set it.
//!
//! `GT_TIER=0` runs everything instruction by instruction; `GT_TIER=1`, the default, makes plans of
//! segments that repeat. `GT_VERBOSE=1` has a client report on standard error which segments became
//! plans, and why others did not.

use gt_compiler::Options;
use gt_ir::backend::{ErrorKind, RunError};

use crate::wire::{MAX_TEMPLATE_ENTRIES, MAX_TEMPLATES};

/// Segments of fewer entries are not worth a template.
const SMALL: usize = 4;

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
        Ok(Tiers {
            templates: TemplateConfig::from_environment()?,
            plans: PlanConfig::from_environment()?,
        })
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

/// How a client makes templates of segments that repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TemplateConfig {
    /// The most it holds, up to [`MAX_TEMPLATES`]; with 0 every segment goes as a tape.
    pub most: u32,
    /// The most entries of all of them together, up to [`MAX_TEMPLATE_ENTRIES`].
    pub entries: usize,
    /// Segments of fewer entries go as tapes.
    pub least: usize,
}

impl Default for TemplateConfig {
    fn default() -> Self {
        TemplateConfig { most: MAX_TEMPLATES, entries: MAX_TEMPLATE_ENTRIES, least: SMALL }
    }
}

impl TemplateConfig {
    /// The default, or none where `GT_TIER=0`.
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
    /// Never: everything runs instruction by instruction, as `GT_TIER=0` asks.
    Never,
    /// By a thread of their own, while instructions run one by one.
    #[default]
    Background,
    /// Before the first launch that could use them: for tests and measurements.
    Blocking,
}

/// How a worker makes and keeps plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanConfig {
    /// When they are compiled.
    pub when: When,
    /// How they are compiled.
    pub options: Options,
    /// How many are kept.
    pub most: usize,
}

impl PlanConfig {
    /// In the background, unless `GT_TIER=0` says never, and as `GT_NUMERICS` says.
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
        PlanConfig { when: When::default(), options: Options::default(), most: 256 }
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
pub fn plans_wanted() -> Result<bool, RunError> {
    match std::env::var(TIER).as_deref().map(str::trim) {
        Err(_) | Ok("" | "1") => Ok(true),
        Ok("0") => Ok(false),
        Ok(other) => {
            let error = RunError::new(ErrorKind::Resource, format!("{TIER}={other} is no tier"));
            Err(error.hint("0 runs instruction by instruction, 1 makes plans of what repeats"))
        }
    }
}

/// Whether clients are to say what becomes of their segments.
#[must_use]
pub fn is_verbose() -> bool {
    std::env::var(VERBOSE).is_ok_and(|text| !matches!(text.trim(), "" | "0"))
}
