//! Tensors as text: PyTorch's layout, read at its edges only where it is long.

use gt_ir::DType;

use super::numbers;
use crate::core::*;
use crate::reference::Reference;

#[test]
fn printing_is_pytorchs() {
    let check = |x: DynTensor, want: &str| assert_eq!(x.to_string(), want);
    let matrix = DynTensor::from_slice(&[0.1234567_f32, -1.0, 12.5, 3.0], [2, 2]);
    check(matrix.clone(), "tensor([[ 0.1235, -1.0000],\n        [12.5000,  3.0000]])");
    check(numbers(3, &[3]), "tensor([0., 1., 2.])");
    check(DynTensor::scalar(1.5_f32), "tensor(1.5000)");
    check(DynTensor::scalar(7_i64), "tensor(7)");
    check(DynTensor::from_slice(&[1_i32, -10], [2]), "tensor([  1, -10], dtype=i32)");
    check(DynTensor::from_slice(&[true, false], [2]), "tensor([ True, False])");
    check(
        DynTensor::from_slice(&[1.0_f64, f64::NAN, f64::NEG_INFINITY], [3]),
        "tensor([1., nan, -inf], dtype=f64)",
    );
    check(DynTensor::from_slice(&[1e-5_f32, 1.0], [2]), "tensor([1.0000e-05, 1.0000e+00])");
    check(DynTensor::from_slice(&[1.5_f32, 123_456.0], [2]), "tensor([1.5000e+00, 1.2346e+05])");
    check(DynTensor::zeros([0, 3], DType::F32), "tensor([], size=(0, 3))");
    check(DynTensor::zeros([0], DType::I64), "tensor([], dtype=i64)");
    check(DynTensor::ones([2], DType::F32).requires_grad(), "tensor([1., 1.], requires_grad=true)");
    check(
        DynTensor::ones([2], DType::F32).requires_grad() * 2.0,
        "tensor([2., 2.], grad_fn=<mul>)",
    );
    check(numbers(4, &[2, 1, 2]), "tensor([[[0., 1.]],\n\n        [[2., 3.]]])");
    check(
        DynTensor::arange(0, 2000, 1, DType::I64),
        "tensor([   0,    1,    2,  ..., 1997, 1998, 1999])",
    );
    let wide = DynTensor::arange(0, 20, 1, DType::F32).mul(1.5);
    let rows = "tensor([ \
         0.0000,  1.5000,  3.0000,  4.5000,  6.0000,  7.5000,  9.0000, 10.5000,\n        \
         12.0000, 13.5000, 15.0000, 16.5000, 18.0000, 19.5000, 21.0000, 22.5000,\n        \
         24.0000, 25.5000, 27.0000, 28.5000])";
    check(wide, rows);
    let tall = DynTensor::zeros([1000, 2], DType::F32);
    let row = "        [0., 0.],\n";
    let (first, last) = ("tensor([[0., 0.],\n", "        [0., 0.]])");
    check(tall, &format!("{first}{row}{row}        ...,\n{row}{row}{last}"));
    assert_eq!(format!("{:?}", DynTensor::scalar(1_i64)), "tensor(1)");
    let bad = numbers(2, &[2]).sum(3).to_string();
    assert!(bad.starts_with("tensor(<error: sum: axis 3 is out of range for f32[2]"), "{bad}");
}

#[test]
fn printing_a_large_tensor_reads_its_edges_only() {
    let (session, _) = Reference::session();
    let _entered = session.enter();
    let x = DynTensor::zeros([100, 100], DType::F32);
    assert!(x.to_string().contains("..."));
    let total = session.stats().unwrap().total();
    assert_eq!(total.bytes_out, 6 * 6 * 4);
}
