//! Where a worker wants lanes beside its roads: the setting `GT_ROAD`.

use gt_ir::backend::{ErrorKind, RunError};

/// The variable of the setting.
pub const ROAD: &str = "GT_ROAD";

/// Where lanes are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Wanted {
    /// Where they are faster than the sockets: between workers of one machine that neither share
    /// memory nor a socket file.
    #[default]
    Auto,
    /// Nowhere.
    Sockets,
    /// Wherever they are allowed.
    Gloo,
}

impl Wanted {
    /// What the environment asks for.
    ///
    /// # Errors
    /// The variable has an unknown value, or asks for lanes that this build does not have.
    pub fn from_environment() -> Result<Wanted, RunError> {
        Wanted::of(gt_settings::var(ROAD).as_deref().map(str::trim))
    }

    fn of(value: Option<&str>) -> Result<Wanted, RunError> {
        let wrong = |what: String, hint: &str| {
            Err(RunError::new(ErrorKind::Resource, format!("{ROAD}={what}")).hint(hint))
        };
        match value {
            None | Some("" | "auto") => Ok(Wanted::Auto),
            Some("sockets") => Ok(Wanted::Sockets),
            Some("gloo") if cfg!(all(feature = "torch", target_os = "linux")) => Ok(Wanted::Gloo),
            Some("gloo") => wrong(
                "gloo: built without libtorch".into(),
                "`cargo xtask libtorch`, then build with `--features torch`",
            ),
            Some(other) => wrong(
                format!("{other} is not a kind of road"),
                "auto decides by what is faster, sockets and gloo allow one kind only",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_checked() {
        assert_eq!(Wanted::of(None), Ok(Wanted::Auto));
        assert_eq!(Wanted::of(Some("sockets")), Ok(Wanted::Sockets));
        let built = cfg!(all(feature = "torch", target_os = "linux"));
        assert_eq!(Wanted::of(Some("gloo")).is_ok(), built);
        let why = Wanted::of(Some("nccl")).unwrap_err();
        assert_eq!(why.message, "GT_ROAD=nccl is not a kind of road");
    }
}
