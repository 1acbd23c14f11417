"""./fairdraw answers help, the version and misspelt verbs without installing or building anything.

It runs in a copy of what it reads, with no build folder and with programs on PATH that write down
that they were called, and fail. The last test shows that a call that needs a build does call them.

Usage: launcher_test.py FAIRDRAW_BINARY REPOSITORY
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

BINARY = ROOT = None

# What installs, configures or builds.
BUILDERS = ["apt-get", "sudo", "dpkg-query", "cmake", "ninja", "g++", "c++", "nvcc", "pip", "python3"]
OWN_VERBS = ["build", "format", "lint", "test"]


class Launcher(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name) / "tree"
        self.tree.mkdir()
        for name in ["fairdraw", "CMakeLists.txt", "CMakePresets.json"]:
            shutil.copy(ROOT / name, self.tree / name)
        shutil.copytree(ROOT / "docs" / "commands", self.tree / "docs" / "commands")
        self.called = pathlib.Path(folder.name) / "called"
        self.path = pathlib.Path(folder.name) / "bin"
        self.path.mkdir()
        for name in BUILDERS:
            stub = self.path / name
            stub.write_text(f'#!/bin/sh\necho {name} >>"{self.called}"\nexit 1\n', encoding="utf-8")
            stub.chmod(0o755)

    def launch(self, *words):
        return subprocess.run([self.tree / "fairdraw", *words], capture_output=True, text=True,
                              timeout=60, check=False,
                              env={"PATH": f"{self.path}:/usr/bin:/bin", "LC_ALL": "C"})

    def expect_nothing_built(self, words):
        self.assertFalse((self.tree / "build").exists(), words)
        self.assertFalse(self.called.exists(), words)

    def expect_answer(self, *words, status=0):
        result = self.launch(*words)
        self.assertEqual(result.returncode, status, f"{words}: {result.stdout}{result.stderr}")
        self.expect_nothing_built(words)
        return result

    def test_help_of_the_launcher(self):
        pages = {self.expect_answer(*words).stdout
                 for words in [[], ["--help"], ["-h"], ["help"], *([v, "--help"] for v in OWN_VERBS)]}
        self.assertEqual(len(pages), 1)
        self.assertIn("./fairdraw verify", pages.pop())

    def test_help_of_every_verb(self):
        pages = sorted((self.tree / "docs" / "commands").glob("*.txt"))
        self.assertTrue(pages)
        for page in pages:
            text = page.read_text(encoding="utf-8")
            for words in [[page.stem, "--help"], [page.stem, "-h"], ["help", page.stem],
                          [page.stem, "--seed", "7", "--help"]]:
                self.assertEqual(self.expect_answer(*words).stdout, text, words)

    def test_the_version_is_the_programs(self):
        program = subprocess.run([BINARY, "--version"], capture_output=True, text=True, timeout=60,
                                 check=True)
        self.assertEqual(self.expect_answer("--version").stdout, program.stdout)

    def test_a_misspelt_verb_is_suggested_as_the_program_does(self):
        # Each is closer to a verb of the program than to any of the launcher's: misspelt, begun, or
        # abbreviated.
        for word in ["verfy", "smaple", "benhc", "fuz", "reprot", "mutant", "identfy", "comapre",
                     "ver", "re", "vfy", "cmpre"]:
            program = subprocess.run([BINARY, word], capture_output=True, text=True, timeout=60,
                                     check=False)
            self.assertEqual(program.returncode, 2)
            message = self.expect_answer(word, status=2).stderr
            self.assertIn("did you mean", message)
            self.assertEqual(message.split(" Known:")[0], program.stderr.split(" Known:")[0])

    def test_a_word_that_is_far_from_all_verbs_is_not_corrected(self):
        for word in ["xyzzyqq", "v", "zz"]:
            program = subprocess.run([BINARY, word], capture_output=True, text=True, timeout=60,
                                     check=False)
            message = self.expect_answer(word, status=2).stderr
            self.assertIn("; known: ", message)
            self.assertEqual(message.split("; known: ")[0], program.stderr.split("; known: ")[0])

    def test_the_launchers_own_verbs_are_suggested(self):
        for word, verb in [("biuld", "build"), ("tset", "test"), ("formt", "format")]:
            self.assertIn(f"did you mean '{verb}'?", self.expect_answer(word, status=2).stderr)

    def test_a_misspelt_verb_with_help_is_no_help(self):
        self.assertIn("'verify'", self.expect_answer("verfy", "--help", status=2).stderr)
        self.assertIn("'verify'", self.expect_answer("help", "verfy", status=2).stderr)

    def test_an_unknown_option_in_place_of_a_verb(self):
        self.assertIn("did you mean '--help'?", self.expect_answer("--hlp", status=2).stderr)

    def test_words_that_are_patterns_or_not_printable(self):
        for word in ["*", "ver*", "[a-z]*", "x\ny", "\x1b[31m", "v" * 5000]:
            message = self.expect_answer(word, status=2).stderr
            self.assertEqual(message.count("\n"), 1, message)
            self.assertNotIn("\x1b", message)

    def test_what_is_no_help_goes_on_to_build(self):
        for words in [["list"], ["list", "--", "--help"]]:
            self.called.unlink(missing_ok=True)
            self.assertNotEqual(self.launch(*words).returncode, 0)
            self.assertTrue(self.called.exists(), words)


if __name__ == "__main__":
    BINARY = str(pathlib.Path(sys.argv.pop(1)).resolve())
    ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
