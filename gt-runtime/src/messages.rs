//! Messages of the library for the people who run it: events of the crate `tracing`, with the
//! targets `gt::client`, `gt::dispatcher`, `gt::worker` and `gt::compile`.
//!
//! A program that has a subscriber routes and filters them itself. Without one they go to standard
//! error: warnings always, news about plans with `GT_VERBOSE=1`, and every event of an area with
//! `GT_DEBUG_CLIENT=1`, `GT_DEBUG_DISPATCHER=1`, `GT_DEBUG_WORKER=1` or `GT_DEBUG_COMPILE=1`. The
//! library sets no subscriber. A message that nobody wants is not made.

use std::fmt;
use std::io::Write as _;

use ::tracing::subscriber::NoSubscriber;
use ::tracing::{Level, dispatcher, event, event_enabled};

/// The variable that turns news about plans on.
const VERBOSE: &str = "GT_VERBOSE";

/// What a message is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Area {
    /// A program's side of a session.
    Client,
    /// Sessions and workers, and the messages between them.
    Dispatcher,
    /// What runs.
    Worker,
    /// Plans.
    Compile,
}

/// How important a message is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rank {
    /// Something that a user must know.
    Warning,
    /// What became of a program.
    News,
    /// An event.
    Detail,
}

impl Area {
    pub(crate) const ALL: [Area; 4] = [Area::Client, Area::Dispatcher, Area::Worker, Area::Compile];

    /// The variable that shows every event on standard error.
    const fn variable(self) -> &'static str {
        match self {
            Area::Client => "GT_DEBUG_CLIENT",
            Area::Dispatcher => "GT_DEBUG_DISPATCHER",
            Area::Worker => "GT_DEBUG_WORKER",
            Area::Compile => "GT_DEBUG_COMPILE",
        }
    }
}

/// `tracing` wants the target and the level of an event as constants.
macro_rules! of_area {
    ($area:expr, $act:ident, $level:expr $(, $text:expr)*) => {
        match $area {
            Area::Client => $act!(target: "gt::client", $level $(, "{}", $text)*),
            Area::Dispatcher => $act!(target: "gt::dispatcher", $level $(, "{}", $text)*),
            Area::Worker => $act!(target: "gt::worker", $level $(, "{}", $text)*),
            Area::Compile => $act!(target: "gt::compile", $level $(, "{}", $text)*),
        }
    };
}

/// Whether somebody wants messages of this kind. Variables are read each time, so keep the answer.
pub(crate) fn wants(rank: Rank, area: Area) -> bool {
    if has_subscriber() {
        return match rank {
            Rank::Warning => of_area!(area, event_enabled, Level::WARN),
            Rank::News => of_area!(area, event_enabled, Level::INFO),
            Rank::Detail => of_area!(area, event_enabled, Level::DEBUG),
        };
    }
    match rank {
        Rank::Warning => true,
        Rank::News => gt_settings::is_on(VERBOSE) || gt_settings::is_on(area.variable()),
        Rank::Detail => gt_settings::is_on(area.variable()),
    }
}

/// Gives a message to the program's subscriber, or else prints it. The caller has asked whether it
/// is wanted.
pub(crate) fn say(rank: Rank, area: Area, text: &dyn fmt::Display) {
    if !has_subscriber() {
        return print(text);
    }
    match rank {
        Rank::Warning => of_area!(area, event, Level::WARN, text),
        Rank::News => of_area!(area, event, Level::INFO, text),
        Rank::Detail => of_area!(area, event, Level::DEBUG, text),
    }
}

fn has_subscriber() -> bool {
    dispatcher::has_been_set() && dispatcher::get_default(|found| !found.is::<NoSubscriber>())
}

/// Writes a line for the program's user on standard error. The program goes on if nobody reads it.
pub(crate) fn print(text: &dyn fmt::Display) {
    let _ = writeln!(std::io::stderr(), "gt: {text}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    use ::tracing::field::{Field, Visit};
    use ::tracing::span::{Attributes, Id, Record};
    use ::tracing::{Event, Metadata, Subscriber};

    /// Keeps events up to a level.
    #[derive(Clone)]
    struct Kept(Level, Arc<Mutex<Vec<String>>>);

    struct Text(String);

    impl Visit for Text {
        fn record_debug(&mut self, _: &Field, value: &dyn fmt::Debug) {
            self.0 += &format!("{value:?}");
        }
    }

    impl Subscriber for Kept {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            *metadata.level() <= self.0
        }
        fn event(&self, event: &Event<'_>) {
            let (metadata, mut text) = (event.metadata(), Text(String::new()));
            event.record(&mut text);
            let line = format!("{} {}: {}", metadata.level(), metadata.target(), text.0);
            self.1.lock().unwrap().push(line);
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn a_subscriber_gets_what_it_wants_in_place_of_standard_error() {
        assert!(wants(Rank::Warning, Area::Client) && !has_subscriber());
        let kept = Kept(Level::INFO, Arc::default());
        ::tracing::subscriber::with_default(kept.clone(), || {
            assert!(wants(Rank::News, Area::Compile) && !wants(Rank::Detail, Area::Worker));
            say(Rank::Warning, Area::Client, &"a warning");
            say(Rank::News, Area::Compile, &"a plan");
            say(Rank::Detail, Area::Worker, &"an event");
        });
        let said = kept.1.lock().unwrap().clone();
        assert_eq!(said, ["WARN gt::client: a warning", "INFO gt::compile: a plan"]);
    }

    #[test]
    fn every_area_has_a_documented_variable() {
        for area in Area::ALL {
            assert!(gt_settings::Setting::of_variable(area.variable()).is_some(), "{area:?}");
        }
    }
}
