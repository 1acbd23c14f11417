#!/usr/bin/env python3
"""Lists the parts that a change affects: they follow from the changed files and the files that include them.

Usage: affected.py WHAT. WHAT is one of these words.
  sources  the C++ sources that clang-tidy reads
  targets  the targets whose tests run under sanitizers
  labels   these tests' labels, as a regular expression
  mutants  options of `fairdraw mutants`, a run each
  cuda     FAIRDRAW_CUDA of the build: OFF where no CUDA source is affected, else AUTO
  satellites  ctest's tests of the distributions beside the package, as a regular expression
If nothing is printed, nothing is affected. A wide change affects more parts than its CI run has
time for. The run then takes the files and folders that changed most, the nightly run takes all, and
stderr names the parts that are left to the nightly run.

A change is the difference from a base commit. The base is FAIRDRAW_BASE if it is set; otherwise the commit
where HEAD left origin's main branch; otherwise, on that branch, the commit 40 before HEAD. The names and
messages of commits have no influence. Without a history of commits, everything counts as affected.
"""

import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "suites" / "boundaries"))

import include_boundaries  # noqa: E402  (the line above says where it is)

COMMITS = 40  # distance in commits to the base, on the main branch itself
PER_CLASS = 4  # number of mutants of each class, if all classes are affected
WHOLE_CLASSES = 4  # largest number in the run of a change; the nightly run takes more

# Limits per change. SANITIZER_MINUTES has the minutes that a folder's tests take under sanitizers on two
# cores, with their build. clang-tidy reads about 20 sources per minute.
SANITIZER_MINUTES = {"kernels": 25, "reference": 5, "harness": 15, "reports": 10, "suites": 25}
SANITIZER_BUDGET = 15
MAX_SOURCES = 150
MAX_SHOWN = 10  # parts that are named one by one; others are counted by folder

# Folders with tests of compiled code, and their targets. Tests of scripts run only without sanitizers.
SANITIZED = {
    "kernels": ["kernels/all", "kernels/tests/all"],
    "reference": ["reference/all"],
    "harness": ["harness/all"],
    "reports": ["reports/all"],
    "suites": ["suites/all"],
}
NOT_SANITIZED = ("reports/ci/", "reports/baselines/", "suites/boundaries/", "suites/gpu/")

# If one of these files changes, all mutants are affected. Changes of the tests of these files do
# not affect mutants, because tests do not judge mutants.
GATE = (
    "harness/contract/",
    "harness/inputs/",
    "harness/run/",
    "harness/statistics/",
    "reference/",
    "suites/gate/cases/",
    "suites/gate/mutants/",
    "suites/gate/run/",
)
MUTANTS = "suites/gate/mutants/"
CLASSES = MUTANTS + "cause_classes.cpp"  # file of a table with one row per class of mutants
CLASS = re.compile(r'^ {6}\{"([a-z-]+)",', re.MULTILINE)


def git(root: Path, *words: str) -> str | None:
    """Runs git and returns its output; None if git fails."""
    try:
        result = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True)
    except OSError:
        return None
    return result.stdout.strip() if result.returncode == 0 else None


def base(root: Path) -> str | None:
    """Returns the commit that a change is compared with; None without a history."""
    if git(root, "rev-parse", "--show-prefix") != "":  # the prefix is "" in the root of the repository
        return None
    given = os.environ.get("FAIRDRAW_BASE")
    if given:
        commit = git(root, "rev-parse", "--verify", "--quiet", given + "^{commit}")
        if commit is None:
            sys.exit(f"FAIRDRAW_BASE is '{given}': no commit of this repository")
        return commit
    head = git(root, "rev-parse", "HEAD")
    for branch in ("origin/HEAD", "origin/main"):
        commit = git(root, "merge-base", "HEAD", branch)
        if commit not in (None, head):
            return commit
    last = git(root, "rev-list", "--first-parent", f"--max-count={COMMITS + 1}", "HEAD")
    oldest = last.split()[-1] if last else None
    return None if oldest == head else oldest


def changed_files(root: Path) -> set[str] | None:
    """Returns the paths that differ from the base, with new files; None if all paths differ."""
    commit = base(root)
    if commit is None:
        return None
    differ = git(root, "diff", "--name-only", "--no-renames", "-z", commit)
    new = git(root, "ls-files", "--others", "--exclude-standard", "-z")
    return {path for path in f"{differ}\0{new}".split("\0") if path}


def with_includers(root: Path, changed: set[str]) -> set[str]:
    """Returns the changed files, and all files that include one of them, directly or through other
    headers."""
    includers = defaultdict(set)
    for file in include_boundaries.source_files(root):
        text = (root / file).read_text(encoding="utf-8")
        for _, name in include_boundaries.INCLUDE.findall(text):
            header = include_boundaries.resolve(root, file, name)
            if header:
                includers[header].add(file)
    found, to_visit = set(changed), list(changed)
    while to_visit:
        new = includers[to_visit.pop()] - found
        found |= new
        to_visit += new
    return found


def is_source(path: str) -> bool:
    return Path(path).suffix in include_boundaries.SOURCE_SUFFIXES


def is_of_the_build(path: str) -> bool:
    return path.startswith("cmake/") or path.endswith(("CMakeLists.txt", ".cmake", "CMakePresets.json"))


def left_to_the_night(what: str, left: list[str]) -> None:
    if len(left) > MAX_SHOWN:
        counts = Counter(path.split("/")[0] for path in left)
        left = [f"{count} of {folder}/" for folder, count in sorted(counts.items())]
    if left:
        print(f"affected: left to the night: {what}: {', '.join(left)}", file=sys.stderr)


def sources(root: Path, changed: set[str] | None) -> list[str]:
    """Returns the changed sources, then sources that include a changed header, up to the limit for one
    change."""
    files = set(include_boundaries.source_files(root))
    if changed is None or ".clang-tidy" in changed:
        return sorted(file for file in files if file.endswith(".cpp"))
    files &= with_includers(root, changed)
    ordered = sorted(
        (file for file in files if file.endswith(".cpp")), key=lambda file: (file not in changed, file)
    )
    left_to_the_night("clang-tidy", ordered[MAX_SOURCES:])
    return ordered[:MAX_SOURCES]


def folders(root: Path, changed: set[str] | None) -> list[str]:
    """Returns the top-level folders whose tests are compiled from affected files or read such files. One
    folder is taken whatever its cost, unless the change is wide; then only folders within the budget are
    taken."""
    if changed is None:
        return list(SANITIZED)
    affected = {
        path.split("/")[0]
        for path in with_includers(root, changed)
        if not path.endswith(".md") and not path.startswith(NOT_SANITIZED)
    }
    if any(is_of_the_build(path) for path in changed):
        affected |= set(SANITIZED)
    changes = {
        folder: sum(path.startswith(folder + "/") and is_source(path) for path in changed)
        for folder in SANITIZED
    }
    is_wide = affected >= set(SANITIZED)
    chosen, left, minutes = [], [], 0
    for folder in sorted(affected & set(SANITIZED), key=lambda name: (-changes[name], name)):
        cost = SANITIZER_MINUTES[folder]
        if minutes + cost > SANITIZER_BUDGET and (chosen or is_wide):
            left.append(folder)
        else:
            chosen.append(folder)
            minutes += cost
    left_to_the_night("sanitizers", left)
    return [folder for folder in SANITIZED if folder in chosen]


def mutants(root: Path, changed: set[str] | None) -> list[str]:
    """Returns the classes of mutants of a changed file, and some mutants of each class if anything else that
    judges mutants has changed."""
    everything = f"--per-class={PER_CLASS}"
    if changed is None:
        return [everything]
    known = CLASS.findall((root / CLASSES).read_text(encoding="utf-8"))
    options, whole = set(), set()
    for path in changed:
        if not path.startswith(GATE) or not is_source(path) or "/tests/" in path:
            continue
        classes = []
        file = root / path
        # If a source has a header, the other sources share it; a source without a header has the mutants
        # of some classes.
        if path.startswith(MUTANTS) and file.is_file() and not file.with_suffix(".h").is_file():
            text = file.read_text(encoding="utf-8")
            classes = [name for name in known if f'"{name}"' in text]
        whole |= set(classes)
        if not classes:
            options.add(everything)
    if len(whole) > WHOLE_CLASSES:
        left_to_the_night("the rest of classes of mutants", sorted(whole))
        return [everything]
    return sorted(options | {f"--class={name}" for name in whole})


def cuda(root: Path, changed: set[str] | None) -> str:
    """Returns AUTO if the CUDA part must be built, which takes minutes, and OFF otherwise."""
    if changed is None or any(is_of_the_build(path) for path in changed):
        return "AUTO"
    affected = with_includers(root, changed)
    return "AUTO" if any(is_source(path) and "cuda" in path for path in affected) else "OFF"


def satellites(root: Path, changed: set[str] | None) -> list[str]:
    """Returns the satellite packages, which are folders of python/, in which a file changed."""
    folders = sorted(path.parent.name for path in root.glob("python/*/pyproject.toml"))
    return [
        name
        for name in folders
        if changed is None or any(path.startswith(f"python/{name}/") for path in changed)
    ]


def main(arguments: list[str]) -> int:
    changed = changed_files(ROOT)
    if arguments == ["sources"]:
        print("\n".join(sources(ROOT, changed)))
    elif arguments == ["targets"]:
        print(" ".join(target for name in folders(ROOT, changed) for target in SANITIZED[name]))
    elif arguments == ["labels"]:
        print(f"^({'|'.join(folders(ROOT, changed))})$")
    elif arguments == ["mutants"]:
        print("\n".join(mutants(ROOT, changed)))
    elif arguments == ["cuda"]:
        print(cuda(ROOT, changed))
    elif arguments == ["satellites"]:
        found = satellites(ROOT, changed)
        print(f"^satellites\\.({'|'.join(found)})" if found else "")
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
