//! The language model of the examples: it learns, samples reproducibly, and reports bad texts.

use crate::examples::is_replayed;
use crate::process::{Folder, Process};

const GPT: &str = "examples/gpt";

fn validation_loss(stdout: &str) -> f64 {
    let last = stdout.trim_end().lines().last().unwrap();
    last.strip_prefix("validation loss: ").unwrap().parse().unwrap()
}

#[test]
fn a_model_learns_a_text_and_writes() {
    let words = ["--steps", "40", "--sample", "30", "--prompt", "The ", "--seed", "3"];
    let run = || Process::start_with(GPT, &words, &[("GT_VERBOSE", "1")]).finish();
    let finished = run();
    // Training, validation and sampling have a plan each.
    is_replayed(&finished, 500, 8);
    let stdout = finished.good();
    // The loss of uniform guesses is 5.5, of the frequencies of letters about 3.1.
    assert!(validation_loss(&stdout) < 3.6, "{stdout}");
    assert!(stdout.contains("\nThe "), "{stdout}");
    assert_eq!(stdout, run().good());
}

#[test]
fn a_run_goes_on_from_its_checkpoint_to_the_bit() {
    let folder = Folder::new("gpt-checkpoint");
    let file = folder.path("run.safetensors");
    let words = ["--steps", "40", "--sample", "0", "--interval", "10", "--text", "ARCHITECTURE.md"];
    let saved = [&words[..], &["--checkpoint", &file]].concat();
    let mut killed = Process::start(GPT, &saved);
    killed.until("step    20");
    killed.kill();
    drop(killed);
    let (whole, resumed) = (Process::start(GPT, &words), Process::start(GPT, &saved));
    let [whole, resumed] = [whole, resumed].map(|run| run.finish().good());
    assert!(resumed.contains("resuming after step "), "{resumed}");
    assert_eq!(validation_loss(&resumed), validation_loss(&whole));
}

#[test]
fn curves_are_drawn_and_go_on_with_the_run() {
    let folder = Folder::new("gpt-curves");
    let (file, run) = (folder.path("run.safetensors"), folder.path("run"));
    let words = ["--sample", "0", "--interval", "20", "--text", "ARCHITECTURE.md"];
    let saved = [&words[..], &["--checkpoint", &file, "--curves", &run]].concat();
    for steps in ["20", "60"] {
        Process::start(GPT, &[&saved[..], &["--steps", steps]].concat()).finish().good();
    }
    let table = std::fs::read_to_string(folder.path("run/run.csv")).unwrap();
    let steps: Vec<&str> = table.lines().map(|line| line.split(',').next().unwrap()).collect();
    assert_eq!(steps, ["step", "20", "40", "60"]);
    let picture = std::fs::read_to_string(folder.path("run/run.svg")).unwrap();
    assert!(picture.contains("validation") && picture.contains("<polyline"));
}

#[test]
fn a_text_that_is_missing_or_too_short_is_told() {
    let missing = Process::start(GPT, &["--text", "no/such/text"]).finish().bad().1;
    assert!(missing.contains("error: cannot read no/such/text: No such file"), "{missing}");
    let empty = Process::start(GPT, &["--text", "/dev/null"]).finish().bad().1;
    assert!(empty.contains("a text of 0 bytes is too short\nhint: at least 760"), "{empty}");
}
