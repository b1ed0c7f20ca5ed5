//! The dynamic tensor: operations and their spellings, errors as the user sees them, data in and out, printing.

use gt_ir::{DType, Dim, DimName, Entry, Op, Shape};

use super::*;
use crate::autograd::tests::Rng;
use crate::error::{Error, ErrorKind};
use crate::reference::Reference;
use crate::{functional, manual_seed, no_grad, signal};

fn numbers(n: usize, sizes: &[usize]) -> DynTensor {
    DynTensor::from_vec((0..n).map(|i| i as f32).collect::<Vec<_>>(), sizes)
}

fn values(x: &DynTensor) -> Vec<f64> {
    x.to_dtype(DType::F64).to_vec().unwrap_or_else(|e| panic!("{e}"))
}

fn sizes(x: &DynTensor) -> Vec<usize> {
    x.shape().sizes().to_vec()
}

#[test]
fn operators_take_numbers_on_either_side() {
    let x = numbers(2, &[2]) + 1.0;
    assert_eq!(values(&(&x + 1)), [2.0, 3.0]);
    assert_eq!(values(&(1 - &x)), [0.0, -1.0]);
    assert_eq!(values(&(2.0 / x.clone())), [2.0, 1.0]);
    assert_eq!(values(&(&x * 0.5_f32 - 1_i64)), [-0.5, 0.0]);
    assert_eq!(values(&-(&x * &x)), [-1.0, -4.0]);
    assert_eq!(values(&(2.0 * &x).exp().log()), [2.0, 4.0]);
    // A number never widens within its kind; a float lifts integers to the default float.
    assert_eq!((&x + 1.0).dtype(), DType::F32);
    assert_eq!((x.to_dtype(DType::I32) + 1).dtype(), DType::I32);
    assert_eq!((x.to_dtype(DType::I32) + 1.5).dtype(), DType::F32);
    assert_eq!((x.to_dtype(DType::I64) / 2).dtype(), DType::F32);
}

#[test]
fn assigning_operators_make_new_values_or_update_leaves() {
    let mut x = numbers(2, &[2]);
    let before = x.clone();
    x += 1;
    x *= &before;
    x -= before.clone();
    x /= 0.5;
    assert_eq!(values(&x), [0.0, 2.0]);
    assert_eq!(values(&before), [0.0, 1.0]);
    let mut w = before.requires_grad();
    let seen_elsewhere = w.clone();
    no_grad(|| w -= 1.0);
    assert!(w.is_leaf() && w.is(&seen_elsewhere));
    assert_eq!(values(&seen_elsewhere), [-1.0, 0.0]);
    w += 1.0;
    let error = w.error().unwrap();
    assert!(error.message().starts_with("add_assign: a leaf that requires a gradient"), "{error}");
    assert_eq!(
        (error.cure(), error.loc().file()),
        (Some("update it inside `no_grad(|| ..)`"), file!())
    );
    assert_eq!(values(&seen_elsewhere), [-1.0, 0.0]);
}

#[test]
fn comparisons_and_logic_give_bools() {
    let x = numbers(4, &[4]);
    let even = DynTensor::from_slice(&[true, false, true, false], [4]);
    let read = |t: DynTensor| t.to_vec::<bool>().unwrap();
    assert_eq!(read(x.lt(2)), [true, true, false, false]);
    assert_eq!(read(x.ge(&x)), [true; 4]);
    assert_eq!(read(x.ne(1.0)), [true, false, true, true]);
    assert_eq!(read(x.gt(0).logical_and(&even)), [false, false, true, false]);
    assert_eq!(read(even.logical_not()), [false, true, false, true]);
    assert_eq!(values(&even.where_(&x, -1.0)), [0.0, -1.0, 2.0, -1.0]);
    assert_eq!(values(&x.masked_fill(&even, 9.0)), [9.0, 1.0, 9.0, 3.0]);
}

#[test]
fn reductions_take_axes_in_many_spellings() {
    let x = numbers(6, &[2, 3]);
    assert_eq!(values(&x.sum(..)), [15.0]);
    assert_eq!(values(&x.sum(0)), [3.0, 5.0, 7.0]);
    assert_eq!(values(&x.sum([-1_i64])), [3.0, 12.0]);
    assert_eq!(sizes(&x.mean(keepdim(-1))), [2, 1]);
    assert_eq!(sizes(&x.max((vec![0_usize, 1].as_slice(), Keep::Yes))), [1, 1]);
    assert_eq!(values(&x.min([0, 1])), [0.0]);
    assert_eq!(values(&x.argmax(1)), [2.0, 2.0]);
    assert_eq!(values(&x.var(0)), [4.5, 4.5, 4.5]);
    assert!(
        values(&x.slice(0).std(0))[0] == 1.0 && values(&x.slice((0, 0..1)).var(..))[0].is_nan()
    );
    assert_eq!(x.to_dtype(DType::Bool).sum(..).dtype(), DType::I64);
    assert_eq!(sizes(&x.sum(&[] as &[i64])), [0_usize; 0]);
}

#[test]
fn shapes_move_as_in_pytorch() {
    let x = numbers(24, &[2, 3, 4]);
    assert_eq!(sizes(&x.reshape([4, -1])), [4, 6]);
    assert_eq!(
        sizes(&x.reshape([5, 5])),
        [2, 3, 4],
        "a mistake has the shape of what it was made from"
    );
    assert_eq!(sizes(&x.sum(..).reshape([0_usize; 0])), [0_usize; 0]);
    assert_eq!(sizes(&x.flatten(0, 1)), [6, 4]);
    assert_eq!(sizes(&x.permute([2, 0, 1])), [4, 2, 3]);
    assert_eq!(sizes(&x.t()), [2, 4, 3]);
    assert_eq!(sizes(&x.unsqueeze(-1)), [2, 3, 4, 1]);
    assert_eq!(sizes(&x.unsqueeze(0).squeeze(0).squeeze(0)), [2, 3, 4]);
    assert_eq!(sizes(&x.expand([5, -1, 3, 4])), [5, 2, 3, 4]);
    assert_eq!(sizes(&DynTensor::cat([&x, &x], -1)), [2, 3, 8]);
    assert_eq!(sizes(&DynTensor::stack([&x, &x], 1)), [2, 2, 3, 4]);
    assert_eq!(x.split(3, 2).iter().map(sizes).collect::<Vec<_>>(), [[2, 3, 3], [2, 3, 1]]);
    assert_eq!(x.chunk(2, 1).iter().map(sizes).collect::<Vec<_>>(), [[2, 2, 4], [2, 1, 4]]);
    let named =
        Shape::from_dims(&[Dim { size: 6, name: DimName::new("Batch").unwrap() }, Dim::new(4)])
            .unwrap();
    assert_eq!(x.reshape(named).shape().to_string(), "[Batch=6,4]");
}

/// The positions a Python slice takes, written from its definition.
fn python_range(size: i64, start: Option<i64>, stop: Option<i64>, step: i64) -> Vec<i64> {
    let clip = |p: i64| if p < 0 { (p + size).max(0) } else { p.min(size) };
    let (mut at, stop) = (start.map_or(0, clip), stop.map_or(size, clip));
    let mut taken = Vec::new();
    while at < stop {
        taken.push(at);
        at += step;
    }
    taken
}

#[test]
fn slices_are_pythons() {
    let ends = [None, Some(0), Some(1), Some(4), Some(9), Some(-1), Some(-3), Some(-9)];
    for size in [0_usize, 1, 5] {
        let x = numbers(size, &[size]);
        for start in ends {
            for stop in ends {
                for by in [1, 2, 7] {
                    let part = x.slice(Index::Range { start, stop, step: by });
                    let want = python_range(size as i64, start, stop, by);
                    let want: Vec<f64> = want.into_iter().map(|p| p as f64).collect();
                    assert_eq!(values(&part), want, "{size} [{start:?}:{stop:?}:{by}]");
                }
            }
        }
    }
    let x = numbers(24, &[2, 3, 4]);
    assert_eq!(values(&x.slice((1, -1, range(1, -1)))), [21.0, 22.0]);
    assert_eq!(values(&x.slice((.., 0, step(.., 3)))), [0.0, 3.0, 12.0, 15.0]);
    assert_eq!(sizes(&x.slice((Index::Ellipsis, Index::NewAxis, 0))), [2, 3, 1]);
    assert_eq!(sizes(&x.slice(..)), [2, 3, 4]);
    assert_eq!(sizes(&x.slice(1_usize)), [3, 4]);
}

#[test]
fn picking_by_index() {
    let table = numbers(6, &[3, 2]);
    let index = DynTensor::from_slice(&[2_i64, 0, 2, 1], [2, 2]);
    assert_eq!(sizes(&table.embedding(&index)), [2, 2, 2]);
    assert_eq!(values(&table.embedding(&index)), [4.0, 5.0, 0.0, 1.0, 4.0, 5.0, 2.0, 3.0]);
    assert_eq!(values(&table.gather(0, &index)), [4.0, 1.0, 4.0, 3.0]);
    assert_eq!(values(&index.slice(0).one_hot(3)), [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]);
}

#[test]
fn creation() {
    assert_eq!(values(&DynTensor::arange(0, 5, 2, DType::I64)), [0.0, 2.0, 4.0]);
    assert_eq!(values(&DynTensor::arange(1.0, 0.0, -0.5, DType::F32)), [1.0, 0.5]);
    assert_eq!(sizes(&DynTensor::arange(3, 0, 1, DType::I64)), [0]);
    assert_eq!(values(&DynTensor::full([2], 7, DType::U8)), [7.0, 7.0]);
    assert_eq!(DynTensor::ones([2], DType::Bool).to_vec::<bool>().unwrap(), [true, true]);
    assert_eq!(values(&numbers(2, &[2]).zeros_like()), [0.0, 0.0]);
    assert_eq!(DynTensor::scalar(2.5_f32).item().unwrap(), 2.5);
    let (low, high) = (3, 6);
    let ints: Vec<i64> = DynTensor::randint(low, high, [100], DType::I64).to_vec().unwrap();
    assert!(ints.iter().all(|i| (low..high).contains(i)) && (low..high).all(|i| ints.contains(&i)));
}

#[test]
fn seeds_make_random_numbers_repeat() {
    let (session, _) = Reference::session();
    let _entered = session.enter();
    let draw =
        || (values(&DynTensor::randn([8], DType::F32)), values(&DynTensor::rand([8], DType::F32)));
    manual_seed(1);
    let first = draw();
    let second = draw();
    manual_seed(1);
    assert_eq!(draw(), first);
    assert_eq!(draw(), second);
    assert_ne!(first, second);
    manual_seed(2);
    assert_ne!(draw(), first);
    let (other, _) = Reference::session();
    let _entered = other.enter();
    assert_ne!(draw(), first, "sessions that were not seeded differ");
}

/// The error as it is printed, its place shortened to `file:column`.
fn printed(error: &Error) -> String {
    assert!(error.loc().file().ends_with("core/tests.rs"), "{error}");
    error
        .to_string()
        .replace(&format!("{}:{}:{}", file!(), error.loc().line(), error.loc().col()), "HERE")
}

#[test]
fn mistakes_name_op_shapes_line_and_cure() {
    let x = numbers(6, &[2, 3]);
    let check = |bad: DynTensor, want: &str| {
        assert_eq!(printed(&bad.error().unwrap()), want);
        assert_eq!(printed(&(bad + 1.0).exp().item().unwrap_err()), want, "it goes along");
    };
    let broadcast = "\n  at HERE\n  hint: shapes align from the right; sizes must be equal or 1";
    check(
        &x + numbers(4, &[4]),
        &format!("add: shapes of f32[2,3] and f32[4] do not broadcast{broadcast}"),
    );
    check(
        x.sum(2),
        "sum: axis 2 is out of range for f32[2,3]\n  at HERE\n  hint: axes run from -2 to 1",
    );
    check(x.sum([0, -2]), "sum: axis -2 is listed twice for f32[2,3]\n  at HERE");
    check(
        x.reshape([4, -1]),
        "reshape: no size in place of -1 makes the 6 elements of f32[2,3] fit\n  at HERE",
    );
    check(
        x.reshape([-1, -1]),
        "reshape: only one size of the shape for f32[2,3] can be -1\n  at HERE",
    );
    check(x.slice((0, 3)), "slice: index 3 is out of range for axis 1 of f32[2,3]\n  at HERE");
    check(x.slice((0, 0, 0)), "slice: 3 indices for f32[2,3], which has 2 axes\n  at HERE");
    let positive = "\n  at HERE\n  hint: steps are 1 or more, as in PyTorch";
    check(
        x.slice(step(.., -1)),
        &format!("slice: step -1 for axis 0 of f32[2,3] is not positive{positive}"),
    );
    check(x.permute([0, 0]), "permute: [0, 0] is not an order of the axes of f32[2,3]\n  at HERE");
    check(
        DynTensor::zeros([2, -3], DType::F32),
        "zeros: -3 is not a size\n  at HERE\n  hint: sizes are 0 or more",
    );
    check(
        DynTensor::zeros([1; 8], DType::F32).unsqueeze(0),
        "unsqueeze: 9 dimensions are more than the 8 a tensor can have\n  at HERE",
    );
    check(
        DynTensor::stack([&x, &numbers(8, &[2, 4])], 0),
        "stack: f32[2,3] and f32[2,4] differ in shape\n  at HERE",
    );
    check(
        DynTensor::stack([&x], 5),
        "stack: axis 5 is out of range for f32[2,3]\n  at HERE\n  hint: axes run from -3 to 2",
    );
    check(x.split(0, 1).remove(0), "split: pieces of f32[2,3] cannot have size 0\n  at HERE");
    check(
        DynTensor::from_vec(vec![1.0_f32; 3], [2, 2]),
        "from_vec: shape [2,2] has 4 elements, but got 3\n  at HERE",
    );
    let matmul = x.matmul(&x).error().unwrap();
    assert!(matmul.message().contains("f32[2,3] by f32[2,3]"), "{matmul}");
    assert_eq!((matmul.kind(), matmul.loc().line() > 0), (ErrorKind::Operation, true));
    let many = vec![&x; 5000];
    let many = DynTensor::cat(many, 0).error().unwrap();
    assert_eq!(many.message(), "cat: 5000 operands are more than the 4096 an instruction takes");
    assert!(DynTensor::cat([], 0).error().is_some());
    assert!(DynTensor::arange(0, 5, 0, DType::I64).error().is_some());
    assert!(DynTensor::arange(0.0, f64::NAN, 1.0, DType::F32).error().is_some());
    assert!(DynTensor::arange(i64::MIN, i64::MAX, 1, DType::I64).error().is_some());
    assert!(DynTensor::zeros([usize::MAX, 2], DType::F32).error().is_some());
    assert!(DynTensor::zeros([1; 9], DType::F32).error().is_some());
}

#[test]
fn a_mistake_records_nothing() {
    let (session, _) = Reference::session();
    let _entered = session.enter();
    session.start_trace();
    let x = numbers(6, &[2, 3]);
    let bad = x.matmul(&x);
    assert!((bad.relu() + &x).sum(..).error().is_some());
    let tape = session.stop_trace();
    assert_eq!(tape.instrs().count(), 0);
    assert!(matches!(tape.entries[0], Entry::Input { .. }));
}

#[test]
fn losses_and_layers_point_at_the_callers_line() {
    let (logits, target) = (numbers(6, &[2, 3]), numbers(2, &[2]));
    let line = line!() + 1;
    let error = functional::cross_entropy(&logits, &target).error().unwrap();
    assert_eq!((error.loc().file(), error.loc().line()), (file!(), line));
    let line = line!() + 1;
    let error = functional::mse_loss(&logits, &target).item().unwrap_err();
    assert_eq!((error.loc().file(), error.loc().line()), (file!(), line));
}

#[test]
fn failures_of_the_running_system_come_with_the_line_that_recorded_them() {
    let table = numbers(6, &[3, 2]);
    let index = DynTensor::from_slice(&[1_i64, 3], [2]);
    let line = line!() + 1;
    let rows = table.embedding(&index);
    assert_eq!(rows.error(), None, "indices are data, so only the run finds out");
    let error = (rows * 2.0).sum(..).item().unwrap_err();
    assert_eq!((error.kind(), error.loc().line()), (ErrorKind::Run, line));
    assert!(error.message().contains("index 3 is out of range for an axis of size 3"), "{error}");
    assert_eq!(values(&table.sum(..)), [15.0], "what does not depend on it lives on");
}

#[test]
fn reads_say_what_does_not_fit() {
    let x = numbers(6, &[2, 3]);
    let hint = "\n  at HERE\n  hint: ";
    assert_eq!(
        printed(&x.item().unwrap_err()),
        format!(
            "item: needs exactly one element, but the tensor is f32[2,3]{hint}use `to_vec` to read them all"
        )
    );
    assert_eq!(
        printed(&x.to_vec::<i64>().unwrap_err()),
        format!(
            "to_vec: the tensor is f32[2,3], but i64 was asked for{hint}read it as f32, or cast it first"
        )
    );
}

#[test]
fn sessions_do_not_mix_and_close() {
    let (a, _) = Reference::session();
    let (b, system) = Reference::session();
    let x = {
        let _entered = a.enter();
        numbers(2, &[2])
    };
    let y = {
        let _outer = a.enter();
        let _inner = b.enter();
        numbers(2, &[2])
    };
    assert!(x.session().unwrap().is(&a) && y.session().unwrap().is(&b));
    assert!((&y + 1.0).session().unwrap().is(&b), "whatever is current now");
    let error = (&x + &y).item().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Session);
    assert!(
        error.message().starts_with("add: the operands belong to different sessions"),
        "{error}"
    );
    b.close();
    assert_eq!(y.item().unwrap_err().kind(), ErrorKind::Data);
    assert_eq!((&y + 1.0).sum(..).item().unwrap_err().message(), "the session is closed");
    assert_eq!(system.live(), 0);
    assert_eq!(values(&x), [0.0, 1.0]);
}

#[test]
fn a_session_closes_with_its_last_tensor() {
    let (session, system) = Reference::session();
    let x = {
        let _entered = session.enter();
        numbers(2, &[2])
    };
    drop(session);
    assert_eq!(values(&x), [0.0, 1.0]);
    drop(x);
    assert_eq!(std::sync::Arc::strong_count(&system), 1);
}

#[test]
fn segments_are_submitted_when_full_and_at_reads() {
    let (session, system) = Reference::session();
    let _entered = session.enter();
    let mut x = DynTensor::zeros([1], DType::F32);
    for _ in 0..1000 {
        x += 1.0;
    }
    // 2001 entries: the first value, then an addition and a free for each step. Segments end after a free.
    assert_eq!(system.segments(), [511, 512, 512]);
    assert_eq!(x.item().unwrap(), 1000.0);
    assert_eq!(system.segments().len(), 4);
    let total = session.stats().unwrap().total();
    assert_eq!((total.instructions, total.segments), (1001, 4));
}

#[test]
fn scopes_stand_on_the_tape_around_what_is_recorded() {
    let (session, _) = Reference::session();
    let _entered = session.enter();
    let x = DynTensor::zeros([1], DType::F32);
    session.start_trace();
    {
        let _outer = signal::scope("outer");
        let _unused = signal::scope("unused");
        drop(_unused);
        let y = &x + 1.0;
        {
            let _inner = signal::scope("inner");
            drop(y.exp());
        }
        session.flush();
        drop(y.exp());
    }
    drop(x.log());
    let tape = session.stop_trace();
    let text: Vec<String> = tape
        .entries
        .iter()
        .filter_map(|e| match e {
            Entry::Enter(name) => Some(format!("+{name}")),
            Entry::Exit(name) => Some(format!("-{name}")),
            Entry::Instr(i) => Some(i.op.to_string()),
            Entry::Free(_) | Entry::Input { .. } | Entry::Output { .. } => None,
        })
        .collect();
    let want = "+outer add +inner exp -inner -outer +outer exp -outer log";
    assert_eq!(text.join(" "), want, "scopes close with their segment and open again in the next");
}

#[test]
fn absurd_scopes_are_harmless() {
    let (session, _) = Reference::session();
    let _entered = session.enter();
    let _outer = signal::scope(&"é".repeat(1 << 16));
    (0..3000).for_each(|i| signal::enter(&i.to_string()));
    assert_eq!(numbers(3, &[3]).sum(..).item().unwrap(), 3.0);
    assert_eq!(numbers(3, &[3]).exp().sum(..).log().shape().rank(), 0);
}

#[test]
fn threads_share_a_session() {
    let (session, system) = Reference::session();
    std::thread::scope(|scope| {
        for t in 0..4 {
            let session = session.clone();
            scope.spawn(move || {
                let _entered = session.enter();
                let _scope = signal::scope(&format!("thread {t}"));
                let x = (0..300).fold(DynTensor::zeros([1], DType::I64), |x, _| x + 1);
                assert_eq!(x.item().unwrap(), 300.0);
            });
        }
    });
    session.flush();
    assert_eq!(system.live(), 0);
}

#[test]
fn any_op_of_the_table_can_be_recorded() {
    let x = numbers(2, &[2]);
    assert_eq!(values(&DynTensor::record(Op::Add, &[Arg::from(1), Arg::from(&x)])), [1.0, 2.0]);
    assert_eq!(
        DynTensor::record(Op::Add, &[Arg::from(&x)]).error().unwrap().message(),
        "add: takes 2 operands, but got 1"
    );
}

/// One random operation, sensible or not, on tensors of the pool.
fn random_step(rng: &mut Rng, pool: &[DynTensor]) -> DynTensor {
    let x = &pool[rng.below(pool.len())];
    let y = &pool[rng.below(pool.len())];
    let int = |rng: &mut Rng| rng.below(9) as i64 - 4;
    let ints =
        |rng: &mut Rng| (0..rng.below(5)).map(|_| rng.below(7) as i64 - 2).collect::<Vec<_>>();
    let (axis, few) = (int(rng), ints(rng));
    match rng.below(36) {
        0 => x + y,
        1 => x.mul(y),
        2 => x / 2.0,
        3 => 1 - x,
        4 => x.pow(y),
        5 => x.maximum(y),
        6 => x.lt(y),
        7 => x.logical_xor(y),
        8 => x.eq(0),
        9 => x.lt(1).where_(x, y),
        10 => x.to_dtype(DType::ALL[rng.below(DType::ALL.len())]),
        11 => x.exp(),
        12 => -x.relu(),
        13 => x.sum(few.as_slice()),
        14 => x.mean(keepdim(few.as_slice())),
        15 => x.max(axis),
        16 => x.min(..),
        17 => x.argmax(axis),
        18 => x.softmax(axis),
        19 => x.log_softmax(axis),
        20 => x.layer_norm(y, y, 1e-5),
        21 => x.matmul(y),
        22 => x.reshape(few),
        23 => x.reshape([-1]),
        24 => x.permute(few),
        25 => x.transpose(axis, int(rng)),
        26 => x.expand(few),
        27 => x.slice((range(axis, int(rng)), step(.., int(rng)))),
        28 => x.slice((Index::Ellipsis, axis, Index::NewAxis)),
        29 => DynTensor::cat([x, y, x], axis),
        30 => x.gather(axis, y),
        31 => x.index_select(axis, y),
        32 => x.one_hot(3),
        33 => x.unsqueeze(axis).squeeze(int(rng)),
        34 => x.chunk(rng.below(4), axis).pop().unwrap_or_else(|| x.clone()),
        _ => x.flatten(axis, int(rng)).var(axis),
    }
}

#[test]
fn random_programs_neither_panic_nor_lie_about_types() {
    let (session, _) = Reference::session();
    let _entered = session.enter();
    let (mut fine, mut failed) = (0, 0);
    for seed in 0..60 {
        let mut rng = Rng(seed);
        let mut pool = vec![
            numbers(6, &[2, 3]),
            DynTensor::randn([3, 2], DType::F64).requires_grad(),
            DynTensor::arange(0, 3, 1, DType::I64),
            DynTensor::scalar(2_i32),
            DynTensor::zeros([0, 2], DType::F16),
            DynTensor::from_slice(&[true, false, true], [3, 1]),
        ];
        for _ in 0..40 {
            let made = random_step(&mut rng, &pool);
            match (made.error(), made.to_host()) {
                (Some(recorded), Err(raised)) => assert_eq!(recorded, raised),
                (Some(error), Ok(_)) => panic!("read in spite of {error}"),
                (None, Ok(data)) => assert_eq!(*data.ty(), made.ty()),
                // Indices out of range, found by the run alone.
                (None, Err(error)) => assert!(error.message().contains("index"), "{error}"),
            }
            assert_eq!(
                made.error().is_some(),
                made.sum(..).error().is_some(),
                "{:?}",
                made.error()
            );
            (fine, failed) =
                if made.error().is_none() { (fine + 1, failed) } else { (fine, failed + 1) };
            if made.error().is_none() && made.numel() < 200 && made.to_host().is_ok() {
                pool.push(made);
            }
        }
        let loss = pool
            .iter()
            .filter(|t| t.is_tracked())
            .fold(DynTensor::scalar(0.0), |sum, t| sum + t.sum(..));
        loss.backward().unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    }
    assert!(fine > 500 && failed > 200, "{fine} fine, {failed} failed");
}

#[test]
fn printing_is_pytorchs() {
    let check = |x: DynTensor, want: &str| assert_eq!(x.to_string(), want);
    let matrix = DynTensor::from_slice(&[0.1234567_f32, -1.0, 12.5, 3.0], [2, 2]);
    check(matrix.clone(), "tensor([[ 0.1235, -1.0000],\n        [12.5000,  3.0000]])");
    check(numbers(3, &[3]), "tensor([0., 1., 2.])");
    check(DynTensor::scalar(1.5_f32), "tensor(1.5000)");
    check(DynTensor::scalar(7_i64), "tensor(7)");
    check(DynTensor::from_slice(&[1_i32, -10], [2]), "tensor([  1, -10], dtype=i32)");
    check(DynTensor::from_slice(&[true, false], [2]), "tensor([ True, False])");
    check(
        DynTensor::from_slice(&[1.0_f64, f64::NAN, f64::NEG_INFINITY], [3]),
        "tensor([1., nan, -inf], dtype=f64)",
    );
    check(DynTensor::from_slice(&[1e-5_f32, 1.0], [2]), "tensor([1.0000e-05, 1.0000e+00])");
    check(DynTensor::from_slice(&[1.5_f32, 123_456.0], [2]), "tensor([1.5000e+00, 1.2346e+05])");
    check(DynTensor::zeros([0, 3], DType::F32), "tensor([], size=(0, 3))");
    check(DynTensor::zeros([0], DType::I64), "tensor([], dtype=i64)");
    check(DynTensor::ones([2], DType::F32).requires_grad(), "tensor([1., 1.], requires_grad=true)");
    check(
        DynTensor::ones([2], DType::F32).requires_grad() * 2.0,
        "tensor([2., 2.], grad_fn=<mul>)",
    );
    check(numbers(4, &[2, 1, 2]), "tensor([[[0., 1.]],\n\n        [[2., 3.]]])");
    check(
        DynTensor::arange(0, 2000, 1, DType::I64),
        "tensor([   0,    1,    2,  ..., 1997, 1998, 1999])",
    );
    let wide = DynTensor::arange(0, 20, 1, DType::F32).mul(1.5);
    let rows = "tensor([ 0.0000,  1.5000,  3.0000,  4.5000,  6.0000,  7.5000,  9.0000, 10.5000,\n        \
                12.0000, 13.5000, 15.0000, 16.5000, 18.0000, 19.5000, 21.0000, 22.5000,\n        \
                24.0000, 25.5000, 27.0000, 28.5000])";
    check(wide, rows);
    let tall = DynTensor::zeros([1000, 2], DType::F32);
    let row = "        [0., 0.],\n";
    let (first, last) = ("tensor([[0., 0.],\n", "        [0., 0.]])");
    check(tall, &format!("{first}{row}{row}        ...,\n{row}{row}{last}"));
    assert_eq!(format!("{:?}", DynTensor::scalar(1_i64)), "tensor(1)");
    let bad = numbers(2, &[2]).sum(3).to_string();
    assert!(bad.starts_with("tensor(<error: sum: axis 3 is out of range for f32[2]"), "{bad}");
}

#[test]
fn printing_a_large_tensor_reads_its_edges_only() {
    let (session, _) = Reference::session();
    let _entered = session.enter();
    let x = DynTensor::zeros([100, 100], DType::F32);
    assert!(x.to_string().contains("..."));
    let total = session.stats().unwrap().total();
    assert_eq!(total.bytes_out, 6 * 6 * 4);
}

#[test]
fn arrays_of_numbers_are_tensors() {
    let (session, _) = Reference::session();
    let _entered = session.enter();
    let x = DynTensor::from([[[1_i64, 2], [3, 4], [5, 6]]]);
    assert_eq!((x.sizes(), x.dtype()), (vec![1, 3, 2], DType::I64));
    assert_eq!(x.to_vec::<i64>().unwrap(), [1, 2, 3, 4, 5, 6]);
    assert_eq!(DynTensor::from(true).ty(), gt_ir::Type::scalar(DType::Bool));
    assert_eq!(DynTensor::from([[0.0_f32; 0]; 2]).sizes(), [2, 0]);
    let (deep, line) = (DynTensor::from([[[[[[[[[1.0]]]]]]]]]), line!());
    assert_eq!(deep.error().map(|error| error.loc().line()), Some(line));
}
