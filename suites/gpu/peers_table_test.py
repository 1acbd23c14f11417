"""Tests of peers_table.py: ratios, the order of lines, and the cells in which a peer is faster."""

import json
import unittest
from pathlib import Path

import peers_table

BASELINES = Path(__file__).parents[2] / "reports" / "baselines"


def row(backend, microseconds, kind="flat", batch=1, operation="sample/top_k_50", **more):
    return {
        "backend": backend, "operation": operation, "batch": batch, "vocab": 1000,
        "dtype": "float32", "logits": kind, "microseconds": microseconds, "floor": "read_once",
        "floor_microseconds": 4.0, "ratio": microseconds / 4, "machine": "a GPU", **more,
    }  # fmt: skip


class PeersTable(unittest.TestCase):
    def test_times_are_divided_by_those_of_the_same_cell(self):
        text = peers_table.render([
            row("peer:fast", 15.0, call="fast(logits)"),
            row("peer:fast", 40.0, kind="peaked", call="fast(logits)"),
            row("cuda", 20.0),
            row("cuda", 16.0, kind="peaked"),
            row("cuda", 300.0, batch=64),
        ])  # fmt: skip
        lines = text.splitlines()
        self.assertIn("| | call | B = 1 | B = 64 |", lines)
        self.assertIn("| reading once | | 4.0 / 4.0 | - / 4.0 |", lines)
        ours, theirs = (
            next(x for x in lines if x.startswith(f"| {n}")) for n in ("fairdraw", "fast")
        )
        self.assertLess(lines.index(ours), lines.index(theirs))
        self.assertTrue(ours.endswith("| 16.0 / 20.0 | - / 300 |"))
        # The ratios are 40 / 16 and 15 / 20; at batch 64 there is no ratio.
        self.assertEqual(theirs, "| fast | `fast(logits)` | 40.0 / 15.0 (2.50 / 0.75) | - |")
        self.assertIn("Peers are faster in 1 of 2 measurements.", lines)
        self.assertEqual(
            lines[-1],
            "- For `sample/top_k_50`, the peer fast was faster in 1 of 2 measurements, and took 0.75 "
            "to 0.75 of fairdraw's time. The smallest ratio is that of flat logits with B = 1 and V = 1000, "
            "where the peer took 15.0 µs and fairdraw 20.0 µs.",
        )

    def test_the_same_program_comes_first(self):
        text = peers_table.render([
            row("cuda", 20.0),
            row("peer:fairdraw", 10.0, call="fairdraw.sample(logits)"),
            row("peer:slow", 15.0, call="slow(logits)"),
        ])  # fmt: skip
        self.assertIn("| slow | `slow(logits)` | - / 15.0 (- / 1.50) |", text)
        self.assertIn("| fairdraw | `fairdraw.sample(logits)` | - / 10.0 |", text)
        self.assertIn("| fairdraw, by `fairdraw bench` | ", text)
        self.assertIn("Peers are faster in 0 of 1 measurements.", text)

    def test_other_operations_and_backends_are_not_compared(self):
        text = peers_table.render([
            row("cuda@scalar", 10.0),
            row("cuda", 20.0, operation="from_probs/top_k_50+top_p_0.9"),
            row("peer:fast", 5.0, call="fast(logits)"),
        ])  # fmt: skip
        self.assertIn("Peers are faster in 0 of 0 measurements.", text)
        self.assertIn("`fairdraw.top_k_top_p_sampling_from_probs(probs, k, p, seed=seeds, ", text)
        self.assertIn("| fast | `fast(logits)` | - / 5.0 |", text)

    def test_the_committed_page_is_that_of_the_committed_rows(self):
        rows = json.loads((BASELINES / "cuda_peers.json").read_text(encoding="utf-8"))
        page = (BASELINES / "cuda_peers.md").read_text(encoding="utf-8")
        self.assertEqual(page, "# Peers on a GPU\n\n" + peers_table.render(rows))


if __name__ == "__main__":
    unittest.main()
