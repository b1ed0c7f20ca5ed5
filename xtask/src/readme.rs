//! The figures of README.md, copied from docs/benchmarks.md and drawn as bars, and its table of
//! settings, so that they stay equal to their sources.

use std::path::Path;

use anyhow::{Context, Result};

use crate::pictures::bars;

/// The file that shows the rows.
pub(crate) const README: &str = "README.md";
/// The page that the rows are copied from.
pub(crate) const PAGE: &str = "docs/benchmarks.md";
const BEGIN: &str = "<!-- rows of docs/benchmarks.md, copied by `cargo xtask docs` -->\n";
const END: &str = "<!-- end of the rows -->\n";

const SETTINGS_BEGIN: &str = "<!-- ANCHOR: settings -->\n";
const SETTINGS_END: &str = "<!-- ANCHOR_END: settings -->\n";

/// The works shown.
const WORKS: &[&str] = &["mlp_small", "gpt", "norm", "dispatch2000", "mlp_wide"];

/// Updates the rows.
pub(crate) fn write(root: &Path) -> Result<()> {
    let read = |page: &str| {
        std::fs::read_to_string(root.join(page)).with_context(|| format!("cannot read {page}"))
    };
    let page = read(PAGE)?;
    let new = with_settings(&renewed(&read(README)?, &page)?)?;
    for (file, text) in [(README, new), (bars::PICTURE, bars::draw(&rows(&page))?)] {
        std::fs::write(root.join(file), text).with_context(|| format!("cannot write {file}"))?;
    }
    Ok(())
}

/// The README with the rows of the page, without the times of the first calls and without the last
/// two columns.
pub(crate) fn renewed(readme: &str, page: &str) -> Result<String> {
    let missing = |line: &str| format!("{README} has no line `{}`", line.trim());
    let (before, rest) = readme.split_once(BEGIN).with_context(|| missing(BEGIN))?;
    let (_, after) = rest.split_once(END).with_context(|| missing(END))?;
    let picture = format!("![{}]({})", bars::TITLE, bars::PICTURE);
    let rows: Vec<String> = rows(page).iter().map(|row| text(row)).collect();
    Ok(format!("{before}{BEGIN}\n{picture}\n\n{}\n\n{END}{after}", rows.join("\n")))
}

/// The cells of the rows shown, of the first table of the page: the head, and a row for each work.
pub(crate) fn rows(page: &str) -> Vec<Vec<&str>> {
    let table = page
        .lines()
        .skip_while(|line| !line.starts_with("| work"))
        .take_while(|line| line.starts_with('|'));
    table.filter_map(row).collect()
}

/// The README with the table of settings.
pub(crate) fn with_settings(readme: &str) -> Result<String> {
    let missing = |line: &str| format!("{README} has no line `{}`", line.trim());
    let (before, rest) =
        readme.split_once(SETTINGS_BEGIN).with_context(|| missing(SETTINGS_BEGIN))?;
    let (_, after) = rest.split_once(SETTINGS_END).with_context(|| missing(SETTINGS_END))?;
    let rows = gt_settings::SETTINGS.iter().filter(|setting| !setting.variable.is_empty());
    let rows = rows.map(|setting| {
        let gt_settings::Setting { variable, key, example, default, help, .. } = setting;
        let key = if key.is_empty() { String::new() } else { format!("`{key}`") };
        format!("| `{variable}={example}` | {key} | {help} | {default} |\n")
    });
    let head = "| variable | in `gt.toml` | effect | default |\n|---|---|---|---|\n";
    let table: String = std::iter::once(head.to_owned()).chain(rows).collect();
    Ok(format!("{before}{SETTINGS_BEGIN}{table}{SETTINGS_END}{after}"))
}

/// The cells of a line of the page's table, if it is the head or a work shown: the work, and a time
/// of each framework.
fn row(line: &str) -> Option<Vec<&str>> {
    let cells: Vec<&str> = line.strip_prefix('|')?.split('|').map(str::trim).collect();
    let [work, times @ .., _ratio, _memory, ""] = &cells[..] else { return None };
    let is_shown = *work == "work" || WORKS.iter().any(|name| *work == format!("`{name}`"));
    // The time of the first call follows in parentheses.
    let times = times.iter().map(|time| time.split(" (").next().unwrap_or(time));
    is_shown.then(|| std::iter::once(*work).chain(times).collect())
}

/// A row as a line of the README, the head with its rule.
fn text(row: &[&str]) -> String {
    let line = format!("| {} |", row.join(" | "));
    match row.first() {
        Some(&"work") => format!("{line}\n|{}", "---|".repeat(row.len())),
        _ => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_copied_without_their_last_columns() -> Result<()> {
        let page = "| work | GT | JAX | GT / fastest peer | peak MB |\n|---|---|---|---|---|\n| \
                    `gpt` | **1.5** (2 s) | 3 (4 s) | 0.5 | 6 / 7 |\n| `other` | 1 | 2 | 0.5 | 8 \
                    / 9 |\n\n| `gpt` | a | b | c | d |\n";
        let readme = format!("a\n{BEGIN}old\n{END}b\n");
        let want = format!(
            "a\n{BEGIN}\n![{}]({})\n\n| work | GT | JAX |\n|---|---|---|\n| `gpt` | **1.5** | 3 \
             |\n\n{END}b\n",
            bars::TITLE,
            bars::PICTURE
        );
        assert_eq!(renewed(&readme, page)?, want);
        assert!(renewed("nothing", page).is_err());
        Ok(())
    }
}
