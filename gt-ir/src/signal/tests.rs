//! What signals refuse, how many there may be, and that the wire gives back what it was given.

use super::*;

fn shard(axis: impl Into<ShardAxis>, workers: &[u32]) -> SignalConfig {
    let shard = ShardConfig {
        axis: axis.into(),
        workers: Some(workers.to_vec()),
        ..ShardConfig::default()
    };
    SignalConfig { shard: Some(shard), ..SignalConfig::default() }
}

fn cut(microbatches: u32) -> SignalConfig {
    let shard = ShardConfig { microbatches: Some(microbatches), ..ShardConfig::default() };
    SignalConfig { shard: Some(shard), ..SignalConfig::default() }
}

#[test]
fn what_contradicts_itself_is_refused_and_changes_nothing() {
    let mut signals = Signals::new();
    signals.set("a", shard(0, &[0, 1])).unwrap();
    let before = signals.clone();
    let long = "x".repeat(MAX_STRING + 1);
    let backward = SignalConfig { backward: Some(String::new()), ..SignalConfig::default() };
    for (name, config, want) in [
        ("a", shard(8, &[0]), "signal \"a\": axis 8: tensors have at most 8 axes"),
        ("a", shard(-9, &[0]), "signal \"a\": axis -9: tensors have at most 8 axes"),
        ("a", shard(0, &[2, 1, 2]), "signal \"a\": worker 2 is listed twice"),
        (
            "a",
            cut(0),
            "signal \"a\": 0 micro-batches; leave `microbatches` out to compute all at once",
        ),
        ("a", cut(257), "signal \"a\": 257 micro-batches are more than the 256 there may be"),
        ("a", shard("", &[1]), "signal \"a\": a name is empty"),
        ("b", backward, "signal \"b\": a name is empty"),
        ("", SignalConfig::default(), "signal \"\": a name is empty"),
    ] {
        assert_eq!(signals.set(name, config).unwrap_err().to_string(), want);
    }
    assert!(signals.set("a", shard(0, &[])).is_err());
    assert!(signals.set("a", shard(0, &vec![7; MAX_LISTED + 1])).is_err());
    assert!(signals.set(&long, SignalConfig::default()).is_err());
    assert_eq!(signals, before);
    assert!(signals.set("a", shard(-8, &[3])).unwrap().is_some());
}

#[test]
fn there_is_room_for_so_many_and_no_more() {
    let mut signals = Signals::new();
    for i in 0..MAX_SIGNALS {
        signals.set(&i.to_string(), SignalConfig::default()).unwrap();
    }
    let said = signals.set("more", SignalConfig::default()).unwrap_err().to_string();
    assert_eq!(said, "signal \"more\": there are 1024 signals already, the limit");
    let wide = shard(0, &(0..MAX_LISTED as u32).collect::<Vec<_>>());
    let fits = (0..MAX_SIGNALS).take_while(|i| signals.set(&i.to_string(), wide.clone()).is_ok());
    let fits = fits.count();
    assert!(0 < fits && fits < MAX_SIGNALS && signals.bytes() <= MAX_SIGNAL_BYTES, "{fits}");
}

#[test]
fn the_wire_gives_back_what_it_was_given_and_nothing_above_the_limits() {
    let mut signals = Signals::new();
    signals.set("a", shard("Batch", &[0, 1])).unwrap();
    let all = SignalConfig {
        shard: Some(ShardConfig {
            axis: (-1).into(),
            replicated: true,
            open: true,
            priority: 3,
            reduction: Reduction::Pinned,
            microbatches: Some(4),
            schedule: Schedule::Gpipe,
            ..ShardConfig::default()
        }),
        backward: Some("a".into()),
        compile: true,
    };
    signals.set("b", all).unwrap();
    let bytes = postcard::to_stdvec(&signals).unwrap();
    assert_eq!(postcard::from_bytes::<Signals>(&bytes).unwrap(), signals);
    for bad in [shard(9, &[0]), shard(0, &[1, 1]), cut(0), cut(257)] {
        let raw = BTreeMap::from([("a".to_owned(), bad)]);
        let bytes = postcard::to_stdvec(&raw).unwrap();
        assert!(postcard::from_bytes::<Signals>(&bytes).is_err());
    }
    assert_eq!(
        signals.to_string(),
        "signal \"a\": shard axis Batch over workers 0, 1\nsignal \"b\": shard replicated on all \
         workers, 4 micro-batches by gpipe, if nothing else is faster, pinned sums, priority 3; \
         backward \"a\"; compile\n"
    );
}
