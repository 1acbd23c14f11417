"""Tests rows with several axes before the vocabulary, and the temperature argument of a sampling
operation."""

import numpy as np
import pytest

import fairdraw

LEADING, VOCAB = (2, 3), 50
ROWS = 6
LOGITS = np.random.default_rng(1).standard_normal((*LEADING, VOCAB), np.float32) * 3
FLAT = LOGITS.reshape(ROWS, VOCAB)
PROBS = fairdraw.softmax(FLAT).reshape(LOGITS.shape)
SEED = np.arange(ROWS, dtype=np.uint64).reshape(LEADING)
TOP_K = np.array([[0, 1, 5], [10, 20, -1]])
TOP_P = np.linspace(0.1, 1, ROWS, dtype=np.float32).reshape(LEADING)
TEMPERATURE = np.linspace(0, 2, ROWS, dtype=np.float32).reshape(LEADING)

#: An operation, its rows, and its parameters with one value per row.
CALLS = [
    (fairdraw.sampling_from_logits, LOGITS, (), True),
    (fairdraw.sampling_from_probs, PROBS, (), True),
    (fairdraw.top_p_sampling_from_probs, PROBS, (TOP_P,), True),
    (fairdraw.top_k_sampling_from_probs, PROBS, (TOP_K,), True),
    (fairdraw.min_p_sampling_from_probs, PROBS, (TOP_P,), True),
    (fairdraw.top_k_top_p_sampling_from_probs, PROBS, (TOP_K, TOP_P), True),
    (fairdraw.top_k_top_p_sampling_from_logits, LOGITS, (TOP_K, TOP_P), True),
    (fairdraw.softmax, LOGITS, (TEMPERATURE,), False),
    (fairdraw.top_k_mask_logits, LOGITS, (TOP_K,), False),
    (fairdraw.top_p_mask_logits, LOGITS, (TOP_P,), False),
    (fairdraw.top_k_renorm_probs, PROBS, (TOP_K,), False),
    (fairdraw.top_p_renorm_probs, PROBS, (TOP_P,), False),
]


@pytest.mark.parametrize(
    "operation, rows, parameters, draws", CALLS, ids=lambda part: getattr(part, "__name__", "")
)
def test_results_have_the_axes_of_the_rows(operation, rows, parameters, draws):
    seeds = {"seed": SEED, "offset": SEED + 9} if draws else {}
    got = operation(rows, *parameters, **seeds)
    flat_seeds = {name: value.reshape(-1) for name, value in seeds.items()}
    flat = [value.reshape(-1) for value in parameters]
    want = operation(rows.reshape(ROWS, VOCAB), *flat, **flat_seeds)
    assert got.shape == (LEADING if draws else rows.shape) and got.dtype == want.dtype
    assert np.array_equal(got.reshape(want.shape), want)
    # The parameters may also have a single axis.
    assert np.array_equal(operation(rows, *flat, **flat_seeds), got)


def test_valid_rows_and_numbers():
    bad = PROBS.copy()
    bad[1, 2] = 0
    tokens, valid = fairdraw.top_p_sampling_from_probs(bad, 0.9, seed=1, return_valid=True)
    assert valid.tolist() == [[True] * 3, [True, True, False]] and tokens[1, 2] == -1
    with pytest.raises(ValueError, match="probs contains NaN"):
        fairdraw.sampling_from_probs(bad * np.nan, check_nan=True)
    assert fairdraw.softmax(np.empty((0, 2, VOCAB), np.float32)).shape == (0, 2, VOCAB)


def test_rows_are_joined_where_they_lie():
    wide = np.full((*LEADING, VOCAB + 7), np.nan, np.float32)
    wide[..., :VOCAB] = LOGITS
    got = fairdraw.sampling_from_logits(wide[..., :VOCAB], seed=SEED)
    assert np.array_equal(got, fairdraw.sampling_from_logits(LOGITS, seed=SEED))
    for rows in (FLAT[:, None], FLAT[None], FLAT[::2, None, None], wide[0][None, :, None, :VOCAB]):
        got = fairdraw.softmax(rows)
        assert got.shape == rows.shape
        assert np.array_equal(got.reshape(-1, VOCAB), fairdraw.softmax(rows.reshape(-1, VOCAB)))
    with pytest.raises(ValueError, match="logits: axes 0 and 2 cannot be joined without a copy"):
        fairdraw.sampling_from_logits(LOGITS.transpose(1, 0, 2)[:, None], seed=1)
    with pytest.raises(ValueError, match="logits: axes 0 and 1 cannot be joined without a copy"):
        fairdraw.sampling_from_logits(LOGITS.transpose(1, 0, 2), seed=1)
    with pytest.raises(ValueError, match="indices: are given with 3 axes of logits; allowed: 2"):
        fairdraw.sampling_from_logits(LOGITS, np.zeros(2, np.int32), seed=1)
    with pytest.raises(TypeError, match="logits has 1 axes; 2 are needed"):
        fairdraw.sampling_from_logits(FLAT[0], seed=1)
    with pytest.raises(TypeError, match="logits has 3 axes; 2 are needed"):
        fairdraw.sample(LOGITS, seed=1)


@pytest.mark.parametrize("order", ["top_k_first", "joint"])
def test_a_temperature_divides_the_logits(order):
    operation = fairdraw.top_k_top_p_sampling_from_logits
    arguments = {"filter_apply_order": order, "seed": SEED}
    flat = {"filter_apply_order": order, "seed": SEED.reshape(-1)}
    got = operation(LOGITS, TOP_K, TOP_P, **arguments, temperature=TEMPERATURE)
    want = fairdraw.sample(
        FLAT, TEMPERATURE.reshape(-1), TOP_K.reshape(-1), TOP_P.reshape(-1), **flat
    )
    assert got.shape == LEADING and np.array_equal(got.reshape(-1), want)
    assert np.array_equal(
        operation(LOGITS, TOP_K, TOP_P, **arguments, temperature=1.0),
        operation(LOGITS, TOP_K, TOP_P, **arguments),
    )
    greedy = operation(FLAT, 5, 0.9, temperature=0)
    assert np.array_equal(greedy, FLAT.argmax(axis=1))
    indices = np.array([4, 4, 1])
    tokens = operation(FLAT, 5, 0.9, indices, temperature=0, seed=1)
    assert tokens.dtype == np.int64 and np.array_equal(tokens, FLAT.argmax(axis=1)[indices])
    with pytest.raises(ValueError, match="temperature is -1; allowed: 0"):
        operation(FLAT, 5, 0.9, temperature=-1.0)


def test_torch_tensors():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    seed = torch.from_numpy(SEED.astype(np.int64))
    rows = torch.from_numpy(LOGITS)
    got = fairdraw.top_k_top_p_sampling_from_logits(rows, 5, 0.9, seed=seed, temperature=0.7)
    want = fairdraw.top_k_top_p_sampling_from_logits(LOGITS, 5, 0.9, seed=SEED, temperature=0.7)
    assert got.tolist() == want.tolist()
    assert fairdraw.softmax(rows.bfloat16()).shape == LOGITS.shape
    assert fairdraw.top_k_mask_logits(rows, 3).isfinite().sum(-1).tolist() == [[3] * 3] * 2
    with pytest.raises(ValueError, match="axes 0 and 1 cannot be joined"):
        fairdraw.softmax(rows.transpose(0, 1))
