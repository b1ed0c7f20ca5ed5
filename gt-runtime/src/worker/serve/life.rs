//! The life of a worker: it registers with a server, and again after it has lost the server.
//!
//! Guarantees: a server that was never reached, or that refuses, is an error at once. A server that
//! is lost is looked for as long as the configuration says.

use std::time::Duration;

use zmq::Context;

use super::registration::{Broken, Parts, Registration};
use super::{Stopped, WorkerError};
use crate::assembly::Travel;
use crate::clock::{self, Time};
use crate::identity::Identity;
use crate::ids::Incarnation;
use crate::wire::Capacity;
use crate::worker::end::WorkerEnd;
use crate::worker::roads::Roads;
use crate::zmq::{Uplink, context};

/// The timeout of one attempt to reach a server.
const PATIENCE: Duration = Duration::from_millis(1_900);

/// A worker's registrations, one after the other.
pub(super) struct Life<'a> {
    pub(super) parts: Parts<'a>,
    pub(super) capacity: Capacity,
    /// The number of the current registration. Reports of an earlier one are dropped.
    pub(super) n: u64,
}

impl Life<'_> {
    pub(super) fn until_the_end(
        &mut self,
        watch: &mut impl FnMut(&str),
    ) -> Result<Stopped, WorkerError> {
        let address = &self.parts.worker.config.address;
        let ctx = context();
        let mut lost: Option<(String, Time)> = None;
        loop {
            if let Some(asked) = self.parts.worker.shutdown.asked() {
                return Ok(Stopped::ShutDown(asked.reason()));
            }
            match self.once(&ctx, watch) {
                Ok(Broken::Over(end)) => return Ok(end),
                Ok(Broken::Lost(why)) => {
                    watch(&format!("the server at {address} is lost: {why}; looking for it"));
                    lost = Some((why, clock::now()));
                }
                // A server that is lost may come back. A server that was never reached is an error
                // at once.
                Err(error @ (WorkerError::Socket(_) | WorkerError::Lost(..))) => match &lost {
                    None => return Err(error),
                    Some((why, since))
                        if clock::now() > *since + self.parts.worker.config.reconnect =>
                    {
                        return Err(WorkerError::Lost(address.clone(), why.clone()));
                    }
                    Some(_) => {}
                },
                Err(error) => return Err(error),
            }
        }
    }

    /// Serves one registration, from its first packet to its last.
    fn once(&mut self, ctx: &Context, watch: &mut impl FnMut(&str)) -> Result<Broken, WorkerError> {
        let config = &self.parts.worker.config;
        let uplink = Uplink::open(ctx, &config.address, PATIENCE, &config.entry)?;
        let roads = Roads::open(ctx, config.listen.as_ref())?;
        self.n += 1;
        let end = WorkerEnd::dial(
            clock::now(),
            Incarnation(clock::wall_nanos()),
            Identity::here(config.name.clone()),
            Capacity { door: roads.door(), ..self.capacity.clone() },
            config.connection,
            Travel::REMOTE,
        );
        let broken = Registration::new(self.parts, self.n, end, roads).serve(&uplink, watch);
        uplink.set_linger(Duration::from_millis(200))?;
        broken
    }
}
