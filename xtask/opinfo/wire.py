"""Sends cases to the subject and reads its answers: the counterpart of src/protocol.rs and
src/arguments.rs.
"""

import json
import os
import select
import struct
import subprocess

import torch

DTYPES = {
    "f64": torch.float64,
    "f32": torch.float32,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "i64": torch.int64,
    "i32": torch.int32,
    "u8": torch.uint8,
    "bool": torch.bool,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
# The longest wait for an answer, longer than any case takes on a busy machine.
PATIENCE_SECONDS = 120


class Gone(Exception):
    """The subject has ended or does not answer."""


def contents(tensor):
    """A tensor's elements in row-major order, as bytes."""
    whole = tensor.detach().resolve_neg().contiguous()
    # A single element may have any stride, which `view` rejects.
    flat = whole.as_strided((whole.numel(),), (1,))
    return flat.view(torch.uint8).numpy().tobytes()


def tensor_of(ty, data):
    """A tensor of this type with these bytes."""
    dtype = DTYPES[ty["dtype"]]
    if not data:
        return torch.empty(ty["shape"], dtype=dtype)
    return torch.frombuffer(bytearray(data), dtype=dtype).reshape(ty["shape"])


class Tensors:
    """The tensors of a case. A tensor that occurs several times is sent once."""

    def __init__(self):
        self.all = []

    def number(self, tensor):
        for i, other in enumerate(self.all):
            if other is tensor:
                return i
        self.all.append(tensor)
        return len(self.all) - 1

    def value(self, value):
        """An argument as JSON."""
        if isinstance(value, torch.Tensor):
            known = value.dtype in NAMES and value.layout == torch.strided
            return {"t": self.number(value)} if known else {"x": f"a tensor of {value.dtype}"}
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, int):
            return value if abs(value) < 2**63 else {"x": "a large integer"}
        if isinstance(value, float):
            return {"f": repr(value)}
        if isinstance(value, torch.dtype):
            return {"d": NAMES[value]} if value in NAMES else {"x": str(value)}
        if isinstance(value, slice):
            return {"s": [value.start, value.stop, value.step]}
        if value is Ellipsis:
            return {"e": True}
        if isinstance(value, (list, tuple)):
            return [self.value(one) for one in value]
        # The memory format changes no result.
        if isinstance(value, (torch.memory_format, torch.layout)):
            return None
        return {"x": type(value).__name__}


def frame(op, args, kwargs, leaves, outer, inner):
    """A case as bytes."""
    tensors = Tensors()
    head = {
        "op": op,
        "args": [tensors.value(arg) for arg in args],
        "kwargs": {name: tensors.value(value) for name, value in kwargs.items()},
        "leaves": [tensors.number(leaf) for leaf in leaves],
        "outer": [None if g is None else tensors.number(g) for g in outer],
        "inner": [None if g is None else tensors.number(g) for g in inner],
    }
    head["tensors"] = [{"dtype": NAMES[t.dtype], "shape": list(t.shape)} for t in tensors.all]
    text = json.dumps(head).encode()
    return b"".join([struct.pack("<I", len(text)), text, *map(contents, tensors.all)])


class Subject:
    """A running subject, which is restarted when it has ended."""

    def __init__(self, program, env):
        self.program, self.env = program, {**os.environ, **env}
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            [self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self.env, bufsize=0
        )
        self.rows = self.head()["rows"]

    def take(self, n):
        """The next n bytes."""
        parts = []
        while n:
            ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE_SECONDS)
            part = os.read(self.process.stdout.fileno(), min(n, 1 << 20)) if ready else b""
            if not part:
                raise Gone("it does not answer" if not ready else "it ended")
            parts.append(part)
            n -= len(part)
        return b"".join(parts)

    def head(self):
        return json.loads(self.take(struct.unpack("<I", self.take(4))[0]))

    def send(self, case):
        """Sends a case. An error is raised when the answer is read."""
        try:
            view = memoryview(case)
            while view:
                view = view[self.process.stdin.write(view) :]
        except OSError:
            pass

    def answer(self):
        """The answer, with tensors in place of their types."""
        try:
            answer = self.head()
            for values in answer.get("values", []):
                for i, ty in enumerate(values):
                    numel = torch.Size(ty["shape"]).numel()
                    values[i] = tensor_of(ty, self.take(numel * DTYPES[ty["dtype"]].itemsize))
            return answer
        except Gone as gone:
            self.process.kill()
            self.process.wait()
            why = f"{gone} (status {self.process.returncode})"
            self.start()
            return {"status": "crash", "why": why}
