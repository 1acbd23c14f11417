"""Right samplers that draw in unusual ways are green: by a part of suite smoke, and in the night by all of
the suite that FAIRDRAW_RIGHT_SUITE names."""

import os
from functools import partial

import pytest

import fairdraw
from right_samplers import RIGHT, RIGHT_VERIFIERS

SUITE = os.environ.get("FAIRDRAW_RIGHT_SUITE")
CASES = ("chi_squared/gaussian/v1000/*", "replay/*/v31/*", "status/*/v31/*", "support/*/v1000/e*")


def judge(verify, right, cases):
    """How many cases passed, of all or of some. None is red; what it does not declare is skipped."""
    passed = 0
    for case in [None] if SUITE else cases:
        report = verify(right.make(), suite=SUITE or "smoke", case=case, seed=1, **right.claims)
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
