//! Repeated blocks: the layers of a model are decided once. Two values are of one class if they are
//! computed alike, from values that are computed alike, and used alike, as far as a few steps away
//! (the refinement of colors by Weisfeiler and Leman).

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher as _};

use gt_ir::OperandType;
use gt_ir::layout::Layout;

use super::problem::{Problem, Source};

/// How many steps away two values must be alike.
const STEPS: usize = 3;

/// The classes of values.
#[derive(Debug)]
pub(super) struct Classes {
    /// The class of each value.
    pub(super) of: Vec<usize>,
    /// The first value of each class.
    pub(super) first: Vec<usize>,
    /// How many values each class has, or stands for.
    pub(super) sizes: Vec<f64>,
}

impl Classes {
    pub(super) fn new(problem: &Problem, uses: &[Vec<(usize, usize)>]) -> Classes {
        let mut colors: Vec<u64> = (0..problem.values.len()).map(|v| own(problem, v)).collect();
        for _ in 0..STEPS {
            let next = (0..colors.len()).map(|value| around(problem, uses, &colors, value));
            colors = next.collect();
        }
        let mut classes = Classes { of: Vec::new(), first: Vec::new(), sizes: Vec::new() };
        let mut known = HashMap::new();
        for (value, color) in colors.iter().enumerate() {
            let class = *known.entry(color).or_insert(classes.first.len());
            if class == classes.first.len() {
                classes.first.push(value);
                classes.sizes.push(0.0);
            }
            classes.sizes[class] += problem.values[value].times;
            classes.of.push(class);
        }
        classes
    }
}

/// What a value is by itself.
fn own(problem: &Problem, value: usize) -> u64 {
    let mut hasher = DefaultHasher::new();
    let noted = &problem.values[value];
    (noted.ty, noted.kept).hash(&mut hasher);
    match &noted.source {
        Source::Made => 0_u8.hash(&mut hasher),
        Source::Given { layouts, upload } => {
            let layouts: Vec<(&Layout, u64)> =
                layouts.iter().map(|(layout, seconds)| (layout, seconds.to_bits())).collect();
            (1_u8, layouts, upload).hash(&mut hasher);
        }
        Source::Computed(instruction) => {
            // The types decide the ways, unless a signal does: it allows one, or fewer.
            let only = match &instruction.ways[..] {
                [(only, _)] => Some(&only.result),
                _ => None,
            };
            let tensor = |ty: &OperandType| matches!(ty, OperandType::Tensor(_)).then_some(*ty);
            let types: Vec<Option<OperandType>> = instruction.types.iter().map(tensor).collect();
            (2_u8, instruction.op, types, instruction.ways.len(), only).hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// What a value and its neighbors are.
fn around(problem: &Problem, uses: &[Vec<(usize, usize)>], colors: &[u64], value: usize) -> u64 {
    let mut hasher = DefaultHasher::new();
    colors[value].hash(&mut hasher);
    if let Source::Computed(instruction) = &problem.values[value].source {
        for operand in &instruction.operands {
            operand.map(|operand| colors[operand]).hash(&mut hasher);
        }
    }
    let mut users: Vec<(u64, usize)> =
        uses[value].iter().map(|(user, place)| (colors[*user], *place)).collect();
    users.sort_unstable();
    users.hash(&mut hasher);
    hasher.finish()
}
