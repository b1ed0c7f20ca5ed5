//! Loaders: every example once an epoch, in an order that depends on nothing but seed and epoch;
//! errors; going on in the middle.

#![expect(clippy::unwrap_used, reason = "in helpers of tests, whose failures they are")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use gt::data::*;
use gt::error::ErrorKind;
use gt::prelude::*;
use gt_ir::{HostTensor, Loc};

use crate::run;

/// Numbers, which count how often they were asked for.
struct Numbers {
    n: usize,
    asked: Arc<AtomicUsize>,
    bad: Option<usize>,
}

impl Dataset for Numbers {
    fn len(&self) -> usize {
        self.n
    }

    fn get(&self, index: usize) -> Result<Vec<HostTensor>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        match self.bad {
            Some(bad) if bad == index => {
                Err(Error::new(ErrorKind::Data, format!("no example {index}"), Loc::NONE))
            }
            Some(usize::MAX) if index == 5 => panic!("as a mistake of the user's would"),
            _ => Ok(vec![HostTensor::scalar(index as i64), HostTensor::scalar(index as f32 / 2.0)]),
        }
    }
}

fn numbers(n: usize, bad: Option<usize>) -> (Numbers, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    (Numbers { n, asked: asked.clone(), bad }, asked)
}

fn config(batch_size: usize, prefetch: usize) -> LoaderConfig {
    LoaderConfig { batch_size, shuffle: Shuffle::Seed(3), prefetch, ..LoaderConfig::default() }
}

fn epoch(loader: &mut DataLoader) -> Vec<Vec<i64>> {
    loader.epoch().map(|batch| batch.unwrap()[0].to_vec().unwrap()).collect()
}

#[test]
fn every_example_once_an_epoch_whoever_makes_the_batches() {
    run(|| {
        let mut seen = Vec::new();
        for prefetch in [0, 1, 2, 7] {
            let mut loader = DataLoader::new(numbers(23, None).0, config(4, prefetch)).unwrap();
            seen.push((0..3).map(|_| epoch(&mut loader)).collect::<Vec<_>>());
        }
        assert!(seen.windows(2).all(|pair| pair[0] == pair[1]));
        for batches in &seen[0] {
            assert_eq!(batches.iter().map(Vec::len).collect::<Vec<_>>(), [4, 4, 4, 4, 4, 3]);
            let mut all = batches.concat();
            all.sort_unstable();
            assert_eq!(all, (0..23).collect::<Vec<_>>());
        }
        assert_ne!(seen[0][0], seen[0][1]);
        // What the tensors of a batch belong to stays together.
        let mut loader = DataLoader::new(numbers(5, None).0, config(5, 1)).unwrap();
        let batch = loader.epoch().next().unwrap().unwrap();
        let halves: Vec<f32> =
            batch[0].to_vec::<i64>().unwrap().iter().map(|i| *i as f32 / 2.0).collect();
        assert_eq!(batch[1].to_vec::<f32>().unwrap(), halves);
    });
}

#[test]
fn the_order_is_the_same_everywhere_and_even() {
    let order: Vec<usize> = Order::shuffled(8, 3, 1).indices().collect();
    assert_eq!(order, PINNED);
    // Each example comes at each place about equally often.
    let mut counts = [[0_u32; 6]; 6];
    for epoch in 0..6000 {
        Order::shuffled(6, 1, epoch).indices().enumerate().for_each(|(at, i)| counts[at][i] += 1);
    }
    assert!(counts.iter().flatten().all(|n| (850..1150).contains(n)), "{counts:?}");
}

/// As a few lines of Python compute it.
const PINNED: [usize; 8] = [3, 1, 5, 0, 2, 4, 7, 6];

#[test]
fn going_on_in_the_middle() {
    run(|| {
        let make = || DataLoader::new(numbers(20, None).0, config(3, 2)).unwrap();
        let (mut whole, mut first) = (make(), make());
        let all = [epoch(&mut whole), epoch(&mut whole)];
        epoch(&mut first);
        let taken: Vec<_> =
            first.epoch().take(3).map(|b| b.unwrap()[0].to_vec().unwrap()).collect();
        let state = first.state_dict().unwrap();
        let mut second = make();
        second.load_state_dict(&state).unwrap();
        assert_eq!([taken, epoch(&mut second)].concat(), all[1]);
        assert_eq!(second.epoch_number(), 2);
        let mut other = DataLoader::new(numbers(21, None).0, config(3, 2)).unwrap();
        let error = other.load_state_dict(&state).unwrap_err();
        assert!(error.message().contains("examples: is 21, but was 20"), "{error}");
    });
}

#[test]
fn an_epoch_left_early_is_over_unless_its_rest_is_asked_for() {
    run(|| {
        let mut loader = DataLoader::new(numbers(20, None).0, config(3, 2)).unwrap();
        let all: Vec<_> = (0..3).map(|_| epoch(&mut loader)).collect();
        let mut loader = DataLoader::new(numbers(20, None).0, config(3, 2)).unwrap();
        assert_eq!(loader.epoch().take(2).count(), 2);
        assert_eq!((epoch(&mut loader), loader.epoch_number()), (all[1].clone(), 2));
        assert_eq!(loader.epoch().take(2).count(), 2);
        let rest = loader.rest().map(|batch| batch.unwrap()[0].to_vec().unwrap());
        assert_eq!(rest.collect::<Vec<Vec<i64>>>(), all[2][2..]);
    });
}

#[test]
fn errors_and_panics_end_the_epoch() {
    run(|| {
        for prefetch in [0, 3] {
            let plain = LoaderConfig { shuffle: Shuffle::Off, ..config(2, prefetch) };
            let mut loader = DataLoader::new(numbers(9, Some(5)).0, plain).unwrap();
            let batches: Vec<_> = loader.epoch().collect();
            assert_eq!(batches.len(), 3);
            assert!(batches[0].is_ok() && batches[1].is_ok());
            assert_eq!(batches[2].as_ref().unwrap_err().message(), "no example 5");
            let mut loader = DataLoader::new(numbers(9, Some(usize::MAX)).0, plain).unwrap();
            let batches: Vec<_> = loader.epoch().collect();
            let error = batches[2].as_ref().unwrap_err();
            assert!(
                error.message().starts_with("data loader: reading batch 2 panicked: "),
                "{error}"
            );
            assert!(error.loc().file().ends_with("it/loader.rs"), "{error}");
        }
        let error = DataLoader::new(numbers(1, None).0, config(0, 0)).err().unwrap();
        assert!(error.to_string().contains("at least one example"), "{error}");
    });
}

#[test]
fn a_thread_makes_only_so_many_ahead_and_ends() {
    run(|| {
        let (dataset, asked) = numbers(1000, None);
        let mut loader = DataLoader::new(dataset, config(1, 3)).unwrap();
        let mut batches = loader.epoch();
        for taken in 1..=5 {
            batches.next().unwrap().unwrap();
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(asked.load(Ordering::SeqCst) <= taken + 3);
        }
        drop(batches);
        let after = asked.load(Ordering::SeqCst);
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert_eq!(asked.load(Ordering::SeqCst), after);
        drop(loader);
        assert_eq!(Arc::strong_count(&asked), 1, "the dataset is gone");
    });
}

#[test]
fn rows_of_tensors_and_small_last_batches() {
    run(|| {
        let x = DynTensor::from_vec((0..14).map(|i| i as f32).collect(), [7, 2]).to_host().unwrap();
        let y = DynTensor::from_vec((0..7_i64).collect(), [7]).to_host().unwrap();
        let rows = TensorDataset::new(vec![x.clone(), y]).unwrap();
        let plain = LoaderConfig { batch_size: 3, last: Last::Drop, ..LoaderConfig::default() };
        let mut loader = DataLoader::new(rows, plain).unwrap();
        assert_eq!(loader.len(), 2);
        let batches: Vec<Vec<DynTensor>> = loader.epoch().map(Result::unwrap).collect();
        assert_eq!(batches.len(), 2);
        assert_eq!(batches[1][0].ty().to_string(), "f32[3,2]");
        assert_eq!(batches[1][0].to_vec::<f32>().unwrap(), [6.0, 7.0, 8.0, 9.0, 10.0, 11.0]);
        assert_eq!(batches[1][1].to_vec::<i64>().unwrap(), [3, 4, 5]);
        let short = DynTensor::from_vec(vec![1_i64], [1]).to_host().unwrap();
        let error = TensorDataset::new(vec![x, short]).err().unwrap();
        assert!(error.message().ends_with("but are f32[7,2], i64[1]"), "{error}");
    });
}
