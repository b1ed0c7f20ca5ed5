//! A search along a line for a point that satisfies the strong Wolfe conditions: the loss has
//! fallen enough, and its slope is flat enough (Nocedal and Wright 2006, chapter 3).
//!
//! Guarantees: evaluates at the points, and in the order, of PyTorch's search, and stops after a
//! given number of them, whatever the losses are.

use crate::core::DynTensor;
use crate::error::Result;

/// The share of the expected decrease that is enough.
const ENOUGH: f64 = 1e-4;
/// The share of the first slope that is flat enough.
const FLAT: f64 = 0.9;
/// The length of a bracket that is not worth a further point.
const SHORT: f64 = 1e-9;

/// A point of the line, and what was found there.
#[derive(Clone)]
pub(super) struct Trial {
    /// How far along the direction.
    pub(super) at: f64,
    pub(super) loss: f64,
    /// The derivative of the loss along the direction.
    pub(super) slope: f64,
    pub(super) gradient: DynTensor,
}

/// What computes a point.
type Evaluate<'a> = &'a mut dyn FnMut(f64) -> Result<Trial>;

/// The minimum of the cubic polynomial through two points, within bounds.
fn cubic(a: &Trial, b: &Trial, (low, high): (f64, f64)) -> f64 {
    let d1 = a.slope + b.slope - 3.0 * (a.loss - b.loss) / (a.at - b.at);
    let square = d1 * d1 - a.slope * b.slope;
    // Also where a loss is no number.
    if square.is_nan() || square < 0.0 {
        return f64::midpoint(low, high);
    }
    let (near, far) = if a.at <= b.at { (a, b) } else { (b, a) };
    let d2 = square.sqrt();
    let share = (far.slope + d2 - d1) / (far.slope - near.slope + 2.0 * d2);
    (far.at - (far.at - near.at) * share).max(low).min(high)
}

/// A search, with the conditions that its first point sets.
pub(super) struct Search {
    start: Trial,
    /// The largest element of the direction, absolutely.
    size: f64,
    most: usize,
    /// Points evaluated after the first.
    steps: usize,
}

impl Search {
    /// A search from a point, along a direction whose largest element is `size`, with at most so
    /// many points after the first.
    pub(super) fn new(start: Trial, size: f64, most: usize) -> Search {
        Search { start, size, most, steps: 0 }
    }

    fn is_too_high(&self, trial: &Trial) -> bool {
        trial.loss > self.start.loss + ENOUGH * trial.at * self.start.slope
    }

    fn is_flat(&self, trial: &Trial) -> bool {
        trial.slope.abs() <= -FLAT * self.start.slope
    }

    /// The point found, with `first` tried first, and how many points were evaluated.
    pub(super) fn run(mut self, first: f64, evaluate: Evaluate<'_>) -> Result<(Trial, usize)> {
        let (mut last, mut now) = (self.start.clone(), evaluate(first)?);
        while self.steps < self.most {
            let rises = self.steps > 1 && now.loss >= last.loss;
            if self.is_too_high(&now) || rises {
                return self.zoom([last, now], evaluate);
            }
            if self.is_flat(&now) {
                return Ok((now, self.steps + 1));
            }
            if now.slope >= 0.0 {
                return self.zoom([last, now], evaluate);
            }
            let bounds = (now.at + 0.01 * (now.at - last.at), now.at * 10.0);
            let at = cubic(&last, &now, bounds);
            (last, now) = (now, evaluate(at)?);
            self.steps += 1;
        }
        let bracket = [self.start.clone(), now];
        self.zoom(bracket, evaluate)
    }

    /// Makes a bracket, within which there is a point to find, smaller until one is found.
    fn zoom(mut self, mut bracket: [Trial; 2], evaluate: Evaluate<'_>) -> Result<(Trial, usize)> {
        let lower = |bracket: &[Trial; 2]| usize::from(bracket[0].loss > bracket[1].loss);
        let mut low = lower(&bracket);
        let mut is_stuck = false;
        while self.steps < self.most {
            let ends = bracket[0].at.min(bracket[1].at)..bracket[0].at.max(bracket[1].at);
            if (ends.end - ends.start) * self.size < SHORT {
                break;
            }
            let at = cubic(&bracket[0], &bracket[1], (ends.start, ends.end));
            let at = inside(at, &ends, &mut is_stuck);
            let now = evaluate(at)?;
            self.steps += 1;
            if self.is_too_high(&now) || now.loss >= bracket[low].loss {
                bracket[1 - low] = now;
                low = lower(&bracket);
                continue;
            }
            let is_found = self.is_flat(&now);
            if !is_found && now.slope * (bracket[1 - low].at - bracket[low].at) >= 0.0 {
                bracket[1 - low] = bracket[low].clone();
            }
            bracket[low] = now;
            if is_found {
                break;
            }
        }
        let [first, second] = bracket;
        Ok((if low == 0 { first } else { second }, self.steps + 1))
    }
}

/// A point, moved away from the ends of a bracket if it is one, or was close to one before too.
fn inside(at: f64, ends: &std::ops::Range<f64>, is_stuck: &mut bool) -> f64 {
    let margin = 0.1 * (ends.end - ends.start);
    let (before, behind) = (at - ends.start, ends.end - at);
    let is_close = behind.min(before) < margin;
    let moves = is_close && (*is_stuck || behind <= 0.0 || before <= 0.0);
    *is_stuck = is_close && !moves;
    match moves {
        true if behind.abs() < before.abs() => ends.end - margin,
        true => ends.start + margin,
        false => at,
    }
}
