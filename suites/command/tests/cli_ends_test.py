"""The tests cover calls that end abnormally: signals, closed and full outputs, crashes, and files that an
earlier call left. No such call may look like a run that passed.

Usage: cli_ends_test.py FAIRDRAW_BINARY BAD_PLUGIN
"""

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import unittest
import unittest.mock

import command_line_case
from command_line_case import CommandLineCase, npy

BAD_PLUGIN = None
FILES = ["index.html", "junit.xml", "report.json", "summary.md"]
ONE_CASE = ("--suite", "smoke", "--sampler", "cpu", "--seed", "11", "--case", "mask/*/v31/*")


def default_signals():
    """Restores the default actions of signals, because a background job of a shell and its children ignore
    SIGINT."""
    for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(one, signal.SIG_DFL)


class LittleMemory(CommandLineCase):
    LIMIT = 1 << 29

    def limited(self, *words):
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (self.LIMIT, self.LIMIT))

        return subprocess.run([command_line_case.BINARY, *words], cwd=self.folder.name, text=True,
                              capture_output=True, check=False, preexec_fn=limit)

    def test_ends_with_a_sentence(self):
        if self.limited("--version").returncode != 0:
            self.skipTest("the program, of a sanitizer, does not start in half a GiB")
        row = self.path("row.npy")
        values = 1 << 28  # a GiB of float32
        with open(row, "wb") as file:
            file.write(npy("(256, %d)" % (values // 256), []))
            file.truncate(file.tell() + 4 * values)  # a sparse file
        result = self.limited("sample", "--logits", row)
        self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
        self.assertIn("fairdraw: memory ran out: ", result.stderr)
        self.assertNotIn("std::", result.stderr)


class Ends(CommandLineCase):
    def start(self, *arguments, bad=None, before=default_signals, **more):
        environment = dict(os.environ, **({"FAIRDRAW_BAD": bad} if bad else {}))
        return subprocess.Popen([command_line_case.BINARY, *arguments], cwd=self.folder.name,
                                env=environment, preexec_fn=before, text=True,
                                **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **more})

    def files(self, folder):
        return sorted(os.listdir(self.path(folder)))

    def make_green(self, folder):
        result = self.run_fairdraw("verify", *ONE_CASE, "--report", self.path(folder))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(self.files(folder), FILES)

    def content(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    # --- files left by an earlier call ---

    def test_a_crash_leaves_no_report_of_an_earlier_run(self):
        self.make_green("report")
        with open(self.path("report/notes.txt"), "w", encoding="utf-8") as file:
            file.write("mine")
        result = self.run_fairdraw("verify", "--suite", "smoke", "--sampler", "plugin:" + BAD_PLUGIN,
                                   "--plugin-trusted", "--report", self.path("report"), bad="crash")
        self.assertNotIn(result.returncode, (0, 3), result.stdout)
        self.assertEqual(self.files("report"), ["notes.txt"])

    def test_a_plugin_that_ends_the_process_while_it_is_asked_leaves_none_either(self):
        self.make_green("report")
        result = self.run_fairdraw("verify", "--sampler", "plugin:" + BAD_PLUGIN, "--plugin-trusted",
                                   "--report", self.path("report"), bad="describe-crashes")
        self.assertNotEqual(result.returncode, 0)
        self.assertEqual(self.files("report"), [])

    def test_a_killed_run_leaves_no_report(self):
        self.make_green("report")
        run = self.start("verify", "-v", "--sampler", "cpu", "--jobs", "1", "--report",
                         self.path("report"))
        self.wait_for_a_case(run)
        run.kill()
        run.communicate()
        self.assertEqual(self.files("report"), [])

    def test_merge_and_report_leave_none_where_they_fail(self):
        self.make_green("shard")
        shard = self.edited("half.json", "shard", lambda record: record.update(shard="1/2"))
        broken = self.edited("broken.json", "shard", lambda record: record.pop("seed"))
        for words in (["merge", shard, "--report"], ["report", broken]):
            with self.subTest(words=words):
                self.make_green("report")
                result = self.run_fairdraw(*words, self.path("report"))
                self.assertEqual(result.returncode, 2, result.stdout)
                self.assertEqual(self.files("report"), [])

    def test_a_report_is_rendered_again_where_it_is(self):
        self.make_green("report")
        before = {name: self.content("report/" + name) for name in FILES}
        os.remove(self.path("report/summary.md"))
        result = self.run_fairdraw("report", self.record("report"), self.path("report"))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual({name: self.content("report/" + name) for name in FILES}, before)
        # A report.json that cannot be read stays, but its pages are removed.
        with open(self.record("report"), "w", encoding="utf-8") as file:
            file.write("{")
        self.assertEqual(self.run_fairdraw("report", self.record("report"),
                                           self.path("report")).returncode, 2)
        self.assertEqual(self.files("report"), ["report.json"])

    def test_files_of_other_verbs_are_not_left_of_an_earlier_call(self):
        self.make_green("run")
        good, old = self.record("run"), self.path("old")
        for words in (["bench", "--backend", "gpu", "--json"],
                      ["calibrate", "--seed", "x", "--json"],
                      ["identify", "--sampler", "cpuu", "--json"],
                      ["compare", good, self.path("none"), "--json"],
                      ["compare", good, self.path("none"), "--markdown"],
                      ["compare", good, self.path("none"), "--html"]):
            with self.subTest(words=words):
                with open(old, "w", encoding="utf-8") as file:
                    file.write("of an earlier call")
                result = self.run_fairdraw(*words, old)
                self.assertEqual(result.returncode, 2, result.stdout)
                self.assertFalse(os.path.exists(old))
        self.expect_usage_error("compare", good, good, "--json", good, says=["--json", good])
        self.assertTrue(os.path.exists(good))

    def test_links_are_not_followed(self):
        precious = self.path("precious")
        os.mkdir(self.path("report"))
        with open(precious, "w", encoding="utf-8") as file:
            file.write("mine")
        for name in [".fairdraw-probe", *FILES]:
            os.symlink(precious, os.path.join(self.path("report"), name))
        result = self.run_fairdraw("verify", *ONE_CASE, "--report", self.path("report"))
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(self.content("precious"), "mine")
        self.assertGreater(len(self.report("report")["cases"]), 0)

    def test_a_run_is_known_by_its_id(self):
        for shard in ("1", "2"):
            result = self.run_fairdraw("verify", *ONE_CASE, "--shard", shard + "/2", "--run-id",
                                       "pipeline 7", "--report", self.path(shard))
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        shards = [self.record("1"), self.record("2")]
        merge = ("merge", *shards, "--report", self.path("all"), "--require-run-id")
        self.assertEqual(self.run_fairdraw(*merge, "pipeline 7").returncode, 0)
        render = ("report", self.record("all"), self.path("all"), "--require-run-id")
        self.assertEqual(self.run_fairdraw(*render, "pipeline 7").returncode, 0)
        self.expect_usage_error(*render, "pipeline 8",
                                says=["report.json", "of run 'pipeline 7'", "expected run 'pipeline 8'"])
        self.expect_usage_error(*merge, "pipeline 8", says=["'pipeline 7'", "'pipeline 8'"])
        self.expect_usage_error("report", self.path("gone.json"), "--require-run-id", "x",
                                says=["gone.json"])
        self.make_green("nameless")
        self.expect_usage_error("report", self.record("nameless"), "--require-run-id", "x",
                                says=["without --run-id", "'x'"])

    def test_a_call_that_is_refused_leaves_no_green_report(self):
        self.make_green("green")
        for words in (["--suite", "gaet"], ["--logits", self.path("gone.npy")], ["--seed", "x"],
                      ["--shard", "3/2"]):
            with self.subTest(words=words):
                shutil.copytree(self.path("green"), self.path("report"), dirs_exist_ok=True)
                result = self.run_fairdraw("verify", *words, "--report", self.path("report"))
                self.assertEqual(result.returncode, 2, result.stdout)
                self.assertEqual(self.files("report"), [])

    def test_a_file_that_may_be_written_in_a_folder_that_may_not_is_written(self):
        # The report's file is like a file that is mounted in a container: it can be neither removed nor
        # replaced.
        self.make_green("run")
        good, found = self.record("run"), self.path("closed/found.json")
        os.chmod(self.folder.name, 0o755)
        os.mkdir(self.path("closed"))
        with open(found, "w", encoding="utf-8") as file:
            file.write("of an earlier call, and longer than what is written now" * 1000)
        os.chmod(found, 0o666)
        os.chmod(self.path("closed"), 0o555)
        self.addCleanup(os.chmod, self.path("closed"), 0o755)
        base, head = (self.edited(name, "run", lambda record: None) for name in ("base", "head"))

        def as_nobody():
            if os.geteuid() == 0:
                os.setgid(65534)
                os.setuid(65534)

        def compare(*words):
            call = self.start("compare", *words, "--json", found, before=as_nobody)
            output, errors = call.communicate(timeout=60)
            return call.returncode, output + errors

        try:
            subprocess.run([command_line_case.BINARY, "--version"], preexec_fn=as_nobody,
                           capture_output=True, check=True)
        except OSError as error:
            self.skipTest(f"the program is not there for other users: {error}")
        code, text = compare(base, head)
        self.assertEqual(code, 0, text)
        self.assertIsInstance(json.loads(self.content("closed/found.json")), dict)
        code, text = compare(base, self.path("none"))
        self.assertEqual(code, 2, text)
        self.assertEqual(self.content("closed/found.json"), "")
        os.chmod(found, 0o444)
        code, text = compare(base, head)
        self.assertEqual(code, 2, text)
        self.assertIn("--json", text)
        self.assertIn(found, text)
        self.assertTrue(os.path.exists(good))

    # --- signals ---

    def wait_for_signals(self, process, row, signals, there):
        """Waits until a row of /proc/PID/status has all of the signals, or, if `there` is false, none of
        them.
        """
        wanted = sum(1 << (one - 1) for one in signals)
        end = time.monotonic() + 60
        while time.monotonic() < end:
            with open(f"/proc/{process.pid}/status", encoding="utf-8") as file:
                bits = [int(line.split()[1], 16) for line in file if line.startswith(row + ":")]
            if bits[0] & wanted == (wanted if there else 0):
                return
            time.sleep(0.01)
        self.fail(f"{row} is {bits}")

    def wait_for_a_case(self, run):
        """Waits until a case of the run has ended, according to the lines of --verbose."""
        for line in run.stdout:
            if line.startswith("["):
                return
        self.fail("no case ended: " + run.stderr.read())

    def test_a_signal_ends_a_run_and_its_report_says_so(self):
        for stop in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(signal=stop.name):
                run = self.start("verify", "-v", "--sampler", "cpu", "--jobs", "1", "--github",
                                 "--report", self.path("report"))
                self.wait_for_a_case(run)
                run.send_signal(stop)
                output, errors = run.communicate(timeout=60)
                self.assertEqual(run.returncode, 3, output + errors)
                self.assertEqual(self.files("report"), FILES)
                report = self.report("report")
                done = len(report["cases"])
                self.assertGreater(done, 0)
                says = f"stopped by {stop.name} after {done} of "
                self.assertTrue(report["incomplete"].startswith(says), report["incomplete"])
                for name in FILES:
                    self.assertIn(says, self.content("report/" + name).replace(" \\", ""), name)
                self.assertIn("INCOMPLETE: " + says, output)
                self.assertIn("::error title=fairdraw: the run is incomplete::" + says, output)
                self.assertFalse([case for case in report["cases"] if case["check"] == "global"])
        # No verb turns the incomplete record into a complete one, or into one that passed.
        rendered = self.run_fairdraw("report", self.record("report"), self.path("again"))
        self.assertEqual(rendered.returncode, 3, rendered.stderr)
        shard = self.edited("shard.json", "report", lambda record: record.update(shard="1/1"))
        self.expect_usage_error("merge", shard, "--report", self.path("merged"),
                                says=["shard.json is incomplete: stopped by SIGHUP"])
        compared = self.run_fairdraw("compare", self.record("report"), self.record("report"))
        self.assertEqual(compared.returncode, 3, compared.stdout)

    def hanging_run(self, *words, **more):
        """Starts a run of two cases: one passes, and in the other the sampler never answers.
        """
        run = self.start("verify", "-v", "--suite", "smoke", "--sampler", "cpu,plugin:" + BAD_PLUGIN,
                         "--jobs", "1", "--case", "support/gaussian_wide/v1000/unfiltered",
                         "--plugin-timeout", "600", "--report", self.path("report"), *words,
                         bad="hang", **more)
        self.wait_for_a_case(run)
        time.sleep(1)  # waits until the same thread begins the other case
        return run

    def test_a_sampler_that_hangs_does_not_keep_the_report(self):
        self.make_green("report")
        run = self.hanging_run()
        started = time.monotonic()
        run.send_signal(signal.SIGTERM)
        output, errors = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 3, output + errors)
        self.assertGreater(time.monotonic() - started, 4)  # running cases had time to end
        report = self.report("report")
        self.assertEqual(report["incomplete"], "stopped by SIGTERM after 1 of 2 cases")
        self.assertEqual([case["verdict"] for case in report["cases"]], ["passed"])
        self.assertIn("report in", output)

    def test_a_second_signal_ends_at_once(self):
        for second in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(second=second.name):
                self.make_green("report")
                run = self.hanging_run()
                run.send_signal(signal.SIGINT)
                self.wait_for_signals(run, "ShdPnd", [signal.SIGINT], there=False)
                time.sleep(1)  # waits longer than the time within which repeats of one signal count once
                started = time.monotonic()
                run.send_signal(second)
                run.communicate(timeout=60)
                self.assertEqual(run.returncode, -second)
                self.assertLess(time.monotonic() - started, 3)
                self.assertEqual(self.files("report"), [])

    def test_a_signal_to_the_whole_group_is_one(self):
        # The parent of a trusted plugin's process also receives the signal, and passes it on.
        for stop in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(signal=stop.name):
                run = self.hanging_run("--plugin-trusted", start_new_session=True)
                os.killpg(run.pid, stop)
                output, errors = run.communicate(timeout=60)
                self.assertEqual(run.returncode, 3, output + errors)
                self.assertEqual(self.report("report")["incomplete"],
                                 f"stopped by {stop.name} after 1 of 2 cases")

    def test_a_caller_that_ignores_the_end_of_its_children_sees_how_plugins_end(self):
        def as_supervisor():
            signal.signal(signal.SIGCHLD, signal.SIG_IGN)

        # The address sanitizer would turn a SIGSEGV of the process into an exit.
        options = os.environ.get("ASAN_OPTIONS", "") + ":handle_segv=0"
        for trust in ([], ["--plugin-trusted"]):
            with self.subTest(trust=trust), unittest.mock.patch.dict(os.environ,
                                                                     ASAN_OPTIONS=options):
                run = self.start("verify", "--suite", "smoke", "--sampler", "plugin:" + BAD_PLUGIN,
                                 "--case", "support/gaussian_wide/v1000/unfiltered", *trust,
                                 "--report", self.path("report"), bad="crash", before=as_supervisor)
                output, errors = run.communicate(timeout=60)
                self.assertIn("crashed with SIGSEGV", output + errors)
                self.assertEqual(run.returncode, 2 if trust else 1, output + errors)

    def test_a_signal_that_is_ignored_stays_so(self):
        def as_nohup():
            signal.signal(signal.SIGHUP, signal.SIG_IGN)

        run = self.start("verify", "-v", "--suite", "smoke", "--sampler", "cpu", "--case", "mask/*",
                         "--jobs", "1", "--report", self.path("report"), before=as_nohup)
        self.wait_for_a_case(run)
        run.send_signal(signal.SIGHUP)
        output, errors = run.communicate(timeout=600)
        self.assertEqual(run.returncode, 0, output + errors)
        self.assertEqual(self.report("report")["incomplete"], "")

    def test_a_stopped_search_is_no_pass(self):
        search = self.start("fuzz", "--sampler", "cpu", "--seed", "7", "--seconds", "600")
        self.wait_for_signals(search, "SigCgt", [signal.SIGINT], there=True)
        search.send_signal(signal.SIGINT)
        output, errors = search.communicate(timeout=60)
        self.assertEqual(search.returncode, 3, output + errors)
        self.assertIn("incomplete: stopped by SIGINT", output)

    # --- outputs ---

    def test_a_reader_that_goes_away_does_not_take_the_report_along(self):
        run = self.start("verify", "-v", "--suite", "smoke", "--sampler", "cpu", "--case", "mask/*",
                         "--report", self.path("report"))
        run.stdout.readline()
        run.stdout.close()
        self.assertEqual(run.wait(timeout=600), 128 + signal.SIGPIPE)
        self.assertEqual(run.stderr.read(), "")
        run.stderr.close()
        self.assertEqual(self.files("report"), FILES)
        report = self.report("report")
        self.assertEqual(report["incomplete"], "")
        self.assertEqual(report["summary"]["failed"], 0)

    def test_output_that_is_not_taken_is_an_error_of_every_verb(self):
        self.make_green("run")
        good = self.record("run")
        rows = self.path("rows.json")
        self.assertEqual(self.run_fairdraw("bench", "--vocab", "500", "--milliseconds", "1",
                                           "--json", rows).returncode, 0)
        calls = [["--help"], ["--version"], ["verify", "--help"],
                 ["verify", *ONE_CASE, "--report", self.path("full")],
                 ["replay", self.report("run")["cases"][0]["id"], "--sampler", "cpu"],
                 ["identify", "--sampler", "cpu", "--seed", "7"],
                 ["fuzz", "--sampler", "cpu", "--cases", "20", "--seed", "7"], ["fuzz", "--list"],
                 ["list", "cases"], ["list", "samplers", "--json"],
                 ["sample", "--logits", self.logits], ["sample", "--logits", self.logits, "--json"],
                 ["bench", "--vocab", "500", "--milliseconds", "1"],
                 ["calibrate", "--runs", "100", "--seed", "7"],
                 ["report", good, self.path("rendered")], ["compare", good, good],
                 ["compare", rows, rows],
                 ["merge", good, "--report", self.path("merged")], ["mutants", "--list"]]
        text = self.run_fairdraw("--help").stdout
        listed = text[text.index("Subcommands:"):].splitlines()[1:]
        verbs = {line.split()[0] for line in listed if line.startswith("  ")}
        self.assertEqual({words[0] for words in calls if words[0][0] != "-"},
                         {verb for verb in verbs if verb.isalpha() and verb != "fairdraw"})
        for words in calls:
            with self.subTest(words=words), open("/dev/full", "w", encoding="utf-8") as full:
                call = self.start(*words, stdout=full)
                _, errors = call.communicate(timeout=600)
                self.assertEqual(call.returncode, 2, errors)
                self.assertIn("cannot write to the standard output: No space left", errors)
        self.assertEqual(self.files("full"), FILES)  # the report is written although the log is lost

    def test_verbs_print_through_one_function(self):
        # Text that other functions print would not be made safe for a terminal, and its loss would not be
        # noticed.
        folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
        sources = [name for name in sorted(os.listdir(folder)) if name.endswith((".cpp", ".h"))]
        self.assertGreater(len(sources), 20)
        for name in sources:
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                found = re.findall(r"fmt::print|\bprintf|\bputs\(|std::cout|std::cerr", file.read())
            self.assertEqual(found, [], name)

    def test_a_file_that_may_not_be_so_large_leaves_nothing_behind(self):
        self.make_green("run")

        def few_bytes():
            resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

        call = self.start("report", self.record("run"), self.path("report"), before=few_bytes)
        output, errors = call.communicate(timeout=60)
        self.assertEqual(call.returncode, 2, output + errors)
        self.assertIn("File too large", errors)
        self.assertEqual(self.files("report"), [])

    def test_what_a_plugin_says_of_itself_moves_no_cursor(self):
        result = self.run_fairdraw("list", "samplers", "--sampler", "plugin:" + BAD_PLUGIN,
                                   bad="escapes")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(r"\x1b[31mgreen", result.stdout)
        self.assertNotIn("\x1b", result.stdout + result.stderr)
        self.assertNotIn("\a", result.stdout)

    def expect_no_forged_line(self, text):
        # splitlines also splits at carriage returns and vertical tabs, with which a plugin must not be able
        # to forge a line.
        self.assertIn("forged", text)
        self.assertEqual([line for line in text.splitlines() if line.startswith("forged")], [])

    def test_what_a_plugin_says_stays_on_its_line(self):
        plugin = ("--sampler", "plugin:" + BAD_PLUGIN)
        case = ("--suite", "smoke", "--case", "support/gaussian_wide/v1000/unfiltered")
        listed = self.run_fairdraw("list", "samplers", *plugin, bad="version-in-lines")
        self.assertEqual(listed.returncode, 0, listed.stderr)
        self.expect_no_forged_line(listed.stdout)
        self.assertEqual(len(listed.stdout.splitlines()), 2, listed.stdout)  # name and abilities
        listed = self.run_fairdraw("list", "samplers", *plugin, "--json", bad="version-in-lines")
        said = json.loads(listed.stdout)[0]["version"]
        # The expected text is the name and then each line of the plugin after one blank; "\r\n" becomes two
        # blanks.
        self.assertEqual(said, "bad 1.0 forged: 9 passed  forged: 0 failed forged"
                               r"\x1b[2K\x0b\x7f")
        for bad in ("semantics-in-lines", "describe-fails-in-lines"):
            for trust in ([], ["--plugin-trusted"]):
                with self.subTest(bad=bad, trust=trust):
                    result = self.run_fairdraw("verify", *plugin, *case, *trust, bad=bad)
                    self.assertEqual(result.returncode, 2, result.stdout)
                    self.expect_no_forged_line(result.stderr)
        for bad, code in (("version-in-lines", 0), ("refuse-in-lines", 1)):
            for trust in ([], ["--plugin-trusted"]):
                with self.subTest(bad=bad, trust=trust):
                    result = self.run_fairdraw("verify", *plugin, *case, *trust, "--report",
                                               self.path("report"), bad=bad)
                    self.assertEqual(result.returncode, code, result.stdout + result.stderr)
                    for name in FILES:
                        self.expect_no_forged_line(self.content("report/" + name))
                    # the report has the control characters as escapes
                    said = json.dumps(self.report("report"))
                    self.assertNotRegex(said, r"\\n|\\r|\\u00[01]")
                    if code != 0:
                        self.expect_no_forged_line(result.stdout)
        red = self.report("report")["cases"][0]["id"]
        for words in (["identify"], ["replay", red]):
            with self.subTest(words=words):
                result = self.run_fairdraw(*words, *plugin, bad="refuse-in-lines")
                self.assertNotEqual(result.returncode, 0, result.stdout)
                self.expect_no_forged_line(result.stdout)

    # --- nothing to say ---

    def test_nothing_compared_is_no_pass(self):
        for name in ("base.json", "head.json"):
            with open(self.path(name), "w", encoding="utf-8") as file:
                file.write("[]\n")
        result = self.run_fairdraw("compare", self.path("base.json"), self.path("head.json"))
        self.assertEqual(result.returncode, 3, result.stdout)
        self.assertIn("Nothing was compared", result.stdout)

    def test_a_sampler_that_never_answers_has_no_profile(self):
        found = self.path("found.json")
        for bad, says in [("crash", "crashed with SIGSEGV"), ("hang", "gave no answer in 1 s"),
                          ("refuse", "out of tiles"), ("exit", "exit code 7")]:
            with self.subTest(bad=bad):
                started = time.monotonic()
                result = self.run_fairdraw("identify", "--sampler", "plugin:" + BAD_PLUGIN,
                                           "--plugin-timeout", "1", "--json", found, bad=bad)
                self.assertEqual(result.returncode, 3, result.stdout + result.stderr)
                self.assertIn("cannot find the profile that it follows", result.stdout)
                self.assertIn(says, result.stdout)
                self.assertNotIn("closest profile", result.stdout)
                self.assertLess(time.monotonic() - started, 60)
                with open(found, encoding="utf-8") as file:
                    written = json.load(file)
                self.assertEqual((written["profiles"], written["choices"]), ([], []))
                self.assertIn(says, written["unanswered"])


if __name__ == "__main__":
    command_line_case.take_binary()
    BAD_PLUGIN = os.path.abspath(sys.argv.pop(1))
    unittest.main()
