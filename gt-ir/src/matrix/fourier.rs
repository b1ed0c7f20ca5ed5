//! Discrete Fourier transforms of any length, by `rustfft`, in the type of the data. Processors
//! with other vectors round otherwise in the last bits.
//!
//! Real numbers of an even count are transformed as half as many complex ones (Cooley, Lewis and
//! Welch 1970), which takes about half of the time.

use std::{cell::RefCell, f64::consts::TAU, sync::Arc, thread::LocalKey};

use rustfft::{Fft, FftDirection, FftPlanner, num_complex::Complex, num_traits::Zero as _};

use super::number::Real;

/// Plans that a thread keeps: tables of sines, which take longer to make than a transform.
const MAX_PLANS: usize = 16;

/// A type of the numbers of a matrix.
pub trait Number: Real {
    /// Where a thread keeps its Fourier transforms.
    #[doc(hidden)]
    fn workshop() -> &'static LocalKey<RefCell<Workshop<Self>>>;
}

macro_rules! number {
    ($ty:ty) => {
        impl Number for $ty {
            fn workshop() -> &'static LocalKey<RefCell<Workshop<Self>>> {
                thread_local! {
                    static OWN: RefCell<Workshop<$ty>> = const { RefCell::new(Workshop::new()) };
                }
                &OWN
            }
        }
    };
}

number!(f32);
number!(f64);

/// A transform of a length in a direction.
struct Plan<T> {
    fft: Arc<dyn Fft<T>>,
    /// The turns by which the halves of a real transform of twice the length are joined; none for
    /// complex numbers.
    turns: Arc<[Complex<T>]>,
}

impl<T> Clone for Plan<T> {
    fn clone(&self) -> Plan<T> {
        Plan { fft: Arc::clone(&self.fft), turns: Arc::clone(&self.turns) }
    }
}

/// What a thread keeps from one transform to the next.
pub struct Workshop<T> {
    /// The last used is the last.
    plans: Vec<Plan<T>>,
    /// Numbers on their way.
    numbers: Vec<Complex<T>>,
    /// The memory of a transform.
    room: Vec<Complex<T>>,
}

impl<T> Workshop<T> {
    const fn new() -> Workshop<T> {
        Workshop { plans: Vec::new(), numbers: Vec::new(), room: Vec::new() }
    }
}

impl<T: Real> Workshop<T> {
    fn plan(&mut self, n: usize, direction: FftDirection, is_real: bool) -> Plan<T> {
        let key = (n, direction, !is_real);
        let fits = |plan: &Plan<T>| {
            (plan.fft.len(), plan.fft.fft_direction(), plan.turns.is_empty()) == key
        };
        let plan = match self.plans.iter().position(fits) {
            Some(at) => self.plans.remove(at),
            None => {
                let turns = (0..=n / 2).filter(|_| is_real).map(|k| turn(k, n)).collect();
                Plan { fft: FftPlanner::new().plan_fft(n, direction), turns }
            }
        };
        if self.plans.len() == MAX_PLANS {
            self.plans.remove(0);
        }
        self.plans.push(plan.clone());
        plan
    }

    fn process(&mut self, plan: &Plan<T>) {
        let needed = plan.fft.get_inplace_scratch_len();
        self.room.resize(needed.max(self.room.len()), Complex::zero());
        plan.fft.process_with_scratch(&mut self.numbers, &mut self.room);
    }

    fn of_complex(&mut self, is_forward: bool, x: &[[T; 2]], out: &mut [[T; 2]]) {
        self.numbers.clear();
        self.numbers.extend(x.iter().map(|pair| Complex::new(pair[0], pair[1])));
        let direction = if is_forward { FftDirection::Forward } else { FftDirection::Inverse };
        let plan = self.plan(x.len(), direction, false);
        self.process(&plan);
        out.iter_mut().zip(&self.numbers).for_each(|(pair, number)| *pair = parts(*number));
    }

    /// The transform of real numbers: the even ones of them become the real parts of `numbers`, the
    /// odd ones the imaginary parts. The inverse one is its conjugate.
    fn of_real(&mut self, is_forward: bool, x: &[[T; 2]], out: &mut [[T; 2]]) {
        self.numbers.clear();
        self.numbers.extend(x.chunks_exact(2).map(|two| Complex::new(two[0][0], two[1][0])));
        let half = self.numbers.len();
        let plan = self.plan(half, FftDirection::Forward, true);
        self.process(&plan);
        let sign = T::narrow(if is_forward { 1.0 } else { -1.0 });
        let signed = |number: Complex<T>| [number.re, sign * number.im];
        // Of an infinity, too, these two are real.
        let first = self.numbers[0];
        out[0] = [first.re + first.im, T::zero()];
        out[half] = [first.re - first.im, T::zero()];
        // From both ends of the numbers to their middle. Iterators, because a check of each index
        // would take longer than the sums.
        let (low, high) = out.split_at_mut(half);
        let below = self.numbers[1..].iter().zip(self.numbers[1..].iter().rev());
        let both = below.zip(&plan.turns[1..]).take(half / 2);
        let mut lowest = low[1..].iter_mut();
        for ((a, b), turn) in both {
            let (a, b) = (*a, b.conj());
            let (even, odd) = ((a + b) * T::narrow(0.5), (a - b) * turn);
            // In the middle, both are the same place.
            if let Some(place) = lowest.next_back() {
                *place = signed((even - odd).conj());
            }
            if let Some(place) = lowest.next() {
                *place = signed(even + odd);
            }
        }
        let mirrored = high[1..].iter_mut().rev().zip(&low[1..]);
        mirrored.for_each(|(mirror, number)| *mirror = [number[0], -number[1]]);
    }
}

/// Half a turn backwards by `k / 2n` of a whole one and a quarter, for `k` up to `n / 2`; that by a
/// half is exact.
fn turn<T: Real>(k: usize, n: usize) -> Complex<T> {
    let turn = match 2 * k == n {
        true => Complex::new(0.0, -1.0),
        false => Complex::from_polar(1.0, -TAU * k as f64 / (2 * n) as f64),
    };
    Complex::new(T::narrow(0.5 * turn.im), T::narrow(-0.5 * turn.re))
}

/// The transform of pairs of a real and an imaginary part, not divided by their number.
pub(super) fn transform<T: Number>(is_forward: bool, x: &[T], out: &mut [T]) {
    let (x, out) = (x.as_chunks().0, out.as_chunks_mut().0);
    // One number is its own transform. A product with 1 and 0 would make NaN of an infinity.
    if x.len() < 2 {
        return out.copy_from_slice(x);
    }
    let is_real = |pairs: &[[T; 2]]| pairs.iter().fold(true, |all, [_, imag]| all & imag.is_zero());
    let is_real = x.len().is_multiple_of(2) && x.chunks(64).all(is_real);
    T::workshop().with_borrow_mut(|workshop| match is_real {
        true => workshop.of_real(is_forward, x, out),
        false => workshop.of_complex(is_forward, x, out),
    });
}

fn parts<T>(number: Complex<T>) -> [T; 2] {
    [number.re, number.im]
}
