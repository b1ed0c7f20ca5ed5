//! The thread that asks the server again and again, and ends sessions. A server that goes away is
//! looked for until it is back.

use super::view::View;
use gt_runtime::clock;
use gt_runtime::ids::SessionId;
use gt_runtime::status::Monitor;
use gt_runtime::wire::Status;
use gt_runtime::zmq::Address;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender};
use std::time::Duration;

/// News of the server.
pub(super) enum News {
    View(Box<View>),
    /// Why the server does not answer.
    Trouble(String),
    /// What became of the wish to end a session.
    Said(String),
}

/// Asks a server until nobody listens.
pub(super) struct Feed {
    pub(super) address: Address,
    pub(super) every: Duration,
    pub(super) tell: SyncSender<News>,
    /// Sessions to end.
    pub(super) wishes: Receiver<SessionId>,
}

impl Feed {
    /// Starts the thread. Returns its news, and the way by which sessions are ended.
    pub(super) fn start(
        address: Address,
        every: Duration,
    ) -> std::io::Result<(Receiver<News>, Sender<SessionId>)> {
        // A screen that is behind makes the feed wait, so nothing piles up.
        let (tell, news) = std::sync::mpsc::sync_channel(4);
        let (end, wishes) = std::sync::mpsc::channel();
        let feed = Feed { address, every, tell, wishes };
        std::thread::Builder::new().name("gt-feed".into()).spawn(move || feed.run())?;
        Ok((news, end))
    }

    fn run(self) {
        let (mut monitor, mut before): (Option<Monitor>, Option<Status>) = (None, None);
        loop {
            let asked = clock::now();
            let answer = match monitor.take() {
                Some(monitor) => Ok(monitor),
                None => Monitor::connect(&self.address),
            };
            let answer = answer.and_then(|mut open| {
                let status = open.ask()?;
                monitor = Some(open);
                Ok(status)
            });
            let news = match answer {
                Ok(status) => {
                    let view = View::between(before.as_ref(), &status);
                    before = Some(status);
                    News::View(Box::new(view))
                }
                Err(error) => News::Trouble(error.message),
            };
            if self.tell.send(news).is_err() {
                return;
            }
            let left = (asked + self.every).saturating_sub(clock::now());
            match self.wishes.recv_timeout(left) {
                Ok(session) => {
                    let said = end(monitor.as_mut(), session);
                    if self.tell.send(News::Said(said)).is_err() {
                        return;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }
}

fn end(monitor: Option<&mut Monitor>, session: SessionId) -> String {
    match monitor.map(|monitor| monitor.end(session)) {
        Some(Ok(_)) => format!("{session} was ended"),
        Some(Err(error)) => format!("{session} goes on: {error}").replace('\n', "; "),
        None => format!("{session} goes on: the server does not answer"),
    }
}
