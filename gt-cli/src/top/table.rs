//! The columns of the three tables: their names, widths, texts and orders. A table is data, and the
//! screen is a fold over it.

use super::view::{LinkRow, Rates, SessionRow, View, WorkerRow};
use crate::who::bare;
use gt_ir::units;

/// One of the tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Which {
    #[default]
    Workers,
    Sessions,
    Links,
}

impl Which {
    pub(crate) const ALL: [Which; 3] = [Which::Workers, Which::Sessions, Which::Links];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Which::Workers => "workers",
            Which::Sessions => "sessions",
            Which::Links => "links",
        }
    }

    pub(crate) fn index(self) -> usize {
        self as usize
    }

    /// Its columns, in the order in which they are drawn.
    pub(crate) fn columns(self) -> &'static [Column] {
        match self {
            Which::Workers => WORKERS,
            Which::Sessions => SESSIONS,
            Which::Links => LINKS,
        }
    }
}

/// A column.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) width: u16,
    /// Whether numbers stand to the right.
    pub(crate) right: bool,
    /// The width of the screen from which on it is drawn.
    pub(crate) from: u16,
}

/// A cell.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Cell {
    Text(String),
    /// A part of a whole, as a bar and a text.
    Bar(f64, String),
    /// Nothing is known.
    Nothing,
}

/// A row: its cells, one for each column, and what its columns are sorted by.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Row {
    /// The name by which the row is found again: `w1`, or `w1 w2`.
    pub(crate) id: String,
    pub(crate) cells: Vec<Cell>,
    pub(crate) keys: Vec<Key>,
    /// All that a filter looks at.
    pub(crate) words: String,
}

/// What a cell is sorted by.
#[derive(Clone, PartialEq, PartialOrd, Debug)]
pub(crate) enum Key {
    Number(f64),
    Text(String),
}

const fn left(name: &'static str, width: u16, from: u16) -> Column {
    Column { name, width, right: false, from }
}

const fn right(name: &'static str, width: u16, from: u16) -> Column {
    Column { name, width, right: true, from }
}

const WORKERS: &[Column] = &[
    left("ID", 4, 0),
    left("NAME", 12, 0),
    left("BUSY", 11, 0),
    left("MEMORY", 18, 0),
    right("QUEUE", 5, 0),
    right("PLANS", 5, 0),
    right("RUNS/S", 6, 0),
    left("NOW", 10, 0),
    right("INSTR/S", 7, 92),
    right("SESS", 4, 100),
    left("DEVICE", 14, 118),
];

const SESSIONS: &[Column] = &[
    left("ID", 4, 0),
    left("PROGRAM", 12, 0),
    left("TIME", 11, 0),
    right("INSTR/S", 7, 0),
    right("RUNS/S", 6, 0),
    right("UP/S", 8, 0),
    right("DOWN/S", 8, 0),
    right("PLANS", 5, 0),
    right("MEMORY", 8, 0),
    right("VALUES", 6, 90),
    left("ON", 9, 100),
    left("SIGNAL", 18, 118),
    right("WEIGHT", 6, 126),
];

const LINKS: &[Column] = &[
    left("FROM", 8, 0),
    left("TO", 8, 0),
    right("THERE/S", 10, 0),
    right("BACK/S", 10, 0),
    right("THERE", 10, 0),
    right("BACK", 10, 0),
    right("MSG/S", 8, 0),
    right("QUEUED", 8, 0),
];

/// The rows of a table.
pub(crate) fn rows(which: Which, view: &View) -> Vec<Row> {
    match which {
        Which::Workers => view.workers.iter().map(|row| worker(row, view)).collect(),
        Which::Sessions => view.sessions.iter().map(|row| session(row, view)).collect(),
        Which::Links => view.links.iter().map(|row| link(row, view)).collect(),
    }
}

/// The names of the sessions that live on a worker, so that the filter for a program shows it.
fn names_on(view: &View, worker: &str) -> String {
    let on = view.sessions.iter().filter(|row| row.workers.iter().any(|id| id == worker));
    on.map(|row| &*row.name).collect::<Vec<_>>().join(" ")
}

/// The name of the session or worker at an end of a link.
fn name_of<'v>(view: &'v View, id: &'v str) -> &'v str {
    let session = view.sessions.iter().find(|row| row.id == id).map(|row| &*row.name);
    let worker = || view.workers.iter().find(|row| row.id == id).map(|row| &*row.name);
    session.or_else(worker).unwrap_or(id)
}

fn worker(row: &WorkerRow, view: &View) -> Row {
    let known = (row.memory > 0).then(|| row.used as f64 / row.memory as f64);
    let bytes = match row.memory {
        0 => units::bytes(row.used),
        memory => format!("{}/{}", short_bytes(row.used), short_bytes(memory)),
    };
    let memory = known.map_or(Cell::Text(bytes.clone()), |part| Cell::Bar(part, bytes));
    let signal = row.signals.split(", ").next().unwrap_or_default();
    let now = format!("{} {signal}", row.session);
    Row {
        cells: vec![
            text(&row.id),
            text(&bare(&row.name, &row.id)),
            Cell::Bar(row.rates.busy, percent(row.rates.busy)),
            memory,
            text(&row.queue.to_string()),
            planned(&row.rates),
            text(&count(row.rates.launches)),
            text(now.trim()),
            text(&count(row.rates.instructions)),
            text(&row.n_sessions.to_string()),
            text(&format!("{} {}", row.engine, row.device)),
        ],
        keys: vec![
            number_of(&row.id),
            word(&row.name),
            Key::Number(row.rates.busy),
            Key::Number(row.used as f64),
            Key::Number(row.queue as f64),
            Key::Number(row.rates.planned.unwrap_or(-1.0)),
            Key::Number(row.rates.launches),
            word(&row.session),
            Key::Number(row.rates.instructions),
            Key::Number(row.n_sessions as f64),
            word(&row.device),
        ],
        words: format!(
            "{} {} {} {} {}",
            row.name,
            row.engine,
            row.device,
            row.signals,
            names_on(view, &row.id)
        ),
        id: row.id.clone(),
    }
}

fn session(row: &SessionRow, view: &View) -> Row {
    // A long segment counts when it ends, and may have begun before the interval.
    let all = view.workers.len().max(1) as f64;
    let share = row.rates.busy.min(row.workers.len() as f64) / all;
    Row {
        cells: vec![
            text(&row.id),
            text(&row.program),
            Cell::Bar(share, percent(share)),
            text(&count(row.rates.instructions)),
            text(&count(row.rates.launches)),
            text(&rate(row.up)),
            text(&rate(row.down)),
            text(&row.plans.to_string()),
            text(&units::bytes(row.bytes)),
            text(&row.values.to_string()),
            text(&row.workers.join(",")),
            text(&row.signals),
            text(&row.weight.to_string()),
        ],
        keys: vec![
            number_of(&row.id),
            word(&row.program),
            Key::Number(share),
            Key::Number(row.rates.instructions),
            Key::Number(row.rates.launches),
            Key::Number(row.up),
            Key::Number(row.down),
            Key::Number(row.plans as f64),
            Key::Number(row.bytes as f64),
            Key::Number(row.values as f64),
            word(&row.workers.join(",")),
            word(&row.signals),
            Key::Number(f64::from(row.weight)),
        ],
        words: format!("{} {} {}", row.name, row.workers.join(" "), row.signals),
        id: row.id.clone(),
    }
}

fn link(row: &LinkRow, view: &View) -> Row {
    Row {
        cells: vec![
            text(&row.from),
            text(&row.to),
            text(&rate(row.there)),
            text(&rate(row.back)),
            text(&units::bytes(row.there_total)),
            text(&units::bytes(row.back_total)),
            text(&count(row.messages)),
            text(&units::bytes(row.queued)),
        ],
        keys: vec![
            word(&row.from),
            word(&row.to),
            Key::Number(row.there),
            Key::Number(row.back),
            Key::Number(row.there_total as f64),
            Key::Number(row.back_total as f64),
            Key::Number(row.messages),
            Key::Number(row.queued as f64),
        ],
        words: format!("{} {}", name_of(view, &row.from), name_of(view, &row.to)),
        id: format!("{} {}", row.from, row.to),
    }
}

fn text(text: &str) -> Cell {
    Cell::Text(text.to_owned())
}

fn word(text: &str) -> Key {
    Key::Text(text.to_owned())
}

/// The number of an id such as `w12`, so that it comes after `w2`.
fn number_of(id: &str) -> Key {
    Key::Number(id.get(1..).and_then(|n| n.parse().ok()).unwrap_or(f64::MAX))
}

fn planned(rates: &Rates) -> Cell {
    rates.planned.map_or(Cell::Nothing, |part| Cell::Text(percent(part)))
}

pub(crate) fn percent(part: f64) -> String {
    format!("{:3.0} %", 100.0 * part.clamp(0.0, 9.99))
}

/// A number in a few characters: `18.4k`.
pub(crate) fn count(n: f64) -> String {
    match n {
        n if n < 10.0 && n > 0.0 => format!("{n:.1}"),
        n if n < 1e4 => format!("{n:.0}"),
        n if n < 1e6 => format!("{:.1}k", n / 1e3),
        n if n < 1e9 => format!("{:.1}M", n / 1e6),
        n => format!("{:.1}G", n / 1e9),
    }
}

/// Bytes in a second.
pub(crate) fn rate(bytes: f64) -> String {
    if bytes < 1.0 { "0".into() } else { units::bytes(bytes as u64) }
}

/// Bytes in few characters: `8.6G`.
fn short_bytes(n: u64) -> String {
    let text = units::bytes(n).replace([' ', 'B'], "");
    match text.split_once('.') {
        // Three digits are enough.
        Some((whole, rest)) if whole.len() > 2 => {
            format!("{whole}{}", rest.trim_start_matches(|c: char| c.is_ascii_digit()))
        }
        _ => text,
    }
}
