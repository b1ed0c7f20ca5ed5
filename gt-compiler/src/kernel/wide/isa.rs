//! The instructions of the generator, one row each: the name and the encoding.
//!
//! The encoder knows no others, but for jumps, returns and what stands on the stack. A test decodes
//! every row, with every kind of operand it is given, by another decoder.

/// The vectors that code is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vectors {
    /// 256 bits: AVX2. A mask is a vector of lanes without bits or with all of them.
    Ymm,
    /// 512 bits: AVX-512. Masks have registers of their own.
    Zmm,
}

impl Vectors {
    /// Lanes of 32 bits.
    pub(super) fn lanes(self) -> usize {
        self.bytes() as usize / 4
    }

    pub(super) fn bytes(self) -> i32 {
        match self {
            Vectors::Ymm => 32,
            Vectors::Zmm => 64,
        }
    }
}

/// An instruction on vectors, without its operands: EVEX on those of 512 bits. With a VEX prefix,
/// the same opcode is the instruction on those of 256 bits, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packed {
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
    /// Whether there is one on vectors of 256 bits.
    pub(super) ymm: bool,
}

impl Packed {
    /// The instruction on vectors of 256 bits. Its prefix tells the size of lanes of shifts by a
    /// count for each lane, and of products with a sum; for the others the bit is 0, or has no
    /// meaning.
    pub(super) fn on_ymm(self) -> Vex {
        debug_assert!(self.ymm, "{} needs vectors of 512 bits", self.name);
        let Packed { name, map, prefix, opcode, .. } = self;
        let tells = map == 2 && matches!(opcode, 0x45..=0x47 | 0xa8 | 0xb8);
        Vex { name, map, prefix, opcode, wide: self.wide && tells, long: true }
    }
}

/// A VEX instruction on masks, general registers or vectors of at most 256 bits, without its
/// operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Vex {
    pub(super) name: &'static str,
    pub(super) map: u8,
    pub(super) prefix: u8,
    pub(super) opcode: u8,
    pub(super) wide: bool,
    /// The bit that says vectors of 256 bits, not of 128; or three operands of masks.
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
    (ymm) => {
        true
    };
    (zmm) => {
        false
    };
}

macro_rules! packed {
    ($($instruction:ident = $name:literal $map:literal $prefix:literal $opcode:literal $wide:ident
        $digit:literal $from:ident;)*) => {
        $(pub(super) const $instruction: Packed = Packed {
            name: $name,
            map: $map,
            prefix: $prefix,
            opcode: $opcode,
            wide: bit!($wide),
            digit: $digit,
            ymm: bit!($from),
        };)*
        #[cfg(test)]
        pub(super) const ALL_PACKED: &[Packed] = &[$($instruction),*];
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

packed! {
    VADDPS       = "vaddps"       1 0 0x58 W0 0 ymm;
    VSUBPS       = "vsubps"       1 0 0x5c W0 0 ymm;
    VMULPS       = "vmulps"       1 0 0x59 W0 0 ymm;
    VDIVPS       = "vdivps"       1 0 0x5e W0 0 ymm;
    VMINPS       = "vminps"       1 0 0x5d W0 0 ymm;
    VMAXPS       = "vmaxps"       1 0 0x5f W0 0 ymm;
    VFIXUPIMMPS  = "vfixupimmps"  3 1 0x54 W0 0 zmm;
    VSCALEFPS    = "vscalefps"    2 1 0x2c W0 0 zmm;
    VRANGEPS     = "vrangeps"     3 1 0x50 W0 0 zmm;
    VRNDSCALEPS  = "vrndscaleps"  3 1 0x08 W0 0 ymm;
    VSQRTPS      = "vsqrtps"      1 0 0x51 W0 0 ymm;
    VCMPPS       = "vcmpps"       1 0 0xc2 W0 0 ymm;
    VFMADD213PS  = "vfmadd213ps"  2 1 0xa8 W0 0 ymm;
    VFMADD231PS  = "vfmadd231ps"  2 1 0xb8 W0 0 ymm;

    VADDPD       = "vaddpd"       1 1 0x58 W1 0 ymm;
    VSUBPD       = "vsubpd"       1 1 0x5c W1 0 ymm;
    VMULPD       = "vmulpd"       1 1 0x59 W1 0 ymm;
    VDIVPD       = "vdivpd"       1 1 0x5e W1 0 ymm;
    VMINPD       = "vminpd"       1 1 0x5d W1 0 ymm;
    VMAXPD       = "vmaxpd"       1 1 0x5f W1 0 ymm;
    VRANGEPD     = "vrangepd"     3 1 0x50 W1 0 zmm;
    VSCALEFPD    = "vscalefpd"    2 1 0x2c W1 0 zmm;
    VRNDSCALEPD  = "vrndscalepd"  3 1 0x09 W1 0 ymm;
    VSQRTPD      = "vsqrtpd"      1 1 0x51 W1 0 ymm;
    VCMPPD       = "vcmppd"       1 1 0xc2 W1 0 ymm;
    VFMADD213PD  = "vfmadd213pd"  2 1 0xa8 W1 0 ymm;
    VFMADD231PD  = "vfmadd231pd"  2 1 0xb8 W1 0 ymm;

    VPADDD       = "vpaddd"       1 1 0xfe W0 0 ymm;
    VPSUBD       = "vpsubd"       1 1 0xfa W0 0 ymm;
    VPMULLD      = "vpmulld"      2 1 0x40 W0 0 ymm;
    VPMAXSD      = "vpmaxsd"      2 1 0x3d W0 0 ymm;
    VPMINSD      = "vpminsd"      2 1 0x39 W0 0 ymm;
    VPABSD       = "vpabsd"       2 1 0x1e W0 0 ymm;
    VPANDD       = "vpandd"       1 1 0xdb W0 0 ymm;
    VPORD        = "vpord"        1 1 0xeb W0 0 ymm;
    VPXORD       = "vpxord"       1 1 0xef W0 0 ymm;
    VPSLLVD      = "vpsllvd"      2 1 0x47 W0 0 ymm;
    VPSRAVD      = "vpsravd"      2 1 0x46 W0 0 ymm;
    VPTERNLOGD   = "vpternlogd"   3 1 0x25 W0 0 zmm;
    VPTESTMD     = "vptestmd"     2 1 0x27 W0 0 zmm;
    VPCMPD       = "vpcmpd"       3 1 0x1f W0 0 zmm;

    VPADDQ       = "vpaddq"       1 1 0xd4 W1 0 ymm;
    VPSUBQ       = "vpsubq"       1 1 0xfb W1 0 ymm;
    VPMULLQ      = "vpmullq"      2 1 0x40 W1 0 zmm;
    VPMAXSQ      = "vpmaxsq"      2 1 0x3d W1 0 zmm;
    VPMINSQ      = "vpminsq"      2 1 0x39 W1 0 zmm;
    VPABSQ       = "vpabsq"       2 1 0x1f W1 0 zmm;
    VPMULUDQ     = "vpmuludq"     1 1 0xf4 W1 0 ymm;
    VPANDQ       = "vpandq"       1 1 0xdb W1 0 ymm;
    VPORQ        = "vporq"        1 1 0xeb W1 0 ymm;
    VPXORQ       = "vpxorq"       1 1 0xef W1 0 ymm;
    VPSLLVQ      = "vpsllvq"      2 1 0x47 W1 0 ymm;
    VPSRLVQ      = "vpsrlvq"      2 1 0x45 W1 0 ymm;
    VPSRAVQ      = "vpsravq"      2 1 0x46 W1 0 zmm;
    VPTESTMQ     = "vptestmq"     2 1 0x27 W1 0 zmm;
    VPCMPQ       = "vpcmpq"       3 1 0x1f W1 0 zmm;

    VPSRLD       = "vpsrld"       1 1 0x72 W0 2 ymm;
    VPSLLD       = "vpslld"       1 1 0x72 W0 6 ymm;
    VPSRLQ       = "vpsrlq"       1 1 0x73 W1 2 ymm;
    VPSLLQ       = "vpsllq"       1 1 0x73 W1 6 ymm;

    VCVTDQ2PS    = "vcvtdq2ps"    1 0 0x5b W0 0 ymm;
    VCVTTPS2DQ   = "vcvttps2dq"   1 2 0x5b W0 0 ymm;
    VCVTPS2PD    = "vcvtps2pd"    1 0 0x5a W0 0 ymm;
    VCVTPD2PS    = "vcvtpd2ps"    1 1 0x5a W1 0 ymm;
    VCVTDQ2PD    = "vcvtdq2pd"    1 2 0xe6 W0 0 ymm;
    VCVTTPD2DQ   = "vcvttpd2dq"   1 1 0xe6 W1 0 ymm;
    VCVTQQ2PD    = "vcvtqq2pd"    1 2 0xe6 W1 0 zmm;
    VCVTTPD2QQ   = "vcvttpd2qq"   1 1 0x7a W1 0 zmm;
    VCVTQQ2PS    = "vcvtqq2ps"    1 0 0x5b W1 0 zmm;
    VCVTPS2PH    = "vcvtps2ph"    3 1 0x1d W0 0 ymm;
    VCVTPH2PS    = "vcvtph2ps"    2 1 0x13 W0 0 ymm;
    VPMOVQD      = "vpmovqd"      2 2 0x35 W0 0 zmm;
    VPMOVSXDQ    = "vpmovsxdq"    2 1 0x25 W0 0 ymm;

    VMOVAPS      = "vmovaps"      1 0 0x28 W0 0 ymm;
    VMOVAPD      = "vmovapd"      1 1 0x28 W1 0 ymm;
    VPBLENDMD    = "vpblendmd"    2 1 0x64 W0 0 zmm;
    VPBLENDMQ    = "vpblendmq"    2 1 0x64 W1 0 zmm;
    VPSHUFD      = "vpshufd"      1 1 0x70 W0 0 ymm;
    VSHUFF32X4   = "vshuff32x4"   3 1 0x23 W0 0 zmm;
    VEXTRACTF64X4 = "vextractf64x4" 3 1 0x1b W1 0 zmm;
    VINSERTF64X4 = "vinsertf64x4" 3 1 0x1a W1 0 zmm;

    VBROADCASTSS = "vbroadcastss" 2 1 0x18 W0 0 ymm;
    VBROADCASTSD = "vbroadcastsd" 2 1 0x19 W1 0 ymm;
    VPBROADCASTD = "vpbroadcastd" 2 1 0x7c W0 0 zmm;
    VPBROADCASTQ = "vpbroadcastq" 2 1 0x7c W1 0 zmm;

    LOAD_PS      = "vmovups"      1 0 0x10 W0 0 ymm;
    STORE_PS     = "vmovups"      1 0 0x11 W0 0 ymm;
    VMOVNTPS     = "vmovntps"     1 0 0x2b W0 0 ymm;
    LOAD_PD      = "vmovupd"      1 1 0x10 W1 0 ymm;
    STORE_PD     = "vmovupd"      1 1 0x11 W1 0 ymm;
    VPMOVZXBD    = "vpmovzxbd"    2 1 0x31 W0 0 ymm;
    VPMOVZXWD    = "vpmovzxwd"    2 1 0x33 W0 0 ymm;
    VPMOVDB      = "vpmovdb"      2 2 0x31 W0 0 zmm;
    VPMOVDW      = "vpmovdw"      2 2 0x33 W0 0 zmm;

    VGATHERDPS   = "vgatherdps"   2 1 0x92 W0 0 zmm;
    VGATHERDPD   = "vgatherdpd"   2 1 0x92 W1 0 zmm;
    VSCATTERDPS  = "vscatterdps"  2 1 0xa2 W0 0 zmm;
    VSCATTERDPD  = "vscatterdpd"  2 1 0xa2 W1 0 zmm;
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

    VPCMPEQD    = "vpcmpeqd"     1 1 0x76 W0 L1;
    VPCMPGTD    = "vpcmpgtd"     1 1 0x66 W0 L1;
    VPCMPEQQ    = "vpcmpeqq"     2 1 0x29 W0 L1;
    VPCMPGTQ    = "vpcmpgtq"     2 1 0x37 W0 L1;
    VPAND       = "vpand"        1 1 0xdb W0 L1;
    VPANDN      = "vpandn"       1 1 0xdf W0 L1;
    VPOR        = "vpor"         1 1 0xeb W0 L1;
    VPXOR       = "vpxor"        1 1 0xef W0 L1;
    VBLENDVPS   = "vblendvps"    3 1 0x4a W0 L1;
    VPERM2F128  = "vperm2f128"   3 1 0x06 W0 L1;
    VINSERTF128 = "vinsertf128"  3 1 0x18 W0 L1;
    VEXTRACTF128 = "vextractf128" 3 1 0x19 W0 L1;
    VSHUFPS     = "vshufps"      1 0 0xc6 W0 L0;
    VPACKUSDW   = "vpackusdw"    2 1 0x2b W0 L0;
    VPACKUSWB   = "vpackuswb"    1 1 0x67 W0 L0;
    VMASKMOVPS  = "vmaskmovps"   2 1 0x2c W0 L1;
    VMASKMOVPD  = "vmaskmovpd"   2 1 0x2d W0 L1;
    VMASKMOVPS_STORE = "vmaskmovps" 2 1 0x2e W0 L1;
    VMASKMOVPD_STORE = "vmaskmovpd" 2 1 0x2f W0 L1;
    VPGATHERDD  = "vpgatherdd"   2 1 0x90 W0 L1;
    VPGATHERDQ  = "vpgatherdq"   2 1 0x90 W1 L1;
    VMOVMSKPS   = "vmovmskps"    1 0 0x50 W0 L1;
    VMOVD       = "vmovd"        1 1 0x6e W0 L0;
    VMOVQ       = "vmovq"        1 1 0x6e W1 L0;
    VMOVSS      = "vmovss"       1 2 0x10 W0 L0;
    VMOVSD      = "vmovsd"       1 3 0x10 W0 L0;
    VMOVSS_STORE = "vmovss"      1 2 0x11 W0 L0;
    VMOVSD_STORE = "vmovsd"      1 3 0x11 W0 L0;
    VMOVHPS     = "vmovhps"      1 0 0x16 W0 L0;
    VMOVHPS_STORE = "vmovhps"    1 0 0x17 W0 L0;
    VINSERTPS   = "vinsertps"    3 1 0x21 W0 L0;
    VEXTRACTPS  = "vextractps"   3 1 0x17 W0 L0;
    VMOVQ_STORE = "vmovq"        1 1 0xd6 W0 L0;
    VMOVUPS_STORE = "vmovups"    1 0 0x11 W0 L0;
    VMOVUPS_STORE_YMM = "vmovups" 1 0 0x11 W0 L1;
    VMOVQ_LOAD  = "vmovq"        1 2 0x7e W0 L0;
    VPINSRB     = "vpinsrb"      3 1 0x20 W0 L0;
    VPINSRW     = "vpinsrw"      1 1 0xc4 W0 L0;
    VPINSRD     = "vpinsrd"      3 1 0x22 W0 L0;
    VPEXTRB     = "vpextrb"      3 1 0x14 W0 L0;
    VPEXTRW     = "vpextrw"      3 1 0x15 W0 L0;
    VPSRLDQ     = "vpsrldq"      1 1 0x73 W0 L0;
    VPBROADCASTD_YMM = "vpbroadcastd" 2 1 0x58 W0 L1;
    VPBROADCASTQ_YMM = "vpbroadcastq" 2 1 0x59 W0 L1;
}

/// The number in place of the first register, which shares its opcode.
pub(super) const VPSRLDQ_DIGIT: u8 = 3;

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
    MOV_BYTE    = "mov"    [] [0x88] None;
    MOVSX32     = "movsxd" [] [0x63] None;
    BT          = "bt"     [] [0x0f, 0xa3] None;
    CALL        = "call"   [] [0xff] Some(2);
    MOVSS       = "movss"  [0xf3] [0x0f, 0x10] None;
    MOVSD       = "movsd"  [0xf2] [0x0f, 0x10] None;
    MOVSS_STORE = "movss"  [0xf3] [0x0f, 0x11] None;
    MOVSD_STORE = "movsd"  [0xf2] [0x0f, 0x11] None;
}
