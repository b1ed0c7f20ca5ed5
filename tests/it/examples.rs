//! The small examples, run as a reader runs them. The tests check the last line of output, and that
//! the loops become plans that are replayed.

use crate::process::{Finished, Folder, Process};

/// Runs an example that reports its plans.
fn run(example: &str, words: &[&str]) -> Finished {
    let finished =
        Process::start_with(&format!("examples/{example}"), words, &[("GT_VERBOSE", "1")]);
    finished.finish()
}

/// The number on the last line of the output.
#[track_caller]
fn result(stdout: &str, what: &str) -> f64 {
    let last = stdout.trim_end().lines().last().unwrap();
    last.strip_prefix(what).unwrap_or_else(|| panic!("{stdout}")).trim().parse().unwrap()
}

/// Checks that a segment of at least `instructions` became a plan, and that at most `misses`
/// segments differed from the expected ones.
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
    // One miss for each function under finite differences, and one for the descent, which may end
    // before its plan is compiled.
    is_replayed(&finished, 0, 12);
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
    let nats = result(&stdout, "nats per image:");
    let lines: Vec<&str> = stdout.lines().collect();
    let known = lines[lines.len() - 2].rsplit_once(' ').unwrap().1.parse::<f64>().unwrap();
    assert!(nats < known - 2.0, "{stdout}");
    // The drawn digits have dark and light pixels.
    assert!(lines[..8].iter().all(|line| line.chars().count() == 8 * 18), "{stdout}");
    let drawn = lines[..8].concat();
    assert!(drawn.contains('@') && drawn.contains(' '), "{stdout}");
}

#[test]
fn two_lines_of_yaml_spread_a_network_and_its_losses_stay() {
    let (folder, pipeline) = (Folder::new("spread"), "examples/data_parallel/pipeline.yaml");
    for words in [&[][..], &[pipeline]] {
        let log = folder.path("gt.log");
        let env = [("GT_INSTRUCTION_LOG", &*log)];
        let example = Process::start_with("examples/data_parallel", words, &env);
        let stdout = example.finish().good();
        assert!(result(&stdout, "relative difference:") < 1e-5, "{stdout}");
        let log = std::fs::read_to_string(log).unwrap();
        let second = log.lines().filter(|line| line.contains("WORKER w2"));
        assert!(second.filter(|line| line.contains("| Launch")).count() > 50, "{stdout}");
    }
}

#[test]
fn signals_are_told_to_the_dispatcher_and_change_no_result() {
    let folder = Folder::new("signals");
    let yaml = std::fs::read_to_string("examples/signals/signals.yaml").unwrap();
    let other = yaml.replace("layer2:", "layer3:").replace("compile: true", "backward: loss_grad");
    let [whole, other, none] = [&yaml, &other, ""].map(|text| {
        let file = folder.write("signals.yaml", text);
        Process::start("examples/signals", &[&file]).finish().good()
    });
    let losses = [&whole, &other, &none].map(|stdout| result(stdout, "final loss:"));
    assert!(losses[0] < 0.01 && losses.iter().all(|loss| *loss == losses[0]), "{losses:?}");
    let row = |stdout: &str, scope: &str| {
        let found = stdout.lines().find(|line| line.trim_start().starts_with(scope));
        found.unwrap_or_else(|| panic!("no {scope}: {stdout}")).to_owned()
    };
    // The backward signal of the first layer comes from the file, of the second from the program.
    assert!(row(&whole, "layer1 ").ends_with("backward \"layer1_grad\""), "{whole}");
    assert!(row(&whole, "layer1_grad ").contains("instructions"), "{whole}");
    assert!(!none.contains("layer1_grad") && none.contains("layer2_grad "), "{none}");
    assert!(row(&other, "layer2 ").ends_with("not configured"), "{other}");
    assert!(row(&other, "loss_grad ").contains("instructions"), "{other}");
    assert!(row(&whole, "signal \"loss\"").ends_with(": compile"), "{whole}");
}

/// A step that is only on paper is spread over workers that are not there.
#[test]
fn a_large_transformer_is_spread_on_paper() {
    let folder = Folder::new("large");
    let file = folder.path("step.gt");
    let sizes =
        ["--layers", "2", "--width", "64", "--heads", "4", "--context", "8", "--batch", "8"];
    let words = [&sizes[..], &["--words", "32", "--output", &file]].concat();
    assert!(run("large", &words).good().is_empty());
    let plan = ["compile", &file, "--auto", "--workers", "4", "--emit", "sharded", "--json"];
    let slow = ["--rates", "latency=1e-9,exchange=1e15,flops=1e6,memory=1e15"];
    let finished = Process::start("gt-cli", &[&plan[..], &slow].concat()).finish();
    let sharded: serde_json::Value = serde_json::from_str(&finished.good()).unwrap();
    let sharded = &sharded["sharded"];
    let seconds = |key: &str| sharded[key].as_f64().unwrap();
    // Four workers share nearly all work.
    let gain = seconds("seconds_of_one_worker") / seconds("seconds");
    assert!((3.5..=4.01).contains(&gain), "{gain}");
    let plans: Vec<&str> =
        sharded["plans"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
    assert!(plans.contains(&"one worker") && plans.len() > 1, "{plans:?}");
}
