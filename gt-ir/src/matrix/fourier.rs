//! Discrete Fourier transforms of any length, by `rustfft` with vectors of 128 bits at most, which
//! processors of a platform have alike, so that they give the same bits.
//!
//! Real numbers of an even count are transformed as half as many complex ones (Cooley, Lewis and
//! Welch 1970), which takes about half of the time.

use std::{cell::RefCell, f64::consts::TAU, sync::Arc};

use rustfft::{Fft, FftDirection, FftPlanner, num_complex::Complex};

/// Plans that a thread keeps: tables of sines, which take longer to make than a transform.
const MAX_PLANS: usize = 16;

/// A transform of a length in a direction.
#[derive(Clone)]
struct Plan {
    fft: Arc<dyn Fft<f64>>,
    /// The turns by which the halves of a real transform of twice the length are joined; none for
    /// complex numbers.
    turns: Arc<[Complex<f64>]>,
}

thread_local! {
    /// The last used is the last.
    static PLANS: RefCell<Vec<Plan>> = const { RefCell::new(Vec::new()) };
    /// Numbers on their way, and the memory of a transform.
    static ROOM: RefCell<[Vec<Complex<f64>>; 2]> = const { RefCell::new([Vec::new(), Vec::new()]) };
}

fn plan(n: usize, direction: FftDirection, is_real: bool) -> Plan {
    PLANS.with_borrow_mut(|plans| {
        let key = (n, direction, !is_real);
        let fits =
            |plan: &Plan| (plan.fft.len(), plan.fft.fft_direction(), plan.turns.is_empty()) == key;
        let plan = match plans.iter().position(fits) {
            Some(at) => plans.remove(at),
            None => {
                let turns = (0..=n / 2).filter(|_| is_real).map(|k| turn(k, n)).collect();
                Plan { fft: FftPlanner::new().plan_fft(n, direction), turns }
            }
        };
        if plans.len() == MAX_PLANS {
            plans.remove(0);
        }
        plans.push(plan.clone());
        plan
    })
}

/// A turn backwards by `k / 2n` of a whole one, for `k` up to `n / 2`; a quarter is exact.
fn turn(k: usize, n: usize) -> Complex<f64> {
    match 2 * k == n {
        true => Complex::new(0.0, -1.0),
        false => Complex::from_polar(1.0, -TAU * k as f64 / (2 * n) as f64),
    }
}

/// The transform of pairs of a real and an imaginary part, not divided by their number.
pub(super) fn transform(is_forward: bool, x: &[f64], out: &mut [f64]) {
    let n = x.len() / 2;
    // One number is its own transform. A product with 1 and 0 would make NaN of an infinity.
    if n < 2 {
        return out.copy_from_slice(x);
    }
    let is_real = n.is_multiple_of(2) && x.chunks_exact(2).all(|pair| pair[1] == 0.0);
    ROOM.with_borrow_mut(|[numbers, room]| {
        numbers.clear();
        if is_real {
            numbers.extend(x.chunks_exact(4).map(|two| Complex::new(two[0], two[2])));
            of_real(is_forward, numbers, room, out);
        } else {
            numbers.extend(x.chunks_exact(2).map(|pair| Complex::new(pair[0], pair[1])));
            let direction = if is_forward { FftDirection::Forward } else { FftDirection::Inverse };
            process(&plan(n, direction, false), numbers, room);
            out.chunks_exact_mut(2).zip(numbers).for_each(|(pair, number)| put(pair, *number));
        }
    });
}

fn process(plan: &Plan, numbers: &mut [Complex<f64>], room: &mut Vec<Complex<f64>>) {
    room.resize(plan.fft.get_inplace_scratch_len().max(room.len()), Complex::default());
    plan.fft.process_with_scratch(numbers, room);
}

fn put(pair: &mut [f64], number: Complex<f64>) {
    pair.copy_from_slice(&[number.re, number.im]);
}

/// The transform of real numbers: the even ones of them are the real parts of `numbers`, the odd
/// ones the imaginary parts. The inverse one is its conjugate.
fn of_real(
    is_forward: bool,
    numbers: &mut [Complex<f64>],
    room: &mut Vec<Complex<f64>>,
    out: &mut [f64],
) {
    let half = numbers.len();
    let plan = plan(half, FftDirection::Forward, true);
    process(&plan, numbers, room);
    let signed = |number: Complex<f64>| if is_forward { number } else { number.conj() };
    let n = 2 * half;
    // Of an infinity, too, these two are real.
    let first = numbers[0];
    put(&mut out[..2], Complex::new(first.re + first.im, 0.0));
    put(&mut out[n..n + 2], Complex::new(first.re - first.im, 0.0));
    for k in 1..=half / 2 {
        let (a, b) = (numbers[k], numbers[half - k].conj());
        let (even, odd) = ((a + b) * 0.5, (a - b) * Complex::new(0.0, -0.5) * plan.turns[k]);
        let (low, high) = (even + odd, (even - odd).conj());
        put(&mut out[2 * k..2 * k + 2], signed(low));
        put(&mut out[2 * (half - k)..2 * (half - k) + 2], signed(high));
        put(&mut out[2 * (n - k)..2 * (n - k) + 2], signed(low.conj()));
        put(&mut out[2 * (half + k)..2 * (half + k) + 2], signed(high.conj()));
    }
}
