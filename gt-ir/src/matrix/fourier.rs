//! Discrete Fourier transforms of any length, by `rustfft` with vectors of 128 bits at most,
//! which processors of a platform have alike, so that they give the same bits.

use std::{cell::RefCell, sync::Arc};

use rustfft::{Fft, FftDirection, FftPlanner, num_complex::Complex};

/// Plans that a thread keeps: tables of sines, which take longer to make than a transform.
const MAX_PLANS: usize = 16;

thread_local! {
    /// The last used is the last.
    static PLANS: RefCell<Vec<Arc<dyn Fft<f64>>>> = const { RefCell::new(Vec::new()) };
}

fn plan(n: usize, direction: FftDirection) -> Arc<dyn Fft<f64>> {
    PLANS.with_borrow_mut(|plans| {
        let fits = |plan: &Arc<dyn Fft<f64>>| (plan.len(), plan.fft_direction()) == (n, direction);
        let plan = match plans.iter().position(fits) {
            Some(at) => plans.remove(at),
            None => FftPlanner::new().plan_fft(n, direction),
        };
        if plans.len() == MAX_PLANS {
            plans.remove(0);
        }
        plans.push(plan.clone());
        plan
    })
}

/// The transform of pairs of a real and an imaginary part, not divided by their number.
pub(super) fn transform(is_forward: bool, x: &[f64], out: &mut [f64]) {
    let mut numbers: Vec<Complex<f64>> =
        x.chunks_exact(2).map(|pair| Complex::new(pair[0], pair[1])).collect();
    // One number is its own transform. A product with 1 and 0 would make NaN of an infinity.
    if numbers.len() < 2 {
        return out.copy_from_slice(x);
    }
    let direction = if is_forward { FftDirection::Forward } else { FftDirection::Inverse };
    plan(numbers.len(), direction).process(&mut numbers);
    for (pair, number) in out.chunks_exact_mut(2).zip(&numbers) {
        pair.copy_from_slice(&[number.re, number.im]);
    }
}
