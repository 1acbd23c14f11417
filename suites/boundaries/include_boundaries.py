#!/usr/bin/env python3
"""Checks the source tree: every #include against the dependency rules of its component, the names that the
core must not use, and every Python import that crosses the boundary of the package.

Usage: include_boundaries.py ROOT. The script prints one line for each forbidden include or import. The exit
code is 1 if there is such an include or import, 0 if there is none, and 2 if ROOT has no source of some
component.

The check cannot find an include whose name a macro computes, nor code that is copied instead of included.
"""

import os
import re
import sys
from pathlib import Path, PurePosixPath
from typing import NamedTuple

SOURCE_SUFFIXES = {".h", ".hpp", ".cuh", ".inc", ".c", ".cc", ".cpp", ".cu"}

# The parts of the tree that have rules of their own, longest prefix first. A file belongs to the first part
# that contains it.
PARTS = {
    "kernels/include": "api",  # the public headers
    "kernels/example": "example",  # a user's program
    "kernels/tests": "kernel tests",
    "kernels": "kernels",
    "reference": "reference",
    "harness/run/evidence/abilities.cpp": "record",
    "harness/run/evidence/abilities.h": "record",
    "harness/run/evidence/abilities.inc": "record",
    "harness/run/evidence/cause_places.cpp": "record",
    "harness/run/evidence/cause_places.h": "record",
    "harness/run/evidence/cause_texts.cpp": "record",
    "harness/run/evidence/cause_texts.h": "record",
    "harness/run/evidence/cause_texts.inc": "record",
    "harness/run/evidence/causes.cpp": "record",
    "harness/run/evidence/causes.h": "record",
    "harness/run/evidence/checks.inc": "record",
    "harness/run/evidence/coverage.cpp": "record",
    "harness/run/evidence/coverage.h": "record",
    "harness/run/evidence/engine_bugs.inc": "record",
    "harness/run/evidence/evidence.h": "record",
    "harness/run/evidence/features.inc": "record",
    "harness/run/evidence/record.h": "record",
    "harness/run/evidence/record.cpp": "record",
    "harness": "harness",
    "reports": "reports",
    "suites": "suites",
    "python": "python",
}

# For each part, the parts that it may include.
ALLOWED = {
    "api": {"api"},
    "example": {"api"},
    "kernels": {"api", "kernels"},
    "kernel tests": {"api", "kernels", "reference", "record", "harness", "kernel tests"},
    "reference": {"api", "reference"},
    "record": {"record"},
    "harness": {"api", "reference", "record", "harness"},
    "reports": {"record", "reports"},
    "suites": {"api", "kernels", "reference", "record", "harness", "reports", "suites"},
    "python": {"api", "reference", "record", "harness", "reports", "suites", "python"},
}

# The rooms (sub-components) of the kernels, lowest first; each has the list of other rooms that it may
# include.
_CUDA = "kernels/cuda/"
_RULES = "kernels/serving/rules"
_TILES = {"kernels/common", _CUDA + "device", _CUDA + "rows", _CUDA + "tiles"}
ROOMS = {
    "kernels/common": set(),
    "kernels/cpu": {"kernels/common"},
    _RULES: {"kernels/common"},
    "kernels/serving": {"kernels/common", "kernels/cpu", _RULES},
    _CUDA + "device": {"kernels/common"},
    _CUDA + "rows": {"kernels/common", _CUDA + "device"},
    _CUDA + "tiles": {"kernels/common", _CUDA + "device", _CUDA + "rows"},
    _CUDA + "processing": _TILES,
    _CUDA + "outputs": _TILES | {_RULES},
    _CUDA + "speculation": _TILES | {_RULES},
    _CUDA + "sharded": _TILES | {_CUDA + "outputs"},
    _CUDA + "beams": _TILES | {_CUDA + "outputs", _RULES},
    _CUDA + "calls": _TILES
    | {_CUDA + room for room in ("processing", "outputs", "sharded", "speculation", "beams")}
    | {_RULES},
    _CUDA + "batch": {"kernels/common", "kernels/serving", _CUDA + "device", _CUDA + "calls"},
}

# Path prefixes of the serving ring, a separate library that no other part of the product may include. If a
# folder has files of both rings, the list names the folder's files of the serving ring one by one. Plugins are
# built from plugin.h, which belongs to both rings.
SERVING = tuple(
    folder + name
    for folder, names in {
        "kernels/include/fairdraw/": """
            adaptive_p.h batch_state.h beam_search.h cuda_beam_ cuda_fused_ cuda_kept_sets.h cuda_sharded.h
            cuda_speculative.h cuda_stop_criteria.h cuda_watermark.h fused_sampling_processor.h
            kept_sets.h mirostat.h parallel_sampling.h sharded speculative.h stop_criteria.h watermark.h
        """,
        "kernels/": "serving/ sharded/",
        "kernels/cuda/": """
            batch/ beams/ sharded/ speculation/ outputs/kept_sets. outputs/mark_rows.
            outputs/play_rows. outputs/row_marks.
        """,
        "kernels/cuda/calls/": """
            beam_search.cpp chain_speculative_sampling.cpp kept_ no_cuda_serving.cpp sharded
            speculation.cpp stop_criteria.cu watermark.cpp
        """,
        "kernels/tests/": "arguments/ serving/ sharded/ speculation/ sample/kept_ cuda/serving/",
        "harness/adapters/": """
            cuda_sharded.cpp kept_batch. model_marks.cpp model_sequence.cpp serving.cpp serving_model.
            shard_columns. sharded speculation_view.h
        """,
        "reference/": """
            beam_model. speculation/ stop_model. tests/speculation_ tests/speculative_model_test.cpp
            watermark_model.
        """,
        "python/bindings/": "draft_ no_serving.cpp python_sampler.cpp running_batch.h serving/",
        "harness/contract/": "drafts.h plugin.h sequence.h serving tests/call_arrays_test.cpp",
        "harness/plugin/": """
            serving.cpp tests/bad_plugin.c tests/plugin_test.cpp tests/sequences_test.cpp
        """,
        "harness/run/": """
            calls/chain_request. calls/mixed_serving. calls/sequence_event.
            calls/speculation_request.
            checks/exact/sequences.cpp checks/speculation/ tests/chain_test.cpp tests/mutants.cpp
            tests/speculation_test.cpp
        """,
        "suites/gate/cases/": """
            narrow_speculation_cases.cpp sequence_cases.cpp speculation_cases.cpp
        """,
        "suites/gate/identify/": "tests/call_neighbours_test.cpp",
    }.items()
    for name in names.split()
)
# Folders to which the rule of the serving ring applies. suites/gate/fuzz/ is not in the list, because its
# cases are of any kind; nor is suites/gate/mutants/, which mutates samplers of both rings.
RINGED = (
    "kernels/",
    "reference/",
    "harness/",
    "python/bindings/",
    "suites/command/",
    *(f"suites/gate/{folder}/" for folder in ("calibration", "cases", "identify", "run", "tests")),
)
# Pattern of the names that belong to serving, which the core must not use either.
SERVING_NAME = re.compile(
    r"\bfairdraw_(?:chain|verification|event|plugin_run_(?:chain|verification|event))\b"
)

# Prefixes of third-party headers that some part must not include. The reference shares no random numbers and
# no vector code with the samplers that it judges. The harness builds without the CUDA Toolkit. The public
# headers need only a C++17 compiler.
CUDA = ("cuda", "curand", "cub/", "thrust/", "cooperative_groups")
FORBIDDEN_LIBRARIES = {
    "reference": CUDA + ("Random123/", "hwy/"),
    "harness": CUDA,
    "reports": CUDA + ("Random123/", "hwy/", "Eigen/", "boost/math/"),
    "record": CUDA + ("Random123/", "hwy/", "Eigen/", "boost/"),
}
STANDARD_LIBRARY_ONLY = {"api", "example"}
# Public headers for users of another library, each with that library's header.
FOR_USERS_OF = {"kernels/include/fairdraw/sharded_nccl.h": "nccl.h"}

# Folders from which the paths of includes in quotes begin. Every #include in quotes is a path from one of
# these folders, even for headers in the same folder, so that the line states where the header is.
INCLUDE_ROOTS = ("", "kernels/include", "kernels")

# C headers that are installed in one folder, for authors of plugins who do not have this tree.
INCLUDES_ITS_NEIGHBOUR = {
    f"harness/contract/{name}.h" for name in ("drafts", "plugin", "plugin_abi", "sequence")
}

# Python distributions beside the package. Satellites use only the package's public names, and nothing else of
# the tree uses the satellites' names.
SATELLITES = ("python/audit/", "python/cluster/", "python/engines/")
IMPORT = re.compile(
    r"^ *(?:from (fairdraw[\w.]*) import (\([^)]*\)|.*)|import (fairdraw[\w.]*))", re.MULTILINE
)
PRIVATE = re.compile(r"\b_(?!_)\w+")

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.MULTILINE)


class Violation(NamedTuple):
    file: str
    line: int
    include: str
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.include}: {self.reason}"


def part_of(path: str) -> str | None:
    """Returns the part that contains `path` (relative to the root), or None if no part does."""
    for prefix, part in PARTS.items():
        if path == prefix or path.startswith(prefix + "/"):
            return part
    return None


def room_of(path: str) -> str | None:
    """Returns the room of the kernels that contains `path`, or None."""
    return next((room for room in ROOMS if path.startswith(room + "/")), None)


def source_files(root: Path):
    """Yields all sources below the components, relative to `root`, in a fixed order."""
    for component in sorted({prefix.split("/")[0] for prefix in PARTS}):
        for folder, _, names in sorted(os.walk(root / component)):
            for name in sorted(names):
                if Path(name).suffix in SOURCE_SUFFIXES:
                    yield (Path(folder) / name).relative_to(root).as_posix()


def resolve(root: Path, file: str, name: str) -> str | None:
    """Returns the file that `name` in an #include of `file` refers to, relative to the root; None if that
    file is not in the tree.
    """
    candidates = [PurePosixPath(root_folder) / name for root_folder in INCLUDE_ROOTS]
    candidates.append(PurePosixPath(file).parent / name)
    for candidate in candidates:
        path = os.path.normpath(candidate)
        # A path that begins with a component's folder belongs to the component even if the file does not
        # exist.
        if (root / path).is_file() or (path == str(candidate) == name and part_of(path)):
            return path
    return None


def is_above(file: str, target: str) -> bool:
    """Returns whether `file` must not include `target` because of the order of their rooms."""
    room, other = room_of(file), room_of(target)
    return None not in (room, other) and room != other and other not in ROOMS[room]


def is_serving(path: str) -> bool:
    return path.startswith(SERVING)


def is_core(path: str) -> bool:
    return path.startswith(RINGED) and not is_serving(path)


def spelling(target: str) -> str:
    """Returns the form in which an #include must name the file `target`."""
    for root_folder in ("kernels/include/", "kernels/"):
        if target.startswith(root_folder):
            return target.removeprefix(root_folder)
    return target


def is_path_from_a_root(target: str, name: str, file: str) -> bool:
    return name == spelling(target) or file in INCLUDES_ITS_NEIGHBOUR


def violations(root: Path) -> list[Violation]:
    found = []
    for file in source_files(root):
        part = part_of(file)
        text = (root / file).read_text(encoding="utf-8")
        for match in INCLUDE.finditer(text):
            quote, name = match.groups()
            shown = match.group(0).split("include", 1)[1].strip()
            line = text.count("\n", 0, match.start()) + 1
            target = resolve(root, file, name)
            if target is None:
                reason = library_violation(part, quote, name)
                if quote == "<" and FOR_USERS_OF.get(file) == name:
                    reason = None
            else:
                target_part = part_of(target)
                reason = None
                if target_part not in ALLOWED[part]:
                    reason = f"{part} must not include {target_part or 'what is outside the tree'}"
                elif is_core(file) and is_serving(target):
                    reason = "the core must not include serving"
                elif is_above(file, target):
                    reason = f"{room_of(file)} must not include {room_of(target)}"
                elif quote == '"' and not is_path_from_a_root(target, name, file):
                    reason = "an include is a path from an include root: " + spelling(target)
            if reason:
                found.append(Violation(file, line, shown, reason))
        for match in SERVING_NAME.finditer(text) if is_core(file) else ():
            line = text.count("\n", 0, match.start()) + 1
            found.append(Violation(file, line, match[0], "the core must not name serving's calls"))
    return found


def import_violations(root: Path) -> list[Violation]:
    """Returns the imports by which satellite packages use private names, and those by which other files use
    satellites."""
    found = []
    for path in sorted(root.rglob("*.py")):
        file = path.relative_to(root).as_posix()
        if file.startswith("build/"):
            continue
        text = path.read_text(encoding="utf-8")
        for match in IMPORT.finditer(text):
            module, names = match[1] or match[3], match[2] or ""
            package = module.split(".")[0]
            reason = None
            if package.startswith("fairdraw_") and not file.startswith(SATELLITES):
                reason = "nothing but a satellite may import one"
            elif package == "fairdraw" and file.startswith(SATELLITES):
                private = PRIVATE.search(f"{module} {names}")
                reason = f"a satellite must not use {private[0]}" if private else None
            if reason:
                line = text.count("\n", 0, match.start()) + 1
                found.append(Violation(file, line, module, reason))
    return found


def library_violation(part: str, quote: str, name: str) -> str | None:
    """Returns the reason why files of `part` must not include the library header `name`, or None."""
    if quote == '"':
        return "no file of the tree has this name (headers of libraries go in <>)"
    if name.startswith(FORBIDDEN_LIBRARIES.get(part, ())):
        return f"{part} must not use this library"
    if part in STANDARD_LIBRARY_ONLY and ("/" in name or "." in name):
        return f"{part} uses the C++ standard library alone"
    return None


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    root = Path(arguments[0])
    files = list(source_files(root))
    for part in ALLOWED:
        if not any(part_of(file) == part for file in files):
            print(f"{root} holds no source of {part}: is it the root of the tree?", file=sys.stderr)
            return 2
    found = violations(root) + import_violations(root)
    for violation in found:
        print(violation)
    print(f"{len(files)} files, {len(found)} forbidden includes and imports")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
