//! `gt-cli status`: the workers and sessions of a server.

use crate::args::StatusArgs;
use crate::news::print;
use anyhow::Result;
use gt_ir::units;
use gt_runtime::wire::{SessionStatus, Status, WorkerStatus};
use gt_runtime::zmq::Address;

pub(crate) fn status(args: &StatusArgs, json: bool) -> Result<()> {
    let address: Address = args.connect.parse()?;
    let status = gt_runtime::status::ask(&address)?;
    match json {
        true => print(&serde_json::to_string(&status)?),
        false => print(text(&status).trim_end()),
    }
    Ok(())
}

fn text(status: &Status) -> String {
    let workers = status.workers.iter().map(worker);
    let sessions = status.sessions.iter().map(session);
    let n_hidden = status.n_sessions.saturating_sub(status.sessions.len() as u64);
    let hidden = (n_hidden > 0).then(|| format!("sessions of other users: {n_hidden}\n"));
    let kept = units::bytes(status.kept);
    let totals = format!(
        "workers: {}, sessions: {}, kept for them: {kept}\n",
        status.workers.len(),
        status.n_sessions
    );
    std::iter::once(totals).chain(workers).chain(sessions).chain(hidden).collect()
}

fn worker(worker: &WorkerStatus) -> String {
    let WorkerStatus { name, engine, device, threads, memory, used, sessions, .. } = worker;
    let memory = format!("{} of {}", units::bytes(*used), units::bytes(*memory));
    format!(
        "{name}: {engine} on {device}, threads: {threads}, memory: {memory}, sessions: {sessions}\n"
    )
}

fn session(session: &SessionStatus) -> String {
    let on = match session.workers.is_empty() {
        true => String::new(),
        false => format!(" on {}", session.workers.join(", ")),
    };
    let held = format!("values: {} ({})", session.values, units::bytes(session.bytes));
    let segments = format!("segments: {} ({} wait)", session.segments, session.waiting);
    let spent = format!(
        "ran: {:.1} s, compiled: {:.1} s",
        session.work.busy as f64 / 1e9,
        session.compiled as f64 / 1e9
    );
    format!(
        "{}{on}: weight: {}, {segments}, reads: {}, {held}, kept: {}, {spent}\n",
        session.name,
        session.weight,
        session.requests,
        units::bytes(session.kept),
    )
}
