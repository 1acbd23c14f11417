"""Tests the end of requests, and the choice of the returned outputs, against a second
implementation of the rules.
"""

import math

import numpy as np
import pytest

import fairdraw
from fairdraw import _core
from fairdraw.stop_criteria import FinishReason

# --- Stop criteria ---


def stop_by_hand(step, output, eos, ignore_eos, stop_ids, sequences, min_tokens, max_tokens):
    """Returns, for one request, the reason of its end, the number of kept tokens, the index of the
    match, and the length of the match."""
    output, kept = list(output), 0
    if len(output) >= max_tokens:
        return FinishReason.LENGTH, 0, -1, 0
    for token in step:
        if token == -1:
            break
        output.append(token)
        kept += 1
        if len(output) >= min_tokens:
            if token == eos and not ignore_eos:
                return FinishReason.EOS, kept, -1, 1
            if token in stop_ids:
                return FinishReason.STOP_ID, kept, stop_ids.index(token), 1
            for number, sequence in enumerate(sequences):
                if output[-len(sequence) :] == sequence:
                    return FinishReason.STOP_SEQUENCE, kept, number, len(sequence)
        if len(output) >= max_tokens:
            return FinishReason.LENGTH, kept, -1, 0
    return FinishReason.NONE, kept, -1, 0


def random_requests(random, count):
    """Returns requests over three ids, so that all kinds of ends occur."""
    ids = lambda most: random.integers(3, size=random.integers(most + 1)).tolist()  # noqa: E731
    return {
        "step": [(ids(4) + [-1] * 4)[:4] for _ in range(count)],
        "output": [ids(6) for _ in range(count)],
        "eos": random.integers(-1, 3, count).tolist(),
        "ignore": (random.random(count) < 0.3).tolist(),
        "stop": [
            [int(v) for v in random.permutation(3)[: random.integers(3)]] for _ in range(count)
        ],
        "sequences": [
            [[*ids(2), int(random.integers(3))] for _ in range(random.integers(3))]
            for _ in range(count)
        ],
        "least": (least := random.integers(0, 5, count)).tolist(),
        "most": (least + random.integers(0, 8, count)).tolist(),
    }


def test_steps_end_where_the_rules_say():
    count = 2000
    r = random_requests(np.random.default_rng(1), count)
    found = fairdraw.check_stop(
        r["step"],
        output=r["output"],
        eos_id=r["eos"],
        ignore_eos=r["ignore"],
        stop_ids=r["stop"],
        stop_sequences=r["sequences"],
        min_tokens=r["least"],
        max_tokens=r["most"],
    )
    names = ("step", "output", "eos", "ignore", "stop", "sequences", "least", "most")
    expected = [stop_by_hand(*(r[name][i] for name in names)) for i in range(count)]
    assert {reason for reason, *_ in expected} == set(FinishReason)
    assert found.reasons.tolist() == [reason for reason, *_ in expected]
    assert found.kept.tolist() == [kept for _, kept, *_ in expected]
    assert found.matched.tolist() == [matched for *_, matched, _ in expected]
    assert found.matched_lengths.tolist() == [length for *_, length in expected]
    after = [
        len(output) + kept for output, (_, kept, *_) in zip(r["output"], expected, strict=True)
    ]
    assert found.output_lengths.tolist() == after
    assert not found.statuses.any()


def test_forms_of_histories_are_the_same():
    step = np.array([[1, 2], [2, 0]])
    arguments = {"stop_sequences": [[[5, 1]], [[7, 6, 2]]], "max_tokens": 9}
    lists = fairdraw.check_stop(step, output=[[3, 5], [8, 7, 6]], **arguments)
    assert lists.reasons.tolist() == [FinishReason.STOP_SEQUENCE] * 2
    assert lists.kept.tolist() == [1, 1]
    buffer = np.array([[3, 5, 1, 1], [8, 7, 6, 1]])  # values after the outputs' lengths are stale
    rows = fairdraw.check_stop(step, output=buffer, output_lengths=[2, 3], **arguments)
    last = fairdraw.check_stop(step, output=[[5], [7, 6]], output_lengths=[2, 3], **arguments)
    for found in (rows, last):
        for left, right in zip(lists, found, strict=True):
            assert left.tolist() == right.tolist()
    # The batch has one token per step, one stop id for all requests, and requests that have ended.
    found = fairdraw.check_stop([2, 2, 3], stop_ids=[4, 2], active=[True, False, True])
    assert found.reasons.tolist() == [FinishReason.STOP_ID, 0, 0]
    assert found.matched.tolist() == [1, -1, -1] and found.kept.tolist() == [1, 0, 1]
    assert found.statuses.tolist() == [0, 1, 0]
    assert fairdraw.check_stop(np.empty((0, 2), int)).reasons.shape == (0,)


def test_a_request_that_is_wrong_keeps_nothing_and_the_others_go_on():
    found = fairdraw.check_stop(
        [[1], [50], [1], [1], [1], [-(2**40)]],
        stop_sequences=[[[1, 1]], [], [[]], [[60]], [], []],
        min_tokens=[0, 0, 0, 0, 5, 0],
        max_tokens=[9, 9, 9, 9, 4, 9],
        vocab=50,
    )
    # invalid_history stands for an id that is not a token, and invalid_stop_criteria for a
    # criterion out of range
    assert found.statuses.tolist() == [0, 11, 21, 21, 21, 11]
    assert found.kept.tolist() == [1, 0, 0, 0, 0, 0]
    assert not found.reasons.any()


@pytest.mark.parametrize(
    "error, message, arguments",
    [
        (ValueError, "min_tokens is -1; allowed: 0 to", {"min_tokens": -1}),
        (ValueError, "max_tokens is -1; allowed: 0 to", {"max_tokens": -1}),
        (ValueError, r"eos_id has shape \[3\]; a number or \[2\]", {"eos_id": [1, 2, 3]}),
        (TypeError, "eos_id holds float64; integers", {"eos_id": 0.5}),
        (ValueError, "stop_ids has 1 lists; 2 are needed", {"stop_ids": [[1]]}),
        (TypeError, r"stop_ids\[1\] holds float64", {"stop_ids": [[1], [1.5]]}),
        (ValueError, "stop_sequences has 1 lists; 2", {"stop_sequences": [[[1]]]}),
        (TypeError, r"stop_sequences\[0\]\[0\] has 0 axes", {"stop_sequences": [[1], [2]]}),
        (ValueError, "output has 1 rows; 2 are needed", {"output": np.zeros((1, 4), int)}),
        (
            ValueError,
            r"output_lengths\[1\] is 5; allowed: 0 to 4",
            {"output": np.zeros((2, 4), int), "output_lengths": [1, 5]},
        ),
        (ValueError, "vocab is 0; allowed: 1 to 1048576", {"vocab": 0}),
    ],
)
def test_criteria_that_are_refused_name_the_argument(error, message, arguments):
    with pytest.raises(error, match=message):
        fairdraw.check_stop([[1], [2]], **arguments)


def test_reasons_have_the_librarys_names():
    for reason, (name, api_name) in zip(FinishReason, _core.finish_reasons(), strict=True):
        assert (reason.name.lower(), reason.api_name or "") == (name, api_name)


# --- Several outputs ---

MASK = 2**32 - 1


def threefry(key, counter):
    """Computes Threefry2x32-20 of Salmon et al. 2011, on the low and high words of 64-bit
    numbers."""
    keys = [key & MASK, key >> 32]
    keys.append(0x1BD11BDA ^ keys[0] ^ keys[1])
    x = [((counter & MASK) + keys[0]) & MASK, ((counter >> 32) + keys[1]) & MASK]
    rotations = (13, 15, 26, 6, 17, 29, 16, 24)
    for round_number in range(20):
        x[0] = (x[0] + x[1]) & MASK
        r = rotations[round_number % 8]
        x[1] = ((x[1] << r | x[1] >> (32 - r)) & MASK) ^ x[0]
        if round_number % 4 == 3:
            inject = round_number // 4 + 1
            x[0] = (x[0] + keys[inject % 3]) & MASK
            x[1] = (x[1] + keys[(inject + 1) % 3] + inject) & MASK
    return x[0] | x[1] << 32


def test_the_threefry_of_this_file_is_threefry():
    # The known answers are those of Random123: tests/kat_vectors, threefry2x32 20.
    assert threefry(0, 0) == 0x6B200159 | 0x99BA4EFE << 32
    assert threefry(2**64 - 1, 2**64 - 1) == 0x1CB996FC | 0xBB002BE7 << 32


def test_child_seeds():
    seeds = np.array([7, 2**64 - 1, 0], np.uint64)
    found = fairdraw.child_seeds(seeds, 5)
    assert found.dtype == np.uint64
    assert found.tolist() == [
        [seed, *(threefry(seed, child) for child in range(1, 5))] for seed in seeds.tolist()
    ]
    plus = fairdraw.child_seeds(seeds, 3, "seed_plus_index")
    assert plus.tolist() == [[(seed + i) % 2**64 for i in range(3)] for seed in seeds.tolist()]
    torch = pytest.importorskip("torch")
    tensor = fairdraw.child_seeds(torch.tensor([7, -1, 0]), 5)
    assert tensor.dtype == torch.int64
    assert [v % 2**64 for v in tensor.flatten().tolist()] == found.flatten().tolist()


def test_sums_are_added_from_the_left_and_keep_what_is_no_number_out():
    steps = np.random.default_rng(2).standard_normal((4, 6)).astype(np.float32)
    cumulative = np.zeros(4)
    statuses = fairdraw.add_logprobs(cumulative, steps, kept=[6, 0, 3, 1])
    assert statuses.tolist() == [0] * 4
    for i, kept in enumerate([6, 0, 3, 1]):
        total = 0.0
        for value in steps[i, :kept].tolist():
            total += value
        assert cumulative[i] == total
    one_by_one = np.zeros(4)
    for column in steps.T:
        fairdraw.add_logprobs(one_by_one, column)
    at_once = np.zeros(4)
    fairdraw.add_logprobs(at_once, steps)
    assert one_by_one.tolist() == at_once.tolist()

    sums = np.arange(4.0)
    bad = np.array([math.nan, math.inf, -math.inf, -1], np.float32)
    assert fairdraw.add_logprobs(sums, bad).tolist() == [2, 3, 0, 0]
    assert sums.tolist() == [0, 1, -math.inf, 2]
    assert fairdraw.add_logprobs(sums, bad, kept=[0, 0, 2, -1]).tolist() == [0, 0, 11, 11]


@pytest.mark.parametrize("penalty", [0.0, 1.0, 0.7, -2.0])
def test_best_of_is_a_sort(penalty):
    random = np.random.default_rng(4)
    sums = -random.integers(1, 9, (50, 6)).astype(np.float64)  # with ties
    lengths = random.integers(1, 9, sums.shape)
    statuses = (random.random(sums.shape) < 0.3).astype(np.int32)
    found = fairdraw.best_of(sums, 4, lengths=lengths, length_penalty=penalty, statuses=statuses)
    assert found.chosen.dtype == np.int32 and found.scores.dtype == np.float64
    fewer = 0
    for p in range(50):
        divided = [
            s / math.pow(n, penalty)
            for s, n in zip(sums[p].tolist(), lengths[p].tolist(), strict=True)
        ]
        order = sorted((-divided[j], j) for j in range(6) if not statuses[p, j])[:4]
        fewer += len(order) < 4
        assert found.chosen[p].tolist() == [j for _, j in order] + [-1] * (4 - len(order))
        scores = [-score for score, _ in order] + [-math.inf] * (4 - len(order))
        assert found.scores[p].tolist() == scores
    assert fewer > 0 and not found.statuses.any()


def test_best_of_per_prompt_and_bad_candidates():
    sums = np.array([[-4.0, -3.0], [-4.0, math.nan], [math.inf, -1], [-4.0, -3.0], [-4.0, -3.0]])
    lengths = np.array([[4, 2], [1, 1], [1, 1], [1, 0], [1, 1]])
    penalties = [1.0, 0.0, 0.0, 1.0, math.nan]
    found = fairdraw.best_of(sums, 1, lengths=lengths, length_penalty=penalties)
    # The statuses are nan_input, infinite_input, invalid_history, invalid_penalty
    assert found.statuses.tolist() == [0, 2, 3, 11, 12]
    assert found.chosen.tolist() == [[0], [-1], [-1], [-1], [-1]]
    assert fairdraw.best_of(sums[:1], 1).chosen.tolist() == [[1]]


@pytest.mark.parametrize(
    "error, message, call",
    [
        (ValueError, "n is 0; allowed: >= 1", lambda: fairdraw.child_seeds([1], 0)),
        (ValueError, "rule is 'next'; allowed: 'threefry'", lambda: fairdraw.child_seeds([1], 1, "next")),
        (TypeError, "seeds holds float64", lambda: fairdraw.child_seeds([1.5], 1)),
        (ValueError, r"n is 3; allowed: 1 to candidates \(2\)", lambda: fairdraw.best_of([[0.0, 1]], 3)),
        (ValueError, "n is 0; allowed: 1 to", lambda: fairdraw.best_of([[0.0, 1]], 0)),
        (TypeError, "cumulative has 1 axes; 2", lambda: fairdraw.best_of([0.0], 1)),
        (
            ValueError,
            "lengths: is needed if length_penalty is not 0",
            lambda: fairdraw.best_of([[0.0]], 1, length_penalty=1.0),
        ),
        (
            ValueError,
            r"lengths has shape \[1\]; \[1, 1\] is needed",
            lambda: fairdraw.best_of([[0.0]], 1, lengths=[1]),
        ),
        (
            TypeError,
            "cumulative holds float32; float64 is needed",
            lambda: fairdraw.add_logprobs(np.zeros(2, np.float32), [0.0, 0.0]),
        ),
        (
            ValueError,
            "cumulative has 2 elements; 3 are needed",
            lambda: fairdraw.add_logprobs(np.zeros(2), [0.0, 0.0, 0.0]),
        ),
        (
            ValueError,
            r"kept has shape \[1\]; \[2\] is needed",
            lambda: fairdraw.add_logprobs(np.zeros(2), [0.0, 0.0], kept=[1]),
        ),
    ],
)  # fmt: skip
def test_outputs_that_are_refused_name_the_argument(error, message, call):
    with pytest.raises(error, match=message):
        call()


def test_n_outputs_of_one_prompt_from_seeds_to_the_best():
    """Uses the functions together: 8 outputs of one prompt, the outputs' sums, and the best two
    outputs."""
    random = np.random.default_rng(6)
    n, vocab = 8, 50
    seeds = fairdraw.child_seeds([11], n)[0]
    cumulative, expected, texts = np.zeros(n), [0.0] * n, [[] for _ in range(n)]
    for step in range(5):
        logits = np.repeat(random.standard_normal((1, vocab), np.float32) * 2, n, axis=0)
        tokens, report = fairdraw.sample(logits, seed=seeds, offset=step, logprobs=0)
        assert not fairdraw.add_logprobs(cumulative, report.values).any()
        expected = [
            total + float(value) for total, value in zip(expected, report.values, strict=True)
        ]
        texts = [[*text, int(token)] for text, token in zip(texts, tokens, strict=True)]
    assert cumulative.tolist() == expected
    assert len({tuple(text) for text in texts}) > n // 2
    best = fairdraw.best_of(cumulative[None], 2)
    assert best.chosen[0].tolist() == sorted(range(n), key=lambda i: -expected[i])[:2]
