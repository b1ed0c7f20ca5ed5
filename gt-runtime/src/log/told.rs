//! Lines as numbers: what the threads of a hot loop leave for the thread that writes the log.

use std::time::Duration;

use super::config::Format;
use super::line::{Details, Line, Source, What, print};
use crate::clock::Time;
use crate::dispatcher::Party;
use crate::ids::SessionId;
use crate::words::Facts;

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
    Client(NameId),
    Worker(NameId),
    Dispatcher,
}

impl Told {
    /// The line, which ends at this time. None if there is no room for its name.
    #[inline]
    pub(super) fn new(
        now: Time,
        line: &Line<'_>,
        command: &'static str,
        facts: Facts,
        names: &mut Names,
    ) -> Option<Told> {
        let who = match line.source {
            Source::Party(party) => Who::Party(party),
            Source::Client(name) => Who::Client(names.id(name)?),
            Source::Worker(name) => Who::Worker(names.id(name)?),
            Source::Dispatcher => Who::Dispatcher,
        };
        let Line { took, of, size, live, what, .. } = *line;
        Some(Told { now, took, of, size, live, who, what, command, facts })
    }

    /// Adds the text of the line with this number.
    pub(super) fn print(&self, to: &mut String, format: Format, n: u64, names: &Names) {
        let source = match self.who {
            Who::Party(party) => Source::Party(party),
            Who::Client(id) => Source::Client(names.name(id)),
            Who::Worker(id) => Source::Worker(names.name(id)),
            Who::Dispatcher => Source::Dispatcher,
        };
        let Told { now, took, of, size, live, what, command, .. } = *self;
        let line = Line { took, of, size, live, ..Line::new(what, source, command) };
        print(to, format, (now, n), &line, Details::Facts(&self.facts));
    }
}

/// The names of clients and workers: few, which come again and again.
#[derive(Debug, Default)]
pub(super) struct Names(Vec<Box<str>>);

/// The place of a name.
#[derive(Debug, Clone, Copy)]
struct NameId(u8);

impl Names {
    /// The most names. A line with a further one is made at once.
    const MOST: usize = 64;

    fn id(&mut self, name: &str) -> Option<NameId> {
        let known = self.0.iter().position(|known| **known == *name);
        let at = match known {
            None if self.0.len() < Names::MOST => {
                self.0.push(name.into());
                self.0.len() - 1
            }
            known => known?,
        };
        u8::try_from(at).ok().map(NameId)
    }

    fn name(&self, NameId(at): NameId) -> &str {
        self.0.get(usize::from(at)).map_or("", |name| name)
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
            Source::Client("s\"1\""),
            Source::Worker("w1@höst"),
            Source::Party(Party::Worker(WorkerId(3))),
            Source::Dispatcher,
        ];
        for source in sources {
            for format in [Format::Seed, Format::Tape, Format::Json] {
                let line = Line::new(What::Send, source, "Fetch").bytes(7).of(SessionId(4), 5);
                let line = line.took(Duration::from_nanos(1_030));
                let (mut told, mut text, mut names) =
                    (String::new(), String::new(), Names::default());
                let line_told = Told::new(now, &line, "Fetch", facts(), &mut names).unwrap();
                line_told.print(&mut told, format, 11, &names);
                print(&mut text, format, (now, 11), &line, Details::Text(format_args!("r2 %9")));
                assert_eq!(told, text);
            }
        }
    }

    #[test]
    fn a_crowd_of_names_is_not_told() {
        let mut names = Names::default();
        let mut told = |name: &str| {
            let line = Line::new(What::Send, Source::Client(name), "");
            Told::new(Time::ZERO, &line, "", facts(), &mut names).is_some()
        };
        assert!((0..Names::MOST).all(|n| told(&format!("s{n}"))) && !told("one more"));
        assert!(told("s0"));
    }
}
