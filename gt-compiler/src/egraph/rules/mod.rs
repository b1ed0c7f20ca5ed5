//! The rules, in tables by theme. `README.md` beside this file states the laws they obey and how to
//! add one.
//!
//! A rule is a row: a name, a left side, a right side (a term, or a function where attributes have
//! to be computed), the numerics policy from which on it applies, and the dtypes it holds for.
//! Rules are directed; what they add is legal by construction, since every op they build passes its
//! type rule.

mod algebra;
mod contraction;
mod movement;
mod normalization;
mod reduction;
mod selection;

use std::sync::LazyLock;

use egg::Id;
use gt_ir::{DType, Op, OpKind, Scalar, Type};

use super::{
    analysis::{Graph, add_op, add_uniform, find_op, op_of},
    language::{Kinds, Uniform, What},
    pattern::{Match, Pattern, Term},
};
use crate::options::Numerics;

/// A rewrite.
pub(crate) struct Rule {
    pub(crate) name: &'static str,
    pub(crate) left: &'static str,
    pub(crate) right: Right,
    pub(crate) numerics: Numerics,
    pub(crate) dtypes: Dtypes,
}

/// The right side of a rule.
pub(crate) enum Right {
    /// A term of the left side's variables and ops. A number takes the type of the operand beside
    /// it.
    Term(&'static str),
    /// The result of a function of the match; `None` where the rule does not apply.
    By(fn(&mut Cx<'_>) -> Option<Id>),
    /// None: the report counts the left side where a condition holds.
    Recognize(fn(&Cx<'_>) -> bool),
}

/// The dtypes of the first variable of a left side for which a rule holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dtypes {
    Any,
    Float,
    Bool,
    /// Integers and `bool`, whose arithmetic never rounds.
    NoFloat,
}

impl Dtypes {
    pub(crate) fn hold(self, dtype: DType) -> bool {
        match self {
            Dtypes::Any => true,
            Dtypes::Float => dtype.is_float(),
            Dtypes::Bool => dtype == DType::Bool,
            Dtypes::NoFloat => !dtype.is_float(),
        }
    }
}

/// A row with two terms.
const fn rw(
    name: &'static str,
    left: &'static str,
    right: &'static str,
    numerics: Numerics,
    dtypes: Dtypes,
) -> Rule {
    Rule { name, left, right: Right::Term(right), numerics, dtypes }
}

/// A row with a function.
const fn by(
    name: &'static str,
    left: &'static str,
    right: fn(&mut Cx<'_>) -> Option<Id>,
    numerics: Numerics,
    dtypes: Dtypes,
) -> Rule {
    Rule { name, left, right: Right::By(right), numerics, dtypes }
}

/// A row that only recognizes its left side.
const fn known(name: &'static str, left: &'static str) -> Rule {
    known_if(name, left, |_| true)
}

/// A row that only recognizes its left side, where a condition holds.
const fn known_if(name: &'static str, left: &'static str, condition: fn(&Cx<'_>) -> bool) -> Rule {
    Rule {
        name,
        left,
        right: Right::Recognize(condition),
        numerics: Numerics::Exact,
        dtypes: Dtypes::Any,
    }
}

/// Every table.
pub(super) const TABLES: &[&[Rule]] = &[
    algebra::RULES,
    selection::RULES,
    movement::RULES,
    contraction::RULES,
    reduction::RULES,
    normalization::RULES,
];

/// A rule ready to be searched for.
pub(crate) struct Compiled {
    pub(crate) rule: &'static Rule,
    /// The left side, one for each order of operands.
    pub(crate) patterns: Vec<Pattern>,
    right: Option<Term>,
}

/// Every rule, in the order of the tables, and the longest way from a left side's root to its
/// leaves.
pub(crate) struct Book {
    pub(crate) rules: Vec<Compiled>,
    pub(crate) depth: usize,
}

/// The rules of all tables.
pub(crate) static BOOK: LazyLock<Book> = LazyLock::new(|| {
    // A row that does not read is left out here and found by the test of the tables.
    let rules: Vec<Compiled> =
        TABLES.iter().flat_map(|t| t.iter()).filter_map(Compiled::new).collect();
    let depth = rules.iter().flat_map(|r| &r.patterns).map(|p| p.depth).max().unwrap_or(0);
    Book { rules, depth }
});

impl Book {
    /// Whether a rule that a policy allows, or a row that recognizes, can match ops of these kinds.
    /// Where none can, a search would add nothing.
    pub(crate) fn can_match(&self, kinds: Kinds, numerics: Numerics) -> bool {
        let allowed = self.rules.iter().filter(|rule| rule.rule.numerics <= numerics);
        allowed.flat_map(|rule| &rule.patterns).any(|pattern| pattern.fits(kinds))
    }
}

impl Compiled {
    fn new(rule: &'static Rule) -> Option<Compiled> {
        let left = Term::parse(rule.left)?;
        let right = match rule.right {
            Right::Term(text) => Some(Term::parse(text)?),
            Right::By(_) | Right::Recognize(_) => None,
        };
        Some(Compiled { rule, patterns: Pattern::compile(&left)?, right })
    }

    /// Whether the row only recognizes.
    pub(crate) fn recognizes(&self) -> bool {
        matches!(self.rule.right, Right::Recognize(_))
    }

    /// Whether the condition of a row that only recognizes holds for a match.
    pub(crate) fn is_known(&self, graph: &mut Graph, found: &Match) -> bool {
        let cx = Cx { graph, found, names: &self.patterns[0] };
        matches!(self.rule.right, Right::Recognize(condition) if condition(&cx))
    }

    /// Adds the right side for a match; `None` where the rule does not apply.
    pub(crate) fn apply(&self, graph: &mut Graph, found: &Match) -> Option<Id> {
        let first = found.vars.first().copied().unwrap_or(found.root);
        if !self.rule.dtypes.hold(graph[first].data.ty.dtype) {
            return None;
        }
        let mut cx = Cx { graph, found, names: &self.patterns[0] };
        let made = match self.rule.right {
            Right::By(f) => f(&mut cx)?,
            Right::Term(_) => cx.build(self.right.as_ref()?, None)?,
            Right::Recognize(_) => return None,
        };
        let (root, ty) = (cx.ty(found.root), cx.ty(made));
        debug_assert!(ty.same_layout(&root), "rule {}: {root} became {ty}", self.rule.name);
        ty.same_layout(&root).then_some(made)
    }
}

/// A match that is being rewritten: the interface of the functions of rules.
pub(crate) struct Cx<'a> {
    graph: &'a mut Graph,
    found: &'a Match,
    names: &'a Pattern,
}

impl Cx<'_> {
    /// The class of the i-th variable, in the order the left side first names them.
    fn var(&self, i: usize) -> Id {
        self.found.vars[i]
    }

    /// The op the i-th `@` names.
    fn attr(&self, i: usize) -> Op {
        self.found.attrs[i]
    }

    /// The type of the left side.
    fn root(&self) -> Type {
        self.ty(self.found.root)
    }

    fn ty(&self, id: Id) -> Type {
        self.graph[id].data.ty
    }

    /// The constant a class is everywhere.
    fn constant(&self, id: Id) -> Option<Scalar> {
        match self.graph[id].data.uniform {
            Some(Uniform::Const(value)) => Some(value),
            Some(Uniform::Slot(_)) | None => None,
        }
    }

    /// Whether a class is the same number everywhere.
    fn is_uniform(&self, id: Id) -> bool {
        self.graph[id].data.uniform.is_some()
    }

    /// Whether a class is given from outside of the block.
    fn is_external(&self, id: Id) -> bool {
        let is = |sig| matches!(self.graph.analysis.sigs.get(sig).what, What::External(_));
        self.graph[id].nodes.iter().any(|n| is(n.sig))
    }

    /// Whether no element is below zero.
    fn is_nonnegative(&self, id: Id) -> bool {
        self.graph[id].data.nonnegative
    }

    /// An op of a class whose kind is this one, with its operands.
    fn made_by(&self, id: Id, kind: OpKind) -> Option<(Op, Vec<Id>)> {
        let node = self.graph[id].nodes.iter().find(|n| n.kind == Some(kind))?;
        Some((op_of(self.graph, node)?, node.children.to_vec()))
    }

    /// An op on these classes that the e-graph holds already.
    fn existing(&self, op: Op, children: &[Id]) -> Option<Id> {
        find_op(self.graph, op, children)
    }

    /// Adds an op, if it is legal on these classes.
    fn op(&mut self, op: Op, children: &[Id]) -> Option<Id> {
        add_op(self.graph, op, children)
    }

    /// Adds one number everywhere.
    fn full(&mut self, value: impl Into<Scalar>, ty: Type) -> Id {
        add_uniform(self.graph, Uniform::Const(value.into()), ty)
    }

    /// A class that is one number everywhere, in another shape.
    fn uniform_as(&mut self, id: Id, ty: Type) -> Option<Id> {
        let uniform = self.graph[id].data.uniform?;
        (self.ty(id).dtype == ty.dtype).then(|| add_uniform(self.graph, uniform, ty))
    }

    fn build(&mut self, term: &Term, like: Option<Type>) -> Option<Id> {
        match term {
            Term::Var(name) | Term::Uniform(name) => {
                let at = self.names.names().0.iter().position(|n| n == name)?;
                Some(self.var(at))
            }
            Term::Number(value) => {
                let ty = like.unwrap_or_else(|| self.root());
                Some(self.full(number(*value, ty.dtype), ty))
            }
            Term::Op { head, attr, children } => {
                let op = match attr {
                    Some(name) => self.attr(self.names.names().1.iter().position(|n| n == name)?),
                    None => head.ops().first()?.name().parse().ok()?,
                };
                let is_number = |t: &&Term| matches!(t, Term::Number(_));
                let beside = children.iter().rev().find(|t| !is_number(t));
                let like = beside.and_then(|t| self.build(t, None)).map(|id| self.ty(id));
                let ids =
                    children.iter().map(|c| self.build(c, like)).collect::<Option<Vec<Id>>>()?;
                self.op(op, &ids)
            }
        }
    }
}

/// A number as the constant of a dtype.
fn number(value: f64, dtype: DType) -> Scalar {
    if dtype == DType::Bool {
        Scalar::Bool(value != 0.0)
    } else if dtype.is_float() {
        Scalar::F64(value)
    } else {
        Scalar::I64(value as i64)
    }
}
