//! Metrics against their definitions, counted by hand.

use gt::metrics::*;
use gt::prelude::*;

use crate::run;

fn list(x: &DynTensor) -> Vec<f64> {
    x.to_dtype(DType::F64).to_vec().expect("the metric can be computed")
}

#[test]
fn classes_are_counted() {
    run(|| {
        let scores = DynTensor::from([
            [0.1f32, 0.7, 0.2],
            [0.5, 0.3, 0.2],
            [0.2, 0.3, 0.5],
            [0.4, 0.35, 0.25],
        ])
        .requires_grad();
        let labels = DynTensor::from([1i64, 0, 0, 1]);
        let share = accuracy(&scores, &labels);
        assert!(!share.is_tracked());
        assert_eq!(list(&share), [0.5]);
        assert_eq!(list(&top_k_accuracy(&scores, &labels, 2)), [0.75]);
        let predicted = scores.argmax(-1); // 1 0 2 0
        let matrix = confusion_matrix(&predicted, &labels, 4);
        assert_eq!(list(&matrix.slice(..2)), [1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0]);
        assert_eq!(list(&matrix.sum(..)), [4.0]);
        // Precision and recall of classes 0 and 1 are (1/2, 1/2) and (1, 1/2).
        let scores = list(&f1(&predicted, &labels, 4));
        let want = [0.5, 2.0 / 3.0, 0.0, 0.0];
        assert!(scores.iter().zip(want).all(|(g, w)| (g - w).abs() < 1e-6), "{scores:?}");
        let even = perplexity(&DynTensor::from(8.0f64.ln()));
        assert!((list(&even)[0] - 8.0).abs() < 1e-12);
    });
}

/// Every pair of a positive and a negative, compared.
#[test]
fn the_area_is_the_share_of_pairs_in_order() {
    run(|| {
        let scores = [0.1f32, 0.4, 0.35, 0.8, 0.4, 0.4, 0.9, 0.35];
        let labels = [0i64, 0, 1, 1, 1, 0, 0, 0];
        let of = |wanted: i64| {
            let pairs = scores.iter().zip(labels).filter(move |(_, label)| *label == wanted);
            pairs.map(|(score, _)| *score).collect::<Vec<f32>>()
        };
        let pairs: Vec<f64> = of(1)
            .iter()
            .flat_map(|p| {
                let order = move |n: &f32| match p.partial_cmp(n) {
                    Some(std::cmp::Ordering::Greater) => 1.0,
                    Some(std::cmp::Ordering::Equal) => 0.5,
                    _ => 0.0,
                };
                of(0).iter().map(order).collect::<Vec<f64>>()
            })
            .collect();
        let want = pairs.iter().sum::<f64>() / pairs.len() as f64;
        let area = roc_auc(&DynTensor::from(scores), &DynTensor::from(labels));
        assert!((list(&area)[0] - want).abs() < 1e-6, "{area} {want}");
        let one_kind = roc_auc(&DynTensor::from(scores), &DynTensor::zeros([8], DType::I64));
        assert!(list(&one_kind)[0].is_nan());
    });
}

/// Small integers do not wrap, and what is no class is counted nowhere.
#[test]
fn labels_are_classes() {
    run(|| {
        let (predicted, labels) = (DynTensor::from([18u8, 19]), DynTensor::from([19u8, 19]));
        let matrix = confusion_matrix(&predicted, &labels, 20);
        assert_eq!(list(&matrix.slice((19, 18..))), [1.0, 1.0]);
        let four = DynTensor::from([0i64, 4]);
        let three = DynTensor::from([0i64, 3]);
        let minus = DynTensor::from([0i64, -1]);
        for (predicted, labels) in [(&four, &three), (&three, &four), (&minus, &three)] {
            assert!(confusion_matrix(predicted, labels, 4).to_vec::<i64>().is_err());
        }
    });
}

#[test]
fn there_is_a_label_for_each_prediction() {
    run(|| {
        let (scores, labels) =
            (DynTensor::zeros([8, 4], DType::F32), DynTensor::zeros([8, 1], DType::I64));
        let message = |x: DynTensor| x.error().unwrap().message().to_owned();
        assert_eq!(
            message(accuracy(&scores, &labels)),
            "accuracy: the labels are i64[8,1], for f32[8,4]"
        );
        assert!(message(top_k_accuracy(&scores, &labels, 2)).starts_with("top_k_accuracy: "));
        let classes = labels.squeeze(-1);
        assert!(message(confusion_matrix(&classes, &labels, 4)).starts_with("confusion_matrix: "));
        assert!(message(f1(&classes, &labels, 4)).starts_with("confusion_matrix: "));
        assert!(message(roc_auc(&scores.slice((.., 0)), &labels)).starts_with("roc_auc: "));
        assert_eq!(list(&accuracy(&scores, &classes)), [1.0]);
        let unsure = DynTensor::from([0.5f32, f32::NAN, 0.1]);
        assert!(list(&roc_auc(&unsure, &DynTensor::from([1i64, 0, 0])))[0].is_nan());
    });
}
