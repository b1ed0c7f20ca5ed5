//! The process's default session from its choice to its end, and further sessions. This is one
//! test, because a process has one default session.

use std::time::Duration;

use crate::process::{Cluster, Folder, Process};
use gt::SignalConfig;
use gt::prelude::*;

fn message<T>(result: Result<T>) -> String {
    result.err().expect("this is an error").to_string()
}

/// The sum of a tensor made in the current session.
fn twelve() -> Result<f64> {
    DynTensor::full([3], 4.0, DType::F32).sum(..).item()
}

/// The name of the worker of a session.
fn home(session: &Session) -> String {
    session.stats().unwrap().workers.pop().unwrap().name
}

#[test]
fn the_processs_own_session_is_chosen_used_ended_and_chosen_anew() {
    embedded();
    on_a_server(&Cluster::start(1));
    nobody_there();
}

fn embedded() {
    let said = message(gt::workers(0));
    assert!(said.starts_with("0 workers were asked for, but there can be 1 to 256"), "{said}");
    gt::workers(2).unwrap();
    let kept = DynTensor::full([3], 4.0, DType::F32);
    assert_eq!(kept.sum(..).item().unwrap(), 12.0);

    // A tensor that exceeds the room of a session fails alone.
    let line = line!() + 1;
    let huge = DynTensor::zeros([1 << 20, 1 << 20], DType::F32);
    let said = message((&huge + 1.0).sum(..).item());
    assert!(said.starts_with("full: f32[1048576,1048576] takes 4.4 TB"), "{said}");
    assert!(said.contains(&format!("tests/it/sessions.rs:{line}:")), "{said}");
    assert_eq!(kept.sum(..).item().unwrap(), 12.0);

    let said = message(gt::workers(3));
    assert!(said.starts_with("workers: the program has a session already"), "{said}");
    assert!(said.contains("tests/it/sessions.rs:") && said.contains("gt::disconnect()"), "{said}");
    let said = message(gt::connect("localhost:1"));
    assert!(said.starts_with("connect: the program has a session already"), "{said}");

    // Two sessions of one system live on its two workers, and each thread uses the session it
    // entered.
    let other = Session::open().unwrap();
    let own = Session::current().unwrap();
    let sum = std::thread::scope(|scope| {
        let entered = scope.spawn(|| {
            let _entered = other.enter();
            twelve().unwrap()
        });
        let fallen_back = scope.spawn(|| twelve().unwrap());
        entered.join().unwrap() + fallen_back.join().unwrap()
    });
    assert_eq!(sum, 24.0);
    assert_ne!(home(&own), home(&other));
    let elsewhere = {
        let _entered = other.enter();
        DynTensor::full([3], 1.0, DType::F32)
    };
    let said = message((&kept + &elsewhere).to_vec::<f32>());
    assert!(said.starts_with("add: the operands belong to different sessions"), "{said}");

    gt::disconnect();
    gt::disconnect();
    let said = message(kept.to_vec::<f32>());
    assert!(said.starts_with("the session is closed"), "{said}");
    assert_eq!(elsewhere.to_vec::<f32>().unwrap(), [1.0; 3]);
    // The other session still has a system of two workers, and the number cannot change.
    gt::workers(3).unwrap();
    let said = message(twelve());
    assert!(said.starts_with("the process already runs 2 worker(s), but 3"), "{said}");
    drop((elsewhere, other));
    gt::workers(1).unwrap();
    assert_eq!(twelve().unwrap(), 12.0);
    let own = Session::current().unwrap();
    assert_eq!(home(&own), home(&Session::current().unwrap()));
    gt::disconnect();
    drop(own);
    by_options();
}

fn by_options() {
    let said = message(gt::Options::new().engine("jax").make_default());
    assert!(said.starts_with("unknown engine `jax`") && said.contains("native"), "{said}");
    let said = message(gt::Options::new().workers(0).open());
    assert!(said.starts_with("0 workers were asked for"), "{said}");
    let options = gt::Options::new().workers(2).engine("native").device("cpu");
    let own = options.clone().make_default().unwrap();
    assert!(own.is(&Session::current().unwrap()));
    assert_eq!(twelve().unwrap(), 12.0);
    let said = message(options.clone().make_default());
    assert!(said.starts_with("make_default: the program has a session already"), "{said}");
    let other = options.open().unwrap();
    let _entered = other.enter();
    assert_eq!(twelve().unwrap(), 12.0);
    assert_ne!(home(&own), home(&other));
    // The running system has no such worker.
    let session = gt::Options::new().engine("torch").open().unwrap();
    let _entered = session.enter();
    let said = message(twelve());
    assert!(said.starts_with("no worker has engine torch: the workers are w1 ("), "{said}");
    gt::disconnect();
}

fn on_a_server(cluster: &Cluster) {
    let session = gt::connect(&cluster.address).unwrap();
    assert!(session.is(&Session::current().unwrap()));
    let said = message(gt::connect(&cluster.address));
    let known = format!("connected already, to the server at {}", cluster.address);
    assert!(said.contains(&known) && said.contains("Session::connect"), "{said}");
    let said = message(gt::workers(1));
    assert!(said.contains(&known), "{said}");
    let backward = SignalConfig { backward: Some("there".into()), ..SignalConfig::default() };
    gt::register_config("sessions-test", backward.clone()).unwrap();
    assert_eq!(session.stats().unwrap().signals.get("sessions-test"), Some(&backward));
    assert_eq!(std::thread::spawn(twelve).join().unwrap().unwrap(), 12.0);
    // Opens another session with the same server, and one by the server's address.
    let options = gt::Options::new().server(&*cluster.address).engine("native");
    for another in [Session::open(), Session::connect(&cluster.address), options.open()] {
        let another = another.unwrap();
        let _entered = another.enter();
        assert_eq!(twelve().unwrap(), 12.0);
        assert!(home(&another).starts_with("w1 ("), "{}", home(&another));
    }
    gt::disconnect();
}

fn nobody_there() {
    let began = gt_runtime::clock::now();
    let said = message(gt::connect("localhost:1"));
    let waited = gt_runtime::clock::now() - began;
    assert!(waited < Duration::from_secs(4), "{waited:?}");
    assert!(said.starts_with("no server at localhost:1"), "{said}");
    assert!(said.contains("tests/it/sessions.rs:"), "{said}");
    let said = message(gt::connect("nonsense"));
    assert!(said.contains("nonsense"), "{said}");
    // No server is connected, so the next operation opens a session in this process.
    assert_eq!(twelve().unwrap(), 12.0);
    gt::disconnect();
}

#[test]
fn a_faulty_configuration_of_the_environment_is_said_where_the_session_opens() {
    let folder = Folder::new("config");
    let file = folder.write("signals.yaml", "layer1: {bakward: x}\n");
    let run = |file: &str| {
        Process::start_with("examples/digits", &["--epochs", "1"], &[("GT_CONFIG", file)]).finish()
    };
    let (_, said) = run(&file).bad();
    assert!(said.contains("signals.yaml:1:10: layer1: unknown field `bakward`"), "{said}");
    assert!(said.contains("GT_CONFIG") && said.contains("did you mean `backward`?"), "{said}");
    let (_, said) = run("absent.yaml").bad();
    assert!(said.contains("GT_CONFIG: cannot read the configuration absent.yaml"), "{said}");
    // A valid configuration of other signals changes nothing.
    run(&folder.write("signals.yaml", "layer1: {backward: x}\n")).good();
}
