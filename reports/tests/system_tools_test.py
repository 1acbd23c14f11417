"""The tests of reports/ci/system_tools.py require that it finds files from elsewhere that a build used, and
does not report files that the scripts install. The tests write caches of CMake, and use stand-ins for dpkg.
The tests also check that .ci/run clears its environment, and that it fails if the check of tools fails.

Usage: system_tools_test.py REPOSITORY
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(ROOT / "reports" / "ci"))

import system_tools  # noqa: E402

LAUNCHER = "readonly kBuildPackages=(tool\n  library-dev)\nreadonly kTools=(other)\n"
# The columns are package, essential, priority, needs, provides.
PACKAGES = """base\\tyes\\trequired\\t, \\t
tool\\tno\\toptional\\tinterface (>= 1) | none, \\t
part\\tno\\toptional\\t, \\tinterface (= 1)
library-dev\\tno\\toptional\\t, base\\t
other\\tno\\toptional\\t, \\t
"""


class ToolsCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(os.path.realpath(folder.name)) / "tree"
        self.bin = self.root.parent / "bin"
        self.bin.mkdir(parents=True)

    def stand_in(self, path, script):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n" + script, encoding="utf-8")
        path.chmod(0o755)


class Tools(ToolsCase):
    def setUp(self):
        super().setUp()
        (self.root / "build" / "release").mkdir(parents=True)
        (self.root / "fairdraw").write_text(LAUNCHER, encoding="utf-8")
        self.stand_in(self.bin / "dpkg-query", f"printf '{PACKAGES}'\n")
        path = os.environ["PATH"]
        self.addCleanup(os.environ.update, PATH=path)
        os.environ["PATH"] = str(self.bin)

    def problems(self, owner, *entries):
        """Returns the problems that are found if every file belongs to the package `owner`, or to no package
        if `owner` is empty."""
        says = f'for file in "$@"; do echo "{owner}:amd64: $file"; done\n' if owner else "exit 1\n"
        self.stand_in(self.bin / "dpkg", "shift\n" + says)
        cache = self.root / "build" / "release" / "CMakeCache.txt"
        cache.write_text("".join(f"{entry}\n" for entry in entries), encoding="utf-8")
        # PATH has only the stand-ins, and none of the programs that the script searches for.
        return system_tools.problems(self.root)

    def test_what_the_packages_bring_is_right(self):
        for owner in ["base", "tool", "part", "library-dev"]:
            self.assertEqual(self.problems(owner, "CMAKE_AR:FILEPATH=/usr/bin/env"), [], owner)

    def test_a_package_that_the_launcher_does_not_install_is_found(self):
        self.assertEqual(
            self.problems("other", "CMAKE_AR:FILEPATH=/usr/bin/env"),
            ["build/release/CMakeCache.txt: CMAKE_AR: /usr/bin/env is of package other, which "
             "./fairdraw does not install"])
        self.assertEqual(
            self.problems("", "CMAKE_AR:FILEPATH=/usr/bin/env"),
            ["build/release/CMakeCache.txt: CMAKE_AR: /usr/bin/env is of no package"])

    def test_what_lies_elsewhere_is_found(self):
        elsewhere = self.root.parent / "opt" / "g++"
        self.stand_in(elsewhere, "")
        found = self.problems("base", f"CMAKE_CXX_COMPILER:FILEPATH={elsewhere}",
                              f"fmt_DIR:PATH={elsewhere.parent}")
        self.assertEqual(found, [
            f"build/release/CMakeCache.txt: CMAKE_CXX_COMPILER: {elsewhere} is not of the system",
            f"build/release/CMakeCache.txt: fmt_DIR: {elsewhere.parent} is not of the system"])

    def test_a_link_counts_as_what_it_leads_to(self):
        elsewhere = self.root.parent / "opt" / "g++"
        self.stand_in(elsewhere, "")
        inside = self.root / "build" / "g++"
        inside.symlink_to(elsewhere)
        self.assertEqual(len(self.problems("base", f"CMAKE_CXX_COMPILER:FILEPATH={inside}")), 1)
        inside.unlink()
        inside.symlink_to("/usr/bin/env")
        self.assertEqual(self.problems("base", f"CMAKE_CXX_COMPILER:FILEPATH={inside}"), [])

    def test_a_program_on_path_from_elsewhere_is_found(self):
        self.stand_in(self.bin / "ninja", "")
        self.assertEqual(self.problems("base"), [f"PATH: {self.bin}/ninja is not of the system"])

    def test_of_usr_local_the_cuda_toolkit_alone_is_right(self):
        for path, right in [("/usr/local/cuda/bin/nvcc", True), ("/usr/local/cuda-13.0/bin/nvcc", True),
                            ("/usr/local/bin/nvcc", False), ("/usr/local/cudax/nvcc", False),
                            ("/usr/local", False), ("/opt/cuda/bin/nvcc", False)]:
            real, os.path.realpath = os.path.realpath, str
            try:
                self.assertEqual(system_tools.is_in_its_place(self.root, path), right, path)
            finally:
                os.path.realpath = real

    def test_a_compiler_launcher_is_found(self):
        self.assertEqual(
            self.problems("base", "CMAKE_CXX_COMPILER_LAUNCHER:UNINITIALIZED=ccache"),
            ["build/release/CMakeCache.txt: CMAKE_CXX_COMPILER_LAUNCHER is set to ccache"])
        self.assertEqual(self.problems("base", "CMAKE_CXX_COMPILER_LAUNCHER:STRING="), [])

    def test_where_cmake_would_install_is_not_used(self):
        self.assertEqual(self.problems("base", "CMAKE_INSTALL_PREFIX:PATH=/usr/local"), [])


class Run(ToolsCase):
    """Tests .ci/run in a tree whose ./fairdraw records how it was called."""

    def setUp(self):
        super().setUp()
        (self.root / ".ci").mkdir(parents=True)
        shutil.copy(ROOT / ".ci" / "run", self.root / ".ci")
        self.stand_in(self.root / "fairdraw", 'env >seen; echo "$*" >>seen; ls -A "$HOME" >home; exit $(cat code)\n')
        (self.root / "build" / "release").mkdir(parents=True)
        (self.root / "reports" / "ci").mkdir(parents=True)

    def run_ci(self, tests, tools):
        """Runs .ci/run with given exit codes for the tests and for the check of system tools, and returns its
        exit code."""
        (self.root / "code").write_text(str(tests), encoding="utf-8")
        (self.root / "reports" / "ci" / "system_tools.py").write_text(
            f"import sys\nsys.exit({tools})\n", encoding="utf-8")
        self.stand_in(self.bin / "ccache", "")
        environment = {"PATH": f"{self.bin}:/usr/bin:/bin", "HOME": str(self.root.parent),
                       "CCACHE_DIR": "/x", "CXX": "clang++", "PYTHONPATH": "/x",
                       "CMAKE_CXX_COMPILER_LAUNCHER": "ccache", "PIP_TARGET": "/x",
                       "PIP_INDEX_URL": "https://a.b/simple", "https_proxy": "http://c:1",
                       "SSL_CERT_FILE": "/etc/ssl/x.crt", "FAIRDRAW_BASE": "0a1b"}
        return subprocess.run([self.root / ".ci" / "run"], env=environment, check=False,
                              capture_output=True).returncode

    def test_nothing_is_inherited_but_the_registries(self):
        self.assertEqual(self.run_ci(0, 0), 0)
        lines = (self.root / "seen").read_text(encoding="utf-8").splitlines()
        self.assertEqual(lines.pop(), "test")
        seen = dict(line.split("=", 1) for line in lines)
        for name in ["PWD", "SHLVL", "_", "OLDPWD"]:  # variables that the shell itself sets
            seen.pop(name, None)
        home = self.root / "build" / "home"
        self.assertEqual(seen, {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(home), "CI": "true",
            "CUDA_HOME": "/usr/local/cuda", "PIP_INDEX_URL": "https://a.b/simple",
            "https_proxy": "http://c:1", "SSL_CERT_FILE": "/etc/ssl/x.crt", "FAIRDRAW_BASE": "0a1b"})
        self.assertEqual((self.root / "home").read_text(encoding="utf-8"), "")
        self.assertFalse((self.root / "build" / "release").exists())

    def test_it_fails_where_the_tests_or_the_tools_do(self):
        for tests, tools in [(1, 0), (0, 1), (3, 1)]:
            self.assertEqual(self.run_ci(tests, tools), 1)


if __name__ == "__main__":
    unittest.main()
