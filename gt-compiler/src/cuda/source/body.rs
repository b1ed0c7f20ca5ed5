//! What a kernel computes at a point, as statements: loads, operations and stores, each where it
//! has to stand.
//!
//! A step of a thread is `width` elements along the innermost loop. What is the same for all steps,
//! or for all elements of one, is computed once; what lies side by side in memory moves as one
//! pack. Nothing here chooses which points a thread works on.

use gt_ir::DType;

use crate::kernel::{Access, Expr, ExprId, Store};

use super::{
    expression,
    space::Space,
    text::{Parameter, Text, memory_type, register_type},
};

/// How often a value is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// Once.
    Fixed,
    /// Once a step.
    Step,
    /// For each element of a step.
    Element,
}

/// Which steps statements are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Steps {
    /// One, of which elements may be missing.
    One,
    /// One of several whole ones, `s`, whose packs were loaded ahead.
    Whole,
}

/// The statements of a kernel.
pub(super) struct Body<'s> {
    pub(super) space: &'s Space,
    /// Elements of a step.
    pub(super) width: usize,
    /// How many elements of a step there are, where that may be less than all: an expression.
    pub(super) live: Option<String>,
    /// The flat index of a step's first element, where packs go along it and not along the
    /// innermost loop.
    pub(super) flat: Option<String>,
    /// Loads whose elements lie in shared memory, turned.
    pub(super) turned: Vec<usize>,
    /// The loop a step goes along.
    inner: Option<usize>,
    levels: Vec<Level>,
}

/// Elements of a pack that one access of 16 bytes moves.
fn aligned(dtype: DType, width: usize) -> i64 {
    width.min(16 / dtype.size()).max(1) as i64
}

impl<'s> Body<'s> {
    /// `level_of` says how often a loop's coordinate changes.
    pub(super) fn new(
        space: &'s Space,
        width: usize,
        inner: Option<usize>,
        level_of: impl Fn(usize) -> Level,
    ) -> Body<'s> {
        let moved = |access: &Access| {
            let of = |(l, s): (usize, &i64)| if *s == 0 { Level::Fixed } else { level_of(l) };
            access.strides.iter().enumerate().map(of).max().unwrap_or(Level::Fixed)
        };
        let mut levels: Vec<Level> = Vec::with_capacity(space.spec.nodes.len());
        for node in &space.spec.nodes {
            let level = match &node.expr {
                Expr::Load { access, .. } | Expr::Index(access) => moved(access),
                Expr::Scalar(_)
                | Expr::Unary(..)
                | Expr::Binary(..)
                | Expr::Select(..)
                | Expr::Cast(_) => {
                    let operands = node.expr.operands();
                    let levels = operands.iter().map(|o| levels[o.0 as usize]);
                    levels.max().unwrap_or(Level::Fixed)
                }
            };
            levels.push(level);
        }
        Body { space, width, live: None, flat: None, turned: Vec::new(), inner, levels }
    }

    fn dtype(&self, id: ExprId) -> DType {
        self.space.spec.node(id).dtype
    }

    pub(super) fn buffer_dtype(&self, buffer: u16) -> DType {
        self.space.spec.buffers[usize::from(buffer)]
    }

    /// Whether the elements of a step lie side by side, where one access can take them.
    pub(super) fn is_pack(&self, dtype: DType, access: &Access) -> bool {
        match self.flat {
            Some(_) => packs_flat(self.space, access, dtype, self.width),
            None => packs(access, dtype, self.width, self.inner),
        }
    }

    /// Where a pack begins, of the step at some coordinates.
    fn pack_at(&self, access: &Access, coordinates: &[String]) -> String {
        match &self.flat {
            Some(flat) if access.offset == 0 => flat.clone(),
            Some(flat) => format!("{} + {flat}", self.space.literal(i128::from(access.offset))),
            None => self.space.at(access, coordinates),
        }
    }

    /// The values computed once.
    pub(super) fn fixed_values(&self, text: &mut Text, coordinates: &[String]) {
        self.values(text, Level::Fixed, coordinates);
    }

    /// The values computed once a step, and the packs of its elements.
    pub(super) fn step_values(&self, text: &mut Text, steps: Steps, coordinates: &[String]) {
        for (id, buffer, access) in self.packs() {
            text.line(match steps {
                Steps::One => self.load_pack(id, buffer, access, coordinates),
                Steps::Whole => format!("const auto& p{id} = ahead{id}[s];"),
            });
        }
        self.values(text, Level::Step, coordinates);
    }

    /// The values of element `u` of a step.
    pub(super) fn element_values(&self, text: &mut Text, coordinates: &[String]) {
        self.values(text, Level::Element, coordinates);
    }

    fn values(&self, text: &mut Text, level: Level, coordinates: &[String]) {
        for (id, node) in self.space.spec.nodes.iter().enumerate() {
            if self.levels[id] == level {
                let value = self.value(id, coordinates);
                text.line(format!("const {} v{id} = {value};", register_type(node.dtype)));
            }
        }
    }

    /// Loads that move as packs.
    fn packs(&self) -> impl Iterator<Item = (usize, u16, &Access)> {
        let nodes = self.space.spec.nodes.iter().enumerate();
        nodes.filter_map(|(id, node)| {
            let Expr::Load { buffer, access } = &node.expr else { return None };
            let moves = self.levels[id] == Level::Element
                && self.is_pack(self.buffer_dtype(*buffer), access);
            moves.then_some((id, *buffer, access))
        })
    }

    /// Bytes of the elements that a step loads.
    pub(super) fn bytes_of_step(&self) -> usize {
        let nodes = self.space.spec.nodes.iter().zip(&self.levels);
        let loaded = nodes.filter_map(|(node, level)| {
            let Expr::Load { buffer, .. } = &node.expr else { return None };
            (*level == Level::Element).then_some(*buffer)
        });
        loaded.map(|buffer| self.width * self.buffer_dtype(buffer).size()).sum()
    }

    /// Room for the packs of `n` steps; says whether there are any.
    pub(super) fn declare_ahead(&self, text: &mut Text, n: usize) -> bool {
        for (id, buffer, _) in self.packs() {
            let dtype = memory_type(self.buffer_dtype(buffer));
            text.line(format!("Pack<{dtype}, {}> ahead{id}[{n}];", self.width));
        }
        self.packs().next().is_some()
    }

    /// Loads the packs of step `s`, which is whole.
    pub(super) fn load_ahead(&self, text: &mut Text, coordinates: &[String]) {
        for (id, buffer, access) in self.packs() {
            let at = self.pack_at(access, coordinates);
            text.line(format!("ahead{id}[s] = load<{}>(&b{buffer}[{at}]);", self.width));
        }
    }

    fn load_pack(&self, id: usize, buffer: u16, access: &Access, at: &[String]) -> String {
        let (n, at) = (self.width, self.pack_at(access, at));
        let dtype = memory_type(self.buffer_dtype(buffer));
        let load = match &self.live {
            Some(live) => format!("load_some<{n}>(&b{buffer}[{at}], {live})"),
            None => format!("load<{n}>(&b{buffer}[{at}])"),
        };
        format!("const Pack<{dtype}, {n}> p{id} = {load};")
    }

    fn value(&self, id: usize, at: &[String]) -> String {
        let node = &self.space.spec.nodes[id];
        let name = |o: ExprId| format!("v{}", o.0);
        match &node.expr {
            Expr::Load { .. } if self.turned.contains(&id) => format!("get(turned{id}[x][k])"),
            Expr::Load { buffer, access } => {
                let dtype = self.buffer_dtype(*buffer);
                match self.levels[id] == Level::Element && self.is_pack(dtype, access) {
                    true => format!("get(p{id}.at[u])"),
                    false => format!("get(b{buffer}[{}])", self.space.at(access, at)),
                }
            }
            Expr::Scalar(slot) => expression::scalar(node.dtype, &format!("scalars[{slot}]")),
            Expr::Index(access) if node.dtype == DType::I64 => index(access, at),
            Expr::Index(access) => {
                expression::cast(DType::I64, node.dtype, &format!("({})", index(access, at)))
            }
            Expr::Unary(op, a) => expression::unary(*op, self.dtype(*a), &name(*a)),
            Expr::Binary(op, a, b) => expression::binary(*op, self.dtype(*a), &name(*a), &name(*b)),
            Expr::Select(c, a, b) => format!("{} ? {} : {}", name(*c), name(*a), name(*b)),
            Expr::Cast(a) => expression::cast(self.dtype(*a), node.dtype, &name(*a)),
        }
    }

    /// Room for what a step stores as one.
    pub(super) fn declare_packs(&self, text: &mut Text) {
        for (k, store) in self.kept() {
            let dtype = self.buffer_dtype(store.buffer);
            if self.is_pack(dtype, &store.access) {
                text.line(format!("Pack<{}, {}> q{k};", memory_type(dtype), self.width));
            }
        }
    }

    /// Keeps the values of one element.
    pub(super) fn put(&self, text: &mut Text, coordinates: &[String]) {
        for (k, store) in self.kept() {
            let dtype = self.buffer_dtype(store.buffer);
            let value = self.stored(store);
            let to = match self.is_pack(dtype, &store.access) {
                true => format!("q{k}.at[u]"),
                false => {
                    format!("b{}[{}]", store.buffer, self.space.at(&store.access, coordinates))
                }
            };
            text.line(format!("put({to}, {value});"));
        }
    }

    /// Writes what a step stores as one.
    pub(super) fn store_packs(&self, text: &mut Text, steps: Steps, coordinates: &[String]) {
        for (k, store) in self.kept() {
            if !self.is_pack(self.buffer_dtype(store.buffer), &store.access) {
                continue;
            }
            let to = format!("&b{}[{}]", store.buffer, self.pack_at(&store.access, coordinates));
            text.line(match self.live.as_ref().filter(|_| steps == Steps::One) {
                Some(live) => format!("store_some<{}>({to}, q{k}, {live});", self.width),
                None => format!("store<{}>({to}, q{k});", self.width),
            });
        }
    }

    /// Whether anything is stored in every iteration.
    pub(super) fn keeps(&self) -> bool {
        self.kept().next().is_some()
    }

    /// What is stored in every iteration.
    fn kept(&self) -> impl Iterator<Item = (usize, &Store)> {
        self.space.spec.stores.iter().enumerate().filter(|(_, s)| s.fold.is_none())
    }

    /// A store's value in its buffer's dtype.
    fn stored(&self, store: &Store) -> String {
        let (from, to) = (self.dtype(store.value), self.buffer_dtype(store.buffer));
        expression::cast(from, to, &format!("v{}", store.value.0))
    }

    pub(super) fn parameters(&self) -> Vec<Parameter> {
        let spec = &self.space.spec;
        let parameter = |(k, &dtype): (usize, &DType)| Parameter {
            name: format!("b{k}"),
            dtype,
            is_written: spec.stores.iter().any(|s| usize::from(s.buffer) == k),
        };
        spec.buffers.iter().enumerate().map(parameter).collect()
    }

    /// What the kernel does, in a few lines.
    pub(super) fn about(&self, name: &str) -> Vec<String> {
        let spec = &self.space.spec;
        let loops: Vec<String> = spec
            .loops
            .iter()
            .map(|l| format!("{}{}", l.extent, if l.reduce { " folded" } else { "" }))
            .collect();
        let of = |written: bool| {
            let names = self.parameters().into_iter().filter(|p| p.is_written == written);
            let names: Vec<String> = names.map(|p| format!("{} {}", p.name, p.dtype)).collect();
            names.join(", ")
        };
        let loops = if loops.is_empty() { "one element".into() } else { loops.join(" x ") };
        vec![format!("{name}: {loops}; from {}; to {}", of(false), of(true))]
    }
}

/// Whether `width` elements along a loop lie side by side and aligned.
pub(super) fn packs(access: &Access, dtype: DType, width: usize, inner: Option<usize>) -> bool {
    let unit = aligned(dtype, width);
    let others = |(l, s): (usize, &i64)| Some(l) == inner || s % unit == 0;
    width > 1
        && inner.is_some_and(|l| access.strides[l] == 1)
        && access.offset % unit == 0
        && access.strides.iter().enumerate().all(others)
}

/// Whether all elements lie side by side in the order of the flat index, and steps of it are
/// aligned.
pub(super) fn packs_flat(space: &Space, access: &Access, dtype: DType, width: usize) -> bool {
    let mut step = 1;
    for (l, stride) in space.spec.loops.iter().zip(&access.strides).rev() {
        if *stride != step {
            return false;
        }
        step *= l.extent as i64;
    }
    width > 1 && access.offset % aligned(dtype, width) == 0
}

/// The value of an affine function.
fn index(access: &Access, coordinates: &[String]) -> String {
    let mut out = format!("i64({})", access.offset);
    for (stride, coordinate) in access.strides.iter().zip(coordinates) {
        match stride {
            0 => (),
            1 => out += &format!(" + i64({coordinate})"),
            s => out += &format!(" + i64({coordinate}) * {s}"),
        }
    }
    out
}
