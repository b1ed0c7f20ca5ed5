//! Quantities as people read them.

/// So many bytes, in decimal units: `3.2 MB`.
///
/// ```
/// assert_eq!(gt_ir::units::bytes(999), "999 B");
/// assert_eq!(gt_ir::units::bytes(12_000), "12.0 kB");
/// ```
#[must_use]
pub fn bytes(n: u64) -> String {
    match n {
        0..1_000 => format!("{n} B"),
        1_000..1_000_000 => format!("{:.1} kB", n as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", n as f64 / 1e6),
        1_000_000_000..1_000_000_000_000 => format!("{:.1} GB", n as f64 / 1e9),
        _ => format!("{:.1} TB", n as f64 / 1e12),
    }
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn the_unit_leaves_few_digits() {
        let said = [0, 999, 1_000, 3_250_000, 7_000_000_000, 1 << 50].map(bytes);
        assert_eq!(said, ["0 B", "999 B", "1.0 kB", "3.2 MB", "7.0 GB", "1125.9 TB"]);
    }
}
