//! How much of a worker's time a program gets beside others: its priority, a weight.
//!
//! A program of twice the weight gets twice the time while both have work. A worker without
//! neighbors is not shared. The priorities of signals are another thing: they decide which of two
//! signals places an instruction.

use std::str::FromStr;

use gt_ir::backend::{ErrorKind, RunError};

/// The variable that sets the priority of a program.
pub const PRIORITY: &str = "GT_PRIORITY";

/// A weight, from 1 to 100.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Priority(u32);

impl Priority {
    /// The lowest weight.
    pub const LEAST: Priority = Priority(1);
    /// The highest weight.
    pub const MOST: Priority = Priority(100);

    /// The priority of this weight, or the nearest one.
    #[must_use]
    pub fn of(weight: u32) -> Priority {
        Priority(weight).clamp(Priority::LEAST, Priority::MOST)
    }

    /// The weight.
    #[must_use]
    pub fn weight(self) -> u32 {
        self.0
    }

    /// The priority that the environment names, or the usual one.
    ///
    /// # Errors
    /// The variable has another value.
    pub fn from_environment() -> Result<Priority, RunError> {
        match gt_settings::var(PRIORITY) {
            Some(text) if !text.trim().is_empty() => text.parse().map_err(|why| {
                RunError::new(ErrorKind::Resource, format!("{PRIORITY}={text}: {why}"))
            }),
            _ => Ok(Priority::default()),
        }
    }
}

impl Default for Priority {
    fn default() -> Priority {
        Priority(10)
    }
}

impl FromStr for Priority {
    type Err = String;

    fn from_str(text: &str) -> Result<Priority, String> {
        match text.trim() {
            "low" => Ok(Priority(2)),
            "normal" => Ok(Priority::default()),
            "high" => Ok(Priority(50)),
            number => match number.parse() {
                Ok(weight @ 1..=100) => Ok(Priority(weight)),
                _ => Err("a priority is low, normal, high, or a number from 1 to 100".into()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities_are_words_and_numbers() {
        let weight = |text: &str| text.parse::<Priority>().ok().map(Priority::weight);
        assert_eq!(["low", "normal", " high"].map(weight), [Some(2), Some(10), Some(50)]);
        assert_eq!(["1", "100", "0", "101", "-1", "x"].map(weight)[..2], [Some(1), Some(100)]);
        assert_eq!(["0", "101", "-1", "x", ""].map(weight), [None; 5]);
        assert_eq!([0, 7, 1_000].map(|weight| Priority::of(weight).weight()), [1, 7, 100]);
    }
}
