//! The text of an explained partition: where values are, what members exchange and why, and each
//! member's work as tapes with the values that it sends.
//!
//! The text depends on the segment, the signals and the number of members only. Values have the
//! numbers of the tape; what a member makes or receives is numbered from the next hundred on.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use gt_ir::canonical::{Bindings, Defined, expand};
use gt_ir::{Entry, Loc, Scalar, Tape, ValueId, text};
use rustc_hash::FxHashMap;

use super::memory::held;
use super::{Candidate, Exchange, Explained, Literal, Local, Phase, Step};

/// The most lines of the table of exchanges; a larger table is cut.
const MAX_EXCHANGES: usize = 200;

/// By receiver and number there, the member that sends each value that members send each other.
type Senders = FxHashMap<(u32, u32), usize>;

/// The names of a segment's values.
pub(super) struct Names<'a> {
    bindings: &'a Bindings,
    /// What defines each value, and the line of the program.
    origins: BTreeMap<ValueId, (String, Loc)>,
    /// The first number of values that members make.
    first: u64,
}

impl Explained {
    /// The layouts of values and the exchanges, as aligned tables. The values are those of the tape
    /// of which the bindings were made.
    #[must_use]
    pub fn tables(&self, tape: &Tape, bindings: &Bindings) -> String {
        let names = Names::new(tape, bindings);
        let mut out = format!("# layouts\n{}", table(&self.layouts(&names), 0));
        if !self.options.is_empty() {
            out += &format!("# ways to compute\n{}", table(&ways(&self.options), 2));
        }
        let n = self.exchanges.len();
        let of = if n > MAX_EXCHANGES { format!(", of {n}") } else { String::new() };
        // Writing to a string cannot fail.
        let _ = writeln!(out, "# exchanges{}{of}", if n == 0 { ": none" } else { "" });
        let rows = self.exchanges.iter().take(MAX_EXCHANGES).map(|e| exchange(e, &names));
        let header = ["rounds", "bytes", "us", "kind", "value", "from", "to", "for"];
        let header = header.map(str::to_owned).to_vec();
        let rows: Vec<Vec<String>> = [header].into_iter().filter(|_| n > 0).chain(rows).collect();
        out + &table(&rows, 3)
    }

    /// Each member's work, or that of one member. A member that is not there has none.
    #[must_use]
    pub fn parts(&self, tape: &Tape, bindings: &Bindings, only: Option<u32>) -> String {
        let (names, senders) = (Names::new(tape, bindings), self.senders());
        let wanted = |member: &usize| only.is_none_or(|only| *member == only as usize);
        let members = (0..self.partition.parts.len()).filter(wanted);
        members.map(|member| self.part(member, &names, &senders)).collect()
    }

    /// The sums, and the estimate against that of one worker.
    #[must_use]
    pub fn sums(&self, alone: &Explained) -> String {
        let report = &self.partition.report;
        let given: u64 = self.exchanges.iter().filter(|e| e.given).map(|e| e.bytes).sum();
        let peak = |of: &Explained| of.peaks.iter().max().copied().unwrap_or(0);
        let micro = |seconds: f64| format!("{:.1}", seconds * 1e6);
        let rows = [
            ("messages", report.messages.to_string()),
            ("rounds", report.rounds.to_string()),
            ("bytes of inputs", given.to_string()),
            ("bytes of other values", report.bytes.saturating_sub(given).to_string()),
            ("microseconds", micro(self.seconds)),
            ("microseconds of one worker", micro(alone.seconds)),
            ("percent of waiting", format!("{:.1}", self.waiting * 100.0)),
            ("peak bytes of a worker", peak(self).to_string()),
            ("peak bytes of one worker", peak(alone).to_string()),
        ];
        let line = |(name, value): &(&str, String)| format!("# {name:<28} {value:>14}\n");
        let warnings = report.warnings.iter().map(|warning| format!("# warning: {warning}\n"));
        let wishes = self.wishes.iter().map(|wish| format!("# {wish}\n"));
        let line_of = |name: String, value: String| format!("# {name:<42} {value:>14}\n");
        let plans = self.plans.iter().map(|plan| {
            let peak = plan
                .peak
                .map(|peak| line_of(format!("peak bytes of {}", plan.name), peak.to_string()));
            let line = line_of(format!("microseconds of {}", plan.name), micro(plan.seconds));
            line + &peak.unwrap_or_default()
        });
        warnings.chain(wishes).chain(rows.iter().map(line)).chain(plans).collect()
    }

    fn layouts(&self, names: &Names<'_>) -> Vec<Vec<String>> {
        let row = |(number, placed): (usize, &super::Placed)| {
            let value = names.value(number as u32);
            let layouts: Vec<String> = placed.layouts.iter().map(ToString::to_string).collect();
            let made = || "made where it is used".to_owned();
            vec![
                value.to_string(),
                names.origin(value),
                placed.ty.to_string(),
                if layouts.is_empty() { made() } else { layouts.join("; ") },
            ]
        };
        self.values.iter().enumerate().map(row).collect()
    }

    fn part(&self, member: usize, names: &Names<'_>, senders: &Senders) -> String {
        let mut lines = Lines::default();
        for (number, ty) in held(&self.partition.parts[member], member as u32, &self.values) {
            let out = names.local(Local::Given(number));
            lines.entry(Entry::Input { out, ty, name: None }, " here".to_owned());
        }
        let part = &self.partition.parts[member];
        for step in &part.steps {
            match step {
                Step::Run(phase) => {
                    let turn = phase.turn.map(|turn| format!(" of micro-batch {turn}"));
                    lines.note(format!("phase {}{}", lines.n_phases, turn.unwrap_or_default()));
                    lines.n_phases += 1;
                    let from = |made: u32| senders.get(&(member as u32, made)).copied();
                    phase_lines(phase, names, from, &mut lines);
                }
                Step::Send { value, to, made } => {
                    let (value, there) = (names.local(*value), names.local(Local::Made(*made)));
                    lines.note(format!("send {value} to {to} as {there}"));
                }
            }
        }
        for kept in &self.partition.kept {
            if let Some(rank) = kept.layout.mesh.rank_of(member as u32) {
                let (name, value) = (names.local(kept.names[rank]), names.value(kept.value));
                lines.note(format!("keep {name} as {value}: {}", kept.layout));
            }
        }
        format!("# worker {member}\n{}", lines.text())
    }

    fn senders(&self) -> Senders {
        let mut senders = Senders::default();
        for (from, part) in self.partition.parts.iter().enumerate() {
            for step in &part.steps {
                if let Step::Send { to, made, .. } = step {
                    senders.insert((*to, *made), from);
                }
            }
        }
        senders
    }
}

/// The entries of a phase. `from` is the member that has sent a received value, by its number.
fn phase_lines(
    phase: &Phase,
    names: &Names<'_>,
    from: impl Fn(u32) -> Option<usize>,
    lines: &mut Lines,
) {
    let literal = |literal: &Literal| match literal {
        Literal::Slot(slot) => names.bindings.scalars.get(*slot as usize).copied(),
        Literal::Number(scalar) => Some(*scalar),
    };
    let (zero, made) = (Scalar::Bool(false), names.local(Local::Made(0)).0);
    let bindings = Bindings {
        inputs: phase.inputs.iter().map(|local| names.local(*local)).collect(),
        defined: Defined::Run(
            names.local(Local::Made(phase.first)),
            phase.template.n_defined as u64,
        ),
        scalars: phase.literals.iter().map(|l| literal(l).unwrap_or(zero)).collect(),
    };
    // The partitioner made the phase, so the bindings fit it.
    let Ok(tape) = expand(&phase.template, &bindings) else { return };
    for entry in tape.entries {
        let sender = match &entry {
            Entry::Input { out, .. } => out.0.checked_sub(made).and_then(|made| from(made as u32)),
            Entry::Instr(_)
            | Entry::Free(_)
            | Entry::Enter(_)
            | Entry::Exit(_)
            | Entry::Output { .. } => None,
        };
        let note = sender.map_or_else(String::new, |from| format!(" from {from}"));
        lines.entry(entry, note);
    }
}

impl<'a> Names<'a> {
    pub(super) fn new(tape: &Tape, bindings: &'a Bindings) -> Names<'a> {
        let mut origins = BTreeMap::new();
        for entry in &tape.entries {
            match entry {
                Entry::Input { out, name, .. } => {
                    let name = name.as_deref().map_or_else(String::new, |n| format!(" {n:?}"));
                    origins.insert(*out, (format!("input{name}"), Loc::NONE));
                }
                Entry::Instr(instr) => {
                    origins.insert(instr.out, (instr.op.to_string(), instr.loc));
                }
                Entry::Free(_) | Entry::Enter(_) | Entry::Exit(_) | Entry::Output { .. } => {}
            }
        }
        let values = bindings.inputs.iter().copied().chain(bindings.defined.iter());
        let last = values.map(|value| value.0).max().unwrap_or(0);
        Names { bindings, origins, first: (last + 1).next_multiple_of(100) }
    }

    /// A value of the segment by its number.
    pub(super) fn value(&self, number: u32) -> ValueId {
        let number = number as usize;
        let defined = |k: usize| self.bindings.defined.get(k).unwrap_or(ValueId(u64::MAX));
        match self.bindings.inputs.get(number) {
            Some(value) => *value,
            None => defined(number - self.bindings.inputs.len()),
        }
    }

    fn local(&self, local: Local) -> ValueId {
        match local {
            Local::Given(number) => self.value(number),
            Local::Made(made) => ValueId(self.first + u64::from(made)),
        }
    }

    pub(super) fn origin(&self, value: ValueId) -> String {
        self.origins.get(&value).map_or_else(|| "held".to_owned(), |(origin, _)| origin.clone())
    }

    /// The instruction, signal and line that something happens for.
    fn cause(&self, cause: Option<u32>, signal: Option<&str>) -> String {
        let mut text = "the end".to_owned();
        let mut loc = Loc::NONE;
        if let Some(number) = cause {
            let value = self.value(number);
            text = format!("{value} {}", self.origin(value));
            loc = self.origins.get(&value).map_or(Loc::NONE, |(_, loc)| *loc);
        }
        // Writing to a string cannot fail.
        let _ = signal.map(|signal| write!(text, ", signal {signal:?}"));
        if loc != Loc::NONE {
            let _ = write!(text, ", {loc}");
        }
        text
    }
}

/// The row of an exchange.
fn exchange(exchange: &Exchange, names: &Names<'_>) -> Vec<String> {
    let (first, last) = exchange.rounds;
    let value = match exchange.value {
        Some(number) => format!("{} {}", names.value(number), exchange.ty),
        None => format!("a part {}", exchange.ty),
    };
    vec![
        if first == last { first.to_string() } else { format!("{first}-{last}") },
        exchange.bytes.to_string(),
        format!("{:.1}", exchange.seconds * 1e6),
        exchange.kind.to_string(),
        value,
        exchange.from.to_string(),
        exchange.to.to_string(),
        names.cause(exchange.cause, exchange.signal.as_deref()),
    ]
}

/// The rows of the ways to compute an instruction, with a title.
fn ways(options: &[Candidate]) -> Vec<Vec<String>> {
    let title = ["exchange us", "compute us", "", "op", "operands", "result"];
    let row = |way: &Candidate| {
        let literal = || "literal".to_owned();
        let operands = way.operands.iter();
        let operands: Vec<String> =
            operands.map(|o| o.as_ref().map_or_else(literal, ToString::to_string)).collect();
        vec![
            format!("{:.1}", way.exchange * 1e6),
            format!("{:.1}", way.compute * 1e6),
            if way.taken { "taken" } else { "" }.to_owned(),
            way.op.to_string(),
            operands.join("; "),
            way.result.to_string(),
        ]
    };
    [title.map(str::to_owned).to_vec()].into_iter().chain(options.iter().map(row)).collect()
}

/// Aligned columns, the first `n_numbers` of them to the right.
fn table(rows: &[Vec<String>], n_numbers: usize) -> String {
    let n_columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..n_columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut out = String::new();
    for row in rows {
        let cell = |(at, cell): (usize, &String)| match (at < n_numbers, widths[at]) {
            (true, width) => format!("{cell:>width$}"),
            (false, width) => format!("{cell:<width$}"),
        };
        let cells: Vec<String> = row.iter().enumerate().map(cell).collect();
        out += cells.join("  ").trim_end();
        out.push('\n');
    }
    out
}

/// Entries of a tape, with words behind and lines between them.
#[derive(Default)]
struct Lines {
    tape: Tape,
    /// What stands behind each entry.
    behind: Vec<String>,
    /// The entry before which each line stands.
    between: Vec<(usize, String)>,
    n_phases: usize,
}

impl Lines {
    fn entry(&mut self, entry: Entry, behind: String) {
        self.tape.entries.push(entry);
        self.behind.push(behind);
    }

    fn note(&mut self, line: String) {
        self.between.push((self.tape.entries.len(), line));
    }

    fn text(&self) -> String {
        let printed = text::print(&self.tape);
        let mut between = self.between.iter().peekable();
        let mut out = String::new();
        // The first line of the text is the format's.
        for (at, line) in printed.lines().skip(1).enumerate() {
            while let Some((_, note)) = between.next_if(|(before, _)| *before <= at) {
                out += &format!("{note}\n");
            }
            out += &format!("{line}{}\n", self.behind[at]);
        }
        between.for_each(|(_, note)| out += &format!("{note}\n"));
        out
    }
}
