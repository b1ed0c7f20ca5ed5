//! Budgets for networks and for random programs: runs that read what is there, and fewer bytes.

use super::*;

/// A step that makes `out` of `reads`.
fn step(out: u32, reads: &[u32], work: usize) -> Step {
    let reads = reads.iter().map(|&b| BufferId(b)).collect();
    Step {
        makes: SmallVec::from_iter([Make { out: BufferId(out), reads, parts: vec![(0, work)] }]),
        repeats: true,
    }
}

/// A forward pass of `n` layers, each of two values, and its backward pass: buffer 0 is an input,
/// the last one a result.
fn layers(n: u32) -> (Vec<Step>, Vec<usize>, Vec<bool>) {
    let mut steps = Vec::new();
    for layer in 0..n {
        // A large value of little work, and a small one of much.
        steps.push(step(2 * layer + 1, &[2 * layer], 10));
        steps.push(step(2 * layer + 2, &[2 * layer + 1], 100));
    }
    for (grad, layer) in (2 * n..).zip((0..n).rev()) {
        steps.push(step(grad + 1, &[grad, 2 * layer + 1, 2 * layer], 100));
    }
    let n_buffers = 3 * n as usize + 1;
    let sizes = (0..n_buffers).map(|b| if b <= 2 * n as usize && b % 2 == 1 { 8 } else { 1 });
    let kept = (0..n_buffers).map(|b| b == 0 || b + 1 == n_buffers);
    (steps, sizes.collect(), kept.collect())
}

/// What each run reads is there: made by a run before it, or an input; and it is the buffer of the
/// step's own operand.
fn check(steps: &[Step], sizes: &[usize], runs: &Runs) {
    let made_by_steps: BTreeSet<BufferId> =
        steps.iter().flat_map(|s| s.makes.iter().map(|make| make.out)).collect();
    let mut there: BTreeSet<BufferId> =
        (0..sizes.len() as u32).map(BufferId).filter(|b| !made_by_steps.contains(b)).collect();
    let mut of: Vec<Option<BufferId>> = vec![None; runs.sizes.len()];
    there.iter().for_each(|b| of[b.index()] = Some(*b));
    let mut ran = vec![0; steps.len()];
    for run in &runs.runs {
        let name = |b: BufferId| run.names.iter().find(|(own, _)| *own == b).map_or(b, |n| n.1);
        let makes = steps[run.step].makes.iter().filter(|make| run.makes.contains(&make.out));
        for make in makes.clone() {
            let is_new = there.insert(name(make.out));
            assert!(is_new || !run.again, "{run:?} writes a buffer again");
            of[name(make.out).index()] = Some(make.out);
            assert_eq!(runs.sizes[name(make.out).index()], sizes[make.out.index()]);
        }
        for read in makes.flat_map(|make| &make.reads) {
            assert!(there.contains(&name(*read)), "{run:?} reads {read:?}");
            assert_eq!(of[name(*read).index()], Some(*read), "{run:?}");
        }
        assert_eq!(run.again, ran[run.step] > 0);
        assert!(!run.again || steps[run.step].repeats);
        ran[run.step] += 1;
    }
    assert!(ran.iter().all(|n| *n > 0), "every step runs");
}

/// The bytes that runs take at a time.
fn peak_of(runs: &Runs, steps: &[Step], kept: &[bool]) -> usize {
    let mut lives: Vec<Option<(usize, usize)>> = vec![None; runs.sizes.len()];
    let mut is_kept = vec![false; runs.sizes.len()];
    for (at, run) in runs.runs.iter().enumerate() {
        let name = |b: BufferId| run.names.iter().find(|(own, _)| *own == b).map_or(b, |n| n.1);
        for make in steps[run.step].makes.iter().filter(|make| run.makes.contains(&make.out)) {
            for b in make.reads.iter().chain([&make.out]) {
                lives[name(*b).index()].get_or_insert((at, at)).1 = at;
                is_kept[name(*b).index()] = kept[b.index()];
            }
        }
    }
    let live = |at: usize| {
        let is_live =
            |b: &usize| lives[*b].is_some_and(|(f, l)| f <= at && at <= l) && !is_kept[*b];
        (0..lives.len()).filter(is_live).map(|b| runs.sizes[b]).sum()
    };
    (0..runs.runs.len()).map(live).max().unwrap_or(0)
}

#[test]
fn large_values_of_little_work_are_made_again() {
    let (steps, sizes, kept) = layers(12);
    let before = peak(&steps, &sizes, &kept);
    let runs = recompute(&steps, &sizes, &kept, before / 3).unwrap();
    check(&steps, &sizes, &runs);
    assert!(peak_of(&runs, &steps, &kept) <= before / 3);
    let again: Vec<usize> = runs.runs.iter().filter(|r| r.again).map(|r| r.step).collect();
    assert!(again.iter().all(|step| step % 2 == 0), "only the first of a layer's steps: {again:?}");
}

#[test]
fn what_fits_or_cannot_be_saved_stays() {
    let (steps, sizes, kept) = layers(4);
    assert!(recompute(&steps, &sizes, &kept, peak(&steps, &sizes, &kept)).is_none());
    let once: Vec<Step> =
        steps.iter().map(|step| Step { repeats: false, ..step.clone() }).collect();
    assert!(recompute(&once, &sizes, &kept, 0).is_none());
}

/// Random programs: whatever the budget, the runs are right and take no more than before.
#[test]
fn runs_of_random_programs_are_right() {
    use gt_ir::testing::Source;
    let mut n_saved = 0;
    for seed in 0..300 {
        let mut source = Source::from_seed(seed);
        let n = 2 + source.below(40);
        let (mut steps, mut made) = (Vec::new(), BTreeSet::new());
        for out in 1..=n {
            // A result of one of the last steps, or of any; steps make up to three.
            let mut read = || {
                let far = source.below(out);
                let near = out - 1 - source.below(out.min(4));
                let of = if source.chance(1, 3) { far } else { near };
                let result = BufferId((of + n * source.below(3)) as u32);
                if made.contains(&result) { result } else { BufferId(of as u32) }
            };
            let mut one = step(out as u32, &[], 1 + out % 7);
            one.makes[0].reads = vec![read(), read()];
            // Some results are made of others of the step; two steps store parts of some.
            let (second, third) = ((n + out) as u32, (2 * n + out) as u32);
            let shared = u32::from(out > 1 && out % 6 == 0);
            let second = BufferId(second - shared);
            let mut reads = vec![read()];
            if out % 2 == 0 {
                reads.push(BufferId(out as u32));
            }
            one.makes.push(Make { out: second, reads, parts: vec![(1, 3)] });
            if source.chance(1, 2) {
                one.makes.push(Make {
                    out: BufferId(third),
                    reads: vec![second],
                    parts: vec![(2, 5)],
                });
            }
            one.repeats = !source.chance(1, 8);
            made.extend(one.makes.iter().map(|make| make.out));
            steps.push(one);
        }
        let sizes: Vec<usize> = (0..=3 * n).map(|_| 1 + source.below(9)).collect();
        let kept: Vec<bool> =
            (0..=3 * n).map(|b| b == 0 || b == n || source.chance(1, 9)).collect();
        let before = peak(&steps, &sizes, &kept);
        for budget in [0, before / 2, before * 3 / 4] {
            let Some(runs) = recompute(&steps, &sizes, &kept, budget) else { continue };
            check(&steps, &sizes, &runs);
            assert!(peak_of(&runs, &steps, &kept) <= before, "seed {seed}");
            n_saved += usize::from(peak_of(&runs, &steps, &kept) < before);
        }
    }
    assert!(n_saved > 300, "only {n_saved} programs need less memory");
}
