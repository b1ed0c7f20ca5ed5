//! Which curves share an axis.

use super::Row;

/// How many times as large the values of a curve may be as those of another one in its panel.
const RATIO: f64 = 20.0;

/// Curves on one axis, by their numbers.
#[derive(Debug, PartialEq)]
pub(super) struct Panel {
    pub(super) curves: Vec<usize>,
    pub(super) low: f64,
    pub(super) high: f64,
    is_rate: bool,
}

/// The panels of curves. A curve shares the first panel whose largest value is not much larger or
/// smaller than its own: a learning rate of 1e-3 beside a loss of 2 would be a flat line. Learning
/// rates are in panels of their own in any case, since their values mean something else.
pub(super) fn panels(curves: &[String], rows: &[Row]) -> Vec<Panel> {
    let mut panels: Vec<Panel> = Vec::new();
    for (curve, name) in curves.iter().enumerate() {
        let Some((low, high)) = bounds(rows, curve) else { continue };
        let size = |low: f64, high: f64| low.abs().max(high.abs());
        let (own, is_rate) = (size(low, high), is_rate(name));
        let is_like = |panel: &&mut Panel| {
            let other = size(panel.low, panel.high);
            let near = own == 0.0 || own <= RATIO * other && other <= RATIO * own;
            near && panel.is_rate == is_rate
        };
        match panels.iter_mut().find(is_like) {
            Some(panel) => {
                panel.curves.push(curve);
                (panel.low, panel.high) = (panel.low.min(low), panel.high.max(high));
            }
            None => panels.push(Panel { curves: vec![curve], low, high, is_rate }),
        }
    }
    panels
}

/// The smallest and largest finite value of a curve.
fn bounds(rows: &[Row], curve: usize) -> Option<(f64, f64)> {
    let all = rows.iter().filter_map(|row| row.get(curve + 1)).copied().filter(|v| v.is_finite());
    all.fold(None, |bounds, v| {
        let (low, high) = bounds.unwrap_or((v, v));
        Some((v.min(low), v.max(high)))
    })
}

/// Whether a curve is a learning rate, by the words of its name.
fn is_rate(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| matches!(word, "lr" | "rate"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shared(curves: &[(&str, f64)]) -> Vec<Vec<usize>> {
        let names: Vec<String> = curves.iter().map(|(name, _)| (*name).to_owned()).collect();
        let row: Row = [0.0].into_iter().chain(curves.iter().map(|(_, value)| *value)).collect();
        panels(&names, &[row]).into_iter().map(|panel| panel.curves).collect()
    }

    #[test]
    fn rates_and_values_of_another_size_have_axes_of_their_own() {
        let curves = [("loss", 0.5), ("lr", 0.5), ("validation", 0.6), ("opt/LR", 0.1)];
        assert_eq!(shared(&curves), [[0, 2], [1, 3]]);
        assert_eq!(shared(&[("loss", 0.5), ("learning rate", 0.4)]), [[0], [1]]);
        assert_eq!(shared(&[("loss", 2.0), ("norm", 90.0), ("train", 3.0)]), [vec![0, 2], vec![1]]);
        assert_eq!(shared(&[("loss", f64::NAN), ("zero", 0.0), ("celery", 1.0)]), [[1], [2]]);
    }
}
