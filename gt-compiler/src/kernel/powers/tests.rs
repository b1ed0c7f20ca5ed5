//! Powers beside those of `f64`, by an implementation of [`Formulas`] that computes one lane.

use gt_ir::testing::Source;

use super::*;

/// One lane; registers hold bits.
struct Lane;

fn float(bits: u32) -> f32 {
    f32::from_bits(bits)
}

impl Formulas for Lane {
    type V = u32;
    type M = bool;

    fn f32(&mut self, v: f32) -> u32 {
        v.to_bits()
    }
    fn i32(&mut self, v: i32) -> u32 {
        v as u32
    }
    fn fadd(&mut self, a: u32, b: u32) -> u32 {
        (float(a) + float(b)).to_bits()
    }
    fn fsub(&mut self, a: u32, b: u32) -> u32 {
        (float(a) - float(b)).to_bits()
    }
    fn fmul(&mut self, a: u32, b: u32) -> u32 {
        (float(a) * float(b)).to_bits()
    }
    fn fdiv(&mut self, a: u32, b: u32) -> u32 {
        (float(a) / float(b)).to_bits()
    }
    fn fabs(&mut self, v: u32) -> u32 {
        float(v).abs().to_bits()
    }
    fn fma(&mut self, a: u32, b: u32, c: u32) -> u32 {
        float(a).mul_add(float(b), float(c)).to_bits()
    }
    fn iadd(&mut self, a: u32, b: u32) -> u32 {
        a.wrapping_add(b)
    }
    fn isub(&mut self, a: u32, b: u32) -> u32 {
        a.wrapping_sub(b)
    }
    fn and(&mut self, a: u32, b: u32) -> u32 {
        a & b
    }
    fn or(&mut self, a: u32, b: u32) -> u32 {
        a | b
    }
    fn xor(&mut self, a: u32, b: u32) -> u32 {
        a ^ b
    }
    fn shl(&mut self, v: u32, n: u8) -> u32 {
        v << n
    }
    fn shr(&mut self, v: u32, n: u8) -> u32 {
        v >> n
    }
    fn sar(&mut self, v: u32, n: u8) -> u32 {
        ((v as i32) >> n) as u32
    }
    fn fcmp(&mut self, how: Compare, a: u32, b: u32) -> bool {
        let (a, b) = (float(a), float(b));
        match how {
            Compare::Equal => a == b,
            Compare::LessThan => a < b,
            Compare::GreaterThan => a > b,
            Compare::GreaterThanOrEqual => a >= b,
            Compare::Unordered => a.is_nan() || b.is_nan(),
        }
    }
    fn icmp_ne(&mut self, a: u32, b: u32) -> bool {
        a != b
    }
    fn select(&mut self, m: bool, a: u32, b: u32) -> u32 {
        if m { a } else { b }
    }
    fn to_float(&mut self, v: u32) -> u32 {
        (v as i32 as f32).to_bits()
    }
    fn as_int(&mut self, v: u32) -> u32 {
        v
    }
    fn as_f32(&mut self, v: u32) -> u32 {
        v
    }
}

fn pow(x: f32, y: f32) -> f32 {
    float(Lane.pow(x.to_bits(), y.to_bits()))
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

#[test]
fn exact_powers_are_exact() {
    for base in -200i64..=200 {
        for exponent in 0..25 {
            let Some(exact) = base.checked_pow(exponent).filter(|v| v.abs() <= 1 << 24) else {
                break;
            };
            assert_eq!(pow(base as f32, exponent as f32), exact as f32, "{base}^{exponent}");
        }
        let square = (base * base) as f32;
        assert_eq!(pow(square, 0.5), base.abs() as f32);
        assert_eq!(pow(base as f32, -1.0), 1.0 / base as f32);
    }
    (-149..=127).for_each(|n| assert_eq!(pow(2.0, n as f32), (n as f32).exp2(), "2^{n}"));
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
}
