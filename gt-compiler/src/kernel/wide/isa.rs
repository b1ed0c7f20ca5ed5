//! The instructions of the generator, one row each: the name and the encoding.
//!
//! The encoder knows no others, but for jumps, returns and what stands on the stack. A test decodes
//! every row, with every kind of operand it is given, by another decoder.

/// An EVEX instruction without its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Evex {
    pub(super) name: &'static str,
    /// 1: `0F`, 2: `0F38`, 3: `0F3A`.
    pub(super) map: u8,
    /// 0: none, 1: `66`, 2: `F3`, 3: `F2`.
    pub(super) prefix: u8,
    pub(super) opcode: u8,
    /// Whether lanes have eight bytes.
    pub(super) wide: bool,
    /// The number in place of the first register where the opcode is shared, else 0.
    pub(super) digit: u8,
}

/// A VEX instruction on masks and general registers, without its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Vex {
    pub(super) name: &'static str,
    pub(super) map: u8,
    pub(super) prefix: u8,
    pub(super) opcode: u8,
    pub(super) wide: bool,
    /// The bit that says 256-bit vectors, and three operands of masks.
    pub(super) long: bool,
}

/// An instruction on 64-bit general registers, or on scalars in vectors, without its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct General {
    pub(super) name: &'static str,
    /// The bytes before everything else.
    pub(super) prefix: &'static [u8],
    pub(super) opcode: &'static [u8],
    /// The number in place of the register where the opcode is shared.
    pub(super) digit: Option<u8>,
}

macro_rules! bit {
    (W0) => {
        false
    };
    (W1) => {
        true
    };
    (L0) => {
        false
    };
    (L1) => {
        true
    };
}

macro_rules! evex {
    ($($instruction:ident = $name:literal $map:literal $prefix:literal $opcode:literal $wide:ident
        $digit:literal;)*) => {
        $(pub(super) const $instruction: Evex = Evex {
            name: $name,
            map: $map,
            prefix: $prefix,
            opcode: $opcode,
            wide: bit!($wide),
            digit: $digit,
        };)*
        #[cfg(test)]
        pub(super) const ALL_EVEX: &[Evex] = &[$($instruction),*];
    };
}

macro_rules! vex {
    ($($instruction:ident = $name:literal $map:literal $prefix:literal $opcode:literal $wide:ident
        $long:ident;)*) => {
        $(pub(super) const $instruction: Vex = Vex {
            name: $name,
            map: $map,
            prefix: $prefix,
            opcode: $opcode,
            wide: bit!($wide),
            long: bit!($long),
        };)*
        #[cfg(test)]
        pub(super) const ALL_VEX: &[Vex] = &[$($instruction),*];
    };
}

macro_rules! general {
    ($($instruction:ident = $name:literal $prefix:tt $opcode:tt $digit:expr;)*) => {
        $(pub(super) const $instruction: General =
            General { name: $name, prefix: &$prefix, opcode: &$opcode, digit: $digit };)*
        #[cfg(test)]
        pub(super) const ALL_GENERAL: &[General] = &[$($instruction),*];
    };
}

evex! {
    VADDPS       = "vaddps"       1 0 0x58 W0 0;
    VSUBPS       = "vsubps"       1 0 0x5c W0 0;
    VMULPS       = "vmulps"       1 0 0x59 W0 0;
    VDIVPS       = "vdivps"       1 0 0x5e W0 0;
    VMINPS       = "vminps"       1 0 0x5d W0 0;
    VMAXPS       = "vmaxps"       1 0 0x5f W0 0;
    VSCALEFPS    = "vscalefps"    2 1 0x2c W0 0;
    VRANGEPS     = "vrangeps"     3 1 0x50 W0 0;
    VSQRTPS      = "vsqrtps"      1 0 0x51 W0 0;
    VCMPPS       = "vcmpps"       1 0 0xc2 W0 0;
    VFMADD213PS  = "vfmadd213ps"  2 1 0xa8 W0 0;
    VFMADD231PS  = "vfmadd231ps"  2 1 0xb8 W0 0;

    VADDPD       = "vaddpd"       1 1 0x58 W1 0;
    VSUBPD       = "vsubpd"       1 1 0x5c W1 0;
    VMULPD       = "vmulpd"       1 1 0x59 W1 0;
    VDIVPD       = "vdivpd"       1 1 0x5e W1 0;
    VRANGEPD     = "vrangepd"     3 1 0x50 W1 0;
    VSQRTPD      = "vsqrtpd"      1 1 0x51 W1 0;
    VCMPPD       = "vcmppd"       1 1 0xc2 W1 0;

    VPADDD       = "vpaddd"       1 1 0xfe W0 0;
    VPSUBD       = "vpsubd"       1 1 0xfa W0 0;
    VPMULLD      = "vpmulld"      2 1 0x40 W0 0;
    VPMAXSD      = "vpmaxsd"      2 1 0x3d W0 0;
    VPMINSD      = "vpminsd"      2 1 0x39 W0 0;
    VPABSD       = "vpabsd"       2 1 0x1e W0 0;
    VPANDD       = "vpandd"       1 1 0xdb W0 0;
    VPORD        = "vpord"        1 1 0xeb W0 0;
    VPXORD       = "vpxord"       1 1 0xef W0 0;
    VPTERNLOGD   = "vpternlogd"   3 1 0x25 W0 0;
    VPTESTMD     = "vptestmd"     2 1 0x27 W0 0;
    VPCMPD       = "vpcmpd"       3 1 0x1f W0 0;

    VPADDQ       = "vpaddq"       1 1 0xd4 W1 0;
    VPSUBQ       = "vpsubq"       1 1 0xfb W1 0;
    VPMULLQ      = "vpmullq"      2 1 0x40 W1 0;
    VPMAXSQ      = "vpmaxsq"      2 1 0x3d W1 0;
    VPMINSQ      = "vpminsq"      2 1 0x39 W1 0;
    VPABSQ       = "vpabsq"       2 1 0x1f W1 0;
    VPANDQ       = "vpandq"       1 1 0xdb W1 0;
    VPXORQ       = "vpxorq"       1 1 0xef W1 0;
    VPTESTMQ     = "vptestmq"     2 1 0x27 W1 0;
    VPCMPQ       = "vpcmpq"       3 1 0x1f W1 0;

    VPSRLD       = "vpsrld"       1 1 0x72 W0 2;
    VPSRAD       = "vpsrad"       1 1 0x72 W0 4;
    VPSLLD       = "vpslld"       1 1 0x72 W0 6;

    VCVTDQ2PS    = "vcvtdq2ps"    1 0 0x5b W0 0;
    VCVTTPS2DQ   = "vcvttps2dq"   1 2 0x5b W0 0;
    VCVTPS2PD    = "vcvtps2pd"    1 0 0x5a W0 0;
    VCVTPD2PS    = "vcvtpd2ps"    1 1 0x5a W1 0;
    VCVTDQ2PD    = "vcvtdq2pd"    1 2 0xe6 W0 0;
    VCVTTPD2DQ   = "vcvttpd2dq"   1 1 0xe6 W1 0;
    VCVTQQ2PD    = "vcvtqq2pd"    1 2 0xe6 W1 0;
    VCVTTPD2QQ   = "vcvttpd2qq"   1 1 0x7a W1 0;
    VCVTQQ2PS    = "vcvtqq2ps"    1 0 0x5b W1 0;
    VCVTPS2PH    = "vcvtps2ph"    3 1 0x1d W0 0;
    VCVTPH2PS    = "vcvtph2ps"    2 1 0x13 W0 0;
    VPMOVQD      = "vpmovqd"      2 2 0x35 W0 0;
    VPMOVSXDQ    = "vpmovsxdq"    2 1 0x25 W0 0;

    VMOVAPS      = "vmovaps"      1 0 0x28 W0 0;
    VMOVAPD      = "vmovapd"      1 1 0x28 W1 0;
    VPBLENDMD    = "vpblendmd"    2 1 0x64 W0 0;
    VPBLENDMQ    = "vpblendmq"    2 1 0x64 W1 0;
    VPSHUFD      = "vpshufd"      1 1 0x70 W0 0;
    VSHUFF32X4   = "vshuff32x4"   3 1 0x23 W0 0;
    VINSERTF64X4 = "vinsertf64x4" 3 1 0x1a W1 0;

    VBROADCASTSS = "vbroadcastss" 2 1 0x18 W0 0;
    VBROADCASTSD = "vbroadcastsd" 2 1 0x19 W1 0;
    VPBROADCASTD = "vpbroadcastd" 2 1 0x7c W0 0;
    VPBROADCASTQ = "vpbroadcastq" 2 1 0x7c W1 0;

    LOAD_PS      = "vmovups"      1 0 0x10 W0 0;
    STORE_PS     = "vmovups"      1 0 0x11 W0 0;
    LOAD_PD      = "vmovupd"      1 1 0x10 W1 0;
    STORE_PD     = "vmovupd"      1 1 0x11 W1 0;
    VPMOVZXBD    = "vpmovzxbd"    2 1 0x31 W0 0;
    VPMOVZXWD    = "vpmovzxwd"    2 1 0x33 W0 0;
    VPMOVDB      = "vpmovdb"      2 2 0x31 W0 0;
    VPMOVDW      = "vpmovdw"      2 2 0x33 W0 0;

    VGATHERDPS   = "vgatherdps"   2 1 0x92 W0 0;
    VGATHERDPD   = "vgatherdpd"   2 1 0x92 W1 0;
    VSCATTERDPS  = "vscatterdps"  2 1 0xa2 W0 0;
    VSCATTERDPD  = "vscatterdpd"  2 1 0xa2 W1 0;
}

vex! {
    KMOVW_LOAD  = "kmovw"     1 0 0x90 W0 L0;
    KMOVW_STORE = "kmovw"     1 0 0x91 W0 L0;
    KMOVW_FROM  = "kmovw"     1 0 0x92 W0 L0;
    KMOVW_TO    = "kmovw"     1 0 0x93 W0 L0;
    KNOTW       = "knotw"     1 0 0x44 W0 L0;
    KANDW       = "kandw"     1 0 0x41 W0 L1;
    KANDNW      = "kandnw"    1 0 0x42 W0 L1;
    KORW        = "korw"      1 0 0x45 W0 L1;
    KXNORW      = "kxnorw"    1 0 0x46 W0 L1;
    KXORW       = "kxorw"     1 0 0x47 W0 L1;
    KUNPCKBW    = "kunpckbw"  1 1 0x4b W0 L1;
    KSHIFTRW    = "kshiftrw"  3 1 0x30 W1 L0;
    KORTESTW    = "kortestw"  1 0 0x98 W0 L0;
    BZHI        = "bzhi"      2 0 0xf5 W0 L0;
}

general! {
    MOV_LOAD    = "mov"    [] [0x8b] None;
    MOV_STORE   = "mov"    [] [0x89] None;
    MOV_CONST   = "mov"    [] [0xc7] Some(0);
    MOVZX8      = "movzx"  [] [0x0f, 0xb6] None;
    MOVZX16     = "movzx"  [] [0x0f, 0xb7] None;
    LEA         = "lea"    [] [0x8d] None;
    IMUL        = "imul"   [] [0x69] None;
    SUB         = "sub"    [] [0x2b] None;
    SUB_CONST   = "sub"    [] [0x81] Some(5);
    AND_CONST   = "and"    [] [0x81] Some(4);
    AND_BYTE    = "and"    [] [0x83] Some(4);
    CMP         = "cmp"    [] [0x3b] None;
    CMP_BYTE    = "cmp"    [] [0x83] Some(7);
    BT          = "bt"     [] [0x0f, 0xa3] None;
    CALL        = "call"   [] [0xff] Some(2);
    MOVSS       = "movss"  [0xf3] [0x0f, 0x10] None;
    MOVSD       = "movsd"  [0xf2] [0x0f, 0x10] None;
    MOVSS_STORE = "movss"  [0xf3] [0x0f, 0x11] None;
    MOVSD_STORE = "movsd"  [0xf2] [0x0f, 0x11] None;
}
