"""Tests the audit: a correct server must raise no alarm, and every planted fault must get its right
name."""

import dataclasses
import os

import numpy as np
import pytest
from faulty_server import FAULTS, FAULTS_OF_TEXTS, ROWS, VOCAB, Server, log_softmax

import fairdraw
from fairdraw_audit.causes import CAUSES as NAMES
from fairdraw_audit.distribution import Claim, Positions, nominal, upper_bounds
from fairdraw_audit.evidence import (
    alternatives,
    different_tokens,
    judge_stream,
    same_tokens,
    some_differ,
)
from fairdraw_audit.judge import judge
from fairdraw_audit.plan import Settings, first_stages, last_stage
from fairdraw_audit.records import (
    choices_of,
)

NOISE = 2e-3
CLAIM = {"temperature": 0.7, "top_k": 8, "top_p": 0.9, "min_p": 0.05}
SETTINGS = Settings("tiny", **CLAIM, noise=NOISE)
NULL_CLAIMS = [
    CLAIM,
    {"temperature": 1.3, "top_p": 0.95},
    {"top_k": 5},
    {"temperature": 0.5, "min_p": 0.1},
    {"temperature": 0.0},
    {},
    {"temperature": 1.7, "top_k": 12, "top_p": 0.5},
]
#: One audit of a correct server takes about 0.4 s on one core, so that the default number of 40
#: audits takes 16 s. FAIRDRAW_NULL_AUDITS sets the number of audits; the full test has 1000.
NULL_AUDITS = int(os.environ.get("FAIRDRAW_NULL_AUDITS", "40"))


def gathered(settings, server):
    """Returns the records of an audit that calls the server directly, with the neighbours that the
    plan gives each request."""
    records = []

    def send(stage):
        server.flying = 1 if stage.at_once == 1 else 4
        for item in stage.items:
            records.append(dataclasses.replace(item, response=server.respond(item.body)))

    for stage in first_stages(settings):
        send(stage)
    greedy = [
        choices_of(record, settings.top_logprobs)[0]
        for record in records
        if record.phase == "greedy"
    ]
    send(last_stage(settings, greedy, len(records)))
    return records


# --- What a claim allows ---------------------------------------------------------------------------


def positions_from(rows, reported=20, noise=0.0, seed=0):
    """Returns the ids and the largest log-probabilities of each row. The log-probabilities are
    wrong by up to `noise`."""
    random = np.random.default_rng(seed)
    logprobs = np.array([log_softmax(row) for row in rows])
    logprobs += noise * random.uniform(-1, 1, logprobs.shape)
    ids = np.argsort(-logprobs, axis=1, kind="stable")[:, :reported]
    values = np.take_along_axis(logprobs, ids, axis=1)
    empty = np.zeros_like(ids)
    return Positions(values, empty, np.zeros(len(rows), int)), ids


CLAIMS = [
    Claim(),
    Claim(temperature=0.7),
    Claim(temperature=1.5),
    Claim(top_k=5),
    Claim(temperature=0.7, top_p=0.9),
    Claim(temperature=1.5, top_p=0.6),
    Claim(min_p=0.1),
    Claim(**CLAIM),
]


@pytest.mark.parametrize("claim", CLAIMS, ids=str)
@pytest.mark.parametrize("noise_seed", range(3))
def test_bounds_hold_for_what_the_kernels_draw(claim, noise_seed):
    # The test compares the kernels' own probabilities of the exact rows with the bounds computed
    # from noisy log-probabilities.
    details = fairdraw.sample(
        ROWS, claim.temperature, claim.top_k, claim.top_p, claim.min_p, seed=1, return_details=True
    )
    positions, ids = positions_from(ROWS, noise=NOISE, seed=noise_seed)
    bounds = upper_bounds(positions, claim, NOISE, VOCAB)
    reported = np.take_along_axis(details.probs, ids, axis=1).astype(float)
    inside = reported.sum(axis=1, keepdims=True)
    rounding = 1e-6  # the bound for the rounding of probabilities in float32
    assert (reported <= bounds.outcomes[:, :-1] * (1 + rounding) + 1e-12).all()
    assert (reported / inside <= bounds.among_reported * (1 + rounding) + 1e-12).all()
    assert (1 - inside[:, 0] <= bounds.outcomes[:, -1] + rounding).all()


@pytest.mark.parametrize("claim", CLAIMS, ids=str)
def test_nominal_is_what_the_kernels_draw(claim):
    # All tokens are reported with exact numbers, so that the tail is empty.
    details = fairdraw.sample(
        ROWS, claim.temperature, claim.top_k, claim.top_p, claim.min_p, seed=1, return_details=True
    )
    positions, ids = positions_from(ROWS, reported=VOCAB)
    want = np.take_along_axis(details.probs, ids, axis=1)
    got = nominal(positions, claim, VOCAB)
    # float32 probabilities have 24 bits, and the sum over 300 tokens is normalised.
    assert np.abs(got[:, :-1] - want).max() <= 300 * 2.0**-24
    assert ((got[:, :-1] > 0) == (want > 0)).all()


@pytest.mark.parametrize("claim", CLAIMS, ids=str)
def test_no_bet_gains_in_expectation_under_the_claim(claim):
    # The test computes the expected payoff of each alternative's bet under the true probabilities.
    from fairdraw_audit.evidence import _bet, _log_payoffs

    details = fairdraw.sample(
        ROWS, claim.temperature, claim.top_k, claim.top_p, claim.min_p, seed=1, return_details=True
    )
    positions, ids = positions_from(ROWS, noise=NOISE)
    reported = np.take_along_axis(details.probs, ids, axis=1).astype(float)
    truth = np.concatenate([reported, 1 - reported.sum(axis=1, keepdims=True)], axis=1)
    truth = np.maximum(truth, 0)
    bounds = upper_bounds(positions, claim, NOISE, VOCAB)
    plain = nominal(positions, Claim(temperature=claim.temperature), VOCAB)
    bets = 0
    for alternative in alternatives(claim):
        payoffs, mean, _ = _log_payoffs(*_bet(positions, alternative, plain, VOCAB), bounds)
        expected = np.where(truth > 1e-6, truth * np.exp(payoffs), 0).sum(axis=1)
        assert (expected <= 1 + 1e-5).all(), alternative.text
        bets += int((mean > 0).sum())
    assert bets > 0


def test_tokens_at_the_boundary_are_ambiguous_within_the_noise_alone():
    def of(values, noise):
        logprobs = np.array([np.log(v) if v > 0 else -np.inf for v in values])[None]
        positions = Positions(logprobs, np.zeros((1, 4), int), np.zeros(1, int))
        return upper_bounds(positions, Claim(top_k=2), noise, 4).outcomes[0] > 0

    assert of([0.4, 0.3, 0.2, 0.1], 0.01).tolist() == [True, True, False, False, False]
    # exp(-2 * 0.01) = 0.980: with this noise 0.297 may be above 0.3, but 0.29 may not
    assert of([0.4, 0.3, 0.297, 0.003], 0.01).tolist() == [True, True, True, False, False]
    assert of([0.41, 0.3, 0.29, 0.0], 0.01).tolist() == [True, True, False, False, False]


# --- Evidence --------------------------------------------------------------------------------------


def test_an_excluded_token_is_an_alarm_at_once():
    logprobs = np.log(np.array([[0.4, 0.3, 0.2, 0.1]]))
    claim = Claim(top_k=2)
    for drawn, alarm in ((0, False), (1, False), (3, True)):
        positions = Positions(logprobs, np.zeros((1, 4), int), np.array([drawn]))
        found = judge_stream(positions, claim, NOISE, 4, alternatives(claim))
        assert (found.log_e > np.log(1e6)) == alarm == (found.excluded == 1)


def test_equal_sequences_are_evidence_by_their_probability():
    # Half of the bet is on equality, so that each token pays 0.5 + 0.5 / 0.1 = 5.5.
    assert same_tokens([1, 2], [1, 2], [0.1, 0.1]) == pytest.approx(2 * np.log(5.5))
    assert same_tokens([1, 2], [3, 2], [0.1, 0.1]) == pytest.approx(np.log(0.5))


def test_different_sequences_are_evidence_by_how_rarely_they_may_part():
    # The sequences differ at once, which has probability 0.8 for independent tokens and 0.01 for
    # noise.
    assert different_tokens([1], [2], [0.2], 0.01) == pytest.approx(np.log(80))
    assert different_tokens([1], [1], [0.2], 0.01) == pytest.approx(np.log(0.2 / 0.99))


def test_pairs_that_differ_now_and_then_add_up():
    # The payoffs are 80 and 0.1. The payoffs are multiplied over pairs, for bets that all, half or
    # a fifth of the pairs differ.
    products = [8.0, (0.5 + 40) * (0.5 + 0.05), (0.8 + 16) * (0.8 + 0.02)]
    assert some_differ(np.log([80, 0.1])) == pytest.approx(np.log(sum(products) / 3))


# --- Whole audits ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["raw", "processed"])
def test_a_right_server_is_not_accused(kind):
    # In 1000 audits with a false alarm rate of 1e-6 each, any alarm has probability 1e-3.
    for audit in range(max(NULL_AUDITS // 2, 1)):
        settings = Settings(
            "tiny",
            **NULL_CLAIMS[audit % len(NULL_CLAIMS)],
            noise=NOISE,
            seed=10_000 * audit,
            budget_tokens=2000,
            max_tokens=8,
        )
        server = Server(noise=0.95 * NOISE, kind=kind, noise_seed=audit)
        found = judge(settings, gathered(settings, server))
        assert not found.failed, (audit, found.failed)
        # At temperature 1 without filters, and at temperature 0, raw and processed
        # log-probabilities are the same.
        filtered = settings.claim not in (Claim(), Claim(temperature=0))
        assert found.kind == (kind if filtered else "raw")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named(fault):
    found = judge(SETTINGS, gathered(SETTINGS, Server(fault, noise=0.95 * NOISE, noise_seed=1)))
    assert found.verdict == "failed" and found.cause == FAULTS[fault], found.failed
    # Outputs that fail to stop are a few tokens longer than planned.
    assert found.tokens <= SETTINGS.budget_tokens
    assert found.failed[0].message and FAULTS[fault] in NAMES


@pytest.mark.parametrize("fault", ["", *FAULTS_OF_TEXTS])
def test_texts_alone_are_judged_where_no_number_is_reported(fault):
    settings = dataclasses.replace(SETTINGS, budget_tokens=2500, max_tokens=8)
    found = judge(settings, gathered(settings, Server(fault, numbers="none")))
    verdicts = {check.id: check.verdict for check in found.checks}
    assert verdicts["logprobs/kind"] == "error" and found.cause == FAULTS.get(fault, "")
    judged = {name for name, verdict in verdicts.items() if verdict in ("passed", "failed")}
    by_text = {"seeds/repeat", "seeds/under_load", "unseeded/after_seeds", "logit_bias", "stop"}
    assert judged - {"n/differ"} == by_text


def test_texts_that_are_all_equal_prove_nothing():
    settings = dataclasses.replace(SETTINGS, budget_tokens=2500, max_tokens=8)
    found = judge(settings, gathered(settings, Server("seeds_alike", numbers="none")))
    messages = {check.id: check.message for check in found.checks if check.verdict == "skipped"}
    # Four prompts give one text each.
    assert "outputs of different seeds are equal" in messages["seeds/repeat"]
    assert "outputs of different seeds are equal" in messages["seeds/differ"]


@pytest.mark.parametrize("numbers", ["usual", "chat"])
def test_completions_may_have_numbers_in_the_form_of_chats(numbers):
    settings = dataclasses.replace(SETTINGS, budget_tokens=2500, max_tokens=8)
    found = judge(settings, gathered(settings, Server("top_k_ignored", numbers=numbers)))
    assert found.cause == "top_k" and found.kind == "raw"


@pytest.mark.parametrize(
    "fault",
    ["temperature_ignored", "top_k_ignored", "top_p_ignored", "stray_tokens", "greedy_draws"],
)
def test_a_fault_is_named_by_processed_numbers(fault):
    # Only a response's first position shows the raw log-probabilities, so that short responses give
    # more evidence.
    settings = dataclasses.replace(SETTINGS, max_tokens=3, endpoint="chat")
    found = judge(settings, gathered(settings, Server(fault, noise=0.95 * NOISE, kind="processed")))
    assert found.cause == FAULTS[fault], found.failed
    assert found.tokens <= settings.budget_tokens


class WithoutFilters(Server):
    """A server that ignores some parameters of its requests."""

    def __init__(self, missing, **others):
        super().__init__(**others)
        self.missing = missing

    def draw(self, row, body, seed, step):
        left = {name: value for name, value in body.items() if name not in self.missing}
        return super().draw(row, left, seed, step)


HOT = {"temperature": 1.5, "top_k": 20, "top_p": 0.6}


@pytest.mark.parametrize(
    "claim, missing",
    [
        (CLAIM, ("min_p",)),
        ({"temperature": 0.6, "min_p": 0.1, "top_p": 0.8}, ("min_p", "top_p")),
        ({"temperature": 1.7, "top_k": 12, "top_p": 0.5}, ("top_k", "top_p")),
        (HOT, ("top_k", "top_p")),
    ],
    ids=str,
)
def test_missing_filters_are_named_and_no_order(claim, missing):
    # Other orders keep more tokens than the claim, like a server that ignores a filter.
    settings = Settings("tiny", **claim, noise=NOISE)
    server = WithoutFilters(missing, noise=0.95 * NOISE, noise_seed=1)
    found = judge(settings, gathered(settings, server))
    assert found.cause in missing and {check.fault for check in found.failed} <= set(missing)


#: The logits are almost uniform, so that most of the mass is in unreported tokens.
FLAT = 0.01 * np.random.default_rng(2).standard_normal((64, VOCAB), np.float32)


@pytest.mark.parametrize(
    "claim, rows, unseen",
    [
        ({"top_p": 0.9}, FLAT, "top_p 0.9"),
        (HOT, ROWS, "top_k 20 and top_p 0.6"),  # 20 tokens are reported
    ],
    ids=["flat", "hot"],
)
def test_what_a_server_could_ignore_unseen_is_not_passed(claim, rows, unseen):
    settings = Settings("tiny", **claim, noise=NOISE)
    for missing in ((), unseen.split()[:1]):
        found = judge(settings, gathered(settings, WithoutFilters(missing, rows=rows)))
        assert found.verdict == "underpowered" and not found.failed, found.failed
        (check,) = [check for check in found.checks if check.id == "stream/claimed"]
        assert check.message.startswith(f"a server that ignores {unseen} would pass; ")


def test_equal_orders_are_not_told_apart():
    # top_k before or after temperature and min_p has the same effect. Therefore the 24 orders of
    # filters reduce to the 6 orders of temperature, min_p and top_p, each with top_k either before
    # top_p or directly after top_p. One of the 12 orders is the claim's.
    orders = [a for a in alternatives(Claim(**CLAIM)) if a.fault == "order"]
    assert len(orders) == 6 * 2 - 1
    drawn = nominal(positions_from(ROWS)[0], Claim(**CLAIM), VOCAB)
    moved = Claim(**CLAIM, order=("top_k", "temperature", "min_p", "top_p"))
    assert np.abs(nominal(positions_from(ROWS)[0], moved, VOCAB) - drawn).max() <= 2.0**-40


def test_a_small_audit_is_underpowered_or_says_what_it_missed():
    settings = dataclasses.replace(SETTINGS, budget_tokens=1600, max_tokens=4)
    found = judge(settings, gathered(settings, Server()))
    assert found.verdict in ("passed", "underpowered")
    stream = next(check for check in found.checks if check.id == "stream/claimed")
    assert stream.measures["alternatives_excluded"] < stream.measures["alternatives"]
    assert found.unnoticed and all(note.needed > note.tokens for note in found.unnoticed)
