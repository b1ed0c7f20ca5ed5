//! The quotas of a server's users: `--quota memory=8GiB,values=100000`, or the same keys in the
//! table `[quota]` of a file in TOML. The command line is stronger than the file.

use anyhow::{Context, Result};
use gt_runtime::dispatcher::{Config, Rate};
use gt_settings::{File, quantity};
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

/// Quotas. What is not given keeps its default.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Quotas {
    memory: Option<u64>,
    values: Option<usize>,
    uploads: Option<u64>,
    sessions: Option<usize>,
    requests: Option<usize>,
    stall: Option<Duration>,
    pause: Option<Duration>,
    compile: Option<Rate>,
}

impl Quotas {
    /// These quotas, and those of another source where these say nothing.
    pub(crate) fn or(self, other: Quotas) -> Quotas {
        Quotas {
            memory: self.memory.or(other.memory),
            values: self.values.or(other.values),
            uploads: self.uploads.or(other.uploads),
            sessions: self.sessions.or(other.sessions),
            requests: self.requests.or(other.requests),
            stall: self.stall.or(other.stall),
            pause: self.pause.or(other.pause),
            compile: self.compile.or(other.compile),
        }
    }

    /// A dispatcher's configuration with these quotas.
    pub(crate) fn apply(&self, config: Config) -> Config {
        Config {
            quota: self.memory.unwrap_or(config.quota),
            quota_of_workers: self.memory.is_none() && config.quota_of_workers,
            max_values: self.values.unwrap_or(config.max_values),
            max_uploads: self.uploads.unwrap_or(config.max_uploads),
            max_sessions: self.sessions.unwrap_or(config.max_sessions),
            max_requests: self.requests.unwrap_or(config.max_requests),
            stall: self.stall.unwrap_or(config.stall),
            pause: self.pause.unwrap_or(config.pause),
            compile: self.compile.or(config.compile),
            ..config
        }
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "memory" => self.memory = Some(quantity::bytes(value)?),
            "values" => self.values = Some(number(value)?),
            "uploads" => self.uploads = Some(quantity::bytes(value)?),
            "sessions" => self.sessions = Some(number(value)?),
            "requests" => self.requests = Some(number(value)?),
            "stall" => self.stall = Some(quantity::seconds(value)?),
            "pause" => self.pause = Some(quantity::seconds(value)?),
            "compile" => {
                let (most, period) = quantity::rate(value)?;
                self.compile = Some(Rate { most, period });
            }
            _ => {
                return Err(format!(
                    "`{key}` is no quota; the quotas are memory, values, uploads, sessions, \
                     requests, stall, pause and compile"
                ));
            }
        }
        Ok(())
    }
}

impl FromStr for Quotas {
    type Err = String;

    fn from_str(text: &str) -> Result<Quotas, String> {
        let mut quotas = Quotas::default();
        for part in text.split(',') {
            let (key, value) =
                part.split_once('=').ok_or_else(|| format!("`{part}` is not KEY=VALUE"))?;
            quotas.set(key.trim(), value.trim())?;
        }
        Ok(quotas)
    }
}

/// The table `[quota]` of a file.
fn of_file(file: &File) -> Result<Quotas, String> {
    let mut quotas = Quotas::default();
    file.table("quota").try_for_each(|(key, value)| quotas.set(key, value))?;
    Ok(quotas)
}

fn number<N: FromStr + PartialOrd + From<u8>>(text: &str) -> Result<N, String> {
    let number = text.parse().ok().filter(|n| *n >= N::from(1));
    number.ok_or_else(|| format!("`{text}` is not a number above 0"))
}

/// The quotas of the command line, and of the file that it names, or else of the user's file.
pub(crate) fn of(flag: Option<&Quotas>, file: Option<&Path>) -> Result<Quotas> {
    let given = flag.cloned().unwrap_or_default();
    let named = file.map(File::read).transpose().map_err(anyhow::Error::msg)?;
    let path = file.map(Path::to_owned).or_else(gt_settings::path).unwrap_or_default();
    let file = named.as_ref().unwrap_or_else(|| gt_settings::user_file());
    let quotas = of_file(file).map_err(anyhow::Error::msg);
    Ok(given.or(quotas.with_context(|| format!("cannot use {}", path.display()))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_are_read_from_a_flag_and_from_a_file() {
        let flag: Quotas = "memory=8GiB, values=1000,stall=120s,compile=10s/min".parse().unwrap();
        let file = File::parse("[quota]\nmemory = \"500MB\"\nsessions = 7\n").unwrap();
        let file = of_file(&file).unwrap();
        let config = flag.or(file).apply(Config::remote());
        assert_eq!((config.quota, config.max_values, config.max_sessions), (8 << 30, 1000, 7));
        assert!(!config.quota_of_workers && config.stall == Duration::from_secs(120));
        let minute = Rate { most: Duration::from_secs(10), period: Duration::from_secs(60) };
        assert_eq!(config.compile, Some(minute));
        assert!(Quotas::default().apply(Config::remote()).quota_of_workers);
    }

    #[test]
    fn mistakes_are_named() {
        let check = |text: &str, why: &str| {
            let said = text.parse::<Quotas>().unwrap_err();
            assert!(said.contains(why), "{said}");
        };
        check("memory", "`memory` is not KEY=VALUE");
        check("memroy=1", "`memroy` is no quota");
        check("memory=lots", "`lots` is no size");
        check("memory=99999999TiB", "is no size");
        check("values=0", "`0` is not a number above 0");
        check("stall=-1", "`-1` is no time");
        check("compile=10s", "`10s` is no rate");
        check("compile=0/h", "`0/h` is no rate");
        let file = File::parse("[quota]\nvalues = -3").unwrap();
        assert!(of_file(&file).unwrap_err().contains("`-3` is not a number"));
    }
}
