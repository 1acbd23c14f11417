"""Tests which p-values of other engines' detectors are right, by fairdraw.verify_detector."""

import math

import pytest

import fairdraw
from fairdraw_engines import Unavailable
from fairdraw_engines.detectors import DETECTORS

VOCAB = 200
#: Kinds of text for which a detector's p-values are too small, as 100 texts show. transformers
#: counts a repeated pair as often as it stands in the text.
TOO_SMALL = {"hf_green_list": {"repeated phrases"}}


def detector_or_skip(name):
    try:
        DETECTORS[name].version()
        return DETECTORS[name].make(VOCAB)
    except Unavailable as reason:
        pytest.skip(f"{name}: {reason}")


@pytest.mark.parametrize("name", DETECTORS)
def test_p_values_of_engines(name):
    detector = detector_or_skip(name)
    report = fairdraw.verify_detector(detector, vocab=VOCAB, length=40, texts=100, name=name)
    assert {case.name for case in report.failures} == TOO_SMALL.get(name, set()), str(report)


def test_one_green_token_is_no_rare_event():
    detector = detector_or_skip("hf_green_list")
    p_values = [detector([5, 9], key) for key in range(1, 201)]
    green = [p for p in p_values if p < 0.5]
    # One token is green with a probability of 1 in 4, and then has z = 0.75 / sqrt(3 / 16).
    assert 20 < len(green) < 90
    assert max(green) == pytest.approx(math.erfc(math.sqrt(1.5)) / 2)
