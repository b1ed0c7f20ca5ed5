//! The plans of a worker: templates compiled for inputs of certain types. All its sessions share
//! them.
//!
//! The first launch that can use a plan orders it. One background thread compiles it, with low
//! priority if the system supports this. Sessions share the thread by time (`fair`), and the time
//! is charged to the session that ordered the plan. Until the plan is ready, and if its compilation
//! fails, launches run instruction by instruction. Compilation therefore delays no launch, except
//! those that are to wait for it, and a panic of the compiler loses only its plan. Equal templates
//! of different sessions share a plan. The least recently used plan is removed if there are too
//! many. This module runs no plans.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use gt_compiler::engine::Compile;
use gt_compiler::{Options, Program};
use gt_ir::canonical::{Bindings, Matcher, Template};
use gt_ir::graph::{Segment, segment};
use gt_ir::lru::Lru;
use gt_ir::{Instr, Loc, Operand, Tape, Type, ValueId};

use super::definition::{Definition, PlanHint, PlanPlace};
use super::fair::Fair;
use super::fates::Sparing;
use super::faults::panic_text;
use super::need;
use super::queue::Queue;
use super::reads::{Late, Owner, Tell};
use crate::clock::{self, Time};
use crate::profile::{self, Phase};
use crate::tier::{PlanConfig, When};
use crate::wire::Planned;
use crate::wire::codec::cut;

/// The most plans of one session that wait for the compiler. The next launch of any other plan
/// orders it again.
const MAX_ORDERS: usize = 64;

/// The plans that wait for the compiler, with the sessions that ordered them.
type Orders = Queue<Fair<Owner, (Owner, Arc<Plan>)>>;

/// A text about the first input whose type has changed: the instruction that uses it first, and
/// both types.
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

/// A template for inputs of certain types, compiled or waiting for the compiler.
#[derive(Debug)]
pub(super) struct Plan {
    number: u64,
    template: Template,
    /// The types of the inputs.
    types: Vec<Type>,
    /// The results that it does not make.
    spared: Option<Arc<Sparing>>,
    ordered: AtomicBool,
    /// Whether launches wait for it.
    awaited: AtomicBool,
    made: OnceLock<Result<Ready, String>>,
    /// Whether there is a program for less memory, since there was too little for the other one.
    is_shrunk: AtomicBool,
    smaller: Mutex<Option<Smaller>>,
}

/// A program that makes values again.
#[derive(Debug)]
struct Smaller {
    program: Program,
    /// The bytes that it was made for.
    memory: usize,
}

/// A plan that can run.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) program: Program,
    /// The bytes that a run of it allocates.
    bytes: u64,
    /// For each result that stays alive, the number of the template's definition and its type,
    /// because the compiler does not keep the names of dimensions.
    pub(super) outputs: Vec<Option<(u32, Type)>>,
    news: Planned,
    /// When its compilation began.
    began: Time,
}

impl Plan {
    /// When its compilation began, if it can run.
    pub(super) fn began(&self) -> Option<Time> {
        self.ready().map(|ready| ready.began)
    }

    /// The compiled plan or the reason why there is none, once compilation has ended.
    pub(super) fn made(&self) -> Option<&Result<Ready, String>> {
        self.made.get()
    }

    /// The compiled plan, if it can run.
    pub(super) fn ready(&self) -> Option<&Ready> {
        self.made()?.as_ref().ok()
    }

    /// The program for less memory, if there is one and the other one would not fit into the
    /// `room` of a device, or if it `must` be.
    pub(super) fn smaller(&self, must: bool, room: impl Fn() -> usize) -> Option<Program> {
        if !self.is_shrunk.load(Ordering::Relaxed) {
            return None;
        }
        let fits = |ready: &Ready| ready.bytes <= room() as u64;
        let smaller = self.smaller.lock().unwrap_or_else(PoisonError::into_inner);
        let smaller = smaller.as_ref().filter(|_| must || !self.ready().is_some_and(fits));
        smaller.map(|smaller| smaller.program.clone())
    }

    /// The program and the types of its inputs, if it can run.
    pub(super) fn for_profile(&self) -> Option<(Program, Vec<Type>)> {
        let ready = self.ready()?;
        Some((ready.program.clone(), self.types.clone()))
    }

    /// News of the plan for a session, unless the hint of its template says that the session has
    /// it.
    pub(super) fn news_for(&self, hint: &PlanHint) -> Option<Planned> {
        let (told, bit) = (hint.told.load(Ordering::Relaxed), 1 << (self.number % 64));
        if told & bit != 0 {
            return None;
        }
        let news = self.news()?;
        hint.told.store(told | bit, Ordering::Relaxed);
        let mut types = hint.types.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *types, self.types.clone());
        let retyped = retyped(&self.template.tape, &before, &self.types).filter(|_| told != 0);
        Some(Planned { retyped: retyped.map(cut), ..news })
    }

    /// The outcome of the compilation, for users.
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
            unused: self.spared.as_ref().map_or(0, |spared| spared.results.len() as u64),
            ..Planned::default()
        }
    }

    /// Whether a launch is to wait for it: it will be made, and its makers then tell so.
    pub(super) fn is_awaited(&self) -> bool {
        if !self.ordered.load(Ordering::Relaxed) {
            return false;
        }
        // The thread that makes it looks at this after it has made it.
        self.awaited.store(true, Ordering::SeqCst);
        self.made().is_none()
    }

    fn make(&self, compiler: &dyn Compile, options: &Options) {
        let compile = || self.compile(compiler, options);
        let made = catch_unwind(AssertUnwindSafe(compile))
            .unwrap_or_else(|panic| Err(format!("the compiler panicked: {}", panic_text(&*panic))));
        // A plan is ordered once, so the cell is empty.
        let _ = self.made.set(made);
    }

    /// The tape that it is compiled from.
    fn tape(&self) -> &Arc<Tape> {
        self.spared.as_ref().map_or(&self.template.tape, |sparing| &sparing.tape)
    }

    /// The segment that it is compiled from.
    fn segment(&self) -> Result<Segment, String> {
        let ty = |value: ValueId| self.types.get(usize::try_from(value.0).ok()?).copied();
        segment(self.tape(), ty).map_err(|e| e.to_string())
    }

    fn compile(&self, compiler: &dyn Compile, options: &Options) -> Result<Ready, String> {
        let (began, n_inputs) = (clock::now(), self.template.n_inputs);
        let segment = self.segment()?;
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
        profile::work(&"".into(), Phase::Plan, nanos, 0);
        let report = &compiled.report;
        let news = Planned {
            kernels: report.kernels as u64,
            launches: report.launches as u64,
            cached: report.cached,
            nanos,
            ..self.about()
        };
        Ok(Ready { program: compiled.program, bytes: report.bytes, outputs, news, began })
    }
}

/// The plans of one worker.
pub(super) struct Plans {
    config: PlanConfig,
    compiler: Arc<dyn Compile>,
    held: Lru<Arc<Plan>>,
    /// The number of plans added so far, which is the number of the last one.
    n_made: u64,
    orders: Arc<Orders>,
    /// Whether there is a thread that compiles.
    is_served: bool,
    /// The number of threads of the engine.
    n_threads: u64,
    /// Tells that a plan is made for which launches wait.
    tell: Tell,
    matcher: Matcher,
}

impl Plans {
    pub(super) fn new(
        config: PlanConfig,
        compiler: Arc<dyn Compile>,
        n_threads: usize,
        tell: Tell,
    ) -> Plans {
        let (held, matcher, orders) = (Lru::new(), Matcher::new(), Arc::default());
        let n_threads = n_threads.max(1) as u64;
        let (n_made, is_served) = (0, false);
        Plans { config, compiler, held, n_made, orders, is_served, n_threads, tell, matcher }
    }

    /// Forgets what a session has ordered that has ended. Another session may have to order it.
    pub(super) fn forget(&self, owner: Owner) {
        let dropped = self.orders.change(|orders| orders.end(owner));
        let mut awaited = false;
        for (_, plan) in dropped {
            plan.ordered.store(false, Ordering::Relaxed);
            awaited |= plan.awaited.load(Ordering::SeqCst);
        }
        if awaited {
            (self.tell)(Late::Planned);
        }
    }

    /// Whether this worker makes no plans.
    pub(super) fn is_off(&self) -> bool {
        self.config.when == When::Never
    }

    /// Compiles a segment now, on this thread, for so much memory if it is short.
    pub(super) fn compiled_now(&self, segment: &Segment, memory: Option<usize>) -> Option<Program> {
        let (compiler, options) = (&*self.compiler, Options { memory, ..self.config.options });
        let compile = || compiler.compile(&segment.graph, &segment.donated, &options);
        catch_unwind(AssertUnwindSafe(compile)).ok()?.ok().map(|compiled| compiled.program)
    }

    /// Makes the program of a plan for less memory after it did not fit into `room` bytes. Says
    /// whether it is another one than before.
    pub(super) fn shrink(&self, plan: &Plan, room: usize) -> bool {
        let Some(bytes) = plan.ready().map(|ready| ready.bytes as usize).filter(|b| *b > 0) else {
            return false;
        };
        let mut smaller = plan.smaller.lock().unwrap_or_else(PoisonError::into_inner);
        // Inputs that others hold too are not overwritten, so it may need more than it said.
        let memory = need::coarse(if bytes <= room { bytes / 4 * 3 } else { room });
        if smaller.as_ref().is_some_and(|known| known.memory <= memory) {
            return false;
        }
        let made = plan.segment().ok().and_then(|of| self.compiled_now(&of, Some(memory)));
        *smaller = made.map(|program| Smaller { program, memory });
        plan.is_shrunk.store(smaller.is_some(), Ordering::Relaxed);
        smaller.is_some()
    }

    /// The bytes of unused results that are worth a plan without them.
    pub(super) fn least_unused(&self) -> usize {
        self.config.least_unused
    }

    /// The number of plans that can run.
    pub(super) fn n_ready(&self) -> u64 {
        self.held.iter().filter(|(_, plan)| plan.ready().is_some()).count() as u64
    }

    /// The plan of a template for inputs of these types, without the results that are spared.
    /// Orders it if necessary.
    pub(super) fn get<'t>(
        &mut self,
        owner: Owner,
        defined: &Definition,
        spared: Option<&Arc<Sparing>>,
        types: impl Iterator<Item = &'t Type> + Clone,
    ) -> Option<&Arc<Plan>> {
        let hint = match spared {
            None => &defined.plan.whole,
            Some(_) => &defined.plan.spared,
        };
        let slot = match self.hinted(hint, spared, types.clone()) {
            Some(slot) => slot,
            None => {
                let known = self.find(&defined.template, spared, types.clone());
                known.unwrap_or_else(|| {
                    self.add(&defined.template, spared.cloned(), types.copied().collect())
                })
            }
        };
        self.held.touch(slot);
        let plan = self.held.get(slot)?;
        hint.slot.store(slot, Ordering::Relaxed);
        hint.number.store(plan.number, Ordering::Relaxed);
        if !plan.ordered.load(Ordering::Relaxed) {
            let plan = plan.clone();
            self.order(owner, &plan);
        }
        self.held.get(slot)
    }

    /// The results that a template need not make, if there is a plan without them that can run.
    /// Orders it if necessary.
    pub(super) fn spared<'t>(
        &mut self,
        owner: Owner,
        defined: &Definition,
        types: impl Iterator<Item = &'t Type> + Clone,
    ) -> Option<Arc<Sparing>> {
        let spared = defined.fates.spared()?;
        let plan = self.get(owner, defined, Some(&spared), types)?;
        plan.ready().is_some().then_some(spared)
    }

    /// The slot of the plan that the template ran last, if the plan still exists and has these
    /// types.
    fn hinted<'t>(
        &self,
        hint: &PlanPlace,
        spared: Option<&Arc<Sparing>>,
        types: impl Iterator<Item = &'t Type>,
    ) -> Option<usize> {
        let slot = hint.slot.load(Ordering::Relaxed);
        let plan = self.held.get(slot)?;
        // An equal number means that this plan was compared with the template.
        let same = plan.number == hint.number.load(Ordering::Relaxed);
        (same && plan.spared.as_ref() == spared && plan.types.iter().eq(types)).then_some(slot)
    }

    /// The slot of a plan of an equal template. Equal keys are not enough, because an attacker can
    /// construct different templates with equal keys.
    fn find<'t>(
        &mut self,
        template: &Template,
        spared: Option<&Arc<Sparing>>,
        types: impl Iterator<Item = &'t Type> + Clone,
    ) -> Option<usize> {
        let mut bindings = Bindings::default();
        let found = self.held.iter().find(|(_, plan)| {
            plan.template.key == template.key
                && plan.spared.as_ref() == spared
                && plan.types.iter().eq(types.clone())
                && self.matcher.matches(&plan.template, &template.tape, &mut bindings).is_ok()
        });
        found.map(|(slot, _)| slot)
    }

    fn add(
        &mut self,
        template: &Template,
        spared: Option<Arc<Sparing>>,
        types: Vec<Type>,
    ) -> usize {
        if self.held.len() >= self.config.most.max(1)
            && let Some(oldest) = self.held.oldest()
        {
            self.held.remove(oldest);
        }
        self.n_made += 1;
        self.held.insert(Arc::new(Plan {
            number: self.n_made,
            template: template.clone(),
            types,
            spared,
            ordered: AtomicBool::new(false),
            awaited: AtomicBool::new(false),
            made: OnceLock::new(),
            is_shrunk: AtomicBool::new(false),
            smaller: Mutex::new(None),
        }))
    }

    fn order(&mut self, owner: Owner, plan: &Arc<Plan>) {
        if self.config.when == When::Blocking {
            plan.ordered.store(true, Ordering::Relaxed);
            return plan.make(&*self.compiler, &self.config.options);
        }
        if !self.is_served && !self.serve() {
            plan.ordered.store(true, Ordering::Relaxed);
            let _ = plan.made.set(Err("there is no thread to compile it".into()));
            return;
        }
        self.orders.change(|orders| {
            if orders.n_items(owner) < MAX_ORDERS {
                plan.ordered.store(true, Ordering::Relaxed);
                orders.add(owner, (owner, Arc::clone(plan)));
            }
        });
    }

    /// Starts the thread that compiles. It ends when the plans are dropped. Says whether it did.
    fn serve(&mut self) -> bool {
        let (orders, compiler, tell) =
            (self.orders.clone(), self.compiler.clone(), self.tell.clone());
        let (options, n_threads) = (self.config.options, self.n_threads);
        let work = move || {
            give_way();
            while let Some((owner, plan)) = orders.pop() {
                let began = clock::now();
                plan.make(&*compiler, &options);
                let nanos = (clock::now() - began).as_nanos();
                let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
                orders.change(|orders| orders.charge(owner, nanos));
                // It took one of the threads.
                tell(Late::Compiled(owner, nanos / n_threads));
                if plan.awaited.load(Ordering::SeqCst) {
                    tell(Late::Planned);
                }
            }
        };
        let thread = std::thread::Builder::new().name("gt-compile".into()).spawn(work);
        self.is_served = thread.is_ok();
        self.is_served
    }
}

impl Drop for Plans {
    /// Ends the thread after its current plan.
    fn drop(&mut self) {
        self.orders.change(|orders| *orders = Fair::default());
        self.orders.close();
    }
}

/// Lowers the priority of this thread, if the system supports this.
fn give_way() {
    #[cfg(target_os = "linux")]
    {
        // If the system refuses, the thread keeps its priority, which may slow the program down.
        let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), 10);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::SessionId;
    use gt_compiler::Engine as _;

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

    /// Templates with equal keys must be compared.
    #[test]
    fn templates_of_one_key_have_plans_of_their_own() {
        let engine = gt_compiler::Native::new(gt_compiler::NativeConfig::host()).unwrap();
        let config = PlanConfig { when: When::Blocking, most: 8, ..PlanConfig::default() };
        let mut plans = Plans::new(config, engine.compiler(), 1, Arc::new(|_| ()));
        let defined = |op: &str| {
            let text = format!("gt tape 1\n%0 = input : f32[2]\n%1 = {op} %0\nfree %0\n");
            let mut tape = gt_ir::text::load(&text).unwrap().tape;
            tape.entries.remove(0);
            let mut defined = Definition::new(Arc::new(tape), false).unwrap();
            defined.template.key = gt_ir::canonical::Key(1);
            defined
        };
        let (neg, exp, ty) = (defined("neg"), defined("exp"), ["f32[2]".parse().unwrap()]);
        let mut number = |of| plans.get((0, SessionId(1)), of, None, ty.iter()).unwrap().number;
        assert_eq!([number(&neg), number(&exp), number(&neg), number(&exp)], [1, 2, 1, 2]);
        // Another session's definition has no hint yet.
        assert_eq!([number(&defined("exp")), number(&defined("neg"))], [2, 1]);
    }
}
