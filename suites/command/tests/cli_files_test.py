"""The tests cover files that verbs read and write. An endless file, or a file larger than any report, is
rejected at once. Half-written files are removed. A call that only prints ends when its reader has closed the
pipe.

Usage: cli_files_test.py FAIRDRAW_BINARY BAD_PLUGIN
"""

import json
import os
import signal
import subprocess
import sys
import time
import unittest

import command_line_case
from command_line_case import CommandLineCase

BAD_PLUGIN = None
FILES = ["index.html", "junit.xml", "report.json", "summary.md"]
ONE_CASE = ("--suite", "smoke", "--sampler", "cpu", "--seed", "11", "--case", "mask/*/v31/*")


class Files(CommandLineCase):
    def make_green(self, folder):
        result = self.run_fairdraw("verify", *ONE_CASE, "--report", self.path(folder))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(sorted(os.listdir(self.path(folder))), FILES)

    def start(self, *arguments, **more):
        return subprocess.Popen([command_line_case.BINARY, *arguments], cwd=self.folder.name,
                                stderr=subprocess.DEVNULL, **more)

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

    # --- who reads ---

    def test_a_replay_ends_when_nobody_reads_what_it_says(self):
        for more in ([], ["--plugin-trusted"]):
            with self.subTest(more=more):
                replay = self.start(
                    "replay", "support/gaussian_wide/v1000/unfiltered", "--sampler",
                    "plugin:" + BAD_PLUGIN, "--plugin-timeout", "600", *more,
                    stdout=subprocess.PIPE, env=dict(os.environ, FAIRDRAW_BAD="hang"))
                self.addCleanup(replay.kill)
                time.sleep(1)
                self.assertIsNone(replay.poll())
                replay.stdout.close()
                self.assertEqual(replay.wait(timeout=60), 128 + signal.SIGPIPE)

    # --- what is left ---

    def test_a_signal_before_the_run_begins_leaves_no_earlier_report(self):
        # The signal is pending from the start of the process, so that it arrives as early as possible.
        def with_a_signal():
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
            os.kill(os.getpid(), signal.SIGTERM)

        for words in (["verify", *ONE_CASE], ["verify", *ONE_CASE, "--sampler", "plugin:" + BAD_PLUGIN,
                                              "--plugin-trusted"]):
            with self.subTest(words=words):
                self.make_green("report")
                run = self.start(*words, "--report", self.path("report"), stdout=subprocess.DEVNULL,
                                 preexec_fn=with_a_signal)
                self.assertEqual(run.wait(timeout=60), 3)
                report = self.report("report")
                self.assertEqual(report["cases"], [])
                self.assertIn("stopped by SIGTERM after 0 of ", report["incomplete"])
        self.make_green("shard")
        for words in (["merge", self.record("shard"), "--report"], ["report", self.record("shard")]):
            with self.subTest(words=words):
                self.make_green("report")
                run = self.start(*words, self.path("report"), stdout=subprocess.DEVNULL,
                                 preexec_fn=with_a_signal)
                self.assertEqual(run.wait(timeout=60), -signal.SIGTERM)
                self.assertEqual(os.listdir(self.path("report")), [])

    def test_words_that_are_no_call_leave_no_earlier_report(self):
        self.make_green("shard")
        for words in (["verify", "--sute", "smoke"], ["verify", "--jobs", "0"], ["verify", "--seed="],
                      ["merge"], ["merge", self.record("shard"), "--max-skipped", "x"]):
            for folder in (["--report", "report"], ["--report=report"]):
                with self.subTest(words=words, folder=folder):
                    self.make_green("report")
                    result = self.run_fairdraw(*words[:1], *folder, *words[1:])
                    self.assertEqual(result.returncode, 2, result.stdout)
                    self.assertEqual(os.listdir(self.path("report")), [])
        self.assertEqual(self.run_fairdraw().returncode, 2)
        # --help is not a run, and the folder that a rejected call names may be an input; both leave the
        # report alone.
        self.make_green("report")
        for words in (["verify", "--help"], ["merge", "report/report.json", "--no-such-option"]):
            self.run_fairdraw(*words, "--report", "report")
            self.assertIn("report.json", os.listdir(self.path("report")))

    def test_a_signal_takes_along_what_is_half_written(self):
        self.make_green("run")

        def with_much_to_write(record):  # makes the record long, so that signals arrive during the write
            first = record["cases"][0]
            more = [{**first, "id": f"mask/copy/{i}"} for i in range(5_000)]
            record["cases"] += more
            record["draws"] += len(more) * first["draws"]
            record["summary"][first["verdict"]] += len(more)
            for derived in ("coverage", "causes"):
                record.pop(derived, None)

        large = self.edited("large.json", "run", with_much_to_write)
        os.mkdir(self.path("report"))
        for stop in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            with self.subTest(stop=stop.name):
                writes = self.start("report", large, self.path("report"), stdout=subprocess.DEVNULL,
                                    preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
                while not os.listdir(self.path("report")):
                    self.assertIsNone(writes.poll())
                writes.send_signal(stop)
                self.assertEqual(writes.wait(timeout=60), -stop)
                self.assertEqual(os.listdir(self.path("report")), [])
        # SIGKILL leaves half-written files behind, which the next call removes. SIGKILL may also arrive
        # between two files.
        for _ in range(20):
            writes = self.start("report", large, self.path("report"), stdout=subprocess.DEVNULL)
            while not os.listdir(self.path("report")):
                self.assertIsNone(writes.poll())
            writes.kill()
            writes.wait()
            if os.listdir(self.path("report")):
                break
        self.assertNotEqual(os.listdir(self.path("report")), [])
        self.run_fairdraw("report", self.record("run"), self.path("report"))
        self.assertEqual(sorted(os.listdir(self.path("report"))), FILES)


if __name__ == "__main__":
    command_line_case.take_binary()
    BAD_PLUGIN = os.path.abspath(sys.argv.pop(1))
    unittest.main()
