"""The tests require that the coverage that a call requires is part of the verdict: on the terminal, in the
report, and in the exit code.
"""

import json
import os
import unittest

import command_line_case
from command_line_case import CommandLineCase

# A sampler without log-probabilities, logits processing, drafts and operations on rows.
SAMPLER = "profile:hf"


class Coverage(CommandLineCase):
    OPERATIONS = ("softmax", "log_softmax", "top_k_mask_logits", "min_p_mask_logits",
                  "top_k_renorm_probs", "top_p_renorm_probs")

    def verify_some(self, *more, folder="run"):
        return self.verify(folder, "--sampler", SAMPLER, *more)

    def coverage(self, folder="run"):
        (found,) = self.report(folder)["coverage"]
        return found

    def features(self, folder="run"):
        return {one["name"]: one for one in self.coverage(folder)["features"]}

    def test_it_is_said_and_follows_from_the_cases(self):
        result = self.verify_some()
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        report, coverage = self.report("run"), self.coverage()
        cases = [case for case in report["cases"] if case["check"] != "global"]
        self.assertEqual(coverage["cases"], len(cases))
        self.assertEqual(coverage["ran"], sum(one["verdict"] == "passed" for one in cases))
        self.assertEqual(coverage["skipped"], sum(one["verdict"] == "skipped" for one in cases))
        gaps = [name for name, one in self.features().items()
                if not one["judged"] and not one["claim"]]
        self.assertIn("coverage      %s  " % SAMPLER, result.stdout)
        operations = [name for name in gaps if name in self.OPERATIONS]
        # a sentence of the report names the six operations as one feature
        self.assertEqual(len(operations), 6)
        named = [name for name in gaps if name not in operations] + ["operations on rows"]
        self.assertIn("not judged: %s\n" % ", ".join(named), result.stdout)
        self.assertIn("declare next  %s  " % SAMPLER, result.stdout)
        # A case that was skipped for a missing ability names the ability.
        for case in cases:
            if "masks" in case["features"] and case["verdict"] == "skipped":
                self.assertTrue(case.get("lacks") or "semantics" in case["message"], case)
        for name in ("index.html", "summary.md", "junit.xml"):
            with open(os.path.join(self.path("run"), name), encoding="utf-8") as file:
                self.assertIn("of the chosen cases apply", file.read(), name)

    def test_a_feature_that_is_required_and_was_not_judged_ends_with_3(self):
        self.assertEqual(self.verify_some().returncode, 0)
        judged = [name for name, one in self.features().items() if one["judged"]]
        gap = next(name for name, one in self.features().items()
                   if not one["judged"] and not one["claim"])
        result = self.verify_some("--require", ",".join(judged))
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertEqual(self.report("run")["required"], judged)
        result = self.verify_some("--require", "%s,%s" % (judged[0], gap), "--quiet")
        self.assertEqual(result.returncode, 3, result.stdout)
        self.assertIn("; NOT JUDGED: %s: %s was not judged: of its " % (SAMPLER, gap),
                      result.stdout)
        # The record has the requirements of coverage, so that `report` applies them again.
        again = self.run_fairdraw("report", self.record("run"), self.path("again"))
        self.assertEqual(again.returncode, 3, again.stdout + again.stderr)

    def test_too_many_skipped_cases_end_with_3(self):
        self.assertEqual(self.verify_some().returncode, 0)
        coverage = self.coverage()
        percent = 100 * coverage["skipped"] / coverage["cases"]
        for limit, code in ((percent + 0.01, 0), (percent - 0.01, 3), (0, 3), (100, 0)):
            result = self.verify_some("--max-skipped", "%.4f" % limit)
            self.assertEqual(result.returncode, code, result.stdout)

    def test_shards_are_asked_when_they_are_merged(self):
        self.assertEqual(self.verify_some().returncode, 0)
        files = []
        for shard in (1, 2):
            part = self.verify_some("--shard", "%d/2" % shard, folder="part-%d" % shard)
            self.assertEqual(part.returncode, 0, part.stdout)
            files.append(self.record("part-%d" % shard))
        merged = self.run_fairdraw("merge", *files, "--report", self.path("merged"))
        self.assertEqual(merged.returncode, 0, merged.stderr)
        self.assertEqual(self.report("merged"), self.report("run"))
        for words, code in ((["--require", "top_p"], 0), (["--require", "logprobs"], 3),
                            (["--max-skipped", "1"], 3)):
            merged = self.run_fairdraw("merge", *files, "--report", self.path("merged"), *words)
            self.assertEqual(merged.returncode, code, merged.stdout + merged.stderr)

    def test_what_cannot_be_asked_is_refused(self):
        call = ("verify", "--suite", "smoke", "--sampler", "cpu", "--seed", "1")
        refuse = self.expect_usage_error
        refuse(*call, "--require", "top_pp",
               says=["--require: unknown feature 'top_pp'; did you mean 'top_p'"])
        refuse(*call, "--require", "seeds,seeds", says=["--require: 'seeds' is given twice"])
        refuse(*call, "--require", "", says=["--require", "is empty"])
        for value in ("101", "-1", "half", "nan"):
            refuse(*call, "--max-skipped", value, says=["--max-skipped: '%s'" % value, "0 to 100"])
        refuse(*call, "--shard", "1/2", "--require", "seeds",
               says=["--require: --shard is given too", "give this option to merge"])
        refuse(*call, "--case-part", "1/2", "--max-skipped", "10",
               says=["--max-skipped: --case-part is given too", "give this option to merge"])
        refuse("merge", self.logits, "--require", "seedz", says=["did you mean 'seeds'"])

    def test_features_are_listed(self):
        result = self.run_fairdraw("list", "features", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        features = {one["name"]: one for one in json.loads(result.stdout)}
        self.assertEqual(features["masks"]["abilities"], ["reports_mask", "reports_support"])
        self.assertIn("seeds", features)
        self.assertTrue(all(one["what"] for one in features.values()))
        text = self.run_fairdraw("list", "features").stdout
        self.assertRegex(text, r"(?m)^top_p +the nucleus")


if __name__ == "__main__":
    command_line_case.take_binary()
    unittest.main()
