//! Properties over random segments, against a plain implementation that writes the canonical form
//! out as text.

use std::{
    collections::{BTreeMap, HashMap},
    hash::{BuildHasher, RandomState},
};

use super::*;
use crate::{
    intern::Loc,
    op::{Op, Operand},
    shape::Type,
    tape::{Entry, Instr},
    testing::{Config, Source, tape},
};

/// Pieces of a random tape: segments with values from outside and values that live on.
fn segments(source: &mut Source<'_>, instrs: usize) -> Vec<Tape> {
    let whole = tape(source, &Config { instrs, ..Config::default() });
    let mut cut = vec![Tape::default()];
    for entry in whole.entries {
        if source.chance(1, 9) {
            cut.push(Tape::default());
        }
        cut.last_mut().unwrap().entries.push(entry);
    }
    cut
}

/// What a segment's key stands for, as text.
fn plain(tape: &Tape) -> String {
    let mut names: BTreeMap<ValueId, String> = BTreeMap::new();
    let (mut outside, mut here) = (0, 0);
    let mut text = String::new();
    for entry in &tape.entries {
        let mut name = |id: ValueId| {
            let name = names.entry(id).or_insert_with(|| {
                outside += 1;
                format!("outside {outside}")
            });
            name.clone()
        };
        let line = match entry {
            Entry::Input { ty, .. } => format!("upload {ty}"),
            Entry::Free(id) => format!("free {}", name(*id)),
            Entry::Output { value, .. } => format!("output {}", name(*value)),
            Entry::Enter(scope) => format!("enter {scope:?}"),
            Entry::Exit(scope) => format!("exit {scope:?}"),
            Entry::Instr(i) => {
                let operand = |o: &Operand| match o {
                    Operand::Value(id) => name(*id),
                    Operand::Scalar(s) => format!("literal {}", s.weak_dtype()),
                };
                format!("{} {:?}", i.op, i.inputs.iter().map(operand).collect::<Vec<_>>())
            }
        };
        text += &line;
        text.push('\n');
        if let Some(id) = entry.defines() {
            here += 1;
            names.insert(id, format!("here {here}"));
        }
    }
    text
}

/// Changes every name by `rename`, every literal's value, every place and every label.
fn disguise(tape: &Tape, source: &mut Source<'_>, rename: impl Fn(ValueId) -> ValueId) -> Tape {
    let mut tape = tape.clone();
    for entry in &mut tape.entries {
        match entry {
            Entry::Input { out, name, .. } => {
                *out = rename(*out);
                *name = source.chance(1, 2).then(|| "other".into());
            }
            Entry::Free(id) => *id = rename(*id),
            Entry::Output { value, name } => {
                *value = rename(*value);
                *name = source.chance(1, 2).then(|| "other".into());
            }
            Entry::Enter(_) | Entry::Exit(_) => (),
            Entry::Instr(i) => {
                i.out = rename(i.out);
                i.loc = Loc::new("elsewhere.rs", 1 + source.below(9) as u32, 1);
                let start = source.below(99) as i64;
                for (k, operand) in i.inputs.iter_mut().enumerate() {
                    match operand {
                        Operand::Value(id) => *id = rename(*id),
                        // Ascending, so that ranges stay ranges.
                        Operand::Scalar(Scalar::F64(v)) => *v = (start + k as i64) as f64,
                        Operand::Scalar(Scalar::I64(v)) => *v = start + k as i64,
                        Operand::Scalar(Scalar::Bool(v)) if matches!(i.op, Op::Randint(_)) => {
                            *v = k == 1;
                        }
                        Operand::Scalar(Scalar::Bool(v)) => *v = !*v,
                    }
                }
            }
        }
    }
    tape
}

/// Bounds whose kinds the disguise cannot keep in order.
fn has_odd_range(tape: &Tape) -> bool {
    tape.instrs().any(|i| {
        let bools = i.inputs.iter().filter(|o| matches!(o, Operand::Scalar(Scalar::Bool(_))));
        matches!(i.op, Op::Randint(_)) && bools.count() > 0
    })
}

#[test]
fn templates_and_bindings_give_the_segment_back() {
    let mut source = Source::from_seed(1);
    let mut reused = Canonicalizer::new();
    let mut kept = Bindings::default();
    for _ in 0..600 {
        for tape in segments(&mut source, 14) {
            let (template, bindings) = canonical(&tape);
            assert_eq!(expand(&template, &bindings).as_ref(), Ok(&tape));
            assert_eq!(Template::new(template.tape.clone()).as_ref(), Ok(&template));
            assert_eq!(reused.segment(&tape, &mut kept), template.key);
            assert_eq!(kept, bindings);
            assert_eq!(matches(&template, &tape, &mut kept), Ok(()));
            assert_eq!(kept, bindings);
            let bytes = postcard::to_allocvec(&(&template, &bindings)).unwrap();
            assert_eq!(postcard::from_bytes(&bytes), Ok((template, bindings)));
        }
    }
}

#[test]
fn names_literals_and_places_do_not_matter() {
    let mut source = Source::from_seed(2);
    for _ in 0..600 {
        for tape in segments(&mut source, 14).into_iter().filter(|tape| !has_odd_range(tape)) {
            let (template, _) = canonical(&tape);
            let by = source.bits() >> 1;
            let shifted = disguise(&tape, &mut source, |id| ValueId(id.0 + by));
            // Not consecutive any more, and in another order.
            let strewn = disguise(&tape, &mut source, |id| ValueId(id.0.wrapping_mul(0x9e37_79b1)));
            for other in [shifted, strewn] {
                let (same, bindings) = canonical(&other);
                assert_eq!(same.key, template.key);
                assert_eq!(explain(&template, &same).part, Part::Nothing);
                let mut found = Bindings::default();
                assert_eq!(matches(&template, &other, &mut found), Ok(()));
                assert_eq!(found, bindings);
                let elsewhere = Matcher::with_places().matches(&template, &other, &mut found);
                let instr = tape.entries.iter().position(|e| matches!(e, Entry::Instr(_)));
                assert_eq!(elsewhere.err().map(|m| m.entry), instr);
                let again = expand(&template, &bindings).unwrap();
                assert_eq!(plain(&again), plain(&other));
                assert_eq!(canonical(&again).1, bindings);
            }
        }
    }
}

/// One change somewhere; it may also leave the segment what it was.
fn mutate(tape: &mut Tape, source: &mut Source<'_>, ops: &[Op], types: &[Type]) {
    let n = tape.entries.len();
    if n == 0 {
        tape.entries.push(Entry::Free(ValueId(0)));
        return;
    }
    let id = ValueId(source.below(20) as u64);
    let (at, to) = (source.below(n), source.below(n));
    let scalar = [Scalar::F64(0.5), Scalar::I64(source.below(3) as i64), Scalar::Bool(true)];
    let scalar = scalar[source.below(3)];
    match source.below(8) {
        0 => tape.entries.swap(at, to),
        1 => drop(tape.entries.remove(at)),
        2 => {
            let moved = tape.entries.remove(at);
            tape.entries.insert(to, moved);
        }
        3 => tape.entries.insert(at, Entry::Free(id)),
        4 => tape.entries.insert(at, Entry::Output { value: id, name: None }),
        _ => match &mut tape.entries[at] {
            Entry::Free(value) | Entry::Output { value, .. } => *value = id,
            Entry::Input { ty, .. } => *ty = *source.pick(types).unwrap(),
            Entry::Enter(name) | Entry::Exit(name) => {
                *name = ["layer1", "loss", ""][source.below(3)].into();
            }
            Entry::Instr(Instr { op, inputs, .. }) => match source.below(6) {
                0 | 1 => *op = *source.pick(ops).unwrap(),
                2 => inputs.push(Operand::Value(id)),
                3 => drop(inputs.pop()),
                _ => {
                    let k = source.below(inputs.len());
                    let with = [Operand::Value(id), Operand::Scalar(scalar)][source.below(2)];
                    inputs.get_mut(k).into_iter().for_each(|operand| *operand = with);
                }
            },
        },
    }
}

#[test]
fn keys_are_equal_exactly_when_segments_do_the_same() {
    let mut source = Source::from_seed(5);
    let pool = tape(&mut source, &Config { instrs: 400, ..Config::default() });
    let ops: Vec<Op> = pool.instrs().map(|i| i.op).collect();
    let types: Vec<Type> = (0..40)
        .map(|_| match tape(&mut source, &Config::default()).entries[0] {
            Entry::Input { ty, .. } => ty,
            _ => panic!("tapes begin with an input"),
        })
        .collect();
    let mut parts: BTreeMap<Part, usize> = BTreeMap::new();
    for _ in 0..3000 {
        for before in segments(&mut source, 10) {
            let (template, _) = canonical(&before);
            for _ in 0..4 {
                let mut after = before.clone();
                for _ in 0..=source.below(2) {
                    mutate(&mut after, &mut source, &ops, &types);
                }
                let (other, bindings) = canonical(&after);
                let same = plain(&before) == plain(&after);
                assert_eq!(template.key == other.key, same, "{before:?}\n{after:?}");
                let difference = explain(&template, &other);
                assert_eq!(difference.part == Part::Nothing, same, "{difference}");
                let matched = matches(&template, &after, &mut Bindings::default());
                assert_eq!(matched.is_ok(), same);
                assert!(
                    matched.is_ok_and(|()| true) || matched.unwrap_err().entry == difference.entry
                );
                if let Ok(again) = expand(&other, &bindings) {
                    assert_eq!(again, after);
                }
                let ty = source.pick(&types).copied();
                let _ = crate::segment(&after, |_| ty);
                *parts.entry(difference.part).or_default() += 1;
            }
        }
    }
    assert_eq!(parts.len(), 14, "every part was seen: {parts:?}");
}

#[test]
fn a_million_segments_have_a_million_keys() {
    let mut source = Source::from_seed(4);
    let pool = tape(&mut source, &Config { instrs: 300, ..Config::default() });
    let ops: Vec<Op> = pool.instrs().map(|i| i.op).collect();
    let types = [Type::scalar(crate::DType::F32), Type::scalar(crate::DType::I64)];
    let other = RandomState::new();
    let mut seen: HashMap<Key, u64> = HashMap::new();
    let mut taking = Canonicalizer::new();
    let mut bindings = Bindings::default();
    let mut tape = segments(&mut source, 12).remove(0);
    let mut distinct = std::collections::HashSet::new();
    for _ in 0..1_000_000 {
        for _ in 0..3 {
            mutate(&mut tape, &mut source, &ops, &types);
        }
        while tape.entries.len() < 6 {
            tape.entries.extend(segments(&mut source, 6).remove(0).entries);
        }
        tape.entries.truncate(12);
        let key = taking.segment(&tape, &mut bindings);
        let (template, _) = canonical(&tape);
        let entries = template.tape.entries.iter().map(|entry| match entry {
            Entry::Instr(i) => Entry::Instr(Instr { loc: Loc::NONE, ..i.clone() }),
            Entry::Input { out, ty, .. } => Entry::Input { out: *out, ty: *ty, name: None },
            Entry::Output { value, .. } => Entry::Output { value: *value, name: None },
            Entry::Free(_) | Entry::Enter(_) | Entry::Exit(_) => entry.clone(),
        });
        let hash = other.hash_one((template.n_inputs, entries.collect::<Vec<_>>()));
        assert_eq!(*seen.entry(key).or_insert(hash), hash, "two segments with the key {key}");
        distinct.insert(hash);
    }
    assert_eq!(seen.len(), distinct.len(), "one segment with two keys");
    assert!(seen.len() > 500_000, "{}", seen.len());
}

fn parse(text: &str) -> Tape {
    crate::text::parse(&format!("gt tape 1\n{text}")).unwrap().0
}

#[test]
fn aliases_are_told_apart() {
    let [one, two] = ["%9 = add %3, %3\n", "%9 = add %3, %4\n"].map(|line| {
        let entry = parse(&format!("%3 = input : f32[2]\n%4 = input : f32[2]\n{line}"));
        Tape { entries: entry.entries[2..].to_vec() }
    });
    let (one, two) = (canonical(&one).0, canonical(&two).0);
    let difference = explain(&one, &two);
    assert_eq!(difference.part, Part::Alias);
    assert_eq!(
        difference.to_string(),
        "entry 0: which operands are the same value differs: value 0 from outside against value 1 \
         from outside"
    );
    let twice = Bindings { inputs: vec![ValueId(5), ValueId(5)], ..canonical(&parse("")).1 };
    assert!(matches!(expand(&two, &twice), Err(Unfit::Count { .. })));
    let twice = Bindings { defined: Defined::Run(ValueId(6), 1), ..twice };
    assert_eq!(expand(&two, &twice), Err(Unfit::Twice(ValueId(5))));
}

#[test]
fn bindings_that_do_not_fit_are_refused() {
    let tape = parse("%0 = randint[i64[3]] 2, 7, 1\n%1 = add %0, 1.5\n");
    let (template, good) = canonical(&tape);
    let with = |change: fn(&mut Bindings)| {
        let mut bindings = good.clone();
        change(&mut bindings);
        expand(&template, &bindings).unwrap_err().to_string()
    };
    assert_eq!(with(|b| b.scalars[0] = Scalar::I64(7)), "randint: the range 7..7 is empty");
    assert_eq!(
        with(|b| b.scalars[3] = Scalar::I64(7)),
        "literal 3 is 7, but the template takes a literal of kind f32"
    );
    assert_eq!(
        with(|b| b.defined = Defined::Run(ValueId(u64::MAX), 2)),
        "the values defined have no names left"
    );
    assert_eq!(
        with(|b| b.defined = Defined::List(vec![ValueId(1); 2])),
        "%1 stands for two values of the template"
    );
    assert!(with(|b| b.inputs.push(ValueId(9))).starts_with("1 values given"));
    let mut source = Source::from_seed(5);
    for _ in 0..2000 {
        let bytes = postcard::to_allocvec(&(&template, &good)).unwrap();
        let mut bytes = bytes;
        for _ in 0..1 + source.below(3) {
            let at = source.below(bytes.len());
            bytes[at] = source.bits() as u8;
        }
        if let Ok((template, bindings)) = postcard::from_bytes::<(Template, Bindings)>(&bytes) {
            let _ = expand(&template, &bindings);
        }
    }
}

/// The first part that differs of two segments, whose first lines (inputs `%0`, `%1` and `%2`) come
/// from before.
fn differs(first: &str, second: &str) -> Part {
    let [a, b] = [first, second].map(|text| {
        let given = "%0 = input : f32[2]\n%1 = input : f32[2]\n%2 = input : i64[2]\n";
        let whole = parse(&format!("{given}{text}"));
        canonical(&Tape { entries: whole.entries[3..].to_vec() }).0
    });
    let (there, back) = (explain(&a, &b), explain(&b, &a));
    assert_eq!((there.part, there.entry), (back.part, back.entry));
    there.part
}

#[test]
fn differences_are_called_by_their_names() {
    for (first, second, part) in [
        ("%3 = add %0, %1\n", "%3 = add %1, %0\n", Part::Nothing),
        ("%3 = add %0, 1.5\n", "%3 = add %0, 2.5\n", Part::Nothing),
        ("%3 = exp %0\n", "%3 = exp %0\nfree %0\n", Part::Length),
        ("%3 = exp %0\n", "free %0\n", Part::EntryKind),
        ("%3 = exp %0\n", "%3 = log %0\n", Part::Op),
        ("%3 = sum[0] %0\n", "%3 = sum[0,keep] %0\n", Part::Attribute),
        ("%3 = cast[f64] %0\n", "%3 = cast[f16] %0\n", Part::DType),
        ("%3 = full[f32[2]] 1.0\n", "%3 = full[f64[2]] 1.0\n", Part::DType),
        ("%3 = full[f32[2]] 1.0\n", "%3 = full[f32[Batch=2]] 1.0\n", Part::Shape),
        ("%3 = reshape[1,2] %0\n", "%3 = reshape[2,1] %0\n", Part::Shape),
        ("%3 = input : f32[2]\n", "%3 = input : f32[3]\n", Part::Shape),
        ("%3 = cat[0] %0, %1\n", "%3 = cat[0] %0, %1, %0\n", Part::Arity),
        ("%3 = exp %0\n%4 = log %3\n", "%3 = exp %0\n%4 = log %0\n", Part::Wiring),
        ("%3 = add %0, %0\n", "%3 = add %0, %1\n", Part::Alias),
        ("%3 = add %2, 1\n", "%3 = add %2, 1.0\n", Part::Literal),
        ("%3 = add %2, 1\n", "%3 = add %2, %0\n", Part::Literal),
        ("%3 = add %0, %1\nfree %0\n", "%3 = add %0, %1\nfree %1\n", Part::Free),
        ("%3 = add %0, %1\noutput %0\n", "%3 = add %0, %1\noutput %3\n", Part::Output),
        ("enter \"a\"\nexit \"a\"\n", "enter \"b\"\nexit \"b\"\n", Part::Signal),
        ("%3 = exp %0\n%4 = log %1\n", "%3 = log %0\n%4 = exp %1\n", Part::Op),
    ] {
        assert_eq!(differs(first, second), part, "{first}{second}");
    }
}
