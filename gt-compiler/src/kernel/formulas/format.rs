//! The formats of floats that the formulas are for, and the constants of each.
//!
//! Coefficients come highest power first. Those of `f64` are minimax polynomials (Remez), save sine
//! and cosine, which are fdlibm's. A constant of `f32` is widened here and exact again where it is
//! used.

use crate::kernel::host;

/// A format of floats: its bits, and the constants of the functions.
pub(in crate::kernel) struct Format {
    /// The bits of a float.
    pub(super) bits: u8,
    /// The bits of its fraction.
    pub(super) mantissa: u8,
    /// Its smallest normal number.
    pub(super) tiny: f64,
    /// The bits of the root of one half.
    pub(super) root_half: u64,
    /// `-ln 2` in two steps. Small multiples of the first are exact in `f32`; in `f64` a product
    /// and a sum have one rounding.
    pub(in crate::kernel) minus_ln_2: [f64; 2],
    /// Where powers of e, and powers of 2, are neither 0 nor infinite.
    pub(in crate::kernel) exp_range: [f64; 2],
    pub(super) exp2_range: [f64; 2],
    /// `(e^r - 1 - r) / r^2` for `r` within `ln(2) / 2`.
    pub(super) exp: &'static [f64],
    /// `(2^r - 1) / r` for `r` within a half.
    pub(super) exp2: &'static [f64],
    /// `(ln(1 + f) - f + f^2 / 2) / f^3` for `1 + f` within a root of 2.
    pub(super) log: &'static [f64],
    /// `ln 2`, of which small multiples of the first are exact, and what is left.
    pub(super) ln_2: [f64; 2],
    /// From here on the hyperbolic tangent is 1.
    pub(super) tanh_limit: f64,
    /// Whether a quotient of the hyperbolic tangent needs the rest of the division to be within two
    /// units in the last place.
    pub(super) tanh_rest: bool,
    /// `(erf(x) - x) / x` in powers of `x^2`, up to the border.
    pub(super) erf_near: &'static [f64],
    /// `(ln(1 - erf(t)) + t) / t` from the border to the limit, from which on it is 1.
    pub(super) erf_far: &'static [f64],
    pub(super) erf_border: f64,
    pub(super) erf_limit: f64,
    /// Arguments of sine and cosine up to here keep their precision in the three-step reduction by
    /// multiples of pi/2.
    pub(super) trig_limit: f64,
    /// `-pi/2` in three steps, none of which is positive: no multiple changes the sign of a zero.
    pub(super) minus_half_pi: [f64; 3],
    /// `(sin(r) - r) / r^3` and `cos(r)` in powers of `r^2`, for `r` within pi/4.
    pub(super) sin: &'static [f64],
    pub(super) cos: &'static [f64],
    /// The rest of `2 atanh(t)` after `2t + 2/3 t^3`, by `t^5`, in powers of `t^2`.
    pub(in crate::kernel) power_log: &'static [f64],
    /// As `exp`, for powers.
    pub(in crate::kernel) power_exp: &'static [f64],
    /// `ln 2` and 2/3, each as the sum of two floats.
    pub(in crate::kernel) ln_2_sum: [f64; 2],
    pub(in crate::kernel) two_thirds: [f64; 2],
    /// Quotients up to here are found by `fmod_reduced`: below what rounding by addition takes.
    pub(super) fmod_limit: f64,
    /// The host's sine, cosine and remainder, for what is larger.
    pub(super) host_trig: [host::Function; 2],
    pub(super) host_fmod: host::Function,
}

impl Format {
    /// The bits of 1.
    pub(super) const fn one(&self) -> u64 {
        self.bias() << self.mantissa
    }

    /// The exponent of 1.
    pub(super) const fn bias(&self) -> u64 {
        (1 << (self.bits - self.mantissa - 2)) - 1
    }

    /// The least number from which on floats have no fraction.
    pub(in crate::kernel) const fn whole(&self) -> f64 {
        (1_u64 << self.mantissa) as f64
    }

    /// Its bits.
    pub(super) const fn whole_bits(&self) -> u64 {
        self.one() + ((self.mantissa as u64) << self.mantissa)
    }

    /// Adding it rounds a float below a third of it to an integer, which then stands in the low
    /// bits.
    pub(super) const fn round(&self) -> f64 {
        1.5 * self.whole()
    }

    /// The bit of the sign.
    pub(in crate::kernel) const fn sign(&self) -> u64 {
        1 << (self.bits - 1)
    }
}

const fn wide<const N: usize>(constants: [f32; N]) -> [f64; N] {
    let mut out = [0.0; N];
    let mut i = 0;
    while i < N {
        out[i] = constants[i] as f64;
        i += 1;
    }
    out
}

/// The logarithm is Cephes', and powers are SLEEF's.
pub(in crate::kernel) static F32: Format = Format {
    bits: 32,
    mantissa: 23,
    tiny: f32::MIN_POSITIVE as f64,
    root_half: 0x3f35_04f3,
    minus_ln_2: wide([-0.693_145_75, -1.428_606_8e-6]),
    exp_range: [-104.5, 89.0],
    exp2_range: [-151.0, 129.0],
    exp: &wide([1.985_276_2e-4, 1.393_043_6e-3, 8.333_361e-3, 4.166_648_5e-2, 0.166_666_67, 0.5]),
    exp2: &wide([
        1.526_156_8e-5,
        1.544_960_8e-4,
        1.333_360_2e-3,
        9.618_087e-3,
        5.550_411e-2,
        0.240_226_5,
        std::f32::consts::LN_2,
    ]),
    log: &wide([
        7.037_683_6e-2,
        -0.115_146_1,
        0.116_769_984,
        -0.124_201_41,
        0.142_493_23,
        -0.166_680_58,
        0.200_007_15,
        -0.249_999_94,
        0.333_333_3,
    ]),
    ln_2: wide([0.693_359_4, -2.121_944_4e-4]),
    tanh_limit: 9.5,
    tanh_rest: false,
    erf_near: &wide([
        -5.967_617e-4,
        4.991_194_2e-3,
        -2.676_813_5e-2,
        0.112_819_925,
        -0.376_125_34,
        0.128_379_17,
    ]),
    erf_far: &wide([
        -1.728_534_7e-5,
        3.831_974_6e-4,
        -3.883_965e-3,
        2.425_463e-2,
        -0.106_777_88,
        -0.634_846_7,
        -0.128_717_51,
    ]),
    erf_border: 0.927_734_4_f32 as f64,
    erf_limit: 4.0,
    trig_limit: 70_000.0,
    minus_half_pi: wide([
        f32::from_bits(0xbfc9_0fd8),
        f32::from_bits(0xb4a8_885a),
        f32::from_bits(0xa7c2_34c4),
    ]),
    sin: &wide([2.865_679_6e-6, -1.985_599_2e-4, 8.333_386e-3, -0.166_666_67]),
    cos: &wide([2.446_770_7e-5, -1.388_773e-3, 4.166_665_7e-2, -0.5, 1.0]),
    power_log: &wide([0.240_320_35, 0.285_112_68, 0.400_008]),
    power_exp: &wide([1.363_246_5e-3, 8.365_969e-3, 4.167_108e-2, 0.166_665_52, 0.499_999_85]),
    ln_2_sum: wide([std::f32::consts::LN_2, -1.904_654_3e-9]),
    two_thirds: wide([0.666_666_6, 3.691_838_6e-9]),
    fmod_limit: 4_000_000.0,
    host_trig: [host::Function::SinF32, host::Function::CosF32],
    host_fmod: host::Function::FmodF32,
};

/// `(e^r - 1 - r) / r^2` in `f64`.
const EXP: &[f64] = &[
    2.092_176_168_805_312_4e-9,
    2.510_541_987_019_006e-8,
    2.755_725_240_079_260_3e-7,
    2.755_725_491_165_066_4e-6,
    2.480_158_734_787_150_3e-5,
    0.000_198_412_698_752_067_35,
    0.001_388_888_888_887_417_2,
    0.008_333_333_333_326_025,
    0.041_666_666_666_666_685,
    0.166_666_666_666_666_7,
    0.5,
];

pub(in crate::kernel) static F64: Format = Format {
    bits: 64,
    mantissa: 52,
    tiny: f64::MIN_POSITIVE,
    root_half: 0x3fe6_a09e_667f_3bcd,
    minus_ln_2: [-std::f64::consts::LN_2, -2.319_046_813_846_299_6e-17],
    exp_range: [-746.0, 710.0],
    exp2_range: [-1076.0, 1025.0],
    exp: EXP,
    exp2: &[
        2.573_793_052_157_352_4e-11,
        4.455_838_620_183_288e-10,
        7.054_891_388_308_737e-9,
        1.017_805_697_103_860_3e-7,
        1.321_548_682_349_266_8e-6,
        1.525_273_384_178_408_8e-5,
        0.000_154_035_303_933_545_63,
        0.001_333_355_814_640_629_3,
        0.009_618_129_107_628_487,
        0.055_504_108_664_821_625,
        0.240_226_506_959_100_72,
        std::f64::consts::LN_2,
    ],
    log: &[
        -0.026_472_466_452_348_017,
        0.058_341_757_202_944_79,
        -0.061_401_142_028_230_826,
        0.053_160_673_519_466_684,
        -0.053_529_380_413_965_36,
        0.058_443_283_972_336_21,
        -0.062_679_755_036_643_89,
        0.066_715_197_934_735_29,
        -0.071_419_659_079_182_17,
        0.076_920_017_476_857_16,
        -0.083_333_583_352_275_46,
        0.090_909_198_132_107_04,
        -0.099_999_996_228_947_33,
        0.111_111_109_043_540_95,
        -0.125_000_000_027_022_72,
        0.142_857_142_876_984_34,
        -0.166_666_666_666_593_33,
        0.199_999_999_999_926_74,
        -0.250_000_000_000_000_06,
        0.333_333_333_333_333_37,
    ],
    ln_2: [0.693_147_180_369_123_8, 1.908_214_929_270_587_7e-10],
    tanh_limit: 20.0,
    tanh_rest: true,
    erf_near: &[
        -8.481_851_459_248_223e-10,
        1.404_604_780_775_316_5e-8,
        -1.627_547_618_149_795e-7,
        1.645_521_393_582_678_4e-6,
        -1.492_529_973_950_384_7e-5,
        0.000_120_553_210_421_815_66,
        -0.000_854_832_675_491_880_3,
        0.005_223_977_621_603_195,
        -0.026_866_170_644_806_63,
        0.112_837_916_709_537_04,
        -0.376_126_389_031_837_26,
        0.128_379_167_095_512_6,
    ],
    erf_far: &[
        1.775_117_696_687_222e-12,
        -7.753_157_266_515_53e-11,
        1.586_361_283_201_775_7e-9,
        -2.019_620_255_770_055_7e-8,
        1.790_136_066_776_704e-7,
        -1.168_685_401_722_431_4e-6,
        5.773_751_363_414_042e-6,
        -2.164_102_039_782_906e-5,
        5.939_203_926_615_055_6e-5,
        -0.000_102_356_681_967_615_06,
        1.206_384_738_577_133_7e-5,
        0.000_560_635_691_537_882_9,
        -0.001_678_883_193_707_439,
        0.000_201_856_925_505_347_34,
        0.019_130_490_851_989_777,
        -0.102_772_896_598_542_91,
        -0.636_619_775_223_835,
        -0.128_379_161_964_453_12,
    ],
    erf_border: 0.9,
    erf_limit: 5.95,
    trig_limit: 1e8,
    minus_half_pi: [
        -std::f64::consts::FRAC_PI_2,
        -6.123_233_995_736_765e-17,
        -1.082_856_673_921_914e-32,
    ],
    sin: &[
        1.589_690_995_211_55e-10,
        -2.505_076_025_340_686_3e-8,
        2.755_731_370_707_006_8e-6,
        -1.984_126_982_985_795e-4,
        8.333_333_333_322_49e-3,
        -0.166_666_666_666_666_32,
    ],
    cos: &[
        -1.135_964_755_778_819_5e-11,
        2.087_572_321_298_175e-9,
        -2.755_731_435_139_066_3e-7,
        2.480_158_728_947_673e-5,
        -1.388_888_888_887_411e-3,
        0.041_666_666_666_666_6,
        -0.5,
        1.0,
    ],
    power_log: &[
        0.119_920_110_605_069_7,
        0.116_744_588_569_263_37,
        0.133_363_351_216_351_82,
        0.153_845_564_112_150_67,
        0.181_818_188_770_496_02,
        0.222_222_222_174_816_05,
        0.285_714_285_714_453_4,
        0.399_999_999_999_999_74,
    ],
    power_exp: EXP,
    ln_2_sum: [std::f64::consts::LN_2, 2.319_046_813_846_299_6e-17],
    two_thirds: [0.666_666_666_666_666_6, 3.700_743_415_417_188e-17],
    fmod_limit: 2e15,
    host_trig: [host::Function::Sin, host::Function::Cos],
    host_fmod: host::Function::FmodF64,
};
