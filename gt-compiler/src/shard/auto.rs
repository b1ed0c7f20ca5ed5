//! Layouts without signals: which plan a segment gets, if any.
//!
//! A walk notes what there is to decide, and further walks follow the plans, for one member that
//! stands for all. The estimated time decides between them, because costs of single values cannot
//! express that exchanges of one round share its latency. Plans of small segments are changed as
//! long as that saves time. Of a segment with many alike layers a few are walked, and what each
//! further layer takes is the difference between more and fewer (`blocks`).
//!
//! Guarantees: deterministic; signals that are heard hold; what the segment updates comes out in
//! the layout in which it goes in; values that are spread already stay as they are. What fits into
//! the members' memory is taken before what does not. The result is never estimated to be much
//! slower than data parallelism or, while its values are on one member, a single worker.
//!
//! Does not: plan a segment whose signals name several groups of workers, or one in micro-batches.

#[cfg(test)]
pub(super) mod tests;

use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

use gt_ir::layout::{Layout, Mesh};
use gt_ir::{Entry, OpError, Type, ValueId};

use super::blocks::Short;
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
    let by_all = || Search::new((request, None), (auto, dropped)).decide(request);
    let entries = request.template.tape.entries.len();
    let Some([long, short]) = (entries > MANY).then(|| Short::pair(request)).flatten() else {
        return by_all();
    };
    let requests = [long.request(request), short.request(request)];
    // Of a very long segment, its length decides how many turns there are.
    if requests.iter().any(|request| Turns::of(request, dropped).0.n > 1) {
        return by_all();
    }
    let layers = Layers { long: &long, short: &short, shorter: &requests[1] };
    let found = Search::new((&requests[0], Some(&layers)), (auto, dropped)).decide(request);
    found.map(|(plan, tried)| (plan.map(|plan| Arc::new(layers.all(&plan))), tried))
}

/// A segment of many alike layers, with few of them and with fewer.
struct Layers<'a> {
    long: &'a Short,
    short: &'a Short,
    /// The request for the one with fewer.
    shorter: &'a Request<'a>,
}

impl Layers<'_> {
    /// The plan of all layers by the one of a few.
    fn all(&self, plan: &Plan) -> Plan {
        plan.of_alike(self.long.stand_ins.iter().copied())
    }

    /// The plan of fewer layers.
    fn fewer(&self, plan: &Plan) -> Plan {
        plan.of_alike(self.short.originals.iter().map(|value| self.long.stand_ins[*value]))
    }
}

/// A way to compute a segment, and its plan; none for one worker.
type Tried = (Alternative, Option<Arc<Plan>>);

/// The plans that were tried.
struct Search<'a> {
    /// The segment, or one with few of its layers.
    request: &'a Request<'a>,
    layers: Option<&'a Layers<'a>>,
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
    fn new(
        (request, layers): (&'a Request<'a>, Option<&'a Layers<'a>>),
        (auto, dropped): (Auto, &'a Dropped),
    ) -> Search<'a> {
        let (alone, weighs, tried) = (false, false, Vec::new());
        Search { request, layers, auto, dropped, alone, weighs, tried }
    }

    /// The best plan and all that were tried, on the meshes that the whole segment may use.
    fn decide(
        mut self,
        whole: &Request<'_>,
    ) -> Result<(Option<Arc<Plan>>, Vec<Alternative>), OpError> {
        let (meshes, is_free) = meshes(whole, self.dropped);
        self.alone = is_free && self.auto.zero == 0;
        let problems = self.each(&meshes, |mesh| self.problem(mesh))?;
        let Some(first) = problems.first() else { return Ok(self.best()) };
        self.weighs = self.auto.memory > 0 && first.bytes() > self.auto.memory;
        let name = "one worker".into();
        let (seconds, peak) = (self.seconds_alone(first)?, self.peak_alone()?);
        self.tried.push((Alternative { name, seconds, peak }, None));
        self.try_all(problems)?;
        Ok(self.best())
    }

    fn walk(&self, request: &'a Request<'a>) -> Result<Sharder<'a>, OpError> {
        Sharder::new(request, self.dropped, Sums::Repeated)
    }

    /// What there is to decide on a mesh.
    fn problem(&self, mesh: &Arc<Mesh>) -> Result<Problem, OpError> {
        let mut problem = self.walk(self.request)?.note(mesh)?;
        if let Some(layers) = self.layers {
            problem.stand_for(&layers.long.times());
        }
        Ok(problem)
    }

    fn seconds_alone(&self, problem: &Problem) -> Result<f64, OpError> {
        let rates = &self.request.rates;
        self.of_all_layers(problem.alone(rates), |layers| {
            Ok(self.walk(layers.shorter)?.note(&problem.whole.mesh)?.alone(rates))
        })
    }

    /// The most bytes of values that a worker by itself has at a time, if plans are weighed.
    fn peak_alone(&self) -> Result<Option<u64>, OpError> {
        if !self.weighs {
            return Ok(None);
        }
        let peak = |request| Ok(self.walk(request)?.peak()? as f64);
        let peak = self.of_all_layers(peak(self.request)?, |layers| peak(layers.shorter))?;
        Ok(Some(peak as u64))
    }

    /// What all layers take, if few take this: so much more for each further layer as few take more
    /// than fewer.
    fn of_all_layers(
        &self,
        few: f64,
        fewer: impl FnOnce(&Layers<'a>) -> Result<f64, OpError>,
    ) -> Result<f64, OpError> {
        let Some(layers) = self.layers else { return Ok(few) };
        let (left_out, fewest) = (layers.long.left_out, layers.short.left_out);
        let more = f64::max(few - fewer(layers)?, 0.0);
        Ok(few + more * left_out as f64 / (fewest - left_out) as f64)
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

    /// Whether all layers are walked, and a walk takes little time.
    fn is_small(&self) -> bool {
        self.layers.is_none() && self.request.template.tape.entries.len() < MANY
    }

    /// What `work` makes of each item, in order. The items of a large segment have threads of their
    /// own.
    fn each<T: Sync, R: Send>(
        &self,
        items: &[T],
        work: impl Fn(&T) -> Result<R, OpError> + Sync,
    ) -> Result<Vec<R>, OpError> {
        if items.len() < 2 || self.is_small() {
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
        let n_tries = if n_tries < FEW || !self.is_small() { 0 } else { n_tries };
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
        self.extended(plan, |walk| Ok(walk.alike().seconds(|_| false)?.0))
    }

    /// The most bytes that any member has at a time when the segment comes again.
    fn peak(&self, plan: &Arc<Plan>) -> Result<u64, OpError> {
        Ok(self.extended(plan, |walk| Ok(walk.peak()? as f64))? as u64)
    }

    /// What a walk by a plan finds, for all layers.
    fn extended(
        &self,
        plan: &Arc<Plan>,
        find: impl Fn(Sharder<'_>) -> Result<f64, OpError>,
    ) -> Result<f64, OpError> {
        self.of_all_layers(self.again(self.request, plan, &find)?, |layers| {
            self.again(layers.shorter, &Arc::new(layers.fewer(plan)), &find)
        })
    }

    /// A walk by a plan when the segment comes again: values from before are where the plan has put
    /// them.
    fn again<T>(
        &self,
        request: &Request<'_>,
        plan: &Arc<Plan>,
        find: impl FnOnce(Sharder<'_>) -> Result<T, OpError>,
    ) -> Result<T, OpError> {
        let settled = |(number, (ty, layout)): (usize, &(Type, Layout))| {
            (*ty, plan.layout(ValueId(number as u64)).unwrap_or(layout).clone())
        };
        let inputs: Vec<_> = request.inputs.iter().enumerate().map(settled).collect();
        let request = Request { inputs: &inputs, ..request.clone() };
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
