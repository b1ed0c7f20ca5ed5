"""Runs PyTorch's samples of operators against the subject and prints what became of each, a JSON
object a line.

Started by `cargo xtask opinfo`, which says what to run: `run.py PROGRAM OPTIONS`, the options being
a JSON object. The first line says how many pieces of work there are; each piece (an operator, a
dtype, a kind) ends with a line of its counts. What is not as it should be has a line of its own.
Nothing here knows which differences are intended.
"""

import json
import sys

import torch

from cases import KINDS, OPERATORS, cases, name_of
from compare import difference, same_bits, same_elements
from reference import Reference, truth
from wire import DTYPES, Subject, contents, frame

# What PyTorch raises where it computes nothing, or has no gradient.
REFUSALS = (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError, AssertionError)
# Which result of an operator is positions of elements, of which several may be equal.
PLACES = {"sort": 1, "argsort": 0, "topk": 1, "median": 1}
# Axes that a tensor of GT may have.
MAX_RANK = 8
STAGES = ("result", "gradient", "second gradient")
# Reference inputs in so many dtypes: what they add to samples are shapes and values, not dtypes.
REFERENCE_DTYPES = ("f64", "f32", "bf16", "i64", "u8")


def say(**what):
    print(json.dumps(what), flush=True)


class Runner:
    """The subjects, and what is compared with what."""

    def __init__(self, program, options):
        env = {"GT_CACHE": "off", **options.get("env", {})}
        self.subject = Subject(program, env)
        self.narrow = None
        if options["narrow"]:
            self.narrow = Subject(program, {**env, "GT_SIMD": "128"})

    def order(self, case, dtype_name):
        """How often the case is differentiated."""
        if ":special:" in case.name or dtype_name in ("bf16", "f16"):
            return 1
        return 2 if dtype_name == "f64" else 1

    def judge(self, case, dtype_name):
        """What became of a case: an outcome, and where something is to be said, what."""
        if any(t.dim() > MAX_RANK for t in case.tensors()):
            return "absent", f"more than {MAX_RANK} axes"
        order = self.order(case, dtype_name)
        reference, order = referenced(case, order)
        if reference is None:
            return "skipped", None
        gradients = reference.leaves, reference.outer, reference.inner
        sent = frame(name_of(case.op), case.args, case.kwargs, *gradients)
        self.subject.send(sent)
        if self.narrow:
            self.narrow.send(sent)
        answer = self.subject.answer()
        narrow = self.narrow.answer() if self.narrow else None
        if answer["status"] != "computed":
            return answer["status"], answer["why"]
        return self.compared(case, reference, answer, narrow)

    def compared(self, case, reference, answer, narrow):
        if answer["plan"]:
            return "plan", answer["plan"]
        if narrow is not None:
            found = other_bits(answer, narrow)
            if found:
                return "narrow", found
        for stage, ours, theirs in zip(STAGES, answer["values"], reference.values):
            if len(ours) != len(theirs):
                return "differ", f"{len(ours)} {stage}s, PyTorch {len(theirs)}"
            for i, (a, b) in enumerate(zip(ours, theirs)):
                found = self.one(case, reference, stage, i, a, b, answer["random"])
                if found:
                    return "differ", f"{stage} {i}: {found}"
            if stage == "result" and other_places(case, ours, theirs):
                break  # Gradients go to where the elements were taken from.
        return "agree", None

    def one(self, case, reference, stage, i, a, b, is_random):
        if is_random:
            a = b.clone() if (a.dtype, a.shape) == (b.dtype, b.shape) else a
        if stage == "result" and same_places(case, i, a, b):
            return None
        exact = []

        def at_last():
            if not exact:
                exact.append(truth(case, reference))
            values = exact[0] and exact[0][STAGES.index(stage)]
            return values[i] if values and i < len(values) else None

        # Zeros of both signs are equal, and so may stand in any order.
        signs = stage == "result" and (case.op.name not in PLACES or case.kwargs.get("stable"))
        return difference(a, b, at_last, signs)


def other_places(case, ours, theirs):
    """Whether equal elements were taken from other positions."""
    i = PLACES.get(case.op.name)
    return i is not None and i < len(ours) and not torch.equal(ours[i], theirs[i])


def same_places(case, i, ours, theirs):
    """Whether an operator that gives positions gave others of equal elements, where it promises
    none of them.
    """
    if PLACES.get(case.op.name) != i or case.kwargs.get("stable"):
        return False
    x, rest = case.args[0], [a for a in case.args[1:] if not isinstance(a, bool)]
    dims = rest[1:] if case.op.name == "topk" else rest
    dim = case.kwargs.get("dim", dims[0] if dims else -1)
    if not x.dim() or ours.dim() not in (x.dim(), x.dim() - 1) or not isinstance(dim, int):
        return False
    if ours.dim() < x.dim():
        ours, theirs = ours.unsqueeze(dim), theirs.unsqueeze(dim)
    return same_elements(x, dim, ours, theirs)


def referenced(case, order):
    """PyTorch's values, with as many gradients as it has; None where it has no results."""
    while order >= 0:
        try:
            return Reference(case, order), order
        except REFUSALS:
            order -= 1
    return None, 0


def told_bits(x, y):
    """The first elements whose bits differ, in hexadecimal."""
    size = x.element_size()
    a, b = contents(x), contents(y)
    starts = range(0, min(len(a), len(b)), size)
    at = next((i for i in starts if a[i : i + size] != b[i : i + size]), 0)
    hexes = [data[at : at + size][::-1].hex() for data in (a, b)]
    return f"element {at // size} is {hexes[0]} with wide vectors, {hexes[1]} with GT_SIMD=128"


def other_bits(answer, narrow):
    """Where 128-bit vectors gave another answer."""
    if narrow["status"] != "computed":
        return f"{narrow['status']}: {narrow.get('why')}"
    for stage, a, b in zip(STAGES, answer["values"], narrow["values"]):
        for i, (x, y) in enumerate(zip(a, b)):
            if not same_bits(x, y):
                return f"{stage} {i}: {told_bits(x, y)}"
    return None


def has_reference(op, dtype_name):
    """Whether an operator has reference inputs that are not its samples."""
    return dtype_name in REFERENCE_DTYPES and op.reference_inputs_func is not None


def pieces(rows, options):
    """The work: operators with the dtypes PyTorch has them for, and kinds of samples."""
    wanted = options["ops"] or rows
    for name in wanted:
        op = OPERATORS.get(name)
        if op is None:
            continue
        for dtype_name, dtype in DTYPES.items():
            for kind in KINDS:
                if dtype not in op.dtypes or kind not in options["kinds"]:
                    continue
                if options.get("dtype") not in (None, dtype_name):
                    continue
                if kind == "reference" and not has_reference(op, dtype_name):
                    continue
                yield op, dtype_name, kind


def work(runner, piece, options):
    """One piece of work."""
    op, dtype_name, kind = piece
    counts = {}
    only = options.get("only")
    for case in cases(op, dtype_name, kind, options["most"][kind], only):
        outcome, why = runner.judge(case, dtype_name)
        counts[outcome] = counts.get(outcome, 0) + 1
        if outcome not in ("agree", "skipped"):
            say(op=name_of(op), case=case.name, call=case.told(), outcome=outcome, why=why)
    say(done=name_of(op), dtype=dtype_name, kind=kind, counts=counts)


def main():
    program, options = sys.argv[1], json.loads(sys.argv[2])
    torch.set_num_threads(1)
    runner = Runner(program, options)
    rows = runner.subject.rows
    todo = list(pieces(rows, options))[options["shard"] :: options["shards"]]
    missing = [name for name in rows if name not in OPERATORS]
    say(pieces=len(todo), unknown=missing, not_in_gt=sorted(set(OPERATORS) - set(rows)))
    for piece in todo:
        try:
            work(runner, piece, options)
        except Exception as error:  # One operator's samples must not end the others'.
            op, dtype_name, kind = name_of(piece[0]), piece[1], piece[2]
            case = f"{dtype_name}:{kind}:0"
            say(op=op, case=case, call="", outcome="harness", why=repr(error))
            say(done=op, dtype=dtype_name, kind=kind, counts={"harness": 1})


if __name__ == "__main__":
    main()
