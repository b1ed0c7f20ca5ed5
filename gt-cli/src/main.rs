//! `gt-cli`: serve, join, compile, run and measure GT programs from a shell.
//!
//! Results go to standard output, everything else to standard error. This crate connects the other
//! crates to files, terminals and signals.
#![expect(clippy::print_stderr, reason = "a command-line tool talks to its terminal")]

mod args;
mod artifact;
mod bench;
mod boundary;
#[cfg(test)]
mod chance;
mod clients;
mod compile;
mod completions;
mod config;
mod diff;
mod doctor;
mod fault;
mod files;
mod keys;
mod launch;
mod metrics;
mod news;
mod profile;
mod quota;
mod run;
mod schema;
mod serve;
mod signals;
mod status;
mod supervise;
mod system;
mod tensors;
mod top;
mod trace;
mod visualize;
mod who;

// The name that the language's macros use.
extern crate gt_lang as gt;

use args::{Cli, Command};

fn main() {
    let cli = Cli::of_process();
    let done = notice(&cli).and_then(|()| run(&cli)).and_then(|()| news::printed());
    news::flush();
    if let Err(error) = done {
        let status = fault::report(&error, cli.json);
        // The status 1 of `diff` means that the tapes differ, so errors have the status 2.
        let trouble = matches!(cli.command, Command::Diff(_)) && !error.is::<fault::Silent>();
        std::process::exit(if trouble && status == 1 { 2 } else { status });
    }
}

/// Carries out a command.
fn run(cli: &Cli) -> anyhow::Result<()> {
    match &cli.command {
        Command::Server(args) => serve::server(args, cli.json),
        Command::Worker(args) => serve::worker(args, cli.json),
        Command::Launch(args) => launch::launch(args, cli.json),
        Command::Compile(args) => compile::compile(args, cli.json),
        Command::Diff(args) => diff::diff(args, cli.json),
        Command::Run(args) => run::run(args, cli.json),
        Command::Bench(args) => bench::bench(args, cli.json),
        Command::Schema => schema::print(),
        Command::Keys(args) => keys::keys(args, cli.json),
        Command::Status(args) => status::status(args, cli.json),
        Command::Top(args) => top::top(args, cli.json),
        Command::Clients(args) => clients::clients(args, cli.json),
        Command::Kill(args) => clients::kill(args, cli.json),
        Command::Profile(args) => profile::profile(args, cli.json),
        Command::Trace(args) => trace::trace(args, cli.json),
        Command::Visualize(args) => visualize::visualize(args, cli.json),
        Command::Completions { shell } => completions::print(*shell),
        Command::Man { folder } => completions::write_pages(folder),
        Command::Config(args) => config::config(args, cli.json),
        Command::Doctor(args) => doctor::doctor(args, cli.json),
    }
}

/// Fails if the user's settings are faulty. Tells of variables that have no effect. The
/// commands that show settings say so themselves, and a child of another command is not asked.
fn notice(cli: &Cli) -> anyhow::Result<()> {
    let is_child = match &cli.command {
        Command::Config(_)
        | Command::Doctor(_)
        | Command::Completions { .. }
        | Command::Man { .. } => return Ok(()),
        Command::Worker(args) => args.one_of.is_some(),
        Command::Bench(args) => args.inner || args.paced || args.served,
        _ => false,
    };
    if !is_child {
        tell_odd_variables();
    }
    gt_settings::problem().map_or(Ok(()), |why| {
        Err(fault::advised(why, "`gt-cli config --explain` shows all settings"))
    })
}

/// Tells of variables that have no effect.
fn tell_odd_variables() {
    for odd in gt_settings::odd_variables() {
        eprintln!("gt: {}: {}", odd.what, odd.cure);
    }
}
