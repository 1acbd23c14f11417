#!/usr/bin/env python3
"""Prepares or makes a release of the version that all places agree on.

Usage: release.py set VERSION [--date YYYY-MM-DD]
       release.py make VERSION [--dry-run] [--out FOLDER]

  set   writes the version into every place that names it, and the date into its section of CHANGELOG.md,
        which must exist; review and commit the result by hand
  make  checks the places, the section, and that nothing is uncommitted; writes release-notes.md from the
        section; has python/wheels/build make source archives and wheels; writes SHA256SUMS; and tags the
        commit as vVERSION, with the notes as message. Nothing is pushed or uploaded.

  --dry-run  checks and writes the notes, but builds nothing and sets no tag
  --out      the folder of the notes and the files (default: build/release-VERSION)

The caller must know that all tests passed on this commit: .ci/run, the nightly run, and suites/gpu/run_on_gpu
on a GPU. Exit codes: 0 if done; 1 if some place does not agree, and nothing was tagged; 2 for bad usage.
"""

import argparse
import datetime
import hashlib
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")
CHANGES = "CHANGELOG.md"
HEADING = re.compile(r"^## (\S+) \((.*)\)$", re.MULTILINE)


def next_minor(version: str) -> str:
    major, minor, _ = version.split(".")
    return f"{major}.{int(minor) + 1}"


def minor(version: str) -> str:
    return version.rpartition(".")[0]


def satellites_range(version: str) -> str:
    """Returns the range of fairdraw's versions that a satellite package works with. Before version 1.0, a
    minor version may break a satellite package."""
    return f">={minor(version)},<{next_minor(version)}"


#: Each entry has a file or glob, the text around the version, and a function from a version to the new text.
PLACES: list[tuple[str, str, Callable[[str], str]]] = [
    ("CMakeLists.txt", r"(?<=^project\(fairdraw VERSION )\S+", str),
    ("CITATION.cff", r"(?<=^version: )\S+$", str),
    ("python/*/pyproject.toml", r'(?<=^version = ")[^"]+', str),
    ("python/*/pyproject.toml", r'(?<=^dependencies = \["fairdraw)[^"]+', satellites_range),
    ("kernels/example/CMakeLists.txt", r"(?<=^find_package\(fairdraw )[^ )]+", minor),
    ("python/wheels/README.md", r"(?<=dist/fairdraw-)[^-]+(?=-)", str),
]


class Wrong(Exception):
    """An error that forbids a release; its message gives the reasons, one problem per line."""


def git(root: Path, *words: str) -> str:
    result = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True)
    if result.returncode != 0:
        raise Wrong(f"git {words[0]}: {result.stderr.strip()}")
    return result.stdout.strip()


def places(root: Path) -> list[tuple[Path, str, Callable[[str], str]]]:
    found = [
        (path, pattern, text)
        for name, pattern, text in PLACES
        for path in sorted(root.glob(name))
    ]
    missing = [name for name, _, _ in PLACES if not list(root.glob(name))]
    if missing:
        raise Wrong("\n".join(f"{name} is missing" for name in missing))
    return found


def disagreements(root: Path, version: str) -> list[str]:
    """Returns the places that name another version, or no version."""
    wrong = []
    for path, pattern, text in places(root):
        name = path.relative_to(root)
        found = re.findall(pattern, path.read_text(encoding="utf-8"), re.MULTILINE)
        if not found:
            wrong.append(f"{name} names no version where one is expected")
        wrong += [
            f"{name} has '{each}' where {version} needs '{text(version)}'"
            for each in found
            if each != text(version)
        ]
    return wrong


def section(root: Path, version: str) -> tuple[str, str]:
    """Returns the text in brackets after the version in CHANGELOG.md, and the section's text."""
    text = (root / CHANGES).read_text(encoding="utf-8")
    headings = list(HEADING.finditer(text))
    for number, heading in enumerate(headings):
        if heading[1] == version:
            if number > 0:
                raise Wrong(f"{CHANGES}: {headings[0][1]} stands before {version}")
            end = headings[1].start() if len(headings) > 1 else len(text)
            body = text[heading.end() : end].strip()
            if not body:
                raise Wrong(f"{CHANGES}: the section of {version} is empty")
            return heading[2], body
    raise Wrong(f"{CHANGES} has no section '## {version} (...)'")


def released(root: Path) -> list[str]:
    tags = git(root, "tag", "--list", "v*").splitlines()
    return [tag[1:] for tag in tags if VERSION.fullmatch(tag[1:])]


def number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def check(root: Path, version: str) -> str:
    """Checks all places, and returns the text of the version's section in CHANGELOG.md. Raises Wrong with the
    problems of all places."""
    wrong = disagreements(root, version)
    older = released(root)
    if older and number(version) <= max(map(number, older)):
        wrong.append(f"{version} is not newer than {max(older, key=number)}, which has a tag")
    uncommitted = git(root, "status", "--porcelain")
    if uncommitted:
        wrong.append(f"there are uncommitted changes:\n{uncommitted}")
    date, text = section(root, version)
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", date):
        wrong.append(f"{CHANGES}: {version} has '({date})' instead of the date of its release")
    if wrong:
        raise Wrong("\n".join(wrong))
    return text


def notes(version: str, text: str, others: list[str]) -> str:
    """Returns the version's section of CHANGELOG.md, and the version that this section follows."""
    before = max((each for each in others if number(each) < number(version)), key=number, default="")
    since = f"Changes since {before}.\n\n" if before else ""
    return f"# fairdraw {version}\n\n{since}{text}\n"


def set_version(root: Path, version: str, date: str) -> list[str]:
    """Writes the version into all places, and the date into the section; returns the changed
    files."""
    section(root, version)
    changed = []
    for path, pattern, text in places(root):
        old = path.read_text(encoding="utf-8")
        new, count = re.subn(pattern, text(version), old, flags=re.MULTILINE)
        if count == 0:
            raise Wrong(f"{path.relative_to(root)} names no version where one is expected")
        if new != old:
            path.write_text(new, encoding="utf-8")
            changed.append(str(path.relative_to(root)))
    old = (root / CHANGES).read_text(encoding="utf-8")
    new = HEADING.sub(lambda match: f"## {version} ({date})" if match[1] == version else match[0], old)
    if new != old:
        (root / CHANGES).write_text(new, encoding="utf-8")
        changed.append(CHANGES)
    return sorted(set(changed))


def make(root: Path, version: str, out: Path, dry_run: bool) -> None:
    text = notes(version, check(root, version), released(root))
    out.mkdir(parents=True, exist_ok=True)
    (out / "release-notes.md").write_text(text, encoding="utf-8")
    print(f"release: {out / 'release-notes.md'}")
    if dry_run:
        print(f"release: {version} could be made: nothing was built or tagged")
        return
    builder = [str(root / "python" / "wheels" / "build"), "--sources", "--out", str(out)]
    if subprocess.run(builder, cwd=root).returncode != 0:
        raise Wrong("python/wheels/build failed: nothing was tagged")
    files = sorted([*out.glob("*.tar.gz"), *out.glob("*.whl")])
    for needed in (f"fairdraw-{version}.tar.gz", f"fairdraw-{version}-*.whl"):
        if not list(out.glob(needed)):
            raise Wrong(f"python/wheels/build made no {needed}: nothing was tagged")
    others = [file.name for file in files if f"-{version}" not in file.name]
    if others:
        raise Wrong(f"{out} has files of another version, {', '.join(others)}: nothing was tagged")
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (out / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")
    git(root, "tag", "--annotate", "--cleanup=verbatim", "--file", str(out / "release-notes.md"), f"v{version}")
    print(f"release: {len(files)} files in {out}; tagged v{version}. Next: git push origin v{version}")


def main(arguments: list[str], root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    setter = verbs.add_parser("set")
    maker = verbs.add_parser("make")
    for verb in (setter, maker):
        verb.add_argument("version")
    setter.add_argument("--date", default=datetime.date.today().isoformat())
    maker.add_argument("--dry-run", action="store_true")
    maker.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    if not VERSION.fullmatch(options.version):
        parser.error(f"'{options.version}' is no version: MAJOR.MINOR.PATCH, without zeros in front")
    try:
        if options.verb == "set":
            datetime.date.fromisoformat(options.date)
            print("\n".join(set_version(root, options.version, options.date)))
        else:
            out = options.out or root / "build" / f"release-{options.version}"
            make(root, options.version, out.resolve(), options.dry_run)
    except Wrong as error:
        print("".join(f"release: {line}\n" for line in str(error).splitlines()), end="", file=sys.stderr)
        return 1
    except ValueError as error:
        parser.error(f"--date: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
