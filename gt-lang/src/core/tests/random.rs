//! Random programs, sensible or not: they neither panic nor lie about types, and what went wrong is
//! told by every read.

use gt_ir::DType;

use super::numbers;
use crate::autograd::tests::Rng;
use crate::core::*;
use crate::reference::Reference;

/// One random operation, sensible or not, on tensors of the pool.
fn random_step(rng: &mut Rng, pool: &[DynTensor]) -> DynTensor {
    let x = &pool[rng.below(pool.len())];
    let y = &pool[rng.below(pool.len())];
    let int = |rng: &mut Rng| rng.below(9) as i64 - 4;
    let ints =
        |rng: &mut Rng| (0..rng.below(5)).map(|_| rng.below(7) as i64 - 2).collect::<Vec<_>>();
    let (axis, few) = (int(rng), ints(rng));
    match rng.below(36) {
        0 => x + y,
        1 => x.mul(y),
        2 => x / 2.0,
        3 => 1 - x,
        4 => x.pow(y),
        5 => x.maximum(y),
        6 => x.lt(y),
        7 => x.logical_xor(y),
        8 => x.eq(0),
        9 => x.lt(1).where_(x, y),
        10 => x.to_dtype(DType::ALL[rng.below(DType::ALL.len())]),
        11 => x.exp(),
        12 => -x.relu(),
        13 => x.sum(few.as_slice()),
        14 => x.mean(keepdim(few.as_slice())),
        15 => x.max(axis),
        16 => x.min(..),
        17 => x.argmax(axis),
        18 => x.softmax(axis),
        19 => x.log_softmax(axis),
        20 => x.layer_norm(y, y, 1e-5),
        21 => x.matmul(y),
        22 => x.reshape(few),
        23 => x.reshape([-1]),
        24 => x.permute(few),
        25 => x.transpose(axis, int(rng)),
        26 => x.expand(few),
        27 => x.slice((range(axis, int(rng)), step(.., int(rng)))),
        28 => x.slice((Index::Ellipsis, axis, Index::NewAxis)),
        29 => DynTensor::cat([x, y, x], axis),
        30 => x.gather(axis, y),
        31 => x.index_select(axis, y),
        32 => x.one_hot(3),
        33 => x.unsqueeze(axis).squeeze(int(rng)),
        34 => x.chunk(rng.below(4), axis).pop().unwrap_or_else(|| x.clone()),
        _ => x.flatten(axis, int(rng)).var(axis),
    }
}

#[test]
fn random_programs_neither_panic_nor_lie_about_types() {
    let (session, _) = Reference::session();
    let _entered = session.enter();
    let (mut fine, mut failed) = (0, 0);
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let mut pool = vec![
            numbers(6, &[2, 3]),
            DynTensor::randn([3, 2], DType::F64).requires_grad(),
            DynTensor::arange(0, 3, 1, DType::I64),
            DynTensor::scalar(2_i32),
            DynTensor::zeros([0, 2], DType::F16),
            DynTensor::from_slice(&[true, false, true], [3, 1]),
        ];
        for _ in 0..40 {
            let made = random_step(&mut rng, &pool);
            match (made.error(), made.to_host()) {
                (Some(recorded), Err(raised)) => assert_eq!(recorded, raised),
                (Some(error), Ok(_)) => panic!("read in spite of {error}"),
                (None, Ok(data)) => assert_eq!(*data.ty(), made.ty()),
                // Indices out of range, found by the run alone.
                (None, Err(error)) => assert!(error.message().contains("index"), "{error}"),
            }
            assert_eq!(
                made.error().is_some(),
                made.sum(..).error().is_some(),
                "{:?}",
                made.error()
            );
            (fine, failed) =
                if made.error().is_none() { (fine + 1, failed) } else { (fine, failed + 1) };
            if made.error().is_none() && made.numel() < 200 && made.to_host().is_ok() {
                pool.push(made);
            }
        }
        let loss = pool
            .iter()
            .filter(|t| t.is_tracked())
            .fold(DynTensor::scalar(0.0), |sum, t| sum + t.sum(..));
        loss.backward().unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    }
    assert!(fine > 500 && failed > 200, "{fine} fine, {failed} failed");
}
