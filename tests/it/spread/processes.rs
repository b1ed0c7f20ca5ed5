//! `examples/gpt` on worker processes: the bits of workers in one process, from run to run and
//! beside other programs; and what is said when one of the processes dies.

use crate::process::{Cluster, Finished, Folder, Process, program};
use std::process::Command;

pub(super) const GPT: &str = "examples/gpt";

/// A folder with a small text.
pub(super) fn folder(test: &str) -> Folder {
    let folder = Folder::new(test);
    let dictionary = include_bytes!("../../../examples/data/devils-dictionary.txt");
    folder.write("text", &dictionary[..2_000]);
    folder
}

/// A run under the signals of a file, in an environment.
pub(super) struct Run<'a> {
    folder: &'a Folder,
    form: &'a str,
    steps: &'a str,
    place: (&'a str, &'a str),
    name: String,
}

impl Run<'_> {
    fn checkpoint(&self) -> String {
        self.folder.path(&format!("{}.safetensors", self.name))
    }

    pub(super) fn start(&self) -> Process {
        self.start_by(Command::new(program(GPT)))
    }

    /// Starts the run by a command that starts the program.
    pub(super) fn start_by(&self, command: Command) -> Process {
        let (text, file) = (self.folder.path("text"), self.checkpoint());
        let config = format!("examples/gpt/{}.yaml", self.form);
        let words = ["--text", &text, "--steps", self.steps, "--interval", "2", "--sample", "0"];
        let words = [&words[..], &["--checkpoint", &file]].concat();
        let env = [self.place, ("GT_CONFIG", &*config)];
        let env = if self.form.is_empty() { &env[..1] } else { &env[..] };
        Process::start_by(command, GPT, &words, env)
    }

    /// The validation loss, and the bytes of weights and state at the end.
    pub(super) fn finish(&self, process: Process) -> (f64, Vec<u8>) {
        let stdout = process.finish().good();
        let last = stdout.trim_end().lines().last().unwrap();
        let loss = last.strip_prefix("validation loss: ").unwrap().parse().unwrap();
        (loss, std::fs::read(self.checkpoint()).unwrap())
    }
}

/// A run of two steps.
pub(super) fn run<'a>(
    folder: &'a Folder,
    form: &'a str,
    place: (&'a str, &'a str),
    turn: usize,
) -> Run<'a> {
    let name = format!("{form}-{}-{turn}", place.0);
    Run { folder, form, steps: "2", place, name }
}

/// A run with data parallelism that does not end by itself.
pub(super) fn endless<'a>(folder: &'a Folder, place: (&'a str, &'a str)) -> Run<'a> {
    Run { steps: "1000000", ..run(folder, "data_parallel", place, 0) }
}

/// The result of a run on so many workers of one process. It is near the result of one worker.
pub(super) fn embedded(folder: &Folder, form: &str, workers: &str) -> (f64, Vec<u8>) {
    let alone = run(folder, "", ("GT_WORKERS", "1"), 0);
    let alone = alone.finish(alone.start());
    let here = run(folder, form, ("GT_WORKERS", workers), 0);
    let here = here.finish(here.start());
    assert!((here.0 - alone.0).abs() < 2e-4, "{form}: {} and {}", here.0, alone.0);
    assert_ne!(here.1, alone.1, "{form}: nothing is added in another order");
    here
}

#[test]
fn a_gpt_has_the_same_bits_on_two_processes_and_beside_another_program() {
    let (folder, cluster) = (folder("two"), Cluster::start(2));
    let place = ("GT_CONNECT", &*cluster.address);
    let forms = ["data_parallel", "tensor_parallel"];
    let here = forms.map(|form| embedded(&folder, form, "2"));
    // Both programs at once, twice.
    for turn in 0..2 {
        let runs = forms.map(|form| run(&folder, form, place, turn));
        let processes = [runs[0].start(), runs[1].start()];
        for ((run, process), here) in runs.iter().zip(processes).zip(&here) {
            assert!(run.finish(process) == *here, "{} has other bits there", run.form);
        }
    }
}

#[test]
fn a_gpt_in_stages_has_the_bits_of_one_worker_on_two_processes() {
    let (folder, cluster) = (folder("stages"), Cluster::start(2));
    let places = [("GT_WORKERS", "1"), ("GT_WORKERS", "2"), ("GT_CONNECT", &*cluster.address)];
    let results = places.map(|place| {
        let run = run(&folder, "pipeline", place, place.1.len());
        run.finish(run.start())
    });
    assert!(results[0].0 == results[1].0 && results[1] == results[2]);
}

#[test]
fn a_gpt_has_the_same_bits_on_a_mesh_of_four_processes() {
    let (folder, cluster) = (folder("four"), Cluster::start(4));
    let here = embedded(&folder, "hybrid", "4");
    let there = run(&folder, "hybrid", ("GT_CONNECT", &*cluster.address), 0);
    assert!(there.finish(there.start()) == here);
}

#[test]
fn a_killed_process_of_a_spread_program_is_named_and_the_rest_lives_on() {
    let (folder, mut cluster) = (folder("killed"), Cluster::start(3));
    let address = cluster.address.clone();
    let place = ("GT_CONNECT", &*address);
    let digits = ["--json", "--epochs", "100000", "--connect", &address];
    let mut other = Process::start("examples/digits", &digits);
    other.until("epoch");
    let long = endless(&folder, place);
    let mut spread = long.start();
    spread.until("step     4");
    cluster.workers[1].kill();
    let (_, said) = spread.finish().bad();
    assert!(said.contains("worker w2 (") && said.contains("was lost"), "{said}");
    // The other program lives on the first worker, a new run on the two that are left.
    (0..3).for_each(|_| drop(other.until("epoch")));
    other.interrupt();
    let Finished { status, .. } = other.finish();
    assert_eq!(status.code(), Some(130));
    let again = run(&folder, "data_parallel", place, 1);
    let alone = run(&folder, "data_parallel", ("GT_WORKERS", "2"), 1);
    assert!(again.finish(again.start()) == alone.finish(alone.start()));
}

#[test]
fn what_a_file_asks_for_in_vain_is_said_once() {
    let folder = Folder::new("vain");
    let file =
        folder.write("a.yaml", "batch: {shard: {axis: 5}}\nsecond: {shard: {workers: [1, 7]}}\n");
    let finished = Process::start("examples/data_parallel", &[&file]).finish();
    for said in [
        "signal \"batch\": f32[Batch=64,16] has no axis 5, and stays whole",
        "signal \"second\" names worker 7, but 2 are connected, from 0 on",
    ] {
        assert_eq!(finished.stderr.matches(said).count(), 1, "{finished:#?}");
    }
    finished.good();
    for (shard, said) in [
        ("workers: [1, 1]", "a.yaml:1:26: batch.shard.workers: worker 1 is listed twice"),
        ("mesh: [[0, 1], [2]]", "row 1 of the mesh has 1 workers, and the first row 2"),
    ] {
        let file = folder.write("a.yaml", format!("batch: {{shard: {{{shard}}}}}\n"));
        let (_, stderr) = Process::start("examples/data_parallel", &[&file]).finish().bad();
        assert!(stderr.contains(said), "{stderr}");
    }
}

#[test]
fn a_file_asks_for_workers_where_the_environment_does_not() {
    let folder = Folder::new("session");
    let signals = "layer1: {shard: {workers: [0, 7]}}";
    let run = |session: &str, set: &[(&str, &str)]| {
        let file = folder.write("a.yaml", format!("session: {session}\n{signals}\n"));
        Process::start_with("examples/signals", &[&file], set).finish()
    };
    let connected = |n: usize| format!("names worker 7, but {n} are connected, from 0 on");
    for (session, set, n) in [
        ("{workers: 3}", &[][..], 3),
        ("{workers: 3}", &[("GT_WORKERS", "2")], 2),
        ("{workers: 2, device: 'cuda:7'}", &[("GT_ENGINE", "native")], 2),
    ] {
        let finished = run(session, set);
        assert!(finished.stderr.contains(&connected(n)), "{session} {set:?}: {finished:#?}");
        finished.good();
    }
    let cluster = Cluster::start(1);
    let place = [("GT_CONNECT", &*cluster.address)];
    for (session, set, said) in [
        ("{engine: troch}", &[][..], "unknown engine `troch`"),
        ("{engine: torch}", &place[..], "no worker has engine torch"),
    ] {
        let (_, stderr) = run(session, set).bad();
        assert!(stderr.contains(said), "{session} {set:?}: {stderr}");
    }
}
