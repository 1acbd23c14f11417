"""The tests require that findings of `fuzz` name the sampler that was given, whatever its kind.

Usage: cli_fuzz_test.py FAIRDRAW_BINARY BAD_PLUGIN
"""

import glob
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import unittest

import command_line_case
from command_line_case import CommandLineCase

BAD_PLUGIN = None
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")


class Findings(CommandLineCase):
    def fuzz(self, sampler, *more, bad=None):
        """Returns the output of the call, its only capsule, and the words of the capsule's replay line."""
        corpus = os.path.join(self.path("it's here"), sampler.replace("/", "_"))
        result = self.run_fairdraw("fuzz", "--sampler", sampler, "--cases", "500", "--seed", "7",
                                   "--corpus", corpus, *more, bad=bad)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        [file] = os.listdir(corpus)
        with open(os.path.join(corpus, file), encoding="utf-8") as text:
            capsule = json.load(text)
        [line] = [line for line in result.stdout.splitlines() if "replay: " in line]
        return result, capsule, shlex.split(line.split("replay: ", 1)[1])

    def test_a_finding_names_the_sampler_that_was_given_and_replays_on_it(self):
        # A correct sampler is judged wrong by another profile, too: it keeps the token that crosses p.
        book = ("--semantics", "rosellm")
        plugin = "plugin:" + BAD_PLUGIN
        for sampler, more, bad in [
            ("model", book, None),
            ("cpu", book, None),
            ("cpu:scalar", book, None),
            ("profile:hf", book, None),
            ("mutant:topp-drops-crossing", (), None),
            (plugin, (), "ids-negative"),
            (plugin, (), "crash"),
        ]:
            with self.subTest(sampler=sampler, bad=bad):
                result, capsule, words = self.fuzz(sampler, *more, bad=bad)
                self.assertIn(f"1 failures on {sampler}: ", result.stdout)
                self.assertEqual(capsule["sampler"], sampler)
                self.assertEqual(words[words.index("--sampler") + 1], sampler)
                again = self.run_fairdraw(*words[1:], bad=bad)
                self.assertEqual(again.returncode, 1, again.stdout + again.stderr)
                self.assertIn(f"failed: {capsule['property']} on {sampler}: ", again.stdout)
                os.remove(words[2])

    def test_the_call_of_a_finding_compiles_and_runs(self):
        compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if compiler is None:
            self.skipTest("no C compiler")
        include = self.path("include")
        os.makedirs(os.path.join(include, "fairdraw"))
        for header in glob.glob(os.path.join(SOURCE, "harness", "contract", "*.h")):
            shutil.copy(header, os.path.join(include, "fairdraw"))
        example = os.path.join(SOURCE, "suites", "plugins", "examples", "filters_and_masks.c")
        flags = [compiler, "-std=c11", "-Wall", "-Wextra", "-Werror", "-I", include, example]
        plugin = self.path("filters.so")
        subprocess.run([*flags, "-shared", "-fPIC", "-lm", "-o", plugin], check=True)
        # The plugin is correct, but by another profile its masks are judged wrong.
        result = self.run_fairdraw("fuzz", "--sampler", "plugin:" + plugin, "--cases", "500",
                                   "--seed", "7", "--semantics", "rosellm", "--corpus",
                                   self.path("corpus"), "--keep-going")
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        calls = re.findall(r"as C, .*:\n((?s:.*?)\n}\n)", result.stdout)
        self.assertGreater(len(calls), 0, result.stdout)
        for number, call in enumerate(calls):
            source, program = self.path(f"call{number}.c"), self.path(f"call{number}")
            with open(source, "w", encoding="utf-8") as file:
                file.write(call)
            subprocess.run([*flags, source, "-lm", "-o", program], check=True)
            run = subprocess.run([program], check=True, capture_output=True, text=True)
            tokens = [int(line) for line in run.stdout.split()]
            vocab = int(re.search(r"batch.vocab = (\d+);", call).group(1))
            outputs, samples = (int(re.search(rf"batch.{name} = (\d+);", call).group(1))
                                for name in ("outputs", "num_samples"))
            self.assertEqual(len(tokens), outputs * samples, call)
            self.assertTrue(all(-1 <= token < vocab for token in tokens), run.stdout)
        # The Python call in the output must also compile, whatever the sampler.
        for call in re.findall(r"as Python, .*:\n((?s:.*?)print\(sampler\(batch\)\)\n)", result.stdout):
            compile(call, "call.py", "exec")

    def test_a_finding_on_a_wrong_sampler_holds_on_a_right_one(self):
        for sampler, bad in [("mutant:topp-drops-crossing", None), ("mutant:id-plus-one", None),
                             ("plugin:" + BAD_PLUGIN, "ids-negative")]:
            with self.subTest(sampler=sampler):
                _, capsule, words = self.fuzz(sampler, bad=bad)
                right = self.run_fairdraw("replay", words[2], "--sampler", "model")
                self.assertEqual(right.returncode, 0, right.stdout + right.stderr)
                self.assertEqual(right.stdout, f"passed: {capsule['property']} on model\n")


if __name__ == "__main__":
    command_line_case.take_binary()
    BAD_PLUGIN = os.path.abspath(sys.argv.pop(1))
    unittest.main()
