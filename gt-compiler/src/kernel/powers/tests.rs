//! Powers of `f32` beside those of `f64`, and powers of `f64` beside the platform's, by
//! implementations of [`Formulas`] that compute one lane.

use gt_ir::testing::Source;

use super::*;
use crate::kernel::{
    formulas::{F32, F64, Format},
    host,
};

/// A lane of each format; registers hold bits.
macro_rules! lane {
    ($lane:ident, $float:ident, $bits:ident, $format:ident) => {
        struct $lane;

        impl Formulas for $lane {
            type V = $bits;
            type M = bool;

            const FORMAT: &'static Format = &$format;

            fn float(&mut self, v: f64) -> $bits {
                (v as $float).to_bits()
            }
            fn word(&mut self, bits: u64) -> $bits {
                bits as $bits
            }
            fn fadd(&mut self, a: $bits, b: $bits) -> $bits {
                ($float::from_bits(a) + $float::from_bits(b)).to_bits()
            }
            fn fsub(&mut self, a: $bits, b: $bits) -> $bits {
                ($float::from_bits(a) - $float::from_bits(b)).to_bits()
            }
            fn fmul(&mut self, a: $bits, b: $bits) -> $bits {
                ($float::from_bits(a) * $float::from_bits(b)).to_bits()
            }
            fn fdiv(&mut self, a: $bits, b: $bits) -> $bits {
                ($float::from_bits(a) / $float::from_bits(b)).to_bits()
            }
            fn fabs(&mut self, v: $bits) -> $bits {
                $float::from_bits(v).abs().to_bits()
            }
            fn fma(&mut self, a: $bits, b: $bits, c: $bits) -> $bits {
                let [a, b, c] = [a, b, c].map($float::from_bits);
                a.mul_add(b, c).to_bits()
            }
            fn iadd(&mut self, a: $bits, b: $bits) -> $bits {
                a.wrapping_add(b)
            }
            fn isub(&mut self, a: $bits, b: $bits) -> $bits {
                a.wrapping_sub(b)
            }
            fn and(&mut self, a: $bits, b: $bits) -> $bits {
                a & b
            }
            fn or(&mut self, a: $bits, b: $bits) -> $bits {
                a | b
            }
            fn xor(&mut self, a: $bits, b: $bits) -> $bits {
                a ^ b
            }
            fn shl(&mut self, v: $bits, n: u8) -> $bits {
                v << n
            }
            fn shr(&mut self, v: $bits, n: u8) -> $bits {
                v >> n
            }
            fn fcmp(&mut self, how: Compare, a: $bits, b: $bits) -> bool {
                let (a, b) = ($float::from_bits(a), $float::from_bits(b));
                match how {
                    Compare::Equal => a == b,
                    Compare::LessThan => a < b,
                    Compare::GreaterThan => a > b,
                    Compare::GreaterThanOrEqual => a >= b,
                    Compare::Unordered => a.is_nan() || b.is_nan(),
                }
            }
            fn icmp_ne(&mut self, a: $bits, b: $bits) -> bool {
                a != b
            }
            fn select(&mut self, m: bool, a: $bits, b: $bits) -> $bits {
                if m { a } else { b }
            }
            fn as_int(&mut self, v: $bits) -> $bits {
                v
            }
            fn as_float(&mut self, v: $bits) -> $bits {
                v
            }
            fn unless<const N: usize>(
                &mut self,
                _: $bits,
                _: f64,
                fast: $bits,
                _: (host::Function, [$bits; N]),
            ) -> $bits {
                fast
            }
        }
    };
}

lane!(Lane, f32, u32, F32);
lane!(WideLane, f64, u64, F64);

fn float(bits: u32) -> f32 {
    f32::from_bits(bits)
}

fn pow(x: f32, y: f32) -> f32 {
    float(Lane.pow(x.to_bits(), y.to_bits()))
}

fn wide_pow(x: f64, y: f64) -> f64 {
    f64::from_bits(WideLane.pow(x.to_bits(), y.to_bits()))
}

/// The distance from `x^y` in units of the last place of the result.
fn units(x: f32, y: f32) -> f64 {
    let (got, exact) = (pow(x, y), f64::from(x).powf(f64::from(y)));
    let nearest = exact as f32;
    if got == nearest || got.is_nan() && nearest.is_nan() {
        return 0.0;
    }
    let size = nearest.abs().min(f32::MAX);
    let unit = f64::from(float(size.to_bits() + 1).min(f32::MAX)) - f64::from(size);
    let unit = unit.max(f64::from(size) - f64::from(float(size.to_bits().max(1) - 1)));
    (f64::from(got.clamp(-f32::MAX, f32::MAX)) - exact).abs() / unit
}

#[test]
fn powers_are_within_a_unit() {
    let mut s = Source::from_seed(7);
    let mut worst = (0.0, 0.0, 0.0);
    for i in 0..600_000 {
        let bits = |s: &mut Source<'_>| float(s.bits() as u32);
        let around = |s: &mut Source<'_>, size: f32| {
            (s.below(1 << 24) as f32 / (1 << 23) as f32 - 1.0) * size
        };
        let (x, y) = match i % 4 {
            0 => (bits(&mut s), bits(&mut s)),
            1 => (bits(&mut s), around(&mut s, 8.0)),
            2 => (1.0 + around(&mut s, 0.3), around(&mut s, 400.0)),
            _ => (around(&mut s, 30.0).abs(), around(&mut s, 30.0)),
        };
        let found = units(x, y);
        if found > worst.0 {
            worst = (found, x, y);
        }
    }
    assert!(worst.0 <= 1.0, "{} units: {}^{}", worst.0, worst.1, worst.2);
}

/// Whether two floats are neighbors, the same or both NaN.
fn are_next(a: f64, b: f64) -> bool {
    a.to_bits().abs_diff(b.to_bits()) <= 1 || a.is_nan() && b.is_nan()
}

#[test]
fn powers_of_doubles_are_those_of_the_platform_or_next_to_them() {
    let mut s = Source::from_seed(8);
    for i in 0..600_000 {
        let around = |s: &mut Source<'_>, size: f64| {
            (s.below(1 << 40) as f64 / (1_u64 << 39) as f64 - 1.0) * size
        };
        let (x, y) = match i % 4 {
            0 => (f64::from_bits(s.bits()), f64::from_bits(s.bits())),
            1 => (f64::from_bits(s.bits()), around(&mut s, 3.0)),
            2 => (1.0 + around(&mut s, 0.3), around(&mut s, 3000.0)),
            _ => (around(&mut s, 30.0).abs(), around(&mut s, 200.0)),
        };
        let (got, wanted) = (wide_pow(x, y), x.powf(y));
        assert!(are_next(got, wanted), "{x:e}^{y:e} is {got:e}, not {wanted:e}");
    }
}

#[test]
fn exact_powers_are_exact() {
    for base in -200i64..=200 {
        for exponent in 0..25 {
            let Some(exact) = base.checked_pow(exponent).filter(|v| v.abs() <= 1 << 24) else {
                break;
            };
            assert_eq!(pow(base as f32, exponent as f32), exact as f32, "{base}^{exponent}");
        }
        for exponent in 0..53 {
            let Some(exact) = base.checked_pow(exponent).filter(|v| v.abs() <= 1 << 53) else {
                break;
            };
            assert_eq!(
                wide_pow(base as f64, f64::from(exponent)),
                exact as f64,
                "{base}^{exponent}"
            );
        }
        assert_eq!(wide_pow((base * base) as f64, 0.5), base.abs() as f64);
        let square = (base * base) as f32;
        assert_eq!(pow(square, 0.5), base.abs() as f32);
        assert_eq!(pow(base as f32, -1.0), 1.0 / base as f32);
    }
    (-149..=127).for_each(|n| assert_eq!(pow(2.0, n as f32), (n as f32).exp2(), "2^{n}"));
    (-1074..=1023).for_each(|n| assert_eq!(wide_pow(2.0, f64::from(n)), f64::from(n).exp2()));
}

#[test]
fn the_ends_are_those_of_c() {
    let sizes = [0.0, 1e-45, 1e-38, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 8_388_607.0, 16_777_215.0];
    let large = [16_777_216.0, 3e38, f32::INFINITY, f32::NAN];
    let all: Vec<f32> = sizes.iter().chain(&large).flat_map(|v| [*v, -v]).collect();
    for &x in &all {
        for &y in &all {
            let (got, wanted) = (pow(x, y), x.powf(y));
            let same = got.to_bits() == wanted.to_bits()
                || got.is_nan() && wanted.is_nan()
                || got.is_finite() && got.signum() == wanted.signum() && units(x, y) <= 1.0;
            assert!(same, "{x}^{y} is {got}, not {wanted}");
        }
    }
    let sizes = [5e-324, 1e-308, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4_503_599_627_370_497.0, 1e300];
    let large = [9_007_199_254_740_991.0, 9_007_199_254_740_992.0, f64::INFINITY, f64::NAN, 0.0];
    let all: Vec<f64> = sizes.iter().chain(&large).flat_map(|v| [*v, -v]).collect();
    for (&x, &y) in all.iter().flat_map(|x| all.iter().map(move |y| (x, y))) {
        let (got, wanted) = (wide_pow(x, y), x.powf(y));
        assert!(are_next(got, wanted), "{x}^{y} is {got}, not {wanted}");
    }
}
