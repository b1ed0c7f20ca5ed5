//! What a caller may choose about compiling. The default never changes a result.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// The environment variable that chooses [`Numerics`] where the caller does not.
pub const NUMERICS_VARIABLE: &str = "GT_NUMERICS";

/// How far a compiled segment may be from the execution of its instructions one by one. Each level allows what the ones before it allow.
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
    /// Formulas may be replaced by ones that are equal over the real numbers, within a few units in the last place of ordinary values;
    /// infinities and `nan` need not survive.
    Approximate,
}

/// Options of a compilation; part of the key of whatever caches its result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Options {
    /// What rewriting may do to floats.
    pub numerics: Numerics,
}

/// Why a text names no policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown numerics policy `{0}`\nhint: the policies are exact, reassociate and approximate")]
pub struct UnknownNumerics(String);

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
    /// The options the environment asks for: [`NUMERICS_VARIABLE`], where unset or empty the default.
    ///
    /// # Errors
    /// The variable names no policy.
    pub fn from_env() -> Result<Options, UnknownNumerics> {
        let numerics = match std::env::var_os(NUMERICS_VARIABLE) {
            Some(name) if !name.is_empty() => name.to_string_lossy().parse()?,
            Some(_) | None => Numerics::default(),
        };
        Ok(Options { numerics })
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
    fn names_round_trip() {
        for numerics in Numerics::ALL {
            assert_eq!(numerics.to_string().parse(), Ok(numerics));
        }
        assert!("fast".parse::<Numerics>().is_err_and(|e| e.to_string().contains("exact")));
    }
}
