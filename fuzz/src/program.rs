//! The readers of compiled programs never panic on any bytes. The first byte chooses whether the
//! rest is a whole program file, its contents, or the contents of the program in it; contents get
//! the checksum, which a fuzzer does not guess. No program is run: it is machine code.

use std::sync::{Arc, LazyLock};

use gt_compiler::{Compile, Engine, Native, NativeConfig, Options, ProgramFile, checksum};

/// The beginning of a file and of a program, without the checksum and what follows it.
struct Heads {
    compiler: Arc<dyn Compile>,
    file: Vec<u8>,
    program: Vec<u8>,
}

/// How long both are; eight bytes of checksum follow.
const FILE_HEAD: usize = 13;
const PROGRAM_HEAD: usize = 8;

static VALID: LazyLock<Heads> = LazyLock::new(|| {
    let config = NativeConfig {
        threads: 1,
        memory_limit: 1 << 28,
        cache_capacity: 16,
        store: None,
        guarded: true,
        team: None,
    };
    let compiler = Native::new(config).expect("this machine has an engine").compiler();
    let text = "gt tape 1\n%0 = input : f32[2]\n%1 = mul %0, 2.5\noutput %1\n";
    let (tape, _) = gt_ir::text::parse(text).expect("it parses");
    let graph = gt_ir::lower(&tape).expect("it is valid");
    let compiled = compiler.compile(&graph, &[], &Options::default()).expect("it compiles");
    let program = compiled.program.to_bytes().expect("native programs are kept");
    let ty = graph.node(graph.inputs()[0]).ty;
    let file = ProgramFile {
        inputs: vec![("x".into(), ty)],
        outputs: vec![("y".into(), 0)],
        scalars: graph.slots().to_vec(),
        program: program.clone(),
    };
    Heads { compiler, file: file.to_bytes().expect("it can be written"), program }
});

/// Contents behind the beginning of something valid, with their checksum.
fn sealed(head: &[u8], contents: &[u8]) -> Vec<u8> {
    [head, &checksum(contents).to_le_bytes(), contents].concat()
}

pub(crate) fn check(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else { return };
    let file = match kind % 3 {
        0 => rest.to_vec(),
        1 => sealed(&VALID.file[..FILE_HEAD], rest),
        _ => {
            let _ = VALID.compiler.load(&sealed(&VALID.program[..PROGRAM_HEAD], rest));
            return;
        }
    };
    if let Ok(read) = ProgramFile::from_bytes(&file) {
        let written = read.to_bytes().expect("what was read can be written");
        assert_eq!(ProgramFile::from_bytes(&written).expect("what was written is read"), read);
        let _ = VALID.compiler.load(&read.program);
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let (file, program) = (&VALID.file, &VALID.program);
    assert!(ProgramFile::from_bytes(&sealed(&file[..FILE_HEAD], &file[FILE_HEAD + 8..])).is_ok());
    let contents = &program[PROGRAM_HEAD + 8..];
    assert!(VALID.compiler.load(&sealed(&program[..PROGRAM_HEAD], contents)).is_ok());
    vec![
        [&[0], &file[..]].concat(),
        [&[1], &file[FILE_HEAD + 8..]].concat(),
        [&[2], contents].concat(),
    ]
}
