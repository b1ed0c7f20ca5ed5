//! Quantities as settings and flags write them: bytes, times, and times in each period.
//!
//! An error names the text and a text that would do.

use std::time::Duration;

/// The units of bytes. A letter alone is binary, as in `GT_LOG_SIZE=64M`.
const UNITS: &[(&str, u64)] = &[
    ("", 1),
    ("b", 1),
    ("k", 1 << 10),
    ("m", 1 << 20),
    ("g", 1 << 30),
    ("t", 1 << 40),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
];

/// A number of bytes above 0: `500000`, `64K`, `500MB`, `8GiB`. The case of units does not count.
///
/// # Errors
/// The text is none.
pub fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no size, such as 8GiB or 500MB");
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text[digits.len()..].to_ascii_lowercase();
    let (_, factor) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
    let size = digits.trim().parse::<u64>().ok().and_then(|n| n.checked_mul(*factor));
    size.filter(|size| *size > 0).ok_or_else(wrong)
}

/// A time above 0 in whole seconds: `120s`, `120`.
///
/// # Errors
/// The text is none.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let digits = text.trim();
    let digits = digits.strip_suffix('s').unwrap_or(digits).trim_end();
    let seconds = digits.parse().ok().filter(|seconds| *seconds > 0);
    seconds.map(Duration::from_secs).ok_or_else(|| format!("`{text}` is no time, such as 120s"))
}

/// A time in each period, and the period: `10s/min`, `300s/h`, `1s/s`.
///
/// # Errors
/// The text is none.
pub fn rate(text: &str) -> Result<(Duration, Duration), String> {
    let periods = [("s", 1), ("min", 60), ("h", 3600)];
    let (most, unit) = text.split_once('/').unwrap_or((text, ""));
    let period = periods.iter().find(|(name, _)| *name == unit.trim());
    let rate = seconds(most).ok().zip(period);
    let rate = rate.map(|(most, (_, period))| (most, Duration::from_secs(*period)));
    rate.ok_or_else(|| format!("`{text}` is no rate, such as 10s/min or 300s/h"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_binary_and_decimal_units() {
        let good = [("65536", 65536), (" 64K ", 65536), ("3MiB", 3 << 20), ("2g", 2 << 30)];
        let more = [("500MB", 500_000_000), ("1 kB", 1000), ("1T", 1 << 40), ("7B", 7)];
        good.into_iter().chain(more).for_each(|(text, n)| assert_eq!(bytes(text), Ok(n)));
        for wrong in ["", "K", "0", "-1M", "12Q", "99999999TiB", "1.5M", "5é"] {
            assert!(bytes(wrong).is_err_and(|why| why.contains("is no size")), "{wrong}");
        }
    }

    #[test]
    fn times_and_rates_are_above_zero() {
        assert_eq!(seconds(" 120 s"), Ok(Duration::from_secs(120)));
        assert_eq!(rate("10s/min"), Ok((Duration::from_secs(10), Duration::from_secs(60))));
        assert_eq!(rate("5 / h"), Ok((Duration::from_secs(5), Duration::from_secs(3600))));
        for wrong in ["", "0", "0s", "-1", "1.5", "s", "1m"] {
            assert!(seconds(wrong).is_err_and(|why| why.contains("is no time")), "{wrong}");
            assert!(rate(&format!("{wrong}/h")).is_err_and(|why| why.contains("is no rate")));
        }
        assert!(rate("10s").is_err() && rate("10s/day").is_err());
    }
}
