"""The tests of reports/ci/lint.py check which files each tool is given, how clang-tidy is told to read the
files, and that findings of every tool count. The tests use a small tree, and tools that record how they were
called.

Usage: lint_test.py REPOSITORY
"""

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(ROOT / "reports" / "ci"))

import lint  # noqa: E402

FILES = {
    "harness/run/plan.h": "",
    "harness/run/plan.cpp": '#include "harness/run/plan.h"\n',
    "harness/run/other.cpp": "",
    "harness/run/not_built.cpp": "",
    "kernels/cuda/sample.cu": '#include "harness/run/plan.h"\n',
    "python/fairdraw/audit.py": "",
    "reports/ci/nightly": "#!/usr/bin/env bash\n",
    "reports/page/page.js": "",
    "suites/gpu/cliffs": "#!/usr/bin/env python3\n",
}
SCRIPTS = ["reports/ci/nightly"]
CPP = ["harness/run/not_built.cpp", "harness/run/other.cpp", "harness/run/plan.cpp",
       "harness/run/plan.h", "kernels/cuda/sample.cu"]
BUILT = ["harness/run/other.cpp", "harness/run/plan.cpp"]
TOOLS = ["lint-venv/bin/clang-format", "lint-venv/bin/clang-tidy", "python-venv/bin/ruff",
         "python-venv/bin/mypy"]


class LintCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(os.path.realpath(folder.name)) / "tree"
        self.called = self.root.parent / "called"
        for path, text in FILES.items():
            self.write(path, text)
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("commit", "--quiet", "--allow-empty", "--message", "nothing")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "all")
        self.write(".git/info/exclude", "/build/\n")
        for tool in TOOLS:
            self.stand_in("build/" + tool)
        os.environ.pop("FAIRDRAW_BASE", None)  # of the repository that runs this test
        path = os.environ["PATH"]
        self.addCleanup(os.environ.update, PATH=path)
        os.environ["PATH"] = f"{self.root}/build/bin:{path}"
        self.stand_in("build/bin/shellcheck")
        self.write("build/release/compile_commands.json", json.dumps([
            self.entry(file, "") for file in BUILT + ["kernels/cuda/sample.cu"]]))

    def git(self, *words):
        subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", *words], cwd=self.root,
                       check=True)

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text, encoding="utf-8")

    def stand_in(self, path, code=0):
        self.write(path, f'#!/bin/sh\necho "{Path(path).name} $*" >>"{self.called}"\nexit {code}\n')
        (self.root / path).chmod(0o755)

    def entry(self, file, flags):
        return {"directory": str(self.root), "file": str(self.root / file),
                "command": f"g++ {flags} -c {file}"}

    def calls(self, tool):
        """Returns the files of this tree that each call of a tool was given."""
        lines = self.called.read_text(encoding="utf-8").splitlines()
        return [[word for word in line.split() if word in FILES]
                for line in lines if line.split()[0] == tool]

    def lint(self, *words):
        self.called.unlink(missing_ok=True)
        return lint.main(["--jobs", "1", *words], self.root)


class Lint(LintCase):
    def test_every_file_goes_to_the_tools_that_read_its_kind(self):
        self.assertEqual(self.lint(), 0)
        self.assertEqual(self.calls("shellcheck"), [SCRIPTS])
        self.assertEqual(self.calls("clang-format"), [CPP])
        self.assertEqual(self.calls("clang-tidy"), [BUILT])
        self.assertEqual(len(self.calls("ruff")), 2)  # style and format
        self.assertEqual(len(self.calls("mypy")), 1)

    def test_what_a_tool_finds_is_found(self):
        for tool in ["bin/shellcheck", *TOOLS]:
            self.stand_in("build/" + tool, code=1)
            self.assertEqual(self.lint(), 1, tool)
            self.stand_in("build/" + tool)
        self.assertEqual(self.lint(), 0)

    def openings(self, *words):
        """Returns lint's findings about the beginnings of sentences, which decide its exit code."""
        with contextlib.redirect_stdout(io.StringIO()) as output:
            code = self.lint(*words)
        self.assertEqual(code, 1 if output.getvalue() else 0)
        return [line.rpartition(": ")[0] for line in output.getvalue().splitlines()]

    def test_pages_and_public_headers_are_read_whole(self):
        self.write("docs/page.md", "# Of pages\n\nA sentence. What it says\nis bad. Where to?\n\n"
                                   "- item\n- Whether it is one\n\n```sh\nWhat\n```\n")
        self.write("kernels/include/fairdraw/sample.h", "// What is this\n/// Of a type.\nstruct A;\n")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "more")
        self.assertEqual(self.openings(), [
            "docs/page.md:3: 'What it says is bad.'", "docs/page.md:7: 'Whether it is one'",
            "kernels/include/fairdraw/sample.h:2: 'Of a type.'"])

    def test_elsewhere_lines_that_a_change_adds_are_read(self):
        old = "/// What is old.\nint old();\n\n/// Says by what.\nint new_();\n"
        self.write("harness/run/plan.h", old)
        self.write("python/fairdraw/audit.py", '"""What is old."""\n')
        self.git("commit", "--quiet", "--all", "--message", "old")
        os.environ["FAIRDRAW_BASE"] = "HEAD"
        self.addCleanup(os.environ.pop, "FAIRDRAW_BASE")
        self.assertEqual(self.openings(), [])
        self.write("harness/run/plan.h", old.replace("/// Says by what.", "/// By what.\n/// Of it."))
        self.write("harness/run/new.h", "/// Whether it is new.\nbool is_new();\n")
        self.write("python/fairdraw/audit.py", '"""What is old."""\n\n\ndef f():\n    """Of it."""\n')
        self.assertEqual(self.openings(), [
            "harness/run/new.h:1: 'Whether it is new.'", "harness/run/plan.h:4: 'By what.'",
            "python/fairdraw/audit.py:5: 'Of it.'"])
        self.assertEqual(self.openings(str(self.root / "harness/run/plan.h")),
                         ["harness/run/plan.h:4: 'By what.'"])

    def test_comments_inside_of_functions_and_words_like_these_may_begin_so(self):
        self.write("harness/run/new.h", "void f() {\n  // What follows is slow.\n}\n/// Offers it.\nint g;\n"
                                        "int h;  ///< Of g.\n/// Bytes of it. What it is.\nint i;\n")
        self.assertEqual(self.openings(), [])

    def test_of_a_change_clang_tidy_reads_what_it_affects(self):
        self.git("commit", "--quiet", "--allow-empty", "--message", "later")
        os.environ["FAIRDRAW_BASE"] = "HEAD"
        self.addCleanup(os.environ.pop, "FAIRDRAW_BASE")
        self.assertEqual(self.lint("--changed"), 0)
        self.assertEqual(self.calls("clang-tidy"), [])
        self.assertEqual(self.calls("clang-format"), [CPP])
        self.write("harness/run/plan.h", "// more\n")
        self.assertEqual(self.lint("--changed"), 0)
        self.assertEqual(self.calls("clang-tidy"), [["harness/run/plan.cpp"]])

    def test_named_files_are_read_alone(self):
        self.assertEqual(self.lint(str(self.root / "harness/run/plan.cpp")), 0)
        self.assertEqual(self.calls("clang-tidy"), [["harness/run/plan.cpp"]])
        self.assertEqual(self.calls("clang-format"), [["harness/run/plan.cpp"]])
        self.assertEqual(self.calls("shellcheck") + self.calls("ruff"), [])

    def test_format_writes_and_reads_nothing(self):
        self.assertEqual(self.lint("--format"), 0)
        self.assertEqual(self.calls("clang-format"), [CPP])
        self.assertIn("clang-format -i", self.called.read_text(encoding="utf-8"))
        self.assertEqual(self.calls("clang-tidy") + self.calls("shellcheck"), [])

    def test_an_archive_without_git_is_read_whole(self):
        subprocess.run(["rm", "-rf", self.root / ".git"], check=True)
        self.assertEqual(self.lint(), 0)
        self.assertEqual(self.calls("clang-format"), [CPP])
        self.assertEqual(self.calls("shellcheck"), [SCRIPTS])

    def test_a_source_of_several_targets_is_read_as_the_last_compiles_it(self):
        found = lint.commands([self.entry("harness/run/plan.cpp", "-DONE"),
                               self.entry("harness/run/plan.cpp", "-DONE -DTWO")])
        self.assertEqual([entry["command"] for entry in found.values()],
                         ["g++ -DONE -DTWO -c harness/run/plan.cpp"])

    def test_precompiled_headers_are_not_read(self):
        flags = "-O2 -Winvalid-pch -include /x/CMakeFiles/a.dir/cmake_pch.hxx -Wall"
        found = lint.commands([self.entry("harness/run/plan.cpp", flags)])
        self.assertEqual([entry["command"] for entry in found.values()],
                         ["g++ -O2 -Wall -c harness/run/plan.cpp"])


if __name__ == "__main__":
    unittest.main()
