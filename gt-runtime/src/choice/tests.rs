//! Choices and errors for wishes, case by case, and the names of engines and devices.

use super::*;

fn wish(engine: &str, devices: &str) -> Wish {
    let said = |text: &'static str| (!text.is_empty()).then_some(text);
    let (engine, devices) = (engine.to_owned().leak(), devices.to_owned().leak());
    Wish {
        engine: said(engine).map(|text| text.parse().unwrap()),
        devices: said(devices).map(|text| text.parse().unwrap()),
    }
}

fn here(torch: bool, cuda: bool, n_gpus: usize) -> Here {
    Here { torch, cuda, gpus: vec!["H200".into(); n_gpus], why: "no driver".into() }
}

/// The choice in words, or the first line of the error.
fn said(engine: &str, devices: &str, here: &Here) -> String {
    match decide(&wish(engine, devices), here) {
        Ok(choice) => {
            let found = if choice.found.is_some() { " found" } else { "" };
            format!("{} {}{found}", choice.engine, listed(choice.devices.iter()))
        }
        Err(why) => why.to_string().lines().next().unwrap_or_default().to_owned(),
    }
}

#[test]
fn wishes_are_granted_or_refused_with_what_is_missing() {
    let (plain, torch) = (here(false, false, 0), here(true, false, 0));
    let (idle, two) = (here(true, true, 0), here(true, true, 2));
    for (engine, devices, here, want) in [
        ("", "", &plain, "native cpu"),
        ("", "", &torch, "native cpu"),
        ("", "", &idle, "native cpu"),
        ("", "", &two, "torch cuda:0 found"),
        ("native", "", &two, "native cpu"),
        ("torch", "", &torch, "torch cpu"),
        ("torch", "", &two, "torch cuda:0"),
        ("", "cpu", &two, "native cpu"),
        ("torch", "cpu", &two, "torch cpu"),
        ("", "cuda", &two, "torch cuda:0"),
        ("", "cuda:1,cpu", &two, "torch cuda:1,cpu"),
        ("", "cpu,cpu", &plain, "native cpu,cpu"),
        ("", "simulated", &torch, "torch simulated"),
        ("", "simulated", &plain, "the engine torch: this program was built without libtorch"),
        ("native", "simulated", &torch, "the engine native computes on the cpu, not on simulated"),
        ("", "all", &two, "torch cuda:0,cuda:1"),
        ("torch", "", &plain, "the engine torch: this program was built without libtorch"),
        ("", "cuda:1", &torch, "cuda:1: this program was built without CUDA"),
        ("", "all", &plain, "all: this program was built without CUDA"),
        ("", "all", &idle, "all: no driver"),
        ("torch", "cuda", &idle, "cuda:0: no driver"),
        ("", "cuda:2", &two, "there is no cuda:2 here"),
        ("native", "cuda", &two, "the engine native computes on the cpu, not on cuda:0"),
        ("native", "all", &two, "the engine native computes on the cpu, not on all"),
    ] {
        assert_eq!(said(engine, devices, here), want, "{engine} {devices} {here:?}");
    }
}

#[test]
fn a_gpu_that_was_found_and_cannot_be_used_is_done_without() {
    let config = NativeConfig { threads: 1, ..NativeConfig::host() };
    let found = Choice { found: Some("H200".into()), ..Choice::native() };
    let begun = found.begin(config.clone()).unwrap();
    let news = "computing on cpu (H200); GT_ENGINE=native keeps to the processor";
    assert_eq!(begun.news.as_deref(), Some(news));
    // No machine has so many devices.
    let devices = vec![Device::Cuda(9_999)];
    let found = Choice { engine: EngineKind::Torch, devices, ..found };
    let begun = found.begin(config.clone()).unwrap();
    assert_eq!((begun.choice, begun.engine.info().name), (Choice::native(), "native".into()));
    let news = begun.news.unwrap();
    assert!(news.starts_with("cuda:9999 (H200) is not used: "), "{news}");
    assert!(Choice { found: None, ..found }.begin(config).is_err());
}

#[test]
fn flags_come_before_the_environment() {
    let or = |flags: (&str, &str), env: (&str, &str)| wish(flags.0, flags.1).or(wish(env.0, env.1));
    assert_eq!(or(("", ""), ("torch", "cuda")), wish("torch", "cuda"));
    assert_eq!(or(("native", ""), ("torch", "cpu")), wish("native", "cpu"));
    assert_eq!(or(("", "cpu"), ("torch", "cuda")), wish("torch", "cpu"));
    // The environment's choice of the other half contradicts the flag.
    assert_eq!(or(("native", ""), ("", "cuda:1")), wish("native", ""));
    assert_eq!(or(("", "all"), ("native", "")), wish("", "all"));
}

#[test]
fn names_round_trip_and_unknown_ones_are_told_the_known() {
    for kind in EngineKind::ALL {
        assert_eq!(kind.to_string().parse(), Ok(kind));
    }
    for text in ["all", "cpu", "cuda:0,cuda:3"] {
        assert_eq!(text.parse::<Devices>().unwrap().to_string(), text);
    }
    let error = "jax".parse::<EngineKind>().unwrap_err().to_string();
    assert_eq!(error, "unknown engine `jax`\nhint: the engines are native and torch");
    for text in ["", "gpu", "cuda:0,", "cuda:0,all"] {
        let error = text.parse::<Devices>().unwrap_err().to_string();
        assert!(error.contains("hint: the devices are cpu, cuda"), "{text}: {error}");
    }
}
