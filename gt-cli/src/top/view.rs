//! What two answers of a server say together: rows with rates. Plain data, for the screen and for
//! programs.
//!
//! A rate is the difference of a counter divided by the time between the two answers, on the
//! server's clock. Without an earlier answer there are no rates. What joined in between is counted
//! from its beginning.

use gt_runtime::wire::{LinkStatus, SessionStatus, Status, Traffic, Work, WorkerStatus};
use serde::Serialize;
use std::collections::BTreeMap;

/// The state of a server over an interval.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct View {
    /// The version of the server.
    pub(crate) version: String,
    /// Whether the server ends soon.
    pub(crate) ending: bool,
    /// The seconds between the two answers. 0 if there was one.
    pub(crate) seconds: f64,
    /// All sessions, seen or not.
    pub(crate) n_sessions: u64,
    /// Bytes that the dispatcher keeps for sessions.
    pub(crate) kept: u64,
    /// All workers together.
    pub(crate) total: Rates,
    pub(crate) workers: Vec<WorkerRow>,
    pub(crate) sessions: Vec<SessionRow>,
    pub(crate) links: Vec<LinkRow>,
}

/// What workers did in the interval, by the second.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Rates {
    /// Segments that ran.
    pub(crate) launches: f64,
    pub(crate) instructions: f64,
    /// The share of them that ran as plans; of all segments so far if none ran.
    pub(crate) planned: Option<f64>,
    /// The share of the time in which segments ran.
    pub(crate) busy: f64,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct WorkerRow {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) engine: String,
    pub(crate) device: String,
    pub(crate) threads: u32,
    #[serde(flatten)]
    pub(crate) rates: Rates,
    pub(crate) used: u64,
    pub(crate) memory: u64,
    pub(crate) queue: u64,
    pub(crate) n_sessions: u64,
    /// The session that runs now, or that ran most in the interval.
    pub(crate) session: String,
    /// The signals of its segment.
    pub(crate) signals: String,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct SessionRow {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) program: String,
    pub(crate) user: u64,
    pub(crate) weight: u32,
    /// The seconds since it was opened.
    pub(crate) age: f64,
    pub(crate) workers: Vec<String>,
    pub(crate) signals: String,
    #[serde(flatten)]
    pub(crate) rates: Rates,
    /// Bytes of tensors in a second, to the server and back, and all of them.
    pub(crate) up: f64,
    pub(crate) down: f64,
    pub(crate) up_total: u64,
    pub(crate) down_total: u64,
    pub(crate) plans: u64,
    /// The seconds of compiling them, and of all that ran.
    pub(crate) compiled: f64,
    pub(crate) ran: f64,
    pub(crate) segments: u64,
    pub(crate) waiting: u64,
    pub(crate) requests: u64,
    pub(crate) values: u64,
    pub(crate) bytes: u64,
    pub(crate) kept: u64,
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct LinkRow {
    pub(crate) from: String,
    pub(crate) to: String,
    /// Bytes in a second, in both directions, and all of them.
    pub(crate) there: f64,
    pub(crate) back: f64,
    pub(crate) there_total: u64,
    pub(crate) back_total: u64,
    /// Messages in a second, both directions together.
    pub(crate) messages: f64,
    pub(crate) queued: u64,
}

impl View {
    /// What two answers of one life of a server say.
    pub(crate) fn between(before: Option<&Status>, now: &Status) -> View {
        // The clock of a server that was started again is behind.
        let before = before.filter(|before| before.now < now.now);
        let nanos = before.map_or(0, |before| now.now - before.now);
        let interval = Interval { nanos, is_first: before.is_none() };
        let empty = Status::default();
        let before = before.unwrap_or(&empty);
        let workers = by(&before.workers, |worker| worker.id.clone());
        let sessions = by(&before.sessions, |session| session.id.clone());
        let links = by(&before.links, |link| (link.from.clone(), link.to.clone()));
        let sessions: Vec<SessionRow> =
            now.sessions.iter().map(|s| session(&interval, sessions.get(&s.id), s)).collect();
        let rows = now.workers.iter().map(|w| worker(&interval, workers.get(&w.id), w, &sessions));
        let workers: Vec<WorkerRow> = rows.collect();
        let link_of = |link: &LinkStatus| links.get(&(link.from.clone(), link.to.clone())).copied();
        // The sum of no numbers is -0.0, which would be shown.
        let busy = workers.iter().map(|worker| worker.rates.busy).fold(0.0, |a, b| a + b);
        let total = interval.rates(before.totals.work, now.totals.work);
        View {
            version: now.version.clone(),
            ending: now.ending,
            seconds: nanos as f64 / 1e9,
            n_sessions: now.n_sessions,
            kept: now.kept,
            total: Rates { busy: busy / workers.len().max(1) as f64, ..total },
            links: now.links.iter().map(|l| link(&interval, link_of(l), l)).collect(),
            workers,
            sessions,
        }
    }
}

fn by<K: Ord, T>(rows: &[T], key: impl Fn(&T) -> K) -> BTreeMap<K, &T> {
    rows.iter().map(|row| (key(row), row)).collect()
}

/// The time between two answers.
struct Interval {
    nanos: u64,
    is_first: bool,
}

impl Interval {
    /// The rate by the second of a counter.
    fn rate(&self, before: u64, now: u64) -> f64 {
        if self.is_first {
            return 0.0;
        }
        now.saturating_sub(before) as f64 * 1e9 / self.nanos as f64
    }

    fn rates(&self, before: Work, now: Work) -> Rates {
        let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
        let segments = now.segments.saturating_sub(before.segments);
        let planned = share(now.planned.saturating_sub(before.planned), segments);
        Rates {
            launches: self.rate(before.segments, now.segments),
            instructions: self.rate(before.instructions, now.instructions),
            planned: planned.or(share(now.planned, now.segments)),
            busy: self.rate(before.busy, now.busy) / 1e9,
        }
    }
}

fn worker(
    interval: &Interval,
    before: Option<&&WorkerStatus>,
    now: &WorkerStatus,
    sessions: &[SessionRow],
) -> WorkerRow {
    let WorkerStatus { id, name, engine, device, threads, .. } = now.clone();
    let work = before.map(|before| before.work).unwrap_or_default();
    let spent = |worker: &WorkerStatus| worker.work.busy.saturating_add(worker.underway);
    let busy = interval.rate(before.map_or(0, |before| spent(before)), spent(now)) / 1e9;
    let mine = sessions.iter().filter(|session| session.workers.contains(&now.id));
    let most = mine.max_by(|a, b| a.rates.busy.total_cmp(&b.rates.busy));
    let most = most.filter(|session| session.rates.busy > 0.0).map(|session| session.id.clone());
    let session = now.running.first().cloned().or(most).unwrap_or_default();
    let row = sessions.iter().find(|row| row.id == session);
    WorkerRow {
        signals: row.map_or_else(String::new, |row| row.signals.clone()),
        rates: Rates { busy: busy.min(1.0), ..interval.rates(work, now.work) },
        used: now.used,
        memory: now.memory,
        queue: now.queue,
        n_sessions: now.sessions,
        session,
        id,
        name,
        engine,
        device,
        threads,
    }
}

fn session(
    interval: &Interval,
    before: Option<&&SessionStatus>,
    now: &SessionStatus,
) -> SessionRow {
    let new = SessionStatus::default();
    let before = before.copied().unwrap_or(&new);
    let SessionStatus { id, name, program, user, weight, workers, signals, .. } = now.clone();
    SessionRow {
        age: now.age as f64 / 1e9,
        rates: interval.rates(before.work, now.work),
        up: interval.rate(before.up, now.up),
        down: interval.rate(before.down, now.down),
        up_total: now.up,
        down_total: now.down,
        plans: now.plans,
        compiled: now.compiled as f64 / 1e9,
        ran: now.work.busy as f64 / 1e9,
        segments: now.segments,
        waiting: now.waiting,
        requests: now.requests,
        values: now.values,
        bytes: now.bytes,
        kept: now.kept,
        id,
        name,
        program,
        user,
        weight,
        workers,
        signals,
    }
}

fn link(interval: &Interval, before: Option<&LinkStatus>, now: &LinkStatus) -> LinkRow {
    let (there, back) = before.map(|before| (before.there, before.back)).unwrap_or_default();
    let messages = |there: Traffic, back: Traffic| there.messages + back.messages;
    LinkRow {
        from: now.from.clone(),
        to: now.to.clone(),
        there: interval.rate(there.bytes, now.there.bytes),
        back: interval.rate(back.bytes, now.back.bytes),
        there_total: now.there.bytes,
        back_total: now.back.bytes,
        messages: interval.rate(messages(there, back), messages(now.there, now.back)),
        queued: now.queued,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A server with two workers and three sessions, and the same a second later.
    pub(crate) fn two_answers() -> (Status, Status) {
        let work = |n: u64, busy: u64| Work {
            segments: 100 * n,
            planned: 90 * n,
            instructions: 12_000 * n,
            busy,
        };
        let worker = |id: &str, n, busy, used, running: &[&str]| WorkerStatus {
            id: id.into(),
            name: format!("{id} node7 (node7, pid 12{n})"),
            engine: "native".into(),
            device: "cpu".into(),
            threads: 8,
            memory: 8 << 30,
            used,
            sessions: 2,
            running: running.iter().map(|id| (*id).to_owned()).collect(),
            queue: running.len() as u64 * 2,
            underway: 0,
            work: work(n, busy),
        };
        let session = |id: &str, program: &str, n, busy, up, on: &[&str]| SessionStatus {
            id: id.into(),
            name: format!("{id} {program} (laptop, pid 77)"),
            program: program.into(),
            weight: 10,
            age: 75_000_000_000,
            workers: on.iter().map(|id| (*id).to_owned()).collect(),
            signals: "forward, backward".into(),
            segments: 100 * n,
            waiting: 2,
            values: 321,
            bytes: 48 << 20,
            up,
            down: up / 10,
            plans: 3,
            compiled: 400_000_000,
            work: work(n, busy),
            ..SessionStatus::default()
        };
        let traffic = |bytes| Traffic { messages: bytes / 1000, bytes };
        let link = |from: &str, to: &str, bytes| LinkStatus {
            from: from.into(),
            to: to.into(),
            there: traffic(bytes),
            back: traffic(bytes / 4),
            queued: 0,
        };
        let at = |n: u64| Status {
            version: "0.1.0".into(),
            now: n * 1_000_000_000,
            workers: vec![
                worker("w1", n, 730_000_000 * n, 5 << 30, &["s1"]),
                worker("w2", n, 90_000_000 * n, 1 << 29, &[]),
            ],
            sessions: vec![
                session("s1", "digits", n, 700_000_000 * n, 30_000_000 * n, &["w1"]),
                session("s2", "gpt", n, 120_000_000 * n, 1_000 * n, &["w1", "w2"]),
                session("s3", "notebook", 0, 0, 0, &["w2"]),
            ],
            links: vec![
                link("s1", "server", 30_000_000 * n),
                link("w1", "server", 8_000_000 * n),
                link("w1", "w2", 500_000_000 * n),
            ],
            n_sessions: 5,
            kept: 12_345,
            totals: gt_runtime::wire::Totals { work: work(2 * n, 0), ..Default::default() },
            ending: false,
        };
        (at(1), at(2))
    }

    #[test]
    fn rates_are_differences_over_the_time_between() {
        let (before, now) = two_answers();
        let view = View::between(Some(&before), &now);
        let w1 = &view.workers[0];
        assert_eq!((view.seconds, w1.rates.busy, w1.rates.launches), (1.0, 0.73, 100.0));
        assert_eq!(
            (w1.rates.planned, &*w1.session, &*w1.signals),
            (Some(0.9), "s1", "forward, backward")
        );
        // Nothing runs on the second worker, so it shows whose work it did most.
        assert_eq!(&*view.workers[1].session, "s2");
        assert_eq!(view.sessions[0].up, 30e6);
        assert_eq!(view.links[2].there, 500e6);
        assert_eq!(view.total.launches, 200.0);
    }

    #[test]
    fn one_answer_or_one_of_an_earlier_life_gives_no_rates() {
        let (before, now) = two_answers();
        for view in [View::between(None, &now), View::between(Some(&now), &before)] {
            assert_eq!((view.seconds, view.workers[0].rates.busy), (0.0, 0.0));
            assert_eq!(view.workers[0].rates.planned, Some(0.9));
        }
    }

    #[test]
    fn a_long_segment_counts_while_it_runs() {
        let (before, mut now) = two_answers();
        now.workers[0].work = before.workers[0].work;
        now.workers[0].underway = 1_500_000_000;
        let view = View::between(Some(&before), &now);
        assert_eq!(view.workers[0].rates.busy, 1.0);
    }
}
