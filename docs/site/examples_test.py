"""Runs the examples of README.md and docs/, and the notebooks, as they are, and tests that they
print what the pages say.

Every fenced block of `python` or `sh` is run. The blocks of a page run one after the other, as a
reader would run them: the Python in one process, and the shell in one folder. A block of `text`
that follows a block of code directly has the expected output of that code. A comment in the line
before a block states an exception for that block:

    <!-- needs: MODULE, MODULE -->   run where Python has these modules; skipped with that reason
    <!-- not run: REASON -->         never run here

Python runs only where the package is built; otherwise these blocks are skipped.

Usage: examples_test.py REPOSITORY BUILD_FOLDER FAIRDRAW_BINARY [PYTHON PACKAGE_FOLDER]
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import types
import unittest

import pages

ROOT = BUILD = BINARY = PYTHON = PACKAGE = None
# Languages of blocks that should be written as `sh`.
SHELLS = {"bash", "console", "shell", "shell-session", "zsh"}
MARK = re.compile(r"(needs|not run): (\S.*)", re.DOTALL)
SECONDS = 300  # time limit of a page, because the machine may have other work

# Runs the (text, modules) of each block, and prints for each block its output, or the reason why it
# was not run.
RUNNER = """
import contextlib, importlib.util, io, json, sys, traceback
results, names = [], {"__name__": "__main__"}
for text, modules in json.load(sys.stdin):
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    printed, error = io.StringIO(), ""
    if not missing:
        with contextlib.redirect_stdout(printed):
            try:
                exec(compile(text, "<example>", "exec"), names)
            except Exception:
                error = traceback.format_exc()
    results.append([missing, printed.getvalue(), error])
json.dump(results, sys.stdout)
"""


class Example:
    """A block that is to be run, or the reason why it is not run."""

    def __init__(self, name, block):
        self.where = f"{name}:{block.line}"
        self.block = block
        mark = MARK.fullmatch(block.mark)
        self.reason = mark[2] if mark and mark[1] == "not run" else ""
        self.modules = re.split(r",\s*", mark[2]) if mark and mark[1] == "needs" else []

    def wrong_output(self, printed):
        expected = self.block.output
        if expected is None or printed == expected:
            return []
        return [f"{self.where}: prints\n{printed}instead of\n{expected}"]


def examples(name, page):
    """Returns (examples in Python, examples in sh, errors of the page)."""
    python, shell, wrong = [], [], []
    for block in pages.blocks(page):
        where = f"{name}:{block.line}"
        if block.language in SHELLS:
            wrong.append(f"{where}: '{block.language}' is written as 'sh' here")
        if block.language not in ("python", "sh"):
            continue
        if block.mark and not MARK.fullmatch(block.mark):
            wrong.append(f"{where}: '{block.mark}'; allowed: 'needs: MODULES', 'not run: REASON'")
        example = Example(name, block)
        if block.language == "sh" and example.modules:
            wrong.append(f"{where}: 'needs' is of Python")
        if not example.reason:
            (python if block.language == "python" else shell).append(example)
    return python, shell, wrong


class Cell:
    """Returns a cell of a notebook as an example."""

    def __init__(self, name, number, cell):
        outputs = ["".join(each["text"]) for each in cell["outputs"]]
        self.where, self.modules = f"{name}: cell {number}", []
        self.block = types.SimpleNamespace(text="".join(cell["source"]),
                                           output="".join(outputs) if outputs else None)

    wrong_output = Example.wrong_output


def cells(name, notebook):
    return [Cell(name, number, cell) for number, cell in enumerate(json.loads(notebook)["cells"])
            if cell["cell_type"] == "code"]


def run_python(found):
    """Returns (errors, skipped examples)."""
    texts = [[example.block.text, example.modules] for example in found]
    with tempfile.TemporaryDirectory() as folder:
        run = subprocess.run([PYTHON, "-c", RUNNER], input=json.dumps(texts), cwd=folder,
                             capture_output=True, text=True, timeout=SECONDS, check=False,
                             env={**os.environ, "PYTHONPATH": PACKAGE, "PYTHONDONTWRITEBYTECODE": "1"})
    if run.returncode != 0:
        return [f"{found[0].where}: Python ended with {run.returncode}: {run.stderr}"], []
    wrong, skipped = [], []
    for example, (missing, printed, error) in zip(found, json.loads(run.stdout), strict=True):
        if missing:
            skipped.append(f"{example.where}: Python has no {', '.join(missing)}")
        elif error:
            wrong.append(f"{example.where}: {error}")
        else:
            wrong += example.wrong_output(printed)
    return wrong, skipped


def run_shell(found):
    """Lists the errors. The folder looks like the repository after a build, and ./fairdraw is the
    program itself, because verbs of the launcher would start a build."""
    wrong = []
    with tempfile.TemporaryDirectory() as name:
        folder, home = pathlib.Path(name) / "tree", pathlib.Path(name) / "home"
        folder.mkdir()
        home.mkdir()
        for entry in ROOT.iterdir():
            if not entry.name.startswith(".") and entry.name not in ("build", "fairdraw"):
                (folder / entry.name).symlink_to(entry)
        (folder / "build").mkdir()
        (folder / "build" / "release").symlink_to(BUILD)
        (folder / "fairdraw").symlink_to(BINARY)
        for example in found:
            run = subprocess.run(["bash", "-euo", "pipefail", "-c", example.block.text], cwd=folder,
                                 capture_output=True, text=True, timeout=SECONDS, check=False,
                                 env={**os.environ, "HOME": str(home)})
            if run.returncode != 0:
                wrong.append(f"{example.where}: exit code {run.returncode}\n{run.stdout}{run.stderr}")
            else:
                wrong += example.wrong_output(run.stdout)
    return wrong


class Examples(unittest.TestCase):
    def pages(self):
        for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
            yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")

    def expect_none(self, wrong):
        self.assertEqual(wrong, [], "\n".join(["", *wrong]))

    def test_every_block_is_run_or_says_why_not(self):
        for name, page in self.pages():
            self.expect_none(examples(name, page)[2])

    def test_python(self):
        if PYTHON is None:
            self.skipTest("the Python package is not built here")
        ran = 0
        found_in = [examples(name, page)[0] for name, page in self.pages()]
        found_in += [cells(path.name, path.read_text(encoding="utf-8"))
                     for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))]
        for found in found_in:
            if found:
                wrong, skipped = run_python(found)
                print("\n".join(f"skipped: {line}" for line in skipped), file=sys.stderr)
                self.expect_none(wrong)
                ran += len(found) - len(skipped)
        self.assertGreater(ran, 0)

    def test_shell(self):
        ran = 0
        for name, page in self.pages():
            found = examples(name, page)[1]
            if found:
                self.expect_none(run_shell(found))
                ran += len(found)
        self.assertGreater(ran, 0)


class Checks(unittest.TestCase):
    """Tests the checks with invented pages."""

    def shell_of(self, page):
        return run_shell(examples("page", page)[1])

    def test_a_wrong_output_and_a_failing_command_are_found(self):
        self.assertEqual(self.shell_of("```sh\necho a\n```\n\n```text\na\n```\n"), [])
        for page, why in [("```sh\necho a\n```\n\n```text\nb\n```\n", "instead of\nb"),
                          ("```sh\nfalse\necho a\n```\n", "exit code 1"),
                          ("```sh\n./fairdraw lst\n```\n", "did you mean 'list'")]:
            (wrong,) = self.shell_of(page)
            self.assertIn(why, wrong)
            self.assertIn("page:1: ", wrong)

    def test_text_further_down_is_no_output(self):
        self.assertEqual(self.shell_of("```sh\necho a\n```\n\nProse.\n\n```text\nb\n```\n"), [])

    def test_a_block_that_is_marked_is_not_run(self):
        python, shell, wrong = examples("page", "<!-- not run: never\nends -->\n```sh\nfalse\n```\n")
        self.assertEqual((python, shell, wrong), ([], [], []))

    def test_wrong_marks(self):
        for page in ["<!-- not run -->\n```sh\nfalse\n```\n", "<!-- not run: -->\n```sh\nfalse\n```\n",
                     "<!-- skipped: x -->\n```python\nx\n```\n", "```bash\nfalse\n```\n",
                     "<!-- needs: torch -->\n```sh\nfalse\n```\n"]:
            self.assertEqual(len(examples("page", page)[2]), 1, page)

    def test_python_that_prints_otherwise_raises_or_needs_what_is_missing(self):
        if PYTHON is None:
            self.skipTest("the Python package is not built here")
        page = ("```python\na = 1\n```\n```python\nprint(a)\n```\n\n```text\n1\n```\n"
                "```python\nprint(a)\n```\n\n```text\n2\n```\n"
                "```python\nraise KeyError('b')\n```\n"
                "<!-- needs: no_such_module -->\n```python\nraise KeyError('c')\n```\n")
        wrong, skipped = run_python(examples("page", page)[0])
        self.assertEqual(len(wrong), 2)
        self.assertIn("prints\n1\ninstead of\n2", wrong[0])
        self.assertIn("KeyError: 'b'", wrong[1])
        self.assertEqual(len(skipped), 1)
        self.assertIn("no_such_module", skipped[0])


if __name__ == "__main__":
    ROOT, BUILD, BINARY = (pathlib.Path(sys.argv.pop(1)).resolve() for _ in range(3))
    if len(sys.argv) > 2 and not sys.argv[1].startswith("-"):
        PYTHON, PACKAGE = sys.argv.pop(1), sys.argv.pop(1)
    unittest.main()
