"""Runs PyTorch's samples of operators with the subject and prints the outcomes, one JSON object per
line.

`cargo xtask opinfo` starts this program as `run.py PROGRAM OPTIONS`, where the options are a JSON
object. The first line holds the number of pieces of work. Each piece (an operator, a dtype, a kind)
ends with a line of its counts. Each finding has a line of its own. This program does not know which
differences are intended.
"""

import json
import os
import sys

import torch

from cases import KINDS, OPERATORS, cases, name_of
from compare import difference, same_bits, same_elements
from reference import Reference, truth
from wire import DTYPES, Subject, contents, frame

# The exceptions of PyTorch for calls that it does not compute or differentiate.
REFUSALS = (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError, AssertionError)
# The results that are positions of elements, by operator. Several elements may be equal.
PLACES = {"sort": 1, "argsort": 0, "topk": 1, "median": 1}
# The most axes of a tensor of GT.
MAX_RANK = 8
STAGES = ("result", "gradient", "second gradient")
# The dtypes of reference inputs, which add shapes and values to the samples, not dtypes.
REFERENCE_DTYPES = ("f64", "f32", "bf16", "i64", "u8")


# The numerical libraries write messages to standard output, so answers have a file of their own.
ANSWERS = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def say(**what):
    print(json.dumps(what), file=ANSWERS, flush=True)


class Runner:
    """The subjects, and the comparison of a case."""

    def __init__(self, program, options):
        env = {"GT_CACHE": "off", **options.get("env", {})}
        self.subject = Subject(program, env)
        self.narrow = {
            bits: Subject(program, {**env, "GT_SIMD": bits}) for bits in options["narrow"]
        }

    def order(self, case, dtype_name):
        """The order of differentiation of the case."""
        if ":special:" in case.name or dtype_name in ("bf16", "f16"):
            return 1
        return 2 if dtype_name == "f64" else 1

    def judge(self, case, dtype_name):
        """The outcome of a case, and a description of a finding."""
        if any(t.dim() > MAX_RANK for t in case.tensors()):
            return "absent", f"more than {MAX_RANK} axes"
        order = self.order(case, dtype_name)
        reference, order = referenced(case, order)
        if reference is None:
            return "skipped", None
        gradients = reference.leaves, reference.outer, reference.inner
        sent = frame(name_of(case.op), case.args, case.kwargs, *gradients)
        self.subject.send(sent)
        for subject in self.narrow.values():
            subject.send(sent)
        answer = self.subject.answer()
        narrow = {bits: subject.answer() for bits, subject in self.narrow.items()}
        if answer["status"] != "computed":
            return answer["status"], answer["why"]
        return self.compared(case, reference, answer, narrow)

    def compared(self, case, reference, answer, narrow):
        if answer["plan"]:
            return "plan", answer["plan"]
        for bits, other in narrow.items():
            found = other_bits(answer, other)
            if found:
                return "narrow", f"GT_SIMD={bits}: {found}"
        for stage, ours, theirs in zip(STAGES, answer["values"], reference.values):
            if len(ours) != len(theirs):
                return "differ", f"{len(ours)} {stage}s, PyTorch {len(theirs)}"
            for i, (a, b) in enumerate(zip(ours, theirs)):
                found = self.one(case, reference, stage, i, a, b, answer["random"])
                if found:
                    return "differ", f"{stage} {i}: {found}"
            if stage == "result" and other_places(case, ours, theirs):
                break  # Gradients flow to the positions of the elements.
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

        # Zeros of both signs are equal, so their order is free.
        signs = stage == "result" and (case.op.name not in PLACES or case.kwargs.get("stable"))
        return difference(a, b, at_last, signs)


def other_places(case, ours, theirs):
    """Whether equal elements were taken from different positions."""
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
    """PyTorch's values with all its orders of gradients, or None if it has no results."""
    while order >= 0:
        try:
            return Reference(case, order), order
        except REFUSALS:
            order -= 1
    return None, 0


def told_bits(x, y):
    """The first element whose bits differ, in hexadecimal."""
    size = x.element_size()
    a, b = contents(x), contents(y)
    starts = range(0, min(len(a), len(b)), size)
    at = next((i for i in starts if a[i : i + size] != b[i : i + size]), 0)
    hexes = [data[at : at + size][::-1].hex() for data in (a, b)]
    return f"element {at // size} is {hexes[0]} with the widest vectors, and here {hexes[1]}"


def other_bits(answer, narrow):
    """The place where narrower vectors gave a different answer."""
    if narrow["status"] != "computed":
        return f"{narrow['status']}: {narrow.get('why')}"
    for stage, a, b in zip(STAGES, answer["values"], narrow["values"]):
        for i, (x, y) in enumerate(zip(a, b)):
            if not same_bits(x, y):
                return f"{stage} {i}: {told_bits(x, y)}"
    return None


def has_reference(op, dtype_name):
    """Whether an operator has reference inputs beside its samples."""
    return dtype_name in REFERENCE_DTYPES and op.reference_inputs_func is not None


def pieces(rows, options):
    """The pieces of work: operators, with the dtypes that PyTorch supports and the kinds of samples."""
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
    """Runs one piece of work."""
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
        except Exception as error:  # A failure in one operator's samples must not stop the others.
            op, dtype_name, kind = name_of(piece[0]), piece[1], piece[2]
            case = f"{dtype_name}:{kind}:0"
            say(op=op, case=case, call="", outcome="harness", why=repr(error))
            say(done=op, dtype=dtype_name, kind=kind, counts={"harness": 1})


if __name__ == "__main__":
    main()
