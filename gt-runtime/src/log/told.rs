//! Lines as numbers: what the threads of a hot loop leave for the thread that writes the log.

use std::fmt::{self, Write as _};
use std::time::Duration;

use super::config::Format;
use super::facts::Facts;
use super::line::{Details, Line, Source, What, print};
use crate::clock::Time;
use crate::dispatcher::Party;
use crate::ids::SessionId;

/// A line whose text is made later.
#[derive(Debug)]
pub(super) struct Told {
    now: Time,
    took: Duration,
    of: Option<(SessionId, u64)>,
    size: u64,
    live: u64,
    who: Who,
    what: What,
    command: &'static str,
    facts: Facts,
}

/// Whose line it is.
#[derive(Debug)]
enum Who {
    Party(Party),
    Client(Name),
    Worker(Name),
    Dispatcher,
}

impl Told {
    /// The line, which ends at this time. None if its name is too long for it.
    #[inline]
    pub(super) fn new(
        now: Time,
        line: &Line<'_>,
        command: &'static str,
        facts: Facts,
    ) -> Option<Told> {
        let who = match line.source {
            Source::Party(party) => Who::Party(party),
            Source::Client(name) => Who::Client(Name::of(name)?),
            Source::Worker(name) => Who::Worker(Name::of(name)?),
            Source::Dispatcher => Who::Dispatcher,
        };
        let Line { took, of, size, live, what, .. } = *line;
        Some(Told { now, took, of, size, live, who, what, command, facts })
    }

    /// Adds the text of the line with this number.
    pub(super) fn print(&self, to: &mut String, format: Format, n: u64) {
        let source = match &self.who {
            Who::Party(party) => Source::Party(*party),
            Who::Client(name) => Source::Client(name),
            Who::Worker(name) => Source::Worker(name),
            Who::Dispatcher => Source::Dispatcher,
        };
        let Told { now, took, of, size, live, what, command, .. } = *self;
        let line = Line { took, of, size, live, ..Line::new(what, source, command) };
        print(to, format, (now, n), &line, Details::Facts(&self.facts));
    }
}

/// A short name.
#[derive(Debug, Default)]
struct Name {
    len: u8,
    bytes: [u8; 22],
}

impl Name {
    fn of(name: &dyn fmt::Display) -> Option<Name> {
        let mut short = Name::default();
        write!(short, "{name}").is_ok().then_some(short)
    }
}

impl fmt::Write for Name {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = usize::from(self.len) + text.len();
        let room = self.bytes.get_mut(self.len.into()..end).ok_or(fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.len = u8::try_from(end).map_err(|_| fmt::Error)?;
        Ok(())
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = &self.bytes[..self.len.into()];
        f.write_str(std::str::from_utf8(bytes).map_err(|_| fmt::Error)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{RequestId, WorkerId};
    use gt_ir::ValueId;

    fn facts() -> Facts {
        Facts::value(RequestId(2), ValueId(9))
    }

    #[test]
    fn a_line_told_is_the_line_printed() {
        let now = Time::from_nanos(3_000_500);
        let sources: [Source<'_>; 4] = [
            Source::Client(&"s\"1\""),
            Source::Worker(&"w1@höst"),
            Source::Party(Party::Worker(WorkerId(3))),
            Source::Dispatcher,
        ];
        for source in sources {
            for format in [Format::Seed, Format::Tape, Format::Json] {
                let line = Line::new(What::Send, source, "Fetch").bytes(7).of(SessionId(4), 5);
                let line = line.took(Duration::from_nanos(1_030));
                let (mut told, mut text) = (String::new(), String::new());
                Told::new(now, &line, "Fetch", facts()).unwrap().print(&mut told, format, 11);
                print(&mut text, format, (now, 11), &line, Details::Text(format_args!("r2 %9")));
                assert_eq!(told, text);
            }
        }
    }

    #[test]
    fn long_names_are_not_told() {
        let told = |name: &str| {
            Told::new(Time::ZERO, &Line::new(What::Send, Source::Client(&name), ""), "", facts())
        };
        assert!(told(&"n".repeat(22)).is_some() && told(&"n".repeat(23)).is_none());
    }
}
