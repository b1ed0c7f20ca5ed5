//! Random tapes, signals and layouts.

use std::collections::BTreeMap;
use std::sync::Arc;

use gt_compiler::shard::{Auto, Rates, at};
use gt_ir::layout::{Layout, Mesh, Spread};
use gt_ir::signal::{Reduction, Schedule, ShardAxis, ShardConfig, SignalConfig, Signals};
use gt_ir::testing::{self, Source};
use gt_ir::text;
use gt_ir::{Entry, HostTensor, Tape, Type, ValueId};

use super::members::{Case, LATE, Runner, SHARED, interpreted};

/// A random layout of a value on some of the members.
fn layout(source: &mut Source<'_>, ty: &Type, n_members: u32) -> Layout {
    if source.chance(1, 3) {
        return at(source.below(n_members as usize) as u32);
    }
    let n = 1 + source.below(n_members as usize) as u32;
    let two = n.is_multiple_of(2) && source.chance(1, 2);
    let sizes = if two { vec![n as usize / 2, 2] } else { vec![n as usize] };
    let mesh = Arc::new(Mesh::new((0..n).collect(), &sizes).unwrap());
    let mut layout = Layout::whole(mesh);
    let mut free: Vec<usize> = (0..ty.shape.rank()).collect();
    for (axis, size) in sizes.iter().enumerate() {
        if !free.is_empty() && source.chance(3, 4) {
            let dim = free.remove(source.below(free.len()));
            let chunk = ty.shape.sizes()[dim].div_ceil(*size);
            layout.spreads[axis] = Spread::Split { dim: dim as u8, chunk };
        }
    }
    layout
}

/// A tape with its instructions put into random scopes.
fn scoped(tape: &Tape, source: &mut Source<'_>) -> Tape {
    let mut scoped = Tape::default();
    let mut open: Option<Arc<str>> = None;
    for entry in &tape.entries {
        if source.chance(1, 4) {
            scoped.entries.extend(open.take().map(Entry::Exit));
            if source.chance(2, 3) {
                let name: Arc<str> = ["a", "b", "c"][source.below(3)].into();
                scoped.entries.push(Entry::Enter(Arc::clone(&name)));
                open = Some(name);
            }
        }
        scoped.entries.push(entry.clone());
    }
    scoped.entries.extend(open.map(Entry::Exit));
    scoped
}

fn signals(source: &mut Source<'_>, n_members: u32, reduction: Reduction) -> Signals {
    let mut signals = Signals::new();
    for name in ["a", "b"] {
        let mut workers: Vec<u32> = (0..n_members + 1).collect();
        workers.retain(|_| source.chance(2, 3));
        let width = 2 + source.below(2);
        let is_grid = workers.len() > width && workers.len().is_multiple_of(width);
        let mesh = (is_grid && source.chance(2, 3))
            .then(|| workers.chunks(width).map(<[u32]>::to_vec).collect());
        let listed = workers.clone();
        let axis = match source.chance(1, 4) {
            true => ShardAxis::Named(["Batch", "Seq"][source.below(2)].into()),
            false => ShardAxis::Number(source.below(4) as i64 - 2),
        };
        let shard = ShardConfig {
            axis,
            columns: mesh.as_ref().map(|_| ShardAxis::Number(source.below(2) as i64 + 2)),
            workers: Some(listed).filter(|w| !w.is_empty() && mesh.is_none()),
            mesh,
            replicated: source.chance(1, 8),
            open: source.chance(1, 4),
            priority: source.below(2) as u32,
            reduction,
            microbatches: source.chance(1, 2).then(|| 1 + source.below(4) as u32),
            schedule: [Schedule::Gpipe, Schedule::OneForwardOneBackward][source.below(2)],
        };
        let config = SignalConfig { shard: Some(shard), ..SignalConfig::default() };
        signals.set(name, config).unwrap();
    }
    signals
}

/// A segment of a tape, the inputs of which are values from outside or uploads.
fn segment(tape: &Tape, source: &mut Source<'_>) -> (Tape, Vec<(ValueId, Type)>) {
    let (mut segment, mut outside) = (Tape::default(), Vec::new());
    for entry in &tape.entries {
        match entry {
            Entry::Input { out, ty, .. } if source.chance(2, 3) => outside.push((*out, *ty)),
            Entry::Output { .. } => {}
            Entry::Input { .. }
            | Entry::Instr(_)
            | Entry::Free(_)
            | Entry::Enter(_)
            | Entry::Exit(_) => segment.entries.push(entry.clone()),
        }
    }
    (segment, outside)
}

/// One random program: the values that it leaves on its members are those of one worker, to the bit
/// if sums are pinned.
pub(super) fn check(seed: u64, config: &testing::Config, reduction: Reduction, run: Runner<'_>) {
    let mut source = Source::from_seed(seed);
    let tape = testing::tape(&mut source, config);
    let data = testing::inputs(&tape, &mut source);
    let whole = run(&tape, &data);
    let (body, outside) = segment(&tape, &mut source);
    let segment = scoped(&body, &mut source);
    // More than eight members exchange in groups, and more than eight groups in groups of them.
    let n_members = match source.below(40) {
        0 => 27,
        1..5 => 9 + source.below(6) as u32,
        _ => 1 + source.below(6) as u32,
    };
    let outside = outside.into_iter().map(|(id, ty)| (id, layout(&mut source, &ty, n_members)));
    let outside = outside.collect();
    let signals = signals(&mut source, n_members, reduction);
    let rates = [Rates::default(), SHARED, LATE][source.below(3)];
    let zero = source.below(4) as u8;
    let auto = source.chance(1, 2).then_some(Auto { zero, memory: 0 });
    let come = |entry: &Entry| match entry {
        Entry::Input { ty, .. } => Some(layout(&mut source, ty, n_members)),
        Entry::Instr(_)
        | Entry::Free(_)
        | Entry::Enter(_)
        | Entry::Exit(_)
        | Entry::Output { .. } => None,
    };
    let uploads = segment.entries.iter().filter_map(come).collect();
    let case = Case { segment, outside, uploads, signals, n_members, auto, rates };
    let graph = gt_ir::lower(&tape).unwrap();
    case.check_on(run, &data, &whole, |_, expected, got| match reduction {
        Reduction::Usual => {
            let coarse = testing::units(&graph, got.ty().dtype);
            testing::difference(got, expected, 32.0 * coarse)
        }
        Reduction::Pinned => {
            let same = testing::same_bits(got, expected);
            (!same).then(|| format!("{got:?} and {expected:?}"))
        }
    });
}

/// Integers to the bit, floats within rounding. `GT_SEEDS` asks for more programs.
#[test]
fn members_together_compute_what_one_computes() {
    let n = std::env::var("GT_SEEDS").map_or(1_000, |n| n.parse().unwrap());
    // Sums of so many elements are scattered, combined in parts and gathered.
    let large = testing::Config { instrs: 6, max_size: 40, max_numel: 4_000, ..Default::default() };
    for seed in 0..n {
        let check = |seed, config: &_| check(seed, config, Reduction::Usual, &interpreted);
        check(3 * seed, &testing::Config::integers());
        check(3 * seed + 1, &testing::Config::default());
        if seed % 4 == 0 {
            check(3 * seed + 2, &large);
        }
    }
}

/// Each member repeats what depends on literals alone, but no chain so long that its walk, which is
/// a recursion, would leave the stack.
#[test]
fn a_long_chain_of_constants_is_computed() {
    let n = 100_000;
    let chain = (1..n).map(|i| format!("%{i} = add %{}, 1.0\nfree %{}\n", i - 1, i - 1));
    let chain: String = chain.collect();
    let text = format!("gt tape 1\nenter \"a\"\n%0 = full[f32[4]] 0.0\n{chain}exit \"a\"\n");
    let segment = text::parse(&text).unwrap().0;
    let mut whole = segment.clone();
    whole.entries.push(Entry::Output { value: ValueId(n - 1), name: None });
    let whole = interpreted(&whole, &BTreeMap::new());
    let shard = Some(ShardConfig::default());
    let mut signals = Signals::new();
    signals.set("a", SignalConfig { shard, ..SignalConfig::default() }).unwrap();
    let (outside, uploads, rates) = (Vec::new(), Vec::new(), Rates::default());
    let case = Case { segment, outside, uploads, signals, n_members: 2, auto: None, rates };
    assert_eq!(whole.len(), 1);
    case.check(&BTreeMap::new(), &whole, |_, expected, got| {
        (!testing::same_bits(got, expected)).then(|| format!("{got:?} and {expected:?}"))
    });
}

/// The messages of many members that hold `rows` rows of `width` numbers each, and together do what
/// the instructions on `%0` say.
fn messages(n: usize, (rows, width): (usize, usize), instructions: &[&str]) -> u64 {
    let ty: Type = format!("i64[{},{width}]", rows * n).parse().unwrap();
    let numbers = (0..(rows * n * width) as i64).map(|i| i * i % 7).collect();
    let data = BTreeMap::from([(ValueId(0), HostTensor::from_vec(numbers, ty.shape).unwrap())]);
    let lines = instructions.iter().zip(1..).map(|(op, i)| format!("%{i} = {op} %0\n"));
    let whole = format!("gt tape 1\n%0 = input : {ty}\n{}", lines.collect::<String>());
    let mut whole = text::parse(&whole).unwrap().0;
    let segment = Tape { entries: whole.entries[1..].to_vec() };
    let output = |value| Entry::Output { value: ValueId(value), name: None };
    whole.entries.extend((1..=instructions.len() as u64).map(output));
    let whole = interpreted(&whole, &data);
    assert_eq!(whole.len(), instructions.len());
    let mesh = Arc::new(Mesh::new((0..n as u32).collect(), &[n]).unwrap());
    let layout = Layout::whole(mesh).with(0, Spread::Split { dim: 0, chunk: rows });
    let case = Case {
        segment,
        outside: vec![(ValueId(0), layout)],
        uploads: Vec::new(),
        signals: Signals::new(),
        n_members: n as u32,
        auto: None,
        rates: Rates::default(),
    };
    case.check(&data, &whole, |_, expected, got| {
        (!testing::same_bits(got, expected)).then(|| format!("{got:?} and {expected:?}"))
    });
    case.partition(&data).report.messages
}

/// Many members combine sums in groups, so that each of them exchanges messages with few others.
/// Small sums take one exchange in each group, large ones two.
#[test]
fn many_members_combine_sums_in_groups() {
    // So many that a sum costs less than all rows on each member.
    const ROWS: usize = 60;
    let cases = [(8, 3, 7), (9, 3, 4), (11, 3, 10), (30, 3, 9), (9, 2_000, 6), (72, 2_000, 18)];
    for (n, width, of_each) in cases {
        let sent = messages(n, (ROWS, width), &["sum[0]", "max[0]"]);
        assert_eq!(sent, (2 * n * of_each) as u64, "{n} members, {width} elements");
    }
}

/// Many members gather what they hold in groups, and then across groups, and many groups do so in
/// groups.
#[test]
fn many_members_gather_in_groups() {
    for (n, of_each) in [(8, 7), (9, 4), (11, 10), (72, 11), (128, 15)] {
        assert_eq!(messages(n, (2, 3), &["cumsum[0]"]), (n * of_each) as u64, "{n} members");
    }
}
