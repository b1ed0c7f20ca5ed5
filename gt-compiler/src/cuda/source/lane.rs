//! What one lane of a fold does: it goes through its elements in steps, several of whose loads are
//! under way together.
//!
//! Memory answers late, so what counts is how many bytes are asked for before the first is needed.
//! The loads of a few whole steps therefore stand before everything that is done with them: neither
//! stores nor looks at a limit, behind which a compiler would not move a load, come between. What
//! is left is done a step at a time. The order of folding is that of the steps either way.

use super::{
    body::Steps,
    expression,
    reduce::{Mapping, Reduce, WIDTH, inner},
    text::{Text, register_type},
};
use crate::kernel::Binary;

use gt_ir::DType;

/// Bytes a lane asks for at once.
const AHEAD: usize = 128;
/// Steps taken together, at most.
const MOST: usize = 8;

impl Reduce<'_> {
    /// A lane's elements, folded into `total`.
    pub(super) fn accumulate(&self, text: &mut Text, kept: &[String]) {
        self.folds(|k, op, dtype| {
            let (ty, start) = (register_type(dtype), expression::identity(op, dtype));
            let starts = [start; WIDTH].map(|s| format!("{ty}({s})")).join(", ");
            text.line(format!("{ty} sum{k}[{WIDTH}] = {{{starts}}};"));
        });
        self.steps(text, kept);
        self.folds(|k, op, dtype| {
            let of = |i: usize| format!("sum{k}[{i}]");
            let [low, high] = [0, 1].map(|i| expression::binary(op, dtype, &of(i), &of(i + 2)));
            let (ty, total) = (register_type(dtype), combined(op, dtype, &low, &high));
            text.line(format!("{}{ty} total{k} = {total};", self.constant()));
        });
    }

    fn constant(&self) -> &'static str {
        match self.mapping {
            Mapping::Along { .. } if self.lanes > 1 => "",
            Mapping::Along { .. } | Mapping::Across { .. } => "const ",
        }
    }

    fn steps(&self, text: &mut Text, kept: &[String]) {
        let (index, stride) = (self.space.index(), self.lanes * WIDTH);
        let together = self.together();
        let from = format!("{index} step = lane * {WIDTH}u");
        if together == 1 {
            text.line("#pragma unroll 4");
            text.open(format!("for ({from}; step < limit; step += {stride}u)"));
            self.step(text, kept, "step", Steps::One);
            return text.close();
        }
        let (last, all) = ((together - 1) * stride + WIDTH - 1, together * stride);
        let is_whole = self.space.cut.is_none() && self.space.reduced_len().is_multiple_of(all);
        if is_whole {
            text.open(format!("for ({from}; step < limit; step += {all}u)"));
        } else {
            text.line(format!("{from};"));
            text.open(format!("for (; step + {last}u < limit; step += {all}u)"));
        }
        self.several(text, kept, together);
        text.close();
        if !is_whole {
            text.open(format!("for (; step < limit; step += {stride}u)"));
            self.step(text, kept, "step", Steps::One);
            text.close();
        }
    }

    /// Whole steps whose loads stand before everything else.
    fn together(&self) -> usize {
        // Of a loop that is cut further in, every step is looked at.
        if self.space.cut.is_some_and(|cut| cut.at > 0) {
            return 1;
        }
        let n_steps = self.space.reduced_len() / (self.lanes * WIDTH);
        let most = (AHEAD / self.body.bytes_of_step().max(1)).clamp(1, MOST).min(n_steps).max(1);
        // Fewer at a time if so none is left over.
        let even = (most / 2 + 1..=most).rev().find(|n| n_steps.is_multiple_of(*n));
        even.unwrap_or(most)
    }

    /// Opened by the loop over steps: `n` of them.
    fn several(&self, text: &mut Text, kept: &[String], n: usize) {
        let (index, stride) = (self.space.index(), self.lanes * WIDTH);
        let each = |text: &mut Text| {
            text.line("#pragma unroll");
            text.open(format!("for (u32 s = 0; s < {n}; ++s)"));
            text.line(format!("const {index} own = step + s * {stride}u;"));
        };
        if self.body.declare_ahead(text, n) {
            each(text);
            let at = self.at_step(text, kept, "own");
            self.body.load_ahead(text, &at);
            text.close();
        }
        each(text);
        self.step(text, kept, "own", Steps::Whole);
        text.close();
    }

    /// Declares the coordinates of a step whose elements lie along one loop.
    fn at_step(&self, text: &mut Text, kept: &[String], step: &str) -> Vec<String> {
        let mut at = kept.to_vec();
        if inner(self.space).is_some() {
            self.reduce_coordinates(text, step, &mut at);
        }
        at
    }

    fn step(&self, text: &mut Text, kept: &[String], step: &str, steps: Steps) {
        let (space, body) = (self.space, &self.body);
        let at = self.at_step(text, kept, step);
        if inner(space).is_some() {
            self.skip(text, &at);
            body.step_values(text, steps, &at);
        }
        body.declare_packs(text);
        text.line("#pragma unroll");
        text.open(format!("for (u32 u = 0; u < {WIDTH}; ++u)"));
        if body.live.is_some() && steps == Steps::One {
            text.line(format!("if ({step} + u >= limit) break;"));
        }
        let mut element = at.clone();
        match inner(space) {
            Some(l) => element[l] = format!("({} + u)", at[l]),
            None => {
                self.reduce_coordinates(text, &format!("({step} + u)"), &mut element);
                self.skip(text, &element);
            }
        }
        body.element_values(text, &element);
        self.folds(|k, op, dtype| {
            let store = &space.spec.stores[k];
            let value = format!("v{}", store.value.0);
            let sum = expression::binary(op, dtype, &format!("sum{k}[u]"), &value);
            text.line(format!("sum{k}[u] = {sum};"));
        });
        self.kept(text, |text| body.put(text, &element));
        text.close();
        self.kept(text, |text| body.store_packs(text, steps, &at));
    }

    /// Writes what is stored in every iteration, but for threads beyond the last result: that may
    /// take the place of what they read.
    fn kept(&self, text: &mut Text, write: impl FnOnce(&mut Text)) {
        let rows = match self.mapping {
            Mapping::Along { rows } => rows,
            Mapping::Across { x, .. } => x,
        };
        if self.n_rows.is_multiple_of(rows) || !self.body.keeps() {
            return write(text);
        }
        text.open(format!("if (at < {})", self.space.literal(self.n_rows as i128)));
        write(text);
        text.close();
    }

    /// Declares the coordinates along the reduce loops of the element with the flat index `flat`.
    fn reduce_coordinates(&self, text: &mut Text, flat: &str, at: &mut [String]) {
        let (space, index) = (self.space, self.space.index());
        let mut inner: usize = space.groups.iter().map(|g| g.len).product();
        for (g, group) in space.groups.iter().enumerate() {
            inner /= group.len.max(1);
            let mut own = flat.to_owned();
            if inner > 1 {
                own = format!("{own} / {}", space.literal(inner as i128));
            }
            if g > 0 {
                own = format!("{own} % {}", space.literal(group.len.max(1) as i128));
            }
            if space.cut.is_some_and(|c| c.at == g) {
                own = format!("first + {own}");
            }
            if let [l] = group.loops[..]
                && own == flat
            {
                at[l] = own;
                continue;
            }
            text.line(format!("const {index} r{g} = {own};"));
            let name = format!("r{g}");
            if let [l] = group.loops[..] {
                at[l] = name;
                continue;
            }
            for (&l, coordinate) in group.loops.iter().zip(space.split(&group.loops, &name)) {
                text.line(format!("const {index} r{g}_{l} = {coordinate};"));
                at[l] = format!("r{g}_{l}");
            }
        }
    }

    /// The last piece has fewer elements: where the loop that is cut is not the outermost, each
    /// step is looked at.
    fn skip(&self, text: &mut Text, element: &[String]) {
        let Some(cut) = self.space.cut.filter(|c| c.at > 0) else { return };
        let group = &self.space.groups[cut.at];
        let name = match group.loops[..] {
            [l] => element[l].clone(),
            _ => format!("r{}", cut.at),
        };
        let extent = self.space.literal(group.extent as i128);
        text.line(format!("if ({name} >= {extent}) continue;"));
    }
}

/// An operation on expressions that are operations themselves.
fn combined(op: Binary, dtype: DType, a: &str, b: &str) -> String {
    let is_call = a.ends_with(')') && !a.contains(") ");
    match is_call {
        true => expression::binary(op, dtype, a, b),
        false => expression::binary(op, dtype, &format!("({a})"), &format!("({b})")),
    }
}
