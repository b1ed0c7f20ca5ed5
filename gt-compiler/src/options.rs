//! The choices of a caller about compiling. The defaults never change a result.

use std::{fmt, str::FromStr};

use gt_ir::error::Hinted;
use serde::{Deserialize, Serialize};

/// The environment variable that chooses [`Numerics`] where the caller does not.
pub const NUMERICS_VARIABLE: &str = "GT_NUMERICS";

/// How far a compiled segment may be from the execution of its instructions one by one. Each level
/// allows what the ones before it allow.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Numerics {
    /// Not at all: the same bits, special values included.
    #[default]
    Exact,
    /// Sums and products of floats may be done in another order; results differ by rounding.
    Reassociate,
    /// Formulas may be replaced by ones that are equal over the real numbers, within a few units in
    /// the last place of ordinary values; infinities and NaN need not survive.
    Approximate,
}

/// The environment variable that allows products of `f32` on a GPU to round their operands to 10
/// bits of mantissa: 0, the default, or 1.
pub const TF32_VARIABLE: &str = "GT_TF32";
/// The environment variable that allows faster calls whose bits change from run to run: 1, the
/// default, forbids them; 0 allows them.
pub const DETERMINISTIC_VARIABLE: &str = "GT_DETERMINISTIC";

/// The liberties of libtorch and CUDA for the sake of speed. The default is that of PyTorch, with
/// the same bits in every run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Precision {
    /// Whether products of `f32` may round their operands to 10 bits of mantissa.
    pub tf32: bool,
    /// Whether every run gives the same bits.
    pub deterministic: bool,
}

impl Default for Precision {
    fn default() -> Precision {
        Precision { tf32: false, deterministic: true }
    }
}

/// The error of a variable that is neither 0 nor 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct UnknownSwitch {
    variable: &'static str,
    value: String,
    hint: &'static str,
}

impl Hinted for UnknownSwitch {
    fn message(&self) -> String {
        format!("{}={} is neither 0 nor 1", self.variable, self.value)
    }

    fn hint(&self) -> Option<String> {
        Some(self.hint.into())
    }
}

impl fmt::Display for UnknownSwitch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.print(f)
    }
}

impl Precision {
    /// What the environment asks for: [`TF32_VARIABLE`] and [`DETERMINISTIC_VARIABLE`], where unset
    /// or empty the default.
    ///
    /// # Errors
    /// A variable is neither 0 nor 1.
    pub fn from_env() -> Result<Precision, UnknownSwitch> {
        let text = gt_settings::var;
        let usual = Precision::default();
        let tf32 = "1 lets products of f32 on a GPU round their operands to 10 bits of mantissa";
        let bits = "0 allows faster calls whose bits change from run to run";
        Ok(Precision {
            tf32: switch(TF32_VARIABLE, text(TF32_VARIABLE), usual.tf32, tf32)?,
            deterministic: switch(
                DETERMINISTIC_VARIABLE,
                text(DETERMINISTIC_VARIABLE),
                usual.deterministic,
                bits,
            )?,
        })
    }
}

/// Whether a variable switches something on: `1` does, `0` does not, and nothing is what is usual.
///
/// # Errors
/// It has another value.
pub fn switch(
    variable: &'static str,
    text: Option<String>,
    usual: bool,
    hint: &'static str,
) -> Result<bool, UnknownSwitch> {
    let value = text.unwrap_or_default();
    match value.trim() {
        "" => Ok(usual),
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err(UnknownSwitch { variable, value, hint }),
    }
}

/// Options of a compilation; part of the key of whatever caches its result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Options {
    /// The liberties of rewriting with floats.
    pub numerics: Numerics,
    /// The bytes that a run may allocate, for its results and for what it needs on its way. A
    /// program that would take more makes values again in place of keeping them, as far as that
    /// helps.
    pub memory: Option<usize>,
}

/// The error of a text that names no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct UnknownNumerics(String);

impl Hinted for UnknownNumerics {
    fn message(&self) -> String {
        format!("unknown numerics policy `{}`", self.0)
    }

    fn hint(&self) -> Option<String> {
        Some("the policies are exact, reassociate and approximate".into())
    }
}

impl fmt::Display for UnknownNumerics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.print(f)
    }
}

impl Numerics {
    /// Every policy, strictest first.
    pub const ALL: [Numerics; 3] = [Numerics::Exact, Numerics::Reassociate, Numerics::Approximate];

    /// The name [`FromStr`] reads.
    pub const fn name(self) -> &'static str {
        match self {
            Numerics::Exact => "exact",
            Numerics::Reassociate => "reassociate",
            Numerics::Approximate => "approximate",
        }
    }
}

impl Options {
    /// The options the environment asks for: [`NUMERICS_VARIABLE`], where unset or empty the
    /// default.
    ///
    /// # Errors
    /// The variable names no policy.
    pub fn from_env() -> Result<Options, UnknownNumerics> {
        let named = gt_settings::var(NUMERICS_VARIABLE);
        let numerics = named.map(|name| name.parse()).transpose()?.unwrap_or_default();
        Ok(Options { numerics, memory: None })
    }
}

impl fmt::Display for Numerics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Numerics {
    type Err = UnknownNumerics;
    fn from_str(s: &str) -> Result<Self, UnknownNumerics> {
        Numerics::ALL
            .into_iter()
            .find(|n| n.name().eq_ignore_ascii_case(s.trim()))
            .ok_or_else(|| UnknownNumerics(s.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_has_the_policies() {
        let setting = gt_settings::Setting::of_variable(NUMERICS_VARIABLE).unwrap();
        assert_eq!(setting.values.names, Numerics::ALL.map(Numerics::name));
    }

    #[test]
    fn names_round_trip() {
        for numerics in Numerics::ALL {
            assert_eq!(numerics.to_string().parse(), Ok(numerics));
        }
        assert!("fast".parse::<Numerics>().is_err_and(|e| e.to_string().contains("exact")));
    }

    #[test]
    fn a_switch_is_0_or_1() {
        let read = |text: Option<&str>, usual| {
            switch(TF32_VARIABLE, text.map(str::to_owned), usual, "what it does")
        };
        for usual in [false, true] {
            assert_eq!((read(None, usual), read(Some(" "), usual)), (Ok(usual), Ok(usual)));
            assert_eq!((read(Some("1"), usual), read(Some("0 "), usual)), (Ok(true), Ok(false)));
        }
        let error = read(Some("yes"), true).unwrap_err().to_string();
        assert_eq!(error, "GT_TF32=yes is neither 0 nor 1\nhint: what it does");
    }
}
