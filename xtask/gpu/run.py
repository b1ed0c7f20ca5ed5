#!/usr/bin/env python3
"""Runs GT's GPU tests and benchmarks on this machine and writes report.md and report.json.

Needs an NVIDIA GPU with driver 580 or later, and a Python with torch 2.11 for CUDA 13. The programs
beside this file use the libraries of this torch. Nothing is installed and nothing leaves the machine.

    python3 run.py                      everything, in some minutes
    python3 run.py --only tests         or checks (the tests under a memory checker), or bench
    python3 run.py --works mlp_small,gpt --seconds 2
    python3 run.py --json               prints the report as JSON as well

Exit status: 0 if every test passed and every work was measured, also where bars are missed; 1 if not;
2 if this machine lacks a requirement, which is printed, with --json as {"ok": false, "unfit": ".."}.
"""

import argparse
import ctypes
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
TORCH, CUDA, DRIVER = "2.11.", "13.", 13000
PEERS = {"eager": "PyTorch eager", "compile": "torch.compile", "reduce-overhead": "torch.compile, CUDA graphs"}
RESULT = re.compile(r"^test (\S+) \.\.\. (ok|FAILED|ignored)", re.M)
WARM_UP_SECONDS, BLOCK_SECONDS = 900, 300


class Unfit(Exception):
    """This machine lacks a requirement. The text names it and a cure."""


def libraries():
    """The versions of the installed torch, and the folders of its libraries."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.origin:
        raise Unfit(
            f"{sys.executable} has no torch\nhint: run this with a Python that has torch 2.11 for CUDA 13"
        )
    folder = Path(spec.origin).parent
    said = {}
    exec((folder / "version.py").read_text(), said)
    version, cuda = said["__version__"], said.get("cuda") or "none"
    if not version.startswith(TORCH) or not cuda.startswith(CUDA):
        raise Unfit(f"torch is {version} for CUDA {cuda}, where {TORCH}x for CUDA {CUDA}x is needed")
    folders = [folder / "lib", *sorted((folder.parent / "nvidia").glob("*/lib"))]
    return version, cuda, [str(f) for f in folders if f.is_dir()]


def gpus():
    """The number of GPUs of the driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise Unfit(
            f"this machine has no driver for NVIDIA GPUs ({error})\nhint: run this script on a machine with a GPU"
        ) from None
    n, version = ctypes.c_int(0), ctypes.c_int(0)
    driver.cuDriverGetVersion(ctypes.byref(version))
    if version.value < DRIVER:
        raise Unfit(
            f"the driver is for CUDA {version.value // 1000}.{version.value % 1000 // 10}, older than CUDA 13.0\n"
            "hint: driver 580 or later is needed"
        )
    status = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(n))
    if status or n.value == 0:
        raise Unfit(
            f"this machine has no GPU that the driver can use (CUDA error {status})\nhint: nvidia-smi says more"
        )
    return n.value


def environment(folders, device):
    env = dict(os.environ, GT_ENGINE="torch", GT_DEVICE=device, GT_CACHE="off")
    before = [env["LD_LIBRARY_PATH"]] if env.get("LD_LIBRARY_PATH") else []
    env["LD_LIBRARY_PATH"] = ":".join(folders + before)
    # Snapshots are compared only where the sources are.
    env.update(INSTA_FORCE_PASS="1", INSTA_UPDATE="no", PYTHONDONTWRITEBYTECODE="1")
    # Without caches on disk the first call compiles.
    env["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"
    return env


def output(words, env):
    """The output of a program, or its errors if it has no output."""
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=120)
    return done.stdout or done.stderr


def listed(program, env, names):
    """The tests of a program whose names contain one of these, or all."""
    words = [str(program), "--list", "--format", "terse", *names]
    said = subprocess.run(words, env=env, capture_output=True, text=True, timeout=120)
    return [line.removesuffix(": test") for line in said.stdout.splitlines() if line.endswith(": test")]


def alone(program, name, env, before, seconds):
    """Runs one test in a process of its own. So kernels of several tests are compiled at the same time."""
    words = [*before, str(program), "--show-output", "--exact", name]
    done = subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    start = time.monotonic()
    try:
        said, _ = done.communicate(timeout=seconds)
        status = done.returncode
    except subprocess.TimeoutExpired:
        done.kill()
        said, status = f"{done.communicate()[0]}\nstopped after {seconds} s", -1
    states = {state for _, state in RESULT.findall(said)}
    state = "ignored" if states == {"ignored"} else "ok" if status == 0 and states == {"ok"} else "FAILED"
    return name, state, f"{said}\n{name}: {time.monotonic() - start:.1f} s\n"


def tests(program, env, args, before=(), names=()):
    """Runs the tests of a program. Their output goes to a file. Returns the counts, and the end of the output of failures."""
    label = " ".join([*(Path(word).name for word in before), program.name])
    print(f"testing: {label}", file=sys.stderr, flush=True)
    start = time.monotonic()
    with ThreadPoolExecutor(max(1, (os.cpu_count() or 1) // 2)) as pool:
        done = list(pool.map(lambda name: alone(program, name, env, before, args.test_seconds), listed(program, env, names)))
    (args.out / f"{label.replace(' ', '-').replace('/', '-')}.log").write_text("".join(said for _, _, said in done))
    named = {state: [name for name, s, _ in done if s == state] for state in ("ok", "FAILED", "ignored")}
    lines = [line.strip() for _, _, said in done for line in said.splitlines()]
    skipped = sorted({line for line in lines if line.startswith("skipped:")})
    # This machine has a GPU, so a test that does not find it is a failure.
    idle = any("no CUDA device" in why for why in skipped)
    good = bool(done) and not named["FAILED"] and not idle
    row = {
        "program": label,
        "ok": good,
        "passed": len(named["ok"]),
        "failed": named["FAILED"],
        "skipped": skipped,
        "seconds": round(time.monotonic() - start, 1),
    }
    if not good:
        row["said"] = "".join(said[-3000:] for _, state, said in done if state == "FAILED")[:12000]
    print(f"  {row['passed']} passed, {len(row['failed'])} failed, {row['seconds']} s", file=sys.stderr, flush=True)
    return row


# The tests of a program that use a GPU; all of its tests if it is not listed here. The other tests ran where the programs were
# built.
SUITES = {
    "gt-compiler-unit": ["cuda::tests::", "cuda::driver::", "cuda::ffi::", "cuda::load::", "cuda::nvrtc::", "nvrtc_takes_them"]
}
# The tools of the memory checker and the tests that run under them. Races and barriers concern kernels only.
KERNELS = {"gt-compiler-cuda": ["reductions_over_any_axes", "gathers_and_scatters", "compositions"]}
CHECKS = {
    # Tests provoke errors of CUDA functions on purpose.
    "memcheck": (["--report-api-errors", "no"], {"gt-compiler-unit": ["cuda::tests::"], "gt-compiler-cuda": ["ops::", "transfers"]}),
    "racecheck": ([], KERNELS),
    "synccheck": ([], KERNELS),
}


def sanitizer():
    """The path of the memory checker, or None."""
    folders = sorted(Path("/usr/local").glob("cuda*/bin"), reverse=True)
    homes = [Path(os.environ[home]) / "bin" for home in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(home)]
    path = os.pathsep.join([os.environ.get("PATH", ""), *map(str, homes + folders)])
    return shutil.which("compute-sanitizer", path=path)


def programs():
    return sorted((HERE / "tests").iterdir())


def all_tests(env, args):
    for program in programs():
        yield tests(program, env, args, names=SUITES.get(program.name, ()))


def all_checks(env, args):
    checker = sanitizer()
    if checker is None:
        print("compute-sanitizer is not installed: its checks are skipped", file=sys.stderr)
        return
    for tool, (flags, chosen) in CHECKS.items():
        before = [checker, "--tool", tool, "--error-exitcode", "9", *flags]
        checked = dict(env, GT_CUDA_MEMCHECK="1") if tool == "memcheck" else env
        for program in programs():
            if program.name in chosen:
                yield tests(program, checked, args, before, chosen[program.name])


class Paced:
    """A program that measures blocks of steps on request, as in xtask's benchmarks."""

    def __init__(self, words, env, log):
        self.log = log
        self.samples = []
        with open(log, "w") as said:
            self.child = subprocess.Popen(
                words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True
            )
        self.answer("ready", WARM_UP_SECONDS)

    def answer(self, key, seconds):
        return self.line(seconds, key)[key]

    def line(self, seconds, key):
        """The next line, which must be an object with this key."""
        timer = threading.Timer(seconds, self.child.kill)
        timer.start()
        line = self.child.stdout.readline()
        timer.cancel()
        try:
            said = json.loads(line)
            said[key]
            return said
        except (ValueError, KeyError):
            said = Path(self.log).read_text().strip().splitlines()
            said = said if len(said) <= 12 else said[:6] + [".."] + said[-6:]
            raise RuntimeError("\n".join(said) or f"it printed `{line.strip()}` where `{key}` was expected") from None

    def device_bytes(self):
        """The GPU memory of the process by the driver: its context, and its peak, because allocators keep memory."""
        words = ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
        try:
            said = subprocess.run(words, capture_output=True, text=True, timeout=60).stdout
        except (OSError, subprocess.TimeoutExpired):
            return None
        rows = [line.split(",") for line in said.splitlines()]
        own = [row[1].strip() for row in rows if len(row) == 2 and row[0].strip() == str(self.child.pid)]
        return int(own[0]) << 20 if own and own[0].isdigit() else None

    def block(self, seconds):
        self.child.stdin.write(f"{seconds}\n")
        self.child.stdin.flush()
        self.samples += self.answer("samples", seconds + BLOCK_SECONDS)

    def finish(self):
        held = self.device_bytes()
        self.child.stdin.close()
        said = self.line(BLOCK_SECONDS, "first_s")
        last = {"first_s": said["first_s"], "device_bytes": held}
        if "device_ms" in said:
            last["device_ms"] = said["device_ms"]
        # GT's own measurements of replayed graphs: the time of the host, and the time of the device by events.
        graphs = said.get("graphs") or {}
        if graphs.get("replays"):
            last["host_us"], last["device_ms"] = graphs["host_ns"] / 1e3, graphs["device_ns"] / 1e6
            last["replays"], last["fallbacks"] = graphs["replays"], graphs["fallbacks"]
        self.child.wait()
        samples = sorted(self.samples)
        return {"ms": samples[len(samples) // 2], "steps": len(samples), **last}

    def stop(self):
        self.child.kill()
        self.child.wait()


def measured(work, args, env, log):
    """Measures a work: starts and warms up every program, then runs them in turn."""
    ours = [str(HERE / "gt-cli"), "bench", "--engine", "torch", "--device", args.device, "--paced", work]
    theirs = {p: [sys.executable, str(HERE / "works_torch.py"), p, work] for p in PEERS}
    row, running = {"work": work}, {}
    # Programs compile and warm up beside each other.
    with ThreadPoolExecutor() as pool:
        all_words = {"gt": ours, **theirs}
        started = {n: pool.submit(Paced, words, env, log.with_suffix(f".{work}.{n}.log")) for n, words in all_words.items()}
    for name, program in started.items():
        try:
            running[name] = program.result()
        except (RuntimeError, OSError) as error:
            row[name] = {"error": str(error)}
    for n in range(args.rounds):
        # Every second round is reversed, so that no program always follows the same other.
        for name in list(running) if n % 2 == 0 else list(running)[::-1]:
            try:
                running[name].block(args.seconds)
            except (RuntimeError, OSError) as error:
                row[name] = {"error": str(error)}
                running.pop(name).stop()
    for name, program in running.items():
        try:
            row[name] = program.finish()
        except (RuntimeError, OSError) as error:
            row[name] = {"error": str(error)}
            program.stop()
    return row


def bench(args, env, log, save):
    """Measures all works, and calls `save` with what there is after each."""
    listed = output([str(HERE / "gt-cli"), "bench", "--list", "--json"], env)
    works = [json.loads(line)["work"] for line in listed.splitlines() if line.startswith("{")]
    rows = []
    for work in args.works.split(",") if args.works else works:
        print(f"measuring: {work}", file=sys.stderr, flush=True)
        # The peers reorder sums and fuse attention by default, so GT may as well. The caller's choice goes first.
        numerics = os.environ.get("GT_NUMERICS", "approximate")
        rows.append(measured(work, args, dict(env, GT_PEERS_DEVICE=args.device, GT_NUMERICS=numerics), log))
        print(f"  {line(rows[-1])}", file=sys.stderr, flush=True)
        save(rows)


# The bandwidth of a copy within the GPU by PyTorch, timed by events: bytes read and written per second.
COPY = """
import torch
torch.cuda.set_device(DEVICE)
x, y = (torch.zeros(1 << 28, device=DEVICE) for _ in range(2))
begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
times = []
for _ in range(30):
    begin.record()
    y.copy_(x)
    end.record()
    end.synchronize()
    times.append(begin.elapsed_time(end))
print(2 * x.nbytes / sorted(times)[15] * 1e3)
"""


def copy_bandwidth(args, env):
    said = output([sys.executable, "-c", f"DEVICE = {args.device!r}\n{COPY}"], env).strip().splitlines()
    try:
        return float(said[-1])
    except (ValueError, IndexError):
        print(f"the copy could not be measured: {said[-1:]}", file=sys.stderr)
        return None


# The bytes that a step of a memory-bound work moves.
MOVED = {"stream_64m": 2 * 4 << 26, "chain_16m": 4 << 24}


def ratio(row, peer, key):
    """GT's value divided by the peer's, or None if one was not measured."""
    ours, theirs = (row.get(name, {}).get(key) for name in ("gt", peer))
    return ours / theirs if ours and theirs else None


def bars(report):
    """The bars for GT on a GPU: name, value, the largest or smallest value allowed, and whether the bar holds."""
    rows = {row["work"]: row for row in report.get("bench", [])}
    found = []

    def bar(name, value, most=None, least=None):
        holds = None if value is None else (most is None or value <= most) and (least is None or value >= least)
        found.append({"bar": name, "value": value, "most": most, "least": least, "holds": holds})

    for work in ("mlp_small", "gpt_one"):
        for peer, most in (("eager", 0.5), ("reduce-overhead", 1.0)):
            bar(f"{work}: time of a step / {PEERS[peer]}", ratio(rows.get(work, {}), peer, "ms"), most)
    bar("gpt_124m in bf16: time of a step / torch.compile", ratio(rows.get("gpt_124m", {}), "compile", "ms"), 1.0)
    for work, moved in MOVED.items():
        took, copied = rows.get(work, {}).get("gt", {}).get("device_ms"), report.get("copy_bytes_s")
        rate = moved / took * 1e3 / copied if took and copied else None
        bar(f"{work}: bytes per second / a copy", rate, least=0.85)
    for work, row in rows.items():
        if row.get("gt", {}).get("replays"):
            bar(f"{work}: host time of a replay in us", row["gt"]["host_us"], 20.0)
    for work, row in rows.items():
        bar(f"{work}: GPU memory / PyTorch eager", ratio(row, "eager", "device_bytes"), 1.0)
    return found


def line(row):
    return " | ".join([row["work"], *(cell(row.get(key)) for key in ["gt", *PEERS])])


def cell(found):
    if not found or "error" in found:
        return "failed"
    return f"{found['ms']:.3f}" + (f" ({found['device_ms']:.3f})" if found.get("device_ms") else "")


def number(value):
    return "-" if value is None else f"{value:.3f}"


def about_bars(report):
    text = ["", "## Bars", "", "| bar | value | allowed | verdict |", "|---|---|---|---|"]
    for bar in report["bars"]:
        limit = f"at most {bar['most']}" if bar["most"] is not None else f"at least {bar['least']}"
        verdict = {True: "holds", False: "**missed**", None: "not measured"}[bar["holds"]]
        text.append(f"| {bar['bar']} | {number(bar['value'])} | {limit} | {verdict} |")
    return text


def failures(report):
    tests = [row["program"] for row in report.get("tests", []) if not row["ok"]]
    works = [
        f"{row['work']} ({key})"
        for row in report.get("bench", [])
        for key in ["gt", *PEERS]
        if "error" in row.get(key, {"error": ""})
    ]
    doctor = [] if (report["doctor"] or {}).get("ok") else ["gt-cli doctor"]
    return doctor + tests + works


def page(report):
    """The report as Markdown."""
    machine = report["machine"]
    text = ["# GT on a GPU", "", "| | |", "|---|---|"]
    text += [f"| {key} | {value} |" for key, value in machine.items()]
    if "tests" in report:
        text += ["", "## Tests", "", "| program | passed | failed | skipped | seconds |", "|---|---|---|---|---|"]
        for row in report["tests"]:
            counts = [row["passed"], len(row["failed"]), len(row["skipped"]), row["seconds"]]
            text.append(f"| {row['program']} | " + " | ".join(map(str, counts)) + " |")
        for row in report["tests"]:
            text += [f"- failed: `{name}`" for name in row["failed"]]
            text += [f"- {why}" for why in row["skipped"]]
            text += ["", "```", row["said"][-3000:], "```"] if "said" in row else []
    if "bench" in report:
        heads = ["work", "GT", *PEERS.values(), "GT, host us"]
        text += ["", "## Benchmarks", "", "Median milliseconds per step. All programs ran in turn on the same GPU and waited for"]
        text += ["each step. The time of the device, by events, follows in parentheses: the time of a replayed graph for GT,"]
        text += ["of the step for PyTorch. Works compute in f32 with full precision unless their names say otherwise. GT reads"]
        text += ["the whole results of `norm` and `matmul1024` back to the host, PyTorch does not. The last column is the time"]
        text += ["of the host for a replay."]
        text += ["", f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
        text += [f"| {line(row)} | {number(row.get('gt', {}).get('host_us'))} |" for row in report["bench"]]
        for row in report["bench"]:
            for key in ["gt", *PEERS]:
                if "error" in row.get(key, {}):
                    text += ["", f"{row['work']}, {key}:", "", "```", row[key]["error"], "```"]
        text += about_bars(report)
    bad = failures(report)
    text += ["", "Failed: " + ", ".join(bad) if bad else "Everything passed.", ""]
    return "\n".join(text)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", choices=["tests", "checks", "bench"])
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--works", default="", help="names of works, separated by commas [all]")
    parser.add_argument("--test-seconds", type=int, default=900, help="the time after which a test is stopped")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="length of a turn")
    parser.add_argument("--out", type=Path, default=Path("."), help="folder of the report")
    parser.add_argument("--json", action="store_true", help="print the report as one object")
    return parser.parse_args()


def main():
    args = arguments()
    try:
        version, cuda, folders = libraries()
        n_gpus = gpus()
    except Unfit as error:
        print(f"error: {error}", file=sys.stderr)
        if args.json:
            print(json.dumps({"ok": False, "unfit": str(error)}))
        return 2
    env = environment(folders, args.device)
    args.out.mkdir(parents=True, exist_ok=True)
    names = output(["nvidia-smi", "-L"], env) if shutil.which("nvidia-smi") else f"{n_gpus} GPUs"
    report = {
        "machine": {
            "GPUs": "; ".join(re.sub(r" \(UUID.*", "", gpu) for gpu in names.strip().splitlines()),
            "torch": f"{version}, CUDA {cuda}",
            "host": f"{platform.platform()}, {os.cpu_count()} cores",
            "GT": (HERE / "version").read_text().strip(),
            "day": time.strftime("%Y-%m-%d", time.gmtime()),
        }
    }
    try:
        report["doctor"] = json.loads(output([str(HERE / "gt-cli"), "doctor", "--json"], env))
    except ValueError:
        report["doctor"] = None

    def save(**found):
        """Writes what there is so far: a run that is stopped leaves it behind."""
        report.update(found)
        report["bars"] = bars(report)
        report["ok"] = not failures(report)
        (args.out / "report.json").write_text(json.dumps(report, indent=1))
        (args.out / "report.md").write_text(page(report))

    save()
    rows = []
    for kind, every in (("tests", all_tests), ("checks", all_checks)):
        if args.only in (None, kind):
            for row in every(env, args):
                rows.append(row)
                save(tests=rows)
    if args.only in (None, "bench"):
        save(copy_bytes_s=copy_bandwidth(args, env))
        bench(args, env, args.out / "bench.log", lambda rows: save(bench=rows))
    print(json.dumps(report) if args.json else f"\n{page(report)}\nwritten: {args.out / 'report.md'}")
    return 0 if report["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
