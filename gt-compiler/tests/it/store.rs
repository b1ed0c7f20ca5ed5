//! Programs on disk: found again, refused when damaged or made for something else, shared by
//! processes.

use std::{fs, path::PathBuf};

use gt_compiler::{ArtifactError, Compiled, Engine, Native, NativeConfig, Options};
use gt_ir::{Graph, lower};

fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("gt-store-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    folder
}

fn engine(store: Option<PathBuf>) -> Native {
    Native::new(NativeConfig {
        threads: 1,
        memory_limit: 1 << 26,
        cache_capacity: 16,
        store,
        guarded: false,
        team: None,
    })
    .unwrap()
}

fn graph(scalar: f64) -> Graph {
    let text = format!(
        "gt tape 1\n%0 = input : f32[40,30]\n%1 = softmax[1] %0\n%2 = mul %1, {scalar:?}\noutput \
         %2\n"
    );
    lower(&gt_ir::text::parse(&text).unwrap().0).unwrap()
}

fn compile(engine: &Native, graph: &Graph) -> Compiled {
    engine.compiler().compile(graph, &[], &Options::default()).unwrap()
}

/// Waits until a store's thread has written its files.
fn files(folder: &PathBuf, n: usize) -> Vec<PathBuf> {
    for _ in 0..2000 {
        let found = fs::read_dir(folder).unwrap().flatten().map(|e| e.path());
        let found: Vec<_> = found.filter(|p| p.extension().is_some_and(|e| e == "gtc")).collect();
        if found.len() >= n {
            return found;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    panic!("nothing was kept");
}

#[test]
fn a_second_start_compiles_nothing() {
    let folder = folder("second");
    let first = engine(Some(folder.clone()));
    assert!(!compile(&first, &graph(2.0)).report.cached);
    files(&folder, 1);
    let mut second = engine(Some(folder.clone()));
    let again = compile(&second, &graph(3.0)); // another value in the same slot
    assert!(again.report.cached && again.report.kernels > 0);
    assert_eq!(second.stats().kernels_compiled, 0);
    let x = engine(None).upload(&zeros()).unwrap();
    let y = second.run(&again.program, &mut vec![x], graph(3.0).slots()).unwrap();
    let y = second.download(&y[0]).unwrap().to_f64();
    assert!(y.iter().all(|v| (v - 3.0 / 30.0).abs() < 1e-6), "{y:?}");
    fs::remove_dir_all(folder).unwrap();
}

fn zeros() -> gt_ir::HostTensor {
    let ty = gt_ir::Type::new(gt_ir::DType::F32, gt_ir::Shape::new(&[40, 30]).unwrap());
    gt_ir::HostTensor::new(ty, vec![0; ty.bytes()].into()).unwrap()
}

#[test]
fn what_is_damaged_is_compiled_again() {
    let folder = folder("damaged");
    compile(&engine(Some(folder.clone())), &graph(2.0));
    let file = files(&folder, 1).remove(0);
    let mut bytes = fs::read(&file).unwrap();
    let half = bytes.len() / 2;
    bytes[half] ^= 0x40;
    fs::write(&file, &bytes).unwrap();
    assert!(!compile(&engine(Some(folder.clone())), &graph(2.0)).report.cached);
    // And kept in the place of what was damaged, once the store's thread has come to it.
    let renewed = || fs::read(&file).is_ok_and(|now| now != bytes);
    let soon = (0..2000).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(1));
        renewed()
    });
    assert!(soon, "what was compiled again was not kept");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn damage_anywhere_is_found() {
    let engine = engine(None);
    let whole = compile(&engine, &graph(2.0)).program.to_bytes().unwrap();
    for i in (0..whole.len()).step_by(whole.len() / 200 + 1) {
        let mut bytes = whole.clone();
        bytes[i] ^= 0x40;
        assert!(engine.compiler().load(&bytes).is_err(), "byte {i}");
        assert!(engine.compiler().load(&whole[..i]).is_err(), "{i} bytes");
    }
}

#[test]
fn an_artifact_runs_without_compiling_and_says_why_it_does_not() {
    let made = engine(None);
    let bytes = compile(&made, &graph(2.0)).program.to_bytes().unwrap();
    let other = engine(None);
    assert!(other.compiler().load(&bytes).is_ok());
    assert_eq!(other.stats().kernels_compiled, 0);
    assert_eq!(other.compiler().load(b"gt tape 1").unwrap_err(), ArtifactError::Format);
    assert_eq!(other.compiler().load(&bytes[..40]).unwrap_err(), ArtifactError::Damaged);
    let more = NativeConfig {
        threads: 3,
        memory_limit: 1 << 26,
        cache_capacity: 16,
        store: None,
        guarded: false,
        team: None,
    };
    let error = Native::new(more).unwrap().compiler().load(&bytes).unwrap_err();
    assert!(matches!(error, ArtifactError::Processor { .. }), "{error}");
}

#[cfg(unix)]
#[test]
fn a_folder_others_may_write_is_not_used() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder("open");
    fs::create_dir_all(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    let engine = engine(Some(folder.clone()));
    compile(&engine, &graph(2.0));
    drop(engine);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    fs::remove_dir_all(folder).unwrap();
}
