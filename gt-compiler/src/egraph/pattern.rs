//! The left sides of rules: a small language of terms, compiled to a list of steps (the e-matching
//! machine of de Moura and Bjørner 2007), and the search for them.
//!
//! `(add ?x (permute@p ?y))` matches an addition whose second operand is a permutation, which the
//! rule calls `p`. `unary` and `binary` stand for every pointwise op of one and of two operands.
//! `#x` matches a value that is one number everywhere; a number matches that number everywhere.
//! Operands of commutative ops match in either order, so that neither rules nor e-graphs need
//! commutativity. The operands of a named op keep their order, for rules that build the same op
//! again: of two NaN or two zeros the order may choose the one that stays. Searching adds nothing
//! to the e-graph.

use egg::{Id, Language};
use gt_ir::{Class, Op, OpKind, op::Arity};
use smallvec::SmallVec;

use super::{
    analysis::{Graph, op_of},
    language::{Kinds, Uniform},
};

/// The ops that stand at the head of a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// `exp`
    Op(OpKind),
    /// `unary`: pointwise ops of one operand.
    Unary,
    /// `binary`: pointwise ops of two operands.
    Binary,
}

impl Head {
    fn parse(name: &str) -> Option<Head> {
        match name {
            "unary" => Some(Head::Unary),
            "binary" => Some(Head::Binary),
            _ => OpKind::ALL.iter().copied().find(|k| k.name() == name).map(Head::Op),
        }
    }

    fn holds(self, kind: OpKind) -> bool {
        let takes = |n| {
            let spec = kind.spec();
            kind.is_primitive() && spec.class == Class::Pointwise && spec.arity == Arity::Exactly(n)
        };
        match self {
            Head::Op(op) => op == kind,
            Head::Unary => takes(1),
            Head::Binary => takes(2),
        }
    }

    /// The ops it stands for, in the order of the op table.
    pub(crate) fn ops(self) -> SmallVec<[OpKind; 1]> {
        match self {
            Head::Op(op) => SmallVec::from_slice(&[op]),
            Head::Unary | Head::Binary => {
                OpKind::ALL.iter().copied().filter(|kind| self.holds(*kind)).collect()
            }
        }
    }
}

/// A term of a rule.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Term {
    /// `?x`
    Var(String),
    /// `#x`
    Uniform(String),
    /// `0.5`
    Number(f64),
    /// `(sum@r ?x)`
    Op { head: Head, attr: Option<String>, children: Vec<Term> },
}

impl Term {
    /// Reads a term.
    pub(crate) fn parse(text: &str) -> Option<Term> {
        let spaced = text.replace('(', " ( ").replace(')', " ) ");
        let tokens: Vec<&str> = spaced.split_whitespace().collect();
        let mut rest = tokens.as_slice();
        let term = Term::read(&mut rest)?;
        rest.is_empty().then_some(term)
    }

    fn read(tokens: &mut &[&str]) -> Option<Term> {
        let (first, rest) = tokens.split_first()?;
        *tokens = rest;
        if *first != "(" {
            return match first.split_at_checked(1) {
                Some(("?", name)) => Some(Term::Var(name.to_owned())),
                Some(("#", name)) => Some(Term::Uniform(name.to_owned())),
                Some(_) | None => first.parse().ok().map(Term::Number),
            };
        }
        let (head, rest) = tokens.split_first()?;
        *tokens = rest;
        let (name, attr) =
            head.split_once('@').map_or((*head, None), |(n, a)| (n, Some(a.to_owned())));
        let head = Head::parse(name)?;
        let mut children = Vec::new();
        while tokens.first() != Some(&")") {
            children.push(Term::read(tokens)?);
        }
        *tokens = &tokens[1..];
        Some(Term::Op { head, attr, children })
    }

    /// The same term with operands of commutative ops in every order, itself first.
    fn orders(&self) -> Vec<Term> {
        let Term::Op { head, attr, children } = self else { return vec![self.clone()] };
        let mut lists: Vec<Vec<Term>> = vec![Vec::new()];
        for child in children {
            let orders = child.orders();
            lists = lists
                .iter()
                .flat_map(|list| {
                    orders.iter().map(|o| list.iter().cloned().chain([o.clone()]).collect())
                })
                .collect();
        }
        let commutes = matches!(head, Head::Op(op) if op.spec().marks.commutes);
        if commutes && attr.is_none() {
            let swapped: Vec<Vec<Term>> =
                lists.iter().map(|l| l.iter().rev().cloned().collect()).collect();
            lists.extend(swapped);
        }
        let mut terms: Vec<Term> = Vec::new();
        for children in lists {
            let term = Term::Op { head: *head, attr: attr.clone(), children };
            if !terms.contains(&term) {
                terms.push(term);
            }
        }
        terms
    }
}

/// One step of matching: each is about a class in a register.
#[derive(Clone, Debug)]
enum Step {
    /// The class holds such an op; its children go to new registers.
    Op { at: usize, head: Head, arity: usize, attr: Option<usize> },
    /// The class is the one of a variable that is bound already.
    Same { at: usize, to: usize },
    /// The class is this number everywhere.
    Number { at: usize, value: f64 },
    /// The class is one number everywhere.
    Uniform { at: usize },
}

/// A compiled left side.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    /// The ops at the root.
    pub(crate) roots: SmallVec<[OpKind; 1]>,
    /// Longest way from the root to a leaf.
    pub(crate) depth: usize,
    /// For each op of the term, the kinds that it stands for.
    needs: SmallVec<[Kinds; 8]>,
    /// Registers of the variables, in the order of [`Pattern::names`].
    steps: Vec<Step>,
    vars: Vec<(String, usize)>,
    attrs: Vec<String>,
}

/// A match: the classes and ops that a left side binds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Match {
    /// The class of the whole left side.
    pub(crate) root: Id,
    /// Classes of the variables.
    pub(crate) vars: SmallVec<[Id; 6]>,
    /// The ops that `@` names.
    pub(crate) attrs: SmallVec<[Op; 2]>,
}

impl Pattern {
    /// A term as patterns: one for each order of operands. The names are those of the first.
    pub(crate) fn compile(term: &Term) -> Option<Vec<Pattern>> {
        let mut patterns: Vec<Pattern> = Vec::new();
        for order in term.orders() {
            let Term::Op { head, .. } = order else { return None };
            let mut p = Pattern {
                roots: head.ops(),
                depth: 0,
                needs: SmallVec::new(),
                steps: Vec::new(),
                vars: Vec::new(),
                attrs: Vec::new(),
            };
            p.visit(&order, 0, &mut 1, 0);
            if let Some(first) = patterns.first() {
                p.rename_like(first);
            }
            patterns.push(p);
        }
        Some(patterns)
    }

    fn visit(&mut self, term: &Term, at: usize, next: &mut usize, depth: usize) {
        self.depth = self.depth.max(depth);
        match term {
            Term::Var(name) | Term::Uniform(name) => {
                if matches!(term, Term::Uniform(_)) {
                    self.steps.push(Step::Uniform { at });
                }
                match self.vars.iter().find(|(n, _)| n == name) {
                    Some((_, to)) => self.steps.push(Step::Same { at, to: *to }),
                    None => self.vars.push((name.clone(), at)),
                }
            }
            Term::Number(value) => self.steps.push(Step::Number { at, value: *value }),
            Term::Op { head, attr, children } => {
                let attr = attr.as_ref().map(|name| {
                    self.attrs.push(name.clone());
                    self.attrs.len() - 1
                });
                self.needs.push(head.ops().into_iter().collect());
                let first = *next;
                *next += children.len();
                self.steps.push(Step::Op { at, head: *head, arity: children.len(), attr });
                for (i, child) in children.iter().enumerate() {
                    self.visit(child, first + i, next, depth + 1);
                }
            }
        }
    }

    /// Lists variables and attributes in another pattern's order.
    fn rename_like(&mut self, first: &Pattern) {
        let place = |(name, _): &(String, usize)| first.vars.iter().position(|(n, _)| n == name);
        self.vars.sort_by_key(place);
        let order: Vec<usize> = self
            .attrs
            .iter()
            .map(|a| first.attrs.iter().position(|f| f == a).unwrap_or(0))
            .collect();
        for step in &mut self.steps {
            if let Step::Op { attr: Some(attr), .. } = step {
                *attr = order[*attr];
            }
        }
        self.attrs.clone_from(&first.attrs);
    }

    /// The names of variables and attributes, in the order matches list them.
    pub(crate) fn names(&self) -> (Vec<&str>, Vec<&str>) {
        (
            self.vars.iter().map(|(n, _)| n.as_str()).collect(),
            self.attrs.iter().map(String::as_str).collect(),
        )
    }

    /// Whether ops of these kinds can match: a cheap test before any search.
    pub(crate) fn fits(&self, kinds: Kinds) -> bool {
        self.needs.iter().all(|one| one.meets(kinds))
    }

    /// Hands every match at a class to `found` until it returns false; false if it did. Takes from
    /// `fuel` for each e-node looked at.
    pub(crate) fn search(
        &self,
        graph: &Graph,
        root: Id,
        fuel: &mut usize,
        found: &mut dyn FnMut(Match) -> bool,
    ) -> bool {
        let mut state = State {
            pattern: self,
            graph,
            registers: SmallVec::new(),
            attrs: SmallVec::new(),
            fuel,
            found,
        };
        state.registers.push(root);
        state.step(0)
    }
}

struct State<'a> {
    pattern: &'a Pattern,
    graph: &'a Graph,
    registers: SmallVec<[Id; 16]>,
    attrs: SmallVec<[(usize, Op); 2]>,
    fuel: &'a mut usize,
    found: &'a mut dyn FnMut(Match) -> bool,
}

impl State<'_> {
    fn step(&mut self, at: usize) -> bool {
        let Some(step) = self.pattern.steps.get(at) else { return self.report() };
        match *step {
            Step::Same { at: a, to } => {
                let same =
                    self.graph.find(self.registers[a]) == self.graph.find(self.registers[to]);
                !same || self.step(at + 1)
            }
            Step::Number { at: a, value } => {
                let uniform = self.graph[self.registers[a]].data.uniform;
                // Bits, so that -0 is not 0.
                let is_value = |c: gt_ir::Scalar| c.as_f64().to_bits() == value.to_bits();
                let same = matches!(uniform, Some(Uniform::Const(c)) if is_value(c));
                !same || self.step(at + 1)
            }
            Step::Uniform { at: a } => {
                self.graph[self.registers[a]].data.uniform.is_none() || self.step(at + 1)
            }
            Step::Op { at: a, head, arity, attr } => self.ops(at, a, head, arity, attr),
        }
    }

    fn ops(&mut self, at: usize, a: usize, head: Head, arity: usize, attr: Option<usize>) -> bool {
        let graph = self.graph;
        let (registers, attrs) = (self.registers.len(), self.attrs.len());
        for node in &graph[self.registers[a]].nodes {
            if *self.fuel == 0 {
                return false;
            }
            *self.fuel -= 1;
            if !node.kind.is_some_and(|kind| head.holds(kind)) || node.children.len() != arity {
                continue;
            }
            self.registers.extend_from_slice(node.children());
            if let (Some(attr), Some(op)) = (attr, op_of(graph, node)) {
                self.attrs.push((attr, op));
            }
            let go_on = self.step(at + 1);
            self.registers.truncate(registers);
            self.attrs.truncate(attrs);
            if !go_on {
                return false;
            }
        }
        true
    }

    fn report(&mut self) -> bool {
        let vars =
            self.pattern.vars.iter().map(|(_, at)| self.graph.find(self.registers[*at])).collect();
        let mut attrs = self.attrs.clone();
        attrs.sort_unstable_by_key(|(i, _)| *i);
        let attrs = attrs.iter().map(|(_, op)| *op).collect();
        let root = self.graph.find(self.registers[0]);
        (self.found)(Match { root, vars, attrs })
    }
}
