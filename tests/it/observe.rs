//! Profiles, traces, pictures, logs and stream modifiers, as their users meet them.

use crate::process::{Cluster, Folder, Process, run};
use serde_json::Value;

const DIGITS: &str = "examples/digits";

fn object(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn names(profile: &Value, table: &str) -> Vec<String> {
    let rows = profile[table].as_array().unwrap();
    rows.iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_profile_names_the_lines_of_a_program_that_was_not_changed() {
    let folder = Folder::new("profile");
    let kept = folder.path("run.json");
    let path = crate::process::program(DIGITS);
    let path = path.to_str().unwrap();
    let words = ["--json", "profile", "-o", &kept, path, "--epochs", "20"];
    let printed = run("gt-cli", &words).good();
    let profile = object(printed.lines().last().unwrap());
    let lines = names(&profile, "lines");
    assert!(lines.iter().any(|line| line.starts_with("examples/digits/model.rs:")), "{lines:?}");
    assert!(names(&profile, "ops").contains(&"matmul".to_owned()));
    assert_eq!(names(&profile, "phases")[..2], ["record", "wait"]);
    let of_plans = |kernel: &&Value| !kernel["name"].as_str().unwrap().contains("by itself");
    let kernels = profile["kernels"].as_array().unwrap();
    let in_plan = kernels.iter().find(of_plans).unwrap();
    assert!(in_plan["lines"][0].as_str().unwrap().contains(".rs:"), "{in_plan}");
    // Most of the memory is of parameters and moments, which lines of the program made.
    let lines = profile["memory"]["lines"].as_array().unwrap().iter();
    let of_lines = lines.filter(|line| line[0].as_str().unwrap().contains(".rs:"));
    let held: u64 = of_lines.map(|line| line[1].as_u64().unwrap()).sum();
    let peak = profile["memory"]["peak"].as_u64().unwrap();
    assert!(held <= peak && 2 * held > peak, "{}", profile["memory"]);
    let file = object(&std::fs::read_to_string(&kept).unwrap());
    assert!(file["traceEvents"].as_array().unwrap().len() > 100);
    let table = run("gt-cli", &["profile", &kept, "--top", "3"]).good();
    assert!(table.contains("kernel and its lines") && table.contains('█'), "{table}");
    assert!(table.contains("made the values in use then"), "{table}");
    let (status, said) = run("gt-cli", &["profile", &folder.write("no.json", "{}")]).bad();
    assert!(status == Some(1) && said.contains("this is no profile of GT"), "{said}");
}

/// A program that is killed tells nobody, and what it did is in the profile all the same.
#[test]
fn a_program_that_is_killed_leaves_a_profile() {
    let folder = Folder::new("cut-profile");
    let long = crate::process::program("examples/digits");
    let (long, kept) = (long.to_str().unwrap(), folder.path("run.json"));
    let script = folder.write("cut", format!("{long} --epochs 100000 & sleep 4; kill -9 $!; wait"));
    let finished = run("gt-cli", &["profile", "-o", &kept, "sh", &script]);
    assert!(finished.stdout.contains("matmul"), "{} {}", finished.stdout, finished.stderr);
    assert!(!finished.stderr.contains("the profile is in"), "{}", finished.stderr);
    let profile = object(&std::fs::read_to_string(&kept).unwrap());
    assert!(names(&profile["gt_profile"], "ops").contains(&"matmul".to_owned()));
    assert!(profile["gt_profile"]["wall"].as_f64().unwrap() > 1e9);
}

/// The first profile on a machine measures what the machine can do, when the program ends.
#[test]
fn the_first_profile_on_a_machine_is_written() {
    let folder = Folder::new("first-profile");
    let (path, cache) = (folder.path("run.json"), folder.path("cache"));
    let env = [("GT_PROFILE", path.as_str()), ("GT_CACHE", cache.as_str())];
    let finished = Process::start_with(DIGITS, &["--epochs", "1"], &env).finish();
    assert!(finished.stderr.contains("the profile is in"), "{}", finished.stderr);
    finished.good();
    let profile = object(&std::fs::read_to_string(&path).unwrap());
    let flops = profile["gt_profile"]["machine"]["flops"].as_f64().unwrap();
    assert!(flops > 1e8, "{flops}");
}

#[test]
fn a_running_server_is_traced_and_drawn() {
    let cluster = Cluster::start(1);
    let folder = Folder::new("trace");
    let words = ["--epochs", "100000", "--connect", &cluster.address];
    let mut client = Process::start(DIGITS, &words);
    client.until("epoch");
    let file = folder.path("run.jsonl");
    let words = ["trace", "--connect", &cluster.address, "-s", "60", "-n", "2000", "-o", &file];
    run("gt-cli", &words).good();
    client.kill();
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.lines().filter(|line| line.starts_with("{\"seq\"")).count() >= 2000);
    assert!(text.contains("\"event\":\"EXECUTE\""), "what the worker did is missing");
    assert!(text.contains("\"command\":\"Launch\"") && text.contains("\"took\""), "{text}");
    for (end, sign) in [("svg", "<svg"), ("html", "<canvas"), ("json", "traceEvents")] {
        let picture = folder.path(&format!("run.{end}"));
        run("gt-cli", &["visualize", &file, "-o", &picture]).good();
        assert!(std::fs::read_to_string(&picture).unwrap().contains(sign));
    }
    let picture = folder.path("run.png");
    run("gt-cli", &["visualize", &file, "-o", &picture]).good();
    assert!(std::fs::read(&picture).unwrap().starts_with(b"\x89PNG"));
    let (status, said) = run("gt-cli", &["visualize", &file, "-o", "run.bmp"]).bad();
    assert!(status == Some(1) && said.contains(".html, .svg, .png"), "{said}");
}

#[test]
fn a_trace_has_what_clients_and_workers_say_of_themselves_by_one_clock() {
    let cluster = Cluster::start(1);
    let folder = Folder::new("own");
    let words = ["--epochs", "100000", "--connect", &cluster.address];
    let mut client = Process::start(DIGITS, &words);
    client.until("epoch");
    let file = folder.path("run.jsonl");
    let words = ["trace", "--connect", &cluster.address, "-s", "1", "-o", &file];
    run("gt-cli", &words).good();
    client.kill();
    let text = std::fs::read_to_string(&file).unwrap();
    let events: Vec<Value> = text.lines().filter(|line| line.contains("seq")).map(object).collect();
    let of = |event: &str, party: &str| -> Vec<&Value> {
        events.iter().filter(|e| e["event"] == event && e["party"] == party).collect()
    };
    let time = |event: &Value, field: &str| event[field].as_f64().unwrap_or_default();
    let (began, ended) = (time(&events[0], "at"), events.iter().map(|e| time(e, "at")));
    let ended = ended.fold(0.0, f64::max);
    for (event, party) in [("RECORD", "client"), ("WAIT", "client"), ("EXECUTE", "worker")] {
        let own = of(event, party);
        assert!(!own.is_empty(), "no {event} of a {party} among {} events", events.len());
        // A second that is wrong would be seen.
        let is_near = |e: &&Value| (began - 1e6..=ended).contains(&time(e, "at"));
        assert!(own.iter().all(is_near), "{began} to {ended}: {own:?}");
    }
    // A worker runs a segment after the dispatcher has sent it, and before it hears of it.
    let ran = of("EXECUTE", "worker");
    let done = of("WORKER_RECV", "worker");
    let pairs = ran.iter().filter_map(|ran| {
        Some((ran, done.iter().find(|d| d["segment"] == ran["segment"] && d["command"] == "Done")?))
    });
    let mut n = 0;
    for (ran, done) in pairs {
        // Clocks are compared by an answer, which is late by less than this.
        let late = time(ran, "at") + time(ran, "took") - time(done, "at") - time(done, "took");
        assert!(late < 100_000.0, "{ran} {done}");
        n += 1;
    }
    assert!(n > 0, "no segment of {} is in both", ran.len());
}

#[test]
fn the_log_of_a_program_has_the_form_the_size_and_the_detail_that_it_asks_for() {
    let folder = Folder::new("log");
    let log = folder.path("gt.log");
    let env = [
        ("GT_INSTRUCTION_LOG", log.as_str()),
        ("GT_LOG_FORMAT", "json"),
        ("GT_LOG_SIZE", "64K"),
        ("GT_LOG_DETAIL", "instructions"),
    ];
    // So few lines that the memory of the log has room for all of them, however slow the disk is.
    Process::start_with(DIGITS, &["--epochs", "2"], &env).finish().good();
    let text = std::fs::read_to_string(&log).unwrap();
    let before = std::fs::read_to_string(format!("{log}.1")).unwrap();
    assert!(text.len() <= 64 << 10 && before.len() <= 64 << 10);
    let events: Vec<Value> = before.lines().chain(text.lines()).map(object).collect();
    assert!(events.iter().all(|event| event["note"].is_null()), "{text}");
    let planned = |event: &&Value| {
        let details = event["details"].as_str().unwrap_or_default();
        details.contains(" in the plan (examples/digits/")
    };
    assert!(events.iter().any(|event| planned(&event)), "{before}");
    assert!(events.iter().any(|e| e["command"] == "Launch" && e["took"].as_f64().is_some()));
    assert!(text.contains("\"event\":\"DISCONNECT\""), "{text}");
}

#[test]
fn a_log_that_cannot_be_written_stops_no_program() {
    let env = [("GT_INSTRUCTION_LOG", "/dev/full")];
    let finished = Process::start_with("examples/autograd", &[], &env).finish();
    assert!(finished.stderr.contains("the instruction log /dev/full ends here"), "{finished:#?}");
    finished.good();
}

#[test]
fn a_program_inserts_modifiers_without_a_change_to_the_core() {
    let printed = run("examples/modifier", &[]).good();
    let expected = [
        "sum of the product: 32768",
        "refused: the modifier forbid refused a segment: sin is forbidden here",
        "flops: [(\"products\", 1), (\"flops\", 65536)]",
        "forbid: [(\"refused\", 1)]",
    ];
    for line in expected {
        assert!(printed.contains(line), "no `{line}` in {printed}");
    }
}

#[test]
fn a_program_is_a_server_whose_modifier_refuses_an_op_to_all_clients() {
    let server = Process::start("examples/modifier", &["serve", "localhost:0"]);
    let cluster = Cluster::of(server, 1, |address, _| {
        Process::start("gt-cli", &["worker", "--connect", address])
    });
    let _session = gt::Session::connect(&cluster.address).unwrap().enter();
    let x = gt::DynTensor::ones([4], gt::DType::F32);
    assert_eq!(x.exp().exp().to_vec::<f32>().unwrap()[3].floor(), 15.0);
    let said = x.cos().to_vec::<f32>().unwrap_err().to_string();
    assert!(
        said.contains("the modifier forbid refused a segment: cos is forbidden here"),
        "{said}"
    );
}
