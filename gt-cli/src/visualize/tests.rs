//! Timelines of small traces, and of files that are none.

mod browser;

use super::model::{Kind, Timeline};
use super::{html, perfetto, read, svg};
use std::path::PathBuf;

const HEAD: &str =
    "{\"gt_log\":1,\"host\":\"pi\",\"program\":\"gt-cli\",\"pid\":7,\"began_ns\":1000}\n";

fn line(at: f64, event: &str, party: &str, name: &str, command: &str, rest: &str) -> String {
    format!(
        "{{\"seq\":1,\"at\":{at},\"event\":\"{event}\",\"party\":\"{party}\",\"name\":\"{name}\",\
         \"command\":\"{command}\"{rest}}}\n"
    )
}

fn sample() -> String {
    [
        HEAD.to_owned(),
        line(1000.0, "RECV", "client", "s1", "Launch", ",\"details\":\"template 0\""),
        line(1010.0, "WORKER_SEND", "worker", "w1", "Launch", ""),
        line(1020.0, "RECV", "client", "s1", "Fetch", ",\"details\":\"r5 %3\""),
        line(1030.0, "WORKER_RECV", "worker", "w1", "Done", ",\"took\":400.0"),
        line(1500.0, "SEND", "client", "s1", "Chunk", ",\"bytes\":64,\"details\":\"r5 %3: 64\""),
        line(1600.0, "EXECUTE", "worker", "w2", "matmul", ",\"took\":50,\"live\":4096"),
    ]
    .concat()
}

/// What a worker and a client say of themselves, beside what the server says.
fn own() -> String {
    [
        sample(),
        line(1000.0, "RECORD", "client", "s1", "Record", ",\"took\":20"),
        line(1020.0, "WAIT", "client", "s1", "Wait", ",\"took\":490"),
        line(1040.0, "QUEUE", "worker", "w1", "Queue", ",\"took\":10,\"session\":\"s1\""),
        line(1050.0, "EXECUTE", "worker", "w1", "Launch", ",\"took\":380,\"session\":\"s1\""),
        line(1440.0, "EXCHANGE", "worker", "w1", "Exchange", ",\"took\":9,\"bytes\":8"),
    ]
    .concat()
}

/// A file with this text, which goes with the test's folder.
fn traced(name: &str, text: impl AsRef<[u8]>) -> anyhow::Result<read::Trace> {
    let path = file(name, text);
    let read = read::traces(std::slice::from_ref(&path));
    std::fs::remove_file(path).unwrap();
    read
}

fn file(name: &str, text: impl AsRef<[u8]>) -> PathBuf {
    let path = std::env::temp_dir().join(format!("gt-trace-{name}-{}", std::process::id()));
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn lanes_have_waits_work_and_transfers() {
    let timeline = Timeline::of(traced("lanes", sample()).unwrap());
    let lane = |name: &str| timeline.lanes.iter().find(|lane| lane.name == name).unwrap();
    let waits = &lane("s1").spans;
    assert_eq!((waits[0].kind, waits[0].at, waits[0].took), (Kind::Wait, 20.0, 480.0));
    assert_eq!(lane("w2").spans[0].kind, Kind::Contract);
    assert_eq!(lane("dispatcher").spans.len(), 5);
    assert_eq!(timeline.transfers.len(), 1);
    assert_eq!((timeline.length, timeline.memory[0].samples[0]), (650.0, (650.0, 4096)));
}

#[test]
fn a_worker_of_two_logs_is_one_and_its_memory_falls_to_nothing() {
    let own = [
        sample(),
        line(2000.0, "EXECUTE", "worker", "w2 node1 (pi, pid 7)", "matmul", ",\"took\":50"),
        line(2100.0, "EXECUTE", "worker", "w2 node1 (pi, pid 7)", "Upload", ",\"took\":50"),
        line(2200.0, "EXECUTE", "worker", "worker 0", "Upload", ",\"took\":50"),
    ];
    let timeline = Timeline::of(traced("two", own.concat()).unwrap());
    let names: Vec<&str> = timeline.lanes.iter().map(|lane| lane.name.as_str()).collect();
    assert_eq!(names, ["s1", "dispatcher", "w2 node1", "worker 0"]);
    assert_eq!(timeline.memory[0].samples, [(650.0, 4096), (1050.0, 0)]);
}

#[test]
fn files_of_several_processes_have_one_clock() {
    let late =
        HEAD.replace("1000}", "2001000}") + &line(1000.0, "SEND", "client", "s1", "Note", "");
    let paths = [file("a", sample()), file("b", &late)];
    let trace = read::traces(&paths).unwrap();
    paths.iter().for_each(|path| std::fs::remove_file(path).unwrap());
    assert_eq!(trace.events.last().map(|event| event.at), Some(2000.0));
    assert_eq!(trace.processes.len(), 2);
}

#[test]
fn a_file_that_is_given_twice_is_read_once() {
    let path = file("twice", sample());
    let again = path.parent().unwrap().join(".").join(path.file_name().unwrap());
    let trace = read::traces(&[path.clone(), path.clone(), again]).unwrap();
    std::fs::remove_file(path).unwrap();
    assert_eq!((trace.events.len(), trace.processes.len()), (6, 1));
}

#[test]
fn the_page_of_standard_input_is_standard_output() {
    let page = |trace: &str| super::beside(&[trace.into(), "b.jsonl".into()], "html");
    assert_eq!(page("-"), PathBuf::from("-"));
    assert_eq!(page("a/run.jsonl"), PathBuf::from("a/run.html"));
}

#[test]
fn files_that_are_no_traces_are_errors_that_say_so() {
    let why = |name: &str, text: &str| format!("{:#}", traced(name, text).err().unwrap());
    assert!(why("empty", "").contains("this is no trace"));
    assert!(why("columns", "GT instruction log\n").contains("this is no trace"));
    assert!(why("none", HEAD).contains("there are no events"));
    assert!(why("other", &format!("{HEAD}{{\"x\":1}}\n{HEAD}")).contains("line 2 is no event"));
    let endless = line(1e300, "RECV", "client", "s", "Run", "");
    assert!(why("time", &(HEAD.to_owned() + &endless)).contains("a time that no event has"));
    let long = format!("{HEAD}{}", "x".repeat(2 << 20));
    assert!(why("long", &long).contains("line 2 is longer than"));
    let cut = sample() + "{\"seq\":9,\"at\":17";
    let trace = traced("cut", &cut).unwrap();
    assert_eq!(trace.notes, ["line 8, the last, is cut off"]);
}

#[test]
fn a_profile_is_called_one() {
    let profile =
        "{\"displayTimeUnit\":\"ms\",\"gt_profile\":{}}".to_owned() + &" ".repeat(2 << 20);
    let said = format!("{:#}", traced("profile", profile).err().unwrap());
    assert!(said.contains("this is a profile") && said.contains("gt-cli profile"), "{said}");
}

#[test]
fn names_cannot_leave_their_place_in_a_picture() {
    let evil = "</script><svg onload=x>&amp;";
    let text = HEAD.to_owned() + &line(1.0, "EXECUTE", "worker", evil, evil, ",\"took\":9");
    let timeline = Timeline::of(traced("evil", &text).unwrap());
    let picture = svg::draw(&timeline, evil);
    assert!(!picture.contains("<svg onload") && picture.contains("&lt;svg onload"));
    let page = html::page(&timeline, evil);
    assert_eq!(page.matches("</script>").count(), 1);
    assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("src="));
    let events: serde_json::Value = serde_json::from_str(&perfetto::events(&timeline)).unwrap();
    assert_eq!(events["traceEvents"].as_array().map(Vec::len), Some(5));
}

#[test]
fn a_picture_stays_small_whatever_the_number_of_events() {
    let lines =
        (0..50_000).map(|n| line(f64::from(n), "EXECUTE", "worker", "w", "add", ",\"took\":0.5"));
    let text: String = std::iter::once(HEAD.to_owned()).chain(lines).collect();
    let timeline = Timeline::of(traced("many", &text).unwrap());
    assert!(svg::draw(&timeline, "many").len() < 600_000);
}

#[test]
fn a_report_on_a_segment_that_began_before_the_trace_does_not_make_it_longer() {
    let early = line(10.0, "WORKER_RECV", "worker", "w1", "Done", ",\"took\":990.0,\"live\":8");
    let timeline = Timeline::of(traced("early", &(sample() + &early)).unwrap());
    assert_eq!(timeline.length, 650.0);
    assert_eq!(timeline.memory[0].samples[0], (0.0, 8));
}

#[test]
fn the_instructions_of_plans_share_the_time_of_their_launch_on_a_lane_of_their_own() {
    let op = |op: &str| {
        let details = format!(",\"details\":\"%1 = {op} %0 in the plan (a.rs:1:2)\"");
        line(1431.0, "EXECUTE", "worker", "w1", op, &details)
    };
    let text = own() + &op("matmul") + &op("relu");
    let timeline = Timeline::of(traced("ops", text).unwrap());
    let lane = timeline.lanes.iter().find(|lane| lane.name == "w1 ops").unwrap();
    let spans: Vec<_> = lane.spans.iter().map(|span| (span.kind, span.at, span.took)).collect();
    assert_eq!(spans, [(Kind::Contract, 50.0, 190.0), (Kind::Pointwise, 240.0, 190.0)]);
    let launch = &timeline.lanes.iter().find(|lane| lane.name == "w1").unwrap().spans[0];
    assert_eq!((launch.kind, launch.took), (Kind::Plan, 380.0));
}

#[test]
fn what_clients_and_workers_say_of_themselves_takes_the_place_of_reports() {
    let timeline = Timeline::of(traced("own", own()).unwrap());
    let kinds = |name: &str| -> Vec<Kind> {
        let lane = timeline.lanes.iter().find(|lane| lane.name == name).unwrap();
        lane.spans.iter().map(|span| span.kind).collect()
    };
    assert_eq!(kinds("s1"), [Kind::Record, Kind::Wait]);
    assert_eq!(kinds("w1"), [Kind::Plan]);
    assert_eq!(kinds("w1 exchanges"), [Kind::Transfer]);
    assert_eq!(kinds("w1 queue"), [Kind::Wait]);
}

#[test]
fn values_go_from_the_exchanges_of_a_worker_to_the_worker_that_receives_them() {
    let own = |name: &str, event: &str, details: &str| {
        let more = ",\"took\":9,\"bytes\":64,\"session\":\"s1\"";
        line(9.0, event, "worker", name, "", &format!("{more},\"details\":\"{details}\""))
    };
    let text = [
        HEAD.to_owned(),
        own("w2", "EXCHANGE", ""),
        own("w10", "EXECUTE", ""),
        own("w3", "EXECUTE", ""),
        own("w2", "GIVE", "to w3"),
        own("w3", "GIVE", "to w10"),
        // A worker that is gone.
        own("w3", "GIVE", "to w7"),
        own("w3", "GIVE", ""),
    ];
    let timeline = Timeline::of(traced("team", text.concat()).unwrap());
    let names: Vec<&str> = timeline.lanes.iter().map(|lane| lane.name.as_str()).collect();
    assert_eq!(names, ["w2 exchanges", "w3", "w10"]);
    let arrows = timeline.transfers.iter().map(|t| (t.from, t.to, t.bytes, t.took));
    assert_eq!(arrows.collect::<Vec<_>>(), [(0, 1, 64, 9.0), (1, 2, 64, 9.0)]);
}

#[test]
fn a_client_waits_to_the_end_for_what_it_has_asked_for() {
    let ask = |name: &str| line(1700.0, "RECV", "client", name, "Fetch", ",\"details\":\"r6 %9\"");
    let gone = "{\"seq\":1,\"at\":1800,\"event\":\"DISCONNECT\",\"party\":\"server\",\"name\":\"\",\
                \"command\":\"Session\",\"session\":\"s2\"}\n";
    let late = line(1720.0, "RECORD", "client", "s1", "Record", ",\"took\":30");
    let end = line(2000.0, "EXECUTE", "worker", "w1", "Launch", ",\"took\":500");
    let waits = |text: String| -> Vec<(f64, f64)> {
        let timeline = Timeline::of(traced("open", text).unwrap());
        let lanes = timeline.lanes.iter().filter(|lane| lane.name.starts_with('s'));
        let waits = lanes.flat_map(|lane| &lane.spans).filter(|span| span.kind == Kind::Wait);
        waits.map(|span| (span.at, span.took)).collect()
    };
    let all = sample() + &ask("s1") + &ask("s2") + gone + &end;
    assert_eq!(waits(all), [(20.0, 480.0), (700.0, 800.0)]);
    let all = own() + &ask("s1") + &late + &end;
    assert_eq!(waits(all), [(20.0, 490.0), (750.0, 750.0)]);
    let rest = |at| line(at, "WAIT", "client", "s1", "Wait", ",\"took\":90");
    assert_eq!(waits(own() + &rest(1510.0) + &rest(1601.0)), [(20.0, 671.0)]);
}

#[test]
fn lanes_of_one_worker_differ_however_long_its_name_is_and_clients_have_their_programs() {
    let worker = |name, event| line(9.0, event, "worker", name, "Plan", ",\"took\":9");
    let about = |event, session, details| {
        let more =
            format!(",\"session\":\"{session}\",\"details\":\"session {session} {details}\"");
        line(1.0, event, "server", "", "Session", &more)
    };
    let (full, name) = ("w2 wbä-machine-of-lab (pi, pid 71)", "w2 wbä-machine-of-lab");
    let text = [
        HEAD.to_owned(),
        "{\"names\":{\"s4\":\"vae\",\"w1\":\"node1\"}}\n".into(),
        about("CONNECT", "s1", "opened by gpt (pi, pid 7)"),
        about("DISCONNECT", "s2", "of digits (pi, pid 8) closed: it said good-bye"),
        about("CONNECT", "s3", "opened by  (pi, pid 7)"),
        ["EXECUTE", "COMPILE", "EXCHANGE", "QUEUE"].map(|event| worker(full, event)).concat(),
        worker("w1", "COMPILE"),
        ["s1", "s2", "s3", "s4"].map(|name| line(2.0, "SEND", "client", name, "Note", "")).concat(),
    ];
    let timeline = Timeline::of(traced("names", text.concat()).unwrap());
    let names: Vec<String> = timeline.lanes.iter().map(|lane| lane.short(18)).collect();
    let clients = ["s1 gpt", "s2 digits", "s3", "s4 vae", "dispatcher", "w1 node1 compiler"];
    let ends =
        ["w2 wbä-machine-o..", "w2 wbä-mac.. queue", "w2 wbä-.. compiler", "w2 wbä.. exchanges"];
    assert_eq!(names, [&clients[..], &ends[..]].concat());
    let sessions: Vec<_> = timeline.lanes.iter().filter_map(|lane| lane.session()).collect();
    assert_eq!(sessions, [1, 2, 3, 4]);
    assert!(svg::draw(&timeline, "names").contains(&format!("<title>{name} queue</title>")));
}

#[test]
fn transfers_between_workers_show_beside_larger_uploads_of_the_whole_time() {
    let text: String = (0..1000)
        .map(|n| {
            let at = f64::from(n);
            let upload = line(at, "RECV", "client", "s1", "Run", ",\"bytes\":100000");
            let give = line(at, "GIVE", "worker", "w1", "", ",\"bytes\":64,\"details\":\"to w2\"");
            let few = line(at, "GIVE", "worker", "w2", "", ",\"bytes\":8,\"details\":\"to w1\"");
            let run = |name| line(at, "EXECUTE", "worker", name, "", ",\"took\":1");
            upload + &give + if n % 100 == 0 { &few } else { "" } + &run("w1") + &run("w2")
        })
        .collect();
    let timeline = Timeline::of(traced("fair", HEAD.to_owned() + &text).unwrap());
    let lane = |name: &str| timeline.lanes.iter().position(|lane| lane.name == name).unwrap();
    let times = |from: &str, to: &str| -> Vec<f64> {
        let pair = (lane(from), lane(to));
        let between = timeline.transfers.iter().filter(|t| (t.from, t.to) == pair);
        between.map(|transfer| transfer.at).collect()
    };
    assert_eq!(timeline.transfers.len(), 300);
    assert_eq!(times("w2", "w1").len(), 10);
    for shown in [times("w1", "w2"), times("s1", "dispatcher")] {
        assert_eq!((shown.len(), shown[0]), (145, 0.0));
        let gaps: Vec<f64> = shown.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.iter().all(|gap| [6.0, 7.0].contains(gap)), "{gaps:?}");
    }
}

#[test]
fn transfers_are_arrows_from_lane_to_lane_in_perfetto() {
    let give = ",\"took\":9,\"bytes\":64,\"details\":\"to w2\"";
    let text = own() + &line(1450.0, "GIVE", "worker", "w1", "", give);
    let timeline = Timeline::of(traced("flows", text).unwrap());
    let events: serde_json::Value = serde_json::from_str(&perfetto::events(&timeline)).unwrap();
    let events = events["traceEvents"].as_array().unwrap();
    for (n, transfer) in timeline.transfers.iter().enumerate() {
        let end = transfer.at + transfer.took;
        for (phase, lane, at) in [("s", transfer.from, transfer.at), ("f", transfer.to, end)] {
            let flow = events.iter().find(|e| e["ph"] == phase && e["id"] == n).unwrap();
            assert_eq!((&flow["tid"], &flow["ts"]), (&lane.into(), &at.into()));
            let named = |e: &&serde_json::Value| e["ph"] == "M" && e["tid"] == flow["tid"];
            let name = events.iter().find(named).unwrap();
            assert_eq!((&name["pid"], &flow["bp"]), (&flow["pid"], &"e".into()));
            assert_eq!(name["args"]["name"], timeline.lanes[lane].name);
        }
    }
    let names: Vec<&str> = timeline.lanes.iter().map(|lane| lane.name.as_str()).collect();
    let give = timeline.transfers.iter().find(|t| t.took > 0.0).unwrap();
    assert_eq!((names[give.from], names[give.to]), ("w1 exchanges", "w2"));
}

#[test]
fn whatever_is_cut_flipped_or_mixed_in_a_trace_is_drawn_or_an_error() {
    let whole = own().into_bytes();
    let (mut chance, mut n_drawn) = (crate::chance::Chance::new(7), 0);
    for _ in 0..1500 {
        let bytes = chance.damaged(&whole);
        match traced("damaged", &bytes) {
            Err(error) => assert!(!format!("{error:#}").is_empty()),
            Ok(trace) => {
                let timeline = Timeline::of(trace);
                let drawn = [svg::draw(&timeline, "x"), html::page(&timeline, "x")];
                assert!(drawn.iter().all(|text| text.len() < 1_000_000));
                let events = perfetto::events(&timeline);
                assert!(serde_json::from_str::<serde_json::Value>(&events).is_ok(), "{events}");
                n_drawn += 1;
            }
        }
    }
    assert!((100..1400).contains(&n_drawn), "{n_drawn}");
}

#[test]
fn a_file_writes_nothing_on_a_terminal_but_text() {
    let text = own() + "{\"note\":\"\\u001b]0;owned\\u0007 3 events are missing\"}\n";
    let trace = traced("terminal", text).unwrap();
    assert_eq!(trace.notes, ["?]0;owned? 3 events are missing"]);
    let cut = [own().as_bytes(), b"{\"seq\":1,\"name\":\"\xe2\x82"].concat();
    assert_eq!(traced("letter", cut).unwrap().notes, ["line 13, the last, is cut off"]);
    let broken = [own().as_bytes(), b"{\"seq\":1,\"name\":\"\xe2\x82\"}\n"].concat();
    let why = format!("{:#}", traced("broken", broken).err().unwrap());
    assert!(why.contains("line 13 is no event"), "{why}");
}
