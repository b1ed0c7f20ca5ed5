//! Answers to requests that no worker gives: for lost values, and for requests that wait too long.
//!
//! Guarantees: every request is answered once, unless its session ends first. A request without a
//! worker, or whose worker sends no report about the session, is answered with an error after a
//! timeout.

use super::core::Dispatcher;
use super::party::Owed;
use super::session::{Requests, Session, error};
use crate::clock::Time;
use crate::ids::{RequestId, SessionId, WorkerId};
use crate::wire::{Stream, ToClient};
use gt_ir::backend::{ErrorKind, RunError};
use std::sync::Arc;

impl Dispatcher {
    /// Answers a request with an error. Its credit goes back when the client has taken the answer.
    pub(super) fn answer_error(
        &mut self,
        id: SessionId,
        request: RequestId,
        error: Arc<RunError>,
        owed: Owed,
    ) {
        self.give_client(id, Stream::Control, ToClient::Failed { request, error }, owed);
    }

    pub(super) fn answer_errors(
        &mut self,
        id: SessionId,
        requests: Requests,
        cause: &Arc<RunError>,
    ) {
        for (request, asked) in requests {
            let value = asked.value.map(|(value, _)| value);
            let error =
                Arc::new(RunError { value: cause.value.or(value), ..RunError::clone(cause) });
            self.answer_error(id, request, error, asked.owed);
        }
    }

    /// When the timeout of a session's oldest request ends. There is none while a partition is made
    /// for the session, because no worker has anything to report then.
    pub(super) fn read_deadline(&self, session: &Session) -> Option<Time> {
        let first = session.requests.oldest().filter(|_| session.parked.is_none())?;
        Some(match session.home {
            None => first + self.config.wait_worker,
            Some(_) => first.max(session.progress) + self.config.stall,
        })
    }

    /// Answers the requests whose timeout has ended with an error.
    pub(super) fn expire_reads(&mut self) {
        let late = |(&id, session): (&SessionId, &Session)| {
            self.read_deadline(session).filter(|deadline| *deadline <= self.now)?;
            let late = session.gang.as_ref().and_then(|gang| gang.late());
            Some((id, late.or(session.home), session.progress))
        };
        let late: Vec<_> = self.sessions.iter().filter_map(late).collect();
        for (id, home, progress) in late {
            let (patience, cause) = match home {
                None => {
                    let cause = self.unfit(id).unwrap_or_else(|| self.no_worker());
                    (self.config.wait_worker, cause)
                }
                Some(home) => (self.config.stall, self.no_progress(home)),
            };
            let Some(session) = self.sessions.get_mut(&id) else { continue };
            let floor = if home.is_some() { progress } else { Time::ZERO };
            let now = self.now;
            let expired = session.requests.close_late(|since| since.max(floor) + patience <= now);
            session.waiting.retain(|work| {
                work.order.request().is_none_or(|request| expired.get(request).is_none())
            });
            self.answer_errors(id, expired, &Arc::new(cause));
            self.send_more(id);
        }
    }

    fn no_worker(&self) -> RunError {
        let address = self.config.address.as_deref().unwrap_or("HOST:PORT");
        let waited = self.config.wait_worker.as_secs();
        let message =
            format!("no worker is connected to the server, and none came within {waited} s");
        let hint = format!("start one with `gt-cli worker --connect {address}`");
        error(ErrorKind::Connection, message).hint(hint)
    }

    fn no_progress(&self, home: WorkerId) -> RunError {
        let name = self.worker_name(home);
        let waited = self.config.stall.as_secs();
        let message =
            format!("worker {name} has reported nothing about this session for {waited} s");
        RunError { worker: Some(name), ..error(ErrorKind::WorkerLost, message) }
    }
}
