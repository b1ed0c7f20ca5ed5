//! What PyTorch saved of its layers (`tests/fixtures/make.py`), and comparisons with it.

#![expect(clippy::unwrap_used, reason = "in helpers of tests, whose failures they are")]

use std::path::Path;

use gt::io::pth;
use gt::prelude::*;

use crate::run;

#[track_caller]
pub(crate) fn close(got: &DynTensor, want: &[f64], what: &str) {
    let got = got.to_host().unwrap().to_f64();
    let scale = want.iter().fold(1.0_f64, |most, v| most.max(v.abs()));
    let worst = got.iter().zip(want).map(|(g, w)| (g - w).abs()).fold(0.0, f64::max);
    assert!(got.len() == want.len() && worst <= 1e-5 * scale, "{what}: off by {worst}");
}

/// What PyTorch saved of a case, and the input as a leaf.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) saved: StateDict,
    pub(crate) x: DynTensor,
}

impl Case {
    pub(crate) fn host(&self, what: &str) -> HostTensor {
        self.saved.get(what).unwrap().clone()
    }

    /// A tensor that PyTorch saved.
    pub(crate) fn tensor(&self, what: &str) -> DynTensor {
        DynTensor::from_host(self.host(what))
    }

    pub(crate) fn typed<S: Shape>(&self) -> Tensor<S> {
        Tensor::from_dyn(self.x.clone())
    }

    /// The output, the gradient of the weighted sum by the input, and those by the parameters.
    #[track_caller]
    pub(crate) fn check(&self, y: &DynTensor, layer: Option<&dyn Module>) {
        close(y, &self.host("y").to_f64(), self.name);
        let weights = DynTensor::arange(0, y.numel() as i64, 1, DType::I64).remainder(7);
        y.flatten(0, -1).mul(&weights).sum(..).backward().unwrap();
        close(&self.x.grad().unwrap(), &self.host("dx").to_f64(), &format!("{}, dx", self.name));
        for (parameter, tensor) in layer.map_or(Vec::new(), |layer| layer.named_parameters()) {
            let want = self.host(&format!("grads.{parameter}")).to_f64();
            close(&tensor.grad().unwrap(), &want, &format!("{} {parameter}", self.name));
        }
    }
}

/// A case of a file, checked in a session of its own.
pub(crate) fn case(file: &str, name: &'static str, check: impl FnOnce(&Case)) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(file);
    let saved = pth::load(path).unwrap().part(name);
    run(|| {
        let x = DynTensor::from_host(saved.get("x").unwrap().clone()).requires_grad();
        check(&Case { name, saved, x });
    });
}

/// A layer with the weights that PyTorch saved.
pub(crate) fn loaded<M: Module>(case: &Case, mut layer: M) -> M {
    let state = case.saved.part("state");
    let mut own = StateDict::new();
    let states = ["last", "cell", "again"];
    state
        .iter()
        .filter(|(name, _)| !states.contains(name))
        .for_each(|(n, t)| own.insert(n, t.clone()));
    layer.load_state_dict(&own).unwrap();
    layer
}
