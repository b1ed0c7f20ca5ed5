//! A CUDA device by itself, under the engine: memory, order, graphs and times. Without a device
//! every test says so and passes.

use std::{
    ops::Deref,
    sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use gt_ir::DType;

use super::{CudaGpu, Precision, devices};
use crate::{
    device::Gpu,
    error::EngineError,
    kernel::Access,
    schedule::{BufferId, MatMul, Matrix, Multiplier},
};

const PRECISION: Precision = Precision { tf32: false, deterministic: true };

/// Tests run side by side; one that measures the memory of the process runs alone.
static OTHERS: RwLock<()> = RwLock::new(());

/// A device for the time that a lock is held.
struct Lent<L>(CudaGpu, L);

impl<L> Deref for Lent<L> {
    type Target = CudaGpu;

    fn deref(&self) -> &CudaGpu {
        &self.0
    }
}

fn device() -> Option<Lent<RwLockReadGuard<'static, ()>>> {
    let beside = OTHERS.read().unwrap_or_else(PoisonError::into_inner);
    Some(Lent(open()?, beside))
}

fn device_alone() -> Option<Lent<RwLockWriteGuard<'static, ()>>> {
    let alone = OTHERS.write().unwrap_or_else(PoisonError::into_inner);
    Some(Lent(open()?, alone))
}

fn open() -> Option<CudaGpu> {
    if let Err(why) = devices() {
        assert_eq!(CudaGpu::open(0, PRECISION, None).err(), Some(why.clone()));
        println!("skipped: {why}");
        return None;
    }
    Some(CudaGpu::open(0, PRECISION, None).unwrap())
}

fn square(dtype: DType, n: usize) -> MatMul {
    let access = Access { offset: 0, strides: [n as i64, 1].into_iter().collect() };
    let [lhs, rhs] = [0, 1].map(|i| Matrix { buffer: BufferId(i), access: access.clone() });
    let batch = [].into_iter().collect();
    MatMul { dtype, batch, m: n, n, k: n, lhs, rhs, out: BufferId(2), by: Multiplier::Library }
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn read(gpu: &CudaGpu, from: u64, n: usize) -> Vec<f32> {
    let mut bytes = vec![0; 4 * n];
    gpu.words(from, &mut bytes).unwrap();
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

#[test]
fn a_device_that_is_not_there_is_an_error() {
    let error = CudaGpu::open(1000, PRECISION, None).err().unwrap().to_string();
    assert!(error.starts_with("no CUDA device: ") || error.contains("no cuda:1000"), "{error}");
}

#[test]
fn too_much_memory_is_an_error_and_the_device_works_on() {
    let Some(gpu) = device() else { return };
    let total = gpu.memory().total;
    let error = gpu.alloc(2 * total).err().unwrap();
    let EngineError::OutOfMemory { asked, limit, .. } = error else { panic!("{error}") };
    assert_eq!((asked, limit), (2 * total, total));
    let block = gpu.alloc(0).unwrap();
    assert_eq!(gpu.address(&block) % 256, 0);
    gpu.upload(&floats(&[1.5]), gpu.address(&block)).unwrap();
    assert_eq!(read(&gpu, gpu.address(&block), 1), [1.5]);
    gpu.trim();
    gpu.device.shim.last_error(0).unwrap();
}

#[test]
fn copies_take_their_turn() {
    let Some(gpu) = device() else { return };
    // Large ones come in beside the stream, and still not before what it was given first.
    let n = 3 << 20;
    let [a, b] = [0, 1].map(|_| gpu.alloc(4 * n).unwrap());
    let [to, kept] = [gpu.address(&a), gpu.address(&b)];
    for round in 0..20 {
        gpu.upload(&floats(&vec![round as f32; n]), to).unwrap();
        gpu.copy(to, kept, 4 * n).unwrap();
        gpu.upload(&floats(&vec![-1.0; n]), to).unwrap();
        let [first, last] = [0, 4 * (n as u64 - 1)].map(|at| read(&gpu, kept + at, 1)[0]);
        assert_eq!((first, last), (round as f32, round as f32));
    }
    assert!(read(&gpu, to, n).iter().all(|v| *v == -1.0));
    gpu.device.shim.synchronize_device(0).unwrap();
}

#[test]
fn graphs_of_products_replay_and_are_timed() {
    let Some(gpu) = device_alone() else { return };
    let n = 64;
    let [a, b, c] = [0; 3].map(|_| gpu.alloc(4 * n * n).unwrap());
    let at = [&a, &b, &c].map(|block| gpu.address(block));
    let work = square(DType::F32, n);
    gpu.upload(&floats(&vec![0.5; n * n]), at[1]).unwrap();
    gpu.product(&work, None, [at[0], at[1], at[2]]).unwrap();
    gpu.begin_capture().unwrap();
    gpu.product(&work, None, [at[0], at[1], at[2]]).unwrap();
    gpu.copy(at[2], at[0], 4 * n * n).unwrap();
    let graph = gpu.end_capture().unwrap();
    gpu.upload(&floats(&vec![1.0 / 32.0; n * n]), at[0]).unwrap();
    let live = gpu.memory().live;
    let timer = gpu.start_timer().unwrap();
    for _ in 0..10_000 {
        gpu.replay(&graph).unwrap();
    }
    gpu.stop_timer(&timer).unwrap();
    assert!(!gpu.elapsed(&timer).unwrap().is_zero());
    // Every product of a constant matrix with 0.5 takes 64 times a half of 1/32, again and again: 1
    // the first time, then 32 times more.
    assert!(read(&gpu, at[0], n * n).iter().all(|v| v.is_infinite()));
    gpu.upload(&floats(&vec![1.0 / 32.0; n * n]), at[0]).unwrap();
    gpu.replay(&graph).unwrap();
    assert!(read(&gpu, at[0], n * n).iter().all(|v| *v == 1.0));
    assert_eq!(gpu.memory().live, live);
    drop(graph);
    gpu.synchronize().unwrap();
}

/// What cannot be captured ends the capture with a reason, and nothing else.
#[test]
fn a_failed_capture_leaves_the_device_working() {
    let Some(gpu) = device() else { return };
    assert!(gpu.end_capture().is_err());
    gpu.begin_capture().unwrap();
    assert!(gpu.synchronize().is_err(), "waiting is forbidden during a capture");
    let error = gpu.end_capture().err().unwrap();
    assert!(matches!(error, EngineError::Call(_)), "{error}");
    let block = gpu.alloc(64).unwrap();
    gpu.upload(&floats(&[2.5]), gpu.address(&block)).unwrap();
    assert_eq!(read(&gpu, gpu.address(&block), 1), [2.5]);
    gpu.begin_capture().unwrap();
    gpu.copy(gpu.address(&block), gpu.address(&block) + 32, 4).unwrap();
    gpu.replay(&gpu.end_capture().unwrap()).unwrap();
    assert_eq!(read(&gpu, gpu.address(&block) + 32, 1), [2.5]);
}

#[test]
fn products_of_every_dtype() {
    let Some(gpu) = device() else { return };
    let dtypes = [
        DType::F64,
        DType::F32,
        DType::F16,
        DType::Bf16,
        DType::I64,
        DType::I32,
        DType::U8,
        DType::Bool,
    ];
    for dtype in dtypes {
        let n = 5;
        let one: &[u8] = match dtype {
            DType::F64 => &1f64.to_le_bytes(),
            DType::F32 => &1f32.to_le_bytes(),
            DType::F16 => &0x3c00u16.to_le_bytes(),
            DType::Bf16 => &0x3f80u16.to_le_bytes(),
            DType::I64 | DType::I32 | DType::U8 | DType::Bool => {
                &1u64.to_le_bytes()[..dtype.size()]
            }
        };
        let [a, b, c] = [0; 3].map(|_| gpu.alloc(n * n * 8).unwrap());
        let at = [&a, &b, &c].map(|block| gpu.address(block));
        let mut identity = vec![0; n * n * dtype.size()];
        for i in 0..n {
            identity[i * (n + 1) * dtype.size()..][..dtype.size()].copy_from_slice(one);
        }
        let ones = one.repeat(n * n);
        gpu.upload(&identity, at[0]).unwrap();
        gpu.upload(&ones, at[1]).unwrap();
        gpu.product(&square(dtype, n), None, [at[0], at[1], at[2]]).unwrap();
        let mut got = vec![0; ones.len()];
        gpu.words(at[2], &mut got).unwrap();
        assert_eq!(got, ones, "{dtype}");
    }
}
