"""Uses the installed package without a compiler: draws tokens, judges a sampler and the built-in
samplers, and writes their reports.

Usage: use_installed.py [--compilers] FOLDER
FOLDER gets the reports. --compilers: allows compilers on the system.
"""

import json
import pathlib
import shutil
import subprocess
import sys

import numpy as np

import fairdraw

COMPILERS = ["cc", "gcc", "g++", "c++", "clang", "clang++", "cmake", "ninja", "make", "nvcc"]


def expect(condition, what):
    if not condition:
        sys.exit(f"wheels: {what}")


def expect_report(folder, verdict):
    summary = json.loads((folder / "report.json").read_text(encoding="utf-8"))["summary"]
    expect(summary["failed"] == (0 if verdict == "passed" else 1), f"{folder}: {summary}")
    expect(summary["error"] == 0 and summary["passed"] + summary["failed"] > 0, summary)
    page = (folder / "index.html").read_text(encoding="utf-8")
    expect(page.startswith("<!DOCTYPE html>"), f"{folder} has no page")


def main():
    folder = pathlib.Path(sys.argv[-1])
    folder.mkdir(parents=True, exist_ok=True)
    found = [name for name in COMPILERS if shutil.which(name) and "--compilers" not in sys.argv]
    expect(not found, f"there is a compiler here: {found}")

    logits = np.array([[0, 1, 2, 3]], np.float32).repeat(64, 0)
    tokens = fairdraw.sample(logits, top_k=2, seed=np.arange(64))
    # 64 draws with probabilities 0.27 and 0.73 give both tokens, except for 2e-9 of all seeds.
    expect(set(tokens.tolist()) == {2, 3}, f"top_k 2 of four tokens gives {tokens}")
    again = fairdraw.sample(logits, top_k=2, seed=np.arange(64))
    expect((tokens == again).all(), "the same seeds give other tokens")

    # With a filter the most likely token is in every support, and the least likely token in no
    # support.
    case = {"suite": "smoke", "case": "support/peaked/v1000/everyday", "seed": 1}
    for name, choose, verdict in [("right", np.argmax, "passed"), ("wrong", np.argmin, "failed")]:
        report = fairdraw.verify(
            lambda batch, choose=choose: choose(batch.logits, axis=1), name=name, **case
        )
        expect(report.verdict == verdict, f"{name} sampler: {report.verdict}")
        report.write(str(folder / name))
        expect_report(folder / name, verdict)

    command = [sys.executable, "-m", "fairdraw", "verify", "--suite", "smoke", "--seed", "1"]
    subprocess.run([*command, "--report", str(folder / "command")], check=True)
    expect_report(folder / "command", "passed")
    print(
        f"wheels: fairdraw {fairdraw.__version__} draws, judges and reports on "
        f"Python {sys.version.split()[0]} without a compiler"
    )


main()
