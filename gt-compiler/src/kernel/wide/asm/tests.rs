//! Every instruction of the table with every kind of operand it is given, decoded by `iced-x86`:
//! mnemonic, operands, mask, number and length are what was asked for.

use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

use smallvec::SmallVec;

use super::*;
use crate::kernel::wide::isa::{ALL_GENERAL, ALL_PACKED, ALL_VEX, Vectors};

/// The order of operands as Intel writes them.
#[derive(Clone, Copy, PartialEq)]
enum Order {
    RegSecondOperand,
    RegOperandSecond,
    OperandSecondReg,
    /// The number behind it names a fourth register.
    RegSecondOperandMask,
    RegOperand,
    OperandReg,
    /// The register is a part of the opcode.
    SecondOperand,
    OnlyOperand,
}
use Order::*;

/// What a register holds.
#[derive(Clone, Copy, PartialEq)]
enum Class {
    Vector,
    Mask,
    General,
}

/// How an instruction may be used.
#[derive(Clone, Copy)]
struct Form {
    order: Order,
    reg: Class,
    /// Of the last operand, where it is a register; then of the second.
    operand: Class,
    registers: bool,
    memory: bool,
    broadcast: bool,
    /// Addresses with a vector of distances, and with nothing else.
    distances: bool,
    masks: bool,
    zeroing: bool,
    /// Bytes of the number behind it.
    imm: usize,
}

const VECTORS: Form = Form {
    order: RegSecondOperand,
    reg: Class::Vector,
    operand: Class::Vector,
    registers: true,
    memory: true,
    broadcast: true,
    distances: false,
    masks: true,
    zeroing: true,
    imm: 0,
};

fn packed_form(op: Packed) -> Form {
    let two = Form { order: RegOperand, ..VECTORS };
    let load = Form { broadcast: false, ..two };
    let store = Form { order: OperandReg, registers: false, zeroing: false, ..load };
    let compare = Form { reg: Class::Mask, zeroing: false, ..VECTORS };
    let number = |form: Form| Form { imm: 1, ..form };
    match op {
        isa::VFIXUPIMMPS | isa::VRANGEPS | isa::VRANGEPD | isa::VPTERNLOGD | isa::VSHUFF32X4 => {
            number(VECTORS)
        }
        isa::VEXTRACTF64X4 => Form { registers: true, ..number(store) },
        isa::VINSERTF64X4 => Form { broadcast: false, ..number(VECTORS) },
        isa::VCMPPS | isa::VCMPPD | isa::VPCMPD | isa::VPCMPQ => number(compare),
        isa::VPTESTMD | isa::VPTESTMQ => compare,
        isa::VPSRLD | isa::VPSLLD | isa::VPSRLQ | isa::VPSLLQ => {
            Form { order: SecondOperand, ..number(VECTORS) }
        }
        isa::VPSHUFD | isa::VRNDSCALEPS | isa::VRNDSCALEPD => number(two),
        isa::VSQRTPS
        | isa::VSQRTPD
        | isa::VPABSD
        | isa::VPABSQ
        | isa::VCVTDQ2PS
        | isa::VCVTTPS2DQ
        | isa::VCVTPS2PD
        | isa::VCVTPD2PS
        | isa::VCVTDQ2PD
        | isa::VCVTTPD2DQ
        | isa::VCVTQQ2PD
        | isa::VCVTTPD2QQ
        | isa::VCVTQQ2PS => two,
        isa::VCVTPH2PS
        | isa::VPMOVSXDQ
        | isa::VMOVAPS
        | isa::VMOVAPD
        | isa::VBROADCASTSS
        | isa::VBROADCASTSD
        | isa::LOAD_PS
        | isa::LOAD_PD
        | isa::VPMOVZXBD
        | isa::VPMOVZXWD => load,
        isa::VPBROADCASTD | isa::VPBROADCASTQ => {
            Form { operand: Class::General, memory: false, ..load }
        }
        isa::VCVTPS2PH => Form { registers: true, ..number(store) },
        isa::VPMOVQD => Form { registers: true, ..store },
        isa::STORE_PS | isa::STORE_PD | isa::VPMOVDB | isa::VPMOVDW => store,
        isa::VMOVNTPS => Form { masks: false, ..store },
        isa::VGATHERDPS | isa::VGATHERDPD => {
            Form { order: RegOperand, distances: true, memory: false, ..store }
        }
        isa::VSCATTERDPS | isa::VSCATTERDPD => Form { distances: true, memory: false, ..store },
        _ => VECTORS,
    }
}

/// As an instruction on vectors of 256 bits takes its operands.
fn ymm_form(op: Packed) -> Form {
    let form = packed_form(op);
    // The result of a comparison is a vector, and what is shifted lies in a register.
    let (reg, memory) = (Class::Vector, form.memory && form.order != SecondOperand);
    Form { broadcast: false, zeroing: false, reg, memory, ..form }
}

fn vex_form(op: Vex) -> Form {
    let vectors = Form { broadcast: false, zeroing: false, ..VECTORS };
    let number = Form { imm: 1, ..vectors };
    let load = Form { order: RegOperand, registers: false, ..vectors };
    let store = Form { order: OperandReg, ..load };
    let masked = Form { registers: false, ..vectors };
    let general = Form { order: RegOperand, operand: Class::General, ..vectors };
    let masks = Form {
        reg: Class::Mask,
        operand: Class::Mask,
        memory: false,
        broadcast: false,
        zeroing: false,
        ..VECTORS
    };
    match op {
        isa::KMOVW_LOAD => Form { order: RegOperand, memory: true, ..masks },
        isa::KMOVW_STORE => Form { order: OperandReg, memory: true, registers: false, ..masks },
        isa::KMOVW_FROM => Form { order: RegOperand, operand: Class::General, ..masks },
        isa::KMOVW_TO => Form { order: RegOperand, reg: Class::General, ..masks },
        isa::KNOTW | isa::KORTESTW => Form { order: RegOperand, ..masks },
        isa::KSHIFTRW => Form { order: RegOperand, imm: 1, ..masks },
        isa::BZHI => Form {
            order: RegOperandSecond,
            reg: Class::General,
            operand: Class::General,
            memory: true,
            ..masks
        },
        isa::VPCMPEQD
        | isa::VPCMPGTD
        | isa::VPCMPEQQ
        | isa::VPCMPGTQ
        | isa::VPAND
        | isa::VPANDN
        | isa::VPOR
        | isa::VPXOR
        | isa::VPACKUSDW
        | isa::VPACKUSWB => vectors,
        isa::VPERM2F128 | isa::VINSERTF128 | isa::VSHUFPS => number,
        isa::VBLENDVPS => Form { order: RegSecondOperandMask, ..number },
        isa::VEXTRACTF128 => Form { registers: true, imm: 1, ..store },
        isa::VMASKMOVPS | isa::VMASKMOVPD => masked,
        isa::VMASKMOVPS_STORE | isa::VMASKMOVPD_STORE => Form { order: OperandSecondReg, ..masked },
        isa::VPGATHERDD | isa::VPGATHERDQ => {
            Form { order: RegOperandSecond, distances: true, memory: false, ..masked }
        }
        isa::VMOVMSKPS => Form { order: RegOperand, reg: Class::General, memory: false, ..vectors },
        isa::VMOVD | isa::VMOVQ => general,
        isa::VPBROADCASTD_YMM | isa::VPBROADCASTQ_YMM => Form { registers: true, ..load },
        isa::VMOVSS | isa::VMOVSD => load,
        isa::VMOVSS_STORE
        | isa::VMOVSD_STORE
        | isa::VMOVHPS_STORE
        | isa::VMOVQ_STORE
        | isa::VMOVUPS_STORE
        | isa::VMOVUPS_STORE_YMM => store,
        isa::VPEXTRB | isa::VPEXTRW => Form { imm: 1, ..store },
        isa::VPSRLDQ => Form { order: SecondOperand, memory: false, ..number },
        isa::VMOVQ_LOAD => load,
        isa::VMOVHPS => masked,
        isa::VINSERTPS | isa::VPINSRB | isa::VPINSRW | isa::VPINSRD => Form { imm: 1, ..masked },
        isa::VEXTRACTPS => Form { imm: 1, ..store },
        _ => masks,
    }
}

fn general_form(op: General) -> Form {
    let plain = Form {
        order: RegOperand,
        reg: Class::General,
        operand: Class::General,
        broadcast: false,
        zeroing: false,
        ..VECTORS
    };
    match op {
        isa::MOV_STORE | isa::MOV_BYTE | isa::BT => Form { order: OperandReg, ..plain },
        isa::MOV_CONST | isa::SUB_CONST | isa::AND_CONST => {
            Form { order: OnlyOperand, imm: 4, ..plain }
        }
        isa::AND_BYTE | isa::CMP_BYTE => Form { order: OnlyOperand, imm: 1, ..plain },
        isa::CALL => Form { order: OnlyOperand, ..plain },
        isa::IMUL => Form { imm: 4, ..plain },
        isa::LEA | isa::MOVZX8 | isa::MOVZX16 | isa::MOVSX32 => Form { registers: false, ..plain },
        isa::MOVSS | isa::MOVSD => Form { reg: Class::Vector, registers: false, ..plain },
        isa::MOVSS_STORE | isa::MOVSD_STORE => {
            Form { order: OperandReg, reg: Class::Vector, registers: false, ..plain }
        }
        _ => plain,
    }
}

/// One instruction that is asked for.
#[derive(Clone, Copy, Debug)]
struct Asked {
    reg: u8,
    second: u8,
    operand: Operand,
    with: Modifiers,
}

/// Where a displacement begins to need another byte, and beyond.
const DISPLACEMENTS: [i32; 11] = [0, 1, -1, 64, 127, 128, -128, -129, 8 << 10, i32::MAX, i32::MIN];

/// Every operand of a form, with registers and masks that go through all of theirs meanwhile.
fn every_use(form: Form, vectors: Vectors, mut check: impl FnMut(Asked)) {
    let count = |class: Class| match class {
        Class::Vector if vectors == Vectors::Ymm => 16,
        Class::Vector => 32,
        Class::Mask => 8,
        Class::General => 16,
    };
    let scalar = form.reg == Class::Vector && form.operand == Class::General && !form.zeroing;
    let n_regs = if scalar { 16 } else { count(form.reg) };
    let has_second = !matches!(form.order, RegOperand | OperandReg | OnlyOperand);
    let n_seconds = if has_second { count(form.operand) } else { 1 };
    let takes_masks = form.masks
        && vectors == Vectors::Zmm
        && (form.reg == Class::Vector && !scalar || form.operand == Class::Vector);
    let mut n = 0_u32;
    let mut give = |reg: u8, second: u8, operand: Operand, broadcast: bool| {
        n = n.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let mut mask = if takes_masks { (n >> 16) as u8 % 8 } else { 0 };
        if form.distances && takes_masks {
            mask = mask.max(1);
        }
        let zeroing = form.zeroing && mask != 0 && n >> 31 == 1;
        let imm = (form.imm > 0).then_some((n >> 20) as u8);
        let fourth = form.order == RegSecondOperandMask;
        let imm = if fourth { imm.map(|imm| imm & 0xf0) } else { imm };
        let with = Modifiers { mask, zeroing, broadcast, imm };
        check(Asked { reg, second, operand, with });
    };
    if form.registers {
        for reg in 0..n_regs {
            for second in 0..n_seconds {
                (0..count(form.operand))
                    .for_each(|r| give(reg, second, Operand::Register(r), false));
            }
        }
    }
    let mut at = 0_usize;
    let mut give_at = |base: u8, index: Option<(u8, u8)>, disp: i32, broadcast: bool| {
        at += 1;
        let (mut reg, mut second) =
            ((at % n_regs as usize) as u8, (at / 7 % n_seconds as usize) as u8);
        // A gather may not overwrite its distances, and not those by its mask.
        if let (true, Some((index, _))) = (form.distances, index) {
            reg = if reg == index { (reg + 1) % n_regs } else { reg };
            while has_second && (second == index || second == reg) {
                second = (second + 1) % n_seconds;
            }
        }
        let address = Address { base, index, disp };
        give(reg, second, Operand::Memory(address), broadcast);
    };
    for base in 0..16 {
        for disp in DISPLACEMENTS {
            for scale in [1, 2, 4, 8] {
                let indices = (0..16).filter(|&i| i != RSP).map(|i| Some((i, scale)));
                if form.memory {
                    for index in indices.chain((scale == 1).then_some(None)) {
                        give_at(base, index, disp, false);
                        if form.broadcast {
                            give_at(base, index, disp, true);
                        }
                    }
                }
                if form.distances {
                    let all = 0..count(Class::Vector);
                    all.for_each(|i| give_at(base, Some((i, scale)), disp, false));
                }
            }
        }
    }
}

fn decoded(bytes: &[u8]) -> Instruction {
    let mut decoder = Decoder::new(64, bytes, DecoderOptions::NONE);
    let instruction = decoder.decode();
    assert_eq!(instruction.len(), bytes.len(), "the length of {bytes:02x?}");
    assert_ne!(instruction.code(), Code::INVALID, "{bytes:02x?}");
    instruction
}

fn is(register: Register, class: Class, number: u8) -> bool {
    let byte = match number {
        0..4 => Register::AL + u32::from(number),
        4..8 => Register::SPL + u32::from(number - 4),
        _ => Register::R8L + u32::from(number - 8),
    };
    if class == Class::General && register == byte {
        return true;
    }
    let first: &[Register] = match class {
        Class::Vector => &[Register::XMM0, Register::YMM0, Register::ZMM0],
        Class::Mask => &[Register::K0],
        Class::General => &[Register::EAX, Register::RAX],
    };
    first.iter().any(|&first| first + u32::from(number) == register)
}

/// The place of an operand, and the register that stands there.
type Named = (usize, (Class, u8));

/// Compares an instruction with what was asked for; `imm` is the number as it should be read.
fn agree(name: &str, form: Form, asked: Asked, imm: Option<i64>, bytes: &[u8]) {
    let got = decoded(bytes);
    let context = || format!("{name} {asked:?} is {got:?}: {bytes:02x?}");
    assert_eq!(format!("{:?}", got.mnemonic()).to_lowercase(), name, "{}", context());
    let (reg, second) = ((form.reg, asked.reg), (form.operand, asked.second));
    let (registers, operand_at): (&[Named], usize) = match form.order {
        RegSecondOperand => (&[(0, reg), (1, second)], 2),
        RegOperandSecond => (&[(0, reg), (2, second)], 1),
        OperandSecondReg => (&[(2, reg), (1, second)], 0),
        RegSecondOperandMask => {
            let fourth = asked.with.imm.unwrap_or(0) >> 4;
            assert!(is(got.op_register(3), Class::Vector, fourth), "{}", context());
            (&[(0, reg), (1, second)], 2)
        }
        RegOperand => (&[(0, reg)], 1),
        OperandReg => (&[(1, reg)], 0),
        SecondOperand => (&[(0, second)], 1),
        OnlyOperand => (&[], 0),
    };
    let n_operands = registers.len() + 1 + usize::from(imm.is_some());
    assert_eq!(got.op_count() as usize, n_operands, "{}", context());
    for &(i, (class, number)) in registers {
        assert_eq!(got.op_kind(i as u32), OpKind::Register, "{}", context());
        assert!(is(got.op_register(i as u32), class, number), "{}", context());
    }
    match asked.operand {
        Operand::Register(r) => {
            assert!(is(got.op_register(operand_at as u32), form.operand, r), "{}", context());
        }
        Operand::Memory(Address { base, index, disp }) => {
            assert_eq!(got.op_kind(operand_at as u32), OpKind::Memory, "{}", context());
            assert!(is(got.memory_base(), Class::General, base), "{}", context());
            assert_eq!(got.memory_displacement64() as i64, i64::from(disp), "{}", context());
            match index {
                None => assert_eq!(got.memory_index(), Register::None, "{}", context()),
                Some((index, scale)) => {
                    let class = if form.distances { Class::Vector } else { Class::General };
                    assert!(is(got.memory_index(), class, index), "{}", context());
                    assert_eq!(got.memory_index_scale(), u32::from(scale), "{}", context());
                }
            }
        }
        Operand::Pool(_) => unreachable!("asked in another test"),
    }
    let mask = got.op_mask();
    let masked = if asked.with.mask == 0 {
        mask == Register::None
    } else {
        is(mask, Class::Mask, asked.with.mask)
    };
    assert!(masked, "{}", context());
    assert_eq!(got.zeroing_masking(), asked.with.zeroing, "{}", context());
    assert_eq!(got.is_broadcast(), asked.with.broadcast, "{}", context());
    if let Some(imm) = imm
        && form.order != RegSecondOperandMask
    {
        assert_eq!(got.immediate(n_operands as u32 - 1) as i64, imm, "{}", context());
    }
}

fn bytes_of(vectors: Vectors, write: impl FnOnce(&mut Asm)) -> Vec<u8> {
    let mut asm = Asm::new(vectors);
    write(&mut asm);
    asm.code
}

#[test]
fn wide_instructions_are_decoded_as_asked() {
    for &op in ALL_PACKED {
        let form = packed_form(op);
        let mut n = 0;
        every_use(form, Vectors::Zmm, |asked| {
            let reg = if form.order == SecondOperand { op.digit } else { asked.reg };
            let bytes = bytes_of(Vectors::Zmm, |a| {
                a.evex(op, reg, asked.second, asked.operand, asked.with)
            });
            if n == 0 {
                let code = format!("{:?}", decoded(&bytes).code());
                assert!(code.starts_with("EVEX") && code.contains("zmm"), "{code}");
            }
            n += 1;
            agree(op.name, form, asked, asked.with.imm.map(i64::from), &bytes);
        });
        assert!(n > 0, "{} has no use", op.name);
    }
}

#[test]
fn instructions_on_short_vectors_are_decoded_as_asked() {
    for &op in ALL_PACKED.iter().filter(|op| op.ymm) {
        let form = ymm_form(op);
        let name = match op.name {
            "vrndscaleps" => "vroundps",
            "vrndscalepd" => "vroundpd",
            // Logic does not tell the size of lanes.
            "vpandd" | "vpandq" => "vpand",
            "vpord" | "vporq" => "vpor",
            "vpxord" | "vpxorq" => "vpxor",
            name => name,
        };
        every_use(form, Vectors::Ymm, |asked| {
            let reg = if form.order == SecondOperand { op.digit } else { asked.reg };
            let write = |a: &mut Asm| a.packed(op, reg, asked.second, asked.operand, asked.with);
            let bytes = bytes_of(Vectors::Ymm, write);
            let code = format!("{:?}", decoded(&bytes).code());
            assert!(code.starts_with("VEX") && code.contains("ymm"), "{code}");
            agree(name, form, asked, asked.with.imm.map(i64::from), &bytes);
        });
    }
}

#[test]
fn instructions_with_a_vex_prefix_are_decoded_as_asked() {
    for &op in ALL_VEX {
        let form = vex_form(op);
        every_use(form, Vectors::Ymm, |asked| {
            let imm: SmallVec<[u8; 1]> = asked.with.imm.into_iter().collect();
            let shared = form.order == SecondOperand;
            let reg = if shared { isa::VPSRLDQ_DIGIT } else { asked.reg };
            let bytes = bytes_of(Vectors::Ymm, |a| {
                a.vex_with(op, reg, asked.second, asked.operand, &imm);
            });
            agree(op.name, form, asked, asked.with.imm.map(i64::from), &bytes);
        });
    }
}

#[test]
fn instructions_on_general_registers_are_decoded_as_asked() {
    for &op in ALL_GENERAL {
        let form = general_form(op);
        every_use(form, Vectors::Zmm, |asked| {
            let number = asked.with.imm.map(|byte| match form.imm {
                1 => i64::from(byte as i8),
                _ => i64::from(byte as i8) << 23,
            });
            let imm: SmallVec<[u8; 4]> =
                number.iter().flat_map(|n| n.to_le_bytes().into_iter().take(form.imm)).collect();
            let bytes = bytes_of(Vectors::Zmm, |a| a.general(op, asked.reg, asked.operand, &imm));
            agree(op.name, form, asked, number, &bytes);
        });
    }
}

#[test]
fn the_rest_is_decoded_as_asked() {
    let general = |got: Register, r: u8| assert!(is(got, Class::General, r), "{got:?} for {r}");
    for r in 0..16 {
        let push = decoded(&bytes_of(Vectors::Zmm, |a| a.push(r)));
        assert_eq!(push.mnemonic(), Mnemonic::Push);
        general(push.op0_register(), r);
        let pop = decoded(&bytes_of(Vectors::Zmm, |a| a.pop(r)));
        assert_eq!(pop.mnemonic(), Mnemonic::Pop);
        general(pop.op0_register(), r);
        for value in [0, 1, -1, 0xffff, i64::from(i32::MIN), 1 << 31, i64::MIN, i64::MAX] {
            let constant = decoded(&bytes_of(Vectors::Zmm, |a| a.constant(r, value)));
            assert_eq!(constant.mnemonic(), Mnemonic::Mov);
            general(constant.op0_register(), r);
            assert_eq!(constant.immediate(1) as i64, value);
        }
        for from in (0..16).filter(|&from| from != r) {
            let moved = decoded(&bytes_of(Vectors::Zmm, |a| a.move_general(r, from)));
            assert_eq!(moved.mnemonic(), Mnemonic::Mov);
            general(moved.op0_register(), r);
            general(moved.op1_register(), from);
        }
    }
    assert_eq!(decoded(&bytes_of(Vectors::Zmm, Asm::zero_upper)).mnemonic(), Mnemonic::Vzeroupper);
    assert_eq!(decoded(&bytes_of(Vectors::Zmm, Asm::ret)).mnemonic(), Mnemonic::Ret);
}

/// Jumps forward and back reach their labels, and elements of the pool are found behind the code.
#[test]
fn jumps_and_the_pool_are_found() {
    let mut asm = Asm::new(Vectors::Zmm);
    let plain = Modifiers::default();
    asm.label(0);
    let pooled = [asm.word(7), asm.double(8), asm.ramp(3), asm.wide_ramp(5), asm.word(7)];
    for (reg, &operand) in (0..).zip(&pooled) {
        asm.evex(isa::LOAD_PS, reg, 0, operand, plain);
        let with = Modifiers { imm: Some(5), broadcast: true, ..plain };
        asm.evex(isa::VRANGEPS, reg, 1, operand, with);
    }
    for condition in [Some(3), Some(4), Some(0xc), Some(0xd), None] {
        asm.jump(condition, 0);
        asm.jump(condition, 1);
    }
    asm.label(1);
    asm.ret();
    let bytes = asm.finish();
    let instructions: Vec<Instruction> =
        Decoder::new(64, &bytes, DecoderOptions::NONE).into_iter().take(21).collect();
    let end = instructions[20].ip();
    let start = bytes.len() as u64 - (4 + 8 + 64 + 64);
    assert_eq!((instructions[20].mnemonic(), start % 64), (Mnemonic::Ret, 0));
    let offsets = [0, 0, 4, 4, 12, 12, 76, 76, 0, 0].map(|offset| start + offset);
    let found = instructions[..10].iter().map(Instruction::ip_rel_memory_address);
    assert_eq!(found.collect::<Vec<u64>>(), offsets);
    let names = [Mnemonic::Jae, Mnemonic::Je, Mnemonic::Jl, Mnemonic::Jge, Mnemonic::Jmp];
    for (jumps, name) in instructions[10..20].chunks(2).zip(names) {
        assert_eq!([jumps[0].mnemonic(), jumps[1].mnemonic()], [name; 2]);
        assert_eq!([jumps[0].near_branch_target(), jumps[1].near_branch_target()], [0, end]);
    }
}
