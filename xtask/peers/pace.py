"""Measures a work in blocks on request: the counterpart of `gt-cli bench --paced`.

A work is a function that prepares its inputs and returns a step: a function without arguments that
computes one step and waits for its result. The first line of output says that the work is warm. Each
line of input holds the seconds of a block, and the answer holds the milliseconds of its steps. At
the end of the input a last line holds the time of the first call, the peak memory, and `more`.
"""

import json
import sys
import time

WARM_UP_STEPS, WARM_UP_SECONDS, MIN_SAMPLES = 5, 0.3, 5


def memory(line):
    """A value of /proc/self/status in bytes."""
    with open("/proc/self/status") as status:
        for text in status:
            if text.startswith(line):
                return int(text.split()[1]) * 1024
    return 0


def say(**what):
    print(json.dumps(what), flush=True)


def block(step, seconds):
    samples, start = [], time.perf_counter()
    while len(samples) < MIN_SAMPLES or time.perf_counter() - start < seconds:
        before = time.perf_counter()
        step()
        samples.append((time.perf_counter() - before) * 1e3)
    return samples


def serve(works, name, more=dict):
    """Serves a work. `more` returns further measurements for the last line."""
    resident = memory("VmRSS:")
    step = works[name]()
    prepared = time.perf_counter()
    step()
    first = time.perf_counter()
    n_steps = 0
    while n_steps < WARM_UP_STEPS or time.perf_counter() - first < WARM_UP_SECONDS:
        step()
        n_steps += 1
    say(ready=True)
    for line in sys.stdin:
        say(samples=block(step, float(line)))
    say(work=name, first_s=first - prepared, peak_bytes=memory("VmHWM:") - resident, **more())
