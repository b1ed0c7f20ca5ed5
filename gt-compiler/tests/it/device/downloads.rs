//! Downloads that are waited for later: what arrives is what was there when they began, whatever
//! happened since.

use gt_compiler::simulated::{Faults, SimulationConfig};
use gt_compiler::{Download, EngineError};
use gt_ir::testing::Source;

use super::{Lab, floats};

/// In place where nobody else holds it.
const COUNT: &str = "%0 = input : f32[16]\n%1 = add %0, 1.0 : f32[16]\nfree %0\noutput %1\n";

/// Downloads begin and are waited for, a slice at a time, in any order and beside any number of
/// runs in place, frees and uploads that take freed memory over; some are called off.
#[test]
fn a_download_gives_what_was_there_when_it_began() {
    for seed in 0..40 {
        let mut source = Source::from_seed(seed);
        let config = SimulationConfig {
            reuses_addresses: source.chance(2, 3),
            graphs: source.chance(2, 3),
            slice: [8, 20, 64, 1 << 20][source.below(4)],
            ..SimulationConfig::default()
        };
        let mut lab = Lab::new(config, COUNT);
        let (mut count, mut under_way) = (0.0, Vec::<(f32, Download)>::new());
        let mut x = lab.give(&[0.0; 16]);
        for _ in 0..200 {
            match source.below(6) {
                0 => under_way.push((count, lab.engine.begin_download(&x).unwrap())),
                1 if !under_way.is_empty() => {
                    drop(under_way.swap_remove(source.below(under_way.len())));
                }
                2 | 3 if !under_way.is_empty() => {
                    let (wanted, download) = under_way.swap_remove(source.below(under_way.len()));
                    match download.advance().unwrap() {
                        Download::Here(data) => {
                            assert_eq!(data.to_vec::<f32>().unwrap(), [wanted; 16], "seed {seed}");
                        }
                        coming @ Download::Coming(_) => under_way.push((wanted, coming)),
                    }
                }
                4 => {
                    count = -count;
                    x = lab.give(&[count; 16]);
                }
                _ => {
                    count += 1.0;
                    x = lab.one(vec![x]);
                }
            }
        }
        for (wanted, download) in under_way {
            let data = download.wait().unwrap();
            assert_eq!(data.to_vec::<f32>().unwrap(), [wanted; 16], "seed {seed}");
        }
        assert_eq!(lab.read(&x), [count; 16]);
        // Nothing is held for what is over.
        assert_eq!(lab.engine.stats().live_bytes, 64);
    }
}

#[test]
fn a_value_is_given_up_when_its_last_slice_has_arrived() {
    let config = SimulationConfig { slice: 16, ..SimulationConfig::default() };
    let mut lab = Lab::new(config, COUNT);
    let x = lab.give(&[3.0; 10]);
    let mut download = lab.engine.begin_download(&x).unwrap();
    drop(x);
    for n in 1..3 {
        download = download.advance().unwrap();
        assert!(matches!(download, Download::Coming(_)));
        assert_eq!((lab.engine.stats().live_bytes, lab.simulation.counters().reads), (40, n));
    }
    let Download::Coming(mut transfer) = download else { unreachable!() };
    let data = transfer.advance().unwrap().unwrap();
    assert_eq!((lab.engine.stats().live_bytes, lab.simulation.counters().reads), (0, 3));
    assert_eq!(data.to_vec::<f32>().unwrap(), [3.0; 10]);
    assert!(matches!(transfer.advance(), Err(EngineError::Call(_))));
}

#[test]
fn what_is_empty_is_there_at_once() {
    let mut lab = Lab::with(COUNT);
    let empty = lab.engine.upload(&floats(&[])).unwrap();
    assert!(matches!(lab.engine.begin_download(&empty).unwrap(), Download::Here(_)));
}

#[test]
fn a_download_that_fails_ends_the_device_for_everybody() {
    let mut lab = Lab::with(COUNT);
    let x = lab.give(&[1.0; 16]);
    let [first, second] = [0; 2].map(|_| lab.engine.begin_download(&x).unwrap());
    lab.simulation.fail(Faults { read: Some(0), ..Faults::default() });
    let error = first.wait().unwrap_err();
    assert!(matches!(&error, EngineError::Device(why) if why.contains("told to")), "{error}");
    assert_eq!(second.wait().unwrap_err(), error);
    assert_eq!(lab.run(vec![x.clone()]).unwrap_err(), error);
    assert_eq!(lab.engine.begin_download(&x).err(), Some(error));
}

#[test]
fn replays_are_timed_by_downloads_behind_them() {
    let mut lab = Lab::with(COUNT);
    let mut x = lab.give(&[0.0; 16]);
    for _ in 0..30 {
        x = lab.one(vec![x]);
    }
    assert!(lab.engine.stats().replay_device.is_zero());
    lab.read(&x);
    assert!(!lab.engine.stats().replay_device.is_zero());
}
