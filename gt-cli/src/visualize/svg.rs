//! A timeline as a picture in SVG. Its size does not depend on the number of events: spans that are
//! narrower than a part of a pixel are drawn together.

use super::model::{Kind, Lane, Memory, Span, Timeline, color_of, legend};
use gt_ir::units;
use std::fmt::Write as _;

/// The picture's width, and the columns before and behind the lanes.
const WIDTH: f64 = 960.0;
const LEFT: f64 = 140.0;
const RIGHT: f64 = 62.0;
/// The heights of the title and of a row of the legend.
const TITLE: f64 = 64.0;
const LEGEND: f64 = 20.0;
const LANE: f64 = 30.0;
const GAP: f64 = 12.0;
const MEMORY: f64 = 64.0;
/// Spans closer than this many pixels are one rectangle.
const NEAR: f64 = 0.5;
/// The most lanes.
const MAX_LANES: usize = 64;

const STYLE: &str = "text{font-family:Inter,'Helvetica Neue',Arial,'DejaVu Sans',sans-serif;\
fill:#1f2933;font-size:13px}.t{font-size:19px;font-weight:600}.s{fill:#616e7c}.e{text-anchor:end}\
.m{text-anchor:middle}.w{fill:#fff;font-size:10.5px}";

/// The picture. Writing to a `String` cannot fail.
pub(super) fn draw(timeline: &Timeline, title: &str) -> String {
    let lanes = &timeline.lanes[..timeline.lanes.len().min(MAX_LANES)];
    let n_memory = timeline.memory.len().min(MAX_LANES);
    let legend = placed(legend(lanes));
    let rows = legend.last().map_or(0, |entry| entry.row + 1);
    let scale = Scale { length: timeline.length, head: TITLE + LEGEND * rows as f64 + 10.0 };
    let bottom = scale.head + lanes.len() as f64 * (LANE + GAP);
    let height = bottom + n_memory as f64 * (MEMORY + GAP) + 46.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\">\n<style>{STYLE}</style>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    head(&mut out, timeline, title, &legend);
    axis(&mut out, &scale, height - 46.0);
    for (n, lane) in lanes.iter().enumerate() {
        draw_lane(&mut out, &scale, lane, scale.top(n));
    }
    transfers(&mut out, &scale, timeline, lanes.len());
    for (n, memory) in timeline.memory.iter().take(n_memory).enumerate() {
        draw_memory(&mut out, &scale, memory, bottom + n as f64 * (MEMORY + GAP));
    }
    footer(&mut out, timeline, height);
    out.push_str("</svg>\n");
    out
}

/// Times and lanes to pixels.
struct Scale {
    length: f64,
    /// Where the lanes begin.
    head: f64,
}

impl Scale {
    fn x(&self, at: f64) -> f64 {
        LEFT + at / self.length * (WIDTH - LEFT - RIGHT)
    }

    fn top(&self, lane: usize) -> f64 {
        self.head + lane as f64 * (LANE + GAP)
    }
}

fn head(out: &mut String, timeline: &Timeline, title: &str, legend: &[Entry]) {
    let _ = writeln!(out, "<text x=\"24\" y=\"34\" class=\"t\">{}</text>", escaped(title));
    let what = format!(
        "{} of {}, {} events",
        time(timeline.length),
        timeline.processes.join(", "),
        timeline.n_events
    );
    let _ = writeln!(out, "<text x=\"24\" y=\"54\" class=\"s\">{}</text>", escaped(&what));
    for Entry { name, color, x, row } in legend {
        let y = TITLE + LEGEND * *row as f64;
        let _ = writeln!(
            out,
            "<rect x=\"{x:.1}\" y=\"{y}\" width=\"11\" height=\"11\" rx=\"2\" fill=\"{color}\"/>\
             <text x=\"{:.1}\" y=\"{}\" class=\"s\">{name}</text>",
            x + 16.0,
            y + 10.0
        );
    }
}

/// A color with its name, and its place in the legend.
struct Entry {
    name: String,
    color: &'static str,
    x: f64,
    row: usize,
}

/// The legend in rows that fit into the picture.
fn placed(legend: Vec<(String, &'static str)>) -> Vec<Entry> {
    let (mut x, mut row) = (24.0, 0);
    let mut place = |(name, color): (String, &'static str)| {
        let width = 38.0 + 7.4 * name.len() as f64;
        if x + width > WIDTH {
            (x, row) = (24.0, row + 1);
        }
        let entry = Entry { name, color, x, row };
        x += width;
        entry
    };
    legend.into_iter().map(&mut place).collect()
}

/// Lines at round times.
fn axis(out: &mut String, scale: &Scale, bottom: f64) {
    let step = round_step(scale.length / 7.0);
    let mut n = 0.0;
    while n * step <= scale.length {
        let x = scale.x(n * step);
        let _ = writeln!(
            out,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{}\" y2=\"{bottom:.1}\" stroke=\"#e4e7eb\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" class=\"s m\">{}</text>",
            scale.head - 6.0,
            bottom + 15.0,
            time(n * step)
        );
        n += 1.0;
    }
}

/// The next larger of 1, 2, 5, 10, ..
fn round_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.max(1e-3).log10().floor());
    let fits = |n: &f64| n * power >= least;
    [1.0, 2.0, 5.0].into_iter().find(fits).unwrap_or(10.0) * power
}

fn draw_lane(out: &mut String, scale: &Scale, lane: &Lane, y: f64) {
    let name = escaped(&lane.short(16));
    let _ = writeln!(
        out,
        "<text x=\"24\" y=\"{:.1}\"><title>{}</title>{name}</text><rect x=\"{LEFT}\" y=\"{y:.1}\" \
         width=\"{}\" height=\"{LANE}\" rx=\"4\" fill=\"#f5f7fa\"/>",
        y + 19.0,
        escaped(&lane.name),
        WIDTH - LEFT - RIGHT
    );
    if let Some(session) = lane.session() {
        let _ = writeln!(
            out,
            "<rect x=\"10\" y=\"{:.1}\" width=\"6\" height=\"14\" rx=\"3\" fill=\"{}\"/>",
            y + 8.0,
            color_of(session)
        );
    }
    if lane.busy >= 0.005 {
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{:.1}\" class=\"s e\">{:.0}%</text>",
            WIDTH - 24.0,
            y + 19.0,
            100.0 * lane.busy
        );
    }
    for bar in bars(scale, &lane.spans) {
        bar.draw(out, y);
    }
}

/// Spans of one kind that are drawn as one rectangle.
struct Bar<'t> {
    x: f64,
    end: f64,
    kind: Kind,
    n: usize,
    first: &'t Span,
}

fn bars<'t>(scale: &Scale, spans: &'t [Span]) -> Vec<Bar<'t>> {
    let mut bars: Vec<Bar<'t>> = Vec::new();
    for span in spans {
        let (x, end) = (scale.x(span.at), scale.x(span.at + span.took));
        let near =
            |bar: &&mut Bar<'t>| x - bar.end < NEAR && (end - x < 1.5 && bar.end - bar.x < 40.0);
        match bars.iter_mut().rev().take(3).find(|b| b.first.color() == span.color()).filter(near) {
            Some(bar) => (bar.end, bar.n) = (bar.end.max(end), bar.n + 1),
            None => bars.push(Bar { x, end, kind: span.kind, n: 1, first: span }),
        }
    }
    bars
}

impl Bar<'_> {
    fn draw(&self, out: &mut String, y: f64) {
        let width = (self.end - self.x).max(0.8);
        // Waits and messages leave room for what happens meanwhile.
        let (inset, height) = match self.kind {
            Kind::Wait => (9.0, LANE - 18.0),
            Kind::Message => (6.0, LANE - 12.0),
            _ => (2.0, LANE - 4.0),
        };
        let about = match self.n {
            1 => format!("{}, {}: {}", self.first.name, time(self.first.took), self.first.details),
            n => format!("{n} of {}: {} ..", self.kind.name(), self.first.name),
        };
        let _ = writeln!(
            out,
            "<rect x=\"{:.2}\" y=\"{:.1}\" width=\"{width:.2}\" height=\"{height}\" rx=\"{}\" \
             fill=\"{}\"><title>{}</title></rect>",
            self.x,
            y + inset,
            if width > 6.0 { 2 } else { 0 },
            self.first.color(),
            escaped(&cut(&about, 300))
        );
        let fits = 6.2 * self.first.name.len() as f64 + 8.0;
        if self.n == 1 && width > fits && self.kind != Kind::Wait {
            let _ = writeln!(
                out,
                "<text x=\"{:.1}\" y=\"{:.1}\" class=\"w m\">{}</text>",
                self.x + width / 2.0,
                y + 19.0,
                escaped(&self.first.name)
            );
        }
    }
}

fn transfers(out: &mut String, scale: &Scale, timeline: &Timeline, n_lanes: usize) {
    let color = "#d64545";
    out.push_str(&format!(
        "<defs><marker id=\"a\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"5\" \
         markerHeight=\"5\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"{color}\"/></marker>\
         </defs>\n"
    ));
    let shown = timeline.transfers.iter().filter(|t| t.from.max(t.to) < n_lanes);
    for transfer in shown {
        let (down, x) = (transfer.to > transfer.from, scale.x(transfer.at));
        // At least as far that the head of the arrow shows.
        let end = scale.x(transfer.at + transfer.took).max(x + 4.0);
        let middle = (x + end) / 2.0;
        let from = scale.top(transfer.from) + if down { LANE - 4.0 } else { 4.0 };
        let to = scale.top(transfer.to) + if down { 3.0 } else { LANE - 3.0 };
        let width = 0.6 + (transfer.bytes as f64).log10().max(0.0) / 6.0;
        let _ = writeln!(
            out,
            "<path d=\"M{x:.1} {from:.1}C{middle:.1} {0:.1} {middle:.1} {0:.1} {end:.1} {to:.1}\" \
             fill=\"none\" stroke=\"{color}\" stroke-opacity=\".4\" stroke-width=\"{width:.2}\" \
             marker-end=\"url(#a)\"><title>{1}</title></path>",
            (from + to) / 2.0,
            units::bytes(transfer.bytes)
        );
    }
}

/// Bytes in use, as an area.
fn draw_memory(out: &mut String, scale: &Scale, memory: &Memory, y: f64) {
    let most = memory.samples.iter().map(|(_, bytes)| *bytes).max().unwrap_or(1).max(1);
    let height = |bytes: u64| y + MEMORY - bytes as f64 / most as f64 * (MEMORY - 6.0);
    // Nothing is known before the first sample.
    let start = memory.samples.first().map_or(LEFT, |(at, _)| scale.x(*at));
    let mut path = format!("M{start:.1} {:.1}", y + MEMORY);
    let (mut column, mut last) = (f64::NEG_INFINITY, y + MEMORY);
    let mut highest: f64 = last;
    for &(at, bytes) in &memory.samples {
        let x = scale.x(at);
        highest = highest.min(height(bytes));
        if x - column >= 0.5 {
            let level = height(bytes);
            let _ = write!(path, "L{x:.1} {last:.1}L{x:.1} {highest:.1}L{x:.1} {level:.1}");
            (column, last, highest) = (x, level, y + MEMORY);
        }
    }
    let _ = write!(path, "L{:.1} {last:.1}L{:.1} {:.1}z", WIDTH - RIGHT, WIDTH - RIGHT, y + MEMORY);
    let _ = writeln!(
        out,
        "<text x=\"24\" y=\"{:.1}\">memory</text><text x=\"24\" y=\"{:.1}\" class=\"s\">{}</text>\
         <text x=\"24\" y=\"{:.1}\" class=\"s\">at most {}</text>\
         <path d=\"{path}\" fill=\"#0072B2\" fill-opacity=\".22\" stroke=\"#0072B2\"/>",
        y + 18.0,
        y + 34.0,
        escaped(&cut(&memory.worker, 16)),
        y + 50.0,
        units::bytes(most)
    );
}

fn footer(out: &mut String, timeline: &Timeline, height: f64) {
    let hidden = timeline.lanes.len().saturating_sub(MAX_LANES);
    let hidden = (hidden > 0).then(|| format!("{hidden} more lanes are in the page"));
    let notes: Vec<String> = timeline.notes.iter().take(3).cloned().chain(hidden).collect();
    let _ = writeln!(
        out,
        "<text x=\"24\" y=\"{:.1}\" class=\"s\">{}</text>",
        height - 10.0,
        escaped(&notes.join("; "))
    );
}

/// A time in microseconds, for people.
pub(super) fn time(micros: f64) -> String {
    let plain = |n: f64| {
        let text = format!("{n:.2}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    match micros {
        m if m >= 1e6 => format!("{} s", plain(m / 1e6)),
        m if m >= 1e3 => format!("{} ms", plain(m / 1e3)),
        0.0 => "0".into(),
        m => format!("{} us", plain(m)),
    }
}

/// A text of at most so many characters.
pub(super) fn cut(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text.to_owned(),
    }
}

/// A text as XML has it. Characters that XML cannot have become spaces.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
