//! The plans of a worker: templates compiled for inputs of certain types, shared by all its
//! sessions.
//!
//! A plan is ordered by the first launch that could use it and made by one thread in the
//! background, of low priority where the system knows such; until it is ready, and for good when it
//! fails, launches run instruction by instruction. So compiling delays nobody, and a compiler that
//! panics costs its plan only. Plans are found by what they do, not by who asked; the least
//! recently used goes when there are too many. It runs nothing itself.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use gt_compiler::engine::Compile;
use gt_compiler::{Options, Program};
use gt_ir::canonical::{Bindings, Matcher, Template};
use gt_ir::graph::{Segment, segment};
use gt_ir::{Instr, Loc, Operand, Tape, Type, ValueId};

use super::core::Defined;
use super::serve::panic_text;
use crate::clock;
use crate::wire::Planned;
use crate::wire::codec::cut;

/// Plans that may wait to be compiled; what comes on top is ordered again by its next launch.
const MAX_ORDERS: usize = 64;

/// When plans are compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum When {
    /// Never: everything runs instruction by instruction. What `GT_TIER=0` asks for.
    Never,
    /// By a thread of their own, while instructions run one by one.
    #[default]
    Background,
    /// Before the first launch that could use them: for tests and measurements.
    Blocking,
}

/// How plans are made and kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanConfig {
    /// When they are compiled.
    pub when: When,
    /// How.
    pub options: Options,
    /// How many are kept.
    pub most: usize,
}

impl PlanConfig {
    /// In the background, unless `GT_TIER=0` says never, and as `GT_NUMERICS` says.
    ///
    /// # Errors
    /// A variable says what is not known here.
    pub fn from_environment() -> Result<PlanConfig, String> {
        let when = if crate::tier::plans_wanted()? { When::Background } else { When::Never };
        let options = Options::from_env().map_err(|e| e.to_string())?;
        Ok(PlanConfig { when, options, ..PlanConfig::default() })
    }
}

impl Default for PlanConfig {
    fn default() -> PlanConfig {
        PlanConfig { when: When::default(), options: Options::default(), most: 256 }
    }
}

/// Where the plan a template ran last is: no more than a hint.
#[derive(Debug, Default)]
pub(super) struct PlanHint {
    at: AtomicUsize,
    /// The plans of which the session was told, a bit for each; some share one.
    told: AtomicU64,
    /// The types of the values from outside in the plan it was told of last.
    types: Mutex<Vec<Type>>,
    /// How long it took last.
    nanos: AtomicU64,
}

/// What a plan may take and still be called quick.
const QUICK: u64 = 500_000;

impl PlanHint {
    /// Notes how long a run as a plan took.
    pub(super) fn took(&self, nanos: u64) {
        self.nanos.store(nanos.max(1), Ordering::Relaxed);
    }

    /// Whether the last run was one as a plan, and quick.
    pub(super) fn was_quick(&self) -> bool {
        (1..QUICK).contains(&self.nanos.load(Ordering::Relaxed))
    }

    /// News of a plan that the session was not told yet.
    pub(super) fn news(&self, plan: &Plan) -> Option<Planned> {
        let (told, bit) = (self.told.load(Ordering::Relaxed), 1 << (plan.number % 64));
        if told & bit != 0 {
            return None;
        }
        let news = plan.news()?;
        self.told.store(told | bit, Ordering::Relaxed);
        let mut types = self.types.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *types, plan.types.clone());
        let retyped = retyped(&plan.template.tape, &before, &plan.types).filter(|_| told != 0);
        Some(Planned { retyped: retyped.map(cut), ..news })
    }
}

/// Which value from outside is of another type than before, where it is used first, and both types.
fn retyped(tape: &Tape, before: &[Type], now: &[Type]) -> Option<String> {
    let mut changed = (0..).zip(before.iter().zip(now)).filter(|(_, (before, now))| before != now);
    let (at, (was, is)) = changed.next()?;
    let uses = |instr: &&Instr| instr.inputs.contains(&Operand::Value(ValueId(at)));
    let user = tape.instrs().find(uses).map(|instr| {
        let place =
            if instr.loc == Loc::NONE { String::new() } else { format!(" at {}", instr.loc) };
        format!(", an operand of {}{place},", instr.op.name())
    });
    let others = match changed.count() {
        0 => String::new(),
        n => format!(", and so have {n} more"),
    };
    let user = user.unwrap_or_default();
    Some(format!("input {at}{user} has another type: {is}, before {was}{others}"))
}

/// A template compiled for inputs of certain types, or on its way to be.
#[derive(Debug)]
pub(super) struct Plan {
    number: u64,
    template: Template,
    /// Types of the values from outside.
    types: Vec<Type>,
    ordered: AtomicBool,
    made: OnceLock<Result<Ready, String>>,
}

/// A plan that can run.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) program: Program,
    /// For each result, which of the values the template defines it is, if that is alive in the
    /// end, and its type: names of dimensions are no concern of a compiler's.
    pub(super) outputs: Vec<Option<(u32, Type)>>,
    news: Planned,
}

impl Plan {
    /// What came of it, if it is over.
    pub(super) fn made(&self) -> Option<&Result<Ready, String>> {
        self.made.get()
    }

    /// What came of it, for people.
    fn news(&self) -> Option<Planned> {
        Some(match self.made.get()? {
            Ok(ready) => ready.news.clone(),
            Err(why) => Planned { failed: Some(cut(why.clone())), ..self.about() },
        })
    }

    fn about(&self) -> Planned {
        Planned {
            key: self.template.key.0,
            instructions: self.template.tape.instrs().count() as u64,
            plan: self.number,
            ..Planned::default()
        }
    }

    fn make(&self, compiler: &dyn Compile, options: &Options) {
        let compile = || self.compile(compiler, options);
        let made = catch_unwind(AssertUnwindSafe(compile))
            .unwrap_or_else(|panic| Err(format!("the compiler panicked: {}", panic_text(&*panic))));
        // Ordered once, so nothing was there.
        let _ = self.made.set(made);
    }

    fn compile(&self, compiler: &dyn Compile, options: &Options) -> Result<Ready, String> {
        let (began, n_inputs) = (clock::now(), self.template.n_inputs);
        let ty = |value: ValueId| self.types.get(usize::try_from(value.0).ok()?).copied();
        let segment = segment(&self.template.tape, ty).map_err(|e| e.to_string())?;
        let compiled = compiler
            .compile(&segment.graph, &segment.donated, options)
            .map_err(|e| e.to_string())?;
        let kept = crate::footprint::Footprint::of(&self.template).kept;
        let output = |(value, ty): (ValueId, Type)| {
            let at = u32::try_from(value.0).ok()?.checked_sub(u32::try_from(n_inputs).ok()?)?;
            kept.binary_search(&at).ok().map(|_| (at, ty))
        };
        let outputs = segment.typed_outputs().map(output).collect();
        let nanos = u64::try_from((clock::now() - began).as_nanos()).unwrap_or(u64::MAX);
        let report = &compiled.report;
        let news = Planned {
            kernels: report.kernels as u64,
            launches: report.launches as u64,
            cached: report.cached,
            nanos,
            ..self.about()
        };
        Ok(Ready { program: compiled.program, outputs, news })
    }
}

/// The plans of one worker.
pub(super) struct Plans {
    config: PlanConfig,
    compiler: Arc<dyn Compile>,
    held: Vec<Held>,
    /// Counts launches, to find the least recently used.
    clock: u64,
    n_made: u64,
    orders: Option<SyncSender<Arc<Plan>>>,
    matcher: Matcher,
}

struct Held {
    plan: Arc<Plan>,
    used: u64,
}

impl Plans {
    pub(super) fn new(config: PlanConfig, compiler: Arc<dyn Compile>) -> Plans {
        let held = Vec::new();
        Plans { config, compiler, held, clock: 0, n_made: 0, orders: None, matcher: Matcher::new() }
    }

    /// Whether there are any plans here, ever.
    pub(super) fn is_off(&self) -> bool {
        self.config.when == When::Never
    }

    /// A segment's program, made now, on this thread.
    pub(super) fn compiled_now(&self, segment: &Segment) -> Option<Program> {
        let (compiler, options) = (&*self.compiler, &self.config.options);
        let compile = || compiler.compile(&segment.graph, &segment.donated, options);
        catch_unwind(AssertUnwindSafe(compile)).ok()?.ok().map(|compiled| compiled.program)
    }

    /// Number of plans ready to run.
    pub(super) fn n_ready(&self) -> u64 {
        self.held.iter().filter(|held| matches!(held.plan.made(), Some(Ok(_)))).count() as u64
    }

    /// The plan of a template for inputs of these types, ordered if there was none.
    pub(super) fn get<'t>(
        &mut self,
        defined: &Defined,
        types: impl Iterator<Item = &'t Type> + Clone,
    ) -> &Plan {
        self.clock += 1;
        let fits = |held: &Held| {
            let plan = &held.plan;
            plan.template.key == defined.template.key && plan.types.iter().eq(types.clone())
        };
        let hint = defined.plan.at.load(Ordering::Relaxed);
        let at = if self.held.get(hint).is_some_and(fits) {
            hint
        } else {
            let at = self.held.iter().position(fits).filter(|&at| self.same(at, defined));
            at.unwrap_or_else(|| self.add(defined, types.copied().collect()))
        };
        defined.plan.at.store(at, Ordering::Relaxed);
        self.held[at].used = self.clock;
        self.order(at);
        &self.held[at].plan
    }

    /// Whether a plan with this template's key is this template's: keys are no defense against
    /// someone who looks for equal ones.
    fn same(&mut self, at: usize, defined: &Defined) -> bool {
        let (plan, mut bindings) = (&self.held[at].plan, Bindings::default());
        self.matcher.matches(&plan.template, &defined.template.tape, &mut bindings).is_ok()
    }

    fn add(&mut self, defined: &Defined, types: Vec<Type>) -> usize {
        self.n_made += 1;
        let plan = Arc::new(Plan {
            number: self.n_made,
            template: defined.template.clone(),
            types,
            ordered: AtomicBool::new(false),
            made: OnceLock::new(),
        });
        let held = Held { plan, used: self.clock };
        if self.held.len() < self.config.most.max(1) {
            self.held.push(held);
            return self.held.len() - 1;
        }
        let oldest = (0..self.held.len()).min_by_key(|&at| self.held[at].used).unwrap_or(0);
        self.held[oldest] = held;
        oldest
    }

    fn order(&mut self, at: usize) {
        let plan = &self.held[at].plan;
        if plan.ordered.load(Ordering::Relaxed) {
            return;
        }
        if self.config.when == When::Blocking {
            plan.ordered.store(true, Ordering::Relaxed);
            return plan.make(&*self.compiler, &self.config.options);
        }
        let (compiler, options) = (&self.compiler, self.config.options);
        let orders = self.orders.get_or_insert_with(|| background(compiler.clone(), options));
        match orders.try_send(plan.clone()) {
            Ok(()) => plan.ordered.store(true, Ordering::Relaxed),
            Err(TrySendError::Full(_)) => {}
            Err(TrySendError::Disconnected(_)) => {
                plan.ordered.store(true, Ordering::Relaxed);
                let _ = plan.made.set(Err("there is no thread to compile it".into()));
            }
        }
    }
}

/// The thread that compiles; it ends with whoever gives the orders.
fn background(compiler: Arc<dyn Compile>, options: Options) -> SyncSender<Arc<Plan>> {
    let (orders, ordered) = sync_channel::<Arc<Plan>>(MAX_ORDERS);
    let work = move || {
        give_way();
        for plan in ordered {
            plan.make(&*compiler, &options);
        }
    };
    // Without a thread the channel is closed, and the plans say so.
    let _ = std::thread::Builder::new().name("gt-compile".into()).spawn(work);
    orders
}

/// Lets every other thread of the machine go first, where a thread can.
fn give_way() {
    #[cfg(target_os = "linux")]
    {
        // Refused, it competes as any other: slower for the program, and still right.
        let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), 10);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_of_another_type_is_named_with_its_use_and_both_types() {
        let text = "gt tape 1\n%0 = input : f32[2,3]\n%1 = input : f32[3]\n%2 = neg %0\n%3 = mul \
                    %1, 2.0\n";
        let tape = gt_ir::text::load(text).unwrap().tape;
        let ty = |text: &str| -> Type { text.parse().unwrap() };
        let (a, b) = ([ty("f32[2,3]"), ty("f32[3]")], [ty("f32[2,3]"), ty("f32[5]")]);
        assert_eq!(retyped(&tape, &a, &a), None);
        let said = retyped(&tape, &a, &b).unwrap();
        assert_eq!(said, "input 1, an operand of mul, has another type: f32[5], before f32[3]");
        let said = retyped(&tape, &a, &[ty("f64[2,3]"), ty("f32[5]")]).unwrap();
        assert!(said.starts_with("input 0, an operand of neg,"), "{said}");
        assert!(said.ends_with("f64[2,3], before f32[2,3], and so have 1 more"), "{said}");
    }
}
