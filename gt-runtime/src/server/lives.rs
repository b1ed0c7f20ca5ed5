//! The sessions and workers of a server as spans, from their beginning to their end.
//!
//! There are as many as the dispatcher has peers, and none if nobody collects spans.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::clock::Time;
use crate::dispatcher::{Party, Report};
use crate::identity::Identity;
use crate::ids::Incarnation;
use crate::spans::{self, Exporter, Origin, Rank, Span};

/// Those who are there.
#[derive(Debug)]
pub(super) struct Lives {
    spans: Option<&'static Exporter>,
    open: BTreeMap<Party, (Time, Arc<Origin>)>,
}

impl Default for Lives {
    fn default() -> Lives {
        Lives { spans: spans::exporter(), open: BTreeMap::new() }
    }
}

impl Lives {
    /// Takes news. `life` knows the life of a party's connection.
    pub(super) fn report(
        &mut self,
        now: Time,
        report: &Report,
        life: impl FnOnce(Party) -> Option<Incarnation>,
    ) {
        let Some(spans) = self.spans else { return };
        match report {
            Report::SessionOpened(id, who) => {
                let party = Party::Session(*id);
                self.begin(now, party, life(party), who);
            }
            Report::WorkerJoined(id, who, _) => {
                let party = Party::Worker(*id);
                self.begin(now, party, life(party), who);
            }
            Report::SessionClosed(id, _, why) => self.end(spans, now, Party::Session(*id), why),
            Report::WorkerLost(id, _, why) | Report::WorkerLeft(id, _, why) => {
                self.end(spans, now, Party::Worker(*id), why);
            }
            Report::Refused(..) => {}
        }
    }

    fn begin(&mut self, now: Time, party: Party, life: Option<Incarnation>, who: &Identity) {
        let session = match party {
            Party::Session(id) => id.to_string(),
            Party::Worker(_) => String::new(),
        };
        let origin = Origin::new(life.unwrap_or_default(), &session, &who.name);
        self.open.insert(party, (now, Arc::new(origin)));
    }

    fn end(&mut self, spans: &Exporter, now: Time, party: Party, why: &str) {
        let (name, rank) = match party {
            Party::Session(_) => ("served", Rank::Part),
            Party::Worker(_) => ("worker", Rank::First),
        };
        if let Some((began, origin)) = self.open.remove(&party) {
            spans.add(Span::life(name, rank, origin, (began, now), why));
        }
    }
}
