//! The examples that learn or check something small, run as a reader would run them: what their last line says, and that their loops
//! become plans that are replayed.

use crate::process::{Finished, Folder, Process};

/// Runs an example that says what becomes a plan.
fn run(example: &str, words: &[&str]) -> Finished {
    let finished =
        Process::start_with(&format!("examples/{example}"), words, &[("GT_VERBOSE", "1")]);
    finished.finish()
}

/// The number at the end of what it prints.
#[track_caller]
fn result(stdout: &str, what: &str) -> f64 {
    let last = stdout.trim_end().lines().last().unwrap();
    last.strip_prefix(what).unwrap_or_else(|| panic!("{stdout}")).trim().parse().unwrap()
}

/// A step of at least so many instructions became a plan, and no more than so many segments were not the expected ones.
#[track_caller]
pub(crate) fn is_replayed(finished: &Finished, instructions: usize, misses: usize) {
    let of = |line: &str| line.split_once(" (")?.1.split_once(' ')?.0.parse::<usize>().ok();
    let plans = finished.stderr.lines().filter(|line| line.contains(" -> plan "));
    let largest = plans.filter_map(of).max().unwrap_or(0);
    assert!(largest >= instructions, "no plan of {instructions} instructions: {finished:#?}");
    let missed = finished.stderr.lines().filter(|line| line.contains("a segment is new")).count();
    assert!(missed <= misses, "{missed} segments were new: {finished:#?}");
}

#[test]
fn gradients_by_hand_are_those_of_finite_differences() {
    let finished = run("autograd", &[]);
    // One of each function whose differences are taken, and the descent in ten steps at a time.
    is_replayed(&finished, 20, 12);
    let stdout = finished.good();
    assert!(stdout.lines().count() > 12, "{stdout}");
    let worst = result(&stdout, "largest difference:");
    assert!(worst > 0.0 && worst < 1e-8, "{stdout}");
}

#[test]
fn a_convolutional_network_reads_digits_and_draws_its_curves() {
    let folder = Folder::new("cnn");
    let finished = run("cnn", &["--curves", &folder.path("run")]);
    is_replayed(&finished, 300, 3);
    let accuracy = result(&finished.good(), "test accuracy:");
    assert!(accuracy > 0.985, "{accuracy}");
    let table = std::fs::read_to_string(folder.path("run/run.csv")).unwrap();
    assert_eq!(table.lines().next(), Some("step,loss,accuracy"));
    assert_eq!(table.lines().count(), 31);
    let picture = std::fs::read_to_string(folder.path("run/run.svg")).unwrap();
    assert!(picture.starts_with("<svg") && picture.contains("accuracy"));
}

#[test]
fn an_autoencoder_tells_unseen_digits_in_fewer_nats_than_their_averages_do() {
    let finished = run("vae", &["--epochs", "30"]);
    is_replayed(&finished, 100, 6);
    let stdout = finished.good();
    let nats = result(&stdout, "nats an image:");
    let lines: Vec<&str> = stdout.lines().collect();
    let known = lines[lines.len() - 2].rsplit_once(' ').unwrap().1.parse::<f64>().unwrap();
    assert!(nats < known - 2.0, "{stdout}");
    // What it drew has ink and paper in it.
    assert!(lines[..8].iter().all(|line| line.chars().count() == 8 * 18), "{stdout}");
    let drawn = lines[..8].concat();
    assert!(drawn.contains('@') && drawn.contains(' '), "{stdout}");
}
