"""The tests of reports/ci/skips.py require that every skip is in the list, whatever program skips the test,
and that the list has no other lines. The tests use results that they write themselves, and lines of the real
list.

Usage: skips_test.py REPOSITORY
"""

import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(ROOT / "reports" / "ci"))

import skips  # noqa: E402

GOOGLETEST = "[ RUN      ] Cuda.draws\n/t/draw_test.cpp:5: Skipped\nnot run without a GPU: none\n[  SKIPPED ] Cuda.draws"
# Each entry has a test (its name, ctest's reason if the whole test was skipped, its output), and the skips
# that the test contains.
TESTS = [
    (("Row.sums", None, "[       OK ] Row.sums\nwas skipped: no\n"), []),
    (("Cuda.draws", "SKIP_REGULAR_EXPRESSION_MATCHED", GOOGLETEST),
     [("Cuda.draws", "not run without a GPU: none")]),
    (("drawn", "SKIP_RETURN_CODE=77", "skipped: no Node.js\n"), [("drawn", "no Node.js")]),
    (("odd", "SKIP_RETURN_CODE=77", "a\nthe last line\n"), [("odd", "the last line")]),
    (("python", None, "..s [100%]\nSKIPPED t/test_a.py::test_b[x y] - Skipped: no GPU\n"
      "SKIPPED t/test_c.py - Skipped: no torch\n3 passed, 2 skipped\n"),
     [("python: t/test_a.py::test_b[x y]", "Skipped: no GPU"),
      ("python: t/test_c.py", "Skipped: no torch")]),
    (("links", None, "Ran 9 tests in 1.4s\n\nOK (skipped=2)\n"), [("links", "2 of its tests")]),
    (("examples", None, "skipped: README.md:9: no torch\nOK\n"),
     [("examples: README.md:9: no torch", "README.md:9: no torch")]),
]  # fmt: skip


def results(*tests):
    """Returns the text of a file that ctest --output-junit would write."""
    root = skips.ElementTree.Element("testsuite")
    for name, skipped, output in tests:
        case = skips.ElementTree.SubElement(root, "testcase", name=name)
        if skipped:
            skips.ElementTree.SubElement(case, "skipped", message=skipped)
        skips.ElementTree.SubElement(case, "system-out").text = output
    return skips.ElementTree.tostring(root)


def problems(text, tests, *, there=(), gpu=False):
    with tempfile.NamedTemporaryFile(suffix=".xml") as file:
        file.write(results(*tests))
        file.flush()
        ran, found = skips.read_results([file.name])
    return skips.problems(skips.read_lines(text), ran, found, ran | set(there), gpu)


class Skips(unittest.TestCase):
    def test_each_way_to_skip_is_seen(self):
        for test, expected in TESTS:
            found = problems("", [test])
            self.assertEqual(found, [f"{name} was skipped: {why}" for name, why in expected])

    def test_a_line_names_what_may_be_skipped(self):
        lines = ["Cuda.* | no-gpu | a", "drawn | always | b", "odd | machine | c", "links | always | d",
                 "python: t/* | always | e", "examples: README* | always | f"]  # fmt: skip
        tests = [test for test, _ in TESTS]
        self.assertEqual(problems("\n".join(["# a comment", "", *lines]), tests), [])
        for line in lines:
            left = [other for other in lines if other != line]
            self.assertGreaterEqual(len(problems("\n".join(left), tests)), 1, line)

    def test_a_line_of_which_nothing_is_skipped_is_wrong(self):
        green = [("python", None, "3 passed\n"), ("Cuda.draws", None, "[       OK ] Cuda.draws\n")]
        for line, wrong in [("python: t/* | always | a", True), ("python: t/* | no-gpu | a", True),
                            ("python: t/* | machine | a", False), ("Cuda.* | no-gpu | a", True),
                            ("satellites.x | always | it is there, and did not run", False),
                            ("pyhton | always | nobody has this name", True),
                            ("Cude.* | no-gpu | a build without its CUDA part has none", False)]:  # fmt: skip
            self.assertEqual(bool(problems(line, green, there=["satellites.x"])), wrong, line)

    def test_a_gpu_has_its_tests_run(self):
        skipped = [TESTS[1][0]]
        self.assertEqual(len(problems("Cuda.* | no-gpu | a", skipped, gpu=True)), 1)
        self.assertEqual(problems("Cuda.* | no-gpu | a", [TESTS[0][0]], gpu=True), [])

    def test_a_line_that_is_none_is_named(self):
        for line in ["Cuda.*", "Cuda.* | never | a", "Cuda.* | always |", "Cuda.* | always"]:
            with self.assertRaisesRegex(ValueError, r"skips\.txt:2: 'Cuda\.\*.*allowed: GLOB"):
                skips.read_lines(f"# a comment\n{line}\n")

    def test_the_list_can_be_read(self):
        self.assertTrue(skips.read_lines(skips.LISTED.read_text(encoding="utf-8")))


if __name__ == "__main__":
    unittest.main()
