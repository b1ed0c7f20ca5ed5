//! Mistakes of programs: each is said with the op, the shapes, the line and the cure, and records
//! nothing.

use gt_ir::{DType, Entry};

use super::{numbers, values};
use crate::core::*;
use crate::error::{Error, ErrorKind};
use crate::functional;
use crate::reference::Reference;

/// The error as it is printed, its place shortened to `file:column`.
fn printed(error: &Error) -> String {
    assert!(error.loc().file().ends_with("core/tests/mistakes.rs"), "{error}");
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
    check(
        x.slice((0, 3)),
        "slice: index 3 is out of range for axis 1 of f32[2,3]\n  at HERE\n  hint: indices run \
         from -3 to 2",
    );
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
    check(
        x.split(0, 1).remove(0),
        "split: pieces of f32[2,3] cannot have size 0\n  at HERE\n  hint: sizes of pieces are 1 \
         or more",
    );
    check(
        DynTensor::from_vec(vec![1.0_f32; 3], [2, 2]),
        "from_vec: shape [2,2] has 4 elements, but got 3\n  at HERE",
    );
    let matmul = x.matmul(&x).error().unwrap();
    assert!(matmul.message().contains("f32[2,3] by f32[2,3]"), "{matmul}");
    assert_eq!((matmul.kind(), matmul.loc().line() > 0), (ErrorKind::Operation, true));
    let many = vec![&x; 5000];
    let many = DynTensor::cat(many, 0).error().unwrap();
    assert_eq!(many.cure(), Some("join them a few at a time, and the results then"));
    assert_eq!(many.message(), "cat: 5000 operands are more than the 4096 an instruction takes");
    assert!(DynTensor::cat(&[] as &[DynTensor], 0).error().is_some());
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
            "item: needs exactly one element, but the tensor is f32[2,3]{hint}use `to_vec` to \
             read them all"
        )
    );
    assert_eq!(
        printed(&x.to_vec::<i64>().unwrap_err()),
        format!(
            "to_vec: the tensor is f32[2,3], but i64 was asked for{hint}read it as f32, or cast \
             it first"
        )
    );
}
