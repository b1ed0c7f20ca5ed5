#!/usr/bin/env python3
"""Runs GT's GPU tests and benchmarks on this machine and writes report.md and report.json.

Needs an NVIDIA GPU with driver 580 or later, and a Python with torch 2.11 for CUDA 13: its libraries
are what the programs beside this file run on. Nothing is installed and nothing leaves the machine.

    python3 run.py                      everything: some minutes
    python3 run.py --only tests         or bench
    python3 run.py --works mlp_small,gpt --seconds 2
    python3 run.py --json               the report on standard output too

Exit status: 0 when every test passed and every work could be measured, 1 when not, 2 when this
machine cannot run it: then it says what is missing, with --json as {"ok": false, "unfit": ".."}.
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
TORCH, CUDA = "2.11.", "13."
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
    n = ctypes.c_int(0)
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


def tests(program, env, before=(), suites=None):
    """One program of tests: what passed, what failed, and what it said."""
    print(f"testing: {' '.join([*before, program.name])}", file=sys.stderr, flush=True)
    start = time.monotonic()
    words = [*before, str(program), "--show-output", *(suites or SUITES).get(program.name, [])]
    try:
        done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=TEST_SECONDS)
        said, status = done.stdout + done.stderr, done.returncode
    except subprocess.TimeoutExpired as error:
        said, status = f"{error.stdout or ''}\nit took longer than {TEST_SECONDS} s", -1
    found = RESULT.findall(said)
    named = {state: [name for name, s in found if s == state] for state in ("ok", "FAILED", "ignored")}
    skipped = sorted({line.strip() for line in said.splitlines() if line.strip().startswith("skipped:")})
    # Here is a GPU, so a test that did not find it has tested nothing.
    idle = any("no CUDA device" in why for why in skipped)
    good = status == 0 and bool(found) and not idle
    row = {
        "program": " ".join([*before, program.name]),
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


# The parts of a program of tests that know GPUs; without a line here, all of it.
SUITES = {"gt-compiler-unit": ["cuda::", "device::", "torch::"]}
# The parts that are worth the time of a memory checker.
CHECKED = {"gt-compiler-unit": ["cuda::tests::"], "gt-compiler-cuda": ["ops::", "transfers"]}


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

    def block(self, seconds):
        self.child.stdin.write(f"{seconds}\n")
        self.child.stdin.flush()
        self.samples += self.answer("samples", seconds + BLOCK_SECONDS)

    def finish(self):
        self.child.stdin.close()
        said = self.line(BLOCK_SECONDS, "first_s")
        last = {"first_s": said["first_s"]}
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
    for _ in range(args.rounds):
        for name in list(running):
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
        rows.append(measured(work, args, dict(env, GT_PEERS_DEVICE=args.device), log))
        print(f"  {line(rows[-1])}", file=sys.stderr, flush=True)
    return rows


def line(row):
    return " | ".join([row["work"], *(cell(row.get(key)) for key in ["gt", *PEERS])])


def cell(found):
    if not found or "error" in found:
        return "failed"
    return f"{found['ms']:.3f}"


def replayed(row, key):
    found = row.get("gt", {}).get(key)
    return "-" if found is None else f"{found:.3f}"


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
        heads = ["work", "GT", *PEERS.values(), "GT, device ms", "GT, host us"]
        text += ["", "## Benchmarks", "", "Milliseconds a step, medians; all programs took turns on the same GPU, each step"]
        text += ["waited for. f32 with full precision. Of GT's replayed graphs also what the device takes, by events,"]
        text += ["and what the host takes to replay one.", "", f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
        text += [f"| {line(row)} | {replayed(row, 'device_ms')} | {replayed(row, 'host_us')} |" for row in report["bench"]]
        for row in report["bench"]:
            for key in ["gt", *PEERS]:
                if "error" in row.get(key, {}):
                    text += ["", f"{row['work']}, {key}:", "", "```", row[key]["error"], "```"]
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
        programs = sorted((HERE / "tests").iterdir())
        report["tests"] = [tests(program, env) for program in programs]
        sanitizer = shutil.which("compute-sanitizer")
        if sanitizer:
            # Tests provoke errors of CUDA's functions on purpose.
            before = [sanitizer, "--error-exitcode", "9", "--report-api-errors", "no"]
            checked = dict(env, GT_CUDA_MEMCHECK="1")
            report["tests"] += [tests(p, checked, before, CHECKED) for p in programs if p.name in CHECKED]
    if args.only != "tests":
        report["bench"] = bench(args, env, args.out / "bench.log")
    report["ok"] = not failures(report)
    (args.out / "report.json").write_text(json.dumps(report, indent=1))
    (args.out / "report.md").write_text(page(report))
    print(json.dumps(report) if args.json else f"\n{page(report)}\nwritten: {args.out / 'report.md'}")
    return 0 if report["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
