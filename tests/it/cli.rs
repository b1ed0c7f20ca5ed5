//! `gt-cli` in a shell: its output, its errors for bad input, and its exit status.

use crate::process::{Folder, Process, run};
use crate::snapshots::check;
use gt::prelude::*;

const GOOD: &str = "\
gt tape 1
%0 = input \"x\" : f32[Batch=2,3]
%1 = mul %0, 2.0
free %0
%2 = sum[1] %1
output %2 \"doubled\"
";

/// Tapes with a mistake, and the error.
const BAD: &[(&str, &str)] = &[
    ("unknown_op", "gt tape 1\n%0 = input : f32[2]\n%1 = mathmul %0, %0\n"),
    ("arity", "gt tape 1\n%0 = input : f32[2]\n%1 = add %0\n"),
    (
        "shapes",
        "gt tape 1\n%0 = input : f32[2,3]\n%1 = input : f32[4,5]\n%2 = matmul %0, %1\noutput %2\n",
    ),
    ("dtypes", "gt tape 1\n%0 = input : i64[2]\n%1 = mean[0] %0\noutput %1\n"),
    ("declared_type", "gt tape 1\n%0 = input : f32[2,3]\n%1 = sum[0] %0 : f32[2]\noutput %1\n"),
    ("cycle", "gt tape 1\n%0 = exp %1\n%1 = exp %0\noutput %1\n"),
    ("use_after_free", "gt tape 1\n%0 = input : f32[2]\nfree %0\n%1 = exp %0\noutput %1\n"),
    (
        "huge_dimension",
        "gt tape 1\n%0 = input : f32[99999999999999999999]\n%1 = input : \
         f32[4294967296,4294967296]\n",
    ),
    ("negative_dimension", "gt tape 1\n%0 = input : f32[-2]\n"),
    ("truncated", "gt tape 1\n%0 = input : f32[2]\n%1 = add %0,"),
    ("not_a_tape", "hello\n"),
    ("empty", ""),
];

#[test]
fn every_bad_tape_is_shown_at_its_place() {
    let folder = Folder::new("bad");
    for (name, text) in BAD {
        let file = folder.write("bad.gt", text);
        let (status, said) = run("gt-cli", &["compile", &file]).bad();
        assert_eq!(status, Some(1), "{name}: {said}");
        check(&format!("bad_{name}"), &said.replace(&file, "bad.gt"));
        // The JSON has the same message.
        let (status, said) = run("gt-cli", &["--json", "run", &file]).bad();
        assert_eq!(status, Some(1), "{name}: {said}");
        let json: serde_json::Value = serde_json::from_str(&said).unwrap();
        assert!(
            json["faults"].as_array().is_some_and(|faults| !faults.is_empty()),
            "{name}: {said}"
        );
    }
}

#[test]
fn a_configuration_is_shown_beside_the_scopes_it_is_about() {
    let folder = Folder::new("signals");
    let tape = "gt tape 1\n%0 = input : f32[2]\nenter \"layer1\"\nenter \"inner\"\n%1 = exp \
                %0\nexit \"inner\"\nexit \"layer1\"\noutput %1\n";
    let tape = folder.write("step.gt", tape);
    let yaml =
        "layer1:\n  shard: {axis: 0, workers: [0, 1]}\n  backward: grad1\nother: {compile: true}\n";
    let yaml = folder.write("signals.yaml", yaml);
    let plain = run("gt-cli", &["compile", &tape, "--emit", "graph"]).good();
    assert!(plain.contains("# signal layer1/inner\n"), "{plain}");
    let said = run("gt-cli", &["compile", &tape, "--emit", "graph", "--config", &yaml]).good();
    let comments = "# signal \"layer1\": shard axis 0 over workers 0, 1; backward \"grad1\"\n# \
                    signal \"inner\": not configured\n# no scope here is signal \"other\": \
                    compile\n";
    assert_eq!(said, format!("{comments}{plain}"));
    let object = run("gt-cli", &["--json", "compile", &tape, "--config", &yaml]).good();
    let object: serde_json::Value = serde_json::from_str(&object).unwrap();
    assert_eq!(object["signals"]["layer1"]["shard"]["workers"], serde_json::json!([0, 1]));
    assert!(object["signals"]["inner"].is_null(), "{object}");

    let bad = folder.write("bad.yaml", "layer1:\n  shrad: {}\n");
    let (status, said) = run("gt-cli", &["compile", &tape, "--config", &bad]).bad();
    assert_eq!(status, Some(1));
    assert!(said.contains("bad.yaml:2:3: layer1: unknown field `shrad`"), "{said}");
    assert!(said.contains("did you mean `shard`?"), "{said}");
}

#[test]
fn a_tape_is_shown_as_the_work_of_several_workers() {
    let folder = Folder::new("sharded");
    let tape = "\
gt tape 1
%0 = input \"x\" : f32[64,32]
%1 = input \"w\" : f32[32,16]
enter \"batch\"
%2 = matmul %0, %1
%3 = transpose[1,0] %0
%4 = matmul %3, %2
exit \"batch\"
%5 = mul %4, 0.01
%6 = sub %1, %5
output %6 \"w\"
";
    let tape = folder.write("step.gt", tape);
    let yaml = folder.write("signals.yaml", "batch:\n  shard: {axis: 0, workers: [0, 1, 2]}\n");
    let words = ["compile", &tape, "--config", &yaml, "--workers", "2"];
    let sharded = [&words[..], &["--emit", "sharded"]].concat();
    let text = run("gt-cli", &[&sharded[..], &["--explain", "%4"]].concat()).good();
    check("sharded", &text);

    let warning = "signal \"batch\" names 3 workers, but 2 are connected";
    let graph = run("gt-cli", &[&words[..], &["--emit", "graph"]].concat()).good();
    assert!(graph.contains(&format!("# warning: {warning}\n")), "{graph}");
    let object = run("gt-cli", &[&["--json"], &sharded[..]].concat()).good();
    let object: serde_json::Value = serde_json::from_str(&object).unwrap();
    assert_eq!(object["warnings"], serde_json::json!([warning]));
    let kinds = object["sharded"]["exchanges"].as_array().unwrap().iter();
    let kinds: Vec<&str> = kinds.map(|exchange| exchange["kind"].as_str().unwrap()).collect();
    assert!(kinds.contains(&"all-reduce"), "{kinds:?}");
    let (_, said) = run("gt-cli", &[&sharded[..], &["--explain", "%9"]].concat()).bad();
    assert!(said.contains("the tape has no value %9"), "{said}");

    let many = folder.write("many.yaml", "batch: {shard: {workers: [4000000000]}}\n");
    let words = ["compile", &tape, "--config", &many];
    run("gt-cli", &words).good();
    let (_, said) = run("gt-cli", &[&words[..], &["--emit", "sharded"]].concat()).bad();
    assert!(said.contains("add --workers N"), "{said}");
}

#[test]
fn bytes_that_are_no_tape_are_refused() {
    let folder = Folder::new("bytes");
    let mut binary = gt::ir::binary::encode(&gt::ir::text::parse(GOOD).unwrap().0);
    let whole = folder.write("whole.gt", &binary);
    assert!(run("gt-cli", &["compile", &whole]).good().contains("sum[1]"));
    binary.truncate(binary.len() - 3);
    for (name, bytes) in [("random.gt", vec![0xfe; 100]), ("truncated.gt", binary)] {
        let file = folder.write(name, bytes);
        let (status, said) = run("gt-cli", &["compile", &file]).bad();
        assert_eq!(status, Some(1));
        assert!(said.starts_with("error: ") && said.contains(name), "{said}");
    }
}

#[test]
fn a_tape_is_printed_as_tape_graph_and_dot() {
    let folder = Folder::new("compile");
    let file = folder.write("good.gt", GOOD);
    let both = run("gt-cli", &["compile", &file]).good();
    let tape = run("gt-cli", &["compile", &file, "--emit", "tape"]).good();
    let graph = run("gt-cli", &["compile", &file, "--emit", "graph"]).good();
    assert!(both.starts_with(&tape) && both.ends_with(&graph), "{both}");
    assert!(run("gt-cli", &["compile", &file, "--emit", "dot"]).good().starts_with("digraph"));
    check("compile", &both);
    // The output is a tape again.
    let again = folder.write("again.gt", &tape);
    assert_eq!(run("gt-cli", &["compile", &again, "--emit", "tape"]).good(), tape);
}

#[test]
fn every_stage_is_printed() {
    let folder = Folder::new("stages");
    let file = folder.write("good.gt", GOOD);
    for (stage, expected) in [
        ("canonical", "# key "),
        ("egraph", "# e-graph: "),
        ("optimized", "n0 = input 0 : f32[Batch=2,3]\n"),
        ("kernels", "kernel 0"),
        ("plan", "arena "),
        ("clif", "kernel 0 "),
        ("asm", "kernel 0 "),
        ("dot", "digraph gt {"),
    ] {
        let text = run("gt-cli", &["compile", &file, "--emit", stage]).good();
        assert!(
            text.lines().next().unwrap().contains(expected.trim_end_matches('\n')),
            "{stage}: {text}"
        );
        let object = run("gt-cli", &["--json", "compile", &file, "--emit", stage]).good();
        let object: serde_json::Value = serde_json::from_str(&object).unwrap();
        assert_eq!(
            (object["stage"].as_str(), object["text"].as_str()),
            (Some(stage), Some(&*text))
        );
        assert!(object["report"]["before"]["bytes"].as_u64().is_some(), "{object}");
    }
    let said = run("gt-cli", &["compile", &file, "--numerics", "fast"]).bad();
    assert!(said.0 == Some(2) && said.1.contains("exact, reassociate and approximate"), "{said:?}");
}

#[test]
fn tapes_are_compared_by_their_keys() {
    let folder = Folder::new("diff");
    let a = folder.write("a.gt", GOOD);
    // Different numbers, literals and names have the same key.
    let alike = GOOD.replace('%', "%7").replace("2.0", "3.0").replace("doubled", "tripled");
    let alike = folder.write("alike.gt", alike);
    let other = folder.write("other.gt", GOOD.replace("sum[1]", "sum[0]"));
    assert!(run("gt-cli", &["diff", &a, &alike]).good().starts_with("equal: key "));
    let finished = run("gt-cli", &["diff", &a, &other]);
    assert_eq!((finished.status.code(), &*finished.stderr), (Some(1), ""));
    assert!(finished.stdout.starts_with("entry 3: "), "{finished:?}");
    assert!(finished.stdout.contains("%2 = sum[0] %1"), "{finished:?}");
    let object = run("gt-cli", &["--json", "diff", &a, &other]).stdout;
    let object: serde_json::Value = serde_json::from_str(&object).unwrap();
    assert_eq!((object["equal"].as_bool(), object["entry"].as_u64()), (Some(false), Some(3)));
    let trouble = run("gt-cli", &["diff", &a, "missing.gt"]).bad();
    assert_eq!(
        trouble,
        (Some(2), "error: cannot read missing.gt: No such file or directory (os error 2)\n".into())
    );
}

#[test]
fn a_tape_runs_on_tensors_from_a_file() {
    let folder = Folder::new("run");
    let tape = folder.write("good.gt", GOOD);
    let inputs = folder
        .write("in.safetensors", safetensors(&[("x", &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])]));
    let outputs = folder.path("out.safetensors");
    run("gt-cli", &["run", &tape, "--inputs", &inputs, "--outputs", &outputs]).good();
    let file = std::fs::read(&outputs).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&file).unwrap();
    let doubled = tensors.tensor("doubled").unwrap();
    assert_eq!(doubled.shape(), [2]);
    assert_eq!(doubled.data(), [12.0_f32, 30.0].map(f32::to_le_bytes).concat());

    // Outputs are printed if no file is given for them.
    let printed = run("gt-cli", &["run", &tape, "--inputs", &inputs]).good();
    assert_eq!(printed, "doubled : f32[Batch=2]\n  12 30\n");
}

#[test]
fn a_compiled_program_runs_as_its_tape_does() {
    let folder = Folder::new("artifact");
    let tape = folder.write("good.gt", GOOD);
    let program = folder.path("good.gtp");
    let inputs = folder
        .write("in.safetensors", safetensors(&[("x", &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])]));
    assert_eq!(run("gt-cli", &["compile", &tape, "-o", &program]).good(), "");
    let printed = run("gt-cli", &["run", &program, "--inputs", &inputs]).good();
    assert_eq!(printed, "doubled : f32[Batch=2]\n  12 30\n");

    let whole = std::fs::read(&program).unwrap();
    let damaged = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        folder.write("damaged.gtp", bytes)
    };
    let cut = folder.write("cut.gtp", &whole[..whole.len() / 2]);
    let cases = [
        (vec!["run", &program], "no tensor for input `x` (f32[Batch=2,3])"),
        (
            vec!["run", &program, "--inputs", &inputs, "--connect", "localhost:1"],
            "runs in this process",
        ),
        (vec!["run", &cut, "--inputs", &inputs], "damaged"),
        (vec!["compile", &program], "is a compiled program, not a tape"),
    ];
    let flipped = damaged(whole.len() - 20);
    let cases = cases.into_iter().chain([(vec!["run", &flipped, "--inputs", &inputs], "damaged")]);
    for (words, expected) in cases {
        let (status, said) = run("gt-cli", &words).bad();
        assert!(status == Some(1) && said.contains(expected), "{words:?}: {said}");
    }
}

/// Tensors from before a trace are the inputs of its tape, without any work by hand.
#[test]
fn a_trace_is_compiled_and_run_as_it_is() {
    let folder = Folder::new("trace");
    let session = gt::embedded(1).unwrap();
    let _current = session.enter();
    let (x, w) = (DynTensor::from([1.0_f32, 2.0]), DynTensor::from([3.0_f32, -1.0]));
    let w = w.requires_grad();
    session.start_trace();
    let loss = (&x * &w).square().sum(..);
    loss.backward().unwrap();
    assert_eq!(loss.item().unwrap(), 13.0);
    let tape = gt::ir::text::print(&session.stop_trace());
    let names = [&x, &w].map(|tensor| tensor.value_id().unwrap().to_string());
    let file = folder.write("step.gt", &tape);
    assert!(run("gt-cli", &["compile", &file]).good().contains("mul"), "{tape}");
    let given = [(&*names[0], &[2][..], &[1.0, 2.0][..]), (&names[1], &[2], &[3.0, -1.0])];
    let given = folder.write("in.safetensors", safetensors(&given));
    let printed = run("gt-cli", &["run", &file, "--inputs", &given]).good();
    assert!(printed.ends_with(" : f32[]\n  13\n"), "{printed}");
}

#[test]
fn what_is_missing_or_does_not_fit_is_named() {
    let folder = Folder::new("missing");
    let tape = folder.write("good.gt", GOOD);
    let other = folder.write("other.safetensors", safetensors(&[("y", &[1], &[1.0])]));
    let wrong = folder.write("wrong.safetensors", safetensors(&[("x", &[2], &[1.0, 2.0])]));
    let cases = [
        (vec!["run", &tape], "no tensor for input `x` (f32[Batch=2,3]); no tensors are given"),
        (
            vec!["run", &tape, "--inputs", &other],
            "no tensor for input `x` (f32[Batch=2,3]); the file has y",
        ),
        (
            vec!["run", &tape, "--inputs", &wrong],
            "input `x` is f32[Batch=2,3] on the tape, but f32[2] in the file",
        ),
        (vec!["run", &tape, "--inputs", &tape], "not a safetensors file, or a damaged one"),
        (vec!["run", "no such file.gt"], "cannot read no such file.gt"),
    ];
    for (words, expected) in cases {
        let (status, said) = run("gt-cli", &words).bad();
        assert!(
            status == Some(1) && said.starts_with("error: ") && said.contains(expected),
            "{words:?}: {said}"
        );
        // The object has the message and the hint in fields of their own.
        let (status, object) = run("gt-cli", &[&words[..], &["--json"]].concat()).bad();
        assert_eq!(status, Some(1), "{object}");
        let object: serde_json::Value = serde_json::from_str(&object).unwrap();
        let (error, hint) = (object["error"].as_str().unwrap(), object["hint"].as_str());
        let hint = hint.map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
        assert_eq!(said, format!("error: {error}{hint}\n"));
        assert!(!error.contains("hint: "), "{error}");
    }
}

#[test]
fn works_and_tapes_are_measured() {
    let listed = run("gt-cli", &["bench", "--list"]).good();
    assert_eq!(listed.lines().count(), 25, "{listed}");
    assert!(listed.starts_with("mlp_small"), "{listed}");

    let folder = Folder::new("bench");
    let tape = folder.write("good.gt", GOOD);
    let words = ["bench", "mlp_small", "dispatch2000", &tape, "--steps", "4", "--tier", "0"];
    let table = run("gt-cli", &words).good();
    assert_eq!(table.lines().count(), 4, "{table}");

    let rows = run("gt-cli", &[&words[..], &["--json"]].concat()).good();
    let rows: Vec<serde_json::Value> =
        rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        rows.iter().map(|row| row["work"].as_str().unwrap()).collect::<Vec<_>>(),
        words[1..4]
    );
    let planned = run("gt-cli", &["bench", &tape, "--steps", "4", "--json"]).good();
    let planned: serde_json::Value = serde_json::from_str(&planned).unwrap();
    assert_eq!((planned["tier"].as_u64(), planned["launches"].as_u64()), (Some(1), Some(1)));
    for row in rows {
        assert_eq!((row["engine"].as_str(), row["tier"].as_u64()), (Some("native"), Some(0)));
        assert_eq!(row["steps"], 4);
        assert!(row["ms"].as_f64().unwrap() > 0.0 && row["first_s"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn a_decoder_runs_one_plan_wherever_it_stands() {
    let row = run("gt-cli", &["bench", "decode", "--steps", "140", "--json"]).good();
    let row: serde_json::Value = serde_json::from_str(&row).unwrap();
    // There are more steps than positions, so positions repeat. Every step ran as the plan, and
    // nothing was compiled for another position.
    assert_eq!((row["planned"].as_f64(), row["steps"].as_u64()), (Some(1.0), Some(140)));
    assert!(row["kernels_compiled"].as_u64().unwrap() < 100, "{row}");
}

#[test]
fn what_cannot_be_measured_is_said_once() {
    let folder = Folder::new("bench_bad");
    let bad = folder.write("bad.gt", BAD[0].1);
    for (word, expected) in [
        (
            "no_such_work",
            "error: there is no work and no file `no_such_work`\nhint: the works are mlp_small, ",
        ),
        ("missing.gt", "error: cannot read missing.gt"),
        (&bad, "error: unknown op `mathmul`"),
    ] {
        let (status, said) = run("gt-cli", &["bench", word, "--steps", "1"]).bad();
        assert_eq!(status, Some(1), "{word}: {said}");
        assert!(
            said.starts_with(expected) && said.matches("error: ").count() <= 2,
            "{word}: {said}"
        );
    }
}

#[test]
fn a_wrong_command_line_is_a_usage_error() {
    for words in [
        &["frobnicate"][..],
        &["run"],
        &["server", "-p", "99999"],
        &["compile", "a.gt", "--emit", "pdf"],
        &[],
    ] {
        let (status, said) = run("gt-cli", words).bad();
        assert!(
            status == Some(2) && (said.contains("Usage") || said.contains("--help")),
            "{words:?}: {said}"
        );
    }
    assert!(run("gt-cli", &["--help"]).good().contains("Examples:"));
}

/// A file of `f32` tensors.
fn safetensors(tensors: &[(&str, &[usize], &[f32])]) -> Vec<u8> {
    let bytes: Vec<Vec<u8>> = tensors
        .iter()
        .map(|(_, _, data)| data.iter().flat_map(|v| v.to_le_bytes()).collect())
        .collect();
    let views = tensors.iter().zip(&bytes).map(|((name, shape, _), bytes)| {
        let view =
            safetensors::tensor::TensorView::new(safetensors::Dtype::F32, shape.to_vec(), bytes)
                .unwrap();
        (name.to_string(), view)
    });
    safetensors::serialize(views.collect::<Vec<_>>(), None).unwrap()
}

#[test]
fn a_doctor_says_what_does_not_work() {
    let object = run("gt-cli", &["doctor", "--json"]).good();
    let object: serde_json::Value = serde_json::from_str(&object).unwrap();
    assert_eq!(
        (&object["ok"], &object["engines"]["native"]["works"]),
        (&true.into(), &true.into())
    );
    let asked = [("GT_DEVICE", "cuda:77"), ("GT_TIER", "7"), ("GT_CONECT", "a")];
    let said = Process::start_with("gt-cli", &["doctor"], &asked).finish();
    assert_eq!(said.status.code(), Some(1), "{said:?}");
    for words in
        ["trouble: requested: cuda:77", "trouble: GT_TIER", "advice: GT has no variable GT_CONECT"]
    {
        assert!(said.stdout.contains(words), "{words}: {}", said.stdout);
    }
}
