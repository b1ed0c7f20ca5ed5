//! Mistakes: kept in the tensor that they would have made, raised by the next read, with shapes and
//! dtypes and the line of the program.

use super::*;
use crate::Error;

#[track_caller]
fn told(error: Option<Error>, message: &str, hint: Option<&str>) {
    let error = error.unwrap_or_else(|| panic!("no error, but `{message}` was expected"));
    assert_eq!(error.message(), message);
    if let Some(hint) = hint {
        assert!(error.cure().is_some_and(|cure| cure.contains(hint)), "{error}");
    }
    assert!(error.loc().file().ends_with("tests/mistakes.rs"), "{error}");
}

#[test]
fn what_is_no_pair_or_part_is_refused() {
    run(|| {
        let of =
            |sizes: &[usize], dtype| ComplexTensor::from_pairs(&DynTensor::zeros(sizes, dtype));
        let takes = "from_pairs: takes pairs [.., 2] of f32 or f64, but got";
        let z = of(&[4, 3], DType::F32);
        told(z.error(), &format!("{takes} f32[4,3]"), Some("ComplexTensor::new"));
        told(of(&[], DType::F64).error(), &format!("{takes} f64[]"), None);
        told(of(&[4, 2], DType::I64).error(), &format!("{takes} i64[4,2]"), Some("to_dtype"));
        told(of(&[4, 2], DType::Bf16).error(), &format!("{takes} bf16[4,2]"), Some("to_dtype"));
        let (x, y) = (DynTensor::zeros([2], DType::F32), DynTensor::zeros([2], DType::F64));
        let both = ComplexTensor::new(&x, &y);
        told(
            both.error(),
            "complex: takes two parts of f32 or two of f64, but got f32[2] and f64[2]",
            Some("to_dtype"),
        );
        let whole = x.to_dtype(DType::I64);
        let message = "complex: takes two parts of f32 or two of f64, but got i64[2] and i64[2]";
        told(ComplexTensor::new(&whole, &whole).error(), message, None);
        let message = "complex: takes parts whose shapes broadcast, but got f32[2] and f32[3]";
        told(ComplexTensor::new(&x, &DynTensor::zeros([3], DType::F32)).error(), message, None);
        // What carries an error has a shape and a dtype all the same, and hands the error on.
        assert_eq!((both.sizes(), both.dtype()), (vec![2], ComplexDType::C64));
        let later = (both.exp() * 2.0).matmul(&z).sum(..).abs();
        assert_eq!(later.error(), both.error());
        assert_eq!(both.to_vec::<f32>().unwrap_err(), both.error().unwrap());
    });
}

#[test]
fn axes_and_shapes_that_do_not_fit_are_told() {
    run(|| {
        let z = ComplexTensor::zeros([2, 3], ComplexDType::C64);
        for (op, wrong) in [
            ("sum", z.sum(2)),
            ("mean", z.mean(2)),
            ("prod", z.prod(2)),
            ("squeeze", z.squeeze(2)),
            ("flip", z.flip(2)),
            ("transpose", z.transpose(0, 2)),
            ("permute", z.permute([2, 0])),
            ("narrow", z.narrow(2, 0, 1)),
            ("flatten", z.flatten(0, 2)),
            ("cat", ComplexTensor::cat([&z, &z], 2)),
            ("split", z.split(1, 2).remove(0)),
            ("index_select", z.index_select(2, &DynTensor::from([0_i64]))),
        ] {
            let message = format!("{op}: axis 2 is out of range for c64[2,3]");
            told(wrong.error(), &message, Some("axes run from -2 to 1"));
        }
        let message = "unsqueeze: axis 3 is out of range for c64[2,3]";
        told(z.unsqueeze(3).error(), message, Some("from -3 to 2"));
        told(ComplexTensor::stack([&z], 3).error(), &message.replace("unsqueeze", "stack"), None);
        told(z.sum([0, -2]).error(), "sum: axis -2 is listed twice for c64[2,3]", None);
        let message = "permute: [0] is not an order of the axes of c64[2,3]";
        told(z.permute([0]).error(), message, None);
        let message = "slice: 3 indices for c64[2,3], which has 2 axes";
        told(z.slice((0, 0, 0)).error(), message, None);
        told(z.matmul(2.0).error(), "matmul: c64[2,3] and a number", Some("`*`"));
        assert!(ComplexTensor::cat(Vec::<ComplexTensor>::new(), 0).error().is_some());
        let other = ComplexTensor::zeros([4], ComplexDType::C64);
        for wrong in [&z + &other, &z - &other, &z * &other, &z / &other, z.matmul(&other)] {
            let error = wrong.error().unwrap();
            assert!(error.message().contains("[4"), "{error}");
            assert!(error.loc().file().ends_with("tests/mistakes.rs"), "{error}");
        }
        // Every function stands at the line that called it.
        let bad = z.sum(2);
        for wrong in [z.reshape([5]), z.expand([2, 4]), z.narrow(0, 1, 5), z.slice((.., 7))] {
            let error = wrong.error().unwrap();
            assert!(error.loc().file().ends_with("tests/mistakes.rs"), "{error}");
        }
        assert_eq!(bad.prod(..).error(), bad.error());
    });
}

#[test]
fn reads_of_another_type_are_refused() {
    run(|| {
        let z = ComplexTensor::zeros([2], ComplexDType::C64);
        let error = z.to_vec::<f64>().unwrap_err();
        let message = "to_vec: the tensor is c64[2], but c128 was asked for";
        told(Some(error), message, Some("Complex<f32>"));
        let message = "item: needs exactly one element, but the tensor is c64[2]";
        told(z.item().err(), message, Some("to_vec"));
        let few = ComplexTensor::from_vec(vec![c(1., 2.)], [3]);
        assert_eq!(few.sizes(), [3]);
        assert!(few.error().unwrap().loc().file().ends_with("tests/mistakes.rs"));
        assert!(ComplexTensor::zeros([-1], ComplexDType::C64).error().is_some());
        // A batch of pairs has an axis less than a tensor may have.
        let most = [1; gt_ir::shape::MAX_RANK];
        assert!(ComplexTensor::zeros(most, ComplexDType::C64).error().is_some());
    });
}

/// Instructions that a function records stand at the line that calls it.
#[test]
fn instructions_stand_at_the_line_of_the_program() {
    run(|| {
        let session = crate::Session::current().unwrap();
        let z = ComplexTensor::from([c(1., 2.), c(3., 4.)]);
        session.start_trace();
        let w = (&z / &z + z.exp() * z.tanh() - z.sqrt().pow(2.5)).pow(3) / (2.0 - &z);
        let matrix = w.unsqueeze(0).matmul(&z.unsqueeze(1)).squeeze(0).prod(..) * c(1., 2.);
        let last = ComplexTensor::select(&matrix.isfinite(), &matrix, 0.0);
        let all = [last.log().abs(), z.fft().angle(), z.flip(0).eq(&z)];
        let tape = session.stop_trace();
        assert!(tape.instrs().count() > 100);
        for instr in tape.instrs() {
            let file = instr.loc.file();
            assert!(file.ends_with("tests/mistakes.rs"), "{} at {file}", instr.op.name());
        }
        drop(all);
    });
}
