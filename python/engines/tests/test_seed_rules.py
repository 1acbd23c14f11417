"""seeds.json must equal the gate's answers for each rule, and the rules must differ where their
sources differ."""

import json
from pathlib import Path

import numpy as np
import pytest

from fairdraw_engines import seed_rules
from fairdraw_engines.__main__ import main

RECORD = json.loads((Path(__file__).parents[1] / "seeds.json").read_text())
ROWS = {row["engine"]: row for row in RECORD["rules"]}


@pytest.mark.parametrize("rule", seed_rules.RULES, ids=lambda rule: rule.name)
def test_the_record_has_what_the_gate_says(rule):
    assert ROWS[rule.engine]["answers"] == seed_rules.answers_of(rule)
    assert ROWS[rule.engine]["rule"] == rule.text
    assert ROWS[rule.engine]["sources"] == [*rule.sources]


def test_the_record_has_what_the_gate_says_of_fairdraw():
    assert ROWS["fairdraw"]["answers"] == seed_rules.own_answers()
    assert [*ROWS] == [*(rule.engine for rule in seed_rules.RULES), "fairdraw"]


def test_a_failure_with_another_message_answers_nothing():
    question = seed_rules.QUESTIONS[0]

    class Failed:
        id, verdict, message = "streams/x", "failed", "after 8 draws tokens come twice"

    class Again(Failed):
        message = "offsets: the same seeds and offsets give other tokens again"

    assert seed_rules._answer(question, [Failed])["tokens"] == "not judged"
    assert seed_rules._answer(question, [Again])["tokens"] == "different"
    assert seed_rules._answer(question, [])["tokens"] == "not judged"


def test_hashed_tells_parts_and_their_order_apart():
    one, two = np.array([1], np.uint64), np.array([2], np.uint64)
    found = [int(seed_rules.hashed(*parts)[0]) for parts in ((one,), (one, two), (two, one))]
    assert len(set(found)) == 3


def test_the_verb_writes_the_record(tmp_path, monkeypatch):
    monkeypatch.setattr(seed_rules, "RULES", ())
    file = tmp_path / "seeds.json"
    assert main(["seeds", "--out", str(file)]) == 0
    written = json.loads(file.read_text())
    assert written["questions"] == RECORD["questions"]
    assert [row["engine"] for row in written["rules"]] == ["fairdraw"]
