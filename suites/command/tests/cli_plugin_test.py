"""The tests run whole commands on good and on bad plugins.

Usage: cli_plugin_test.py FAIRDRAW_BINARY BAD_PLUGIN
"""

import hashlib
import json
import os
import re
import select
import shutil
import subprocess
import sys
import unittest

import command_line_case
from command_line_case import CommandLineCase

BAD_PLUGIN = None


class Plugins(CommandLineCase):
    # A plugin without any filter or distribution can pass these default cases.
    def verify_plugin(self, bad, *more, cases="*/gaussian_wide/v1000/unfiltered"):
        result = self.run_fairdraw("verify", "--suite", "smoke", "--case", cases,
                                   "--sampler", "plugin:" + BAD_PLUGIN, "--seed", "7",
                                   "--report", self.path("report"), *more, bad=bad)
        verdicts = {}
        for case in self.report("report")["cases"]:
            verdicts.setdefault(case["verdict"], []).append(case)
        return result, verdicts

    def expect_replay_line_of(self, cases, result):
        """Expects that each replay line in the output replays one of the cases."""
        printed = re.findall(r"replay: (.*)", result.stdout)
        self.assertTrue(printed, result.stdout)
        self.assertLessEqual(set(printed), {self.typed(case["replay"]) for case in cases})

    def test_a_plugin_is_judged_in_its_own_process_and_in_this_one(self):
        for more in [(), ("--plugin-trusted",)]:
            result, verdicts = self.verify_plugin(None, *more)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            self.assertEqual({name: len(cases) for name, cases in verdicts.items()},
                             {"passed": 6, "skipped": 4})
            replay = verdicts["passed"][0]["replay"]
            self.assertEqual("--plugin-trusted" in replay, bool(more))
            again = self.run_fairdraw(*replay.split()[1:])
            self.assertEqual(again.returncode, 0, again.stdout + again.stderr)

    # Each instance of a plugin is a process, and no two instances may draw the same tokens if they have no
    # seed. In one process (--plugin-trusted), a library has one generator, which continues from call to call.
    def test_a_name_that_is_no_text_is_written_all_the_same(self):
        named = os.path.join(os.fsencode(self.folder.name), b"mine\xff.so")
        os.symlink(BAD_PLUGIN, named)
        for verb in (["list", "samplers"], ["identify", "--seed", "7"]):
            result = subprocess.run(
                [command_line_case.BINARY, *verb, "--sampler", b"plugin:" + named, "--json"],
                cwd=self.folder.name, capture_output=True, check=False)
            self.assertIn(result.returncode, (0, 3), result.stderr)
            self.assertNotIn(b"json.exception", result.stderr)
            self.assertIn("mine\ufffd.so", json.dumps(json.loads(result.stdout), ensure_ascii=False))

    def test_generators_start_otherwise_in_each_process(self):
        flat = "streams/all_equal/v131072/none/t1"
        for start, more, green in [("entropy", (), True), ("zero", (), False),
                                   ("seconds", (), False), ("process", (), True),
                                   ("entropy", ("--plugin-trusted",), True),
                                   ("zero", ("--plugin-trusted",), True)]:
            with self.subTest(start=start, more=more):
                result, verdicts = self.verify_plugin("generator-of-" + start, *more, cases=flat)
                said = result.stdout + result.stderr
                self.assertEqual(result.returncode, 0 if green else 1, said)
                [case] = verdicts["passed" if green else "failed"]
                if not green:
                    self.assertIn("fresh instances without a seed start alike", case["message"])

    def test_a_bad_plugin_fails_its_cases_and_the_run_goes_on(self):
        for bad, fails, says in [
            ("crash", 6, "crashed with SIGSEGV"),
            ("exit", 6, "ended its process with exit code 7"),
            ("print", 6, "it printed \"debug: top_k = 50\""),
            ("write-far-behind-tokens", 6, "past the start of tokens"),
            ("write-behind-tokens", 6, "wrote past the end of tokens"),
            ("claims-masks", 2, "mask"),
            ("ids-beyond-vocab", 4, "token (1000|2001)"),
            ("ids-far-beyond-vocab", 4, "2147483647"),
            ("ids-negative", 4, "-2147483647"),
        ]:
            with self.subTest(bad=bad):
                result, verdicts = self.verify_plugin(bad)
                self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
                self.assertEqual(sum(len(cases) for cases in verdicts.values()), 10)
                self.assertEqual(len(verdicts["failed"]), fails)
                for case in verdicts["failed"]:
                    self.assertRegex(case["message"], says)
                    self.assertIn(case["message"], result.stdout)
                    self.assertIn("--sampler plugin:" + BAD_PLUGIN, case["replay"])
                self.expect_replay_line_of(verdicts["failed"], result)
        again = self.run_fairdraw(*verdicts["failed"][0]["replay"].split()[1:], bad="ids-negative")
        self.assertEqual(again.returncode, 1, again.stdout + again.stderr)

    def test_a_plugin_that_claims_what_it_cannot_do_fails(self):
        result, verdicts = self.verify_plugin(None, cases="*/unfiltered*")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(sorted(verdicts), ["passed", "skipped"])
        for bit, ability in [  # these are bits of plugin.h; without them the largest logit is a right answer
            (3, "allowed_mask"), (4, "active_rows"), (7, "float16"), (8, "bfloat16"),
            (15, "status"), (16, "support_size"), (17, "mask"), (18, "probs"), (19, "logprobs"),
            (21, "exact_integer"), (22, "processing"),
            (21, "exact_integer"),
            (40, "raw_reports"), (41, "processed_reports"),
        ]:
            with self.subTest(ability=ability):
                result, verdicts = self.verify_plugin(f"claims-bit-{bit}", cases="*/unfiltered*")
                self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
                self.expect_replay_line_of(verdicts["failed"], result)

    def test_a_plugin_that_hangs_costs_its_time_and_no_more(self):
        result, verdicts = self.verify_plugin("hang", "--plugin-timeout", "1")
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertEqual(len(verdicts["failed"]), 6)
        for case in verdicts["failed"]:
            self.assertIn("gave no answer in 1 s", case["message"])
            self.assertIn(" --plugin-timeout 1", case["replay"])

    def test_a_plugin_that_is_slow_call_after_call_costs_the_time_of_a_case(self):
        # A call takes 0.1 s, so that at most ten calls fit into a second; the case makes more calls.
        result, verdicts = self.verify_plugin("slow", "--case-timeout", "1",
                                              cases="replay/gaussian_wide/v1000/unfiltered")
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        (case,) = verdicts["failed"]
        self.assertRegex(case["message"],
                         r"the case took more than 1 s \(--case-timeout\), in (\d|10) calls")
        self.assertIn(" --case-timeout 1", case["replay"])
        again = self.run_fairdraw(*case["replay"].split()[1:], bad="slow")
        self.assertEqual(again.returncode, 1, again.stdout + again.stderr)

    def test_what_a_run_has_no_time_for_is_not_green(self):
        result, verdicts = self.verify_plugin("slow", "--run-timeout", "1", "--jobs", "1")
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertNotIn("failed", verdicts)  # no case is known to be wrong
        over = "the run took more than 1 s (--run-timeout)"
        messages = [case["message"] for case in verdicts["error"]]
        self.assertEqual(set(messages) - {over}, {"not run: " + over})
        self.assertLessEqual(messages.count(over), 1)  # one running case
        self.assertEqual(sum(len(cases) for cases in verdicts.values()), 10)

    def test_a_plugin_and_its_daemons_end_when_the_judge_is_killed(self):
        sampler = "plugin:" + BAD_PLUGIN
        replay = ("replay", "support/gaussian_wide/v1000/unfiltered", "--sampler", sampler)
        for number, words in enumerate([replay, (*replay, "--plugin-trusted"),
                                        ("bench", "--backend", sampler)]):
            with self.subTest(words=words):
                # The daemon keeps the pipe open as long as it runs.
                pipe = self.path(f"pipe {number}")
                os.mkfifo(pipe)
                here = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
                self.addCleanup(os.close, here)
                environment = dict(os.environ, FAIRDRAW_BAD="daemon-and-hang",
                                   FAIRDRAW_BAD_FIFO=pipe)
                judge = subprocess.Popen([command_line_case.BINARY, *words],
                                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                         env=environment)
                self.assertTrue(select.select([here], [], [], 60)[0])
                self.assertEqual(os.read(here, 1), b"x")
                self.assertIsNone(judge.poll())
                judge.kill()
                judge.wait()
                gone = select.poll()
                gone.register(here, select.POLLHUP)
                self.assertTrue(gone.poll(20000))

    def test_a_report_says_which_file_was_judged(self):
        with open(BAD_PLUGIN, "rb") as file:
            digits = hashlib.sha256(file.read()).hexdigest()
        for more in [(), ("--plugin-trusted",)]:
            result, _ = self.verify_plugin(None, *more)
            self.assertEqual(result.returncode, 0, result.stderr)
            with open(self.record("report"), encoding="utf-8") as file:
                said = json.load(file)["environment"]["plugin:" + BAD_PLUGIN]
            self.assertTrue(said.startswith(f"{BAD_PLUGIN}, SHA-256 {digits}, "), said)

    def test_a_plugin_that_is_replaced_ends_the_run(self):
        plugin, other = self.path("plugin.so"), self.path("other.so")
        # A file that was touched, or another copy with the same bytes, counts as the same plugin.
        for change, code, more in [("touch", 0, ()), ("copy", 0, ()), ("replace", 2, ()),
                                   ("replace", 2, ("--plugin-trusted",)), ("remove", 2, ())]:
            with self.subTest(change=change, more=more):
                shutil.copy(BAD_PLUGIN, plugin)
                shutil.copy(BAD_PLUGIN, other)
                with open(other, "ab") as file:
                    file.write(b"\0" if change == "replace" else b"")
                run = subprocess.Popen(
                    [command_line_case.BINARY, "verify", "-v", "--suite", "smoke", "--case",
                     "*/gaussian_wide/v1000/unfiltered", "--exclude", "batches/*", "--exclude",
                     "replay/*", "--exclude", "status/*", "--sampler", "plugin:" + plugin, "--jobs",
                     "1", "--seed", "7", "--report", self.path("report"), *more],
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                    env=dict(os.environ, FAIRDRAW_BAD="slow"))
                while not run.stdout.readline().startswith("["):
                    self.assertIsNone(run.poll())
                if change == "touch":
                    os.utime(plugin)
                elif change == "remove":
                    os.remove(plugin)
                else:
                    os.replace(other, plugin)
                output, errors = run.communicate(timeout=300)
                self.assertEqual(run.returncode, code, output + errors)
                if code == 2:
                    self.assertIn(f"plugin '{plugin}': the file changed during the run", errors)
                self.assertEqual(os.path.exists(self.record("report")), code == 0)

    def test_traps_that_a_plugin_leaves_end_no_run(self):
        for more in [(), ("--plugin-trusted",)]:
            with self.subTest(more=more):
                result, verdicts = self.verify_plugin("unmask-traps", *more)
                self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
                self.assertEqual(len(verdicts["failed"]), 6)
                for case in verdicts["failed"]:
                    self.assertIn("left floating-point exceptions unmasked (invalid operation, "
                                  "division by zero, inexact result)", case["message"])
                again = self.run_fairdraw(*case["replay"].split()[1:], bad="unmask-traps")
                self.assertEqual(again.returncode, 1, again.stdout + again.stderr)
                found = self.run_fairdraw("identify", "--sampler", "plugin:" + BAD_PLUGIN, "--seed",
                                          "1", *more, bad="unmask-traps")
                self.assertEqual(found.returncode, 3, found.stdout + found.stderr)  # never asked
                self.assertIn("exceptions unmasked", found.stdout)

    def test_an_early_exit_is_an_error_whatever_its_code(self):
        sampler = "plugin:" + BAD_PLUGIN
        trusted = ("--sampler", sampler, "--plugin-trusted")
        loads = [("verify", *trusted, "--report", self.path("report")),
                 ("list", "samplers", *trusted), ("identify", *trusted),
                 ("fuzz", *trusted, "--cases", "1"), ("bench", "--backend", sampler)]
        case = "support/gaussian_wide/v1000/unfiltered"
        calls = [("verify", *trusted, "--case", case, "--report", self.path("report")),
                 ("replay", case, *trusted), ("bench", "--backend", sampler)]
        code_0 = "ended its process with exit code 0"
        for verbs, bad, says in [(loads, "constructor-exits", code_0),
                                 (loads, "describe-exits", code_0),
                                 (loads, "describe-leaves", code_0),
                                 (calls, "exit-well", code_0), (calls, "leave-well", code_0),
                                 (calls, "abort", "crashed with SIGABRT")]:
            for verb in verbs:
                with self.subTest(bad=bad, verb=verb[0]):
                    result = self.run_fairdraw(*verb, bad=bad)
                    self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
                    self.assertIn(sampler + ", loaded into fairdraw's own process, " + says +
                                  " before the end of the run", result.stderr)

    def test_plugins_that_cannot_be_loaded(self):
        for sampler, bad, says in [
            ("plugin:./absent.so", None, ["'./absent.so'", "there is no such file"]),
            ("plugin:" + self.logits, None, [self.logits, "is not a shared library"]),
            ("plugin:" + BAD_PLUGIN, "unknown-profile", ["'vllm_toch'", "'vllm_torch'"]),
            ("plugin:" + BAD_PLUGIN, "unknown-ability", ["bit 62"]),
            ("plugin:" + BAD_PLUGIN, "describe-crashes", ["crashed with SIGABRT"]),
        ]:
            for verb in [("verify",), ("fuzz", "--cases", "1"), ("list", "samplers")]:
                with self.subTest(sampler=sampler, bad=bad, verb=verb):
                    result = self.run_fairdraw(*verb, "--sampler", sampler, bad=bad)
                    self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
                    for word in says:
                        self.assertIn(word, result.stderr)
        self.expect_usage_error("plugin-host", "x", says=["started by fairdraw itself"])
        self.expect_usage_error("plugin-host", "x", "0", "0", says=["started by fairdraw itself"])

    def test_fuzz_of_a_plugin_and_nothing_loads_what_a_file_names(self):
        sampler = "plugin:" + BAD_PLUGIN
        result = self.run_fairdraw("fuzz", "--sampler", sampler, "--cases", "200", "--seed", "7",
                                   "--corpus", self.path("capsules"), "--max-vocab", "33",
                                   bad="crash")
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertIn("FAILED call.runs: the plugin crashed with SIGSEGV", result.stdout)
        capsule = os.path.join(self.path("capsules"), os.listdir(self.path("capsules"))[0])
        with open(capsule, encoding="utf-8") as file:
            self.assertIn(BAD_PLUGIN, file.read())
        self.verify_plugin("crash")
        proof = self.path("proof")
        os.environ["FAIRDRAW_BAD_PROOF"] = proof
        self.addCleanup(os.environ.pop, "FAIRDRAW_BAD_PROOF")
        replayed = self.run_fairdraw("replay", capsule, "--sampler", "cpu")
        self.assertEqual(replayed.returncode, 0, replayed.stdout + replayed.stderr)
        rendered = self.run_fairdraw("report", os.path.join(self.path("report"), "report.json"),
                                     self.path("again"))
        self.assertEqual(rendered.returncode, 1, rendered.stderr)  # the exit code is that of the report
        self.assertFalse(os.path.exists(proof))
        replayed = self.run_fairdraw("replay", capsule, "--sampler", sampler, bad="crash")
        self.assertEqual(replayed.returncode, 1, replayed.stdout + replayed.stderr)
        self.assertTrue(os.path.exists(proof))

    def test_bench_measures_the_way_to_a_plugin(self):
        rows = self.path("rows.json")
        result = self.run_fairdraw("bench", "--backend", "plugin:" + BAD_PLUGIN, "--milliseconds",
                                   "5", "--json", rows)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        with open(rows, encoding="utf-8") as file:
            backends = [row["backend"] for row in json.load(file)]
        self.assertEqual(backends, ["plugin:" + BAD_PLUGIN + "@trusted",
                                    "plugin:" + BAD_PLUGIN + "@isolated"])


if __name__ == "__main__":
    command_line_case.take_binary()
    BAD_PLUGIN = os.path.abspath(sys.argv.pop(1))
    unittest.main()
