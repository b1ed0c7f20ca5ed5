//! What the person at `gt-cli top` has chosen: table, order, filter, pause, details. Keys change
//! it.
//!
//! A pure state machine: it knows no terminal and no server. What it wants done is the answer to a
//! key.

use super::table::{Key, Row, Which, rows};
use super::view::View;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use gt_runtime::ids::SessionId;
use std::cmp::Ordering;

/// What is to be done after a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wish {
    Nothing,
    Quit,
    /// End the work of this session.
    End(SessionId),
}

/// What the keys do now.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) enum Mode {
    #[default]
    Table,
    /// The filter is being written.
    Filter,
    /// The selected row is shown in full.
    Details,
    /// The keys are shown.
    Help,
    /// A session is to be ended, if the person says yes.
    Confirm(String),
}

/// The state of the screen.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) view: View,
    pub(crate) which: Which,
    pub(crate) mode: Mode,
    pub(crate) filter: String,
    pub(crate) paused: bool,
    /// Why the server does not answer, if it does not.
    pub(crate) trouble: Option<String>,
    /// The outcome of what was done last.
    pub(crate) news: Option<String>,
    /// The latest view, while an earlier one is kept on the screen.
    latest: Option<View>,
    orders: [Order; 3],
    selected: [Option<String>; 3],
}

/// The order of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Order {
    /// The index of the column.
    pub(crate) column: usize,
    pub(crate) descending: bool,
}

impl State {
    /// Takes a view of the server.
    pub(crate) fn show(&mut self, view: View) {
        self.trouble = None;
        match self.paused {
            true => self.latest = Some(view),
            false => self.view = view,
        }
    }

    /// The order of a table.
    pub(crate) fn order(&self, which: Which) -> Order {
        self.orders[which.index()]
    }

    /// The rows of a table that pass the filter, in order.
    pub(crate) fn rows(&self, which: Which) -> Vec<Row> {
        let words = self.filter.to_lowercase();
        let mut rows = rows(which, &self.view);
        rows.retain(|row| row.words.to_lowercase().contains(&words));
        let Order { column, descending } = self.order(which);
        let compared = |a: &Row, b: &Row| compare(a.keys.get(column), b.keys.get(column));
        rows.sort_by(|a, b| if descending { compared(b, a) } else { compared(a, b) });
        rows
    }

    /// The position of the selected row.
    pub(crate) fn position(&self, which: Which, rows: &[Row]) -> Option<usize> {
        let chosen = self.selected[which.index()].as_ref();
        let found = chosen.and_then(|id| rows.iter().position(|row| row.id == *id));
        found.or((!rows.is_empty()).then_some(0))
    }

    /// The selected row.
    pub(crate) fn chosen(&self) -> Option<Row> {
        let mut rows = self.rows(self.which);
        let at = self.position(self.which, &rows)?;
        Some(rows.swap_remove(at))
    }

    /// Takes a key.
    pub(crate) fn key(&mut self, key: KeyEvent) -> Wish {
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Wish::Quit;
        }
        match std::mem::take(&mut self.mode) {
            Mode::Table => self.at_table(key.code),
            Mode::Filter => self.at_filter(key.code),
            Mode::Confirm(session) => self.at_question(&session, key.code),
            Mode::Details | Mode::Help => match key.code {
                KeyCode::Char('q' | '?') | KeyCode::Esc | KeyCode::Enter => Wish::Nothing,
                code => self.at_table(code),
            },
        }
    }

    fn at_table(&mut self, code: KeyCode) -> Wish {
        self.news = None;
        match code {
            KeyCode::Char('q') => return Wish::Quit,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Tab | KeyCode::Right => self.turn(1),
            KeyCode::BackTab | KeyCode::Left => self.turn(2),
            KeyCode::Char('1') => self.which = Which::Workers,
            KeyCode::Char('2') => self.which = Which::Sessions,
            KeyCode::Char('3') => self.which = Which::Links,
            KeyCode::Up => self.step(-1),
            KeyCode::Down => self.step(1),
            KeyCode::PageUp => self.step(-10),
            KeyCode::PageDown => self.step(10),
            KeyCode::Home => self.step(-1_000_000),
            KeyCode::End => self.step(1_000_000),
            KeyCode::Char('s') => self.sort(),
            KeyCode::Char('r') => {
                let order = &mut self.orders[self.which.index()];
                order.descending = !order.descending;
            }
            KeyCode::Char('/') => self.mode = Mode::Filter,
            KeyCode::Char(' ') => self.pause(),
            KeyCode::Enter => self.mode = Mode::Details,
            KeyCode::Char('?' | 'h') => self.mode = Mode::Help,
            KeyCode::Char('k') => self.ask(),
            _ => {}
        }
        Wish::Nothing
    }

    fn at_filter(&mut self, code: KeyCode) -> Wish {
        match code {
            KeyCode::Enter => return Wish::Nothing,
            KeyCode::Esc => {
                self.filter.clear();
                return Wish::Nothing;
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(c) if self.filter.chars().count() < 40 => self.filter.push(c),
            _ => {}
        }
        self.mode = Mode::Filter;
        Wish::Nothing
    }

    fn at_question(&mut self, session: &str, code: KeyCode) -> Wish {
        let number = session.get(1..).and_then(|n| n.parse().ok());
        match (code, number) {
            (KeyCode::Char('y' | 'Y'), Some(number)) => Wish::End(SessionId(number)),
            _ => {
                self.news = Some(format!("{session} goes on"));
                Wish::Nothing
            }
        }
    }

    fn turn(&mut self, n: usize) {
        self.which = Which::ALL[(self.which.index() + n) % Which::ALL.len()];
    }

    fn step(&mut self, n: i64) {
        let rows = self.rows(self.which);
        let Some(at) = self.position(self.which, &rows) else { return };
        let last = rows.len() as i64 - 1;
        let to = (at as i64 + n).clamp(0, last);
        self.selected[self.which.index()] =
            usize::try_from(to).ok().and_then(|to| rows.get(to)).map(|row| row.id.clone());
    }

    /// Sorts by the next column: numbers from the largest on, texts from the first on.
    fn sort(&mut self) {
        let n_columns = self.which.columns().len();
        let rows = self.rows(self.which);
        let order = &mut self.orders[self.which.index()];
        order.column = (order.column + 1) % n_columns;
        let key = rows.first().and_then(|row| row.keys.get(order.column));
        order.descending = order.column > 0 && matches!(key, Some(Key::Number(_)));
    }

    fn pause(&mut self) {
        self.paused = !self.paused;
        if let (false, Some(latest)) = (self.paused, self.latest.take()) {
            self.view = latest;
        }
    }

    /// Asks whether the selected session is to be ended; in the table of workers the session that
    /// runs there.
    fn ask(&mut self) {
        let Some(row) = self.chosen() else { return };
        let runs = || self.view.workers.iter().find(|worker| worker.id == row.id);
        let session = match self.which {
            Which::Sessions => Some(row.id.clone()),
            Which::Workers => runs().map(|worker| worker.session.clone()),
            Which::Links => row.id.split(' ').next().map(str::to_owned),
        };
        match session.filter(|id| id.starts_with('s')) {
            Some(id) => self.mode = Mode::Confirm(id),
            None => self.news = Some("no session is selected: choose one in its table (2)".into()),
        }
    }
}

fn compare(a: Option<&Key>, b: Option<&Key>) -> Ordering {
    a.partial_cmp(&b).unwrap_or(Ordering::Equal)
}

#[cfg(test)]
mod tests {
    use super::super::view::tests::two_answers;
    use super::*;

    fn state() -> State {
        let (before, now) = two_answers();
        let mut state = State::default();
        state.show(View::between(Some(&before), &now));
        state
    }

    /// Presses keys: names, or characters.
    fn press(state: &mut State, keys: &str) -> Wish {
        let mut wish = Wish::Nothing;
        for word in keys.split(' ') {
            let code = match word {
                "tab" => KeyCode::Tab,
                "down" => KeyCode::Down,
                "enter" => KeyCode::Enter,
                "esc" => KeyCode::Esc,
                "space" => KeyCode::Char(' '),
                key => KeyCode::Char(key.chars().next().unwrap()),
            };
            wish = state.key(code.into());
        }
        wish
    }

    fn ids(state: &State) -> Vec<String> {
        state.rows(state.which).into_iter().map(|row| row.id).collect()
    }

    #[test]
    fn rows_are_sorted_and_filtered() {
        let mut state = state();
        press(&mut state, "tab s s");
        assert_eq!(ids(&state), ["s1", "s2", "s3"]);
        press(&mut state, "r");
        assert_eq!(ids(&state), ["s3", "s2", "s1"]);
        press(&mut state, "/ G P T");
        assert_eq!(ids(&state), ["s2"]);
        // Letters of a filter are not commands, and the selection is of what is seen.
        assert_eq!((state.mode.clone(), state.chosen().unwrap().id), (Mode::Filter, "s2".into()));
        press(&mut state, "enter esc");
        assert_eq!(ids(&state).len(), 3);
    }

    #[test]
    fn a_session_is_ended_only_after_a_yes() {
        let mut state = state();
        press(&mut state, "2 down k");
        assert_eq!(state.mode, Mode::Confirm("s2".into()));
        assert_eq!(press(&mut state, "n"), Wish::Nothing);
        assert_eq!(state.news.as_deref(), Some("s2 goes on"));
        assert_eq!(press(&mut state, "k y"), Wish::End(SessionId(2)));
        // The session that runs on the selected worker.
        assert_eq!(press(&mut state, "1 k y"), Wish::End(SessionId(1)));
        press(&mut state, "3 down k");
        assert!(state.mode == Mode::Table && state.news.is_some());
    }

    #[test]
    fn a_pause_keeps_the_screen_and_then_shows_the_latest() {
        let mut state = state();
        press(&mut state, "space");
        state.show(View { n_sessions: 99, ..View::default() });
        assert_eq!(state.view.n_sessions, 5);
        press(&mut state, "space");
        assert_eq!(state.view.n_sessions, 99);
    }

    #[test]
    fn a_selection_follows_its_row() {
        let mut state = state();
        press(&mut state, "2 down");
        assert_eq!(state.chosen().unwrap().id, "s2");
        press(&mut state, "r");
        assert_eq!(state.chosen().unwrap().id, "s2");
        state.view.sessions.retain(|row| row.id != "s2");
        assert_eq!(state.chosen().unwrap().id, "s3");
        state.view.sessions.clear();
        assert_eq!(state.chosen(), None);
        assert_eq!(press(&mut state, "down k enter q q"), Wish::Quit);
    }
}
