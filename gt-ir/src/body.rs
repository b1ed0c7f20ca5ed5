//! Functions of values that an op carries as its attribute: the bodies of loops and of choices.
//!
//! A body is a list of instructions on arguments, on each other's results and on literals. It has
//! no types: those follow from the arguments of a call.
//!
//! `scan` is the attribute of a loop, `cond` that of a choice, `text` the text form of a body.
//!
//! Guarantees: equal bodies are one in memory, so that an op that carries one can be copied; a body
//! holds no instruction that no result needs, and no names of dimensions, so that it has one
//! spelling; the table of bodies is bounded. Hashes go by the text, and are those of every process.

mod cond;
mod scan;
mod text;

use std::{
    collections::HashMap,
    fmt,
    hash::{Hash, Hasher},
    sync::{LazyLock, RwLock},
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use smallvec::SmallVec;

use crate::{
    emit::Emit,
    error::OpError,
    intern::{read, write},
    op::{Op, infer},
    operand::{Operand, OperandType, ValueId},
    scalar::Scalar,
    shape::Type,
};

pub use cond::Cond;
pub use scan::{MAX_WORK, Scan};

pub use crate::rules::lines::places;

/// The most instructions of all bodies that one process keeps, their operands counted like them.
pub const MAX_KEPT: usize = 1 << 20;

/// A function of values. Copies are the same function, which stays until the process ends.
#[derive(Clone, Copy)]
pub struct Body(&'static Function);

#[derive(Debug)]
struct Function {
    lines: Lines,
    text: String,
    /// Instructions of one call, those of inner loops in every round.
    work: usize,
}

/// The instructions and the results.
#[derive(Debug)]
struct Lines {
    steps: Vec<Step>,
    results: Vec<Term>,
}

/// An instruction of a body.
#[derive(Debug)]
struct Step {
    op: Op,
    inputs: SmallVec<[Term; 3]>,
}

/// A value in a body. Prints as `a0`, `v0` or a literal.
#[derive(Clone, Copy, Debug)]
enum Term {
    Argument(usize),
    Step(usize),
    Scalar(Scalar),
}

static TABLE: LazyLock<RwLock<Table>> = LazyLock::new(RwLock::default);

/// The functions by their texts, and how much they keep.
#[derive(Default)]
struct Table {
    all: HashMap<&'static str, Body>,
    kept: usize,
}

impl Body {
    /// The number of instructions of one call, with every round of loops in it.
    pub fn work(&self) -> usize {
        self.0.work
    }

    /// The number of results.
    pub fn n_results(&self) -> usize {
        self.0.lines.results.len()
    }

    /// Emits the instructions on these arguments. Gives the results.
    ///
    /// # Errors
    /// An instruction does not take its operands, an argument is missing, or a result is a literal.
    pub fn call(&self, e: &mut dyn Emit, args: &[Operand]) -> Result<Vec<ValueId>, OpError> {
        let Lines { steps, results } = &self.0.lines;
        let mut made: Vec<ValueId> = Vec::with_capacity(steps.len());
        for step in steps {
            let inputs = step.inputs.iter().map(|term| term.found(args, &made));
            let inputs: SmallVec<[Operand; 3]> = inputs.collect::<Result<_, _>>()?;
            made.push(e.emit(step.op, &inputs)?);
        }
        let value = |term: &Term| match term.found(args, &made)? {
            Operand::Value(value) => Ok(value),
            Operand::Scalar(scalar) => {
                Err(OpError::new(format!("a body gives the literal {scalar} in place of a tensor")))
            }
        };
        results.iter().map(value).collect()
    }

    /// The types of the results of a call.
    ///
    /// # Errors
    /// As of [`call`](Body::call).
    pub fn infer(&self, args: &[Type]) -> Result<Vec<Type>, OpError> {
        let mut builder = Builder::new(args.iter().copied());
        let operands: Vec<Operand> = (0..args.len()).map(Builder::argument).collect();
        let results = self.call(&mut builder, &operands)?;
        Ok(results.into_iter().map(|value| builder.ty(value)).collect())
    }

    /// The one copy of a function, without what no result needs.
    fn new(lines: Lines) -> Result<Body, OpError> {
        let lines = needed(lines);
        let work = lines.steps.iter().map(|step| step.op.work());
        let work = work.fold(0, usize::saturating_add);
        let text = lines.to_string();
        if !text::can_be_read(&text) {
            return Err(OpError::new("loops and choices in each other are too deep"));
        }
        if let Some(body) = read(&TABLE).all.get(&*text) {
            return Ok(*body);
        }
        let mut table = write(&TABLE);
        // Another thread may have been faster.
        if let Some(body) = table.all.get(&*text) {
            return Ok(*body);
        }
        let n = lines.len();
        if n > MAX_KEPT - table.kept {
            return Err(OpError::new(format!(
                "more than {MAX_KEPT} instructions and operands in the bodies of this process's \
                 loops and choices"
            ))
            .hint("pass numbers that change as tensors, so that one body serves for all of them"));
        }
        let kept: &'static Function = Box::leak(Box::new(Function { lines, text, work }));
        table.kept += n;
        table.all.insert(&kept.text, Body(kept));
        Ok(Body(kept))
    }
}

impl Lines {
    /// The instructions, their operands and the results.
    fn len(&self) -> usize {
        let steps = self.steps.iter().map(|step| 1 + step.inputs.len());
        steps.sum::<usize>() + self.results.len() + 1
    }
}

/// The instructions that results need, numbered anew.
fn needed(Lines { steps, mut results }: Lines) -> Lines {
    let mut is_needed = vec![false; steps.len()];
    let mark = |term: &Term, is_needed: &mut Vec<bool>| {
        if let Term::Step(i) = term {
            is_needed[*i] = true;
        }
    };
    results.iter().for_each(|term| mark(term, &mut is_needed));
    for i in (0..steps.len()).rev() {
        if is_needed[i] {
            steps[i].inputs.iter().for_each(|term| mark(term, &mut is_needed));
        }
    }
    let mut next = 0..;
    let numbers: Vec<usize> =
        is_needed.iter().map(|yes| if *yes { next.next().unwrap_or(0) } else { 0 }).collect();
    let renumber = |term: &mut Term| {
        if let Term::Step(i) = term {
            *i = numbers[*i];
        }
    };
    results.iter_mut().for_each(renumber);
    let kept = steps.into_iter().zip(&is_needed).filter(|(_, yes)| **yes);
    let steps = kept.map(|(mut step, _)| {
        step.op = step.op.unnamed();
        step.inputs.iter_mut().for_each(renumber);
        step
    });
    Lines { steps: steps.collect(), results }
}

/// Makes a body of instructions that are emitted.
///
/// ```
/// use gt_ir::{Body, Builder, Emit, Op};
/// let x: gt_ir::Type = "f32[3]".parse()?;
/// let mut builder = Builder::new([x]);
/// let double = builder.emit(Op::Mul, &[Builder::argument(0), 2.0.into()])?;
/// let body = builder.body(&[double.into()])?;
/// assert_eq!(body.to_string(), "mul(a0,2.0)|v0");
/// assert_eq!(body.infer(&[x])?, [x]);
/// # Ok::<(), gt_ir::OpError>(())
/// ```
pub struct Builder {
    /// Of the arguments, then of the results of the instructions.
    types: Vec<Type>,
    n_args: usize,
    steps: Vec<Step>,
}

impl Builder {
    /// A function of arguments of these types.
    pub fn new(args: impl IntoIterator<Item = Type>) -> Builder {
        let types: Vec<Type> = args.into_iter().map(|ty| ty.unnamed()).collect();
        Builder { n_args: types.len(), types, steps: Vec::new() }
    }

    /// An argument as an operand.
    pub fn argument(i: usize) -> Operand {
        Operand::Value(ValueId(i as u64))
    }

    /// The function that gives these values.
    ///
    /// # Errors
    /// The table of bodies is full.
    pub fn body(self, results: &[Operand]) -> Result<Body, OpError> {
        let results = results.iter().map(|result| self.term(*result)).collect();
        Body::new(Lines { steps: self.steps, results })
    }

    fn term(&self, operand: Operand) -> Term {
        match operand {
            Operand::Scalar(scalar) => Term::Scalar(scalar),
            Operand::Value(ValueId(id)) => match (id as usize).checked_sub(self.n_args) {
                None => Term::Argument(id as usize),
                Some(step) => Term::Step(step),
            },
        }
    }
}

impl Emit for Builder {
    fn emit(&mut self, op: Op, inputs: &[Operand]) -> Result<ValueId, OpError> {
        let types: SmallVec<[OperandType; 3]> =
            inputs.iter().map(|input| self.operand_type(*input)).collect();
        let ty = infer(&op, &types)?;
        let inputs = inputs.iter().map(|input| self.term(*input)).collect();
        self.steps.push(Step { op, inputs });
        self.types.push(ty);
        Ok(ValueId(self.types.len() as u64 - 1))
    }

    /// # Panics
    /// The value is not one of this function, which no caller hands over.
    fn ty(&self, value: ValueId) -> Type {
        self.types[value.0 as usize]
    }
}

impl Term {
    /// What it is in a call.
    fn found(self, args: &[Operand], made: &[ValueId]) -> Result<Operand, OpError> {
        let found = match self {
            Term::Argument(i) => args.get(i).copied(),
            Term::Step(i) => made.get(i).map(|value| Operand::Value(*value)),
            Term::Scalar(scalar) => Some(Operand::Scalar(scalar)),
        };
        found
            .ok_or_else(|| OpError::new(format!("a body of {} arguments names {self}", args.len())))
    }
}

impl PartialEq for Body {
    fn eq(&self, other: &Body) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for Body {}

impl Hash for Body {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.text.hash(state);
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// `mul(a0,a1)|add(v0,1.0)|v1,v0`: the instructions, then the results.
impl fmt::Display for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)
    }
}

impl Serialize for Body {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.text)
    }
}

impl<'de> Deserialize<'de> for Body {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Body, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|error: OpError| de::Error::custom(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_has_one_spelling() {
        for text in ["a0", "mul(a0,a1)|v0,v0", "sum[0,keep](a2)|add(v0,-1.5)|v1", "a0,a1"] {
            let body: Body = text.parse().unwrap();
            assert_eq!(body.to_string(), text);
            assert_eq!(Ok(body), text.parse());
        }
        for text in ["cond[f32|a0|else|a1]", "cond[bool|gt(a0,a1)|v0|else|lt(a1,a0)|v0]"] {
            let op: Op = text.parse().unwrap();
            assert_eq!(op.to_string(), text);
            let inner = format!("{text}(a0,a1)|v0");
            assert_eq!(inner.parse::<Body>().unwrap().to_string(), inner);
        }
        for bad in ["f32|a0", "f32|else|a0", "f32|a0|else", "f32|a0|a0", "f32|a0|else|a0|else|a0"] {
            assert!(format!("cond[{bad}]").parse::<Op>().is_err(), "{bad}");
        }
        for bad in
            ["mul(a0,a1)|a0", "mul(a0,v0)|v0", "a00", "exp(a0|v0", "exp(a0)", "x(a0)|v0", "|"]
        {
            assert!(bad.parse::<Body>().is_err(), "{bad}");
        }
    }

    #[test]
    fn brackets_that_are_too_deep_are_no_body() {
        let deep = format!("{}a0{}|v0", "exp(".repeat(100_000), ")".repeat(100_000));
        assert!(deep.parse::<Body>().is_err());
        let loops = "scan[2,1,0,f32|".repeat(100_000);
        assert!(loops.parse::<Body>().is_err());
        assert!(format!("{loops}a0").parse::<Op>().is_err());
    }

    /// A round of nothing takes time, too.
    #[test]
    fn rounds_without_instructions_are_bounded() {
        let x: Type = "f32[2]".parse().unwrap();
        for op in ["scan[18446744073709551615,1,0,f32|a0]", "scan[262145,1,0,f32|a0]"] {
            let Ok(Op::Scan(scan)) = op.parse() else { panic!("{op}") };
            assert!(scan.results(&[x]).is_err(), "{op}");
        }
        let Ok(Op::Scan(scan)) = "scan[262144,1,0,f32|a0]".parse() else { panic!("no loop") };
        assert_eq!(scan.results(&[x]), Ok(vec![x]));
    }

    #[test]
    fn a_call_types_its_results() {
        let body: Body = "matmul(a0,a1)|v0,a1".parse().unwrap();
        let [x, w] = ["f32[2,3]", "f32[3,3]"].map(|ty| ty.parse::<Type>().unwrap());
        assert_eq!(body.infer(&[x, w]), Ok(vec![x, w]));
        assert!(body.infer(&[w, x]).is_err());
        assert!(body.infer(&[x]).unwrap_err().to_string().contains("names a1"));
    }
}
