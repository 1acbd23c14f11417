"""Tests that the tables of docs/seeds.md equal the records of the gate's runs.

Usage: seed_tables_test.py REPOSITORY
"""

import copy
import pathlib
import sys
import unittest

import seed_tables

ROOT = None


class Tables(unittest.TestCase):
    def setUp(self):
        self.page = (ROOT / seed_tables.PAGE).read_text(encoding="utf-8")
        self.seeds, self.conformance = seed_tables.records(ROOT)

    def filled(self):
        return seed_tables.filled(self.page, self.seeds, self.conformance)

    def test_the_page_is_that_of_the_records(self):
        self.assertEqual(self.filled(), self.page, "run docs/site/seed_tables.py .")

    def test_the_page_has_every_table_once(self):
        self.assertEqual(sorted(match[2] for match in seed_tables.TABLE.finditer(self.page)),
                         sorted(seed_tables.MAKERS))

    def test_another_answer_is_another_page(self):
        for rule in range(len(self.seeds["rules"])):
            for question in self.seeds["questions"]:
                seeds = copy.deepcopy(self.seeds)
                seeds["rules"][rule]["answers"][question]["tokens"] = "another answer"
                self.assertIn("another answer", seed_tables.filled(self.page, seeds, self.conformance))

    def test_another_count_is_another_page(self):
        record = next(each for each in self.conformance["engines"] if each["engine"] == "vllm_v2")
        record["checks"]["replay"]["passed"] += 1
        self.assertNotEqual(self.filled(), self.page)

    def test_an_answer_has_a_case_of_the_gate(self):
        for rule in self.seeds["rules"]:
            for name, answer in rule["answers"].items():
                verdicts = {case["verdict"] for case in answer["cases"]}
                with self.subTest(engine=rule["engine"], question=name):
                    self.assertIn(answer["tokens"], ("same", "different", "not judged"))
                    if answer["tokens"] != "not judged":
                        self.assertTrue(verdicts & {"passed", "failed"})

    def test_a_check_that_no_run_has_is_not_judged(self):
        self.assertEqual(seed_tables.counts({}), "not judged")
        self.assertEqual(seed_tables.counts({"skipped": 7}), "not judged")
        self.assertEqual(seed_tables.counts({"failed": 4, "passed": 13, "skipped": 4}),
                         "13 passed, 4 failed")


if __name__ == "__main__":
    ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
