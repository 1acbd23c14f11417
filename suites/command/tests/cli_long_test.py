"""The tests of the command line in this file need many draws or several runs. Each test takes minutes under
sanitizers, so they run with sanitizers only in nightly runs.

Usage: cli_long_test.py FAIRDRAW_BINARY.
"""

import json
import os
import shlex
import unittest
from unittest import mock

import command_line_case
from command_line_case import CommandLineCase


class LongRuns(CommandLineCase):
    def test_calibrate_writes_rows(self):
        rows = self.path("calibration.json")
        arguments = ["--runs", "100", "--seed", "7", "--json", rows]
        result = self.run_fairdraw("calibrate", *arguments)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        with open(rows, encoding="utf-8") as file:
            written = json.load(file)
        self.assertEqual(written["seed"], "7")
        for row in written["rows"]:
            self.assertEqual((row["runs"], row["reds"], row["passed"]), (100, 0, True), row)
            self.assertEqual("e_at_least_100" in row, row["validity"] == "bet")
            self.assertIn(row["statistic"], result.stdout)
        for option, value, allowed in [("--runs", "7", "100"), ("--seed", "x", "--seed"),
                                       ("--json", self.path("no/folder"), "cannot write")]:
            with self.subTest(option=option):
                self.expect_usage_error("calibrate", option, value,
                                        says=[allowed])

    def test_a_mutant_can_be_judged_by_its_name(self):
        result = self.run_fairdraw("verify", "--sampler", "mutant:lane-of-32-lost", "--suite",
                                   "smoke", "--report", self.path("report"), "--seed", "1")
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        wrong = [case for case in self.report("report")["cases"] if case["verdict"] == "failed"]
        self.assertTrue(wrong)
        replayed = self.run_fairdraw(*shlex.split(wrong[0]["replay"])[1:])
        self.assertEqual(replayed.returncode, 1, replayed.stdout + replayed.stderr)
        self.expect_usage_error("verify", "--sampler", "mutant:lane-of-32-lots",
                                says=["'lane-of-32-lost'"])

    def test_same_seed_same_report_whatever_the_jobs(self):
        first = self.verify("first", "--jobs", "1")
        self.assertEqual(first.returncode, 0, first.stdout + first.stderr)
        self.assertEqual(self.verify("second", "--jobs", "3").returncode, 0)
        report = self.report("first")
        self.assertEqual(report, self.report("second"))
        self.assertEqual(report["summary"]["failed"], 0)
        self.assertGreater(report["summary"]["passed"], 5)
        self.assertEqual(report["seed"], {"value": "11", "source": "--seed 11"})
        for name in ["index.html", "junit.xml", "summary.md"]:
            self.assertTrue(os.path.getsize(os.path.join(self.path("first"), name)) > 0)
        again = self.run_fairdraw("report", os.path.join(self.path("first"), "report.json"),
                                  self.path("again"))
        self.assertEqual(again.returncode, 0, again.stderr)
        for name in ["report.json", "index.html", "junit.xml", "summary.md"]:
            with open(os.path.join(self.path("first"), name), "rb") as one:
                with open(os.path.join(self.path("again"), name), "rb") as other:
                    self.assertEqual(one.read(), other.read(), name)

    def test_shards_make_the_whole(self):
        self.assertEqual(self.verify("whole").returncode, 0)
        cases = {}
        for shard in (1, 2):
            self.assertEqual(self.verify("part", "--shard", f"{shard}/2").returncode, 0)
            for entry in self.report("part")["cases"]:
                self.assertNotIn((entry["id"], entry["sampler"]), cases)
                cases[entry["id"], entry["sampler"]] = entry
        whole = {(entry["id"], entry["sampler"]): entry for entry in self.report("whole")["cases"]}
        self.assertEqual(cases, whole)

    def test_merge_joins_shards_to_the_run_without_shards(self):
        self.assertEqual(self.verify("whole").returncode, 0)
        shards = []
        for shard in (2, 1, 3):
            self.assertEqual(self.verify(str(shard), "--shard", f"{shard}/3").returncode, 0)
            shards.append(self.record(str(shard)))
        result = self.run_fairdraw("merge", *shards, "--report", self.path("merged"))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(self.report("merged"), self.report("whole"))
        self.assertTrue(os.path.getsize(os.path.join(self.path("merged"), "index.html")) > 0)

        self.expect_usage_error("merge", *shards[:2], "--report", self.path("x"),
                                says=["1 of 3 shards are missing: 3/3"])
        self.expect_usage_error("merge", *shards, shards[0], "--report", self.path("x"),
                                says=["are both shard 2/3"])
        other = self.edited("other.json", "2", lambda record: record["seed"].update(value="12"))
        self.expect_usage_error("merge", other, *shards[1:], "--report", self.path("x"),
                                says=["other.json", "are not of one run: seed '12", "'11"])
        other = self.edited("other.json", "2", lambda record: record.update(commit="f" * 40))
        self.expect_usage_error("merge", other, *shards[1:], "--report", self.path("x"),
                                says=["other.json", "commit"])
        self.expect_usage_error("merge", self.path("none.json"), says=["none.json"])
        self.assertFalse(os.path.exists(self.path("x")))

    def test_shards_by_the_times_of_a_run_make_the_whole(self):
        self.assertEqual(self.verify("whole").returncode, 0)
        shards = []
        for shard in (1, 2):
            result = self.verify(str(shard), "--shard", f"{shard}/2", "--times",
                                 self.record("whole"))
            self.assertEqual(result.returncode, 0, result.stderr)
            shards.append(self.record(str(shard)))
        result = self.run_fairdraw("merge", *shards, "--report", self.path("merged"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.report("merged"), self.report("whole"))
        self.expect_usage_error("verify", "--times", self.path("none.json"), says=["none.json"])
        # Both cases get the same sampler, so that the coverage in the report stays consistent.
        sampler = self.report("2")["cases"][0]["sampler"]
        there = next(case["id"] for case in self.report("1")["cases"] if case["sampler"] == sampler)
        twice = self.edited("twice.json", "2", lambda record: record["cases"][0].update(id=there))
        self.expect_usage_error("merge", shards[0], twice, "--report", self.path("x"),
                                says=["is in", "not made from the same times"])

    def count(self, folder, *more):
        return self.run_fairdraw("verify", "--suite", "smoke", "--sampler", "cpu", "--case",
                                 "b*/gaussian*/*", "--report", self.path(folder), *more)

    def test_parts_of_cases_make_the_whole(self):
        self.assertEqual(self.count("whole", "--seed", "11").returncode, 0)
        parts = []
        for part in (1, 2):
            result = self.count(str(part), "--seed", "11", "--case-part", f"{part}/2")
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            parts.append(self.record(str(part)))
        result = self.run_fairdraw("merge", *parts, "--report", self.path("merged"))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(self.report("merged"), self.report("whole"))
        self.expect_usage_error("merge", parts[0], "--report", self.path("x"),
                                says=["1 of 2 parts are missing: 2/2"])
        self.expect_usage_error("merge", parts[0], self.record("whole"), "--report",
                                self.path("x"), says=["whole", "is not a part of cases"])
        for words, says in [(["--case-part", "3/2"], "'3/2' is not I/N"),
                            (["--second-look"], "--case-part is missing"),
                            (["--case-part", "1/2", "--shard", "1/2"], "--shard is given too"),
                            (["--draws", "1000", "--draws-scale", "2"], "--draws is given too"),
                            (["--draws-scale", "0"], "--draws-scale"),
                            (["--night", "0"], "--night")]:
            self.expect_usage_error("verify", *words, says=[says])

    def test_nights_accumulate(self):
        nights = []
        for night in ("1", "2", "3"):
            result = self.count(night, "--seed", night, "--night", night, "--draws-scale", "1.5")
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            nights.append(self.record(night))
        merge = ("merge", "--across-seeds", "--report", self.path("all"))
        result = self.run_fairdraw(*merge, *nights)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        report = self.report("all")
        self.assertEqual([night["seed"] for night in report["nights"]], ["1", "2", "3"])
        # 10^-9 (1/2 + 1/6 + 1/12), plus the reserve.
        self.assertAlmostEqual(report["error_budget"]["false_alarm_rate"], 0.75e-9 + 3e-10,
                               delta=1e-18)
        ids = {case["id"] for case in report["cases"] if "nights" in case["measures"]}
        self.assertEqual({name.split("/")[0] for name in ids}, {"bets", "binomial"})
        draws = sum(case["draws"] for night in ("1", "2", "3")
                    for case in self.report(night)["cases"])
        self.assertEqual(report["draws"], draws)
        merge = ("merge", "--across-seeds", "--report", self.path("x"))
        self.expect_usage_error(*merge, nights[0], nights[0], says=["the same seed, 1"])
        self.expect_usage_error(*merge, self.record("all"), says=["accumulated evidence itself"])

    def test_a_device_that_is_not_there_is_refused(self):
        with mock.patch.dict(os.environ, CUDA_VISIBLE_DEVICES="4,7"):
            self.expect_usage_error("verify", "--device", "2",
                                    says=["--device: 2 is out of range", "names 2 GPUs"])


if __name__ == "__main__":
    command_line_case.take_binary()
    unittest.main()
