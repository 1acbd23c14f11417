#!/usr/bin/env python3
"""Lists the programs and files that a build used but that would be missing on a machine with only the
packages of ./fairdraw.

Usage: system_tools.py [ROOT]

The script reads the caches of CMake in ROOT/build, and finds the programs that scripts call. Each file must
be in the system's folders, in the CUDA Toolkit or in ROOT. A file in the system's folders must belong to a
package that ./fairdraw installs, to a package that such a package needs, or to a package of every Debian. No
compiler launcher may be set in a cache. Exit codes: 0 if every file is where it must be; 1 if some file is
not.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

# Packages that a machine with a clone must have.
OF_EVERY_CLONE = {"git", "ca-certificates"}
# Programs that scripts and tests call by name, in addition to the entries of CMake's caches.
PROGRAMS = ("awk", "bash", "chromium", "cmake", "ctest", "doxygen", "flock", "g++", "git", "grep", "ninja",
            "python3", "sed", "shellcheck", "xz")

ENTRY = re.compile(r"^([\w-]+):\w+=(/.*)$", re.MULTILINE)
LAUNCHER = re.compile(r"^(CMAKE_\w+_COMPILER_LAUNCHER):\w+=(.+)$", re.MULTILINE)
PACKAGES = re.compile(r"k\w+Packages=\(([^)]*)\)")
OWNER = re.compile(r"^([^\s:,]+)[^ ]*: (/.*)$", re.MULTILINE)


def used_files(root: Path) -> dict[str, str]:
    """Returns a map from each path that a build or a script used to the user of the path. CMake also stores
    paths that it does not use: the target of an installation, and the place of the tree. Such paths are left
    out of the list."""
    used = {}
    for cache in sorted(root.glob("build/*/CMakeCache.txt")):
        for name, path in ENTRY.findall(cache.read_text(encoding="utf-8")):
            if "CMAKE_INSTALL_" not in name and os.path.exists(path):
                used[path] = f"{cache.relative_to(root)}: {name}"
    for program in PROGRAMS:
        path = shutil.which(program)
        if path:
            used.setdefault(path, "PATH")
    return used


def is_in_its_place(root: Path, path: str) -> bool:
    real = Path(os.path.realpath(path))
    if real.is_relative_to(root):
        return True
    if real.is_relative_to("/usr/local"):
        return real.parts[3:4] != () and re.fullmatch(r"cuda(-[\d.]+)?", real.parts[3]) is not None
    return real.is_relative_to("/usr")


def installed_packages(root: Path) -> set[str]:
    """Returns the packages that ./fairdraw installs, the packages that they need, and those that
    every Debian has."""
    text = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package}\\t${Essential}\\t${Priority}\\t${Pre-Depends}, "
         "${Depends}\\t${Provides}\\n"], check=True, capture_output=True, text=True).stdout
    names = re.compile(r"(?:^|[,|])\s*([\w.+-]+)")
    needs, providers, wanted = {}, {}, set(OF_EVERY_CLONE)
    for line in text.splitlines():
        package, essential, priority, depends, provides = line.split("\t")
        needs[package] = names.findall(depends)
        for name in [package, *names.findall(provides)]:
            providers.setdefault(name, []).append(package)
        if essential == "yes" or priority == "required":
            wanted.add(package)
    launcher = (root / "fairdraw").read_text(encoding="utf-8")
    for listed in PACKAGES.findall(launcher):
        wanted |= set(listed.split())
    found, to_visit = set(), list(wanted)
    while to_visit:
        for package in providers.get(to_visit.pop(), []):
            if package not in found:
                found.add(package)
                to_visit += needs[package]
    return found


def owners(paths: list[str]) -> dict[str, str]:
    """Returns a map from each system file to its package. Debian's lists name some files below / that really
    are below /usr."""
    real = {path: os.path.realpath(path) for path in paths}
    asked = {name for path in real.values() for name in (path, path.removeprefix("/usr"))}
    result = subprocess.run(["dpkg", "-S", *sorted(asked)], capture_output=True, text=True)
    package_of = {name: package for package, name in OWNER.findall(result.stdout)}
    found = {path: package_of.get(name) or package_of.get(name.removeprefix("/usr"))
             for path, name in real.items()}
    return {path: package for path, package in found.items() if package}


def problems(root: Path) -> list[str]:
    found = [f"{cache.relative_to(root)}: {name} is set to {value}"
             for cache in sorted(root.glob("build/*/CMakeCache.txt"))
             for name, value in LAUNCHER.findall(cache.read_text(encoding="utf-8"))]
    used = used_files(root)
    found += [f"{who}: {path} is not of the system" for path, who in used.items()
              if not is_in_its_place(root, path)]
    if not shutil.which("dpkg"):
        return found
    installed = installed_packages(root)
    files = [path for path in used if os.path.isfile(path) and is_in_its_place(root, path)
             and not os.path.realpath(path).startswith((f"{root}/", "/usr/local/"))]
    package_of = owners(files)
    for path in files:
        package = package_of.get(path)
        if package is None:
            found.append(f"{used[path]}: {path} is of no package")
        elif package not in installed:
            found.append(f"{used[path]}: {path} is of package {package}, which ./fairdraw does not install")
    return found


def main(arguments: list[str]) -> int:
    root = Path(arguments[0] if arguments else Path(__file__).parents[2]).resolve()
    found = problems(root)
    for line in found:
        print(line)
    print(f"{len(used_files(root))} tools and folders, {len(found)} of them not of ./fairdraw's packages")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
