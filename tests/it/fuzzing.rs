//! The fuzz targets on a few inputs: their seeds, seeds with some bytes changed, and random bytes.

use gt::ir::testing::Source;

#[expect(unreachable_pub, reason = "the targets are included as they are")]
#[path = "../../fuzz/src/lib.rs"]
mod targets;

/// Targets that run programs, which takes longer than reading a file.
const RUNNING: [&str; 3] = ["run", "wire", "replay"];

/// The seed with up to four bytes replaced, left out or doubled, or cut off.
fn changed(seed: &[u8], source: &mut Source<'_>) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=source.below(4) {
        if bytes.is_empty() {
            break;
        }
        let at = source.below(bytes.len());
        match source.below(8) {
            0 => bytes.truncate(at),
            1 => drop(bytes.remove(at)),
            2 => bytes.insert(at, bytes[at]),
            3 => bytes[at] ^= 1 << source.below(8),
            _ => bytes[at] = source.bits() as u8,
        }
    }
    bytes
}

fn random(source: &mut Source<'_>) -> Vec<u8> {
    (0..source.below(200)).map(|_| source.bits() as u8).collect()
}

#[test]
fn every_target_holds_on_a_few_inputs() {
    for target in targets::TARGETS {
        let seeds = (target.seeds)();
        seeds.iter().for_each(|seed| (target.check)(seed));
        let runs = if RUNNING.contains(&target.name) { 20 } else { 1000 };
        for seed in 0..runs {
            let mut source = Source::from_seed(seed);
            let input = match source.below(seeds.len() + 1) {
                0 => random(&mut source),
                n => changed(&seeds[n - 1], &mut source),
            };
            let known = std::panic::catch_unwind(|| (target.check)(&input));
            assert!(known.is_ok(), "{}, seed {seed}: {input:?}", target.name);
        }
    }
}

#[test]
fn an_unknown_target_is_told_the_known_ones() {
    let error = targets::target("nyp").map(|target| target.name).unwrap_err();
    assert!(error.contains("`nyp`") && error.contains("npy"), "{error}");
}
