//! The file `gt.toml`: settings by their keys, and tables of a server.
//!
//! It is taken whole or not at all. A key that GT does not have is a mistake, with the nearest key.

use crate::{FILE, SETTINGS, folder, nearest};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The largest file that is read.
const MOST: u64 = 1 << 20;

/// The values of a file by their keys.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct File(BTreeMap<String, String>);

impl File {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, is not TOML, or has a key that GT does not have.
    pub fn read(path: &Path) -> Result<File, String> {
        let about = |why: String| format!("cannot use {}: {why}", path.display());
        let size = std::fs::metadata(path).map_err(|error| about(error.to_string()))?.len();
        if size > MOST {
            return Err(about(format!("{size} bytes are more than the {MOST} that it may have")));
        }
        let text = std::fs::read_to_string(path).map_err(|error| about(error.to_string()))?;
        File::parse(&text).map_err(about)
    }

    /// The values of a text in TOML.
    ///
    /// # Errors
    /// It is not TOML, or has a key that GT does not have.
    pub fn parse(text: &str) -> Result<File, String> {
        let table: toml::Table =
            text.parse().map_err(|error: toml::de::Error| error.to_string())?;
        let mut values = BTreeMap::new();
        for (name, value) in &table {
            match value.as_table() {
                None => add(&mut values, name.clone(), value)?,
                Some(inner) => {
                    for (key, value) in inner {
                        add(&mut values, format!("{name}.{key}"), value)?;
                    }
                }
            }
        }
        Ok(File(values))
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// The values of a table: `quota`.
    pub fn table(&self, name: &str) -> impl Iterator<Item = (&str, &str)> {
        let inner = move |(key, value)| {
            let (table, key): (&str, &str) = str::split_once(key, '.')?;
            (table == name).then_some((key, value))
        };
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str())).filter_map(inner)
    }
}

fn add(
    values: &mut BTreeMap<String, String>,
    key: String,
    value: &toml::Value,
) -> Result<(), String> {
    let known = || SETTINGS.iter().map(|setting| setting.key).filter(|key| !key.is_empty());
    if !known().any(|known| known == key) {
        let meant = nearest(&key, known());
        let meant = meant.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
        return Err(format!("there is no setting `{key}`{meant}"));
    }
    let text = match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Boolean(yes) => u8::from(*yes).to_string(),
        toml::Value::Integer(number) => number.to_string(),
        toml::Value::Float(number) => number.to_string(),
        toml::Value::Datetime(_) | toml::Value::Array(_) | toml::Value::Table(_) => {
            return Err(format!("`{key}` is a text, a number, true or false"));
        }
    };
    values.insert(key, text);
    Ok(())
}

/// Where this user's file is, or would be. None if the user has no folder.
#[must_use]
pub fn path() -> Option<PathBuf> {
    folder().map(|folder| folder.join(FILE))
}

pub(crate) fn of_user() -> Result<File, String> {
    let there = path().filter(|path| path.exists());
    there.map_or_else(|| Ok(File::default()), |path| File::read(&path))
}

/// Why this user's file cannot be used, if it cannot.
#[must_use]
pub fn fault() -> Option<String> {
    of_user().err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_texts_by_their_keys() {
        let text = "threads = 4\nverbose = true\nconnect = \"pi:1\"\n[quota]\nmemory = \"8GiB\"\n";
        let file = File::parse(text).unwrap();
        let got =
            ["threads", "verbose", "connect", "quota.memory", "tier"].map(|key| file.get(key));
        assert_eq!(got, [Some("4"), Some("1"), Some("pi:1"), Some("8GiB"), None]);
        assert_eq!(file.table("quota").collect::<Vec<_>>(), [("memory", "8GiB")]);
    }

    #[test]
    fn mistakes_are_named_with_what_was_meant() {
        let said = |text| File::parse(text).unwrap_err();
        assert_eq!(said("conect = 1"), "there is no setting `conect`; did you mean `connect`?");
        let meant = "there is no setting `quoat.memory`; did you mean `quota.memory`?";
        assert_eq!(said("[quoat]\nmemory = 1"), meant);
        assert_eq!(said("threads = [1]"), "`threads` is a text, a number, true or false");
        assert!(said("threads = ").contains("line 1"));
        // Only the environment names the folder of the file.
        assert!(said("keys = \"x\"").starts_with("there is no setting `keys`"));
    }
}
