//! Looking into a program: what is known of a tensor, the tape as it is kept, and the watch for
//! numbers that are none.

use gt::debug;
use gt::prelude::*;
use gt::reference::Reference;
use gt::signal;
use gt_ir::testing::Source;

use crate::run;

fn vector(data: &[f32]) -> DynTensor {
    DynTensor::from_vec(data.to_vec(), [data.len()])
}

#[test]
fn a_tensor_is_explained_by_what_made_it() {
    run(|| {
        let x: T![2, 3] = Tensor::ones();
        let w: T![3, 4] = Tensor::ones().requires_grad();
        let (y, line) = {
            let _scope = signal::scope("layer1").backward("grad1");
            (x.matmul(&w), line!())
        };
        let said = debug::explain(&y);
        let wanted = [
            "f32[2,4]\n",
            "made by matmul %0: f32[2,3], %1: f32[3,4]\n",
            &format!("debug.rs:{line}:"),
            "in signal layer1\n",
            "its gradient in signal grad1\n",
            "lives on worker w0 (interpreter)",
        ];
        for part in wanted {
            assert!(said.contains(part), "{part:?} in {said}");
        }
        assert!(debug::explain(&w).contains("a leaf"), "{}", debug::explain(&w));
        // What is handed over is forgotten, but for what gradients need, unless the tape is kept.
        assert!(debug::explain(&y).contains("made by matmul %0: f32[2,3], %1"));
        assert!(debug::explain(&x).contains("made by full (of what, `debug::keep_tape` knows)"));
        let given = vector(&[1.0]);
        assert!(debug::explain(&given).contains("data the program gave\n  at "));
        let failed = vector(&[1.0]) + vector(&[1.0, 2.0, 3.0]).reshape([7]);
        assert!(debug::explain(&failed).starts_with("never computed, for an error: reshape: "));
    });
}

#[test]
fn the_tape_is_kept_as_long_as_somebody_wants_it() {
    let (session, _system) = Reference::session();
    let _current = session.enter();
    let n_instructions = || debug::get_tape().instrs().count();
    let x = vector(&[1.0]).exp();
    assert_eq!(n_instructions(), 1);
    x.to_vec::<f32>().unwrap();
    assert_eq!(n_instructions(), 0);
    {
        let _kept = debug::keep_tape();
        let _inner = debug::keep_tape();
        let y = x.sin();
        y.to_vec::<f32>().unwrap();
        drop(_inner);
        let z = y.cos();
        assert_eq!(n_instructions(), 2);
        let said = debug::explain(&z);
        assert!(said.contains("made by cos %2: f32[1]"), "{said}");
        assert!(debug::explain(&y).contains("made by sin %1: f32[1]\n"), "{}", debug::explain(&y));
    }
    assert_eq!(n_instructions(), 0);
}

#[test]
fn workers_are_described() {
    run(|| {
        vector(&[1.0, 2.0]).exp().to_vec::<f32>().unwrap();
        let said = debug::worker_stats().unwrap();
        assert!(said.contains("worker w0: interpreter"), "{said}");
        assert!(said.contains("1 instructions in "), "{said}");
        assert!(said.contains("8 B in, 8 B out\n"), "{said}");
    });
}

/// The error of a read while somebody watches, and nothing when nobody does.
fn watched(program: impl Fn() -> DynTensor) -> Option<String> {
    run(|| program().to_host().map(drop))
        .expect("without a watch every number is as good as another");
    run(|| {
        let _watching = debug::watch_nan();
        program().to_host().map_err(|error| error.to_string()).err()
    })
}

#[test]
fn the_first_bad_instruction_is_named_with_its_line() {
    let line = line!() + 2;
    let said = watched(|| {
        let bad = vector(&[1.0, -1.0, 4.0]).log();
        let later = (&bad + 1.0).sqrt();
        later.sum(..)
    });
    let said = said.expect("the logarithm of -1 is none");
    assert!(
        said.starts_with("log: the first NaN of this session is in its result, f32[3]"),
        "{said}"
    );
    assert!(said.contains(&format!("debug.rs:{line}:")), "{said}");

    let said = watched(|| vector(&[1.0, 1000.0]).exp() * 2.0).expect("too large for f32");
    assert!(said.starts_with("exp: the first infinity"), "{said}");
    let said = watched(|| vector(&[1.0]) / 0.0).expect("a division by zero");
    assert!(said.starts_with("div: the first infinity"), "{said}");
    let said = watched(|| vector(&[f32::NAN]) + 1.0).expect("data that is none");
    assert!(said.starts_with("from_vec: there is a NaN in the data given, f32[1]"), "{said}");
}

#[test]
fn gradients_are_watched_too() {
    let said = watched(|| {
        let x = vector(&[0.0, 1.0]).requires_grad();
        x.sqrt().sum(..).backward().unwrap();
        x.grad().unwrap()
    });
    let said = said.expect("the gradient of a root at 0 is infinite");
    assert!(said.contains("the first infinity") && said.contains("debug.rs:"), "{said}");
}

#[test]
fn infinities_the_program_gives_itself_are_no_fault() {
    let masked = || {
        let scores = vector(&[1.0, 2.0, 3.0]);
        let mask = vector(&[0.0, f32::NEG_INFINITY, 0.0]);
        let other = DynTensor::full([3], f64::NEG_INFINITY, DType::F32);
        (scores + mask).maximum(&other).softmax(-1)
    };
    assert_eq!(watched(masked), None);
    // But what is none of them is: here all of a row is masked.
    let said = watched(|| DynTensor::full([3], f64::NEG_INFINITY, DType::F32).softmax(-1));
    assert!(said.expect("0 / 0").starts_with("softmax: the first NaN"));
}

#[test]
fn an_error_lasts_as_long_as_the_watch() {
    run(|| {
        let fine = vector(&[1.0]).exp();
        let watching = debug::watch_nan();
        let bad = vector(&[-1.0]).log();
        assert!(fine.to_vec::<f32>().is_err());
        assert!(fine.to_vec::<f32>().is_err());
        drop(watching);
        assert!(bad.to_vec::<f32>().unwrap()[0].is_nan());
        fine.to_vec::<f32>().unwrap();
    });
}

/// An op's name, and one use of it.
type Step = (&'static str, fn(&DynTensor) -> DynTensor);

/// Programs of instructions drawn at random: the watch names what one finds who reads after each
/// instruction.
#[test]
fn the_watch_names_what_reading_everything_finds() {
    let ops: [Step; 6] = [
        ("log", |x| x.log()),
        ("sqrt", |x| x.sqrt()),
        ("exp", |x| x.exp()),
        ("div", |x| 1.0 / x),
        ("sub", |x| x - 1.0),
        ("mul", |x| x * 40.0),
    ];
    let mut n_bad = 0;
    for seed in 0..200_u64 {
        let mut source = Source::from_seed(seed);
        let program: Vec<_> = (0..120).map(|_| ops[source.below(ops.len())]).collect();
        let start = || vector(&[0.5, 1.0, 3.0]);
        let found = run(|| {
            let mut x = start();
            program.iter().find_map(|(name, op)| {
                x = op(&x);
                let bad = |x: &f32| !x.is_finite();
                x.to_vec::<f32>().unwrap().iter().any(bad).then_some(*name)
            })
        });
        let named = run(|| {
            let _watching = debug::watch_nan();
            let last = program.iter().fold(start(), |x, (_, op)| op(&x));
            last.to_vec::<f32>().err().map(|error| error.to_string())
        });
        n_bad += usize::from(found.is_some());
        match (found, named) {
            (None, None) => (),
            (Some(found), Some(named)) => {
                assert!(
                    named.starts_with(&format!("{found}: the first ")),
                    "{seed}: {found}, {named}"
                )
            }
            (found, named) => panic!("{seed}: {found:?}, {named:?}"),
        }
    }
    assert!(n_bad > 100, "{n_bad} of 200 programs go wrong");
}
