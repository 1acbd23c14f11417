"""Tests that the gate passes correct samplers that draw in unusual ways. The cases are a part of
suite smoke, and in nightly runs the whole suite named by FAIRDRAW_RIGHT_SUITE."""

import os
from functools import partial

import pytest
from right_samplers import RIGHT, RIGHT_VERIFIERS

import fairdraw
from samplers import EXACT, Textbook, exact

SUITE = os.environ.get("FAIRDRAW_RIGHT_SUITE")
SEED = 1
CASES = ("chi_squared/gaussian/v1000/*", "replay/*/v31/*", "status/*/v31/*", "support/*/v1000/e*")


def judge(verify, right, cases):
    """Returns the number of cases that passed. With SUITE set, all cases of that suite run. No
    judged case may fail; cases that cannot be judged are skipped."""
    passed = 0
    for case in [None] if SUITE else cases:
        how = {"suite": SUITE or "smoke", "case": case, "seed": SEED, **right.claims}
        report = verify(right.make(), **how)
        assert not report.failures, report.failures
        passed += sum(one.verdict == "passed" for one in report.cases)
    return passed


@pytest.mark.parametrize("name", RIGHT)
def test_right_samplers_are_green(name):
    assert judge(fairdraw.verify, RIGHT[name], CASES) >= 2, RIGHT[name].why


@pytest.mark.parametrize("name", RIGHT_VERIFIERS)
def test_right_verifiers_are_green(name):
    right = RIGHT_VERIFIERS[name]
    cases = {"logits": ["verify_law/gaussian/v5/none/*"], "probs": ["chain_law/gaussian/v5/*"]}
    for target, some in cases.items():
        if target == "logits" or "drafts" in right.claims:
            verify = partial(fairdraw.verify_speculation, target=target)
            assert judge(verify, right, some) >= 1, right.why


def test_bad_rows_may_be_declined_and_the_report_says_so():
    case = "status/gaussian/v31/everyday"

    def judged(**how):
        return fairdraw.verify(Textbook(), suite="smoke", case=case, seed=SEED, **how)

    assert judged().verdict == "failed"  # the sampler does not handle bad rows
    report = judged(lacks=["bad_rows"])
    assert report.verdict == "passed", report.failures
    assert "bad_rows" in report.not_judged
    assert "bad_rows" in {one["ability"] for one in report.coverage["undeclared"]}
    with pytest.raises(ValueError, match=r"lacks\[0\] is 'bad_row'; did you mean 'bad_rows'"):
        judged(lacks=["bad_row"])
    with pytest.raises(ValueError, match="'bad_rows' is among them; allowed with the ability"):
        fairdraw.verify(exact, suite="smoke", case=case, lacks=["bad_rows"], **EXACT)


def test_semantics_may_differ_from_a_profile_as_a_plugins_do():
    def lowest(batch):
        batch_rule = {"tie_rule": "lowest_id"}
        return fairdraw.sample(
            batch.logits, batch.temperature, batch.top_k, batch.top_p, batch.min_p, **batch_rule
        )

    how = {"suite": "smoke", "case": "support/ties_at_k/v1000/e*", "lacks": ["bad_rows"]}
    assert fairdraw.verify(lowest, "fairdraw,top_k_ties=lowest_id", seed=SEED, **how).verdict == (
        "passed"
    )
    report = fairdraw.verify(lowest, "fairdraw,top_k_ties=any_k", seed=SEED, **how)
    assert report.verdict == "passed", report.failures
    assert 'semantics="fairdraw,top_k_ties=any_k"' in report.cases[0].replay
    for text, message in (
        ("fairdrow,top_k_ties=any_k", "semantics is 'fairdrow'"),
        ("fairdraw,top_k_tie=any_k", "top_k_tie"),
        ("fairdraw,top_k_ties=some", "some"),
    ):
        with pytest.raises(ValueError, match=message):
            fairdraw.verify(lowest, text, **how)
