"""The tests run whole commands, and check exit codes, messages, replays and reports.

Usage: cli_test.py FAIRDRAW_BINARY. Plugins are tested in cli_plugin_test.py, and runs of minutes in
cli_long_test.py.
"""

import json
import os
import re
import subprocess
import unittest

import command_line_case
from command_line_case import CommandLineCase, npy


class CommandLine(CommandLineCase):
    # --- bad usage and bad input ---

    def test_parameters_out_of_range(self):
        for option, value, allowed in [
            ("--top-p", "1.5", "0 to 1"),
            ("--top-p", "-0.1", "0 to 1"),
            ("--top-p", "nan", "0 to 1"),
            ("--min-p", "2", "0 to 1"),
            ("--temperature", "-1", "2^-126"),
            ("--temperature", "inf", "2^-126"),
            ("--temperature", "nan", "2^-126"),
            ("--top-k", "-2", "-1 to"),
            ("--num-samples", "0", "1 to"),
            ("--row", "2", "0 to 1"),
        ]:
            with self.subTest(option=option, value=value):
                self.expect_usage_error("sample", "--logits", self.logits, f"{option}={value}",
                                        says=[option, value, allowed])

    def test_values_that_are_no_numbers(self):
        for option in ["--top-p", "--min-p", "--temperature", "--top-k", "--seed", "--offset"]:
            with self.subTest(option=option):
                self.expect_usage_error("sample", "--logits", self.logits, f"{option}=abc",
                                        says=[option, "abc"])

    def test_unknown_names_come_with_the_closest(self):
        smoke = ["verify", "--suite", "smoke"]
        self.expect_usage_error("verify", "--suite", "smok", says=["'smok'", "'smoke'"])
        self.expect_usage_error(*smoke, "--sampler", "cpu:scalr", says=["'cpu:scalr'", "'cpu:scalar'"])
        self.expect_usage_error(*smoke, "--semantics", "vllm_toch", says=["'vllm_torch'"])
        self.expect_usage_error(*smoke, "--case", "mask/gaussian/v7", says=["mask/gaussian/v7"])
        self.expect_usage_error(*smoke, "--dtype", "bf16", says=["'bf16'", "'bfloat16'"])
        self.expect_usage_error(*smoke, "--dtype", "bfloat16", says=["--dtype", "--logits"])
        self.expect_usage_error("list", "familys", says=["'families'"])
        self.expect_usage_error("sample", "--logits", self.logits, "--tie-rule", "lowest",
                                says=["'lowest_id'"])
        self.expect_usage_error("replay", "mask/x", "--seed", "1", says=["mask/x"])
        self.expect_usage_error("verfy", says=["'verfy'", "'verify'"])
        self.assertEqual(self.run_fairdraw("verify", "--no-such-option").returncode, 2)
        self.assertEqual(self.run_fairdraw().returncode, 2)

    def test_gpu_samplers_give_the_cpus_tokens_or_say_why_they_cannot_run(self):
        listed = self.run_fairdraw("list", "samplers")
        available = listed.stdout.split()
        draw = ("sample", "--logits", self.logits, "--num-samples", "50", "--seed", "7")
        for name in ["cuda", "cuda:cluster", "cuda:block"]:
            with self.subTest(name=name):
                if name in available:
                    on_cpu = self.run_fairdraw(*draw, "--sampler", "cpu")
                    on_gpu = self.run_fairdraw(*draw, "--sampler", name)
                    self.assertEqual(on_gpu.returncode, 0, on_gpu.stderr)
                    self.assertEqual(on_gpu.stdout, on_cpu.stdout)
                    continue
                says = [f"'{name}' cannot run here: "]
                self.expect_usage_error(*draw, "--sampler", name, says=says)
                self.expect_usage_error("verify", "--sampler", name, says=says)
                self.expect_usage_error("bench", "--backend", name, says=says)
        # If samplers are missing from the list, the list gives the reason.
        if "cuda" in available:
            self.assertEqual(listed.stderr, "")
        else:
            why = self.run_fairdraw("verify", "--sampler", "cuda").stderr.split("cannot run here: ")[1]
            self.assertEqual(listed.stderr.split("cannot run here: ")[1:], [why])

    def test_bench_writes_rows(self):
        rows = self.path("rows.json")
        arguments = ["--operation", "greedy,top_p_0.99999994", "--vocab", "500", "--milliseconds",
                     "1", "--json", rows]
        result = self.run_fairdraw("bench", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        with open(rows, encoding="utf-8") as file:
            written = json.load(file)
        self.assertEqual([(row["logits"], row["operation"]) for row in written],
                         [(logits, f"sample/{operation}") for logits in ["peaked", "flat"]
                          for operation in ["greedy", "top_p_0.99999994"]])
        for row in written:
            self.assertGreater(row["microseconds"], 0)
            self.assertGreater(row["floor_microseconds"], 0)
        for option, value in [("--backend", "gpu"), ("--dtype", "int8"), ("--logits", "odd"),
                              ("--parameters", "both"), ("--vocab", "0"), ("--batch", "65537")]:
            with self.subTest(option=option):
                self.expect_usage_error("bench", option, value, says=[value])

    def test_seeds_and_shards(self):
        for seed in ["-1", "18446744073709551616", "1.5", "0x", ""]:
            self.expect_usage_error("verify", "--suite", "smoke", f"--seed={seed}", says=["--seed"])
        self.expect_usage_error("verify", "--seed", "1", "--seed-from", "x", says=["--seed-from"])
        for shard in ["0/2", "3/2", "1", "1/0", "a/b", "-1/2"]:
            self.expect_usage_error("verify", f"--shard={shard}", says=["--shard", shard])
        self.assertEqual(self.run_fairdraw("verify", "--jobs", "0").returncode, 2)

    def test_bad_files(self):
        whole = npy("(2, 8)", [0.0] * 16)
        bad = {
            "truncated.npy": whole[:-1],
            "header.npy": whole[:20],
            "magic.npy": b"hello" + whole[5:],
            "dtype.npy": npy("(1, 2)", [0.0] * 2, descr="<f8", code="d"),
            "empty.npy": b"",
        }
        for name, content in bad.items():
            with open(self.path(name), "wb") as file:
                file.write(content)
            for verb in (["sample"], ["verify", "--suite", "smoke"]):
                with self.subTest(name=name, verb=verb[0]):
                    self.expect_usage_error(*verb, "--logits", self.path(name), says=[name])
        self.expect_usage_error("sample", "--logits", self.path("none.npy"), says=["none.npy"])
        self.expect_usage_error("sample", "--logits", self.logits, "--dtype", "bfloat16",
                                says=["bfloat16"])

    def test_report_folder_that_cannot_be_written(self):
        with open(self.path("file"), "w", encoding="utf-8") as file:
            file.write("not a folder")
        self.expect_usage_error("verify", "--suite", "smoke", "--case", "mask/*/v31/*",
                                "--report", self.path("file"), says=["--report", "file"])
        self.expect_usage_error("report", self.path("none.json"), says=["none.json"])
        self.expect_usage_error("report", self.logits, says=["logits.npy"])

    # --- correct calls ---

    def test_sample_is_a_function_of_its_arguments(self):
        arguments = ["sample", "--logits", self.logits, "--seed", "7", "--num-samples", "50",
                     "--top-k", "3", "--json"]
        first = self.run_fairdraw(*arguments)
        self.assertEqual(first.returncode, 0, first.stderr)
        rows = json.loads(first.stdout)
        self.assertEqual([row["status"] for row in rows], ["ok", "ok"])
        # Row 0: 3 is the largest logit, and the logits 2 at ids 2 and 4 tie for second place.
        self.assertEqual(rows[0]["support_size"], 3)
        self.assertEqual(set(rows[0]["tokens"]), {2, 3, 4})
        # Row 1: the largest logit is 5 at id 0, and seven zeros tie at the cut.
        self.assertEqual(rows[1]["support_size"], 8)
        self.assertEqual(self.run_fairdraw(*arguments).stdout, first.stdout)
        alone = self.run_fairdraw(*arguments, "--row", "1")
        self.assertEqual(json.loads(alone.stdout), rows[1:])
        greedy = self.run_fairdraw("sample", "--logits", self.logits, "--temperature", "0", "--json")
        self.assertEqual([row["tokens"] for row in json.loads(greedy.stdout)], [[3], [0]])

    def test_sample_without_a_seed_has_the_documented_default(self):
        arguments = ["sample", "--logits", self.logits, "--num-samples", "50"]
        unseeded = [self.run_fairdraw(*arguments) for _ in range(2)]
        self.assertEqual(unseeded[0].returncode, 0, unseeded[0].stderr)
        self.assertEqual(unseeded[0].stdout, unseeded[1].stdout)
        self.assertEqual(unseeded[0].stdout, self.run_fairdraw(*arguments, "--seed", "0").stdout)
        self.assertNotEqual(unseeded[0].stdout, self.run_fairdraw(*arguments, "--seed", "1").stdout)
        told = " ".join(self.run_fairdraw("sample", "--help").stdout.split())
        self.assertIn("--seed N=0 Seed of all rows. The default is a fixed number", told)

    def test_list_names_what_others_take(self):
        for what in ["cases", "samplers", "families", "operations", "profiles"]:
            result = self.run_fairdraw("list", what, "--json")
            self.assertEqual(result.returncode, 0, result.stderr)
            entries = json.loads(result.stdout)
            self.assertGreater(len(entries), 0)
            lines = self.run_fairdraw("list", what).stdout.splitlines()
            self.assertEqual(len(lines), len(entries))

    def test_json_means_the_same_for_every_verb(self):
        self.assertEqual(self.verify("base").returncode, 0)
        good = self.record("base")
        calls = {"bench": ["--vocab", "500", "--milliseconds", "1", "--operation", "greedy"],
                 "calibrate": ["--runs", "100", "--seed", "7"],
                 "compare": [good, good],
                 "identify": ["--sampler", "cpu", "--seed", "7"],
                 "list": ["families"],
                 "mutants": ["--only", "lane-of-32-lost", "--seed", "7"],
                 "sample": ["--logits", self.logits]}
        listed = self.run_fairdraw("--help").stdout.split("Subcommands:")[1]
        taken = {verb for verb in re.findall(r"^  ([a-z]+)  ", listed, re.M)
                 if "--json [FILE]" in self.run_fairdraw(verb, "--help").stdout}
        self.assertEqual(taken, set(calls))
        for verb, words in calls.items():
            with self.subTest(verb=verb):
                path = self.path(verb + ".json")
                text = self.run_fairdraw(verb, *words)
                self.assertEqual(text.returncode, 0, text.stdout + text.stderr)
                both = self.run_fairdraw(verb, *words, "--json", path)
                self.assertEqual(both.returncode, 0, both.stderr)
                first_line = text.stdout.splitlines()[0]
                # the text is printed in addition to the JSON
                self.assertEqual(both.stdout.splitlines()[0], first_line)
                with open(path, encoding="utf-8") as file:
                    kind = type(json.load(file))
                for more in (["--json"], ["--json=-"]):
                    alone = self.run_fairdraw(verb, *words, *more)
                    self.assertEqual(alone.returncode, 0, alone.stderr)
                    self.assertIs(type(json.loads(alone.stdout)), kind)  # only JSON
        self.expect_usage_error("mutants", "--list", "--json", says=["--json", "--list"])
        self.expect_usage_error("list", "--json", "cases", says=["--json", "'cases'"])
        self.expect_usage_error("compare", good, good, "--json", "--html", "-",
                                says=["--html", "standard output"])

    def test_records_that_cannot_be_read(self):
        self.assertEqual(self.verify("base").returncode, 0)
        good = self.record("base")
        newer = self.edited("newer.json", "base",
                            lambda record: record.update(schema_version="4.0"))
        with open(good, "rb") as file:
            half = file.read()
        with open(self.path("half.json"), "wb") as file:
            file.write(half[: len(half) // 2])
        with open(self.path("empty.json"), "wb"):
            pass
        for verb in (["report"], ["merge"], ["compare", good]):
            self.expect_usage_error(*verb, newer,
                                    says=["newer.json", "4.0", "written by a newer fairdraw"])
            self.expect_usage_error(*verb, self.path("half.json"),
                                    says=["half.json", "the file is truncated"])
            self.expect_usage_error(*verb, self.path("empty.json"), says=["empty.json"])
            self.expect_usage_error(*verb, self.folder.name, says=[self.folder.name])
        # A record of a later minor version, which may have further fields, is accepted.
        later = self.edited("later.json", "base",
                            lambda record: record.update(schema_version="3.99", planet="Mars"))
        self.assertEqual(self.run_fairdraw("report", later).returncode, 0)

    def test_compare_shows_what_changed_and_fails_on_a_regression(self):
        self.assertEqual(self.verify("base").returncode, 0)
        good = self.record("base")
        result = self.run_fairdraw("compare", good, good)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("No change in", result.stdout)

        def worse(record):
            record["cases"][0]["verdict"] = "failed"
            record["cases"][0]["message"] = "token 3 instead of 4"
            record["summary"]["passed"] -= 1
            record["summary"]["failed"] += 1

        bad = self.edited("bad.json", "base", worse)
        files = [self.path(name) for name in ("c.json", "c.md", "c.html")]
        result = self.run_fairdraw("compare", good, bad, "--json", files[0], "--markdown",
                                   files[1], "--html", files[2])
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("0 fixed, 1 regressed in", result.stdout)
        with open(files[0], encoding="utf-8") as file:
            self.assertEqual(json.load(file)["verdicts"][0]["head"], "failed")
        for path in files[1:]:
            with open(path, encoding="utf-8") as file:
                self.assertIn("token 3 instead of 4", file.read())
        # If each run has one sampler, the two are compared whatever their names.
        for name, samplers in (("cpu", "cpu"), ("model", "model"), ("two", "cpu,model"),
                               ("scalar", "cpu:scalar")):
            self.run_fairdraw("verify", "--suite", "smoke", "--sampler", samplers, "--seed", "11",
                              "--case", "tokens/dyadic/v31/partial_sums", "--report",
                              self.path(name))
        pair = self.run_fairdraw("compare", self.record("cpu"), self.record("model"))
        self.assertEqual(pair.returncode, 0, pair.stdout + pair.stderr)
        self.assertIn("No change in 1 compared.", pair.stdout)
        self.assertIn("model of the head is compared with cpu of the base", pair.stdout)
        # With several samplers, none of which is in both runs, nothing can be compared.
        apart = self.run_fairdraw("compare", self.record("scalar"), self.record("two"))
        self.assertEqual(apart.returncode, 1, apart.stdout + apart.stderr)
        self.assertIn("Nothing was compared: base and head have nothing in common: base judges "
                      "cpu:scalar, head judges cpu, model. 1 regression.", apart.stdout)
        # In the other direction, `compare` reports a case that was fixed.
        mended = self.run_fairdraw("compare", bad, good)
        self.assertEqual(mended.returncode, 0)
        self.assertIn("1 fixed, 0 regressed in", mended.stdout)
        self.expect_usage_error("compare", good, bad, "--html", "/no/such/place", says=["--html"])

    def test_compare_of_benchmarks(self):
        row = {"backend": "cpu", "operation": "sample/none", "batch": 1, "vocab": 1000,
               "dtype": "float32", "logits": "peaked", "microseconds": 4.0, "floor": "max",
               "floor_microseconds": 2.0, "ratio": 2.0}
        for name, ratio in (("base", 2.0), ("same", 2.1), ("slow", 2.5)):
            with open(self.path(name + ".json"), "w", encoding="utf-8") as file:
                json.dump([dict(row, ratio=ratio)], file)
        base = self.path("base.json")
        self.assertEqual(self.run_fairdraw("compare", base, self.path("same.json")).returncode, 0)
        slower = self.run_fairdraw("compare", base, self.path("slow.json"))
        self.assertEqual(slower.returncode, 1, slower.stderr)
        self.assertIn("2.5 x floor", slower.stdout)
        self.assertEqual(self.run_fairdraw("compare", base, self.path("slow.json"),
                                           "--speed-tolerance", "0.3").returncode, 0)
        self.assertEqual(self.verify("run").returncode, 0)
        self.expect_usage_error("compare", base, self.record("run"), says=["fairdraw bench"])

    def test_github_gets_annotations_and_a_summary(self):
        summary = self.path("step_summary.md")
        with open(summary, "w", encoding="utf-8") as file:
            file.write("of the step before\n")
        result = subprocess.run(
            [command_line_case.BINARY, "verify", "--suite", "smoke", "--sampler", "cpu",
             "--semantics", "rosellm", "--case", "mask/gaussian_wide/v1000/edges", "--github"],
            cwd=self.folder.name, capture_output=True, text=True, timeout=300, check=False,
            env=dict(os.environ, GITHUB_STEP_SUMMARY=summary))
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        errors = [line for line in result.stdout.splitlines() if line.startswith("::error ")]
        self.assertEqual(len(errors), 1, result.stdout)
        self.assertIn("mask/gaussian_wide/v1000/edges", errors[0])
        with open(summary, encoding="utf-8") as file:
            text = file.read()
        self.assertTrue(text.startswith("of the step before\n"))
        self.assertIn("mask/gaussian_wide/v1000/edges", text)
        # The card of the failure in the report has an observation, the smallest example, and a class of bug.
        evidence = self.report("fairdraw-report")["cases"][0]["evidence"]
        self.assertIn("in the mask", evidence["observed"])
        self.assertIn("alone in a call", evidence["smallest"])
        self.assertGreater(len(evidence["boundary"]["tokens"]), 1)
        self.assertGreater(len(evidence["suspects"]), 0)

    def test_some_mutants_of_each_class_are_the_same_in_every_run(self):
        def listed(*options):
            result = self.run_fairdraw("mutants", "--list", *options)
            self.assertEqual(result.returncode, 0, result.stderr)
            rows = [line.split() for line in result.stdout.splitlines() if line[:1].isalpha()]
            return [(row[0], row[1]) for row in rows if row[0] != "later"]

        everything = listed()
        some = listed("--per-class", "2")
        self.assertLess(set(some), set(everything))
        classes = {kind for kind, _ in everything}
        self.assertEqual({kind for kind, _ in some}, classes)
        for kind in classes:
            of_class = sum(1 for other, _ in everything if other == kind)
            self.assertEqual(sum(1 for other, _ in some if other == kind), min(2, of_class))
        for seed in ["1", "2"]:
            self.assertEqual(some, listed("--per-class", "2", "--seed", seed))
        self.expect_usage_error("mutants", "--per-class", "0", says=["--per-class", "0"])

    def test_replay_lines_repeat_their_case(self):
        self.assertEqual(self.verify("report").returncode, 0)
        for entry in self.report("report")["cases"][:4]:
            words = entry["replay"].split()
            self.assertEqual(words[0], "./fairdraw")
            result = self.run_fairdraw(*words[1:])
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            self.assertIn(entry["message"], result.stdout)

    def test_replay_lines_hold_what_the_seed_chose(self):
        for case in "chi_squared/*/v600-1400/sampled/*", "mask/*/v40-250/sampled+top_p":
            result = self.run_fairdraw("verify", "--suite", "smoke", "--sampler", "cpu", "--case",
                                       case, "--seed", "20261121", "--report", self.path("sampled"))
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            (entry,) = self.report("sampled")["cases"]
            words = entry["replay"].split()
            values = words[words.index("--sampled") + 1]
            self.assertRegex(values, r"^vocab=\d+,.*rows=[0-9a-f]{16}$")
            again = self.run_fairdraw(*words[1:])
            self.assertEqual(again.returncode, 0, again.stdout + again.stderr)
            self.assertIn(entry["message"], again.stdout)
            vocab = values.split(",")[0]
            words[words.index(values)] = values.replace(vocab, "vocab=39")
            self.expect_usage_error(*words[1:], says=["--sampled", "39"])

    def test_captured_logits_are_judged(self):
        result = self.run_fairdraw("verify", "-v", "--logits", self.logits, "--case", "*/logits/*",
                                   "--sampler", "cpu")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("mask/logits/v8/everyday", result.stdout)
        self.assertTrue(os.path.exists(self.path("fairdraw-report/report.json")))

    def test_another_profile_finds_the_difference(self):
        # Profile rosellm drops the token that crosses p, so that by this profile fairdraw's masks are judged
        # wrong.
        result = self.run_fairdraw("verify", "--suite", "smoke", "--sampler", "cpu", "--semantics",
                                   "rosellm", "--case", "mask/gaussian_wide/v1000/edges")
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertIn("replay:", result.stdout)
        self.assertIn("--semantics rosellm", result.stdout)

    # --- identify, and one sampler against another ---

    def test_identify_names_the_profile_and_its_evidence(self):
        found = self.path("found.json")
        for sampler, profile, ties in [("cpu", "fairdraw", "keep_all"),
                                       ("profile:llamacpp", "llamacpp", "any_k")]:
            with self.subTest(sampler=sampler):
                result = self.run_fairdraw("identify", "--sampler", sampler, "--seed", "7",
                                           "--json", found)
                self.assertEqual(result.returncode, 0, result.stderr)
                with open(found, encoding="utf-8") as file:
                    written = json.load(file)
                self.assertEqual(written["seed"], "7")
                self.assertEqual(written["profiles"][0]["profile"], profile)
                self.assertEqual(written["profiles"][0]["contradictions"], [])
                choices = {entry["choice"]: entry for entry in written["choices"]}
                self.assertEqual(choices["top_k_ties"]["value"], ties)
                observed = {entry["probe"]: entry for entry in written["observations"]}
                for name in choices["top_k_ties"]["probes"]:
                    self.assertGreater(observed[name]["draws"], 0)
                    self.assertGreaterEqual(len(observed[name]["tokens"]), 3)
                self.assertIn(profile, result.stdout.splitlines()[2])
        self.expect_usage_error("identify", "--sampler", "cpuu", says=["'cpuu'", "'cpu"])
        self.expect_usage_error("identify", "--sampler", "profile:llamacp", says=["'llamacpp'"])
        self.expect_usage_error("identify", "--sampler", "cpu", "--json", self.path("no/folder"),
                                says=["cannot write"])
        self.expect_usage_error("identify", says=["--sampler"])

    def test_one_sampler_against_another(self):
        compare = ("verify", "--suite", "smoke", "--sampler", "cpu", "--against")
        result = self.run_fairdraw(*compare, "model", "--case", "*/gaussian*/v1000/*")
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        entries = self.report("fairdraw-report")["cases"]
        self.assertEqual({entry["check"] for entry in entries}, {"same_law", "same_results"})
        law = next(entry for entry in entries if entry["check"] == "same_law")
        self.assertIn("--against model", law["replay"])
        again = self.run_fairdraw(*law["replay"].split()[1:])
        self.assertEqual(again.returncode, 0, again.stdout + again.stderr)
        self.assertIn(law["message"], again.stdout)
        self.expect_usage_error(*compare, "modell", says=["'modell'", "'model'"])

    def test_profiles_are_listed_with_what_sets_them_apart(self):
        listed = self.run_fairdraw("list", "profiles").stdout
        self.assertIn("temperature_place after_filters", listed)
        entries = json.loads(self.run_fairdraw("list", "profiles", "--json").stdout)
        choices = {entry["name"]: entry["choices"] for entry in entries}
        self.assertEqual(choices["fairdraw"]["top_k_ties"], "keep_all")
        self.assertEqual(choices["rosellm"]["masked_probability_floor"], "1e-9")

    # --- fuzz, and capsules ---

    def fuzz(self, *arguments):
        return self.run_fairdraw("fuzz", "--sampler", "cpu", "--cases", "200", "--seed", "7",
                                 "--corpus", self.path("capsules"), *arguments)

    def test_fuzz_is_a_function_of_its_seed(self):
        def counts(result):  # removes the measured speed before the comparison
            return result.stdout.split(" a second")[0].rsplit(",", 1)[0]
        first = self.fuzz()
        self.assertEqual(first.returncode, 0, first.stdout + first.stderr)
        self.assertIn("no failure on cpu: 200 cases", first.stdout)
        self.assertEqual(counts(self.fuzz()), counts(first))
        self.assertFalse(os.path.exists(self.path("capsules")))
        laws = self.fuzz("--statistical", "--max-vocab", "33", "--max-draws", "1024")
        self.assertEqual(laws.returncode, 0, laws.stdout + laws.stderr)
        only = self.fuzz("--property", "mask.*", "--max-vocab", "1")
        self.assertEqual(only.returncode, 0, only.stdout + only.stderr)
        self.assertIn("mask.nested", self.run_fairdraw("fuzz", "--list").stdout)

    def test_fuzz_finds_shrinks_and_saves(self):
        # The sampler is judged wrong by another profile: it keeps the token that crosses p.
        search = ("--semantics", "rosellm")
        result = self.fuzz(*search)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertIn("FAILED oracle.intervals", result.stdout)
        replay = [line for line in result.stdout.splitlines() if "replay: fairdraw " in line]
        self.assertEqual(len(replay), 1, result.stdout)
        words = replay[0].split()[2:]
        self.assertEqual(words[-2:], list(search))
        for line, code, says in [
            (words, 1, "failed: oracle.intervals on cpu"),
            (words[:-2], 2, "/semantics is rosellm, and cpu is judged by fairdraw"),
        ]:
            again = self.run_fairdraw(*line)
            self.assertEqual(again.returncode, code, again.stdout + again.stderr)
            self.assertIn(says, again.stdout + again.stderr)
        file = os.path.join(self.path("capsules"), os.listdir(self.path("capsules"))[0])
        self.assertLess(os.path.getsize(file), 1 << 16)
        with open(file, encoding="utf-8") as text:
            capsule = json.load(text)
        self.assertLessEqual(capsule["case"]["vocab"], 4)

        # The user must name the sampler; a sampler that only a file names is never loaded or run.
        self.expect_usage_error("replay", file, says=["--sampler"])
        self.expect_usage_error("replay", file, "--sampler", "cpu,model", says=["--sampler"])
        proof = self.path("proof")
        for change, says in [
            ({"plugin": self.path("evil.so")}, "/plugin is unknown"),
            ({"command": "touch " + proof}, "/command is unknown"),
            ({"schema_version": 2}, "/schema_version is 2"),
            ({"property": "$(touch " + proof + ")"}, "/property"),
        ]:
            bad = self.path("bad.json")
            with open(bad, "w", encoding="utf-8") as text:
                json.dump({**capsule, **change}, text)
            self.expect_usage_error("replay", bad, "--sampler", "cpu", says=["bad.json", says])
        renamed = self.path("renamed.json")
        with open(renamed, "w", encoding="utf-8") as text:
            json.dump({**capsule, "sampler": "; touch " + proof}, text)
        result = self.run_fairdraw("replay", renamed, "--sampler", "cpu", *search)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertFalse(os.path.exists(proof))
        with open(bad, "w", encoding="utf-8") as text:
            text.write(json.dumps(capsule)[:-20])
        self.expect_usage_error("replay", bad, "--sampler", "cpu", says=["truncated", "byte"])

    def test_fuzz_bad_usage(self):
        self.expect_usage_error("fuzz", "--property", "no.such", says=["no.such"])
        self.expect_usage_error("fuzz", "--sampler", "cpu:scalr", says=["'cpu:scalar'"])
        self.expect_usage_error("fuzz", "--semantics", "hff", says=["'hf'"])
        self.expect_usage_error("fuzz", "--seed", "x", says=["--seed"])
        self.expect_usage_error("replay", self.path("none.json"), "--sampler", "cpu",
                                says=["none.json"])
        for option, value in [("--max-vocab", "0"), ("--cases", "0"), ("--seconds", "-1"),
                              ("--max-draws", "1")]:
            self.expect_usage_error("fuzz", option, value, says=[value])
        # A run that judges nothing does not pass: every property with such a name is for draws.
        self.expect_usage_error("fuzz", "--property", "law.*", says=["law.*"])

    def test_help_and_version(self):
        for arguments in [["--help"], ["--version"], ["verify", "--help"], ["sample", "--help"]]:
            result = self.run_fairdraw(*arguments)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("airdraw" if arguments[0].startswith("--") else "--logits", result.stdout)


if __name__ == "__main__":
    command_line_case.take_binary()
    unittest.main()
