//! Training steps of the digits example, embedded and with separate processes, and the growth of
//! memory.

use crate::{Outcome, child, data, model, samples, seconds};
use gt::prelude::*;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

// One training step of the digits example: with one read of the loss for each epoch, as in the
// example, and with a read in every step.

/// Steps in an epoch.
const EPOCH: usize = 44;

pub(crate) fn digits_step_embedded() -> Outcome<Vec<f64>> {
    digits_step(&gt::embedded(1)?, EPOCH)
}

pub(crate) fn digits_step_ipc() -> Outcome<Vec<f64>> {
    on_a_cluster(|session| digits_step(session, EPOCH))
}

pub(crate) fn digits_read_embedded() -> Outcome<Vec<f64>> {
    digits_step(&gt::embedded(1)?, 1)
}

pub(crate) fn digits_read_ipc() -> Outcome<Vec<f64>> {
    on_a_cluster(|session| digits_step(session, 1))
}

/// Measures with server and worker in separate processes.
fn on_a_cluster(measure: impl FnOnce(&Session) -> Outcome<Vec<f64>>) -> Outcome<Vec<f64>> {
    let (_server, address) = started(&["server", "-p", "0"], "listening at ")?;
    let (_worker, _) =
        started(&["worker", "--connect", &address], "registered with the server at ")?;
    measure(&Session::connect(&address)?)
}

/// Microseconds for each step if the sum of the losses is read every `n_steps`.
fn digits_step(session: &Session, n_steps: usize) -> Outcome<Vec<f64>> {
    let _current = session.enter();
    let (training, _) = data::load();
    let batch: Vec<usize> = (0..32).collect();
    let net = model::Mlp::new();
    let mut optimizer =
        Sgd::new(net.parameters(), SgdConfig { lr: 0.01, momentum: 0.9, ..Default::default() });
    let n_reads = 132 / n_steps;
    samples(20, || {
        let time = seconds(|| {
            for _ in 0..n_reads {
                let mut total: T![] = Tensor::zeros();
                for _ in 0..n_steps {
                    total += model::step(&net, &mut optimizer, training.pick(&batch))?;
                }
                total.item()?;
            }
            Ok(())
        })?;
        Ok(time / (n_reads * n_steps) as f64 * 1e6)
    })
}

/// A process that is killed when this value is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the `gt-cli` built with this program, and returns the word after `mark` in its output.
fn started(words: &[&str], mark: &str) -> Outcome<(Running, String)> {
    let this = std::env::current_exe()?;
    let program = this.ancestors().nth(2).ok_or("no folder")?.join("gt-cli");
    let mut child =
        Command::new(&program).args(words).stderr(Stdio::piped()).stdout(Stdio::null()).spawn()?;
    let says = child.stderr.take().ok_or("no output")?;
    let running = Running(child);
    let mut lines = BufReader::new(says).lines();
    while let Some(line) = lines.next().transpose()? {
        if let Some((_, rest)) = line.split_once(mark) {
            let word = rest.split_whitespace().next().unwrap_or_default().to_string();
            std::thread::spawn(move || lines.for_each(drop));
            return Ok((running, word));
        }
    }
    Err(format!("{} ended at once", program.display()).into())
}

// The growth of the process between step 1,000 and step 100,000.

pub(crate) fn memory_growth() -> Outcome<Vec<f64>> {
    Ok(vec![child("--child-memory")?])
}

pub(crate) fn child_memory() -> Outcome<()> {
    let (training, _) = data::load();
    let batch: Vec<usize> = (0..32).collect();
    let net = model::Mlp::new();
    let mut optimizer =
        Sgd::new(net.parameters(), SgdConfig { lr: 0.01, momentum: 0.9, ..Default::default() });
    let mut before = 0;
    for n_steps in 1..=100_000 {
        let loss = model::step(&net, &mut optimizer, training.pick(&batch))?;
        if n_steps % 100 == 0 {
            loss.item()?;
        }
        if n_steps == 1_000 {
            before = resident_kib()?;
        }
    }
    println!("{}", resident_kib()? as i64 - before as i64);
    Ok(())
}

/// The resident memory of this process.
fn resident_kib() -> Outcome<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
