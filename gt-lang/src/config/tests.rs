//! What files say, and what is said of faulty ones. Signals have names of their own here: the
//! configuration is the process's.

use super::*;

fn parse(text: &str) -> Result<Signals> {
    parse_config(text, "gt.yaml").map(|file| file.signals)
}

#[test]
fn the_form_of_the_predecessor_and_what_is_new() {
    let text = "\
forward_layer1:
  shard:
    axis: 0
    workers: [0, 1, 2, 3]
  backward: backward_layer1
backward_layer1:
  shard: {axis: Batch, workers: null, replicated: true}
hot:
  compile: true
quiet: {}
wish:
  shard: {axis: -1, open: true, priority: 2}
";
    assert_eq!(
        parse(text).unwrap().to_string(),
        r#"signal "backward_layer1": shard replicated on all workers
signal "forward_layer1": shard axis 0 over workers 0, 1, 2, 3; backward "backward_layer1"
signal "hot": compile
signal "quiet": nothing
signal "wish": shard axis -1 over all workers, if nothing else is faster, priority 2
"#
    );
    for empty in ["", "# nothing yet\n", "{}"] {
        assert!(parse(empty).unwrap().is_empty(), "{empty:?}");
    }
}

#[test]
fn faults_are_named_with_their_line_and_what_was_meant() {
    let cases = [
        (
            "a:\n  shrad:\n    axis: 0\n",
            "gt.yaml:2:3: a: unknown field `shrad`, expected one of `shard`, `backward`, \
             `compile`\n  hint: did you mean `shard`?",
        ),
        (
            "a:\n  shard:\n    axis: 0\n    worker: [0]\n",
            "gt.yaml:4:5: a.shard: unknown field `worker`, expected one of `axis`, `workers`, \
             `mesh`, `columns`, `replicated`, `open`, `priority`, `reduction`, `microbatches`, \
             `schedule`\n  hint: did you mean `workers`?",
        ),
        (
            "a:\n  shard: {axs: 0}\n",
            "gt.yaml:2:11: a.shard: unknown field `axs`, expected one of `axis`, `workers`, \
             `mesh`, `columns`, `replicated`, `open`, `priority`, `reduction`, `microbatches`, \
             `schedule`\n  hint: did you mean `axis`?",
        ),
        (
            "a:\n  shard:\n    reduction: pinnd\n",
            "gt.yaml:3:16: a.shard.reduction: unknown variant `pinnd`, expected `usual` or \
             `pinned`\n  hint: did you mean `pinned`?",
        ),
        (
            "a:\n  shard:\n    axis: 1.5\n",
            "gt.yaml:3:11: a.shard.axis: invalid type: floating point `1.5`, expected an axis: its \
             number, or the name of a dimension",
        ),
        (
            "a:\n  shard:\n    mesh: 3\n",
            "gt.yaml:3:11: a.shard.mesh: invalid type: integer `3`, expected rows of workers, such \
             as [[0, 1], [2, 3]]",
        ),
        (
            "a:\n  shard:\n    priority: high\n",
            "gt.yaml:3:15: a.shard.priority: invalid type: string \"high\", expected u32",
        ),
        (
            "a:\n  nonsense: 1\n",
            "gt.yaml:2:3: a: unknown field `nonsense`, expected one of `shard`, `backward`, \
             `compile`",
        ),
        (
            "a:\n  shard:\n    axis: 9\n",
            "gt.yaml:3:11: a.shard.axis: axis 9: tensors have at most 8 axes",
        ),
        (
            "a:\n  shard:\n    workers: [0, 1, 0]\n",
            "gt.yaml:3:14: a.shard.workers: worker 0 is listed twice",
        ),
        (
            "a:\n  shard:\n    workers: []\n",
            "gt.yaml:3:14: a.shard.workers: the list of workers is empty; leave `workers` out to \
             mean all",
        ),
        (
            "a:\n  shard:\n    workers: [-1]\n",
            "gt.yaml:3:15: a.shard.workers[0]: invalid type: integer `-1`, expected u32",
        ),
        (
            "a:\n  compile: perhaps\n",
            "gt.yaml:2:12: a.compile: invalid type: string \"perhaps\", expected a boolean",
        ),
        (
            "a:\n  shard: 3\n",
            "gt.yaml:2:10: a.shard: invalid type: integer `3`, expected keys such as `axis` \
             and `workers`",
        ),
        ("a: {}\nb: {}\na: {}\n", "gt.yaml:3:1: signal \"a\" is configured twice"),
        (
            "- a\n",
            "gt.yaml:1:1: invalid type: sequence, expected signals, each a name with what is said \
             about it",
        ),
    ];
    for (text, want) in cases {
        assert_eq!(parse(text).unwrap_err().to_string(), want, "{text}");
    }
    let said = parse("a: [unclosed\n").unwrap_err().to_string();
    assert!(said.starts_with("gt.yaml:"), "{said}");
}

#[test]
fn a_file_asks_for_workers() {
    let file = parse_config("session: {workers: 2, engine: native}\na: {}\n", "gt.yaml").unwrap();
    let engine = Some("native".into());
    assert_eq!(file.session, Demand { workers: Some(2), engine, ..Demand::new() });
    assert_eq!(file.signals.len(), 1);
    let written = serde_yaml::to_string(&file).unwrap();
    assert_eq!(parse_config(&written, "gt.yaml").unwrap(), file, "{written}");
    assert_eq!(parse_config("session:\n", "gt.yaml").unwrap(), ConfigFile::default());
    for (text, want) in [
        (
            "session: {workers: 0}\n",
            "gt.yaml:1:10: session: 0 workers were asked for, but there can be 1 to 256",
        ),
        (
            "a: {}\nsession:\n  engines: torch\n",
            "gt.yaml:3:3: session: unknown field `engines`, expected one of `workers`, `engine`, \
             `device`, `auto`, `zero`\n  hint: did you mean `engine`?",
        ),
        (
            "session: {shard: {axis: 0}}\n",
            "gt.yaml:1:11: session: unknown field `shard`, expected one of `workers`, `engine`, \
             `device`, `auto`, `zero`",
        ),
        (
            "session: {auto: true, zero: 4}\n",
            "gt.yaml:1:10: session: there is no level 4 of ZeRO; the levels are 0 to 3",
        ),
        ("session: {}\nsession: {}\n", "gt.yaml:1:1: `session` is there twice"),
    ] {
        assert_eq!(parse(text).unwrap_err().to_string(), want, "{text}");
    }
}

#[test]
fn what_is_said_last_counts_and_a_faulty_file_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("signals.yaml");
    let compiled = SignalConfig { compile: true, ..SignalConfig::default() };
    assert_eq!(register_config("config-test-a", compiled.clone()).unwrap(), None);

    std::fs::write(&file, "config-test-a: {backward: b}\nconfig-test-b: {}\n").unwrap();
    load_config(&file).unwrap();
    let a = get_signal_config("config-test-a").unwrap().unwrap();
    assert_eq!((a.backward.as_deref(), a.compile), (Some("b"), false));
    assert!(get_signal_config("config-test-b").unwrap().is_some());
    assert_eq!(register_config("config-test-a", compiled.clone()).unwrap(), Some(a));

    std::fs::write(&file, "config-test-a: {}\nconfig-test-c: {compile: 7}\n").unwrap();
    let said = load_config(&file).unwrap_err().to_string();
    assert!(said.contains("signals.yaml:2:26: config-test-c.compile: "), "{said}");
    assert!(said.contains("config/tests.rs:"), "{said}");
    assert_eq!(get_signal_config("config-test-a").unwrap(), Some(compiled));
    assert_eq!(get_signal_config("config-test-c").unwrap(), None);

    let said = load_config(folder.path().join("absent.yaml")).unwrap_err().to_string();
    assert!(
        said.starts_with("cannot read the configuration ") && said.contains("absent"),
        "{said}"
    );
}

#[test]
fn meshes_are_grids_of_workers() {
    let check = |text: &str| {
        parse_config(text, "config.yaml").map(|file| file.signals).map_err(|e| e.to_string())
    };
    let mesh = "a: {shard: {mesh: [[0, 1], [2, 3]], axis: 0, columns: -1}}";
    let shown = check(mesh).unwrap().to_string();
    let want = "shard axis 0 over rows of workers 0, 1 | 2, 3, axis -1 over the columns";
    assert_eq!(shown, format!("signal \"a\": {want}\n"));
    assert_eq!(check("a: {shard: {workers: all}}"), check("a: {shard: {}}"));
    for (shard, want) in [
        ("mesh: [[0, 1], [2]]", "row 1 of the mesh has 1 workers, and the first row 2"),
        ("mesh: [[0, 1], [1, 2]]", "worker 1 is listed twice"),
        ("mesh: []", "the list of workers is empty"),
        ("mesh: [[0]], workers: [0]", "both `workers` and `mesh` are given"),
        ("columns: 1", "`columns` needs a `mesh`"),
        ("mesh: [[0, 1]], columns: 0", "rows and columns of the mesh both cut axis 0"),
        ("workers: some", "`some` is not a list of workers, nor `all`"),
    ] {
        let said = check(&format!("a: {{shard: {{{shard}}}}}")).unwrap_err();
        assert!(said.contains(want), "{shard}: {said}");
    }
}
