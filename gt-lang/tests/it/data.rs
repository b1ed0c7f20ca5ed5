//! Batches of examples of different lengths, samplers, parts of datasets, streams, several threads,
//! and transforms of images.

#![expect(clippy::unwrap_used, reason = "in helpers of tests, whose failures they are")]

use std::sync::Arc;

use gt::data::transforms::*;
use gt::data::*;
use gt::error::ErrorKind;
use gt::prelude::*;
use gt_ir::{HostTensor, Loc};

use crate::formats::packed;
use crate::run;

/// Example `i` is `i` times the number `i`, and `i`.
struct Lengths(usize);

impl Dataset for Lengths {
    fn len(&self) -> usize {
        self.0
    }
    fn get(&self, i: usize) -> Result<Vec<HostTensor>> {
        Ok(vec![array(vec![i as f32; i], [i])?, HostTensor::scalar(i as i64)])
    }
}

fn config(batch_size: usize) -> LoaderConfig {
    LoaderConfig { batch_size, ..LoaderConfig::default() }
}

fn first(loader: &mut DataLoader) -> Result<Vec<DynTensor>> {
    loader.epoch().next().unwrap()
}

fn numbers(batch: &DynTensor) -> Vec<f64> {
    batch.to_host().unwrap().to_f64()
}

/// The number that is the second tensor of each example of an epoch.
fn epoch(loader: &mut DataLoader) -> Vec<Vec<i64>> {
    loader.epoch().map(|batch| batch.unwrap().last().unwrap().to_vec().unwrap()).collect()
}

/// `0..n` as a dataset of numbers.
fn plain(n: i64) -> TensorDataset {
    TensorDataset::new(vec![array((0..n).collect(), [n as usize]).unwrap()]).unwrap()
}

#[test]
fn examples_of_different_lengths_are_padded() {
    run(|| {
        let load = |pad: Pad| DataLoader::new(Lengths(4), config(4)).unwrap().with_collate(pad);
        let want = [-1., -1., -1., 1., -1., -1., 2., 2., -1., 3., 3., 3.];
        let batch = first(&mut load(Pad::new([(0, -1.0)]))).unwrap();
        assert_eq!((batch.len(), batch[0].sizes()), (2, vec![4, 3]));
        assert_eq!(numbers(&batch[0]), want);
        assert_eq!(batch[1].to_vec::<i64>().unwrap(), [0, 1, 2, 3]);
        let batch = first(&mut load(Pad::new([(0, -1.0)]).marks(PadMarks::Mask))).unwrap();
        assert_eq!(batch[2].ty().to_string(), "bool[4,3]");
        assert_eq!(numbers(&batch[2]), want.map(|v| f64::from(v > 0.0)));
        let pad = Pad::new([(0, 0.0)]).marks(PadMarks::Lengths).multiple_of(8);
        let batch = first(&mut load(pad)).unwrap();
        assert_eq!(
            (batch[0].sizes(), batch[2].to_vec().unwrap()),
            (vec![4, 8], vec![0, 1, 2, 3_i64])
        );
        let told = |mut loader: DataLoader| {
            let error = first(&mut loader).unwrap_err();
            assert!(error.loc().file().ends_with("it/data.rs"), "{error}");
            error.to_string()
        };
        let error = told(load(Pad::new([(2, 0.0)])));
        assert!(error.contains("pad: examples have 2 tensors, and no number 2"), "{error}");
        let error = told(load(Pad::new([(1, 0.0)])));
        assert!(error.contains("tensor 1 of example 0 is i64[], without an axis"), "{error}");
        let error = told(DataLoader::new(Lengths(4), config(4)).unwrap());
        assert!(error.contains("example 1 is f32[1], others are f32[0]"), "{error}");
        assert!(error.contains("with_collate(Pad::new(..))"), "{error}");
    });
}

#[test]
fn every_dtype_is_padded_with_its_own_number() {
    run(|| {
        for dtype in DType::ALL {
            let rows = [1_usize, 2].map(|n| DynTensor::ones([n, 2], dtype).to_host().unwrap());
            let examples = rows.into_iter().enumerate();
            let examples: Vec<Example> =
                examples.map(|(index, x)| Example { index, tensors: vec![x] }).collect();
            let batch = Pad::new([(0, 0.0)]).collate(&examples).unwrap();
            assert_eq!(batch[0].ty().to_string(), format!("{dtype}[2,2,2]"));
            assert_eq!(batch[0].to_f64(), [1., 1., 0., 0., 1., 1., 1., 1.]);
        }
    });
}

#[test]
fn batches_are_made_as_the_program_says() {
    run(|| {
        let sums = |examples: &[Example]| {
            let sum: f64 = examples
                .iter()
                .map(|example| example.tensors[0].to_f64().iter().sum::<f64>())
                .sum();
            Ok(vec![HostTensor::scalar(sum)])
        };
        let mut loader = DataLoader::new(Lengths(5), config(2)).unwrap().with_collate(sums);
        let sums = loader.epoch().map(|batch| batch.unwrap()[0].item().unwrap());
        assert_eq!(sums.collect::<Vec<_>>(), [1.0, 13.0, 16.0]);
    });
}

#[test]
fn samplers_choose_and_order() {
    run(|| {
        let mut loader = DataLoader::new(plain(6), config(4)).unwrap();
        assert_eq!(epoch(&mut loader), [vec![0, 1, 2, 3], vec![4, 5]]);
        // A sampler of the program's own, which names one example twice and one that is not there.
        struct Own(Vec<usize>);
        impl Sampler for Own {
            fn len(&self) -> usize {
                self.0.len()
            }
            fn order(&self, _: u64) -> Order {
                self.0.iter().copied().collect()
            }
        }
        let of = |own| DataLoader::new(plain(6), config(2)).unwrap().with_sampler(Own(own));
        let mut loader = of(vec![5, 5, 0]);
        assert_eq!((loader.len(), epoch(&mut loader)), (2, vec![vec![5, 5], vec![0]]));
        let error = first(&mut of(vec![6])).unwrap_err();
        assert!(error.message().ends_with("the sampler asks for example 6 of 6"), "{error}");
        // Whole batches.
        struct Pairs;
        impl BatchSampler for Pairs {
            fn len(&self) -> usize {
                2
            }
            fn batches(&self, epoch: u64) -> Vec<Vec<usize>> {
                vec![vec![epoch as usize, 5], vec![3]]
            }
        }
        let mut loader = DataLoader::new(plain(6), config(1)).unwrap().with_batch_sampler(Pairs);
        assert_eq!((loader.len(), epoch(&mut loader)), (2, vec![vec![0, 5], vec![3]]));
        assert_eq!(epoch(&mut loader), [vec![1, 5], vec![3]]);
        // The state of one loader is not another's.
        let state = loader.state_dict().unwrap();
        let sampler = RandomSampler::new(6, 4);
        let mut other = DataLoader::new(plain(6), config(1)).unwrap().with_sampler(sampler);
        let error = other.load_state_dict(&state).unwrap_err();
        assert!(error.message().contains("seed: is 4, but was -1"), "{error}");
    });
}

#[test]
fn weights_decide_how_often_examples_come() {
    let weights = vec![0.0, 1.0, 3.0, 0.0, 4.0, 0.0];
    let with = WeightedRandomSampler::new(weights.clone(), 8000, Replacement::With, 0).unwrap();
    let mut counts = [0_u32; 6];
    with.order(0).indices().for_each(|i| counts[i] += 1);
    assert_eq!((counts[0], counts[3], counts[5], with.len()), (0, 0, 0, 8000));
    for (count, want) in [(counts[1], 1000), (counts[2], 3000), (counts[4], 4000)] {
        assert!(count.abs_diff(want) < 200, "{counts:?}");
    }
    assert_ne!(with.order(0), with.order(1));
    assert_eq!(with.order(1), with.clone().order(1));
    let without = |n| WeightedRandomSampler::new(weights.clone(), n, Replacement::Without, 0);
    let mut firsts = [0_u32; 6];
    for epoch in 0..8000 {
        let drawn: Vec<usize> = without(3).unwrap().order(epoch).indices().collect();
        firsts[drawn[0]] += 1;
        let mut sorted = drawn;
        sorted.sort_unstable();
        assert_eq!(sorted, [1, 2, 4]);
    }
    for (count, want) in [(firsts[1], 1000), (firsts[2], 3000), (firsts[4], 4000)] {
        assert!(count.abs_diff(want) < 200, "{firsts:?}");
    }
    let error = without(4).unwrap_err();
    assert!(error.message().ends_with("4 of 3 examples with a weight"), "{error}");
    for bad in [-1.0, f64::NAN, f64::INFINITY] {
        let error = WeightedRandomSampler::new(vec![1.0, bad], 1, Replacement::With, 0);
        assert!(error.unwrap_err().message().contains("weight 1 is"));
    }
    assert!(WeightedRandomSampler::new(vec![0.0], 1, Replacement::With, 0).is_err());
}

/// The ranks' shares are as PyTorch's `DistributedSampler` deals them.
#[test]
fn ranks_share_all_examples() {
    let share = |rank, last| {
        let sampler = DistributedSampler::new(SequentialSampler(10), rank, 4, last).unwrap();
        assert_eq!(sampler.len(), sampler.order(0).len());
        sampler.order(0).indices().collect::<Vec<_>>()
    };
    let all: Vec<_> = (0..4).map(|rank| share(rank, Last::Keep)).collect();
    assert_eq!(all, [[0, 4, 8], [1, 5, 9], [2, 6, 0], [3, 7, 1]]);
    assert_eq!((0..4).map(|rank| share(rank, Last::Drop).len()).sum::<usize>(), 8);
    let error = DistributedSampler::new(SequentialSampler(10), 4, 4, Last::Keep).unwrap_err();
    assert!(error.message().ends_with("rank 4 of 4"), "{error}");
    let more = DistributedSampler::new(SequentialSampler(2), 4, 5, Last::Keep).unwrap();
    assert_eq!(more.order(0).indices().collect::<Vec<_>>(), [0]);
    let none = DistributedSampler::new(SequentialSampler(0), 0, 5, Last::Keep).unwrap();
    assert!(none.is_empty() && none.order(0).is_empty());
}

#[test]
fn parts_of_a_dataset_have_nothing_in_common_and_miss_nothing() {
    let value = |set: &dyn Dataset, i| set.get(i).unwrap()[0].to_f64()[0] as i64;
    let all = |set: &dyn Dataset| (0..set.len()).map(|i| value(set, i)).collect::<Vec<_>>();
    let [a, b, c] = random_split(plain(11), [0.5, 0.25, 0.25], 0).unwrap();
    assert_eq!([a.len(), b.len(), c.len()], [6, 3, 2]);
    let joined = ConcatDataset::new(vec![Box::new(a), Box::new(b), Box::new(c)]);
    let mut sorted = all(&joined);
    assert_ne!(sorted, (0..11).collect::<Vec<_>>());
    sorted.sort_unstable();
    assert_eq!(sorted, (0..11).collect::<Vec<_>>());
    assert!(joined.get(11).unwrap_err().message().ends_with("no example 11"));
    let halves = |seed| random_split(plain(6), [3, 3], seed).unwrap().map(|part| all(&part));
    assert_eq!(halves(1), halves(1));
    assert_ne!(halves(1), halves(2));
    let wrong = random_split(plain(6), [3, 2], 0).err().unwrap();
    assert!(wrong.message().contains("[3, 2]") && wrong.message().ends_with("of 6 examples"));
    assert!(random_split(plain(6), [0.5, 0.6], 0).is_err());
    let shared = Arc::new(plain(4));
    let part = Subset::new(shared.clone(), vec![3, 1]).unwrap();
    assert_eq!((all(&part), part.indices()), (vec![3, 1], &[3, 1][..]));
    assert!(part.get(2).is_err());
    let error = Subset::new(shared, vec![4]).err().unwrap();
    assert!(error.message().ends_with("example 4 of 4"), "{error}");
}

#[test]
fn any_number_of_threads_makes_the_same_batches() {
    run(|| {
        let load = |threads, prefetch| {
            let shuffle = Shuffle::Seed(5);
            let config = LoaderConfig { shuffle, threads, prefetch, ..config(3) };
            DataLoader::new(plain(50), config).unwrap()
        };
        let want: Vec<_> = (0..2)
            .map({
                let mut loader = load(1, 0);
                move |_| epoch(&mut loader)
            })
            .collect();
        for (threads, prefetch) in [(0, 2), (2, 0), (2, 2), (3, 5), (8, 4), (4, 100)] {
            let mut loader = load(threads, prefetch);
            assert_eq!([epoch(&mut loader), epoch(&mut loader)], want[..], "{threads} {prefetch}");
            // Going on in the middle, with another number of threads.
            let mut loader = load(threads, prefetch);
            assert_eq!(loader.epoch().take(7).count(), 7);
            let state = loader.state_dict().unwrap();
            let mut other = load(2, 3);
            other.load_state_dict(&state).unwrap();
            assert_eq!(epoch(&mut other), want[0][7..]);
        }
        // An error comes in its place.
        let bad = |i: usize| match i {
            30.. => Err(Error::new(ErrorKind::Data, format!("no {i}"), Loc::NONE)),
            i => Ok(vec![HostTensor::scalar(i as i64)]),
        };
        struct Bad<F>(F);
        impl<F: Fn(usize) -> Result<Vec<HostTensor>> + Send + Sync + 'static> Dataset for Bad<F> {
            fn len(&self) -> usize {
                40
            }
            fn get(&self, i: usize) -> Result<Vec<HostTensor>> {
                self.0(i)
            }
        }
        let config = LoaderConfig { threads: 4, prefetch: 8, ..config(2) };
        let batches: Vec<_> = DataLoader::new(Bad(bad), config).unwrap().epoch().collect();
        assert_eq!(batches.len(), 16);
        assert!(batches[..15].iter().all(Result::is_ok));
        assert_eq!(batches[15].as_ref().unwrap_err().message(), "no 30");
    });
}

/// The threads are at work at the same time: each waits for the others' call.
#[test]
fn threads_read_at_the_same_time() {
    struct Meeting(std::sync::Barrier);
    impl Dataset for Meeting {
        fn len(&self) -> usize {
            6
        }
        fn get(&self, i: usize) -> Result<Vec<HostTensor>> {
            self.0.wait();
            Ok(vec![HostTensor::scalar(i as i64)])
        }
    }
    run(|| {
        let config = LoaderConfig { threads: 3, prefetch: 3, ..config(1) };
        let set = Meeting(std::sync::Barrier::new(3));
        let mut loader = DataLoader::new(set, config).unwrap();
        assert_eq!(epoch(&mut loader).concat(), [0, 1, 2, 3, 4, 5]);
    });
}

fn stream(n: i64) -> impl IterableDataset {
    move |epoch: u64| (0..n).map(move |i| Ok(vec![HostTensor::scalar(i + 100 * epoch as i64)]))
}

fn stream_epoch(loader: &mut StreamLoader) -> Vec<Vec<i64>> {
    loader.epoch().map(|batch| batch.unwrap()[0].to_vec().unwrap()).collect()
}

#[test]
fn streams_end_when_they_end() {
    run(|| {
        for prefetch in [0, 3] {
            let load = |last| {
                let config = StreamConfig { batch_size: 2, last, prefetch };
                StreamLoader::new(stream(5), config).unwrap()
            };
            let mut loader = load(Last::Keep);
            assert_eq!(stream_epoch(&mut loader), [vec![0, 1], vec![2, 3], vec![4]]);
            assert_eq!(stream_epoch(&mut loader)[0], [100, 101]);
            assert_eq!(stream_epoch(&mut load(Last::Drop)), [[0, 1], [2, 3]]);
            // An epoch left early is over; a restored one goes on, and at its end, too.
            assert_eq!(loader.epoch().take(1).count(), 1);
            assert_eq!((loader.epoch_number(), stream_epoch(&mut loader)[0][0]), (2, 300));
            for taken in [2, 3] {
                let mut loader = load(Last::Keep);
                assert_eq!(loader.epoch().take(taken).count(), taken);
                let mut other = load(Last::Keep);
                other.load_state_dict(&loader.state_dict().unwrap()).unwrap();
                let rest = stream_epoch(&mut other);
                assert_eq!(rest, [vec![0, 1], vec![2, 3], vec![4]][taken..]);
                assert_eq!(stream_epoch(&mut other)[0], [100, 101]);
            }
        }
        let torn = |_| {
            let fail = || Err(Error::new(ErrorKind::Data, "torn", Loc::NONE));
            (0..9).map(move |i: i64| if i == 5 { fail() } else { Ok(vec![HostTensor::scalar(i)]) })
        };
        let config = StreamConfig { batch_size: 2, ..StreamConfig::default() };
        let batches: Vec<_> = StreamLoader::new(torn, config).unwrap().epoch().collect();
        assert_eq!((batches.len(), batches[2].as_ref().unwrap_err().message()), (3, "torn"));
        let config = StreamConfig { batch_size: 0, ..config };
        assert!(StreamLoader::new(stream(5), config).is_err());
    });
}

#[test]
fn a_buffer_shuffles_a_stream() {
    let all = |size, epoch| {
        let shuffled = ShuffleBuffer::new(stream(50), size, 3);
        let values = shuffled.iter(epoch).map(|example| example.unwrap()[0].to_f64()[0] as i64);
        values.map(|i| i % 100).collect::<Vec<_>>()
    };
    let plain: Vec<i64> = (0..50).collect();
    assert_eq!(all(1, 0), plain);
    let shuffled = all(10, 0);
    assert_ne!(shuffled, plain);
    assert_eq!(all(10, 0), shuffled);
    assert_ne!(all(10, 1), shuffled);
    // Nothing comes before it is in the buffer.
    assert!(shuffled.iter().enumerate().all(|(at, i)| *i < at as i64 + 10), "{shuffled:?}");
    let mut sorted = shuffled;
    sorted.sort_unstable();
    assert_eq!(sorted, plain);
}

/// Images whose pixels are all different: pixel `x` of row `y` of image `i` is `100 i + 10 y + x`.
fn images(n: i64, height: i64, width: i64) -> DynTensor {
    let part = |n: i64, step: i64, sizes: [i64; 4]| {
        DynTensor::arange(0, n, 1, DType::F32).mul(step).reshape(sizes)
    };
    let (i, y) = (part(n, 100, [n, 1, 1, 1]), part(height, 10, [1, 1, height, 1]));
    i.add(&y).add(&part(width, 1, [1, 1, 1, width]))
}

#[test]
fn transforms_of_images() {
    run(|| {
        let x = images(2, 4, 5);
        assert_eq!(numbers(&CenterCrop([2, 3]).forward(&x))[..6], [11., 12., 13., 21., 22., 23.]);
        // As torchvision rounds: 0.5 to 0, 1.5 to 2.
        assert_eq!(numbers(&CenterCrop([4, 4]).forward(&x))[..2], [0., 1.]);
        assert_eq!(numbers(&CenterCrop([1, 2]).forward(&x))[..2], [22., 23.]);
        let bytes = DynTensor::from_vec(vec![0_u8, 51, 255], [1, 3, 1, 1]);
        let close = |got: &DynTensor, want: &[f64]| {
            let far = numbers(got).iter().zip(want).any(|(g, w)| (g - w).abs() > 1e-6);
            assert!(!far && got.numel() == want.len(), "{got}");
        };
        let normalize = Normalize::new([0.0, 0.1, 0.5], [1.0, 0.5, 0.25]);
        close(&seq!(&bytes => ToFloat), &[0.0, 0.2, 1.0]);
        close(&seq!(&bytes => ToFloat, normalize), &[0.0, 0.2, 2.0]);
        assert_eq!(Resize([2, 10]).forward(&x).sizes(), [2, 1, 2, 10]);
        close(&Resize([2, 5]).forward(&x).slice((0, 0, .., 0)), &[5.0, 25.0]);
        for (bad, text) in [
            (CenterCrop([5, 5]).forward(&x), "center_crop: 5 by 5 elements of f32[2,1,4,5]"),
            (RandomCrop::new([5, 5]).forward(&x), "random_crop: 5 by 5 elements"),
            (Normalize::new([0.0; 3], [1.0; 3]).forward(&x), "normalize: 3 means"),
            (
                RandomHorizontalFlip(0.5).forward(&x.slice(0)),
                "random_horizontal_flip: takes images",
            ),
        ] {
            let error = bad.to_host().unwrap_err();
            assert!(error.message().contains(text), "{error}");
            assert!(error.loc().file().ends_with("it/data.rs"), "{error}");
        }
    });
}

#[test]
fn random_transforms_draw_for_each_image() {
    run(|| {
        let x = images(200, 4, 5);
        let corner = |y: &DynTensor| {
            let corners = numbers(&y.slice((.., 0, 0, 0)));
            corners.iter().zip(0..).map(|(v, i)| v - 100.0 * f64::from(i)).collect::<Vec<_>>()
        };
        let crops = RandomCrop::new([3, 3]).forward(&x);
        let corners = corner(&crops);
        // Each of the six places comes; a crop is in one piece.
        let mut kinds = corners.clone();
        kinds.sort_by(f64::total_cmp);
        kinds.dedup();
        assert_eq!(kinds, [0., 1., 2., 10., 11., 12.]);
        let last = numbers(&crops.slice((.., 0, 2, 2)));
        let first = numbers(&crops.slice((.., 0, 0, 0)));
        assert!(last.iter().zip(&first).all(|(last, first)| last - first == 22.0));
        let padded = RandomCrop::new([4, 5]).padding(1).forward(&x);
        assert_eq!(padded.sizes(), [200, 1, 4, 5]);
        let turned = RandomHorizontalFlip(0.3).forward(&x);
        let share = corner(&turned).iter().filter(|v| **v == 4.0).count();
        assert!((35..85).contains(&share), "{share}");
        assert!(corner(&turned).iter().all(|v| *v == 0.0 || *v == 4.0));
        assert_eq!(numbers(&RandomVerticalFlip(1.0).forward(&x)), numbers(&x.flip(-2)));
        assert_eq!(numbers(&RandomVerticalFlip(0.0).forward(&x)), numbers(&x));
        // A seed repeats them.
        let drawn = || {
            manual_seed(7);
            numbers(&seq!(&x => RandomCrop::new([3, 3]), RandomHorizontalFlip(0.5)))
        };
        assert_eq!(drawn(), drawn());
    });
}

/// Files of MNIST and CIFAR, packed or not, become batches.
#[test]
fn well_known_sets_are_read_from_their_folders() {
    use gt::data::vision::{Part, cifar10, cifar100, mnist};
    run(|| {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: &[u8]| {
            std::fs::write(folder.path().join(name), bytes).unwrap();
        };
        let images = [&[0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 2][..], &[7; 8]].concat();
        let labels = [0, 0, 8, 1, 0, 0, 0, 2, 9, 4];
        file("t10k-images-idx3-ubyte.gz", &packed(&images));
        let error = mnist(folder.path(), Part::Test).err().unwrap();
        assert!(error.message().contains("no file t10k-labels-idx1-ubyte or"), "{error}");
        file("t10k-labels-idx1-ubyte", &labels);
        let set = mnist(folder.path(), Part::Test).unwrap();
        let mut loader = DataLoader::new(set, config(2)).unwrap();
        let batch = first(&mut loader).unwrap();
        assert_eq!(batch[0].ty().to_string(), "u8[2,2,2]");
        assert_eq!(batch[1].to_vec::<i64>().unwrap(), [9, 4]);
        let row = |labels: &[u8]| [labels, &[1; 1024], &[2; 1024], &[3; 1024]].concat();
        (1..=5).for_each(|i| file(&format!("data_batch_{i}.bin"), &row(&[i])));
        let set = cifar10(folder.path(), Part::Train).unwrap();
        let example = set.get(4).unwrap();
        assert_eq!((set.len(), example[1].to_f64()), (5, vec![5.0]));
        assert_eq!(example[0].ty().to_string(), "u8[3,32,32]");
        assert_eq!(example[0].bytes()[1023..1025], [1, 2]);
        file("test.bin", &row(&[19, 99]));
        let set = cifar100(folder.path(), Part::Test).unwrap();
        assert_eq!(set.get(0).unwrap()[1].to_f64(), [99.0]);
    });
}
