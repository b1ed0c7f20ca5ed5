//! The life of a worker: it registers with a server, and again after it has lost the server.
//!
//! Guarantees: a server that was never reached, or that refuses, is an error at once. A server that
//! is lost is looked for as long as the configuration says, after longer and longer waits.

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
use crate::zmq::{Uplink, context, wait};

/// The wait after the first attempt that failed, and the longest wait.
const WAIT: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(8));
/// The timeout of one attempt to reach a server.
const PATIENCE: Duration = Duration::from_millis(1_900);

/// A worker's registrations, one after the other.
pub(super) struct Life<'a> {
    pub(super) parts: Parts<'a>,
    pub(super) capacity: Capacity,
    /// The number of the current registration. Reports of an earlier one are dropped.
    pub(super) n: u64,
}

/// A server that is lost.
struct Lost {
    why: String,
    /// When it is given up.
    end: Time,
    /// The wait after the next attempt that fails.
    wait: Duration,
}

impl Lost {
    fn new(why: String, now: Time, patience: Duration) -> Lost {
        Lost { why, end: now + patience, wait: WAIT.0 }
    }

    /// How long to wait after an attempt that failed. None if the server is given up.
    fn next_wait(&mut self, now: Time) -> Option<Duration> {
        let left = self.end.checked_sub(now).filter(|left| !left.is_zero())?;
        let wait = self.wait.min(left);
        self.wait = WAIT.1.min(self.wait * 2);
        Some(wait)
    }
}

impl Life<'_> {
    pub(super) fn until_the_end(
        &mut self,
        watch: &mut impl FnMut(&str),
    ) -> Result<Stopped, WorkerError> {
        let address = &self.parts.worker.config.address;
        let ctx = context();
        let patience = self.parts.worker.config.reconnect;
        let mut lost: Option<Lost> = None;
        loop {
            if let Some(asked) = self.parts.worker.shutdown.asked() {
                return Ok(Stopped::ShutDown(asked.reason()));
            }
            match self.once(&ctx, watch) {
                Ok(Broken::Over(end)) => return Ok(end),
                Ok(Broken::Lost(why)) => {
                    if patience.is_zero() {
                        return Err(WorkerError::Lost(address.clone(), why));
                    }
                    let seconds = patience.as_secs();
                    watch(&format!(
                        "the server at {address} is lost: {why}; looking for it for {seconds} s"
                    ));
                    lost = Some(Lost::new(why, clock::now(), patience));
                }
                // A server that is lost may come back. A server that was never reached is an error
                // at once.
                Err(error @ (WorkerError::Socket(_) | WorkerError::Lost(..))) => {
                    let Some(lost) = &mut lost else { return Err(error) };
                    let Some(time) = lost.next_wait(clock::now()) else {
                        return Err(WorkerError::Lost(address.clone(), lost.why.clone()));
                    };
                    let seconds = time.as_secs_f64();
                    watch(&format!(
                        "no server at {address} yet; the next try is in {seconds:.2} s"
                    ));
                    wait(&[], &self.parts.worker.wakeups, Some(time))?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Serves one registration, from its first packet to its last.
    fn once(&mut self, ctx: &Context, watch: &mut impl FnMut(&str)) -> Result<Broken, WorkerError> {
        let config = &self.parts.worker.config;
        let (waker, bell) =
            (self.parts.worker.shutdown.waker().clone(), self.parts.worker.wakeups.bell());
        let uplink = Uplink::open(ctx, &config.address, PATIENCE, &config.entry)?.heard_by(bell);
        let roads = Roads::open(ctx, config.listen.as_ref(), config.lanes, (waker, bell))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_a_limit_and_end_with_the_patience() {
        let second = Duration::from_secs(1);
        let mut lost = Lost::new("gone".into(), second, 60 * second);
        let (mut now, mut waits) = (second, Vec::new());
        while let Some(wait) = lost.next_wait(now) {
            waits.push(wait.as_millis());
            now += wait;
        }
        assert_eq!(waits[..7], [250, 500, 1_000, 2_000, 4_000, 8_000, 8_000]);
        assert_eq!((waits.iter().sum::<u128>(), now), (60_000, 61 * second));
    }
}
