"""Tests the judge of detectors of watermarks."""

import detectors
import numpy as np
import pytest
from detectors import GreenDetector, RaceDetector

import fairdraw

HOW = {"vocab": 300, "length": 60, "texts": 400}
GENERATE = RaceDetector().generate


def judged(detector, **more):
    return fairdraw.verify_detector(detector, **{**HOW, **more})


def failed(report):
    return [case.name for case in report.failures]


@pytest.mark.parametrize("detector", [RaceDetector(), GreenDetector()])
@pytest.mark.parametrize("keys", [1, 4])
def test_right_detectors_pass(detector, keys):
    report = judged(detector, keys=keys, generate=GENERATE, length=40)
    report.raise_for_failures()
    assert report.verdict == "passed" and len(report.cases) == 6
    # The race is not that of green lists, whose detector finds no marks.
    assert report.power < 0.01 if isinstance(detector, GreenDetector) else report.power > 0.99


def mark_of(scheme):
    """Returns a function that makes texts of one of fairdraw's schemes."""

    def generate(keys, length, seed):
        random = np.random.default_rng(seed)
        texts = [[] for _ in keys]
        for step in range(length):
            logits = random.normal(0, 2, (len(keys), 64)).astype(np.float32)
            drawn = fairdraw.sample_marked(
                logits, key=keys, outputs=texts, window=2, scheme=scheme, seed=seed, offset=step
            )
            for text, id in zip(texts, drawn.tokens.tolist(), strict=True):
                text.append(id)
        return texts

    return generate


@pytest.mark.parametrize("scheme", ["race", "tournament", "green_list"])
@pytest.mark.parametrize("keys", [1, 3])
def test_own_detectors_pass(scheme, keys):
    def detect(ids, key):
        return fairdraw.detect_watermark(ids, key, 2, scheme=scheme).p_value

    report = judged(detect, keys=keys, generate=mark_of(scheme), least_power=0.25)
    report.raise_for_failures()
    assert report.power > 0.25


@pytest.mark.parametrize(
    ("wrong", "more", "cases"),
    [
        ("RepeatedPairs", {}, {"repeated phrases", "two ids"}),
        ("RepeatedGreenPairs", {}, {"repeated phrases", "two ids"}),
        ("BestOfSeveralKeys", {"keys": 4}, {"drawn ids", "two ids", "fixed texts"}),
        ("KeyIgnored", {}, {"fixed texts"}),
        ("NormalTail", {"texts": 8000, "length": 4}, {"short texts"}),
        ("OneGreenTooMany", {}, {"repeated phrases", "two ids"}),
        ("OneGreenTooManyAtEveryLength", {}, {"short texts"}),
        ("NothingForNoIds", {}, {"short texts"}),
        ("ScoresOfTheWrongSide", {"generate": GENERATE}, {"texts of its own key"}),
        ("ContextOffByOne", {"generate": GENERATE}, {"texts of its own key"}),
        ("ContextWithTheTokenItself", {"generate": GENERATE}, {"texts of its own key"}),
    ],
)
def test_wrong_detectors_fail(wrong, more, cases):
    least = {"least_power": 0.5} if "generate" in more else {}
    report = judged(getattr(detectors, wrong)(), **more, **least)
    assert report.verdict == "failed"
    assert cases <= set(failed(report)), str(report)
    if least:  # such a detector is wrong only for marked texts
        assert cases == set(failed(report)), str(report)


def test_power_is_reported_and_judged_only_if_required():
    blind = detectors.ContextOffByOne()
    report = judged(blind, generate=GENERATE)
    assert report.verdict == "passed" and report.power < 0.01
    assert "power   0.0% of marked texts have p <= 1e-06" in str(report)
    with pytest.raises(fairdraw.VerificationFailed, match=r"0 of 400 texts; required: 90%"):
        judged(blind, generate=GENERATE, least_power=0.9).raise_for_failures()
    assert judged(RaceDetector()).power is None


def test_same_seed_same_report():
    assert judged(RaceDetector(), seed=5) == judged(RaceDetector(), seed=5)
    assert judged(RaceDetector(), seed=5) != judged(RaceDetector(), seed=6)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (float("nan"), "returns a p-value of nan for 60 ids"),
        (1.5, "returns a p-value of 1.5"),
        (-0.1, "returns a p-value of -0.1"),
        ("0.5", "returns '0.5'; allowed: a p-value, or None"),
        (np.zeros(2), "returns array"),
    ],
)
def test_bad_results_fail_each_case(result, message):
    report = judged(lambda ids, key: result)
    assert len(report.failures) == len(report.cases) == 5
    assert report.cases[0].message.startswith(message)


def test_exceptions_fail_and_short_texts_may_be_refused():
    def raises(ids, key):
        if len(ids) < 3:
            raise IndexError("no context")
        return 1.0

    report = judged(raises)
    assert failed(report) == ["short texts"]
    assert report.failures[0].message == "raises IndexError: no context"
    refuses = judged(lambda ids, key: None if len(ids) < 3 else np.float32(1))
    assert refuses.verdict == "passed"


def test_a_detector_gets_ids_and_keys():
    seen = []

    def detect(ids, keys):
        seen.append((ids, keys))
        return 1

    judged(detect, keys=2)
    assert all(ids.dtype == np.int32 and ids.ndim == 1 for ids, _ in seen)
    assert all(keys.dtype == np.uint64 and keys.shape == (2,) for _, keys in seen)
    assert min(keys.min() for _, keys in seen) > 0
    lengths = {len(ids) for ids, _ in seen}
    assert lengths == {*range(13), 60}
    assert max(ids.max() for ids, _ in seen if len(ids)) < 300
    assert min(ids.min() for ids, _ in seen if len(ids)) == 0


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"detector": 3}, TypeError, "detector is 3; allowed: a callable"),
        ({"vocab": 1}, ValueError, "vocab is 1; allowed: 2 to 2\\^20"),
        ({"length": 0}, ValueError, "length is 0"),
        ({"texts": 99}, ValueError, "texts is 99; allowed: 100 to 2\\^20"),
        ({"keys": 0}, ValueError, "keys is 0"),
        ({"generate": 3}, TypeError, "generate is 3; allowed: a callable, or None"),
        ({"least_power": 2}, ValueError, "least_power is 2; allowed: 0 to 1"),
        ({"least_power": 0.5}, ValueError, "least_power: needs texts that are marked"),
        ({"false_fail_rate": 0}, ValueError, "false_fail_rate is 0; allowed"),
        ({"name": 5}, TypeError, "name is 5"),
    ],
)
def test_bad_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        judged(**{"detector": RaceDetector(), **arguments})
