"""PyTorch's samples of an operator as cases. A case is a call with its arguments, and has a name.

The name is DTYPE:KIND:NUMBER. The kind `sample` means OpInfo's samples, and `reference` its reference
inputs (more and larger shapes, extremal values). The kind `special` is GT's own: infinities, NaN,
zeros of both signs and subnormal numbers replace the elements of a sample.
"""

import itertools
import random
import warnings
import zlib

import numpy
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import BinaryUfuncInfo, SampleInput, UnaryUfuncInfo

from wire import DTYPES

warnings.filterwarnings("ignore")
KINDS = ("sample", "reference", "special")
NAN, INF = float("nan"), float("inf")
ZEROS = [-0.0, 0.0, 1.0, -1.0, 0.5]
# The most elements of a case, and of a case in f32, which also tests large tensors.
MAX_ELEMENTS, MAX_OF_F32 = 1 << 16, 1 << 21


def name_of(op):
    return f"{op.name}/{op.variant_test_name}" if op.variant_test_name else op.name


OPERATORS = {name_of(op): op for op in reversed(op_db)}


def seed(text):
    """Seeds every generator by a name, so that random numbers depend on this name only."""
    number = zlib.crc32(text.encode())
    torch.manual_seed(number)
    random.seed(number)
    numpy.random.seed(number)


def mapped(value, change):
    """A value with `change` applied to every tensor in it."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, dict):
        return {name: mapped(one, change) for name, one in value.items()}
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        return type(value)([mapped(one, change) for one in value])
    return value


def tensors_in(value):
    """The distinct tensors in a value."""
    found = []

    def note(tensor):
        if not any(tensor is other for other in found):
            found.append(tensor)
        return tensor

    mapped(value, note)
    return found


def unsigned_svd(usv):
    u, s, vh = usv
    k = s.shape[-1]
    return u[..., :k].abs(), s, vh[..., :k, :].abs()


# The results that rows of these operators return. The signs of vectors are arbitrary, as are all
# vectors without a value; PyTorch's own tests compare absolute values as well.
RESULTS = {
    "linalg.eigh": lambda results: (results[0], results[1].abs()),
    "linalg.svd": unsigned_svd,
    "linalg.lstsq/grad_oriented": lambda results: results[0],
    "fft.fft": torch.view_as_real,
    "fft.ifft": torch.view_as_real,
    "fft.rfft": torch.view_as_real,
}


class Case:
    """An operator with arguments."""

    def __init__(self, op, name, sample):
        self.op, self.name = op, name
        self.args = mapped([sample.input, *sample.args], fresh)
        if self.op.name == "__getitem__":
            self.args = [self.args[0], as_index(self.args[1])]
        self.kwargs = mapped(dict(sample.kwargs), fresh)
        if self.op.name in ("linalg.eigh", "linalg.eigvalsh"):
            self.kwargs["UPLO"] = "L"  # The triangle that GT reads.

    def tensors(self):
        return tensors_in([self.args, self.kwargs])

    def with_tensors(self, change):
        """The same call with other tensors."""
        other = object.__new__(Case)
        other.op, other.name = self.op, self.name
        changed = {id(t): change(t) for t in self.tensors()}
        other.args = mapped(self.args, lambda t: changed[id(t)])
        other.kwargs = mapped(self.kwargs, lambda t: changed[id(t)])
        return other

    def call(self):
        """PyTorch's results."""
        results = self.op(*self.args, **self.kwargs)
        return RESULTS.get(name_of(self.op), lambda plain: plain)(results)

    def told(self):
        """The call as a line of text."""
        args = [told(arg) for arg in self.args]
        return ", ".join(args + [f"{name}={told(value)}" for name, value in self.kwargs.items()])


def as_index(index):
    """An index with tensors in place of lists of positions, because JSON does not distinguish lists
    from tuples.
    """
    if isinstance(index, list):
        return torch.tensor(index)
    return tuple(map(as_index, index)) if isinstance(index, tuple) else index


def fresh(tensor):
    return tensor.detach().requires_grad_(tensor.requires_grad)


def told(value):
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype)[6:]}{list(value.shape)}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(told, value)) + "]"
    return repr(value)


def samples(op, dtype_name, kind):
    """All samples of a kind."""
    dtype = DTYPES[dtype_name]
    seed(f"{name_of(op)}:{dtype_name}:{kind}")
    gradients = dtype.is_floating_point and dtype in op.supported_backward_dtypes("cpu")
    gradients = gradients and op.supports_autograd
    if kind == "special":
        return special(op, dtype, gradients)
    make = op.sample_inputs if kind == "sample" else op.reference_inputs
    try:
        return list(itertools.islice(make("cpu", dtype, requires_grad=gradients), 4000))
    except ValueError:  # Some operators request gradients of integers.
        return itertools.islice(make("cpu", dtype, requires_grad=False), 4000)


def cases(op, dtype_name, kind, most, only=None):
    """Up to `most` cases of a kind, evenly spaced among all cases, or the case `only`."""
    found, bound = [], MAX_OF_F32 if dtype_name == "f32" else MAX_ELEMENTS
    for i, sample in enumerate(samples(op, dtype_name, kind)):
        if only is not None and i != only:
            continue
        case = Case(op, f"{dtype_name}:{kind}:{i}", sample)
        if sum(t.numel() for t in case.tensors()) <= bound:
            found.append(case)
    step = max(1, -(-len(found) // most))
    return found[::step]


def edges(dtype):
    """The special numbers of a dtype."""
    if dtype.is_floating_point:
        info = torch.finfo(dtype)
        tiny = info.smallest_normal
        return [NAN, INF, -INF, *ZEROS, -0.5, 2.0, tiny / 4, -tiny / 4, info.max, -info.max, 1e-3]
    if dtype == torch.bool:
        return [False, True]
    # The division of the smallest integer by -1 would crash the process.
    info = torch.iinfo(dtype)
    return [info.min, info.max, 0, 1, 2, 7, info.max // 2] + ([-7, -2] if info.min else [])


def special(op, dtype, gradients):
    """Samples with special numbers."""
    usual = list(itertools.islice(op.sample_inputs("cpu", dtype), 200))
    if isinstance(op, (UnaryUfuncInfo, BinaryUfuncInfo)):
        yield from grid(op, dtype, usual, gradients)
    elif dtype.is_floating_point:
        few = [s for s in usual if any(t.numel() for t in tensors_in([s.input, s.args]))][::7][:4]
        for sample, values in itertools.product(few, ([NAN, None, None], [INF, None], ZEROS)):
            yield sprinkled(sample, values)


def grid(op, dtype, usual, gradients):
    """All special numbers, or all pairs of them for a binary operator."""
    numbers = torch.tensor(edges(dtype), dtype=dtype)
    kwargs = usual[0].kwargs if usual else {}
    if isinstance(op, UnaryUfuncInfo):
        rest = usual[0].args if usual else ()
        yield SampleInput(numbers.requires_grad_(gradients), args=rest, kwargs=kwargs)
        return
    n = len(numbers)
    left = numbers.repeat_interleave(n).requires_grad_(gradients)
    right = numbers.repeat(n).requires_grad_(gradients)
    yield SampleInput(left, args=(right,), kwargs=kwargs)


def sprinkled(sample, values):
    """A sample with some elements replaced."""

    def change(tensor):
        if not tensor.dtype.is_floating_point:
            return tensor
        flat = tensor.detach().clone().reshape(-1)
        for i, value in enumerate(values):
            if value is not None:
                flat[i :: len(values)] = value
        return flat.reshape(tensor.shape)

    return SampleInput(
        mapped(sample.input, change), args=mapped(sample.args, change), kwargs=sample.kwargs
    )
