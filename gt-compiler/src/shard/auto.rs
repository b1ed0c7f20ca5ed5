//! Layouts without signals: which plan a segment gets, if any.
//!
//! A walk notes what there is to decide, and further walks follow the plans. The estimated time of
//! all members decides between them, because costs of single values cannot express that exchanges
//! of one round share its latency.
//!
//! Guarantees: deterministic; signals that are heard hold; what the segment updates comes out in
//! the layout in which it goes in; values that are spread already stay as they are. The result is
//! never estimated to be much slower than data parallelism or, while its values are on one member,
//! a single worker.
//!
//! Does not: plan a segment whose signals name several groups of workers, or one in micro-batches.

use std::sync::Arc;

use gt_ir::layout::Mesh;
use gt_ir::{Entry, OpError};

use super::cost::Rates;
use super::plan::{Freedom, Plan, Planner, Problem};
use super::report::{Alternative, Change};
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
/// Seconds by which a segment of several members takes longer than its work: its orders are written
/// for each of them, and it is over when the last one is done.
const START: f64 = 100e-6;

/// The plan of least estimated time, unless the segment is as fast as it is, and the estimates.
pub(super) fn decide(
    request: &Request<'_>,
    auto: Auto,
    dropped: &Dropped,
) -> Result<(Option<Arc<Plan>>, Vec<Alternative>), OpError> {
    let walk = || Sharder::new(request, dropped, Sums::Repeated);
    if Turns::of(request, dropped).0.n > 1 {
        return Ok((None, Vec::new()));
    }
    let (meshes, is_free) = meshes(request, dropped);
    let mut tried: Vec<Alternative> = Vec::new();
    let mut best = (f64::INFINITY, None);
    for mesh in &meshes {
        let mut problem = walk()?.note(mesh)?;
        if tried.is_empty() {
            let seconds = problem.alone(&request.rates);
            tried.push(Alternative { name: "one worker".into(), seconds });
            if is_free && auto.zero == 0 {
                best.0 = seconds * (1.0 - LENIENCE);
            }
        }
        problem.share(auto.zero);
        let mut plans = plans(&problem, request, (&PLANS, false));
        if auto.zero == 0 {
            problem.share(1);
            plans.extend(self::plans(&problem, request, (&PLANS[..1], true)));
        }
        for (plan, name) in plans {
            let seconds = START + walk()?.follow(Arc::clone(&plan)).seconds(moves)?.0;
            if seconds < best.0 {
                best = (seconds * (1.0 - LENIENCE), Some(plan));
            }
            tried.push(Alternative { name, seconds });
        }
    }
    Ok((best.1, tried))
}

/// The plans of a problem for these freedoms, each once, and what they are called.
fn plans(
    problem: &Problem,
    request: &Request<'_>,
    (tries, shared): (&[(Freedom, f64)], bool),
) -> Vec<(Arc<Plan>, String)> {
    let mut planner = Planner::new(problem);
    let plan = |&(freedom, part): &(Freedom, f64)| {
        let latency = request.rates.latency * part;
        let plan = planner.plan(&Rates { latency, ..request.rates }, freedom);
        (Arc::new(plan), name(&problem.whole.mesh, freedom, shared))
    };
    let mut plans: Vec<_> = tries.iter().map(plan).collect();
    plans.dedup_by(|a, b| a.0 == b.0);
    plans
}

/// Whether a change of layout brings a value to other members. Values from before the segment stay
/// there, so a segment that repeats itself does it once.
fn moves(change: &Change) -> bool {
    change.from.mesh != change.to.mesh
}

fn name(mesh: &Mesh, freedom: Freedom, shared: bool) -> String {
    let sizes: Vec<String> = mesh.sizes().iter().map(ToString::to_string).collect();
    let workers = sizes.join(" x ");
    match freedom {
        Freedom::Data if shared => {
            format!("data parallelism on {workers} workers that share out updates")
        }
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
