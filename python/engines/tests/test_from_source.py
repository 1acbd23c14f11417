"""Tests rules written from engines' sources. Each rule must fail, its report must name the defect
first, and the corrected rule must pass."""

import functools
import json
import math
import re

import numpy as np
import pytest
from test_engines import BASELINE

from fairdraw.verification import cause_text
from fairdraw_engines import ENGINES, RunningEngine, from_source, matrix
from fairdraw_engines.standalone import rules
from fairdraw_engines.standalone import show as standalone_show

SEED = 1
#: The cases for each rule: all of suite smoke, or only those that detect such a rule and take
#: seconds.
CASES = {
    "sonicsampler": "mask/*/v1000/edges",
    "sonicsampler_top_p": "mask/*/v1000/edges",
    "sonicsampler_bfloat16": "mask/*/v1000/edges",
    "sonicsampler_pool": "mask/*/v1000/edges",
    "sonicsampler_min_p": "mask/*/v1000/edges",
    "litert_lm": "chi_squared/*/t0.7/n100000",
    "mnn": "mask/*/v1000/edges",
    "sonicsampler_chain": "*",
    "openvino_genai": "*",
    "lmdeploy": "*",
    "tgi": "*",
}
MENDED = {
    "sonicsampler": "sonicsampler_mended",
    "sonicsampler_bfloat16": "sonicsampler_mended",
    "sonicsampler_pool": "sonicsampler_mended",
    "sonicsampler_min_p": "sonicsampler_mended",
    "lmdeploy_ban": "ban",
    "tgi_penalise": "penalise",
}
#: Rules for which the report names another cause first, although the expected result identifies the
#: rule.
OTHER_CAUSE = {
    "sonicsampler": "min_p: ignored, and a bad row that changes its neighbours",
    "sonicsampler_bfloat16": "min_p: 1 % smaller, and a bad row that changes its neighbours",
    "sonicsampler_pool": "definition of top_p 1: filter, and a distribution that is too steep",
    "sonicsampler_min_p": "min_p: ignored",
    "litert_lm": "temperature: the distribution is too flat",
    "mnn": "definition of ties at the end of the nucleus: lowest_id",
}

FROM_SOURCE = [name for name, engine in ENGINES.items() if engine.source]


def judged(engine, case):
    return matrix.judge(engine, engine.semantics, "smoke", case, SEED)


def mended(engine):
    """Returns the engine with the textbook's rule, or with the rule of the engine's own
    definitions, in place of the wrong rule.
    """
    if isinstance(engine, RunningEngine):
        make = functools.partial(from_source.make_requests, from_source.Requests)
    else:
        rule = MENDED.get(engine.name, "textbook")
        make = functools.partial(engine.make.func, rule)
    return type(engine)(**{**vars(engine), "make": make})


@pytest.mark.parametrize("name", FROM_SOURCE)
def test_a_rule_is_red_and_says_why(name, request):
    engine = ENGINES[name]
    report = judged(engine, CASES[name])
    assert report.verdict == "failed", str(report)
    assert cause_text(engine.cause)[0]  # the cause exists
    if name in OTHER_CAUSE:
        request.applymarker(pytest.mark.xfail(reason=OTHER_CAUSE[name], strict=True))
    assert report.raw["causes"][0]["name"].startswith(engine.cause)


@pytest.mark.parametrize("name", FROM_SOURCE)
def test_a_rule_that_is_mended_is_green(name):
    report = judged(mended(ENGINES[name]), CASES[name])
    assert report.verdict == "passed", report.failures
    assert sum(case.verdict == "passed" for case in report.cases) >= 2


@pytest.mark.parametrize("name", FROM_SOURCE)
def test_a_rule_names_the_file_that_it_was_read_in(name):
    assert re.fullmatch(
        r"https://github\.com/[\w.-]+/[\w.-]+/blob/[0-9a-f]{40}/[\w./-]+", ENGINES[name].source
    )


def capsules_of(name):
    return sorted((BASELINE.parent / "capsules").glob(f"{name}-*/case.json"))


@pytest.mark.parametrize("name", FROM_SOURCE)
def test_a_capsule_shows_it_and_not_where_it_is_mended(name, tmp_path, capsys):
    files = capsules_of(name)
    assert files
    for file in files:
        case = json.loads(file.read_text())
        assert standalone_show.main(str(file)) == 1
        rule = case["call"]["rule"]
        case["call"]["rule"] = MENDED.get(rule, "textbook")
        right = tmp_path / "case.json"
        right.write_text(json.dumps(case))
        capsys.readouterr()
        assert standalone_show.main(str(right)) == 0, capsys.readouterr().out


def test_capsules_are_pages_with_a_source():
    for name in FROM_SOURCE:
        for file in capsules_of(name):
            assert (
                f"\n- The rule follows the source code at <{ENGINES[name].source}>.\n"
                in file.with_name("issue.md").read_text()
            )


def test_bfloat16_rounds_to_even():
    # bfloat16 has eight bits of significand: 1 + 2^-8 is between 1 and 1 + 2^-7, and 1 + 3 2^-8 is
    # between 1 + 2^-7 and 1 + 2^-6.
    halves = np.array([1 + 2.0**-8, 1 + 3 * 2.0**-8, -1 - 2.0**-8, 1 + 2.0**-8 + 2.0**-20])
    assert rules.bfloat16(halves).tolist() == [1, 1 + 2.0**-6, -1, 1 + 2.0**-7]
    ends = np.array([np.inf, -np.inf, 0, np.finfo(np.float32).max], np.float32)
    assert rules.bfloat16(ends).tolist() == [np.inf, -np.inf, 0, np.inf]
    assert np.isnan(rules.bfloat16([np.nan]))


def test_the_noise_that_made_a_draft_decides_the_correction_as_where_it_is_drawn_first():
    # In this test the same noise makes the draft and decides about it. The rule draws the noise for
    # a given draft.
    target, draft = np.array([0.2, 0.4, 0.4]), np.array([0.7, 0.299, 0.001])
    requests = 200000
    random = np.random.default_rng(3)
    noise = random.gumbel(size=(requests, 3))
    drafted = (np.log(draft) + noise).argmax(axis=1)
    accepted = random.random(requests) * draft[drafted] < target[drafted]
    with np.errstate(divide="ignore"):
        residual = np.log(np.maximum(target - draft, 0))
    first = np.where(accepted, drafted, (residual + noise).argmax(axis=1))
    laws = (np.broadcast_to(law, (requests, 1, 3)) for law in (target, draft))
    p, q = (np.concatenate([law, law], axis=1) for law in laws)
    ones = np.ones(requests, np.int64)
    emitted = rules.SonicCorrection(1).verify(p, q[:, :1], drafted[:, None], ones)[:, 0]
    direct, ruled = (np.bincount(tokens) / requests for tokens in (first, emitted))
    # By Hoeffding's inequality two means of n draws differ by e with a probability of at most 2
    # exp(-n e^2), which is 1e-12 for three tokens.
    most = math.sqrt(math.log(6 / 1e-12) / requests)
    assert np.abs(direct - ruled).max() < most
    assert np.abs(ruled - target).max() > 2 * most


def test_a_coin_of_101_sides_accepts_what_the_target_excludes():
    # The coin is 0 once in 101 draws, and then 0 q <= p holds for any p. Hoeffding for 1e-12.
    draws = 100000
    coin = rules.OpenVinoCoin(1).accepts(np.zeros(draws), np.ones(draws)).mean()
    assert abs(coin - 1 / 101) < math.sqrt(math.log(2 / 1e-12) / (2 * draws)) < coin * 2


def test_a_ban_of_id_0_is_lost_beside_a_longer_list():
    logits = np.array([[5, 1, 2, 0], [1, 2, 3, 4]], np.float32)
    for banned, lost in (([[0], [2, 3]], True), ([[0, 1], [2, 3]], False), ([[], []], False)):
        right, theirs = logits.copy(), logits.copy()
        rules.ban(right, banned)
        rules.lmdeploy_ban(theirs, banned)
        assert np.array_equal(right, theirs) != lost
        assert (theirs[0, 0] == 5) == (lost or not banned[0])


def test_a_penalty_of_one_half_takes_twice_the_logit_off():
    scores = np.array([4, 4, -4, 3], np.float32)
    rules.tgi_penalise(scores, 0.5, np.array([0, 2]), np.array([1, 1]))
    # The penalty is applied once per position: 4 - 2 (4 / 0.5), -4 + 4 0.5. Id 0 is padding.
    assert scores.tolist() == [4, -12, -2, 3]
    scores = np.array([4, 4, -4, 3], np.float32)
    rules.penalise(scores, 0.5, np.array([0, 2]), np.array([1, 1]))
    assert scores.tolist() == [4, 3, -4, 3]
