#!/usr/bin/env python3
"""Runs GT's GPU tests and benchmarks on this machine and writes report.md and report.json.

Needs an NVIDIA GPU with driver 580 or later, and a Python with torch 2.11 for CUDA 13: its libraries
are what the programs beside this file run on. Nothing is installed and nothing leaves the machine.

    python3 run.py                      everything: some minutes
    python3 run.py --only tests         or bench
    python3 run.py --works mlp_small,gpt --seconds 2
    python3 run.py --json               the report on standard output too

Exit status: 0 when every test passed and every work could be measured (whether bars hold is for the reader),
1 when not, 2 when this machine cannot run it: then it says what is missing, with --json as {"ok": false, "unfit": ".."}.
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
from pathlib import Path

HERE = Path(__file__).resolve().parent
TORCH, CUDA, DRIVER = "2.11.", "13.", 13000
PEERS = {"eager": "PyTorch eager", "compile": "torch.compile", "reduce-overhead": "torch.compile, CUDA graphs"}
RESULT = re.compile(r"^test (\S+) \.\.\. (ok|FAILED|ignored)", re.M)
TEST_SECONDS, WARM_UP_SECONDS, BLOCK_SECONDS = 1800, 900, 300


class Unfit(Exception):
    """This machine lacks something; said with what to do."""


def libraries():
    """The versions of the torch installed here, and the folders of its libraries."""
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
    """How many GPUs the driver offers."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise Unfit(
            f"this machine has no driver for NVIDIA GPUs ({error})\nhint: run it on a machine with a GPU"
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
    # Snapshots are compared where the sources are.
    env.update(INSTA_FORCE_PASS="1", INSTA_UPDATE="no", PYTHONDONTWRITEBYTECODE="1")
    # A first call is one that compiles.
    env["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"
    return env


def output(words, env):
    """What a program says, or why it says nothing."""
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=120)
    return done.stdout or done.stderr


def tests(program, env, before=(), names=()):
    """One program of tests: what passed, what failed, and what it said."""
    label = " ".join([*(Path(word).name for word in before), program.name])
    print(f"testing: {label}", file=sys.stderr, flush=True)
    start = time.monotonic()
    words = [*before, str(program), "--show-output", *names]
    done = subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    try:
        said, _ = done.communicate(timeout=TEST_SECONDS)
        status = done.returncode
    except subprocess.TimeoutExpired:
        done.kill()
        said, status = f"{done.communicate()[0]}\nit took longer than {TEST_SECONDS} s", -1
    found = RESULT.findall(said)
    named = {state: [name for name, s in found if s == state] for state in ("ok", "FAILED", "ignored")}
    skipped = sorted({line.strip() for line in said.splitlines() if line.strip().startswith("skipped:")})
    # Here is a GPU, so a test that did not find it has tested nothing.
    idle = any("no CUDA device" in why for why in skipped)
    good = status == 0 and bool(found) and not idle
    row = {
        "program": label,
        "ok": good,
        "passed": len(named["ok"]),
        "failed": named["FAILED"],
        "skipped": skipped,
        "seconds": round(time.monotonic() - start, 1),
    }
    if not good:
        row["said"] = said[-8000:]
    print(f"  {row['passed']} passed, {len(row['failed'])} failed, {row['seconds']} s", file=sys.stderr, flush=True)
    return row


# The parts of a program of tests that know GPUs; without a line here, all of it. What only compiles or runs on the processor was tested
# where the programs were built, and libtorch has to be asked for CUDA before anything else asks it: so no other tests run beside these.
SUITES = {
    "gt-compiler-unit": ["cuda::tests::", "cuda::driver::", "cuda::ffi::", "cuda::load::", "cuda::nvrtc::", "nvrtc_takes_them"]
}
# The tools of a memory checker, and the parts worth their time. Racing and waiting concern kernels alone.
KERNELS = {"gt-compiler-cuda": ["reductions_over_any_axes", "gathers_and_scatters", "compositions"]}
CHECKS = {
    # Tests provoke errors of CUDA's functions on purpose.
    "memcheck": (["--report-api-errors", "no"], {"gt-compiler-unit": ["cuda::tests::"], "gt-compiler-cuda": ["ops::", "transfers"]}),
    "racecheck": ([], KERNELS),
    "synccheck": ([], KERNELS),
}


def sanitizer():
    """The memory checker, where it is."""
    folders = sorted(Path("/usr/local").glob("cuda*/bin"), reverse=True)
    homes = [Path(os.environ[home]) / "bin" for home in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(home)]
    path = os.pathsep.join([os.environ.get("PATH", ""), *map(str, homes + folders)])
    return shutil.which("compute-sanitizer", path=path)


def all_tests(env):
    programs = sorted((HERE / "tests").iterdir())
    rows = [tests(program, env, names=SUITES.get(program.name, ())) for program in programs]
    checker = sanitizer()
    if checker is None:
        print("no compute-sanitizer here: nothing is checked by it", file=sys.stderr)
        return rows
    for tool, (flags, chosen) in CHECKS.items():
        before = [checker, "--tool", tool, "--error-exitcode", "9", *flags]
        checked = dict(env, GT_CUDA_MEMCHECK="1") if tool == "memcheck" else env
        rows += [tests(p, checked, before, chosen[p.name]) for p in programs if p.name in chosen]
    return rows


class Paced:
    """A program that is measured in blocks it is asked for, as xtask's benchmarks do."""

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
        """The next line, an object that has a key."""
        timer = threading.Timer(seconds, self.child.kill)
        timer.start()
        line = self.child.stdout.readline()
        timer.cancel()
        try:
            said = json.loads(line)
            said[key]
            return said
        except (ValueError, KeyError):
            last = Path(self.log).read_text().strip().splitlines()[-6:]
            raise RuntimeError("\n".join(last) or f"it said `{line.strip()}` and not its {key}") from None

    def device_bytes(self):
        """What the driver says this process holds of the GPU: its context and all it ever had, since allocators keep it."""
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
        # GT's own measurements of replayed graphs: the host's time, and the device's by events.
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
    """A work by everybody: all start and warm up, then they take turns."""
    ours = [str(HERE / "gt-cli"), "bench", "--engine", "torch", "--device", args.device, "--paced", work]
    theirs = {p: [sys.executable, str(HERE / "works_torch.py"), p, work] for p in PEERS}
    row, running = {"work": work}, {}
    for name, words in {"gt": ours, **theirs}.items():
        try:
            running[name] = Paced(words, env, log)
        except (RuntimeError, OSError) as error:
            row[name] = {"error": str(error)}
    for n in range(args.rounds):
        # Forth and back: nobody always follows the same one.
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


def bench(args, env, log):
    listed = output([str(HERE / "gt-cli"), "bench", "--list", "--json"], env)
    works = [json.loads(line)["work"] for line in listed.splitlines() if line.startswith("{")]
    rows = []
    for work in args.works.split(",") if args.works else works:
        print(f"measuring: {work}", file=sys.stderr, flush=True)
        # The others reorder sums and fuse attention unasked; what this run's caller asks for goes first.
        numerics = os.environ.get("GT_NUMERICS", "approximate")
        rows.append(measured(work, args, dict(env, GT_PEERS_DEVICE=args.device, GT_NUMERICS=numerics), log))
        print(f"  {line(rows[-1])}", file=sys.stderr, flush=True)
    return rows


# A copy within the GPU by PyTorch, by events: bytes read and written a second.
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
        print(f"no copy could be measured: {said[-1:]}", file=sys.stderr)
        return None


# Bytes that a step has to move where memory is all that counts.
MOVED = {"stream_64m": 2 * 4 << 26, "chain_16m": 4 << 24}


def ratio(row, peer, key):
    """Ours to theirs; None where either was not measured."""
    ours, theirs = (row.get(name, {}).get(key) for name in ("gt", peer))
    return ours / theirs if ours and theirs else None


def bars(report):
    """What GT wants to be on a GPU, and what it is: name, value, the most or least it may be, whether it holds."""
    rows = {row["work"]: row for row in report.get("bench", [])}
    found = []

    def bar(name, value, most=None, least=None):
        holds = None if value is None else (most is None or value <= most) and (least is None or value >= least)
        found.append({"bar": name, "value": value, "most": most, "least": least, "holds": holds})

    for work in ("mlp_small", "gpt_one"):
        for peer, most in (("eager", 0.5), ("reduce-overhead", 1.0)):
            bar(f"{work}: a step, of {PEERS[peer]}", ratio(rows.get(work, {}), peer, "ms"), most)
    bar("gpt_124m in bf16: a step, of torch.compile", ratio(rows.get("gpt_124m", {}), "compile", "ms"), 1.0)
    for work, moved in MOVED.items():
        took, copied = rows.get(work, {}).get("gt", {}).get("device_ms"), report.get("copy_bytes_s")
        rate = moved / took * 1e3 / copied if took and copied else None
        bar(f"{work}: bytes a second, of a copy's", rate, least=0.85)
    for work, row in rows.items():
        if row.get("gt", {}).get("replays"):
            bar(f"{work}: host us a replay", row["gt"]["host_us"], 20.0)
    for work, row in rows.items():
        bar(f"{work}: memory of the GPU, of PyTorch eager", ratio(row, "eager", "device_bytes"), 1.0)
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
    text = ["", "## Bars", "", "| bar | is | may be | |", "|---|---|---|---|"]
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
    """The report for people."""
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
        text += ["", "## Benchmarks", "", "Milliseconds a step, medians; all programs took turns on the same GPU, each step"]
        text += ["waited for. In parentheses the device's time by events: of a replayed graph for GT, around the step for"]
        text += ["PyTorch. f32 with full precision where the work does not say otherwise. GT reads the whole results of `norm`"]
        text += ["and `matmul1024` back to the host, PyTorch does not. The last column is what the host takes for a replay."]
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
    parser.add_argument("--only", choices=["tests", "bench"])
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--works", default="", help="names of works, with commas between [all]")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="of a turn")
    parser.add_argument("--out", type=Path, default=Path("."), help="folder for the report")
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
    if args.only != "bench":
        report["tests"] = all_tests(env)
    if args.only != "tests":
        report["copy_bytes_s"] = copy_bandwidth(args, env)
        report["bench"] = bench(args, env, args.out / "bench.log")
        report["bars"] = bars(report)
    report["ok"] = not failures(report)
    (args.out / "report.json").write_text(json.dumps(report, indent=1))
    (args.out / "report.md").write_text(page(report))
    print(json.dumps(report) if args.json else f"\n{page(report)}\nwritten: {args.out / 'report.md'}")
    return 0 if report["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
