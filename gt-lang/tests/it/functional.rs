//! Models as functions of their parameters.

use gt::nn::functional_call;
use gt::prelude::*;

use crate::run;

#[derive(Module)]
struct Net {
    first: Linear<N<3>, N<4>>,
    second: Linear<N<4>, N<1>>,
}

impl Net {
    fn loss(&self, x: &T![5, 3]) -> DynTensor {
        seq!(x => self.first, Tanh, self.second).as_dyn().square().mean(..)
    }
}

/// A net, another of the same state, an input, and a tensor in the place of a weight.
fn start() -> (Net, Net, T![5, 3], DynTensor) {
    let (net, mut other) = (Net::new(), Net::new());
    other.load_state_dict(&net.state_dict().expect("a state")).expect("the same model");
    let weight = (net.first.weight.as_dyn().detach() * 2.0).requires_grad();
    no_grad(|| other.first.weight.as_dyn().assign(&weight)).expect("the same shape");
    (net, other, Tensor::randn(), weight)
}

fn numbers(x: &DynTensor) -> Vec<f32> {
    x.to_vec().expect("a value")
}

fn slope(x: &DynTensor) -> Vec<f32> {
    numbers(&x.grad().expect("a gradient"))
}

#[test]
fn tensors_stand_for_parameters_until_the_call_ends() {
    run(|| {
        let (net, other, x, weight) = start();
        let plain = numbers(&net.loss(&x));
        let named = [("first.weight", weight.clone())];
        let changed = functional_call(&net, named, || net.loss(&x)).unwrap();
        assert_eq!(numbers(&changed), numbers(&other.loss(&x)));
        assert_eq!(numbers(&net.loss(&x)), plain, "afterwards");
        changed.backward().unwrap();
        other.loss(&x).backward().unwrap();
        assert_eq!(slope(&weight), slope(other.first.weight.as_dyn()));
        assert!(net.first.weight.grad().is_none(), "the gradient goes to the tensor");
        assert_eq!(slope(net.second.weight.as_dyn()), slope(other.second.weight.as_dyn()));
    });
}

/// Functions with gradients by hand, and what is computed again, keep what stood for a leaf.
#[test]
fn what_runs_later_sees_the_same_tensors() {
    run(|| {
        let (net, other, x, weight) = start();
        let loss = |net: &Net| {
            let scale = net.first.weight.as_dyn().asinh().sum(..);
            let bias = net.first.bias.as_ref().expect("a bias").as_dyn().clone();
            let w = net.first.weight.as_dyn().clone();
            let again = move |x: &[DynTensor]| x[0].matmul(&w.t()).add(&bias).tanh();
            autograd::checkpoint(again, &[x.as_dyn()]).sum(..) * scale
        };
        let named = [("first.weight", weight.clone())];
        functional_call(&net, named, || loss(&net)).unwrap().backward().unwrap();
        loss(&other).backward().unwrap();
        assert_eq!(slope(&weight), slope(other.first.weight.as_dyn()));
        assert!(net.first.weight.grad().is_none());
    });
}

#[test]
fn models_lie_side_by_side() {
    run(|| {
        let (net, other, x, _) = start();
        let name = "first.weight";
        let both = {
            let of = |net: &Net| net.first.weight.as_dyn().detach();
            DynTensor::stack([of(&net), of(&other)], 0)
        };
        let one = |w: &[DynTensor]| functional_call(&net, [(name, w[0].clone())], || net.loss(&x));
        let losses = numbers(&autograd::vmap(one, &[&both]).unwrap());
        let each = [numbers(&net.loss(&x)), numbers(&other.loss(&x))].concat();
        let near = losses.iter().zip(&each).all(|(a, b)| (a - b).abs() < 1e-6);
        assert!(near && losses[0] != losses[1], "{losses:?} {each:?}");
        // A step inside of a loss (MAML), which has a gradient by the first parameters.
        let start = net.first.weight.as_dyn().detach().requires_grad();
        let at = |w: &DynTensor| functional_call(&net, [(name, w.clone())], || net.loss(&x));
        let first = at(&start).unwrap();
        let graph = autograd::Graph::Create;
        let step = autograd::grad_with(&first, None, &[&start], graph).unwrap().remove(0);
        let after = at(&(&start - step * 0.1)).unwrap();
        after.backward().unwrap();
        assert!(slope(&start).iter().any(|g| *g != 0.0));
        let (first, after) = (first.item().unwrap(), after.item().unwrap());
        assert!(after < first, "{after} {first}");
    });
}

#[test]
fn wrong_names_and_shapes_are_told() {
    run(|| {
        let (net, _, x, weight) = start();
        let call = |name: &str, tensor: &DynTensor| {
            functional_call(&net, [(name, tensor.clone())], || net.loss(&x)).unwrap_err()
        };
        let error = call("first.wieght", &weight);
        let told = "functional_call: the model has no parameter `first.wieght`";
        assert_eq!((error.message(), error.cure()), (told, Some("did you mean `first.weight`?")));
        let error = call("first.weight", &weight.t());
        let told = "functional_call: `first.weight` is f32[4,3], but f32[3,4] is to stand for it";
        assert_eq!(error.message(), told);
        assert_eq!(error.loc().file(), file!());
    });
}
