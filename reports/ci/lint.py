#!/usr/bin/env python3
"""Reads the tree with clang-format, clang-tidy, shellcheck, ruff and mypy, and how sentences begin.

Usage: lint.py [--jobs N] [--changed | --format | FILE...]

  --changed  clang-tidy reads the sources that affected.py names; the other tools read all files
  --format   formats files with clang-format and ruff, and checks nothing
  FILE...    reads only these files

`./fairdraw lint` and `./fairdraw format` install the tools into build/, configure build/release (clang-tidy
reads its compile commands), and call this script. Exit codes: 0 if no tool found a problem; 1 if some tool
found one.
"""

import argparse
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import affected
import openings

ROOT = affected.ROOT
CPP = (".h", ".cpp", ".cuh", ".cu")
PRECOMPILED = re.compile(r" (?:-Winvalid-pch )?-include \S*/cmake_pch\.hxx")
# The start of clang-tidy, a Python script, takes a thirtieth of the time for a source.
SOURCES_A_CALL = 4


def say(text: str) -> None:
    print(f"fairdraw: {text}", file=sys.stderr, flush=True)


def is_shell_script(path: Path) -> bool:
    if path.suffix not in ("", ".sh", ".sbatch"):
        return False
    with open(path, "rb") as file:
        return re.match(rb"#!.*\b(ba)?sh\b", file.readline(100)) is not None


def commands(entries: list[dict]) -> dict[str, dict]:
    """Returns a map from each source to its compile command. A source of several targets is read once, with
    the last target's command: targets differ in their definitions, and the last target has more definitions.
    Precompiled headers are left out, because they belong to g++ and would hide missing includes."""
    found = {}
    for entry in entries:
        command = PRECOMPILED.sub("", entry["command"])
        found[os.path.realpath(entry["file"])] = {**entry, "command": command}
    return found


def write_openmp_header(folder: Path) -> None:
    """Writes a copy of g++'s omp.h, because clang has none here. clang can read this header if one attribute
    loses its argument, but it cannot use g++'s folder of headers."""
    path = subprocess.run(
        ["g++", "-print-file-name=include/omp.h"], check=True, capture_output=True, text=True
    ).stdout.strip()
    text = Path(path).read_text(encoding="utf-8")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "omp.h").write_text(
        re.sub(r"__malloc__ *\([^)]*\)", "__malloc__", text), encoding="utf-8"
    )


class Linter:
    def __init__(self, root: Path, jobs: int):
        self.root, self.jobs, self.clean = root, jobs, True
        self.lint_bin = root / "build" / "lint-venv" / "bin"
        self.python_bin = root / "build" / "python-venv" / "bin"

    def run(self, *words, **options) -> None:
        result = subprocess.run([str(word) for word in words], cwd=self.root, **options)
        self.clean = self.clean and result.returncode == 0

    def shell(self, files: list[str]) -> None:
        scripts = [file for file in files if is_shell_script(self.root / file)]
        if scripts:
            say(f"shellcheck: {len(scripts)} scripts")
            self.run("shellcheck", *scripts)

    def python(self) -> None:
        """Checks the style, format and types of the packages and of a user's file, as strictly as
        possible."""
        packages = sorted(self.root.glob("python/*/fairdraw_*"))
        say("ruff and mypy: python")
        self.run(self.python_bin / "ruff", "check", "-q", "python")
        self.run(self.python_bin / "ruff", "format", "-q", "--check", "python")
        self.run(
            self.python_bin / "mypy", "--no-error-summary", "--cache-dir", "build/python-venv/mypy",
            "python/fairdraw", "python/tests/typed_user.py",
            *packages, env={**os.environ, "MYPYPATH": ":".join(
                ["python", *(str(path.parent) for path in packages)])}
        )  # fmt: skip

    def clang_format(self, files: list[str]) -> None:
        files = [file for file in files if file.endswith(CPP)]
        if files:
            say(f"clang-format: {len(files)} files")
            self.run(self.lint_bin / "clang-format", "--dry-run", "--Werror", *files)

    def openings(self, files: list[str]) -> None:
        say("openings: pages, public headers, and lines that a change adds")
        found = openings.findings(self.root, files)
        print("".join(f"{line}: begins with what a reader cannot use\n" for line in found), end="")
        self.clean = self.clean and not found

    def clang_tidy(self, files: list[str]) -> None:
        """Reads headers through the sources that include them. CUDA sources are left out, because clang-tidy
        does not know nvcc's flags."""
        build = self.root / "build"
        known = commands(json.loads((build / "release" / "compile_commands.json").read_text()))
        sources = [
            file
            for file in files
            if file.endswith(".cpp") and os.path.realpath(self.root / file) in known
        ]
        say(f"clang-tidy: {len(sources)} sources")
        if not sources:
            return
        folder = build / "lint-venv" / "commands"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "compile_commands.json").write_text(json.dumps(list(known.values())))
        openmp = build / "lint-venv" / "openmp"
        write_openmp_header(openmp)
        command = [
            str(self.lint_bin / "clang-tidy"), "--quiet", "-p", str(folder), "--extra-arg=-w",
            "--extra-arg=-isystem", f"--extra-arg={openmp}"
        ]  # fmt: skip

        def read(some: list[str]) -> subprocess.CompletedProcess:
            return subprocess.run(
                command + some, cwd=self.root, capture_output=True, text=True, check=False
            )

        parts = [sources[i : i + SOURCES_A_CALL] for i in range(0, len(sources), SOURCES_A_CALL)]
        with ThreadPoolExecutor(self.jobs) as pool:
            for result in pool.map(read, parts):
                print(result.stdout, end="", flush=True)
                if result.returncode != 0:
                    self.clean = False
                    lines = result.stderr.splitlines()
                    print("\n".join(line for line in lines if re.search("error|fatal", line)))


def main(arguments: list[str], root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--changed", action="store_true")
    what.add_argument("--format", action="store_true")
    what.add_argument("files", nargs="*", metavar="FILE", default=[])
    options = parser.parse_args(arguments)
    linter = Linter(root, options.jobs)
    files = [os.path.relpath(os.path.realpath(file), root) for file in options.files]
    files = files or openings.prose.tree_files(root)
    if options.format:
        cpp = [file for file in files if file.endswith(CPP)]
        linter.run(linter.lint_bin / "clang-format", "-i", *cpp)
        linter.run(linter.python_bin / "ruff", "format", "-q", "python")
        return 0 if linter.clean else 1
    sources = files
    if options.changed:
        sources = affected.sources(root, affected.changed_files(root))
    linter.shell(files)
    linter.openings(files)
    if any(file.endswith((".py", ".pyi")) for file in files):
        linter.python()
    linter.clang_format(files)
    linter.clang_tidy(sources)
    say("lint is clean" if linter.clean else "lint found something")
    return 0 if linter.clean else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
