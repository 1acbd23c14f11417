"""The tests require that every option of every verb rejects invalid values; they also test how cases are
chosen.

The options are read from --help, so that a new option is tested automatically.

Usage: cli_options_test.py FAIRDRAW_BINARY
"""

import json
import os
import re
import shutil
import subprocess
import unittest

import command_line_case
from command_line_case import CommandLineCase

OPTION = re.compile(r"^  (?:-\w,)?(--[a-z][a-z-]*)(?: (\S.*?))?(?:  .*)?$")
# Names that --help uses for types of numbers, in addition to types that show a range.
NUMBERS = {"N", "NUMBER", "MIB", "PART", "T", "K", "P", "ROW", "I/N"}
RANGE = re.compile(r"\((.*)\)")
ENDS = re.compile(r"^(-?[\d.e+-]+) to (-?[\d.e+-]+)$")


class Option:
    def __init__(self, name, shown):
        self.name = name
        # the type that --help shows, such as "N (1 to 1024)=7", "NAME ..." or "SUITE=gate"; None: the option
        # is a flag
        self.is_flag = shown is None
        shown = shown or ""
        words = RANGE.search(shown)
        self.range = words.group(1) if words else None
        self.type = re.split(r"[ =:]", shown)[0]
        self.is_number = self.type in NUMBERS or self.range is not None

    def wrong_values(self):
        """Returns texts that are not valid values of the option."""
        if self.is_flag:
            return []
        if not self.is_number:
            return [""]
        values = ["", "nan", "NaN", "inf", "-inf", "x", "1x", "1e999", "0x1p3", " 1"]
        ends = ENDS.match(self.range or "")
        if not ends:
            return values + ["-2"]
        least, most = (float(end) for end in ends.groups())
        if most < 2**63:
            values.append(f"{most * 2 + 1:.0f}")
        values.append(str(int(least) - 1))
        # 1e-400 rounds to 0, but must not be accepted as 0
        return values + (["1e-400"] if self.type in {"PART", "P"} else [])


class Options(CommandLineCase):
    def setUp(self):
        super().setUp()
        with open(self.path("rows.json"), "w", encoding="utf-8") as file:
            json.dump([], file)

    def verbs(self):
        text = self.run_fairdraw("--help").stdout
        return re.findall(r"^  ([a-z]+)  ", text[text.index("Subcommands:"):], re.M)

    def options_of(self, verb):
        lines = self.run_fairdraw(verb, "--help").stdout.splitlines()
        found = [OPTION.match(line) for line in lines]
        return [Option(*match.groups()) for match in found if match]

    def required(self, verb):
        """Returns the arguments that the verb requires."""
        rows = self.path("rows.json")
        return {"sample": ["--logits", self.logits], "identify": ["--sampler", "cpu"],
                "replay": ["mask/x"], "report": [rows], "merge": [rows],
                "compare": [rows, rows]}.get(verb, [])

    def refusal(self, verb, option, value, joined):
        """Returns a description of the fault in the way the verb treats the value, or None if it rejects the
        value properly.
        """
        given = [f"{option.name}={value}"] if joined else [option.name, value]
        try:
            result = subprocess.run(
                [command_line_case.BINARY, verb, *given, *self.required(verb)],
                cwd=self.folder.name, capture_output=True, text=True, timeout=60, check=False)
        except subprocess.TimeoutExpired:
            return "it does not end"
        wanted = [option.name, value] + ([option.range] if value and option.range else [])
        missing = [word for word in wanted if word not in result.stderr]
        if result.returncode != 2 or missing:
            return f"exit code {result.returncode}, without {missing}: {result.stderr[:300]}"
        return None

    def test_no_option_takes_what_is_no_value(self):
        verbs = self.verbs()
        self.assertGreaterEqual(len(verbs), 12, verbs)
        tried, numbers, problems = 0, 0, []
        for verb in verbs:
            options = [option for option in self.options_of(verb) if option.name != "--help"]
            self.assertTrue(options, verb)
            for option in options:
                numbers += option.is_number
                for value in option.wrong_values():
                    tried += 1
                    why = self.refusal(verb, option, value, joined=value != "")
                    if why:
                        problems.append(f"{verb} {option.name} '{value}': {why}")
                if not option.is_flag:
                    why = self.refusal(verb, option, "", joined=True)
                    if why:
                        problems.append(f"{verb} {option.name}=: {why}")
        self.assertEqual(problems, [])
        self.assertGreater(tried, 200)
        self.assertGreater(numbers, 25)

    def test_positional_arguments_and_lists_have_no_empty_parts(self):
        rows = self.path("rows.json")
        for words, says in [(["report", ""], "file"), (["merge", rows, ""], "files"),
                            (["compare", rows, ""], "head"), (["replay", ""], "case"),
                            (["list", ""], "what"),
                            (["verify", "--sampler", ","], "--sampler"),
                            (["verify", "--sampler", "cpu,,model"], "--sampler"),
                            (["bench", "--vocab", "500,"], "--vocab")]:
            with self.subTest(words=words):
                self.expect_usage_error(*words, says=[says])

    def test_a_number_too_small_for_its_type_is_not_taken_for_zero(self):
        sample = ("sample", "--logits", self.logits)
        for option in ["--temperature", "--top-p", "--min-p"]:
            for value in ["1e-400", "1e-50", "0.0000000000000000000000000000000000000000000000001",
                          "10e-400"]:
                with self.subTest(option=option, value=value):
                    self.expect_usage_error(*sample, f"{option}={value}",
                                            says=[option, value, "too close to 0"])
        for value in ["1e400", "1E+400", "1" + 400 * "0", "0.01e400"]:
            result = self.run_fairdraw(*sample, "--top-p=" + value)
            self.assertEqual(result.returncode, 2, result.stdout)
            self.assertIn("is out of range", result.stderr)
            self.assertNotIn("close to 0", result.stderr)
        for option in ["--temperature", "--top-p", "--min-p"]:  # these spellings of 0 are accepted
            for value in ["0", "0.000", "0e10"]:
                self.assertEqual(self.run_fairdraw(*sample, f"{option}={value}").returncode, 0)

    # --- which cases ---

    def ids(self, *more):
        result = self.run_fairdraw("verify", "--suite", "smoke", "--sampler", "cpu", "--seed", "11",
                                   "--case", "*/v31/*", "--report", self.path("report"), *more)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return [case["id"] for case in self.report("report")["cases"]]

    def test_exclude_leaves_out_and_the_report_says_so(self):
        everything = self.ids()
        self.assertGreater(len(everything), 2)
        self.assertEqual(self.report("report")["selection"], "*/v31/*")
        left_out = everything[0]
        self.assertEqual(self.ids("--exclude", left_out), everything[1:])
        self.assertEqual(self.report("report")["selection"],
                         f"*/v31/* --exclude {left_out}")
        with open(self.path("report/index.html"), encoding="utf-8") as page:
            self.assertIn(f"--exclude {left_out}", page.read())
        self.assertEqual(self.ids("--exclude", left_out, "--exclude", everything[-1]),
                         everything[1:-1])
        # --exclude must not leave out every case.
        self.expect_usage_error("verify", "--suite", "smoke", "--exclude", "*",
                                says=["--exclude", "leaves out every case"])

    def test_history_is_on_the_page(self):
        def history(name):
            with open(self.path(name + "/index.html"), encoding="utf-8") as file:
                data = file.read().split('<script type="application/json" id="data">')[1]
            return json.loads(data.split("</script>")[0])["history"]

        choice = ["verify", "--suite", "smoke", "--seed", "11", "--case", "mask/*/v31/*"]
        runs = self.path("runs")
        os.mkdir(runs)
        first = self.run_fairdraw(*choice, "--sampler", "cpu", "--report", self.path("runs/first"),
                                  "--history", runs)
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertEqual(history("runs/first"), {"earlier": 0, "runs": []})
        shutil.copy(self.path("runs/first/report.json"), self.path("runs/a copy.json"))
        second = self.run_fairdraw(*choice, "--sampler", "cpu", "--report", self.path("second"),
                                   "--history", runs + "/")
        self.assertEqual(second.returncode, 0, second.stderr)
        self.assertEqual(history("second")["earlier"], 2)
        pages = [run["page"] for run in history("second")["runs"]]
        self.assertEqual(pages.count("../runs/first/index.html"), 1)
        # A report that is rendered again does not count as one of its own earlier runs.
        again = self.run_fairdraw("report", self.path("runs/first/report.json"), "--report",
                                  self.path("again"), "--history", runs)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual(history("again")["earlier"], 1)

        self.expect_usage_error(*choice, "--history", self.path("nowhere"),
                                says=["--history", "nowhere", "No such file"])
        with open(self.path("runs/b.json"), "w", encoding="utf-8") as file:
            file.write("[]")
        self.expect_usage_error(*choice, "--history", runs, says=["--history", "b.json"])

    def test_a_choice_that_matches_nothing_is_an_error(self):
        for option in ["--case", "--exclude"]:
            for glob in ["*no such case*", "mask/x"]:
                with self.subTest(option=option, glob=glob):
                    self.expect_usage_error("verify", "--suite", "smoke", option, glob,
                                            says=[option, glob, "smoke"])
        for verb, option in [("mutants", "--only"), ("fuzz", "--property")]:
            for glob in ["*no such name*", "no-such-name"]:
                with self.subTest(verb=verb, glob=glob):
                    self.expect_usage_error(verb, option, glob, says=[glob])

    def test_a_name_that_is_far_from_all_others_is_not_corrected(self):
        for arguments, suggests in [
            (("verify", "--semantics", "vllm"), "'vllm_torch' or 'vllm_triton'?"),
            (("sample", "--logits", self.logits, "--dtype", "bf16"), "'bfloat16'?"),
            (("verify", "--sampler", "bf16"), None),
            (("verify", "--sampler", "vllm"), None),
            (("xyzzy",), None),
        ]:
            with self.subTest(arguments=arguments):
                result = self.run_fairdraw(*arguments)
                self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
                self.assertEqual("did you mean" in result.stderr, suggests is not None)
                self.assertIn(suggests or "; known: ", result.stderr)


if __name__ == "__main__":
    command_line_case.take_binary()
    unittest.main()
