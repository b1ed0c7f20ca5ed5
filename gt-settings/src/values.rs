//! What the value of a setting may be, and the values that are wrong.
//!
//! A value that no program could act on is an error of the first session, so that nobody waits for
//! the effect of a misspelled one. Values that need the disk, the network or the engine to be
//! judged (paths, addresses, devices) are judged where they are used.

use crate::{FILE, Origin, SETTINGS, Setting, quantity};

/// What a value may be: one of some names, a number of a range, or a quantity. Anything, if none is
/// given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Values {
    /// The names.
    pub names: &'static [&'static str],
    /// The least and the largest number.
    pub numbers: Option<(u64, u64)>,
    /// The quantity.
    pub quantity: Option<Quantity>,
}

/// A number with a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// A size of at least so many bytes.
    Bytes(u64),
    /// A time in seconds.
    Time,
    /// A time in each period.
    Rate,
}

impl Quantity {
    fn takes(self, text: &str) -> bool {
        match self {
            Quantity::Bytes(least) => quantity::bytes(text).is_ok_and(|bytes| bytes >= least),
            Quantity::Time => quantity::seconds(text).is_ok(),
            Quantity::Rate => quantity::rate(text).is_ok(),
        }
    }

    fn phrase(self) -> String {
        match self {
            Quantity::Bytes(0 | 1) => "a size, such as 500MB or 8GiB".to_owned(),
            Quantity::Bytes(least) => format!("a size from {}K on, such as 64M", least >> 10),
            Quantity::Time => "a time in seconds, such as 120s".to_owned(),
            Quantity::Rate => "a time in each period, such as 10s/min".to_owned(),
        }
    }
}

impl Values {
    /// Whether a text is such a value. Spaces around it do not count, nor does the case of names.
    #[must_use]
    pub fn takes(&self, text: &str) -> bool {
        let text = text.trim();
        let in_range = |(least, most)| text.parse().is_ok_and(|n| (least..=most).contains(&n));
        *self == Values::default()
            || self.names.iter().any(|name| name.eq_ignore_ascii_case(text))
            || self.numbers.is_some_and(in_range)
            || self.quantity.is_some_and(|quantity| quantity.takes(text))
    }

    /// The values as a phrase: `0 or 1`, `low, normal, high, or a number from 1 to 100`.
    fn phrase(&self) -> String {
        let numbers = self.numbers.map(|numbers| match numbers {
            (0, 1) => "0 or 1".to_owned(),
            (least, u64::MAX) => format!("a number from {least} on"),
            (least, most) => format!("a number from {least} to {most}"),
        });
        let number = numbers.or_else(|| self.quantity.map(Quantity::phrase));
        match (self.names, number) {
            ([], numbers) => numbers.unwrap_or_else(|| "any text".to_owned()),
            (names, Some(numbers)) => format!("{}, or {numbers}", names.join(", ")),
            ([name], None) => (*name).to_owned(),
            ([names @ .., last], None) => format!("{} or {last}", names.join(", ")),
        }
    }
}

impl Setting {
    /// Why its value is wrong, if it is. A value of spaces is as none.
    #[must_use]
    pub fn mistake(&self) -> Option<String> {
        let (value, origin) = self.value()?;
        let text = value.to_string_lossy();
        if text.trim().is_empty() || self.values.takes(&text) {
            return None;
        }
        let of = match origin {
            Origin::Variable => format!("{}={text}", self.variable),
            Origin::File => format!("{} = {text} in {FILE}", self.key),
        };
        Some(format!("{of} has no meaning: it is {}", self.values.phrase()))
    }
}

/// Why the first setting with a wrong value has it, if there is one.
pub(crate) fn first_mistake() -> Option<String> {
    SETTINGS.iter().find_map(Setting::mistake)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variable: &str) -> Values {
        Setting::of_variable(variable).unwrap().values
    }

    #[test]
    fn values_are_names_and_numbers() {
        let taken = |variable: &str, texts: &[&str]| {
            texts.iter().map(|text| of(variable).takes(text)).collect::<Vec<_>>()
        };
        assert_eq!(taken("GT_VERBOSE", &["0", " 1", "2", "banana"]), [true, true, false, false]);
        assert_eq!(taken("GT_THREADS", &["1", "96", "0", "-1", "abc"])[1..4], [true, false, false]);
        assert_eq!(taken("GT_PRIORITY", &["low", "100", "101", "lo"]), [true, true, false, false]);
        assert_eq!(taken("GT_NUMERICS", &["Exact", "zzz"]), [true, false]);
        assert_eq!(taken("GT_LOG_SIZE", &["64K", "2G", "1K", "12Q"]), [true, true, false, false]);
        assert!(taken("GT_CACHE", &["off", "/tmp", "x y"]).iter().all(|taken| *taken));
    }

    #[test]
    fn values_are_told_in_words() {
        let phrase = |variable| of(variable).phrase();
        assert_eq!(phrase("GT_VERBOSE"), "0 or 1");
        assert_eq!(phrase("GT_SIMD"), "128 or 256");
        assert_eq!(phrase("GT_NUMERICS"), "exact, reassociate or approximate");
        assert_eq!(phrase("GT_PRIORITY"), "low, normal, high, or a number from 1 to 100");
        assert_eq!(phrase("GT_THREADS"), "a number from 1 to 1024");
        assert_eq!(phrase("GT_MAX_UNPACKED"), "a number from 1 on");
        assert_eq!(phrase("GT_LOG_SIZE"), "a size from 64K on, such as 64M");
    }

    /// The documented examples and defaults can be had.
    #[test]
    fn examples_are_possible_values() {
        for setting in SETTINGS.iter().filter(|setting| setting.values != Values::default()) {
            let stands_for_a_value = |text: &str| text.chars().all(|c| c.is_ascii_uppercase());
            let possible =
                stands_for_a_value(setting.example) || setting.values.takes(setting.example);
            assert!(possible, "{setting:?}");
        }
    }
}
