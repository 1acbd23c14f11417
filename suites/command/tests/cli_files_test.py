"""Files that verbs read: what has no end, or is larger than any report, is refused at once.

Usage: cli_files_test.py FAIRDRAW_BINARY
"""

import json
import os
import subprocess
import sys
import unittest

import command_line_case
from command_line_case import CommandLineCase

FILES = ["index.html", "junit.xml", "report.json", "summary.md"]
ONE_CASE = ("--suite", "smoke", "--sampler", "cpu", "--seed", "11", "--case", "mask/*/v31/*")


class Files(CommandLineCase):
    def make_green(self, folder):
        result = self.run_fairdraw("verify", *ONE_CASE, "--report", self.path(folder))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(sorted(os.listdir(self.path(folder))), FILES)

    # --- what is read ---

    def test_what_has_no_end_is_refused_at_once(self):
        self.make_green("run")
        good = self.record("run")
        os.mkfifo(self.path("pipe.json"))
        os.symlink("/dev/zero", self.path("zero.json"))
        os.symlink("/dev/full", self.path("full.json"))
        os.mkdir(self.path("folder.json"))
        with open(self.path("large.json"), "wb") as file:
            file.truncate(2**30 + 1)
        kinds = {"pipe.json": "no regular file", "zero.json": "no regular file",
                 "full.json": "no regular file", "folder.json": "a folder",
                 "large.json": f"{2**30 + 1} bytes or more; at most {2**30} are allowed"}
        for name, says in kinds.items():
            bad = self.path(name)
            for words in (["report", bad, self.path("out")], ["merge", bad], ["merge", good, bad],
                          ["compare", bad, good], ["compare", good, bad],
                          ["verify", *ONE_CASE, "--rerun-failed", bad],
                          ["verify", *ONE_CASE, "--times", bad],
                          ["report", good, self.path("out"), "--benchmark", bad],
                          ["report", good, self.path("out"), "--mutants", bad],
                          ["report", good, self.path("out"), "--conformance", bad]):
                with self.subTest(words=words):
                    self.expect_refusal(words, [name, says])
            if name != "large.json":
                words = ["replay", bad, "--sampler", "cpu"]
                with self.subTest(words=words):
                    self.expect_refusal(words, [name, says])
        with open(self.path("large capsule.json"), "wb") as file:
            file.truncate(2**16 + 1)
        self.expect_refusal(["replay", self.path("large capsule.json"), "--sampler", "cpu"],
                            [f"at most {2**16} are allowed"])

    def expect_refusal(self, words, says):
        result = subprocess.run([command_line_case.BINARY, *words], cwd=self.folder.name,
                                capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
        for text in says:
            self.assertIn(text, result.stderr)

    def test_a_record_with_a_field_for_everything_is_refused_at_once(self):
        self.make_green("run")
        most = self.edited("most.json", "run", lambda record: record["cases"][0].update(
            measures={f"measure {i}": i for i in range(1000)}))
        result = self.run_fairdraw("report", most, self.path("out"))
        self.assertEqual(result.returncode, 0, result.stderr)
        more = self.edited("more.json", "run", lambda record: record["cases"][0].update(
            measures={f"measure {i}": i for i in range(100_000)}))
        for words in (["report", more, self.path("out")], ["merge", more], ["compare", more, more],
                      ["verify", *ONE_CASE, "--rerun-failed", more]):
            with self.subTest(words=words):
                self.expect_refusal(words, ["has more than 1000 fields in one object"])


if __name__ == "__main__":
    command_line_case.take_binary()
    unittest.main()
