//! The subject of `cargo xtask opinfo`: reads cases of PyTorch's operators, computes them with GT,
//! and writes the results.
//!
//! Guarantees: every case is answered, in order. The answer to a case that GT cannot express is a
//! reason, and the answer to an error or a panic is its text, so one process runs thousands of
//! cases. A case runs twice, instruction by instruction and as a plan; the answer states whether
//! their bits differ. `protocol` defines the form of cases on the wire, `table` the GT call for
//! each operator.
//!
//! Does not: know PyTorch, or judge a result. The Python programs beside it do.

mod arguments;
mod computing;
mod protocol;
mod systems;
mod table;

use std::io::{BufReader, BufWriter};
use std::process::ExitCode;

use protocol::{Answer, Case};
use systems::Systems;

fn main() -> ExitCode {
    systems::listen_to_panics();
    match serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stderr, reason = "the last word of a program that cannot go on")]
fn complain(error: &str) {
    eprintln!("gt-opinfo: {error}");
}

/// Answers cases until the input ends. The first answer is the list of operators.
fn serve() -> std::io::Result<()> {
    let mut cases = BufReader::new(std::io::stdin().lock());
    let mut answers = BufWriter::new(std::io::stdout().lock());
    let mut systems = Systems::start().map_err(std::io::Error::other)?;
    protocol::write(&mut answers, &table::list(), &[])?;
    while let Some(case) = Case::read(&mut cases)? {
        let answer = systems.answer(&case);
        answer.write(&mut answers)?;
        if matches!(answer, Answer::Panic(_)) {
            // New systems, because the panic may have left these in any state.
            systems = Systems::start().map_err(std::io::Error::other)?;
        }
    }
    Ok(())
}
