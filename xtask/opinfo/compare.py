"""Compares two tensors, and finds the first element that differs.

Integers and booleans must be equal. Floats must be within the tolerances of PyTorch's own tests, or
at most twice as far from the value in double precision as PyTorch's, because another order of
rounding is not a difference. NaN equals NaN. Zeros must have PyTorch's sign if PyTorch gives the same
sign in double precision.
"""

import torch

# The tolerances of torch.testing.assert_close.
TOLERANCES = {
    torch.float64: (1e-7, 1e-7),
    torch.float32: (1.3e-6, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float16: (1e-3, 1e-5),
}


def shown(tensor, at):
    return repr(tensor.reshape(-1)[at].item())


def place(tensor, at):
    """The indices of an element."""
    indices = []
    for size in reversed(tensor.shape):
        indices.insert(0, at % size)
        at //= size
    return indices


def told(what, ours, theirs, wrong):
    """A description of a difference: the number of elements, the first of them, and both values."""
    at = int(wrong.reshape(-1).nonzero()[0])
    many = f"{int(wrong.sum())} of {wrong.numel()}"
    where = place(theirs, at)
    return f"{what} in {many}: at {where} {shown(ours, at)}, PyTorch {shown(theirs, at)}"


def difference(ours, theirs, exact, signs):
    """The difference of GT's tensor from PyTorch's, or None. `exact()` is the value in
    double precision, or None.
    """
    if ours.dtype != theirs.dtype:
        return f"dtype {str(ours.dtype)[6:]}, PyTorch {str(theirs.dtype)[6:]}"
    if ours.shape != theirs.shape:
        return f"shape {list(ours.shape)}, PyTorch {list(theirs.shape)}"
    if not theirs.dtype.is_floating_point:
        wrong = ours != theirs
        return told("values", ours, theirs, wrong) if wrong.any() else None
    a, b = ours.double(), theirs.double()
    relative, absolute = TOLERANCES[theirs.dtype]
    near = (a == b) | (a.isnan() & b.isnan())
    near |= (a - b).abs() <= absolute + relative * b.abs()
    near &= a.isfinite() == b.isfinite()
    if not near.all():
        near |= as_near(a, b, exact(), absolute, relative, theirs.dtype)
    if not near.all():
        return told("values", ours, theirs, ~near)
    return zeros(ours, theirs, exact) if signs else None


def as_near(a, b, exact, absolute, relative, dtype):
    """The elements of a that are about as near to the exact values as b, or the same infinity or NaN."""
    if exact is None or exact.shape != a.shape or not exact.dtype.is_floating_point:
        return torch.zeros_like(a, dtype=torch.bool)
    theirs = (b - exact).abs()
    usual = theirs[theirs.isfinite()]
    slack = absolute + relative * exact.abs() + 2 * (usual.max() if usual.numel() else 0)
    finite = a.isfinite() & b.isfinite() & exact.isfinite()
    rounded = exact.to(dtype).double()
    same = (a == rounded) | (a.isnan() & rounded.isnan())
    return same | finite & ((a - exact).abs() <= slack)


def zeros(ours, theirs, exact):
    """Zeros of the other sign, where PyTorch has the same sign in double precision."""
    wrong = (ours == 0) & (theirs == 0) & (ours.signbit() != theirs.signbit())
    if not wrong.any():
        return None
    sure = exact()
    if sure is None or sure.shape != theirs.shape:
        return None
    wrong &= (sure == 0) & (sure.signbit() == theirs.signbit())
    return told("signs of zero", ours, theirs, wrong) if wrong.any() else None


def same_elements(x, dim, ours, theirs):
    """Whether different positions hold equal elements. PyTorch does not specify the order of equal elements."""
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype or not x.dim():
        return False
    a, b = (x.detach().gather(dim, places) for places in (ours, theirs))
    return bool(((a == b) | (a != a) & (b != b)).all())


def same_bits(a, b):
    """Whether two answers of GT have the same bits. All NaN count as equal."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.is_floating_point():
        a, b = (x.masked_fill(x.isnan(), float("nan")) for x in (a, b))
    return torch.equal(bits(a), bits(b))


def bits(tensor):
    return tensor.contiguous().reshape(-1).view(torch.uint8)
