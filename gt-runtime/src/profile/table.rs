//! The report of a profile as tables for a terminal.

use std::fmt::{self, Write as _};

use gt_ir::units;

use super::report::{Memory, Profile, Row};

/// The columns of a bar.
const BAR: usize = 16;
/// The eighths of a column.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
/// The longest name.
const WIDE: usize = 56;

impl Profile {
    /// The report as tables with at most so many rows each.
    #[must_use]
    pub fn table(&self, most: usize) -> String {
        print(self, most)
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.table(12))
    }
}

/// The tables, each with at most so many rows. Writing to a `String` cannot fail.
fn print(profile: &Profile, most: usize) -> String {
    let mut out = String::new();
    let busy = profile.busy();
    let _ = writeln!(out, "profile of {}: {} in all", profile.program, time(profile.wall));
    let machine = &profile.machine;
    if machine.flops > 0.0 {
        let _ = writeln!(
            out,
            "this machine: {} threads, {:.0} GFLOP/s in products, {:.1} GB/s of memory",
            machine.threads,
            machine.flops / 1e9,
            machine.bytes / 1e9
        );
    }
    phases(&mut out, profile);
    rows(&mut out, profile, "line", &profile.lines, busy, most);
    rows(&mut out, profile, "op", &profile.ops, busy, most);
    if profile.signals.iter().any(|row| !row.name.starts_with('(')) {
        rows(&mut out, profile, "signal", &profile.signals, busy, most);
    }
    kernels(&mut out, profile, busy, most);
    if profile.memory.peak > 0 {
        let (peak, line) = (units::bytes(profile.memory.peak), &profile.memory.peak_line);
        let _ = writeln!(out, "\nmemory: at most {peak}, after {line}");
        memory(&mut out, profile);
        held(&mut out, &profile.memory, most);
    }
    if profile.lost > 0 {
        let _ = writeln!(out, "the timeline lacks the last {} spans", profile.lost);
    }
    // A file may be anybody's, and must not write on the terminal what it likes.
    out.replace(|c: char| c.is_control() && c != '\n', "?")
}

fn phases(out: &mut String, profile: &Profile) {
    let _ = writeln!(
        out,
        "\n{:<12} {:>10} {:>7}  {:<BAR$} {:>9}",
        "phase", "time", "share", "", "calls"
    );
    for row in &profile.phases {
        let share = row.nanos / profile.wall.max(1.0);
        let _ = writeln!(
            out,
            "{:<12} {:>10} {:>6.1}%  {} {:>9}{}",
            row.name,
            time(row.nanos),
            100.0 * share,
            bar(share),
            row.calls,
            if row.bytes > 0.0 { format!("  {}", size(row.bytes)) } else { String::new() }
        );
    }
}

fn head(out: &mut String, what: &str) {
    let _ = writeln!(
        out,
        "\n{:>10} {:>7}  {:<BAR$} {:>9} {:>9} {:>6} {:>8} {:>6}  {what}",
        "time", "share", "", "calls", "GFLOP/s", "of max", "GB/s", "of max"
    );
}

fn rows(out: &mut String, profile: &Profile, what: &str, rows: &[Row], busy: f64, most: usize) {
    if rows.is_empty() {
        return;
    }
    head(out, what);
    rows.iter().take(most).for_each(|row| line(out, profile, row, busy, &short(&row.name)));
    rest(out, rows.iter().skip(most).map(|row| row.nanos), busy);
}

fn kernels(out: &mut String, profile: &Profile, busy: f64, most: usize) {
    if profile.kernels.is_empty() {
        return;
    }
    head(out, "kernel and its lines");
    for kernel in profile.kernels.iter().take(most) {
        line(out, profile, &kernel.row, busy, &kernel.row.name);
        let n_more = kernel.lines.len().saturating_sub(3);
        for place in kernel.lines.iter().take(3) {
            let _ = writeln!(out, "{:90}  {}", "", short(place));
        }
        if n_more > 0 {
            let _ = writeln!(out, "{:90}  and {n_more} more", "");
        }
    }
    rest(out, profile.kernels.iter().skip(most).map(|kernel| kernel.row.nanos), busy);
}

fn line(out: &mut String, profile: &Profile, row: &Row, busy: f64, name: &str) {
    let share = row.nanos / busy.max(1.0);
    let (flops, bytes) = (row.flops / row.nanos.max(1.0), row.bytes / row.nanos.max(1.0));
    let of = |rate: f64, most: f64| match most > 0.0 && rate > 0.0 {
        true => format!("{:.0}%", 100.0 * rate * 1e9 / most),
        false => "-".into(),
    };
    let _ = writeln!(
        out,
        "{:>10} {:>6.1}%  {} {:>9} {:>9.2} {:>6} {:>8.2} {:>6}  {name}",
        time(row.nanos),
        100.0 * share,
        bar(share),
        row.calls,
        flops,
        of(flops, profile.machine.flops),
        bytes,
        of(bytes, profile.machine.bytes),
    );
}

fn rest(out: &mut String, others: impl Iterator<Item = f64>, busy: f64) {
    let (n, nanos) = others.fold((0, 0.0), |(n, sum), nanos| (n + 1, sum + nanos));
    if n > 0 {
        let share = 100.0 * nanos / busy.max(1.0);
        let _ = writeln!(out, "{:>10} {share:>6.1}%  in {n} more", time(nanos));
    }
}

/// Memory over time: a line of columns of eight heights.
fn memory(out: &mut String, profile: &Profile) {
    const COLUMNS: usize = 72;
    const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let mut highest = [0_u64; COLUMNS];
    for &(at, bytes, _) in &profile.memory.samples {
        let column = (at as f64 / profile.wall.max(1.0) * COLUMNS as f64) as usize;
        let cell = &mut highest[column.min(COLUMNS - 1)];
        *cell = (*cell).max(bytes);
    }
    let mut last = 0;
    let columns = highest.iter().map(|&bytes| {
        last = if bytes > 0 { bytes } else { last };
        let part = last as f64 / profile.memory.peak.max(1) as f64;
        HEIGHTS[((part * 8.0) as usize).min(7)]
    });
    let _ = writeln!(out, "{}", columns.collect::<String>());
}

/// The lines whose values took the memory when the most was in use.
fn held(out: &mut String, memory: &Memory, most: usize) {
    if memory.lines.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "\n{:>10} {:>7}  {:<BAR$}  made the values in use then",
        "bytes", "share", ""
    );
    // Data of the program may lie outside of the workers' memory.
    let all: u64 = memory.lines.iter().map(|line| line.1).sum();
    let mut row = |bytes: u64, name: &str| {
        let share = bytes as f64 / all.max(memory.peak).max(1) as f64;
        let (bytes, percent) = (units::bytes(bytes), 100.0 * share);
        let _ = writeln!(out, "{bytes:>10} {percent:>6.1}%  {}  {name}", bar(share));
    };
    memory.lines.iter().take(most).for_each(|(line, bytes)| row(*bytes, &short(line)));
    let (n_more, rest) =
        memory.lines.iter().skip(most).fold((0, 0), |(n, sum), l| (n + 1, sum + l.1));
    if n_more > 0 {
        row(rest, &format!("{n_more} more"));
    }
}

fn bar(share: f64) -> String {
    let eighths = (share.clamp(0.0, 1.0) * (8 * BAR) as f64).round() as usize;
    let text = "█".repeat(eighths / 8) + EIGHTHS[eighths % 8];
    let n = text.chars().count();
    text + &" ".repeat(BAR - n)
}

/// A name without its beginning, if it is long.
fn short(name: &str) -> String {
    let n = name.chars().count();
    match n > WIDE {
        true => format!("..{}", name.chars().skip(n - WIDE + 2).collect::<String>()),
        false => name.to_owned(),
    }
}

fn time(nanos: f64) -> String {
    match nanos {
        n if n >= 1e9 => format!("{:.2} s", n / 1e9),
        n if n >= 1e6 => format!("{:.2} ms", n / 1e6),
        n => format!("{:.1} us", n / 1e3),
    }
}

fn size(bytes: f64) -> String {
    units::bytes(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_have_one_width_and_times_a_unit() {
        assert!([0.0, 0.01, 0.3, 0.999, 1.0, 2.0].iter().all(|s| bar(*s).chars().count() == BAR));
        assert_eq!((bar(1.0).as_str(), bar(0.5).trim_end()), ("█".repeat(16).as_str(), "████████"));
        assert_eq!([1.5e3, 2e6, 3.25e9].map(time), ["1.5 us", "2.00 ms", "3.25 s"]);
        assert_eq!(short(&"x".repeat(80)).chars().count(), WIDE);
    }
}
