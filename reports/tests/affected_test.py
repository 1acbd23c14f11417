"""Tests reports/ci/affected.py in repositories that the tests make: a change affects the files that differ
and the files that include them. Also tests that the tables of affected.py fit this tree.

Usage: affected_test.py REPOSITORY
"""

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(ROOT / "reports" / "ci"))

import affected  # noqa: E402

# The files contain a chain of includes through three folders, and files that no other file includes.
FILES = {
    "kernels/common/words.h": "",
    "kernels/common/words.cpp": '#include "kernels/common/words.h"\n',
    "harness/run/plan.h": '#include "common/words.h"\n',
    "harness/run/plan.cpp": '#include "harness/run/plan.h"\n',
    "harness/run/tests/plan_test.cpp": '#include "harness/run/plan.h"\n',
    "suites/command/verbs/verify.cpp": '#include "harness/run/plan.h"\n',
    "suites/gate/mutants/cause_classes.h": "",
    "suites/gate/mutants/cause_classes.cpp": '      {"mask", {"top_k"}},\n      {"rng", random},\n',
    "suites/gate/mutants/classes/mask.cpp": 'mutants_of("mask");\n',
    "suites/gate/mutants/classes/both.cpp": 'mutants_of("mask"); mutants_of("rng");\n',
    "suites/gate/mutants/known_bugs.cpp": "",
    "suites/gate/cases/README.md": "",
    "kernels/cuda/draw.cu": '#include "kernels/common/words.h"\n',
    "reference/filters.cpp": "",
    "reports/junit.cpp": "",
    "reports/page/page.js": "",
    "reports/ci/nightly": "",
    "python/fairdraw/audit.py": "",
    "docs/about.md": "",
    "README.md": "",
    "CMakeLists.txt": "",
    ".clang-tidy": "",
}
EVERY_FOLDER = ["kernels", "reference", "harness", "reports", "suites"]
ALL_CLASSES = ["--per-class=4"]


class AffectedCase(unittest.TestCase):
    def keep(self, name):
        self.addCleanup(setattr, affected, name, getattr(affected, name))

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        for path, text in FILES.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text, encoding="utf-8")
        os.environ.pop("FAIRDRAW_BASE", None)

    def git(self, *words):
        return subprocess.run(
            ["git", "-c", "user.name=t", "-c", "user.email=t@t", *words],
            cwd=self.root, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, message, *changed):
        for path in changed:
            with open(self.root / path, "a", encoding="utf-8") as file:
                file.write("// more\n")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        return self.git("rev-parse", "HEAD")


class Files(AffectedCase):
    def expect(self, changed, sources, folders, mutants):
        changed = {changed} if isinstance(changed, str) else changed
        self.assertEqual(affected.sources(self.root, changed), sources, changed)
        self.assertEqual(affected.folders(self.root, changed), folders, changed)
        self.assertEqual(affected.mutants(self.root, changed), mutants, changed)

    def test_a_header_affects_what_includes_it_through_others(self):
        self.expect(
            "kernels/common/words.h",
            ["harness/run/plan.cpp", "harness/run/tests/plan_test.cpp", "kernels/common/words.cpp",
             "suites/command/verbs/verify.cpp"], ["kernels"], [])

    def test_a_source_affects_itself(self):
        self.expect("kernels/common/words.cpp", ["kernels/common/words.cpp"], ["kernels"], [])
        self.expect("reports/junit.cpp", ["reports/junit.cpp"], ["reports"], [])

    def test_what_judges_mutants_affects_some_of_each_class(self):
        self.expect("harness/run/plan.cpp", ["harness/run/plan.cpp"], ["harness"], ALL_CLASSES)
        self.expect("reference/filters.cpp", ["reference/filters.cpp"], ["reference"], ALL_CLASSES)
        for shared in ["cause_classes.h", "cause_classes.cpp", "known_bugs.cpp"]:
            self.assertEqual(
                affected.mutants(self.root, {"suites/gate/mutants/" + shared}), ALL_CLASSES)

    def test_what_judges_no_mutant_affects_none(self):
        self.expect("harness/run/tests/plan_test.cpp", ["harness/run/tests/plan_test.cpp"],
                    ["harness"], [])

    def test_a_file_of_mutants_affects_their_classes(self):
        for name, classes in [("mask", ["--class=mask"]), ("both", ["--class=mask", "--class=rng"])]:
            source = f"suites/gate/mutants/classes/{name}.cpp"
            self.expect(source, [source], ["suites"], classes)
        self.assertEqual(
            affected.mutants(
                self.root, {"suites/gate/mutants/classes/mask.cpp", "reference/filters.cpp"}),
            ["--class=mask", *ALL_CLASSES])

    def test_a_change_of_many_classes_affects_some_of_each_class(self):
        self.keep("WHOLE_CLASSES")
        affected.WHOLE_CLASSES = 1
        self.assertEqual(
            affected.mutants(self.root, {"suites/gate/mutants/classes/both.cpp"}), ALL_CLASSES)
        self.assertEqual(
            affected.mutants(self.root, {"suites/gate/mutants/classes/mask.cpp"}), ["--class=mask"])

    def test_cuda_is_built_for_its_sources_and_what_they_include(self):
        for path in ["kernels/cuda/draw.cu", "kernels/common/words.h", "cmake/cuda.cmake"]:
            self.assertEqual(affected.cuda(self.root, {path}), "AUTO", path)
        for path in ["kernels/common/words.cpp", "harness/run/plan.h", "docs/about.md"]:
            self.assertEqual(affected.cuda(self.root, {path}), "OFF", path)
        self.assertEqual(affected.cuda(self.root, None), "AUTO")

    def test_pages_and_scripts_affect_nothing_compiled(self):
        self.expect({"README.md", "docs/about.md", "suites/gate/cases/README.md",
                     "python/fairdraw/audit.py", "reports/ci/nightly"}, [], [], [])
        self.expect(set(), [], [], [])

    def test_a_satellite_is_affected_by_its_own_files(self):
        for name in ("audit", "engines"):
            project = self.root / "python" / name / "pyproject.toml"
            project.parent.mkdir()
            project.touch()
        self.assertEqual(affected.satellites(self.root, None), ["audit", "engines"])
        self.assertEqual(affected.satellites(self.root, {"python/engines/tests/a.py"}), ["engines"])
        self.assertEqual(affected.satellites(self.root, {"python/fairdraw/audit.py"}), [])

    def test_what_tests_read_affects_its_folder(self):
        self.expect("reports/page/page.js", [], ["reports"], [])

    def test_the_build_affects_every_folder_and_a_change_tests_those_that_it_has_time_for(self):
        self.assertEqual(list(affected.SANITIZER_MINUTES), EVERY_FOLDER)
        for path in ["CMakeLists.txt", "kernels/tests/CMakeLists.txt", "CMakePresets.json",
                     "cmake/cuda.cmake"]:
            self.expect(path, [], ["harness"], [])  # 15 of 15 minutes
            for source in ["kernels/common/words.cpp", "suites/command/verbs/verify.cpp"]:
                self.expect({path, source}, [source], ["harness"], [])  # not 25 minutes

    def test_the_folder_that_changed_most_comes_first(self):
        self.assertEqual(affected.folders(
            self.root, {"kernels/common/words.cpp", "suites/command/verbs/verify.cpp",
                        "suites/gate/mutants/classes/mask.cpp"}), ["suites"])
        self.assertEqual(affected.folders(
            self.root, {"reports/junit.cpp", "reference/filters.cpp"}), ["reference", "reports"])

    def test_clang_tidy_reads_changed_sources_before_those_that_include_changed_headers(self):
        self.keep("MAX_SOURCES")
        affected.MAX_SOURCES = 2
        self.assertEqual(
            affected.sources(
                self.root, {"kernels/common/words.h", "suites/command/verbs/verify.cpp"}
            ),
            ["suites/command/verbs/verify.cpp", "harness/run/plan.cpp"])

    def test_the_rules_of_clang_tidy_affect_every_source(self):
        every = sorted(path for path in FILES if path.endswith(".cpp"))
        self.expect(".clang-tidy", every, [], [])
        self.expect(None, every, EVERY_FOLDER, ALL_CLASSES)


class Base(AffectedCase):
    def test_without_a_history_everything_is_affected(self):
        self.assertIsNone(affected.changed_files(self.root))
        self.git("init", "--quiet", "--initial-branch=main")
        self.assertIsNone(affected.changed_files(self.root))
        self.commit("first")
        self.assertIsNone(affected.changed_files(self.root))  # there is no base commit to compare with
        self.commit("second", "README.md")
        self.assertEqual(affected.changed_files(self.root), {"README.md"})
        # A repository in a parent folder must not be taken for this one.
        self.assertIsNone(affected.changed_files(self.root / "suites"))

    def test_a_branch_is_compared_with_where_it_left_main(self):
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit("first")
        left = self.commit("second", "reports/junit.cpp")
        self.git("update-ref", "refs/remotes/origin/main", left)
        self.git("checkout", "--quiet", "-b", "branch")
        self.commit("third", "reference/filters.cpp")
        self.git("checkout", "--quiet", "main")
        self.git("update-ref", "refs/remotes/origin/main", self.commit("fourth", "README.md"))
        self.git("checkout", "--quiet", "branch")
        self.assertEqual(affected.changed_files(self.root), {"reference/filters.cpp"})

    def test_main_itself_is_compared_with_the_commit_40_before(self):
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit("first")
        self.commit("too long ago", "README.md")
        for number in range(39):
            self.commit(f"commit {number}")
        # The commit HEAD~40 is the first commit, which 1 + 39 commits follow.
        self.assertEqual(affected.changed_files(self.root), {"README.md"})
        self.git("update-ref", "refs/remotes/origin/main", self.commit("last", "docs/about.md"))
        self.assertEqual(affected.changed_files(self.root), {"docs/about.md"})

    def test_a_base_can_be_given(self):
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit("first")
        second = self.commit("second", "README.md")
        self.commit("third", "docs/about.md")
        os.environ["FAIRDRAW_BASE"] = second[:12]
        self.assertEqual(affected.changed_files(self.root), {"docs/about.md"})
        os.environ["FAIRDRAW_BASE"] = "nothing"
        with self.assertRaisesRegex(SystemExit, "FAIRDRAW_BASE is 'nothing'"):
            affected.changed_files(self.root)

    def test_messages_and_hashes_play_no_part(self):
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit("first")
        hashes, changed = set(), []
        self.commit("second", "harness/run/plan.cpp")
        for message in ["one", "two", "three"]:
            self.git("commit", "--quiet", "--amend", "--message", message)
            hashes.add(self.git("rev-parse", "HEAD"))
            changed.append(affected.changed_files(self.root))
        self.assertEqual(len(hashes), 3)
        self.assertEqual(changed, [{"harness/run/plan.cpp"}] * 3)

    def test_what_is_new_moved_or_not_committed_counts(self):
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit("first")
        self.commit("second")
        self.git("mv", "reports/junit.cpp", "reports/names.cpp")
        (self.root / "reference" / "a file.cpp").touch()
        self.assertEqual(
            affected.changed_files(self.root),
            {"reports/junit.cpp", "reports/names.cpp", "reference/a file.cpp"})


class Tree(AffectedCase):
    """Tests that affected.py's tables fit this tree."""

    def test_every_folder_with_compiled_tests_is_sanitized(self):
        folders = {
            path.relative_to(ROOT).parts[0]
            for name in affected.include_boundaries.PARTS
            for path in (ROOT / name.split("/")[0]).rglob("CMakeLists.txt")
            if "fairdraw_test(" in path.read_text(encoding="utf-8")
        }
        self.assertEqual(folders, set(affected.SANITIZED))

    def test_the_folders_are_there(self):
        for folder in affected.GATE + affected.NOT_SANITIZED:
            self.assertTrue((ROOT / folder).is_dir(), folder)

    def test_every_class_has_a_file_of_mutants(self):
        known = affected.CLASS.findall((ROOT / affected.CLASSES).read_text(encoding="utf-8"))
        self.assertGreater(len(known), 30)
        self.keep("WHOLE_CLASSES")
        affected.WHOLE_CLASSES = len(known)
        named = {
            option
            for path in (ROOT / affected.MUTANTS).rglob("*.cpp")
            for option in affected.mutants(ROOT, {path.relative_to(ROOT).as_posix()})
        }
        self.assertEqual(named, {f"--class={name}" for name in known} | set(ALL_CLASSES))

    def test_many_parts_are_counted_by_folder(self):
        few = [f"kernels/{i}.cpp" for i in range(affected.MAX_SHOWN)]
        many = [*few, "harness/a.cpp"]
        counts = f"1 of harness/, {len(few)} of kernels/"
        for left, shown in ((few, ", ".join(few)), (many, counts), ([], "")):
            with contextlib.redirect_stderr(io.StringIO()) as text:
                affected.left_to_the_night("sources", left)
            expected = f"affected: left to the night: sources: {shown}\n" if shown else ""
            self.assertEqual(text.getvalue(), expected)

    def test_long_tests_wait_for_the_night(self):
        presets = json.loads((ROOT / "CMakePresets.json").read_text(encoding="utf-8"))["testPresets"]
        for name, leaves_out in [("asan-change", True), ("asan", False)]:
            filters = next(preset for preset in presets if preset["name"] == name).get("filter", {})
            excluded = filters.get("exclude", {}).get("label", "nightly")
            self.assertEqual(bool(re.search(excluded, "long")), leaves_out, name)


if __name__ == "__main__":
    unittest.main()
