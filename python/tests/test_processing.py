"""Tests logits processing in calls on rows, whose results must equal a running batch's bit for
bit."""

import dataclasses

import numpy as np
import pytest

import fairdraw
from fairdraw.request_processing import RequestProcessing

ROWS, VOCAB = 6, 1000


@pytest.fixture
def logits():
    return np.random.default_rng(3).standard_normal((ROWS, VOCAB), np.float32) * 3


def processing_of(row):
    """Returns processing in which every field differs from its default, and from row to row."""
    return RequestProcessing(
        repetition_penalty=1.5 + row, repetition_of_prompt=row % 2 == 0, frequency_penalty=0.5,
        presence_penalty=0.25, bias={row: 2.0, 9: -np.inf}, min_tokens=5, stop_ids=[3],
        bad_words=[[row, 7]], allowed_ids=list(range(VOCAB - 1)), prompt=[1, 2], output=[4, row],
        top_n_sigma=2.5, typical_p=0.95, epsilon_cutoff=1e-4, eta_cutoff=2e-4, p_less=row % 2,
    )  # fmt: skip


def test_processing_is_that_of_a_running_batch(logits):
    state = fairdraw.BatchState(vocab=VOCAB, capacity=ROWS, max_length=16)
    for row in range(ROWS):
        given = vars(processing_of(row)).copy()
        output = given.pop("output")
        request = fairdraw.BatchRequest(**given, top_p=0.9, seed=7 + row)
        state.add(row, request)
        state.append(row, output)
    processor = fairdraw.FusedSamplingProcessor(state)
    rows = [processing_of(row) for row in range(ROWS)]
    call = {"top_p": 0.9, "seed": np.arange(7, 7 + ROWS), "offset": 2, "processing": rows}
    drawn = fairdraw.sample(logits, **call, return_details=True)
    assert fairdraw.sample(logits, **call).tolist() == drawn.tokens.tolist()
    processed = processor.logits_for_sampling(logits)
    plain = fairdraw.sample(processed, **{**call, "processing": None}, return_details=True)
    assert (plain.probs == drawn.probs).all() and (plain.probs.sum(axis=1) > 0).all()
    kept = fairdraw.sample_with_kept_sets(logits, **call).kept
    assert [kept.of(row).tolist() for row in range(ROWS)] == [
        np.flatnonzero(row).tolist() for row in drawn.probs
    ]
    of_processed = fairdraw.log_probabilities(
        logits, drawn.tokens, logprobs_mode="processed_logits", processing=rows
    )
    at = np.take_along_axis(processed, drawn.tokens[:, None].astype(np.int64), axis=1)[:, 0]
    assert of_processed.values.tolist() == at.tolist()
    processor.step(logits)
    assert processor.new_tokens().tolist() == drawn.tokens.tolist()


def test_processing_that_is_wrong_is_named(logits):
    rows = [RequestProcessing()] * ROWS
    plain = fairdraw.sample(logits, seed=1)
    assert fairdraw.sample(logits, seed=1, processing=rows).tolist() == plain.tolist()
    with pytest.raises(
        ValueError, match=rf"processing has 1 entries; {ROWS} are needed, one per row"
    ):
        fairdraw.sample(logits, seed=1, processing=rows[:1])
    with pytest.raises(ValueError, match="top_n_sigma: is given together with processing"):
        fairdraw.sample(logits, seed=1, processing=rows, top_n_sigma=2.0)
    # A value that makes only its row fail.
    bad = dataclasses.replace(rows[0], repetition_penalty=0.0)
    tokens = fairdraw.sample(logits, seed=1, processing=[bad, *rows[1:]])
    assert tokens[0] == -1 and tokens[1:].tolist() == plain[1:].tolist()


@pytest.mark.parametrize(
    "filters, kept",
    [
        ({"typical_p": 0.2}, [1]),
        ({"typical_p": 0.3}, [0, 1]),
        ({"epsilon_cutoff": 0.2}, [0, 1]),
        ({"eta_cutoff": 0.17}, [0, 1, 2, 3]),  # sqrt(0.17) 2^(-7/4) is 0.1226
        ({"eta_cutoff": 0.2}, [0, 1]),  # sqrt(0.2) 2^(-7/4) is 0.1330
        ({"p_less": 1}, [0]),  # 1/4 + 1/16 + 1/64 + 1/64 is 0.34
        ({"top_h": 0.52}, [0]),  # 2/3 and 1/3 have 0.918 of 7/4 bits
        ({"top_h": 0.53}, [0, 1]),
        ({"xtc_probability": 1.0, "xtc_threshold": 0.2, "xtc_seed": 2**64 - 1}, [1, 2, 3]),
        ({"xtc_probability": 1.0, "xtc_seed": 2**63}, [2, 3]),
        ({"xtc_probability": 0.66, "xtc_seed": 0}, [0, 1, 2, 3]),  # the coin is 0.665
        ({"xtc_probability": 0.67, "xtc_seed": 0}, [2, 3]),
        ({"typical_p": 0.3, "epsilon_cutoff": 0.4}, [0]),  # of 2/3 and 1/3
    ],
)
def test_filters_by_probability(filters, kept):
    # The surprises are 1, 2, 3 and 3 bits, and the entropy is 7/4 bits.
    logits = np.log(np.array([[0.5, 0.25, 0.125, 0.125]], np.float32))
    processing = [RequestProcessing(**filters)]
    sets = fairdraw.sample_with_kept_sets(logits, 2.0, seed=1, processing=processing).kept
    assert sets.of(0).tolist() == kept


def test_a_coin_of_xtc_needs_a_seed(logits):
    for seed, named in (
        (None, "None; allowed: a seed"),
        (-1, "-1; allowed: 0 to"),
        (2**64, "1844"),
    ):
        rows = [RequestProcessing()] * (ROWS - 1)
        rows += [RequestProcessing(xtc_probability=0.5, xtc_seed=seed)]
        with pytest.raises(ValueError, match=rf"processing\[{ROWS - 1}\].xtc_seed is {named}"):
            fairdraw.sample(logits, seed=1, processing=rows)


def test_rules_of_histories():
    def kept(**rules):
        processing = [RequestProcessing(prompt=[0, 1], output=[2, 0], **rules)]
        logits = np.zeros((1, 4), np.float32)
        sets = fairdraw.sample_with_kept_sets(logits, min_p=1.0, seed=1, processing=processing)
        return sets.kept.of(0).tolist()

    # Penalties lower the tokens that they see, so that min_p 1 keeps the others.
    assert kept(presence_penalty=1.0) == [1, 3]
    assert kept(presence_penalty=1.0, counts_of_prompt=1) == [3]
    assert kept(presence_penalty=1.0, penalty_window=1) == [1, 2, 3]
    assert kept(presence_penalty=1.0, penalty_window=3, counts_of_prompt=1) == [3]
    assert kept(no_repeat_ngram_size=2) == [0, 2, 3]  # 0 was followed by 1
    assert kept(no_repeat_ngram_size=3) == [0, 1, 2, 3]
    assert kept(dry_multiplier=1.0) == [0, 1, 2, 3]  # one id would be repeated
    assert kept(dry_multiplier=1.0, dry_allowed_length=1) == [0, 2, 3]
    assert kept(dry_multiplier=1.0, dry_allowed_length=1, dry_window=2) == [0, 1, 2, 3]
    assert kept(dry_multiplier=1.0, dry_allowed_length=1, dry_breakers=[1]) == [0, 1, 2, 3]
    assert kept(forced_tokens=[3], forced_delay=2) == [3]
    assert kept(forced_tokens=[3], forced_delay=2, forced_after=1) == [3]
    assert kept(forced_tokens=[0], forced_delay=2) == [0, 1, 2, 3]  # the end has come
    with pytest.raises(ValueError, match=r"processing\[0\].repetition_of_prompt is False; allowed"):
        kept(no_repeat_ngram_size=2, repetition_of_prompt=False)
    assert kept(forced_tokens=[3], forced_delay=2, repetition_of_prompt=False) == [3]


def test_filter_chains():
    def kept(**fields):
        logits = np.log([[8, 4, 2, 1, 1]]).astype(np.float32)
        processing = [RequestProcessing(**fields)]
        details = fairdraw.sample(logits, seed=1, processing=processing, return_details=True)
        return details.support_size.tolist() + details.statuses.tolist()

    # Of the first three tokens alone, the third has 1/7.
    three = {"chain_top_k": 3, "epsilon_cutoff": 0.13}
    assert kept(filter_chain=["top_k", "epsilon_cutoff"], **three) == [3, 0]
    assert kept(filter_chain=["epsilon_cutoff", "top_k"], **three) == [2, 0]
    # At temperature 1/2 the second weighs 1/4 of the first.
    min_p = {"chain_min_p": 0.3, "chain_temperature": 0.5}
    assert kept(filter_chain=["min_p", "temperature"], **min_p) == [2, 0]
    assert kept(filter_chain=["temperature", "min_p"], **min_p) == [1, 0]
    assert kept(filter_chain=["top_p", "top_p"], chain_top_p=0.6) == [1, 0]  # 1/2, then 2/3
    assert kept(filter_chain=["top_k"], chain_top_k=2, typical_p=0.01) == [2, 0]
    assert kept(chain_top_k=2) == [5, 0]
    invalid_probability_filter = 26
    assert kept(chain_temperature=0) == [0, invalid_probability_filter]
    allowed = "'top_n_sigma', 'typical_p'"
    with pytest.raises(
        ValueError, match=rf"processing\[0\].filter_chain\[1\] is 'x'; allowed: {allowed}"
    ):
        kept(filter_chain=["top_k", "x"])
    assert kept(filter_chain=["adaptive_p"], adaptive_target=1.5)[1] == invalid_probability_filter
    alone = r"filter_chain\[0\] is 'adaptive_p'; allowed: only as the last step"
    with pytest.raises(ValueError, match=alone):
        kept(filter_chain=["adaptive_p", "temperature"])
    with pytest.raises(ValueError, match="filter_chain has 17 steps; allowed: at most 16"):
        kept(filter_chain=["top_k"] * 17)


def test_a_top_p_that_decays():
    def sizes(output, **rules):
        processing = [RequestProcessing(prompt=[3], output=output, **rules)]
        logits = np.log([[8, 4, 2, 1, 1]]).astype(np.float32)
        details = fairdraw.sample(logits, seed=1, processing=processing, return_details=True)
        return details.support_size.tolist() + details.statuses.tolist()

    assert sizes([], top_p_decay=0.8) == [5, 0]
    assert sizes([0], top_p_decay=0.8) == [3, 0]
    assert sizes([0, 0, 0, 0], top_p_decay=0.8) == [1, 0]
    assert sizes([0, 0, 0, 0], top_p_decay=0.8, top_p_min=0.6) == [2, 0]
    assert sizes([0, 0, 0, 3], top_p_decay=0.8, top_p_reset_id=3) == [5, 0]
    assert sizes([0, 0, 0, 0], top_p_min=0.6) == [5, 0]
    invalid_history_rule = 27
    assert sizes([], top_p_decay=0.0) == [0, invalid_history_rule]


@pytest.mark.parametrize(
    "name", ["typical_p", "epsilon_cutoff", "eta_cutoff", "p_less", "top_h", "xtc_probability"]
)
def test_a_filter_that_is_out_of_range_fails_its_row(logits, name):
    rows = [RequestProcessing()] * (ROWS - 1) + [RequestProcessing(**{name: 2}, xtc_seed=0)]
    details = fairdraw.sample(logits, seed=1, processing=rows, return_details=True)
    invalid_probability_filter = 26
    assert details.statuses.tolist() == [0] * (ROWS - 1) + [invalid_probability_filter]
