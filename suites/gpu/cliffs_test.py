"""Tests of cliffs.py: which cells count as larger, which cells are compared, and how baselines are read.
"""

import json
import unittest
from pathlib import Path

import cliffs

BASELINES = Path(__file__).parents[2] / "reports" / "baselines"


def row(batch, vocab, microseconds, operation="sample/none", dtype="float32", logits="flat"):
    return {
        "operation": operation, "dtype": dtype, "logits": logits, "batch": batch, "vocab": vocab,
        "microseconds": microseconds,
    }  # fmt: skip


class Cliffs(unittest.TestCase):
    def test_a_smaller_shape_that_takes_longer_is_found(self):
        slow, quick = row(8, 1000, 50.0), row(8, 2000, 20.0)
        self.assertEqual(cliffs.cliffs([slow, quick], 1.25), [(2.5, slow, quick)])
        fewer = row(4, 2000, 60.0)
        self.assertEqual(
            cliffs.cliffs([slow, quick, fewer], 1.25), [(3.0, fewer, quick), (2.5, slow, quick)]
        )

    def test_a_shape_that_is_larger_in_one_way_alone_is_not_compared(self):
        self.assertEqual(cliffs.cliffs([row(8, 1000, 50.0), row(4, 2000, 20.0)], 1.25), [])

    def test_up_to_the_limit_is_none(self):
        self.assertEqual(cliffs.cliffs([row(1, 1000, 25.0), row(2, 1000, 20.0)], 1.25), [])

    def test_other_operations_dtypes_and_logits_are_apart(self):
        others = [
            row(8, 2000, 20.0, operation="sample/greedy"),
            row(8, 2000, 20.0, dtype="bfloat16"),
            row(8, 2000, 20.0, logits="peaked"),
        ]
        self.assertEqual(cliffs.cliffs([row(8, 1000, 50.0), *others], 1.25), [])

    def test_the_baseline_can_be_read(self):
        rows = json.loads((BASELINES / "cuda_shapes.json").read_text())
        text = cliffs.render(rows, 1.25)
        self.assertIn(f"of {len(rows)} cells", text.splitlines()[0])
        # The table has the shapes in which the first slow cells were found: few to many rows, odd and large
        # vocabularies.
        self.assertLessEqual({1, 8, 96, 512}, {row["batch"] for row in rows})
        self.assertLessEqual({50257, 151936, 262144}, {row["vocab"] for row in rows})


if __name__ == "__main__":
    unittest.main()
