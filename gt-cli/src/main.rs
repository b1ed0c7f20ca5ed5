//! `gt-cli`: serve, join, compile, run and measure GT programs from a shell.
//!
//! Results go to standard output, everything else to standard error. This crate connects the other
//! crates to files, terminals and signals.
#![expect(clippy::print_stderr, reason = "a command-line tool talks to its terminal")]

mod args;
mod artifact;
mod bench;
mod boundary;
mod compile;
mod diff;
mod doctor;
mod fault;
mod files;
mod keys;
mod news;
mod quota;
mod run;
mod schema;
mod serve;
mod signals;
mod status;
mod supervise;
mod system;
mod tensors;

// The name that the language's macros use.
extern crate gt_lang as gt;

use args::{Cli, Command};
use clap::Parser;

fn main() {
    let cli = Cli::parse();
    let done = match &cli.command {
        Command::Server(args) => serve::server(args, cli.json),
        Command::Worker(args) => serve::worker(args, cli.json),
        Command::Compile(args) => compile::compile(args, cli.json),
        Command::Diff(args) => diff::diff(args, cli.json),
        Command::Run(args) => run::run(args, cli.json),
        Command::Bench(args) => bench::bench(args, cli.json),
        Command::Schema => schema::print(),
        Command::Keys(args) => keys::keys(args, cli.json),
        Command::Status(args) => status::status(args, cli.json),
        Command::Doctor(args) => doctor::doctor(args, cli.json),
    };
    news::flush();
    if let Err(error) = done {
        let status = fault::report(&error, cli.json);
        // The status 1 of `diff` means that the tapes differ, so errors have the status 2.
        let trouble = matches!(cli.command, Command::Diff(_)) && !error.is::<fault::Silent>();
        std::process::exit(if trouble && status == 1 { 2 } else { status });
    }
}
