"""PyTorch's side of `cargo xtask bench --ops`: expressions measured one after another in one process, on request.

Each line of standard input is an object. `{"code": expression, "inputs": {name: [dtype, shape]}, "below": n, "positive": b}` starts an
expression and is answered with the milliseconds of its first step. `{"seconds": s}` runs a block of steps and is answered with their
milliseconds.
"""

import json
import os
import sys
import time

import torch
from torch.nn import functional as F

torch.set_num_threads(os.cpu_count())
torch.manual_seed(0)

DTYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16, "i64": torch.int64, "bool": torch.bool}
WARM_UP_STEPS, WARM_UP_SECONDS = 4, 0.02


def filled(dtype, shape, below, positive):
    dtype = DTYPES[dtype]
    if dtype == torch.bool:
        return torch.rand(shape) < 0.5
    if not dtype.is_floating_point:
        return torch.randint(0, below, shape, dtype=dtype)
    return (torch.rand(shape) + 0.5 if positive else torch.rand(shape) * 2 - 1).to(dtype)


def timed(step):
    before = time.perf_counter()
    step()
    return (time.perf_counter() - before) * 1e3


def started(ask):
    names = {name: filled(*input, ask["below"], ask["positive"]) for name, input in ask["inputs"].items()}
    code = compile(ask["code"], "expression", "eval")
    scope = {"torch": torch, "F": F, **names}
    if "t" not in names and "x" in names:
        scope["t"] = names["x"].T
    step = lambda: eval(code, scope)
    first = timed(step)
    n_steps, begun = 0, time.perf_counter()
    while n_steps < WARM_UP_STEPS or time.perf_counter() - begun < WARM_UP_SECONDS:
        step()
        n_steps += 1
    return step, {"first_ms": first}


def block(step, seconds):
    samples, start = [], time.perf_counter()
    while not samples or time.perf_counter() - start < seconds:
        samples.append(timed(step))
    return {"samples": samples}


def say(answer):
    print(json.dumps(answer), flush=True)


say({"ready": True})
step = None
for line in sys.stdin:
    ask = json.loads(line)
    try:
        if "code" in ask:
            step = None
            step, answer = started(ask)
        else:
            answer = block(step, ask["seconds"])
    except Exception as error:
        answer = {"error": str(error).splitlines()[0]}
    say(answer)
