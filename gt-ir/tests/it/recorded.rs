//! Faults of recorded tapes, whole and entry by entry, as the user sees them.

use gt_ir::{
    Entry, Instr, Loc, Op, Operand, Scalar, Tape, ValueId,
    diagnostic::Color,
    text,
    verify::{Fault, FaultKind, Verifier, verify},
};

fn entry(line: &str) -> Entry {
    let (tape, _) = text::parse(&format!("gt tape 1\n{line}\n")).expect("a valid line");
    tape.entries.into_iter().next().expect("one entry")
}

fn tape(lines: &[&str]) -> Tape {
    Tape { entries: lines.iter().map(|line| entry(line)).collect() }
}

/// Feeds lines to a session's verifier and writes down what it says of each.
fn session(lines: &[&str]) -> String {
    let mut verifier = Verifier::new();
    let verdicts = lines.iter().map(|line| match verifier.entry(&entry(line)) {
        Ok(Some(ty)) => format!("{line} -> {ty}\n"),
        Ok(None) => format!("{line} -> ok\n"),
        Err(Fault { kind, message, .. }) => format!("{line} -> {kind:?}: {message}\n"),
    });
    verdicts.collect()
}

#[test]
fn a_fault_of_a_recorded_tape_is_drawn_over_its_text() {
    let tape = tape(&[
        "%0 = input \"x\" : f32[Batch=32,784]",
        "%1 = input : f32[256,10]",
        "enter \"layer1\"",
        "%2 = matmul %0, %1 @\"examples/digits.rs\":12:5",
        "%3 = relu %2",
        "free %0",
        "exit \"layer1\"",
        "%4 = exp %0",
    ]);
    let faults = verify(&tape).expect_err("two faults");
    let expected = "\
error: matmul: cannot multiply f32[Batch=32,784] by f32[256,10]
 --> tape:5:6
  |
5 | %2 = matmul %0, %1 @\"examples/digits.rs\":12:5
  |      ^^^^^^^^^^^^^
  |
  = note: recorded at examples/digits.rs:12:5
  = hint: the last dimension of the left must equal the second-to-last of the right

error: use of %0 after it was freed
 --> tape:9:10
  |
7 | free %0
  | ------- freed here
8 | exit \"layer1\"
9 | %4 = exp %0
  |          ^^";
    assert_eq!(text::explain(&tape, &faults, Color::Never), expected);
}

#[test]
fn a_session_learns_of_each_fault_once() {
    let lines = [
        "%0 = input : f32[2]",
        "%1 = add %0, %7",
        "%2 = exp %1",
        "%0 = exp %0",
        "free %0",
        "%3 = exp %0",
        "free %0",
        "output %2",
        "output %9",
        "enter \"a\"",
        "exit \"b\"",
        "exit \"a\"",
        "%4 = sum[1] %3",
        "%5 = iota[i64[3]]",
        "%6 = sum[1] %5",
    ];
    let expected = "\
%0 = input : f32[2] -> f32[2]
%1 = add %0, %7 -> NotLive: add: %7 is not alive
%2 = exp %1 -> ok
%0 = exp %0 -> Redefinition: second definition of %0
free %0 -> ok
%3 = exp %0 -> NotLive: exp: %0 is not alive
free %0 -> NotLive: free of %0, which is not alive
output %2 -> ok
output %9 -> NotLive: output: %9 is not alive
enter \"a\" -> ok
exit \"b\" -> Signal: exit of signal \"b\", which is not open
exit \"a\" -> ok
%4 = sum[1] %3 -> ok
%5 = iota[i64[3]] -> i64[3]
%6 = sum[1] %5 -> Type: sum: axis 1 is out of range for i64[3]
";
    assert_eq!(session(&lines), expected);
}

#[test]
fn a_long_session_remembers_live_values_only() {
    let mut verifier = Verifier::new();
    verifier.entry(&entry("%0 = input : f32[2]")).expect("an input");
    let instr = |out, input| {
        let inputs =
            [Operand::Value(ValueId(input)), Operand::Scalar(Scalar::F64(1.0))].as_slice().into();
        Entry::Instr(Instr { out: ValueId(out), op: Op::Add, inputs, loc: Loc::NONE })
    };
    for id in 1..100_000 {
        verifier.entry(&instr(id, id - 1)).expect("an addition");
        verifier.entry(&Entry::Free(ValueId(id - 1))).expect("a free");
    }
    assert_eq!(verifier.n_live(), 1);
}

#[test]
fn the_faults_of_a_tape_are_bounded() {
    let tape = tape(&["output %5"; 500]);
    let faults = verify(&tape).expect_err("nothing but faults");
    assert_eq!(faults.len(), gt_ir::verify::MAX_FAULTS);
    assert!(faults.iter().all(|fault| fault.kind == FaultKind::Unknown));
}

/// What the verifier accepts must reach the other side.
#[test]
fn what_no_form_carries_is_a_fault() {
    let name = "x".repeat(gt_ir::tape::MAX_STRING + 1);
    let inputs = vec![Operand::Value(ValueId(0)); gt_ir::tape::MAX_OPERANDS + 1];
    let out = ValueId(1);
    let wide = Instr { out, op: "cat[0]".parse().unwrap(), inputs: inputs.into(), loc: Loc::NONE };
    let entries = vec![
        entry("%0 = input : f32[2]"),
        Entry::Enter(name.as_str().into()),
        Entry::Exit(name.as_str().into()),
        Entry::Instr(wide),
    ];
    let faults = verify(&Tape { entries }).expect_err("three faults");
    assert_eq!(faults.iter().map(|fault| fault.kind).collect::<Vec<_>>(), [FaultKind::Limit; 3]);
}

/// A long chain of instructions, each using the next: the search for a cycle must not recurse.
#[test]
fn a_long_cycle_is_found_without_deep_recursion() {
    let n = 50_000;
    let lines = (0..n).map(|id| format!("%{id} = exp %{}\n", (id + 1) % n));
    let text: String = std::iter::once("gt tape 1\n".to_owned()).chain(lines).collect();
    let (tape, _) = text::parse(&text).expect("well formed line by line");
    let faults = verify(&tape).expect_err("a cycle");
    assert_eq!(faults[0].kind, FaultKind::Cycle);
}
