"""The tests cover the output that people read during and after a run: progress, colours, diagnosis.

Usage: cli_terminal_test.py FAIRDRAW_BINARY BAD_PLUGIN
"""

import errno
import fcntl
import json
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
import unittest

import command_line_case
from command_line_case import CommandLineCase

BAD_PLUGIN = None
# A case that makes many calls. The slow plugin takes 0.1 s per call, so that the case takes more than nine
# seconds.
LONG_CASE = ("--suite", "smoke", "--case", "replay/gaussian_wide/v1000/unfiltered")
PROGRESS = re.compile(r"\[(\d+)/(\d+)\] (?:(\d+) failed, )?(?:\d+ min )?\d+ s"
                      r"(?:, about [\d a-z]+ left)?(?:: (\S+) on .*)?")


class Terminal(CommandLineCase):
    def long_run(self, seconds):
        return ["verify", *LONG_CASE, "--sampler", "plugin:" + BAD_PLUGIN, "--case-timeout",
                str(seconds), "--report", self.path("report")]

    def on_terminal(self, arguments, columns=200, bad=None, **variables):
        """Returns the exit code of the call, and the output that it writes to a terminal."""
        environment = {**os.environ, "TERM": "xterm", "NO_COLOR": "", **variables}
        if bad:
            environment["FAIRDRAW_BAD"] = bad
        main, side = pty.openpty()
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        run = subprocess.Popen([command_line_case.BINARY, *arguments], cwd=self.folder.name,
                               stdin=subprocess.DEVNULL, stdout=side, stderr=side, env=environment)
        os.close(side)
        written = b""
        while True:
            try:
                piece = os.read(main, 65536)
            except OSError as error:  # on Linux, this error means that the other side is closed
                self.assertEqual(error.errno, errno.EIO)
                break
            if not piece:
                break
            written += piece
        os.close(main)
        return run.wait(timeout=600), written.decode()

    def mutant_run(self, *more):
        """Returns the arguments of a run in which cases with several causes fail."""
        return ["verify", "--suite", "smoke", "--sampler", "mutant:lane-of-32-lost", "--seed", "7",
                "--case", "[bs][oc]*/v1000/*", "--report", self.path("report"), *more]

    # --- progress ---

    def test_a_log_has_a_line_every_five_seconds(self):
        result = self.run_fairdraw(*self.long_run(8), bad="slow")
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        lines = result.stderr.splitlines()
        # The case may take 8 s, so that a progress line appears after 5 s.
        self.assertGreaterEqual(len(lines), 1, result.stderr)
        with open(self.record("report"), encoding="utf-8") as file:
            seconds = json.load(file)["seconds"]
        self.assertLessEqual(len(lines), seconds / 5, result.stderr)
        for line in lines:
            match = PROGRESS.fullmatch(line)
            self.assertTrue(match, line)
            self.assertEqual(match.group(1, 2, 4), ("0", "1", LONG_CASE[-1]))
        self.assertNotIn("\x1b", result.stdout + result.stderr)
        self.assertFalse([line for line in result.stdout.splitlines() if line.startswith("[")])

    def test_a_terminal_has_one_line_that_moves(self):
        code, text = self.on_terminal(self.long_run(2), columns=60, bad="slow")
        self.assertEqual(code, 1, text)
        drawn = re.findall(r"\r\x1b\[K([^\r]*)", text[: text.index("\x1b[1m1 of 1 failed")])
        shown = [line for line in drawn if line]
        self.assertGreater(len(shown), 2, text)
        for line in shown:
            # The last progress line may have been written after the case.
            self.assertTrue(line.startswith(("[0/1] ", "[1/1] ")[: 1 + (line is shown[-1])]), line)
            self.assertNotIn("\n", line)
            self.assertLess(len(line), 60)
        self.assertEqual(drawn[-1][:1].strip(), "", text)  # the progress line is erased at the end

    def test_the_remaining_time_is_that_of_the_rate_so_far(self):
        code, text = self.on_terminal(["verify", "--suite", "smoke", "--sampler", "cpu", "--jobs",
                                       "1", "--report", self.path("report")])
        self.assertEqual(code, 0, text)
        lines = [PROGRESS.match(line) for line in re.findall(r"\r\x1b\[K(\[[^\r]*)", text)]
        self.assertGreater(len(lines), 2, text)
        self.assertTrue(all(lines), text)
        done = [int(line.group(1)) for line in lines]
        self.assertEqual(done, sorted(done))
        self.assertTrue(any("about" in line.group(0) for line in lines), text)
        cases = {case["id"] for case in self.report("report")["cases"]}
        running = {line.group(4) for line in lines if line.group(4)}
        self.assertTrue(running and running <= cases, running - cases)

    def test_quiet_prints_the_summary_alone_and_verbose_a_line_a_case(self):
        quiet = self.verify("quiet", "-q")
        self.assertEqual(quiet.returncode, 0, quiet.stderr)
        self.assertEqual(quiet.stderr, "")
        self.assertRegex(quiet.stdout, r"\Afairdraw: \d+ passed, 0 failed, .*\n\Z")
        verbose = self.verify("verbose", "--verbose")
        self.assertEqual(verbose.returncode, 0, verbose.stderr)
        cases = self.report("verbose")["cases"]
        lines = [line for line in verbose.stdout.splitlines() if line.startswith("[")]
        counted = [case for case in cases if case["check"] != "global"]
        self.assertEqual([int(line[1:].split("/")[0]) for line in lines],
                         list(range(1, len(counted) + 1)))
        for case in counted:
            self.assertTrue(any(f"  {case['sampler']}  {case['id']}" in line for line in lines))
        for verb in ("verify", "mutants"):
            self.expect_usage_error(verb, "-q", "-v", says=["--quiet", "--verbose"])

    def test_mutants_show_the_same(self):
        mutant = ("mutants", "--only", "lane-of-32-lost", "--seed", "7")
        verbose = self.run_fairdraw(*mutant, "-v")
        self.assertEqual(verbose.returncode, 0, verbose.stdout + verbose.stderr)
        lines = [line for line in verbose.stdout.splitlines() if line.startswith("[")]
        self.assertEqual([line.split("] ")[0] for line in lines], ["[1/2", "[2/2"])  # with its twin
        self.assertIn("lane-of-32-lost: killed by ", lines[0])
        self.assertIn(": green", lines[1])
        quiet = self.run_fairdraw(*mutant, "-q")
        self.assertEqual(quiet.returncode, 0, quiet.stdout + quiet.stderr)
        self.assertEqual(quiet.stderr, "")
        self.assertRegex(quiet.stdout, r"\A1 of 1 mutants killed, .*\n\Z")

    # --- the outcome ---

    def test_a_red_run_says_first_what_it_looks_like(self):
        result = self.run_fairdraw(*self.mutant_run())
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        lines = result.stdout.splitlines()
        self.assertTrue(lines[0].startswith("fairdraw "), lines[0])  # this is the head line of the run
        failed = [case for case in self.report("report")["cases"] if case["verdict"] == "failed"]
        headings = [re.fullmatch(r"(\d+) of (\d+) failed cases?: \S.*", line) for line in lines]
        groups = [match for match in headings if match]
        self.assertGreater(len(groups), 0, result.stdout)
        self.assertEqual(sum(int(group.group(1)) for group in groups), len(failed))
        self.assertEqual({int(group.group(2)) for group in groups}, {len(failed)})
        # The sentence about the cause and its advice come first.
        self.assertEqual(groups[0].group(0), lines[1])
        self.assertRegex(lines[2], r"^  change        \S.+\.$")
        self.assertRegex(lines[3], r"^  because       \S")
        # No line is repeated, and each group of failures has one replay line.
        shown = [line for line in lines if line.startswith("  failed ")]
        self.assertEqual(len(shown), len(set(shown)))
        replays = [line.split("replay: ")[1] for line in lines if "replay: " in line]
        self.assertEqual(len(replays), len(groups))
        known = {self.typed(case["replay"]) for case in failed}
        self.assertLessEqual(set(replays), known)
        again = subprocess.run(replays[0], shell=True, cwd=self.folder.name, capture_output=True,
                               text=True, timeout=600, check=False)
        self.assertEqual(again.returncode, 1, again.stdout + again.stderr)

        every = self.run_fairdraw(*self.mutant_run("-v"))
        listed = [line for line in every.stdout.splitlines() if line.startswith("  failed ")]
        self.assertEqual(len(listed), len(failed))
        quiet = self.run_fairdraw(*self.mutant_run("-q")).stdout
        self.assertTrue(quiet.startswith(groups[0].group(0)), quiet)
        self.assertTrue(quiet.splitlines()[-1].startswith("fairdraw: "), quiet)
        # `report` prints the same text for the report's file.
        rendered = self.run_fairdraw("report", self.record("report"), self.path("again"))
        told = "\n".join(lines[1:-1])
        self.assertEqual(rendered.stdout.strip(), told)

    def test_a_replay_line_begins_as_the_program_was_called(self):
        os.symlink(command_line_case.BINARY, self.path("by another name"))
        result = subprocess.run(["./by another name", *self.mutant_run()], cwd=self.folder.name,
                                capture_output=True, text=True, timeout=600, check=False)
        self.assertIn("    replay: './by another name' replay ", result.stdout)

    def test_colours_are_for_terminals_that_want_them(self):
        code, text = self.on_terminal(self.mutant_run())
        self.assertEqual(code, 1, text)
        self.assertIn("\x1b[31mfailed\x1b[0m", text)
        for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
            with self.subTest(name=name):
                code, text = self.on_terminal(self.mutant_run(), **{name: value})
                self.assertEqual(code, 1, text)
                self.assertIn("failed", text)
                self.assertNotRegex(text, r"\x1b\[\d*m")
        result = self.run_fairdraw(*self.mutant_run())
        self.assertNotIn("\x1b", result.stdout + result.stderr)

    # --- choice of cases, and number of draws ---

    def test_fail_fast_begins_nothing_after_the_first_failure(self):
        whole = self.run_fairdraw(*self.mutant_run())
        self.assertEqual(whole.returncode, 1, whole.stdout)
        planned = [case for case in self.report("report")["cases"] if case["check"] != "global"]
        failed = [case["verdict"] for case in planned].index("failed")
        result = self.run_fairdraw(*self.mutant_run("--fail-fast", "--jobs", "1"))
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        report = self.report("report")
        self.assertEqual([case["id"] for case in report["cases"]],
                         [case["id"] for case in planned[: failed + 1]])
        self.assertEqual(report["incomplete"],
                         f"stopped by --fail-fast after {failed + 1} of {len(planned)} cases")
        self.assertIn("INCOMPLETE: stopped by --fail-fast", result.stdout)
        left = len(planned) - failed - 1
        said = re.search(rf"^not run: {left} cases: (.*)$", result.stdout, re.M)
        self.assertTrue(said, result.stdout)
        self.assertEqual(sum(int(part.split()[1]) for part in said.group(1).split(", ")), left)
        # A run without a failure is complete in spite of --fail-fast.
        green = self.verify("green", "--fail-fast")
        self.assertEqual(green.returncode, 0, green.stdout)
        self.assertEqual(self.report("green")["incomplete"], "")

    def test_rerun_failed_runs_what_failed_and_nothing_else(self):
        self.assertEqual(self.run_fairdraw(*self.mutant_run()).returncode, 1)
        before = self.report("report")
        failed = {case["id"]: case for case in before["cases"]
                  if case["verdict"] == "failed" and case["check"] != "global"}
        self.assertGreater(len(failed), 1)
        again = ["verify", "--rerun-failed", self.record("report"), "--report", self.path("again")]
        result = self.run_fairdraw(*again)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        report = self.report("again")
        cases = [case for case in report["cases"] if case["check"] != "global"]
        self.assertEqual({case["id"] for case in cases}, set(failed))
        for case in cases:  # the draws are the same, and are judged by the same levels
            self.assertEqual(case, failed[case["id"]])
        self.assertEqual(report["seed"], before["seed"])
        self.assertIn("--rerun-failed", report["selection"])
        # A rerun may write into the folder that it reads, and may judge another sampler.
        over = self.run_fairdraw("verify", "--rerun-failed", self.record("report"), "--report",
                                 self.path("report"), "--case", cases[0]["id"])
        self.assertEqual(over.returncode, 1, over.stdout + over.stderr)
        self.assertEqual([case["id"] for case in self.report("report")["cases"]
                          if case["check"] != "global"], [cases[0]["id"]])
        self.expect_usage_error(*again[:2], self.record("again"), "--sampler", "cpu",
                                says=["--rerun-failed", "no case of this report failed on cpu",
                                      "mutant:lane-of-32-lost"])
        self.expect_usage_error(*again[:2], self.record("again"), "--exclude", "*",
                                says=["--rerun-failed", "--exclude"])

    def test_rerun_failed_refuses_what_it_cannot_run_again(self):
        self.assertEqual(self.verify("green").returncode, 0)
        green = self.record("green")
        rerun = ("verify", "--report", self.path("x"), "--rerun-failed")
        self.expect_usage_error(*rerun, green, says=["--rerun-failed", green, "no case of this report failed"])
        self.expect_usage_error(*rerun, self.path("none.json"), says=["none.json"])

        def fails(record, **changes):
            record["cases"][0].update(verdict="failed", message="wrong", **changes)
            record["summary"]["passed"] -= 1
            record["summary"]["failed"] += 1

        gone = self.edited("gone.json", "green", lambda record: fails(record, id="mask/gone"))
        self.expect_usage_error(*rerun, gone, says=["1 of its 1 failed cases", "'mask/gone'"])
        # The record has no coverage, like reports of older versions.
        foreign = self.edited("foreign.json", "green", lambda record: (
            fails(record, sampler="plugin:./evil.so"), record.pop("coverage")))
        other = self.edited("other.json", "green", lambda record: (
            fails(record), record.update(options=" --semantics vllm_torch")))
        self.expect_usage_error(*rerun, other, says=["--semantics is missing", "vllm_torch"])
        self.assertFalse(os.path.exists(self.path("x")))

    def test_draws_replace_those_of_statistical_cases(self):
        case = "chi_squared/gaussian_wide/v1000/none/t1/n100000"
        run = ["verify", "--suite", "smoke", "--sampler", "cpu", "--seed", "7", "--case",
               "[cm][ha]*/gaussian_wide/v1000/*", "--report", self.path("report")]
        found = {}
        for draws, code in (("400000", 0), ("2000", 3)):
            result = self.run_fairdraw(*run, "--draws", draws)
            self.assertEqual(result.returncode, code, result.stdout + result.stderr)
            entries = {one["id"]: one for one in self.report("report")["cases"]}
            found[draws] = entries[case]
            self.assertTrue(any(one["check"] == "mask" and one["verdict"] == "passed"
                                for one in entries.values()))
            again = self.run_fairdraw(*shlex.split(found[draws]["replay"])[1:])
            self.assertEqual(again.returncode, code, again.stdout + again.stderr)
        self.assertEqual(found["400000"]["draws"], 400000)
        self.assertLess(found["400000"]["min_discrepancy"], found["2000"]["min_discrepancy"])
        self.assertEqual(found["2000"]["verdict"], "underpowered")
        self.assertIn("2000 draws", found["2000"]["message"])

    def test_the_fewest_draws_break_no_case(self):
        result = self.run_fairdraw("verify", "--suite", "smoke", "--sampler", "cpu", "--seed", "7",
                                   "--draws", "1000", "--report", self.path("report"))
        self.assertEqual(result.returncode, 3, result.stdout + result.stderr)
        summary = self.report("report")["summary"]
        self.assertEqual((summary["failed"], summary["error"]), (0, 0))
        self.assertGreater(summary["underpowered"], 10)


if __name__ == "__main__":
    command_line_case.take_binary()
    BAD_PLUGIN = os.path.abspath(sys.argv.pop(1))
    unittest.main()
