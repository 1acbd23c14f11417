"""Tests the sampling operations. The operations must equal the integer model, and have the
signatures of flashinfer.sampling.
"""

import inspect
import resource
import threading
import time

import numpy as np
import pytest

import fairdraw
from fairdraw import _core

ROWS, VOCAB = 6, 1000


@pytest.fixture
def logits():
    return np.random.default_rng(3).standard_normal((ROWS, VOCAB), np.float32) * 3


@pytest.fixture
def probs(logits):
    return fairdraw.softmax(logits)


def expected(logits, seeds, offsets, temperature=1.0, top_k=0, top_p=1.0, min_p=0.0):
    return [
        _core.expected_token(np.ascontiguousarray(row), temperature, top_k, top_p, min_p, s, o)
        for row, s, o in zip(logits, seeds, offsets, strict=True)
    ]


@pytest.mark.parametrize("temperature", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("top_k", [0, 1, 40])
@pytest.mark.parametrize("top_p", [0.0, 0.8, 1.0])
@pytest.mark.parametrize("min_p", [0.0, 0.1])
def test_sample_is_the_integer_model(logits, temperature, top_k, top_p, min_p):
    seeds = np.arange(ROWS, dtype=np.uint64) + np.uint64(2**63)
    tokens = fairdraw.sample(logits, temperature, top_k, top_p, min_p, seed=seeds, offset=5)
    filters = (temperature, top_k, top_p, min_p)
    assert tokens.dtype == np.int32
    assert tokens.tolist() == expected(logits, seeds.tolist(), [5] * ROWS, *filters)


def test_parameters_by_row_equal_scalar_ones(logits):
    seeds = np.arange(ROWS, dtype=np.uint64)
    temperature = np.linspace(0, 2, ROWS)  # float64, which is NumPy's default type, is converted
    top_k = np.array([0, 1, 5, 50, -1, 2**40])  # int64 is accepted; a top_k outside int32 is off
    tokens = fairdraw.sample(logits, temperature, top_k, np.float32(0.9), seed=seeds)
    for row in range(ROWS):
        alone = fairdraw.sample(
            logits[row : row + 1],
            float(temperature[row]),
            int(top_k[row]),
            float(np.float32(0.9)),
            seed=int(seeds[row]),
        )
        assert alone[0] == tokens[row]


def test_dtypes_strides_and_alignment_read_the_same_values(logits):
    narrow = logits.astype(np.float16)
    exact = narrow.astype(np.float32)
    want = fairdraw.sampling_from_logits(exact, seed=7)
    wide = np.full((ROWS, VOCAB + 13), np.nan, np.float32)
    wide[:, :VOCAB] = exact
    buffer = np.zeros(exact.nbytes + 1, np.uint8)
    odd = buffer[1:].view(np.float32).reshape(ROWS, VOCAB)
    odd[...] = exact
    for same in (narrow, wide[:, :VOCAB], odd, exact[::-1][::-1]):
        assert np.array_equal(fairdraw.sampling_from_logits(same, seed=7), want)


def test_indices_share_rows_and_give_the_tokens_their_dtype(logits):
    for dtype in (np.int32, np.int64):
        indices = np.array([4, 4, 0, 4], dtype)
        seeds = np.array([9, 9, 9, 10], np.uint64)
        tokens = fairdraw.sampling_from_logits(logits, indices, seed=seeds)
        assert tokens.dtype == dtype
        assert tokens.tolist() == expected(logits[indices], seeds.tolist(), [0] * 4)
    tokens, valid = fairdraw.sample(logits, indices=np.array([2**33, 1]), seed=1, return_valid=True)
    assert tokens[0] == -1 and valid.tolist() == [False, True]


def test_one_seed_gives_each_output_bits_of_its_own():
    # The call draws from 64 equal flat rows: by chance all tokens are equal with a probability of
    # 1000^-63.
    flat = np.zeros((64, VOCAB), np.float32)
    for seed in (11, np.array([11]), np.uint64(11)):
        tokens = fairdraw.sampling_from_logits(flat, seed=seed)
        assert len(set(tokens.tolist())) > 1
        assert np.array_equal(tokens, fairdraw.sampling_from_logits(flat, seed=11, offset=0))
    assert not np.array_equal(tokens, fairdraw.sampling_from_logits(flat, seed=11, offset=1))


def test_unseeded_calls_are_fresh_and_generators_repeat(probs):
    # Two calls give equal tokens for 64 flat rows of 1000 tokens with a probability of 1000^-64.
    flat = np.ones((64, VOCAB), np.float32)
    first, second = (fairdraw.sampling_from_probs(flat) for _ in range(2))
    assert not np.array_equal(first, second)
    once, twice = (
        fairdraw.sampling_from_probs(flat, generator=np.random.default_rng(5)) for _ in range(2)
    )
    assert np.array_equal(once, twice)
    generator = np.random.default_rng(5)
    draws = [fairdraw.sampling_from_probs(flat, generator=generator) for _ in range(2)]
    assert np.array_equal(draws[0], once) and not np.array_equal(draws[1], once)
    with pytest.raises(TypeError, match="generator: .* not RandomState"):
        fairdraw.sampling_from_probs(flat, generator=np.random.RandomState(1))


def test_filters_from_probs_keep_what_the_renormalised_rows_keep(probs):
    seeds = np.arange(ROWS, dtype=np.uint64)
    for operation, renormed in (
        (fairdraw.top_k_sampling_from_probs, fairdraw.top_k_renorm_probs(probs, 7)),
        (fairdraw.top_p_sampling_from_probs, fairdraw.top_p_renorm_probs(probs, 0.3)),
    ):
        parameter = 7 if operation is fairdraw.top_k_sampling_from_probs else 0.3
        tokens, valid = operation(probs, parameter, seed=seeds, return_valid=True)
        assert valid.all() and (renormed[np.arange(ROWS), tokens] > 0).all()
    peak = probs.max(axis=1)
    tokens = fairdraw.min_p_sampling_from_probs(probs, 0.5, seed=seeds)
    assert (probs[np.arange(ROWS), tokens] >= 0.5 * peak).all()


def test_filter_order_first_and_joint_differ_where_they_must():
    # top_k 2 leaves 0.4 and 0.3. With top_k_first these are renormalised, and 0.571 reaches 0.5, so
    # that one token stays. With joint, 0.4 of the whole row is below 0.5, so that both tokens stay.
    # 64 draws of one of two tokens miss the second token with a probability of (4/7)^64 < 1e-15,
    # and the seed is fixed.
    row = np.array([[0.4, 0.3, 0.2, 0.1]], np.float32)
    many = np.zeros(64, np.int32)
    first = fairdraw.top_k_top_p_sampling_from_probs(row, 2, 0.5, many, seed=1)
    joint = fairdraw.top_k_top_p_sampling_from_probs(
        row, 2, 0.5, many, filter_apply_order="joint", seed=1
    )
    assert set(first.tolist()) == {0} and set(joint.tolist()) == {0, 1}
    logits = np.log(row)
    assert set(fairdraw.top_k_top_p_sampling_from_logits(logits, 2, 0.5, many, seed=1)) == {0}
    with pytest.raises(ValueError, match="filter_apply_order is 'both'"):
        fairdraw.top_k_top_p_sampling_from_logits(logits, 2, 0.5, filter_apply_order="both")


def test_rules_by_row_equal_those_of_a_call():
    # Each of ten values occurs four times, so that some tie with the k-th largest. The nucleus of
    # the whole row is wider than the nucleus of the tokens that top_k leaves.
    logits = np.tile(np.arange(10, dtype=np.float32), (ROWS, 4))
    top_k, seeds = np.array([5, 6, 7, 9, 10, 11]), np.arange(ROWS, dtype=np.uint64)
    ties = ["keep_all", "lowest_id"] * 3
    orders = ["joint"] * 3 + ["top_k_first"] * 3
    numbers = np.array([0, 1] * 3), np.array([1] * 3 + [0] * 3, np.int32)
    for tie_rule, order in ((ties, orders), (tuple(ties), numbers[1].tolist()), numbers):
        found = fairdraw.sample(
            logits, 4.0, top_k, 0.4, tie_rule=tie_rule, filter_apply_order=order, seed=seeds,
            return_details=True,
        )  # fmt: skip
        kept = fairdraw.sample_with_kept_sets(
            logits, 4.0, top_k, 0.4, tie_rule=tie_rule, filter_apply_order=order, seed=seeds
        )
        drawn = fairdraw.top_k_top_p_sampling_from_logits(
            logits, top_k, 0.4, filter_apply_order=order, seed=seeds
        )
        for row in range(ROWS):
            rules = {"tie_rule": ties[row], "filter_apply_order": orders[row]}
            alone = fairdraw.sample(
                logits[:1], 4.0, int(top_k[row]), 0.4, **rules, seed=int(seeds[row]),
                return_details=True,
            )  # fmt: skip
            assert found.tokens[row] == kept.tokens[row] == alone.tokens[0]
            assert np.array_equal(found.mask[row], alone.mask[0])
            assert drawn[row] == fairdraw.top_k_top_p_sampling_from_logits(
                logits[:1],
                int(top_k[row]),
                0.4,
                filter_apply_order=orders[row],
                seed=int(seeds[row]),
            )
    # The nucleus of the whole row has 8 tokens, and the nucleus of the tokens that top_k leaves has
    # 4.
    assert found.support_size.tolist() == [8, 6, 8, 4, 4, 4]


def test_rules_that_do_not_exist_fail_their_row_alone():
    logits = np.zeros((3, 8), np.float32)
    found = fairdraw.sample(logits, tie_rule=np.array([0, 2, 1]), seed=1, return_details=True)
    assert found.statuses.tolist() == [0, 24, 0] and found.tokens[1] == -1
    found = fairdraw.sample(logits, filter_apply_order=[-1, 0, 1], seed=1, return_details=True)
    assert found.statuses.tolist() == [25, 0, 0] and found.tokens[0] == -1


def test_softmax_and_renormalised_rows(logits, probs):
    x = logits.astype(np.float64) / np.float64(np.float32(0.7))
    want = np.exp(x - x.max(axis=1, keepdims=True))
    want /= want.sum(axis=1, keepdims=True)
    got = fairdraw.softmax(logits, 0.7)
    # By kernels/README.md a weight that is d octaves below the maximum is off by at most 2^-22 +
    # 2^-24 * ln2 * d + 2^(d - 48). The sum is off by the row's mean of these errors, and 2^-24 is
    # the last rounding.
    octaves = (x.max(axis=1, keepdims=True) - x) / np.log(2)
    weight = 2.0**-22 + 2.0**-24 * np.log(2) * octaves + 2.0 ** (octaves - 48)
    bound = (weight + (want * weight).sum(axis=1, keepdims=True) + 2.0**-24) * 1.001 * want
    assert (np.abs(got - want) <= bound + 2.0**-149).all()
    top = fairdraw.top_k_renorm_probs(probs, 3)
    assert ((top > 0).sum(axis=1) == 3).all()
    # Each of the three probabilities is rounded once, by at most half an ulp of 1.
    assert np.abs(top.sum(axis=1, dtype=np.float64) - 1).max() <= 3 * 2.0**-25
    assert (fairdraw.top_p_renorm_prob(probs, 0.0).max(axis=1) == 1).all()


def test_top_k_mask_logits_keeps_values_and_ties():
    logits = np.array([[1, 3, 2, 3, 0]], np.float16)
    masked = fairdraw.top_k_mask_logits(logits, 1)
    assert masked.dtype == np.float16
    inf = np.inf
    assert masked.tolist() == [[-inf, 3, -inf, 3, -inf]]


def test_top_p_mask_logits_keeps_values_and_ties():
    # The weights are e, 1, 1 and e^-5. Of their sum 4.72 the first has a share of 0.575, and the
    # first three 0.9986.
    logits = np.array([[1, 0, -5, 0], [-np.inf, np.nan, 0, 0]], np.float16)
    inf = np.inf
    for top_p, kept in ((0.5, [1, -inf, -inf, -inf]), (0.6, [1, 0, -inf, 0]), (1.0, [1, 0, -5, 0])):
        masked = fairdraw.top_p_mask_logits(logits, top_p)
        assert masked.dtype == np.float16
        assert masked.tolist() == [kept, [-inf] * 4]
    assert fairdraw.top_p_mask_logits(np.zeros((1, 3), np.float32), 0.0).tolist() == [
        [0, -inf, -inf]
    ]


def test_a_masked_nucleus_is_the_one_that_is_drawn_from(logits):
    top_p = np.linspace(0.1, 1, ROWS, dtype=np.float32)
    details = fairdraw.sample(logits, top_p=top_p, seed=1, return_details=True)
    assert (np.isfinite(fairdraw.top_p_mask_logits(logits, top_p)) == (details.probs > 0)).all()


def test_min_p_after_top_p_is_a_second_call():
    # The nucleus for top_p 0.5 is tokens 0 and 1, and min_p keeps both tokens (0.6 * 0.4 = 0.24).
    # If min_p came first, only these two tokens would be left, and the first alone would have 4/7
    # of the mass.
    logits = np.log(np.array([[0.4, 0.3, 0.2, 0.1]], np.float32))
    first = fairdraw.sample(logits, top_p=0.5, seed=1, return_details=True)
    after = fairdraw.sample(logits, min_p=0.6, allowed=first.mask, seed=1, return_details=True)
    before = fairdraw.sample(logits, min_p=0.6, top_p=0.5, seed=1, return_details=True)
    assert (after.probs > 0).tolist() == [[True, True, False, False]]
    assert (before.probs > 0).tolist() == [[True, False, False, False]]


def test_details_of_sample(logits):
    details = fairdraw.sample(logits, top_k=4, seed=2, num_samples=3, return_details=True)
    assert details.tokens.shape == (ROWS, 3) and details.support_size.tolist() == [4] * ROWS
    assert (details.statuses == 0).all()
    kept = np.unpackbits(details.mask.view(np.uint8), axis=1, bitorder="little")[:, :VOCAB]
    assert (kept.astype(bool) == (details.probs > 0)).all()
    drawn = np.take_along_axis(details.probs, details.tokens, axis=1)
    # The two values are float32 roundings of the quotient w / Z', and a logarithm of at most 30 is
    # off by an ulp.
    assert np.allclose(np.exp(details.logprob_filtered), drawn, rtol=2.0**-24 * (2 + 30), atol=0)


def test_top_n_sigma_keeps_what_is_near_the_largest(logits):
    n = np.array([0.5, 1, 2, 0, -1, np.inf], np.float32)
    rows = logits.astype(np.float64)
    within = rows >= rows.max(1, keepdims=True) - n[:, None] * rows.std(1, keepdims=True)
    within |= (n <= 0)[:, None]
    for temperature in (0.5, 2.0):
        details = fairdraw.sample(logits, temperature, top_n_sigma=n, seed=1, return_details=True)
        kept = np.unpackbits(details.mask.view(np.uint8), axis=1, bitorder="little")[:, :VOCAB]
        assert (kept.astype(bool) == within).all()
    sets = fairdraw.sample_with_kept_sets(logits, 2.0, top_n_sigma=n, seed=1)
    assert sets.tokens.tolist() == details.tokens.tolist()
    values = fairdraw.log_probabilities(
        logits, details.tokens, 0, "processed_logprobs", temperature=2.0, top_n_sigma=n
    ).values
    drawn = np.take_along_axis(details.probs, details.tokens[:, None], axis=1)[:, 0]
    # The two values are float32 roundings of the same quotient, and a logarithm of at most 30 is
    # off by an ulp.
    assert np.allclose(np.exp(values), drawn, rtol=2.0**-24 * (2 + 30), atol=0)


def log_softmax(rows):
    rows = rows.astype(np.float64)
    shifted = rows - rows.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def test_raw_logprobs_are_those_of_the_rows(logits):
    tokens, logprobs = fairdraw.sample(logits, 0.7, top_k=5, seed=2, num_samples=3, logprobs=20)
    expected = log_softmax(logits)
    order = np.argsort(-logits, axis=1, kind="stable")
    # The sum of weights is off by 2^-22 + 2^-24 * ln2 * E d (fairdraw/log_probabilities.h), with E
    # d < 10 octaves here. The value, of size at most 30, is rounded once.
    bound = 2.0**-22 + 10 * np.log(2) * 2.0**-24 + 30 * 2.0**-24
    assert (np.abs(logprobs.values - np.take_along_axis(expected, tokens, 1)) < bound).all()
    assert (logprobs.top_ids == order[:, :20]).all()
    assert (
        np.abs(logprobs.top_values - np.take_along_axis(expected, order, 1)[:, :20]) < bound
    ).all()
    rank_of = np.argsort(order, axis=1) + 1
    assert (logprobs.ranks == np.take_along_axis(rank_of, tokens, 1)).all()
    assert logprobs.all is None


@pytest.mark.parametrize("mode", ["processed_logits", "processed_logprobs"])
def test_processed_values_are_those_of_the_mask(logits, mode):
    details = fairdraw.sample(
        logits, 0.5, top_k=4, seed=2, return_details=True, logprobs=-1, logprobs_mode=mode
    )
    every = details.logprobs.all
    assert (np.isfinite(every) == (details.probs > 0)).all()
    drawn = np.take_along_axis(every, details.tokens[:, None], 1)[:, 0]
    assert (details.logprobs.values == drawn).all()
    if mode == "processed_logits":
        assert (every[np.isfinite(every)] == (logits / np.float32(0.5))[np.isfinite(every)]).all()
    else:
        assert (details.logprobs.values == details.logprob_filtered).all()


def test_log_probabilities_of_given_tokens():
    rows = np.array([[0, 1, 2, 3], [9, 8, 8, -np.inf]], np.float32)
    ids = np.array([[0, 3], [2, 3], [1, 7]], np.int64)
    logprobs = fairdraw.log_probabilities(
        rows, ids, 3, "raw_logits", "at_least", indices=np.array([0, 1, 0], np.int32)
    )
    assert logprobs.values.tolist() == [[0, 3], [8, -np.inf], [-np.inf, -np.inf]]
    assert logprobs.ranks.tolist() == [[4, 1], [3, 0], [0, 0]]
    assert logprobs.top_ids.tolist() == [[3, 2, 1], [0, 1, 2], [-1, -1, -1]]
    every = fairdraw.log_probabilities(rows, np.zeros(2, np.int32), -1).all
    assert every[1, 3] == -np.inf and np.abs(np.exp(every).sum(axis=1) - 1).max() < 2.0**-20


def test_wrong_ways_to_ask_for_logprobs(logits):
    with pytest.raises(ValueError, match="logprobs is 129; allowed: 0 to 128"):
        fairdraw.sample(logits, logprobs=129)
    with pytest.raises(ValueError, match="logprobs_mode is 'raw'; allowed: 'raw_logits'"):
        fairdraw.sample(logits, logprobs=1, logprobs_mode="raw")
    with pytest.raises(ValueError, match="rank_rule is 'first'"):
        fairdraw.sample(logits, logprobs=1, rank_rule="first")
    with pytest.raises(ValueError, match=r"token_ids has shape \[1\]; \[6\]"):
        fairdraw.log_probabilities(logits, np.zeros(1, np.int32))
    with pytest.raises(TypeError, match="token_ids holds 6 values of float32"):
        fairdraw.log_probabilities(logits, np.zeros(6, np.float32))


def test_allowed_active_and_out():
    flat = np.zeros((3, 70), np.float32)
    allowed = np.zeros((3, 3), np.uint32)
    allowed[:, 2] = 1 << 4  # only token 68
    out = np.empty(3, np.int32)
    active = np.array([True, False, True])
    tokens = fairdraw.sample(flat, allowed=allowed, active=active, out=out, seed=1)
    assert tokens is out and tokens.tolist() == [68, -1, 68]
    assert fairdraw.sample(flat, allowed=allowed.view(np.int32), seed=1).tolist() == [68] * 3


def test_bad_rows_fail_alone(probs):
    bad = probs.copy()
    bad[1, 5] = np.nan
    bad[2] = 0
    tokens, valid = fairdraw.sampling_from_probs(bad, seed=4, return_valid=True)
    assert valid.tolist() == [True, False, False, True, True, True]
    assert tokens[1] == tokens[2] == -1
    good = fairdraw.sampling_from_probs(probs, seed=4)
    assert np.array_equal(tokens[valid], good[valid])
    with pytest.raises(ValueError, match="probs contains NaN"):
        fairdraw.sampling_from_probs(bad, check_nan=True)
    top_p = np.array([0.5, 2, 0.5, 0.5, 0.5, 0.5])
    _, valid = fairdraw.top_p_sampling_from_probs(probs, top_p, seed=4, return_valid=True)
    assert valid.tolist() == [True, False, True, True, True, True]


def test_chains(probs):
    vocab = 5
    draft = np.zeros((2, 2, vocab), np.float32)
    draft[:, :, 1] = 1
    target = np.zeros((2, 3, vocab), np.float32)
    # The draft agrees with the target: both drafted tokens stay, and the bonus token is 1.
    target[0, :, 1] = 1
    # The target never draws 1, so that the draft is rejected at once and token 3 replaces it.
    target[1, :, 3] = 1
    ids = np.ones((2, 2), np.int64)
    total = np.array([10, 10])
    tokens, accepted, emitted = fairdraw.chain_speculative_sampling(
        draft, ids, target, maybe_output_accepted_token_num=total, seed=3
    )
    assert tokens.tolist() == [[1, 1, 1], [3, -1, -1]]
    assert accepted is total and total.tolist() == [12, 10] and emitted.tolist() == [2, 0]
    total.flags.writeable = False
    with pytest.raises(ValueError, match="maybe_output_accepted_token_num is read-only"):
        fairdraw.chain_speculative_sampling(draft, ids, target, total)
    with pytest.raises(ValueError, match="target_probs has 2 positions of 2 requests"):
        fairdraw.chain_speculative_sampling(draft, ids, target[:, :2].copy())


def test_empty_batches():
    none = np.empty((0, 8), np.float32)
    assert fairdraw.sample(none).shape == (0,)
    assert fairdraw.softmax(none).shape == (0, 8)
    assert fairdraw.sampling_from_probs(np.ones((2, 8), np.float32), np.array([], int)).shape == (
        0,
    )


def _rows(**change):
    return {"logits": np.zeros((2, 8), np.float32), "seed": 1, **change}


F32 = np.zeros((2, 8), np.float32)
READ_ONLY = np.empty(2, np.int32)
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ({"logits": F32.astype(np.float64)}, TypeError, "logits holds float64; allowed: float32"),
        ({"logits": F32.astype(int)}, TypeError, "logits holds int64"),
        ({"logits": F32 > 0}, TypeError, "logits holds bool"),
        ({"logits": F32.astype(complex)}, TypeError, "logits holds complex128"),
        ({"logits": F32[0]}, TypeError, r"logits has 1 axes; 2 are needed: \[rows, vocab\]"),
        ({"logits": F32[None]}, TypeError, "logits has 3 axes"),
        ({"logits": F32[:, ::-1]}, ValueError, "logits: .* their stride is -1"),
        ({"logits": F32[::-1]}, ValueError, "stride between rows is -8; allowed: >= 8"),
        ({"logits": F32.T}, ValueError, "logits: .* their stride is 8"),
        ({"logits": np.broadcast_to(F32[0], (3, 8))}, ValueError, "stride between rows is 0"),
        ({"logits": [[0.0]]}, TypeError, "logits: a NumPy array.* not list"),
        ({"logits": None}, TypeError, "logits: a NumPy array.* not NoneType"),
        ({"logits": np.empty((2, 0), np.float32)}, ValueError, "vocab is 0; allowed: 1 to 1048576"),
        ({"temperature": -1.0}, ValueError, r"temperature is -1; allowed: 0 \(greedy\)"),
        ({"temperature": np.nan}, ValueError, "temperature is nan"),
        ({"temperature": "1"}, TypeError, "temperature: a NumPy array.* not str"),
        ({"temperature": np.ones(3)}, ValueError, "length of temperature is 3; allowed: 2"),
        ({"temperature": np.ones((2, 1))}, TypeError, "temperature has 2 axes"),
        ({"top_k": -2}, ValueError, "top_k is -2; allowed: >= -1"),
        ({"top_k": 1.0}, TypeError, "top_k: an integer is needed, not a float"),
        ({"top_k": np.ones(2)}, TypeError, "top_k holds float64; integers are needed"),
        ({"top_p": 1.5}, ValueError, "top_p is 1.5; allowed: 0 to 1"),
        ({"min_p": -0.5}, ValueError, "min_p is -0.5; allowed: 0 to 1"),
        ({"top_n_sigma": -2}, ValueError, "top_n_sigma is -2; allowed: >= 0, or -1"),
        ({"top_n_sigma": np.nan}, ValueError, "top_n_sigma is nan"),
        ({"seed": -1}, ValueError, r"seed is -1; allowed: 0 to 2\^64 - 1"),
        ({"seed": 2**64}, ValueError, "seed is 18446744073709551616"),
        ({"seed": 0.5}, TypeError, "seed: an integer is needed"),
        ({"seed": np.arange(3)}, ValueError, "length of seed is 3; allowed: 2"),
        ({"seed": None, "offset": 3}, ValueError, "offset: is given without a seed"),
        ({"indices": np.zeros(2)}, TypeError, "indices holds float64"),
        ({"indices": np.zeros((2, 2), int)}, TypeError, "indices has 2 axes; one is needed"),
        ({"num_samples": 0}, ValueError, "num_samples is 0; allowed: >= 1"),
        ({"tie_rule": "first"}, ValueError, "tie_rule is 'first'"),
        ({"tie_rule": None}, TypeError, "tie_rule: a NumPy array.* not NoneType"),
        ({"tie_rule": 2}, ValueError, "tie_rule is 2; allowed: 0 or 1, or a name"),
        ({"tie_rule": ["keep_all", "first"]}, ValueError, r"tie_rule\[1\] is 'first'"),
        ({"tie_rule": ["keep_all"] * 3}, ValueError, "length of tie_rule is 3; allowed: 2"),
        ({"tie_rule": np.zeros(2)}, TypeError, "tie_rule holds float64; integers are needed"),
        ({"filter_apply_order": ["x", 0]}, ValueError, r"filter_apply_order\[0\] is 'x'"),
        ({"filter_apply_order": -1}, ValueError, "filter_apply_order is -1; allowed: 0 or 1"),
        ({"out": READ_ONLY}, ValueError, "out is read-only"),
        ({"out": np.empty(2, np.int64)}, TypeError, "out holds int64; int32 is needed"),
        ({"out": np.empty(3, np.int32)}, ValueError, "out has 3 elements; 2 are needed"),
        ({"out": np.empty(4, np.int32)[::2]}, ValueError, "out is not contiguous"),
        ({"allowed": np.zeros((2, 1))}, TypeError, "allowed holds float64; packed words"),
        ({"allowed": np.zeros((1, 1), np.uint32)}, ValueError, "length of allowed.rows is 1"),
        ({"active": np.ones(3, bool)}, ValueError, "length of active is 3; allowed: 2"),
        ({"active": np.ones(2)}, TypeError, "active holds float64"),
    ],
)
def test_bad_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        fairdraw.sample(**_rows(**arguments))


@pytest.mark.skipif(not _core.HAS_SERVING, reason="it is of serving")
def test_arguments_and_their_order_are_those_of_flashinfer():
    draw = ["indices", "deterministic", "generator", "check_nan", "seed", "offset"]
    order = ["indices", "filter_apply_order", *draw[1:]]
    for name, parameters in {
        "softmax": ["logits", "temperature", "enable_pdl"],
        "sampling_from_logits": ["logits", *draw],
        "sampling_from_probs": ["probs", *draw, "return_valid"],
        "top_p_sampling_from_probs": ["probs", "top_p", *draw, "return_valid"],
        "top_k_sampling_from_probs": ["probs", "top_k", *draw, "return_valid"],
        "min_p_sampling_from_probs": ["probs", "min_p", *draw, "return_valid"],
        # The temperature is fairdraw's own parameter, and can be given only by name.
        "top_k_top_p_sampling_from_logits": ["logits", "top_k", "top_p", *order, "temperature"],
        "top_k_top_p_sampling_from_probs": ["probs", "top_k", "top_p", *order, "return_valid"],
        "top_p_renorm_probs": ["probs", "top_p", "is_deterministic"],
        "top_k_renorm_probs": ["probs", "top_k"],
        "top_k_mask_logits": ["logits", "top_k"],
        "chain_speculative_sampling": [
            "draft_probs",
            "draft_token_ids",
            "target_probs",
            "maybe_output_accepted_token_num",
            "maybe_output_emitted_draft_token_num",
            "deterministic",
            "generator",
            "seed",
            "offset",
        ],
    }.items():
        assert list(inspect.signature(getattr(fairdraw, name)).parameters) == parameters, name


def test_rows_are_not_copied():
    # The array is 1 GiB of zero pages, of which a call reads one row. A copy of the array would
    # become resident.
    rows = np.zeros((2048, 1 << 17), np.float32)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    fairdraw.sampling_from_logits(rows, np.array([2000], np.int32), seed=1)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown * 1024 < rows.nbytes / 8


def test_other_threads_run_during_a_call():
    rows = np.random.default_rng(0).standard_normal((64, 1 << 17), np.float32)

    def another_thread_ran():
        """Returns true if this thread ran in the middle half of another thread's call of tens of
        milliseconds.
        """
        done = threading.Event()
        call, turns = [], []

        def work():
            call.append(time.perf_counter())
            fairdraw.sample(rows, top_p=0.95, seed=1)
            call.append(time.perf_counter())
            done.set()

        thread = threading.Thread(target=work)
        thread.start()
        while not done.wait(1e-4):
            turns.append(time.perf_counter())
        thread.join()
        quarter = (call[1] - call[0]) / 4
        return any(call[0] + quarter < turn < call[1] - quarter for turn in turns)

    # A call that held the interpreter's lock would never let this thread run during the call. On a
    # busy machine even a call without the lock may sometimes not let it run.
    assert any(another_thread_ran() for _ in range(20))


def test_torch_tensors():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    logits = np.random.default_rng(3).standard_normal((ROWS, VOCAB), np.float32)
    tensor = torch.from_numpy(logits).requires_grad_()
    tokens, valid = fairdraw.sample(
        tensor, top_p=torch.full((ROWS,), 0.9), seed=3, return_valid=True
    )
    assert tokens.dtype == torch.int32 and bool(valid.all())
    assert tokens.tolist() == fairdraw.sample(logits, top_p=np.float32(0.9), seed=3).tolist()
    narrow = tensor.detach().bfloat16()
    wide = narrow.float().numpy()
    assert fairdraw.sample(narrow, seed=5).tolist() == fairdraw.sample(wide, seed=5).tolist()
    assert fairdraw.softmax(narrow).shape == (ROWS, VOCAB)
    reported = fairdraw.sample(tensor, seed=3, logprobs=2)[1]
    assert reported.values.dtype == torch.float32
    assert torch.equal(reported.top_ids[:, 0].long(), tensor.argmax(1))
    torch.manual_seed(1)
    first = fairdraw.sampling_from_logits(tensor)
    torch.manual_seed(1)
    assert torch.equal(first, fairdraw.sampling_from_logits(tensor))
    indices = torch.tensor([0, 1])
    assert fairdraw.sampling_from_logits(tensor, indices, seed=1).dtype == torch.int64
    with pytest.raises(TypeError, match="logits holds float64"):
        fairdraw.sample(tensor.double())
