//! A program as a straight list of steps: what is launched on which buffers, and where every buffer
//! lies.
//!
//! A plan is data and knows no device. Its temporary buffers lie in one arena, whose end holds the
//! *words*: the scalars of all steps, which kernels read through a pointer, and two error words for
//! each step that may meet an index outside its axis. Results have blocks of their own, or take
//! those of donated inputs, after the last step that can fail.

use std::collections::{BTreeMap, BTreeSet};

use gt_ir::{Graph, Op, Scalar, Type};
use smallvec::SmallVec;

use super::{
    affine::Affine,
    gpu::Work,
    hosted::Hosted,
    launch::{Launch, launches},
};
use crate::{
    error::EngineError,
    options::Numerics,
    schedule::{
        Attention, BufferId, Buffers, Fold, Layout, MatMul, Piece, Routine, ScalarArg, Schedule,
        Uses, scalar,
    },
};

/// The plan of a device.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) inputs: Vec<Type>,
    pub(super) n_scalars: usize,
    pub(super) outputs: SmallVec<[(BufferId, Type); 1]>,
    /// Bytes of each buffer.
    pub(super) sizes: Vec<usize>,
    pub(super) layout: Layout,
    /// The first step that writes each buffer; none is one past the last.
    pub(super) first_write: Vec<usize>,
    /// Whether a step reads each input.
    pub(super) is_read: Vec<bool>,
    /// Whether nobody needs each input after a run.
    pub(super) donated: Vec<bool>,
    pub(super) steps: Vec<Step>,
    /// The work of each function of a launch.
    pub(super) works: Vec<Work>,
    /// The scalars of all steps.
    pub(super) table: Vec<ScalarArg>,
    /// The words that the host hands to calls, so that a graph fits runs with equal ones only.
    pub(super) told: Vec<usize>,
    pub(super) checks: Vec<Check>,
    /// Bytes of the arena, the words included, which begin at `words`.
    pub(super) arena: usize,
    pub(super) words: usize,
}

/// One thing the host asks the device for.
#[derive(Debug)]
pub(super) enum Step {
    Launch {
        function: usize,
        buffers: SmallVec<[BufferId; 4]>,
        /// The first word of its scalars.
        scalars: usize,
        /// The first of its error words; any where it has none.
        errors: usize,
    },
    Product(Box<MatMul>, Option<Affine>),
    /// Done by the host.
    Host(Box<Hosted>),
    /// With the word of its scale, which the host reads: a graph holds the number itself.
    Attention(Box<Attention>, usize),
}

/// A step that may find an index outside its axis.
#[derive(Debug)]
pub(super) struct Check {
    pub(super) step: usize,
    op: String,
    axis: usize,
    pub(super) size: usize,
    /// The input the indices are, if they are one as it came.
    pub(super) input: Option<usize>,
}

impl Check {
    pub(super) fn error(&self, index: i64) -> EngineError {
        EngineError::Index { op: self.op.clone(), index, axis: self.axis, size: self.size }
    }
}

/// Bytes of a word.
pub(super) const WORD: usize = 8;
/// Alignment of buffers in the arena: a device loads whole lines from it.
const ALIGN: usize = 256;

impl Plan {
    /// The plan of a scheduled graph.
    pub(super) fn new(
        graph: &Graph,
        mut schedule: Schedule,
        donated: &[bool],
        numerics: Numerics,
    ) -> Result<Plan, EngineError> {
        let launches = launches(&mut schedule, graph.inputs().len(), numerics);
        let Schedule { sizes, outputs, .. } = schedule;
        let launches = results_last(launches, &outputs);
        let mut plan = Plan {
            inputs: graph.inputs().iter().map(|id| graph.node(*id).ty).collect(),
            n_scalars: graph.slots().len(),
            outputs,
            sizes,
            ..Plan::default()
        };
        let mut known = BTreeMap::new();
        for launch in &launches {
            plan.push(launch, &mut known)?;
        }
        plan.place(&launches, donated);
        Ok(plan)
    }

    /// Gives every buffer its place, and the words theirs behind the arena.
    fn place(&mut self, launches: &[Launch], donated: &[bool]) {
        let (n_inputs, n_buffers) = (self.inputs.len(), self.sizes.len());
        let buffers =
            Buffers { sizes: &self.sizes, n_inputs, outputs: &self.outputs, donated, align: ALIGN };
        self.layout = Layout::new(launches, &buffers);
        self.words = self.layout.arena;
        self.arena = self.words + self.n_words() * WORD;
        self.donated = (0..n_inputs).map(|i| donated.get(i) == Some(&true)).collect();
        self.is_read = vec![false; n_inputs];
        self.first_write = vec![launches.len(); n_buffers];
        for (step, launch) in launches.iter().enumerate().rev() {
            launch.writes().iter().for_each(|b| self.first_write[b.index()] = step);
            let inputs = launch.reads().into_iter().filter(|b| b.index() < n_inputs);
            inputs.for_each(|b| self.is_read[b.index()] = true);
        }
    }

    fn push(
        &mut self,
        launch: &Launch,
        known: &mut BTreeMap<Vec<u8>, usize>,
    ) -> Result<(), EngineError> {
        let (work, buffers, scalars) = match launch {
            Launch::Piece(Piece::MatMul(work)) => {
                self.steps.push(Step::Product(work.clone(), None));
                return Ok(());
            }
            Launch::Affine(work, affine) => {
                self.steps.push(Step::Product(work.clone(), Some(*affine)));
                return Ok(());
            }
            Launch::Joint { work, buffers, scalars } => {
                (Work::Joint(work.clone()), SmallVec::from_slice(buffers), &scalars[..])
            }
            Launch::Piece(Piece::Attention(work)) => {
                let scale = self.scalars(&[work.scale]);
                self.told.push(scale);
                self.steps.push(Step::Attention(work.clone(), scale));
                return Ok(());
            }
            Launch::Piece(Piece::Kernel(k)) => {
                let work = Work::Kernel { spec: Box::new(k.spec.clone()), cut: k.cut };
                (work, k.buffers.clone(), &k.scalars[..])
            }
            Launch::Piece(Piece::Fold(f)) => {
                (Work::Fold(arguments_of_fold(f)), SmallVec::from_slice(&[f.from, f.out]), &[][..])
            }
            Launch::Piece(Piece::Routine(r)) => {
                if let Some(work) = Hosted::of(r) {
                    self.steps.push(Step::Host(Box::new(work)));
                    return Ok(());
                }
                let buffers = r.inputs.iter().map(|(b, _)| *b).chain([r.out]).collect();
                (Work::Routine(Box::new(arguments_of_routine(r))), buffers, &r.scalars[..])
            }
        };
        let function = self.function(work, known)?;
        let (scalars, errors) = (self.scalars(scalars), 2 * self.checks.len());
        if let Launch::Piece(Piece::Routine(r)) = launch {
            self.checks.extend(check(r, self.steps.len(), self.inputs.len()));
        }
        self.steps.push(Step::Launch { function, buffers, scalars, errors });
        Ok(())
    }

    /// The number of a function; equal works have one.
    fn function(
        &mut self,
        work: Work,
        known: &mut BTreeMap<Vec<u8>, usize>,
    ) -> Result<usize, EngineError> {
        let spelled =
            postcard::to_stdvec(&work).map_err(|e| EngineError::Codegen(e.to_string()))?;
        let number = *known.entry(spelled).or_insert(self.works.len());
        if number == self.works.len() {
            self.works.push(work);
        }
        Ok(number)
    }

    /// The first word of these scalars.
    fn scalars(&mut self, scalars: &[ScalarArg]) -> usize {
        if scalars.is_empty() {
            return 0;
        }
        let found = self.table.windows(scalars.len()).position(|w| w == scalars);
        found.unwrap_or_else(|| {
            self.table.extend_from_slice(scalars);
            self.table.len() - scalars.len()
        })
    }

    /// Number of words of a run: scalars, then error words.
    pub(super) fn n_words(&self) -> usize {
        self.table.len() + 2 * self.checks.len()
    }

    /// The words of a run as it begins.
    pub(super) fn fill_words(&self, scalars: &[Scalar], words: &mut Vec<u64>) {
        words.clear();
        words.extend(self.table.iter().map(|arg| scalar(*arg, scalars)));
        words.resize(self.n_words(), 0);
    }

    /// The numbers that the host hands to the calls of a run.
    pub(super) fn told<'p>(&'p self, scalars: &'p [Scalar]) -> impl Iterator<Item = u64> + 'p {
        self.told.iter().map(|&word| scalar(self.table[word], scalars))
    }

    /// Whether the host does a step, which a graph cannot.
    pub(super) fn is_hosted(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Host(_)))
    }

    /// The number of steps up to the last that may fail; nothing given is overwritten among them.
    pub(super) fn barrier(&self) -> usize {
        self.checks.last().map_or(0, |check| check.step + 1)
    }

    /// Whether runs differ in what they say to kernels: in scalars, or in that error words begin as
    /// zero.
    pub(super) fn has_news(&self) -> bool {
        let is_slot = |arg: &ScalarArg| matches!(arg, ScalarArg::Slot(..));
        !self.checks.is_empty() || self.table.iter().any(is_slot)
    }
}

/// Puts launches behind all others that make nothing but results which no launch reads, such as the
/// updates of an optimizer: behind the last step that can fail, so that they may overwrite what was
/// given. The gradient of an embedding is such a step, and one of the last of a backward pass.
///
/// A result that several launches write, such as a fill and the part that is padded, keeps their
/// order: none of them moves.
fn results_last(launches: Vec<Launch>, outputs: &[(BufferId, Type)]) -> Vec<Launch> {
    let read: BTreeSet<BufferId> = launches.iter().flat_map(Launch::reads).collect();
    let mut n_writers: BTreeMap<BufferId, usize> = BTreeMap::new();
    for id in launches.iter().flat_map(Launch::writes) {
        *n_writers.entry(id).or_default() += 1;
    }
    let given: BTreeSet<BufferId> = outputs.iter().map(|(id, _)| *id).collect();
    let is_result = |id: &BufferId| given.contains(id) && !read.contains(id) && n_writers[id] == 1;
    let is_last = |launch: &Launch| !launch.can_fail() && launch.writes().iter().all(is_result);
    let (last, mut ordered): (Vec<Launch>, Vec<Launch>) = launches.into_iter().partition(is_last);
    ordered.extend(last);
    ordered
}

/// A fold with its buffers numbered by argument.
fn arguments_of_fold(fold: &Fold) -> Fold {
    Fold { from: BufferId(0), out: BufferId(1), ..fold.clone() }
}

/// A routine with its buffers numbered by argument.
fn arguments_of_routine(routine: &Routine) -> Routine {
    let mut numbered = routine.clone();
    let inputs = numbered.inputs.iter_mut().zip(0..);
    inputs.for_each(|((buffer, _), n)| *buffer = BufferId(n));
    numbered.scalars.iter_mut().for_each(|s| *s = ScalarArg::Bits(0));
    numbered.out = BufferId(numbered.inputs.len() as u32);
    numbered
}

#[expect(clippy::wildcard_enum_match_arm, reason = "other routines read no indices")]
fn check(routine: &Routine, step: usize, n_inputs: usize) -> Option<Check> {
    let axis = match routine.op {
        Op::Gather(axis) | Op::IndexSelect(axis) | Op::ScatterAdd(axis) | Op::IndexAdd(axis) => {
            usize::from(axis.0)
        }
        _ => return None,
    };
    let ((index, _), (_, indexed)) = (routine.inputs.get(1)?, routine.inputs.first()?);
    let input = Some(index.index()).filter(|i| *i < n_inputs);
    Some(Check { step, op: routine.op.to_string(), axis, size: indexed.shape.sizes()[axis], input })
}
