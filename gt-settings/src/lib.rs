//! The settings of GT: one table, and where each value comes from.
//!
//! A flag is stronger than a variable of the environment, a variable is stronger than the file
//! `gt.toml`, and the file is stronger than the default. A variable that is set to nothing hides
//! the file's value. The file is in the folder of keys (`$GT_KEYS`, or `gt` in the user's
//! configuration folder), which only the user can write to; a `gt.toml` in the working folder is
//! not read, because whoever hands over a folder would choose the user's server.
//!
//! Guarantees: the file is read once. A mistake in it, or a value that a setting cannot have, is an
//! error of the first program that opens a session, not a setting that is silently left out. The
//! crate knows names, texts and the values there are; what they mean is known where they are used.

mod file;
mod names;
pub mod quantity;
mod table;
mod values;

pub use file::{File, fault, path};
pub use names::{Odd, misspelled, nearest, odd_variables};
pub use table::{LEAST_LOG, SETTINGS, SUCCESSORS, Setting};
pub use values::{Quantity, Values};

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::OnceLock;

/// Where a value comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A variable of the environment.
    Variable,
    /// The file `gt.toml`.
    File,
}

/// The name of the file.
pub const FILE: &str = "gt.toml";
/// The variable that names the folder of keys and of the file.
pub const FOLDER: &str = "GT_KEYS";

/// The folder of keys and of the file, if this user has one.
#[must_use]
pub fn folder() -> Option<PathBuf> {
    let named = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    if let Some(folder) = named(FOLDER) {
        return Some(folder.into());
    }
    let config = named("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let config = config.or_else(|| Some(std::env::home_dir()?.join(".config")))?;
    Some(config.join("gt"))
}

/// The file of this user, read at the first call. Empty if there is none, or if it is faulty; see
/// [`problem`].
pub fn user_file() -> &'static File {
    static FILE: OnceLock<File> = OnceLock::new();
    FILE.get_or_init(|| file::of_user().unwrap_or_default())
}

/// Why this user's settings cannot be used, if they cannot: the fault of the file, else the first
/// value that is none of its setting's.
#[must_use]
pub fn problem() -> Option<String> {
    fault().or_else(values::first_mistake)
}

impl Setting {
    /// Its value, and where it comes from. None if the default holds.
    #[must_use]
    pub fn value(&self) -> Option<(OsString, Origin)> {
        let set = (!self.variable.is_empty()).then(|| std::env::var_os(self.variable)).flatten();
        match set {
            Some(value) => Some((value, Origin::Variable)).filter(|(value, _)| !value.is_empty()),
            None => user_file().get(self.key).map(|text| (text.into(), Origin::File)),
        }
    }

    /// The name under which it is shown: its variable, or its key if it has none.
    #[must_use]
    pub fn name(&self) -> &'static str {
        if self.variable.is_empty() { self.key } else { self.variable }
    }

    /// The setting of a variable.
    #[must_use]
    pub fn of_variable(name: &str) -> Option<&'static Setting> {
        SETTINGS.iter().find(|setting| !name.is_empty() && setting.variable == name)
    }

    /// The setting of a key.
    #[must_use]
    pub fn of_key(key: &str) -> Option<&'static Setting> {
        SETTINGS.iter().find(|setting| !key.is_empty() && setting.key == key)
    }
}

/// Whether the setting with this variable, a switch, is on.
#[must_use]
pub fn is_on(variable: &str) -> bool {
    var(variable).is_some_and(|text| text.trim() == "1")
}

/// The value of the setting with this variable, from the environment or the file.
#[must_use]
pub fn var_os(variable: &str) -> Option<OsString> {
    match Setting::of_variable(variable) {
        Some(setting) => setting.value().map(|(value, _)| value),
        None => std::env::var_os(variable).filter(|value| !value.is_empty()),
    }
}

/// As [`var_os`], as a text. Characters that are no Unicode are replaced.
#[must_use]
pub fn var(variable: &str) -> Option<String> {
    var_os(variable).map(|value| value.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_keys_follow_from_variables() {
        let unique = |names: Vec<&str>| {
            let n = names.len();
            assert_eq!(names.into_iter().collect::<BTreeSet<_>>().len(), n);
        };
        let present = |name: fn(&Setting) -> &'static str| {
            SETTINGS.iter().map(name).filter(|name| !name.is_empty()).collect::<Vec<_>>()
        };
        unique(present(|setting| setting.key));
        unique(present(|setting| setting.variable));
        for setting in SETTINGS.iter().filter(|s| !s.key.is_empty() && !s.variable.is_empty()) {
            assert_eq!(format!("GT_{}", setting.key.to_uppercase()), setting.variable);
        }
        assert!(SETTINGS.iter().all(|s| !s.key.is_empty() || !s.variable.is_empty()));
        assert!(SUCCESSORS.iter().all(|(old, _)| Setting::of_variable(old).is_none()));
    }
}
