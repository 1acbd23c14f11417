"""The tests of reports/ci/release.py run in a temporary repository. The tests check the places that the
script writes, the versions that it rejects, its notes, and that a dry run builds and tags nothing. A stand-in
replaces the script python/wheels/build.

Usage: release_test.py REPOSITORY
"""

import contextlib
import hashlib
import io
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(ROOT / "reports" / "ci"))

import release  # noqa: E402

SATELLITE = 'name = "fairdraw-audit"\nversion = "0.1.0"\ndependencies = ["fairdraw>=0.1,<0.2", "numpy"]\n'
FILES = {
    "CMakeLists.txt": "cmake_minimum_required(VERSION 3.25)\nproject(fairdraw VERSION 0.1.0 LANGUAGES CXX)\n",
    "CITATION.cff": "cff-version: 1.2.0\nversion: 0.1.0\n",
    "CHANGELOG.md": "# Changes\n\n## 0.2.0 (not released)\n\n- It draws.\n\n**More**\n\n- It judges.\n\n"
                    "## 0.1.0 (2026-01-31)\n\nThe first version.\n",
    "python/audit/pyproject.toml": SATELLITE,
    "python/cluster/pyproject.toml": SATELLITE.replace("audit", "ray"),
    "python/wheels/README.md": "python/wheels/try python3.11 dist/fairdraw-0.1.0-cp311-*.whl\n",
    "kernels/example/CMakeLists.txt": "find_package(fairdraw 0.1 REQUIRED)\n",
    ".gitignore": "/build/\n",
}
BUILDER = """#!/bin/sh
echo "$*" >>build/called
for name in $MADE; do echo "$name" >"$3/$name"; done
exit ${CODE:-0}
"""
DATE = "2026-12-01"


class ReleaseCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(os.path.realpath(folder.name))
        for path, text in FILES.items():
            self.write(path, text)
        self.write("python/wheels/build", BUILDER)
        (self.root / "python/wheels/build").chmod(0o755)
        self.git("init", "--quiet", "--initial-branch=main")
        for name, value in [("user.name", "t"), ("user.email", "t@t"), ("tag.gpgSign", "false")]:
            self.git("config", name, value)
        self.commit("first")
        self.git("tag", "v0.1.0")
        self.out = self.root / "build" / "release-0.2.0"
        self.environment(MADE="fairdraw-0.2.0.tar.gz fairdraw-0.2.0-cp312-abi3-x.whl fairdraw_audit-0.2.0.tar.gz",
                         CODE="0")

    def environment(self, **values):
        self.addCleanup(os.environ.update, {name: os.environ.get(name, "") for name in values})
        os.environ.update(values)

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text, encoding="utf-8")

    def read(self, path):
        return (self.root / path).read_text(encoding="utf-8")

    def git(self, *words):
        return subprocess.run(["git", "-C", self.root, *words], check=True, capture_output=True,
                              text=True).stdout

    def commit(self, message):
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)

    def release(self, *words):
        """Returns the exit code and all output of release.py."""
        output = io.StringIO()
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            try:
                code = release.main([*words], self.root)
            except SystemExit as end:
                code = end.code
        return code, output.getvalue()

    def refused(self, *words):
        code, output = self.release(*words)
        self.assertEqual(code, 1, output)
        self.assertEqual(self.git("tag").split(), ["v0.1.0"])
        return output

    def set(self):
        self.assertEqual(self.release("set", "0.2.0", "--date", DATE)[0], 0)
        self.commit("version 0.2.0")


class Set(ReleaseCase):
    def test_every_place_gets_the_version(self):
        code, output = self.release("set", "0.2.0", "--date", DATE)
        self.assertEqual(code, 0, output)
        self.assertEqual(output.split(), sorted(path for path in FILES if path != ".gitignore"))
        for path in FILES:
            self.assertEqual(self.read(path).count("0.1.0"), FILES[path].count("0.1.0") if path == "CHANGELOG.md"
                             else 0, path)
        self.assertIn("project(fairdraw VERSION 0.2.0 LANGUAGES", self.read("CMakeLists.txt"))
        self.assertIn('"fairdraw>=0.2,<0.3", "numpy"', self.read("python/audit/pyproject.toml"))
        self.assertEqual(self.read("kernels/example/CMakeLists.txt"), "find_package(fairdraw 0.2 REQUIRED)\n")
        self.assertIn(f"## 0.2.0 ({DATE})\n\n- It draws.", self.read("CHANGELOG.md"))
        self.assertIn("## 0.1.0 (2026-01-31)", self.read("CHANGELOG.md"))
        self.assertEqual(self.read("CITATION.cff"), "cff-version: 1.2.0\nversion: 0.2.0\n")

    def test_once_more_changes_nothing(self):
        self.set()
        self.assertEqual(self.release("set", "0.2.0", "--date", DATE), (0, "\n"))

    def test_without_a_section_nothing_is_written(self):
        self.assertIn("no section '## 0.3.0 (...)'", self.refused("set", "0.3.0"))
        self.assertEqual(self.git("status", "--porcelain"), "")

    def test_no_version_and_no_date(self):
        for words in [("set", "0.2"), ("set", "v0.2.0"), ("set", "0.02.0"), ("set", "0.2.0", "--date", "1.12."),
                      ("make", "0.2.0.1"), ("tag", "0.2.0")]:
            self.assertEqual(self.release(*words)[0], 2, words)
        self.assertEqual(self.git("status", "--porcelain"), "")


class Make(ReleaseCase):
    def test_a_dry_run_writes_the_notes_and_builds_and_tags_nothing(self):
        self.set()
        code, output = self.release("make", "0.2.0", "--dry-run")
        self.assertEqual(code, 0, output)
        self.assertEqual((self.out / "release-notes.md").read_text(encoding="utf-8"),
                         "# fairdraw 0.2.0\n\nChanges since 0.1.0.\n\n- It draws.\n\n**More**\n\n- It judges.\n")
        self.assertEqual(os.listdir(self.out), ["release-notes.md"])
        self.assertFalse((self.root / "build/called").exists())
        self.assertEqual(self.git("tag").split(), ["v0.1.0"])

    def test_a_release_is_built_summed_and_tagged(self):
        self.set()
        code, output = self.release("make", "0.2.0")
        self.assertEqual(code, 0, output)
        self.assertEqual(self.read("build/called"), f"--sources --out {self.out}\n")
        names = sorted(os.environ["MADE"].split())
        self.assertEqual((self.out / "SHA256SUMS").read_text(encoding="utf-8"), "".join(
            f"{hashlib.sha256(f'{name}{chr(10)}'.encode()).hexdigest()}  {name}\n" for name in names))
        self.assertEqual(self.git("rev-parse", "v0.2.0^{commit}"), self.git("rev-parse", "HEAD"))
        self.assertEqual(self.git("cat-file", "-t", "v0.2.0"), "tag\n")
        self.assertIn("# fairdraw 0.2.0", self.git("for-each-ref", "--format=%(contents)", "refs/tags/v0.2.0"))
        self.assertIn("0.2.0 is not newer than 0.2.0, which has a tag", self.release("make", "0.2.0")[1])

    def test_places_that_disagree_are_all_named(self):
        self.set()
        self.write("CITATION.cff", "version: 0.1.9\n")
        self.write("python/audit/pyproject.toml", SATELLITE)
        self.write("python/wheels/README.md", "nothing\n")
        self.commit("wrong")
        output = self.refused("make", "0.2.0", "--dry-run")
        for line in ["CITATION.cff has '0.1.9' where 0.2.0 needs '0.2.0'",
                     "python/audit/pyproject.toml has '0.1.0' where 0.2.0 needs '0.2.0'",
                     "python/audit/pyproject.toml has '>=0.1,<0.2' where 0.2.0 needs '>=0.2,<0.3'",
                     "python/wheels/README.md names no version"]:
            self.assertIn(line, output)
        self.assertFalse(self.out.exists())

    def test_what_is_not_committed_is_named(self):
        self.set()
        self.write("new", "")
        self.assertIn("uncommitted changes:\nrelease: ?? new", self.refused("make", "0.2.0"))

    def test_sections(self):
        self.set()
        good = self.read("CHANGELOG.md")
        for text, what in [(good.replace(DATE, "not released"), "'(not released)' instead of the date"),
                           (good.replace("## 0.2.0", "## 0.3.0 (not released)\n\n- New.\n\n## 0.2.0"),
                            "0.3.0 stands before 0.2.0"),
                           (f"# Changes\n\n## 0.2.0 ({DATE})\n\n## 0.1.0 (x)\n", "section of 0.2.0 is empty")]:
            self.write("CHANGELOG.md", text)
            self.commit("wrong")
            self.assertIn(what, self.refused("make", "0.2.0"))

    def test_a_build_that_fails_or_lacks_a_file_is_not_tagged(self):
        self.set()
        for environment, what in [({"CODE": "3"}, "python/wheels/build failed"),
                                  ({"MADE": "fairdraw-0.2.0.tar.gz"}, "made no fairdraw-0.2.0-*.whl"),
                                  ({"MADE": "fairdraw-0.2.0-cp312-abi3-x.whl"}, "made no fairdraw-0.2.0.tar.gz")]:
            usual = {name: os.environ[name] for name in environment}
            os.environ.update(environment)
            out = self.root / "build" / what[-8:].replace("*", "")
            self.assertIn(what, self.refused("make", "0.2.0", "--out", str(out)))
            os.environ.update(usual)
        self.out.mkdir(parents=True)
        (self.out / "fairdraw-0.1.0.tar.gz").touch()
        self.assertIn("files of another version, fairdraw-0.1.0.tar.gz", self.refused("make", "0.2.0"))


class Tree(unittest.TestCase):
    """Tests release.py on this repository itself."""

    def read(self, path):
        return (ROOT / path).read_text(encoding="utf-8")

    def test_it_has_every_place_and_they_agree(self):
        version = re.search(r"^project\(fairdraw VERSION (\S+)", self.read("CMakeLists.txt"), re.MULTILINE)[1]
        self.assertEqual(release.disagreements(ROOT, version), [])

    def test_no_other_file_of_the_build_has_the_version(self):
        """Finds versions in places that release.py does not know, and that would be wrong after the next
        release."""
        known = {str(path.relative_to(ROOT)) for path, _, _ in release.places(ROOT)}
        version = re.search(r"^project\(fairdraw VERSION (\S+)", self.read("CMakeLists.txt"), re.MULTILINE)[1]
        wanted = re.compile(rf"fairdraw[^\n]{{0,3}}\b{re.escape(release.minor(version))}\b|\bv?{re.escape(version)}\b")
        files = [path for name in ["*.cmake", "CMakeLists.txt", "pyproject.toml"] for path in ROOT.rglob(name)
                 if not {"build", ".git"} & set(path.relative_to(ROOT).parts)]
        self.assertGreater(len(files), len(known))
        found = {str(path.relative_to(ROOT)) for path in files if wanted.search(path.read_text(encoding="utf-8"))}
        self.assertEqual(found - known, set())
        self.assertIn("kernels/example/CMakeLists.txt", found)

    def test_the_page_of_versions_has_what_the_build_accepts_and_ci_installs(self):
        page, project, launcher = (self.read(path) for path in ["docs/versions.md", "pyproject.toml", "fairdraw"])
        rows = {row.split("|")[1].strip(): row for row in page.splitlines() if row.startswith("| ")}
        nvcc = re.search(r"kFairdrawOldestNvcc (\S+)\)", self.read("cmake/cuda.cmake"))[1]
        self.assertIn(f"| {nvcc} or newer", rows["nvcc"])
        cmake = re.search(r"^cmake_minimum_required\(VERSION (\S+)\)", self.read("CMakeLists.txt"))[1]
        self.assertIn(f"| {cmake} or newer", rows["CMake"])
        python = re.search(r'^requires-python = ">=(.*)"', project, re.MULTILINE)[1]
        self.assertIn(f"| {python} or newer", rows["Python"])
        for tool in ["numpy", "torch"]:
            oldest = re.search(rf'"{tool}>=([^"]+)"', project)[1]
            pinned = re.search(rf"\b{tool}==([0-9.]+)", launcher)[1]
            row = rows["NumPy" if tool == "numpy" else tool]
            self.assertIn(f"| {oldest} or newer | {pinned}", row)
        self.assertIn(re.search(r"clang-tidy==([0-9.]+)", launcher)[1], rows["clang"])
        wheels = re.search(r"CMAKE_CUDA_ARCHITECTURES\" = \"(.*)\"", project)[1]
        for number in set(re.findall(r"(\d+)-real", wheels)):
            self.assertRegex(page, rf"\b{number[:-1]}\.{number[-1]}\b")

    def test_the_page_of_versions_has_the_pinned_engines(self):
        page = self.read("docs/versions.md")
        pins = re.findall(r'"([a-z-]+)==([^"]+)"', self.read("python/engines/pyproject.toml"))
        self.assertGreater(len(pins), 4)
        for name, version in pins:
            if name not in ("scikit-build-core", "torch", "triton"):
                self.assertIn(version, page, name)


if __name__ == "__main__":
    unittest.main()
