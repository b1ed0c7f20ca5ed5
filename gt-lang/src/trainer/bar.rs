//! The progress of a training on the error stream.
//!
//! Guarantees: outside a terminal there is one line for each epoch, and nothing else. It reads no
//! clock and no tensor. A stream that does not take what is printed does not stop the training.

use std::io::{IsTerminal, Write};

use super::Epoch;

/// The characters of the bar.
const WIDTH: usize = 30;

/// Shows progress.
pub(super) struct Bar {
    out: Box<dyn Write>,
    is_terminal: bool,
    /// The bar drawn last.
    drawn: String,
}

impl Bar {
    pub(super) fn new() -> Bar {
        let out = std::io::stderr();
        Bar { is_terminal: out.is_terminal(), out: Box::new(out), drawn: String::new() }
    }

    /// Draws the bar of an epoch, if it has changed.
    pub(super) fn step(&mut self, epochs: u64, batches: u64, n_batches: Option<usize>) {
        if !self.is_terminal {
            return;
        }
        let drawn = drawn(epochs + 1, batches, n_batches);
        if drawn != self.drawn {
            self.put(&format!("\r\x1b[2K{drawn}"));
            self.drawn = drawn;
        }
    }

    /// Prints the line of an epoch in place of the bar.
    pub(super) fn epoch(&mut self, epoch: &Epoch) {
        let over = if self.is_terminal { "\r\x1b[2K" } else { "" };
        self.put(&format!("{over}{}\n", line(epoch)));
        self.drawn.clear();
    }

    /// Leaves the bar as it is, and ends its line.
    pub(super) fn finish(&mut self) {
        if !self.drawn.is_empty() {
            self.put("\n");
        }
    }

    fn put(&mut self, text: &str) {
        let _ = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }
}

/// `epoch 3 [##########                    ] 33%`, or the number of batches of a stream.
fn drawn(epoch: u64, batches: u64, n_batches: Option<usize>) -> String {
    let Some(n) = n_batches.filter(|&n| n > 0) else {
        return format!("epoch {epoch}  {batches} batches");
    };
    let share = (batches as f64 / n as f64).min(1.0);
    let full = "#".repeat((share * WIDTH as f64) as usize);
    format!("epoch {epoch} [{full:WIDTH$}] {:>3.0}%", (share * 100.0).floor())
}

/// `epoch 3  loss 0.1234  accuracy 0.9812`.
fn line(epoch: &Epoch) -> String {
    let measures = epoch.metrics.iter().map(|(name, value)| format!("  {name} {value:.4}"));
    format!("epoch {}  loss {:.4}{}", epoch.epochs, epoch.loss, measures.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logger::tests::Shared;

    /// What is printed of an epoch of three batches and a begun one.
    fn printed(is_terminal: bool) -> String {
        let printed = Shared::default();
        let out = Box::new(printed.clone());
        let mut bar = Bar { out, is_terminal, drawn: String::new() };
        (1..=3).for_each(|batch| bar.step(0, batch, Some(3)));
        let metrics = [("accuracy".to_owned(), 0.5)].into();
        bar.epoch(&Epoch { epochs: 1, steps: 3, loss: 0.25, metrics });
        bar.step(1, 7, None);
        bar.finish();
        String::from_utf8(printed.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn a_terminal_has_a_bar_and_a_file_has_lines() {
        assert_eq!(printed(false), "epoch 1  loss 0.2500  accuracy 0.5000\n");
        let clear = "\r\x1b[2K";
        assert_eq!(
            printed(true),
            format!(
                "{clear}epoch 1 [{:30}]  33%{clear}epoch 1 [{:30}]  66%{clear}epoch 1 [{}] \
                 100%{clear}epoch 1  loss 0.2500  accuracy 0.5000\n{clear}epoch 2  7 batches\n",
                "#".repeat(10),
                "#".repeat(20),
                "#".repeat(30)
            )
        );
    }
}
