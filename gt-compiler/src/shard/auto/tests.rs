//! The plans that are found beside the best of all plans, and the time of one member beside that of
//! all.

use std::collections::BTreeMap;

use gt_ir::canonical::canonical;
use gt_ir::signal::Signals;
use gt_ir::testing::Source;
use gt_ir::{Tape, ValueId, text};

use super::*;
use crate::shard::at;

/// Choices up to which all plans of a segment are tried.
const MOST: usize = 6000;

/// A segment of two or three instructions on matrices from before, of which each replaces one.
fn segment(source: &mut Source<'_>) -> String {
    let sizes = [64, 256, 512, 1024];
    let size = sizes[source.below(sizes.len())];
    let mut text = String::from("gt tape 1\n");
    for value in 0..2 {
        text += &format!("%{value} = input : f32[{size},{size}]\n");
    }
    let n = 2 + source.below(2);
    for out in 2..2 + n {
        let (x, y) = (source.below(out), source.below(out));
        text += &match source.below(6) {
            0 | 1 => format!("%{out} = matmul %{x}, %{y}\n"),
            2 => format!("%{out} = add %{x}, %{y}\n"),
            3 => format!("%{out} = permute[1,0] %{x}\n"),
            4 => format!("%{out} = softmax[1] %{x}\n"),
            _ => format!("%{out} = mul %{x}, 0.5\n"),
        };
    }
    (0..n + 1).for_each(|value| text += &format!("free %{value}\n"));
    text
}

/// Calls a function with the request to plan a segment whose inputs are there before.
pub(in crate::shard) fn with_request<T>(
    text: &str,
    n_members: u32,
    find: impl FnOnce(&Request<'_>) -> T,
) -> T {
    let (tape, _) = text::parse(text).unwrap();
    let mut held = BTreeMap::<ValueId, Type>::new();
    let mut entries = Vec::new();
    for entry in tape.entries {
        match entry {
            Entry::Input { out, ty, .. } => drop(held.insert(out, ty)),
            entry @ (Entry::Instr(_)
            | Entry::Free(_)
            | Entry::Enter(_)
            | Entry::Exit(_)
            | Entry::Output { .. }) => entries.push(entry),
        }
    }
    let (template, bindings) = canonical(&Tape { entries });
    let inputs: Vec<_> = bindings.inputs.iter().map(|value| (held[value], at(0))).collect();
    let rates = Rates::default();
    let auto = Some(Auto::default());
    find(&Request {
        template: &template,
        inputs: &inputs,
        signals: &Signals::new(),
        uploads: &[],
        n_members,
        auto,
        rates,
    })
}

/// The least time of what `decide` tries, and of all plans on the same meshes.
fn times(request: &Request<'_>) -> Option<(f64, f64)> {
    let dropped = Dropped::default();
    let (_, tried) = decide(request, Auto::default(), &dropped).unwrap();
    let found = tried.iter().map(|way| way.seconds).fold(f64::INFINITY, f64::min);
    let search = search(request, &dropped);
    let mut best = f64::INFINITY;
    for mesh in meshes(request, &dropped).0 {
        let problem = search.problem(&mesh).unwrap();
        best = best.min(problem.alone(&request.rates));
        let plans = Planner::new(&problem, &request.rates).every(&request.rates, MOST)?;
        for plan in plans {
            best = best.min(START + search.seconds(&Arc::new(plan)).unwrap());
        }
    }
    Some((found, best))
}

/// What is tried without leaving out layers.
pub(in crate::shard) fn by_all(request: &Request<'_>) -> Vec<Alternative> {
    let dropped = Dropped::default();
    search(request, &dropped).decide(request).unwrap().1
}

fn search<'a>(request: &'a Request<'a>, dropped: &'a Dropped) -> Search<'a> {
    Search::new((request, None), (Auto::default(), dropped))
}

#[test]
fn nearly_all_plans_are_within_two_percent_of_the_best_of_all() {
    let mut gaps = Vec::new();
    for seed in 0..200 {
        let text = segment(&mut Source::from_seed(seed));
        let Some((found, best)) = with_request(&text, 2, times) else { continue };
        assert!(found <= best * 1.05, "{text}: {found} and {best}");
        gaps.push(found / best - 1.0);
    }
    let (n, far) = (gaps.len(), gaps.iter().filter(|gap| **gap > 0.02).count());
    assert!(n > 60 && far * 50 < n, "{far} of {n} plans are not near the best");
    let mean = gaps.iter().sum::<f64>() / n as f64;
    assert!(mean < 0.002, "{mean}");
}

#[test]
fn one_member_that_stands_for_all_takes_the_time_of_all() {
    let mut gaps = Vec::new();
    for (seed, n_members) in (0..60).zip([2, 3, 4, 8].into_iter().cycle()) {
        let text = segment(&mut Source::from_seed(seed));
        with_request(&text, n_members, |request| {
            let dropped = Dropped::default();
            let search = search(request, &dropped);
            for mesh in meshes(request, &dropped).0 {
                let problem = search.problem(&mesh).unwrap();
                let mut planner = Planner::new(&problem, &request.rates);
                let plan = Arc::new(planner.plan(&request.rates, Freedom::All));
                let one = search.seconds(&plan).unwrap();
                let all =
                    search.again(request, &plan, |walk| Ok(walk.seconds(|_| false)?.0)).unwrap();
                assert!((one / all - 1.0).abs() < 0.15, "{text} on {n_members}: {one}, {all}");
                gaps.push((one / all - 1.0).abs());
            }
        });
    }
    let far = gaps.iter().filter(|gap| **gap > 0.05).count();
    assert!(far * 20 < gaps.len(), "{far} of {} are far from the time of all", gaps.len());
}
