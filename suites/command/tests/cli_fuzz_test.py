"""What fuzz finds is a finding on the sampler that it was given, whatever kind that is.

Usage: cli_fuzz_test.py FAIRDRAW_BINARY BAD_PLUGIN
"""

import json
import os
import shlex
import sys
import unittest

import command_line_case
from command_line_case import CommandLineCase

BAD_PLUGIN = None


class Findings(CommandLineCase):
    def fuzz(self, sampler, *more, bad=None):
        """The call's output, the only capsule, and the words of its replay line."""
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
        # By the book of another profile a right sampler is wrong too: it keeps the token that
        # crosses p.
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
