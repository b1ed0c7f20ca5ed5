//! The screen of `gt-cli top`, drawn from its state. It reads nothing and changes nothing.
//!
//! It fits 80 columns and 24 lines; wider screens show more columns, and taller ones more rows.
//! Nothing is told by color alone.

use super::state::{Mode, State};
use super::table::{Cell, Column, Row, Which, count, percent};
use crate::who;
use gt_ir::units;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};
use ratatui::{Frame, Terminal};

/// How a screen looks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Theme {
    pub(crate) colors: bool,
    /// Whether the terminal draws blocks.
    pub(crate) blocks: bool,
    /// Whether a row is selected.
    pub(crate) selects: bool,
}

const KEYS: &[(&str, &str)] = &[
    ("tab, 1 2 3", "another table"),
    ("up, down", "select a row"),
    ("enter", "all about the selected row"),
    ("s, r", "sort by the next column, reverse"),
    ("/", "show rows with a word only; esc shows all"),
    ("space", "pause, and go on"),
    ("k", "end the work of the selected session"),
    ("q, Ctrl-C", "quit"),
];

impl Theme {
    /// A style for text that is less important.
    fn dim(self) -> Style {
        if self.colors { Style::new().fg(Color::DarkGray) } else { Style::new() }
    }

    fn bold(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    fn colored(self, color: Color) -> Style {
        if self.colors { Style::new().fg(color) } else { Style::new() }
    }

    /// A bar: blue, and red where little is left.
    fn bar(self, part: f64, width: usize, is_memory: bool) -> Vec<Span<'static>> {
        let part = part.clamp(0.0, 1.0);
        let full = (part * width as f64).round() as usize;
        let (on, off) = if self.blocks { ("\u{2588}", "\u{2591}") } else { ("#", ".") };
        let color = match part {
            part if part > 0.9 && is_memory => Color::Red,
            _ if is_memory => Color::Magenta,
            _ => Color::Green,
        };
        vec![
            Span::styled(on.repeat(full), self.colored(color)),
            Span::styled(off.repeat(width - full), self.dim()),
        ]
    }
}

/// Draws the screen.
pub(crate) fn draw(frame: &mut Frame<'_>, state: &State, address: &str, theme: Theme) {
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(2), Constraint::Min(0), Constraint::Length(1)])
            .areas(frame.area());
    frame.render_widget(Paragraph::new(heading(state, address, theme)), head);
    let areas = Layout::vertical(heights(state, body.height)).split(body);
    for (which, area) in Which::ALL.into_iter().zip(areas.iter()) {
        table(frame, state, which, *area, theme);
    }
    frame.render_widget(Paragraph::new(footing(state, theme)), foot);
    match &state.mode {
        Mode::Help => popup(frame, "keys", help(theme), theme),
        Mode::Details => details(frame, state, theme),
        Mode::Confirm(session) => {
            let text = vec![
                Line::from(format!("End the work of {}?", named(state, session))),
                Line::from("Its values are lost, and its program is told who ended it."),
                Line::default(),
                Line::from("y: end it    any other key: let it go on"),
            ];
            popup(frame, "end a session", text, theme);
        }
        Mode::Table | Mode::Filter => {}
    }
}

/// The screen as a text, as wide as a usual terminal and as high as its rows need.
pub(crate) fn text(state: &State, address: &str, theme: Theme) -> anyhow::Result<String> {
    let buffer = screen(state, address, theme)?;
    let cells = buffer.content().chunks(usize::from(buffer.area.width));
    let lines = cells.map(|line| line.iter().map(|cell| cell.symbol()).collect::<String>());
    // The last line is of keys.
    let n_lines = usize::from(buffer.area.height) - 1;
    let lines: Vec<String> = lines.take(n_lines).map(|line| line.trim_end().to_owned()).collect();
    Ok(lines.join("\n").trim_end().to_owned())
}

/// The same screen as a picture.
pub(crate) fn picture(state: &State, address: &str, theme: Theme) -> anyhow::Result<String> {
    let buffer = screen(state, address, theme)?;
    Ok(super::picture::svg(&buffer, usize::from(buffer.area.height) - 1))
}

fn screen(state: &State, address: &str, theme: Theme) -> anyhow::Result<Buffer> {
    let n_rows: usize = Which::ALL.map(|which| state.rows(which).len().max(1) + 2).iter().sum();
    let height = u16::try_from(n_rows + 3).unwrap_or(u16::MAX).min(400);
    let mut terminal = Terminal::new(TestBackend::new(100, height))?;
    terminal.draw(|frame| draw(frame, state, address, theme))?;
    Ok(terminal.backend().buffer().clone())
}

/// The heights of the tables: as high as their rows need if all fit. Otherwise none of the others
/// takes more than a third, and the chosen one takes what is left.
fn heights(state: &State, height: u16) -> [Constraint; 3] {
    let needs = Which::ALL.map(|which| {
        // The names of the columns, and a line between tables.
        u16::try_from(state.rows(which).len().max(1) + 2).unwrap_or(u16::MAX)
    });
    let fits = needs.iter().map(|&need| u32::from(need)).sum::<u32>() <= u32::from(height);
    let third = (height / 3).max(3);
    Which::ALL.map(|which| match needs[which.index()] {
        need if fits => Constraint::Length(need),
        _ if which == state.which => Constraint::Min(third),
        need => Constraint::Length(need.min(third)),
    })
}

fn heading(state: &State, address: &str, theme: Theme) -> Vec<Line<'static>> {
    let view = &state.view;
    let plural = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let mut first = vec![
        Span::styled("gt top ", theme.bold()),
        Span::styled(address.to_owned(), theme.colored(Color::Cyan)),
        Span::raw(format!(
            "  {}  {}",
            plural(view.workers.len(), "worker"),
            plural(usize::try_from(view.n_sessions).unwrap_or(usize::MAX), "session")
        )),
    ];
    let hidden = (view.n_sessions as usize).saturating_sub(view.sessions.len());
    if hidden > 0 {
        first.push(Span::styled(format!(" ({hidden} of others)"), theme.dim()));
    }
    let mark = |text: &str, color| Span::styled(format!("  [{text}]"), theme.colored(color));
    first.extend(state.paused.then(|| mark("paused", Color::Yellow)));
    first.extend(view.ending.then(|| mark("the server ends soon", Color::Yellow)));
    let second = match &state.trouble {
        Some(why) => {
            Line::styled(format!("no answer, trying again: {why}"), theme.colored(Color::Red))
        }
        None => Line::from(format!(
            "busy {}  runs/s {}  instructions/s {}  plans {}  kept {}",
            percent(view.total.busy).trim_start(),
            count(view.total.launches),
            count(view.total.instructions),
            view.total.planned.map_or("-".into(), |part| percent(part).trim_start().to_owned()),
            units::bytes(view.kept),
        )),
    };
    vec![Line::from(first), second]
}

fn footing(state: &State, theme: Theme) -> Line<'static> {
    if let Mode::Filter = state.mode {
        return Line::from(format!("show rows with: {}_   enter: done  esc: all", state.filter));
    }
    if let Some(news) = &state.news {
        return Line::from(news.clone());
    }
    let filter = match state.filter.is_empty() {
        true => String::new(),
        false => format!("rows with: {}  ", state.filter),
    };
    let keys = "tab table  s sort  / filter  space pause  enter details  k end  ? keys  q quit";
    Line::from(vec![Span::styled(filter, theme.bold()), Span::styled(keys, theme.dim())])
}

fn table(frame: &mut Frame<'_>, state: &State, which: Which, area: Rect, theme: Theme) {
    let [title, rest] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    let columns: Vec<(usize, &Column)> =
        which.columns().iter().enumerate().filter(|(_, c)| c.from <= area.width).collect();
    let rows = state.rows(which);
    let is_chosen = which == state.which && theme.selects;
    frame.render_widget(Paragraph::new(titles(state, which, &columns, theme)), title);
    let height = usize::from(rest.height);
    let at = state.position(which, &rows);
    // The selected row is on the screen.
    let skip = at.map_or(0, |at| (at + 1).saturating_sub(height));
    let left_out = rows.len().saturating_sub(height + skip);
    let mut lines: Vec<Line<'_>> = rows
        .iter()
        .enumerate()
        .skip(skip)
        .take(height)
        .map(|(i, row)| line(row, &columns, is_chosen && at == Some(i), theme))
        .collect();
    if rows.is_empty() && height > 0 {
        lines.push(Line::styled(format!("  no {}", which.title()), theme.dim()));
    }
    if left_out > 0 && height > 0 {
        lines.pop();
        lines.push(Line::styled(format!("  and {} more", left_out + 1), theme.dim()));
    }
    frame.render_widget(Paragraph::new(lines), rest);
}

/// The names of columns. The one by which rows are sorted has a mark.
fn titles(
    state: &State,
    which: Which,
    columns: &[(usize, &Column)],
    theme: Theme,
) -> Line<'static> {
    let order = state.order(which);
    let name = |&(i, column): &(usize, &Column)| {
        let mark = if order.descending { "-" } else { "+" };
        let name = match i == order.column && which == state.which {
            true => format!("{}{mark}", column.name),
            false => column.name.to_owned(),
        };
        let last = columns.last().is_some_and(|(last, _)| *last == i);
        fitted(&name, column, last)
    };
    let style = match which == state.which {
        true => theme.bold().add_modifier(Modifier::REVERSED),
        false => theme.bold().patch(theme.dim()),
    };
    let names: Vec<String> = columns.iter().map(name).collect();
    Line::styled(format!(" {:<200}", names.join(" ")), style)
}

fn line(row: &Row, columns: &[(usize, &Column)], chosen: bool, theme: Theme) -> Line<'static> {
    let mut spans = vec![Span::raw(if chosen { ">" } else { " " })];
    for (n, (i, column)) in columns.iter().enumerate() {
        if n > 0 {
            spans.push(Span::raw(" "));
        }
        match row.cells.get(*i) {
            Some(Cell::Text(text)) => spans.push(Span::raw(fitted(text, column, false))),
            Some(Cell::Bar(part, text)) => {
                let is_memory = column.name == "MEMORY";
                let room = if is_memory { 11 } else { 5 };
                let width = usize::from(column.width).saturating_sub(room + 1);
                spans.extend(theme.bar(*part, width, is_memory));
                spans.push(Span::raw(format!(" {text:<room$}")));
            }
            Some(Cell::Nothing) | None => spans.push(Span::raw(fitted("-", column, false))),
        }
    }
    let style = if chosen { theme.bold() } else { Style::new() };
    Line::from(spans).style(style)
}

/// A text in the width of its column.
fn fitted(text: &str, column: &Column, last: bool) -> String {
    let width = usize::from(column.width);
    let shown: String = match text.chars().count() > width {
        true => text.chars().take(width.saturating_sub(1)).chain(['~']).collect(),
        false => text.to_owned(),
    };
    match (column.right, last) {
        (true, _) => format!("{shown:>width$}"),
        (false, false) => format!("{shown:<width$}"),
        (false, true) => shown,
    }
}

fn named(state: &State, session: &str) -> String {
    let found = state.view.sessions.iter().find(|row| row.id == session);
    found.map_or_else(|| session.to_owned(), |row| row.name.clone())
}

fn help(theme: Theme) -> Vec<Line<'static>> {
    let key = |(key, what): &(&str, &str)| {
        Line::from(vec![
            Span::styled(format!("{key:<12}"), theme.bold()),
            Span::raw((*what).to_owned()),
        ])
    };
    KEYS.iter().map(key).collect()
}

/// All about the selected row.
fn details(frame: &mut Frame<'_>, state: &State, theme: Theme) {
    let Some(row) = state.chosen() else { return };
    let view = &state.view;
    let object = match state.which {
        Which::Workers => view.workers.iter().find(|w| w.id == row.id).map(serde_json::to_value),
        Which::Sessions => view.sessions.iter().find(|s| s.id == row.id).map(serde_json::to_value),
        Which::Links => {
            let is = |from: &str, to: &str| format!("{from} {to}") == row.id;
            view.links.iter().find(|l| is(&l.from, &l.to)).map(serde_json::to_value)
        }
    };
    let Some(Ok(serde_json::Value::Object(fields))) = object else { return };
    let known = FIELDS.iter().filter_map(|(name, label)| Some((name, label, fields.get(*name)?)));
    let lines = known.map(|(name, label, value)| {
        let mut text = said(name, value);
        let total = format!("{name}_total");
        if let Some(value) = fields.get(&total) {
            text += &format!(", {} so far", said(&total, value));
        }
        Line::from(vec![Span::styled(format!("{label:<20}"), theme.dim()), Span::raw(text)])
    });
    let title = format!("{} {}", state.which.title().trim_end_matches('s'), row.id);
    popup(frame, &title, lines.collect(), theme);
}

/// The fields of rows in the order in which they are shown, and how people call them. A total is
/// shown beside its rate. At most 22 fields of a row fit the screen.
#[rustfmt::skip]
const FIELDS: &[(&str, &str)] = &[
    ("name", "name"), ("program", "program"), ("user", "user"),
    ("from", "from"), ("to", "to"),
    ("engine", "engine"), ("device", "device"), ("threads", "threads"),
    ("age", "open for"), ("weight", "priority"), ("workers", "on workers"),
    ("n_sessions", "sessions"),
    ("session", "runs now"), ("signals", "signals"), ("busy", "busy"), ("ran", "has run for"),
    ("launches", "segments"), ("instructions", "instructions"), ("planned", "as plans"),
    ("segments", "segments sent"), ("waiting", "segments waiting"), ("queue", "segments waiting"),
    ("requests", "unanswered reads"), ("plans", "plans compiled"), ("compiled", "compiling took"),
    ("bytes", "live values take"), ("values", "live values"),
    ("used", "values take"), ("memory", "memory"), ("kept", "kept by the server"),
    ("up", "sends"), ("down", "reads"), ("there", "there"), ("back", "back"),
    ("messages", "messages"), ("queued", "queued"),
];

/// A field as people read it.
fn said(name: &str, value: &serde_json::Value) -> String {
    const BYTES: [&str; 12] = [
        "used",
        "memory",
        "up",
        "down",
        "up_total",
        "down_total",
        "bytes",
        "kept",
        "there",
        "back",
        "there_total",
        "back_total",
    ];
    let number = value.as_f64();
    match (name, number) {
        ("busy" | "planned", Some(part)) => percent(part).trim_start().to_owned(),
        ("age" | "compiled" | "ran", Some(seconds)) => format!("{seconds:.1} s"),
        ("user", Some(0.0)) => "the server's own".into(),
        ("user", _) => who::user(value.as_u64().unwrap_or_default()),
        ("memory", Some(0.0)) => "unknown".into(),
        ("launches" | "instructions" | "messages", Some(n)) => format!("{} a second", count(n)),
        ("up" | "down" | "there" | "back", Some(n)) => {
            format!("{} a second", units::bytes(n as u64))
        }
        (name, Some(n)) if BYTES.contains(&name) => units::bytes(n as u64),
        (_, Some(n)) => format!("{n:.0}"),
        _ => match value {
            serde_json::Value::String(text) => text.clone(),
            serde_json::Value::Array(list) => {
                let texts = list.iter().filter_map(serde_json::Value::as_str);
                texts.collect::<Vec<_>>().join(", ")
            }
            serde_json::Value::Null => "-".into(),
            other => other.to_string(),
        },
    }
}

/// A frame over the middle of the screen.
fn popup(frame: &mut Frame<'_>, title: &str, lines: Vec<Line<'_>>, theme: Theme) {
    let screen = frame.area();
    let widest = lines.iter().map(Line::width).max().unwrap_or(0).max(title.len() + 2);
    let width = u16::try_from(widest + 4).unwrap_or(u16::MAX).min(screen.width);
    let height = u16::try_from(lines.len() + 2).unwrap_or(u16::MAX).min(screen.height);
    let area =
        Rect { x: (screen.width - width) / 2, y: (screen.height - height) / 2, width, height };
    let set = if theme.blocks {
        ratatui::symbols::border::ROUNDED
    } else {
        ratatui::symbols::border::Set {
            top_left: "+",
            top_right: "+",
            bottom_left: "+",
            bottom_right: "+",
            vertical_left: "|",
            vertical_right: "|",
            horizontal_top: "-",
            horizontal_bottom: "-",
        }
    };
    let block = Block::bordered()
        .border_set(set)
        .title(format!(" {title} "))
        .border_style(theme.colored(Color::Cyan))
        .padding(ratatui::widgets::Padding::horizontal(1));
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

#[cfg(test)]
mod tests {
    use super::super::view::View;
    use super::super::view::tests::two_answers;
    use super::*;
    use crossterm::event::KeyCode;

    fn screen(width: u16, height: u16, blocks: bool, change: impl FnOnce(&mut State)) -> String {
        let (before, now) = two_answers();
        let mut state = State::default();
        state.show(View::between(Some(&before), &now));
        change(&mut state);
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let theme = Theme { colors: false, blocks, selects: true };
        terminal.draw(|frame| draw(frame, &state, "localhost:12345", theme)).unwrap();
        terminal.backend().to_string()
    }

    fn press(keys: &str) -> impl FnOnce(&mut State) + '_ {
        move |state| {
            for key in keys.chars() {
                let code = if key == '\n' { KeyCode::Enter } else { KeyCode::Char(key) };
                state.key(code.into());
            }
        }
    }

    #[test]
    fn the_screen_fits_the_smallest_terminal() {
        insta::assert_snapshot!("top_80x24", screen(80, 24, true, |_| ()));
    }

    #[test]
    fn a_wide_terminal_shows_more_columns() {
        insta::assert_snapshot!("top_140x20", screen(140, 20, true, press("2ss")));
    }

    #[test]
    fn a_session_is_shown_in_full() {
        insta::assert_snapshot!("top_details", screen(80, 24, true, press("2\n")));
    }

    #[test]
    fn a_question_comes_before_the_end_of_a_session() {
        insta::assert_snapshot!("top_confirm", screen(80, 24, false, press("2k")));
    }

    #[test]
    fn a_server_that_is_gone_is_shown_above_its_last_state() {
        let gone = |state: &mut State| {
            state.trouble =
                Some("the server at localhost:12345 did not answer within 1.9 s".into());
        };
        let text = screen(80, 24, true, gone);
        assert!(text.contains("no answer, trying again: the server at localhost:12345"), "{text}");
        assert!(text.contains("s1   digits"), "{text}");
    }

    #[test]
    fn every_field_of_a_row_has_a_label() {
        let (before, now) = two_answers();
        let view = serde_json::to_value(View::between(Some(&before), &now)).unwrap();
        for table in ["workers", "sessions", "links"] {
            for (name, _) in view[table][0].as_object().unwrap() {
                let name = name.trim_end_matches("_total");
                assert!(name == "id" || FIELDS.iter().any(|(field, _)| *field == name), "{name}");
            }
        }
    }

    #[test]
    fn a_server_without_workers_is_not_busy_at_all() {
        let alone = |state: &mut State| {
            let none = gt_runtime::wire::Status::default();
            state.show(View::between(None, &none));
        };
        let text = screen(80, 24, true, alone);
        assert!(text.contains("busy 0 %"), "{text}");
    }

    #[test]
    fn a_filter_for_a_program_shows_its_workers_and_links() {
        let text = screen(80, 24, true, press("/digits\n"));
        assert!(text.contains("s1   digits") && !text.contains("s2   gpt"), "{text}");
        assert!(text.contains("rows with: digits  tab table"), "{text}");
        assert!(text.contains("w1   node7") && text.contains("s1       server"), "{text}");
    }

    #[test]
    fn no_size_is_too_small() {
        for (width, height) in [(1, 1), (10, 3), (20, 5), (79, 7), (300, 100)] {
            for keys in ["", "2\n", "3?", "2k", "/abc"] {
                assert!(!screen(width, height, true, press(keys)).is_empty());
            }
        }
    }

    #[test]
    fn more_rows_than_lines_are_counted_and_the_selected_one_is_seen() {
        let many = |state: &mut State| {
            let row = state.view.sessions[0].clone();
            state.view.sessions = (0..200)
                .map(|n| super::super::view::SessionRow { id: format!("s{n}"), ..row.clone() })
                .collect();
            state.key(KeyCode::Char('2').into());
            state.key(KeyCode::End.into());
        };
        let text = screen(80, 24, true, many);
        assert!(text.contains(">s199"), "{text}");
    }

    #[test]
    fn without_colors_nothing_has_a_color() {
        let (before, now) = two_answers();
        let mut state = State::default();
        state.show(View::between(Some(&before), &now));
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        let theme = Theme { colors: false, blocks: true, selects: true };
        terminal.draw(|frame| draw(frame, &state, "x:1", theme)).unwrap();
        let cells = terminal.backend().buffer().content();
        assert!(cells.iter().all(|cell| cell.fg == Color::Reset && cell.bg == Color::Reset));
    }
}
