//! Shows progress: a bar on a terminal, else a line for each epoch, or JSON on request.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, Write};

/// The results of an epoch.
#[derive(Clone, Copy)]
pub struct Epoch {
    pub number: u32,
    pub loss: f32,
    pub accuracy: f32,
    pub samples_per_second: f64,
}

/// Shows progress. Results go to standard output, the bar to standard error.
pub struct Progress {
    n_epochs: u32,
    json: bool,
    bar: Option<ProgressBar>,
}

impl Progress {
    pub fn new(n_epochs: u32, n_steps: usize, json: bool) -> Progress {
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let bar =
            (!json && !dumb && std::io::stderr().is_terminal() && std::io::stdout().is_terminal())
                .then(|| {
                    let colors = if set("NO_COLOR") { "{bar:30}" } else { "{bar:30.cyan/blue}" };
                    let template = format!("{{elapsed}} {colors} {{pos}}/{{len}} steps  {{msg}}");
                    let style = ProgressStyle::with_template(&template)
                        .unwrap_or_else(|_| ProgressStyle::default_bar());
                    ProgressBar::new(u64::from(n_epochs) * n_steps as u64).with_style(style)
                });
        Progress { n_epochs, json, bar }
    }

    pub fn step(&self) {
        self.bar.iter().for_each(|bar| bar.inc(1));
    }

    pub fn epoch(&self, epoch: Epoch) -> std::io::Result<()> {
        let Epoch { number, loss, accuracy, samples_per_second: speed } = epoch;
        if let Some(bar) = &self.bar {
            bar.set_message(format!(
                "loss {loss:.4}  accuracy {accuracy:.4}  {} samples/s",
                thousands(speed as u64)
            ));
            return Ok(());
        }
        // `{loss}` prints the shortest decimal that identifies the number.
        let mut out = std::io::stdout().lock();
        if self.json {
            writeln!(
                out,
                "{{\"epoch\":{number},\"loss\":{loss},\"accuracy\":{accuracy},\
                 \"samples_per_second\":{speed:.0}}}"
            )
        } else {
            let n_epochs = self.n_epochs;
            let speed = thousands(speed as u64);
            writeln!(
                out,
                "epoch {number:>2}/{n_epochs}  loss {loss:<12}  accuracy {accuracy:.4}  {speed} \
                 samples/s"
            )
        }
    }

    /// Leaves the last state of the bar on the screen.
    pub fn finish(self) {
        self.bar.iter().for_each(ProgressBar::abandon);
    }
}

/// `12,345,678`
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
    groups.collect::<Vec<_>>().join(",")
}

/// `3.2 MB`
pub fn bytes(number: u64) -> String {
    match number {
        0..1_000 => format!("{number} B"),
        1_000..1_000_000 => format!("{:.1} kB", number as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", number as f64 / 1e6),
        _ => format!("{:.1} GB", number as f64 / 1e9),
    }
}
