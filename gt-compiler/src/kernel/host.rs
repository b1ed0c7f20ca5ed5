//! Scalar functions of the host that generated code calls through a table, whose address it gets at
//! run time.

/// The table. Code refers to its entries by position.
#[repr(C)]
pub(super) struct Host {
    exp: extern "C" fn(f64) -> f64,
    exp2: extern "C" fn(f64) -> f64,
    log: extern "C" fn(f64) -> f64,
    sin: extern "C" fn(f64) -> f64,
    cos: extern "C" fn(f64) -> f64,
    tanh: extern "C" fn(f64) -> f64,
    erf: extern "C" fn(f64) -> f64,
    floor: extern "C" fn(f64) -> f64,
    ceil: extern "C" fn(f64) -> f64,
    trunc: extern "C" fn(f64) -> f64,
    round: extern "C" fn(f64) -> f64,
    sin_f32: extern "C" fn(f32) -> f32,
    cos_f32: extern "C" fn(f32) -> f32,
    pow_f32: extern "C" fn(f32, f32) -> f32,
    pow_f64: extern "C" fn(f64, f64) -> f64,
    pow_i64: extern "C" fn(i64, i64) -> i64,
    pow_i32: extern "C" fn(i32, i32) -> i32,
    fmod_f32: extern "C" fn(f32, f32) -> f32,
    fmod_f64: extern "C" fn(f64, f64) -> f64,
    fmod_i64: extern "C" fn(i64, i64) -> i64,
    fmod_i32: extern "C" fn(i32, i32) -> i32,
}

pub(super) static HOST: Host = Host {
    exp,
    exp2,
    log,
    sin,
    cos,
    tanh,
    erf,
    floor,
    ceil,
    trunc,
    round,
    sin_f32,
    cos_f32,
    pow_f32,
    pow_f64,
    pow_i64,
    pow_i32,
    fmod_f32,
    fmod_f64,
    fmod_i64,
    fmod_i32,
};

/// An entry of the table.
#[derive(Clone, Copy, Debug)]
pub(super) enum Function {
    Exp,
    Exp2,
    Log,
    Sin,
    Cos,
    Tanh,
    Erf,
    Floor,
    Ceil,
    Trunc,
    Round,
    SinF32,
    CosF32,
    PowF32,
    PowF64,
    PowI64,
    PowI32,
    FmodF32,
    FmodF64,
    FmodI64,
    FmodI32,
}

impl Function {
    /// Bytes into the table.
    pub(super) fn offset(self) -> i32 {
        (self as usize * size_of::<usize>()) as i32
    }
}

extern "C" fn exp(x: f64) -> f64 {
    x.exp()
}
extern "C" fn exp2(x: f64) -> f64 {
    x.exp2()
}
extern "C" fn log(x: f64) -> f64 {
    x.ln()
}
extern "C" fn sin(x: f64) -> f64 {
    x.sin()
}
extern "C" fn cos(x: f64) -> f64 {
    x.cos()
}
extern "C" fn tanh(x: f64) -> f64 {
    x.tanh()
}
extern "C" fn erf(x: f64) -> f64 {
    libm::erf(x)
}
extern "C" fn floor(x: f64) -> f64 {
    x.floor()
}
extern "C" fn ceil(x: f64) -> f64 {
    x.ceil()
}
extern "C" fn trunc(x: f64) -> f64 {
    x.trunc()
}
extern "C" fn round(x: f64) -> f64 {
    x.round_ties_even()
}
extern "C" fn sin_f32(x: f32) -> f32 {
    x.sin()
}
extern "C" fn cos_f32(x: f32) -> f32 {
    x.cos()
}
extern "C" fn pow_f32(x: f32, y: f32) -> f32 {
    x.powf(y)
}
extern "C" fn pow_f64(x: f64, y: f64) -> f64 {
    x.powf(y)
}

extern "C" fn fmod_f32(x: f32, y: f32) -> f32 {
    x % y
}
extern "C" fn fmod_f64(x: f64, y: f64) -> f64 {
    x % y
}
/// A divisor of 0 leaves x.
extern "C" fn fmod_i64(x: i64, y: i64) -> i64 {
    if y == 0 { x } else { x.wrapping_rem(y) }
}
extern "C" fn fmod_i32(x: i32, y: i32) -> i32 {
    if y == 0 { x } else { x.wrapping_rem(y) }
}

/// Wraps; a negative exponent gives 0 except for the bases 1 and -1.
extern "C" fn pow_i64(x: i64, y: i64) -> i64 {
    if y < 0 {
        return match x {
            1 => 1,
            -1 => 1 - 2 * (y & 1),
            _ => 0,
        };
    }
    let (mut base, mut rest, mut out) = (x, y, 1i64);
    while rest > 0 {
        if rest & 1 == 1 {
            out = out.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        rest >>= 1;
    }
    out
}

extern "C" fn pow_i32(x: i32, y: i32) -> i32 {
    pow_i64(i64::from(x), i64::from(y)) as i32 // wrapping of the low bits is the same in any width
}
