//! Input that is not what it should be: refused with a reason, never a panic, never a hang.

use gt_ir::{
    Entry, Instr, Tape, binary,
    binary::DecodeError,
    diagnostic::{Color, render},
    interp,
    testing::{Config, Source, inputs, tape},
    text,
    verify::verify,
};

/// A valid tape with a few bytes changed, removed, repeated or put in.
fn mutated(mut bytes: Vec<u8>, source: &mut Source<'_>) -> Vec<u8> {
    for _ in 0..=source.below(4) {
        let at = source.below(bytes.len() + 1);
        let end = (at + source.below(12)).min(bytes.len());
        match source.below(5) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..end)),
            2 => bytes.insert(at, source.bits() as u8),
            3 => {
                let piece = bytes[at..end].to_vec();
                let to = source.below(bytes.len() + 1);
                bytes.splice(to..to, piece);
            }
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = [b'%', b'[', b',', b'"', 0, 0xff, b'9', source.bits() as u8]
                        [source.below(8)];
                }
            }
        }
    }
    bytes
}

fn some_tape(source: &mut Source<'_>) -> Tape {
    tape(source, &Config::default())
}

/// Runs what verifies, unless it is large: it may fail, and that is all it may do.
fn run_if_verified(tape: &Tape, source: &mut Source<'_>) {
    let Ok(verified) = verify(tape) else { return };
    let mut values = tape.entries.iter().filter_map(|entry| verified.ty(entry.defines()?));
    if values.all(|ty| ty.shape.numel() < 10_000) {
        let _ = interp::run(tape, &inputs(tape, source));
    }
}

#[test]
fn any_text_is_read_or_refused_with_a_place() {
    for seed in 0..3000 {
        let mut source = Source::from_seed(seed);
        let printed = text::print(&some_tape(&mut source)).into_bytes();
        let bytes = if source.chance(1, 8) {
            (0..source.below(300)).map(|_| source.bits() as u8).collect()
        } else {
            mutated(printed, &mut source)
        };
        let text = String::from_utf8_lossy(&bytes);
        match text::load(&text) {
            Ok(loaded) => {
                run_if_verified(&loaded.tape, &mut source);
                let printed = text::print(&loaded.tape);
                assert_eq!(
                    text::load(&printed).expect("what was printed parses").tape,
                    loaded.tape
                );
            }
            Err(errors) => {
                assert!(!errors.is_empty());
                assert!(
                    errors
                        .iter()
                        .all(|e| e.span.as_ref().is_none_or(|s| text.get(s.clone()).is_some())),
                    "{errors:?}"
                );
                assert!(render(&errors, "file", &text, Color::Never).starts_with("error: "));
            }
        }
        // Whatever parses can be verified and explained.
        if let Ok((tape, _)) = text::parse(&text)
            && let Err(faults) = verify(&tape)
        {
            assert!(text::explain(&tape, &faults, Color::Never).starts_with("error: "));
        }
    }
}

/// Ops and operands exchanged between the instructions of a valid tape: much of it still verifies,
/// in ways that the generator does not think of.
#[test]
fn shuffled_tapes_are_refused_or_run() {
    let (mut refused, mut ran) = (0, 0);
    for seed in 0..3000 {
        let mut source = Source::from_seed(seed);
        let mut tape = some_tape(&mut source);
        let instrs: Vec<Instr> = tape.instrs().cloned().collect();
        for entry in &mut tape.entries {
            let (Entry::Instr(instr), true) = (entry, source.chance(1, 6)) else { continue };
            let other = source.pick(&instrs).cloned().unwrap_or_else(|| instr.clone());
            match source.below(3) {
                0 => instr.op = other.op,
                1 => instr.inputs = other.inputs,
                _ => instr.inputs.extend(other.inputs.first().copied()),
            }
        }
        if verify(&tape).is_ok() {
            ran += 1;
        } else {
            refused += 1;
        }
        run_if_verified(&tape, &mut source);
    }
    assert!(ran > 300 && refused > 300, "{ran} ran, {refused} were refused");
}

#[test]
fn any_bytes_are_decoded_or_refused() {
    for seed in 0..3000 {
        let mut source = Source::from_seed(seed);
        let encoded = binary::encode(&some_tape(&mut source));
        let bytes = match source.below(4) {
            0 => (0..source.below(300)).map(|_| source.bits() as u8).collect(),
            1 => {
                let body: Vec<u8> = (0..source.below(300)).map(|_| source.bits() as u8).collect();
                [&encoded[..18], &body].concat()
            }
            _ => mutated(encoded, &mut source),
        };
        if let Ok(tape) = binary::decode(&bytes) {
            assert_eq!(binary::decode(&binary::encode(&tape)).as_ref(), Ok(&tape));
            let _ = text::print(&tape);
            run_if_verified(&tape, &mut source);
        }
    }
}

#[test]
fn every_truncation_and_every_addition_is_noticed() {
    let tape = some_tape(&mut Source::from_seed(3));
    let encoded = binary::encode(&tape);
    for len in 0..encoded.len() {
        let error = binary::decode(&encoded[..len]).expect_err("a part is no tape");
        let expected =
            if len == 0 { DecodeError::NotATape } else { DecodeError::Truncated { len } };
        assert_eq!(error, expected);
    }
    let longer = [encoded.as_slice(), &[0; 3]].concat();
    assert_eq!(binary::decode(&longer), Err(DecodeError::Trailing { extra: 3 }));
}

#[test]
fn a_tape_of_another_program_is_refused_by_name() {
    let encoded = binary::encode(&Tape::default());
    let mut other = encoded.clone();
    other[8] = 9;
    assert_eq!(binary::decode(&other), Err(DecodeError::Version { found: 9 }));
    let mut other = encoded;
    other[10] ^= 1;
    assert!(matches!(binary::decode(&other), Err(DecodeError::Table { .. })));
    assert_eq!(binary::decode(b"gt tape 1\n"), Err(DecodeError::NotATape));
}

/// A length that promises more than there is must not be believed.
#[test]
fn announced_lengths_reserve_nothing() {
    let header = &binary::encode(&Tape::default())[..18];
    let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
    for prefix in [&[][..], &[0], &[0, 0]] {
        let bytes = [header, prefix, &huge].concat();
        assert!(binary::decode(&bytes).is_err());
    }
}
