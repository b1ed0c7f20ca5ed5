//! The subject of `cargo xtask opinfo`: reads cases of PyTorch's operators, computes them with GT,
//! writes what came out.
//!
//! Guarantees: every case is answered, in order; what GT has not is answered with a reason, an
//! error of GT with its text, a panic with its text too, so that one process runs thousands of
//! cases. A case runs twice: instruction by instruction, and as a plan once that is there; the
//! answer says when their bits differ. How cases look on the wire is in `protocol`, which GT call
//! stands for which operator of PyTorch in `table`.
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

/// Answers cases until there are no more; the first answer is the list of operators.
fn serve() -> std::io::Result<()> {
    let mut cases = BufReader::new(std::io::stdin().lock());
    let mut answers = BufWriter::new(std::io::stdout().lock());
    let mut systems = Systems::start().map_err(std::io::Error::other)?;
    protocol::write(&mut answers, &table::list(), &[])?;
    while let Some(case) = Case::read(&mut cases)? {
        let answer = systems.answer(&case);
        answer.write(&mut answers)?;
        if matches!(answer, Answer::Panic(_)) {
            // Whatever the panic left behind is not for the next case.
            systems = Systems::start().map_err(std::io::Error::other)?;
        }
    }
    Ok(())
}
