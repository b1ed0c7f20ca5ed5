//! Layouts without signals: which plan a segment gets, if any.
//!
//! A walk notes what there is to decide, and further walks follow the plans, for one member that
//! stands for all. The estimated time decides between them, because costs of single values cannot
//! express that exchanges of one round share its latency. Plans of small segments are changed as
//! long as that saves time.
//!
//! Guarantees: deterministic; signals that are heard hold; what the segment updates comes out in
//! the layout in which it goes in; values that are spread already stay as they are. What fits into
//! the members' memory is taken before what does not. The result is never estimated to be much
//! slower than data parallelism or, while its values are on one member, a single worker.
//!
//! Does not: plan a segment whose signals name several groups of workers, or one in micro-batches.

#[cfg(test)]
mod tests;

use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

use gt_ir::layout::{Layout, Mesh};
use gt_ir::{Entry, OpError, Type, ValueId};

use super::cost::Rates;
use super::plan::{Freedom, Plan, Planner, Problem};
use super::report::Alternative;
use super::scopes::{Dropped, Scopes};
use super::sharder::{Sharder, Sums};
use super::turns::Turns;
use super::{Auto, Request};

/// The plans that are tried: what they leave open, and the part of an exchange's latency that they
/// count.
const PLANS: [(Freedom, f64); 3] =
    [(Freedom::Data, 1.0), (Freedom::All, 1.0), (Freedom::All, 0.25)];
/// The part of the time that a plan has to save over a simpler one: estimates are rough.
const LENIENCE: f64 = 0.05;
/// The part that a plan has to save over one worker, if members share its processor. Together they
/// can do no more than it can alone, and what they do beside the work is what is estimated worst.
const SHARED: f64 = 0.4;
/// Instructions in all walks by which the changes of a plan are judged.
const TRIES: usize = 5000;
/// Changes that are too few to find a better plan among them.
const FEW: usize = 16;
/// Instructions of a segment from which on its plans are tried at the same time.
const MANY: usize = 1000;
/// Seconds by which a segment of several members takes longer than its work: its orders are written
/// for each of them, and it is over when the last one is done.
const START: f64 = 100e-6;

/// The plan of least estimated time of those that fit into the members' memory, unless the segment
/// is as fast as it is, and the estimates. If none fits, the one that needs least.
pub(super) fn decide(
    request: &Request<'_>,
    auto: Auto,
    dropped: &Dropped,
) -> Result<(Option<Arc<Plan>>, Vec<Alternative>), OpError> {
    if Turns::of(request, dropped).0.n > 1 {
        return Ok((None, Vec::new()));
    }
    let (meshes, is_free) = meshes(request, dropped);
    let alone = is_free && auto.zero == 0;
    let mut search = Search { request, auto, dropped, alone, weighs: false, tried: Vec::new() };
    let problems = search.each(&meshes, |mesh| search.walk()?.note(mesh))?;
    let Some(first) = problems.first() else { return Ok(search.best()) };
    search.weighs = auto.memory > 0 && first.bytes() > auto.memory;
    let seconds = first.alone(&request.rates);
    let peak = if search.weighs { Some(search.walk()?.peak()?) } else { None };
    search.tried.push((Alternative { name: "one worker".into(), seconds, peak }, None));
    search.try_all(problems)?;
    Ok(search.best())
}

/// A way to compute a segment, and its plan; none for one worker.
type Tried = (Alternative, Option<Arc<Plan>>);

/// The plans that were tried.
struct Search<'a> {
    request: &'a Request<'a>,
    auto: Auto,
    dropped: &'a Dropped,
    /// Whether the segment may stay on one worker, which is tried first.
    alone: bool,
    /// Whether memory may be too small, so that plans are to be weighed.
    weighs: bool,
    tried: Vec<Tried>,
}

/// A problem whose plans are to be tried for these freedoms, and the end of their names.
struct Job {
    problem: Problem,
    freedoms: &'static [(Freedom, f64)],
    suffix: &'static str,
}

impl<'a> Search<'a> {
    fn walk(&self) -> Result<Sharder<'a>, OpError> {
        Sharder::new(self.request, self.dropped, Sums::Repeated)
    }

    /// Tries the plans of problems, then with shared updates, then, if none fits into the members'
    /// memory, with shared parameters.
    fn try_all(&mut self, problems: Vec<Problem>) -> Result<(), OpError> {
        let zero = self.auto.zero;
        let shared = |problem: &Problem, level, freedoms, suffix| {
            let mut problem = problem.clone();
            problem.share(level);
            Job { problem, freedoms, suffix }
        };
        let mut jobs = Vec::new();
        for problem in &problems {
            jobs.push(shared(problem, zero, &PLANS, ""));
            if zero == 0 {
                jobs.push(shared(problem, 1, &PLANS[..1], " that share out updates"));
            }
        }
        let tried = self.each(&jobs, |job| self.try_plans(job))?;
        self.tried.extend(tried.into_iter().flatten());
        if zero < 3 && !self.fits() {
            let suffix = " that share out parameters";
            let jobs = problems.iter().map(|problem| shared(problem, 3, &PLANS, suffix));
            let tried = self.each(&jobs.collect::<Vec<_>>(), |job| self.try_plans(job))?;
            self.tried.extend(tried.into_iter().flatten());
        }
        Ok(())
    }

    /// What `work` makes of each item, in order. The items of a large segment have threads of their
    /// own.
    fn each<T: Sync, R: Send>(
        &self,
        items: &[T],
        work: impl Fn(&T) -> Result<R, OpError> + Sync,
    ) -> Result<Vec<R>, OpError> {
        if items.len() < 2 || self.request.template.tape.entries.len() < MANY {
            return items.iter().map(work).collect();
        }
        let work = &work;
        thread::scope(|scope| {
            let start = |item| thread::Builder::new().spawn_scoped(scope, move || work(item));
            let threads: Vec<_> = items.iter().map(start).collect();
            let results = threads.into_iter().zip(items).map(|(thread, item)| match thread {
                Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
                // The system has no thread left.
                Err(_) => work(item),
            });
            results.collect()
        })
    }

    /// Tries the plans of a problem, each once. If all is free, a plan is changed as long as that
    /// helps.
    fn try_plans(&self, job: &Job) -> Result<Vec<Tried>, OpError> {
        let rates = &self.request.rates;
        let n_tries = TRIES / self.request.template.tape.entries.len().max(1);
        let n_tries = if n_tries < FEW { 0 } else { n_tries };
        let mut planner = Planner::new(&job.problem, rates);
        let mut plans: Vec<(Freedom, Arc<Plan>)> = Vec::new();
        for &(freedom, part) in job.freedoms {
            let latency = rates.latency * part;
            let plan = Arc::new(planner.plan(&Rates { latency, ..*rates }, freedom));
            if n_tries > 0 || plans.iter().all(|(_, known)| *known != plan) {
                plans.push((freedom, plan));
            }
        }
        let seconds = self.each(&plans, |(_, plan)| self.seconds(plan))?;
        let mut tried: Vec<Tried> = Vec::new();
        for ((freedom, plan), seconds) in plans.into_iter().zip(seconds) {
            let judge = |plan: &Arc<Plan>| self.seconds(plan);
            let (plan, seconds) = match freedom {
                Freedom::Data => (plan, seconds),
                Freedom::All => planner.improved((plan, seconds), (rates, n_tries), judge)?,
            };
            if tried.iter().any(|(_, known)| known.as_ref() == Some(&plan)) {
                continue;
            }
            let peak = if self.weighs { Some(self.peak(&plan)?) } else { None };
            let name = name(&job.problem.whole.mesh, freedom) + job.suffix;
            tried.push((Alternative { name, seconds: START + seconds, peak }, Some(plan)));
        }
        Ok(tried)
    }

    /// Seconds of the segment when it comes again.
    fn seconds(&self, plan: &Arc<Plan>) -> Result<f64, OpError> {
        self.again(plan, |walk| Ok(walk.alike().seconds(|_| false)?.0))
    }

    /// The most bytes that any member has at a time when the segment comes again.
    fn peak(&self, plan: &Arc<Plan>) -> Result<u64, OpError> {
        self.again(plan, |walk| walk.peak())
    }

    /// A walk by a plan when the segment comes again: values from before are where the plan has put
    /// them.
    fn again<T>(
        &self,
        plan: &Arc<Plan>,
        find: impl FnOnce(Sharder<'_>) -> Result<T, OpError>,
    ) -> Result<T, OpError> {
        let settled = |(number, (ty, layout)): (usize, &(Type, Layout))| {
            (*ty, plan.layout(ValueId(number as u64)).unwrap_or(layout).clone())
        };
        let inputs: Vec<_> = self.request.inputs.iter().enumerate().map(settled).collect();
        let request = Request { inputs: &inputs, ..self.request.clone() };
        let walk = Sharder::new(&request, self.dropped, Sums::Repeated)?;
        find(walk.follow(Arc::clone(plan)))
    }

    /// Whether any of them fits into the members' memory.
    fn fits(&self) -> bool {
        self.possible().any(|(way, _)| self.excess(way) == 0)
    }

    /// What was tried and may be taken.
    fn possible(&self) -> impl Iterator<Item = &Tried> {
        self.tried.iter().skip(usize::from(!self.alone))
    }

    /// The bytes that a member lacks.
    fn excess(&self, way: &Alternative) -> u64 {
        way.peak.map_or(0, |peak| peak.saturating_sub(self.auto.memory))
    }

    /// The best of them, where later ones have to be clearly faster.
    fn best(self) -> (Option<Arc<Plan>>, Vec<Alternative>) {
        let least = self.possible().map(|(way, _)| self.excess(way)).min();
        let (mut seconds, mut best) = (f64::INFINITY, None);
        for (way, plan) in self.possible() {
            if Some(self.excess(way)) == least && way.seconds < seconds {
                let is_shared = plan.is_none() && self.request.rates.alone > 1.0;
                let lenience = if is_shared { SHARED } else { LENIENCE };
                (seconds, best) = (way.seconds * (1.0 - lenience), plan.clone());
            }
        }
        (best, self.tried.into_iter().map(|(way, _)| way).collect())
    }
}

fn name(mesh: &Mesh, freedom: Freedom) -> String {
    let sizes: Vec<String> = mesh.sizes().iter().map(ToString::to_string).collect();
    let workers = sizes.join(" x ");
    match freedom {
        Freedom::Data => format!("data parallelism on {workers} workers"),
        Freedom::All => format!("the best layouts found on {workers} workers"),
    }
}

/// The meshes on which a segment may be spread: the signals' own, or the one on which its values
/// are already, or all members, as a row and as a grid. Also says whether the segment may stay on
/// one member.
fn meshes(request: &Request<'_>, dropped: &Dropped) -> (Vec<Arc<Mesh>>, bool) {
    let mut named: Vec<Arc<Mesh>> = Vec::new();
    let mut scopes = Scopes::new(request, dropped, 1);
    for entry in &request.template.tape.entries {
        match entry {
            Entry::Enter(name) => scopes.enter(name),
            Entry::Exit(_) => scopes.exit(),
            Entry::Input { .. } | Entry::Instr(_) | Entry::Free(_) | Entry::Output { .. } => {}
        }
        let mesh = scopes.current().map(|scope| Arc::clone(&scope.mesh));
        named.extend(mesh.filter(|mesh| !named.contains(mesh)));
    }
    match &named[..] {
        [] => {}
        [one] if one.len() > 1 => return (named, false),
        _ => return (Vec::new(), false),
    }
    let held = request.inputs.iter().map(|(_, layout)| &layout.mesh);
    match held.filter(|mesh| mesh.len() > 1).max_by_key(|mesh| mesh.len()) {
        Some(mesh) => (vec![Arc::clone(mesh)], false),
        None => (grids(request.n_members as usize), true),
    }
}

/// So many members as a row, and as the grid that is nearest to a square.
fn grids(n: usize) -> Vec<Arc<Mesh>> {
    if n < 2 {
        return Vec::new();
    }
    let mesh = |sizes: &[usize]| Mesh::new((0..n as u32).collect(), sizes).map(Arc::new);
    let rows = (2..n).take_while(|rows| rows * rows <= n).filter(|rows| n.is_multiple_of(*rows));
    let grid = rows.last().and_then(|rows| mesh(&[rows, n / rows]));
    mesh(&[n]).into_iter().chain(grid).collect()
}
