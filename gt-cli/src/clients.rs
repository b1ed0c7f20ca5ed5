//! `gt-cli clients` and `gt-cli kill`: the programs that use a server, and the end of their work.

use crate::args::{ClientsArgs, KillArgs};
use crate::fault::{self, Silent, run_error};
use crate::news::print;
use crate::who;
use anyhow::{Result, bail};
use gt_ir::units;
use gt_runtime::ids::SessionId;
use gt_runtime::status::Monitor;
use gt_runtime::wire::SessionStatus;
use gt_runtime::zmq::Address;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long programs are watched for whether they are idle.
const GLANCE: Duration = Duration::from_millis(150);

/// The columns, and whether they stand to the right.
const COLUMNS: [(&str, bool); 8] = [
    ("SESSION", false),
    ("PROGRAM", false),
    ("USER", false),
    ("AGE", true),
    ("WORKERS", false),
    ("RAN", true),
    ("MEMORY", true),
    ("STATE", false),
];

pub(crate) fn clients(args: &ClientsArgs, json: bool) -> Result<()> {
    let address: Address = args.connect.parse()?;
    let mut monitor = Monitor::connect(&address).map_err(run_error)?;
    let status = monitor.ask().map_err(run_error)?;
    let before: BTreeMap<String, u64> =
        status.sessions.into_iter().map(|session| (session.id, session.segments)).collect();
    // Between two short segments a program looks idle.
    std::thread::sleep(GLANCE);
    let status = monitor.ask().map_err(run_error)?;
    let is_active = |session: &SessionStatus| {
        before.get(&session.id).is_none_or(|segments| *segments < session.segments)
    };
    let all = status.sessions.iter().map(|session| (session, state(session, is_active(session))));
    if json {
        for (session, state) in all {
            let mut object = serde_json::to_value(session)?;
            object["state"] = state.into();
            print(&object.to_string());
        }
        return Ok(());
    }
    let n_hidden = status.n_sessions.saturating_sub(status.sessions.len() as u64);
    match status.sessions.is_empty() {
        true => print("no programs of yours use the server"),
        false => print(&table(all.map(|(session, state)| row(session, state)).collect())),
    }
    if n_hidden > 0 {
        print(&format!("programs of other users: {n_hidden}"));
    }
    Ok(())
}

pub(crate) fn kill(args: &KillArgs, json: bool) -> Result<()> {
    let address: Address = args.connect.parse()?;
    let mut monitor = Monitor::connect(&address).map_err(run_error)?;
    // An end that is asked for again is no error, so the first answer does not say whether there
    // was a session. Whoever may not look is not told either.
    let there =
        monitor.ask().ok().filter(|status| status.n_sessions == status.sessions.len() as u64);
    let mut failed = false;
    for &session in &args.sessions {
        let is_gone = there.as_ref().is_some_and(|status| {
            status.sessions.iter().all(|there| there.id != session.to_string())
        });
        match monitor.end(session) {
            Ok(_) => tell(session, is_gone, json),
            Err(error) => {
                failed = true;
                fault::report(&run_error(error), json);
            }
        }
    }
    if failed {
        bail!(Silent(1))
    }
    Ok(())
}

fn tell(session: SessionId, was_gone: bool, json: bool) {
    let (event, said) = match was_gone {
        true => ("over", "had ended before"),
        false => ("ended", "was ended"),
    };
    match json {
        true => print(&json!({ "event": event, "session": session.to_string() }).to_string()),
        false => print(&format!("{session} {said}")),
    }
}

/// What a session does. Whether it sent segments within the last moment.
fn state(session: &SessionStatus, is_active: bool) -> String {
    match (session.waiting, session.requests, session.workers.is_empty()) {
        (0, 0, _) if is_active => "runs".into(),
        (0, 0, _) => "idle".into(),
        (_, _, true) => "waits for a worker".into(),
        (0, _, _) => "reads".into(),
        (n, _, _) => format!("runs ({n} to do)"),
    }
}

/// The cells of a session.
fn row(session: &SessionStatus, state: String) -> [String; 8] {
    let program = session.name.strip_prefix(&session.id).unwrap_or(&session.name).trim();
    [
        session.id.clone(),
        program.to_owned(),
        who::user(session.user),
        age(session.age / 1_000_000_000),
        session.workers.join(","),
        format!("{:.1} s", session.work.busy as f64 / 1e9),
        units::bytes(session.bytes),
        state,
    ]
}

/// A time as people read it: `3 min`, `2 h 5 min`.
fn age(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// Rows under the names of their columns, each column as wide as its widest text.
fn table(rows: Vec<[String; 8]>) -> String {
    let names = COLUMNS.map(|(name, _)| name.to_owned());
    let all: Vec<[String; 8]> = std::iter::once(names).chain(rows).collect();
    let widths: Vec<usize> = (0..COLUMNS.len())
        .map(|i| all.iter().map(|row| row[i].chars().count()).max().unwrap_or(0))
        .collect();
    let line = |row: &[String; 8]| {
        let cells = row.iter().zip(&widths).zip(&COLUMNS).map(|((text, &width), (_, right))| {
            if *right { format!("{text:>width$}") } else { format!("{text:<width$}") }
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    all.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_a_table() {
        let session = |id: &str, waiting, requests, age: u64| SessionStatus {
            id: id.into(),
            name: format!("{id} digits (pi, pid 7)"),
            age: age * 1_000_000_000,
            workers: vec!["w1".into()],
            bytes: 12_000,
            waiting,
            requests,
            ..SessionStatus::default()
        };
        let rows = [
            (session("s1", 2, 1, 59), true),
            (session("s12", 0, 1, 7_500), false),
            (session("s3", 0, 0, 90_000), false),
            (session("s4", 0, 0, 90_000), true),
        ];
        let rows = rows.iter().map(|(session, is_active)| row(session, state(session, *is_active)));
        let text = table(rows.collect());
        let expected = "\
SESSION  PROGRAM             USER        AGE  WORKERS    RAN   MEMORY  STATE
s1       digits (pi, pid 7)  own        59 s  w1       0.0 s  12.0 kB  runs (2 to do)
s12      digits (pi, pid 7)  own   2 h 5 min  w1       0.0 s  12.0 kB  reads
s3       digits (pi, pid 7)  own     1 d 1 h  w1       0.0 s  12.0 kB  idle
s4       digits (pi, pid 7)  own     1 d 1 h  w1       0.0 s  12.0 kB  runs";
        assert_eq!(text, expected);
    }
}
