"""Tests BeamSearch against a second implementation of the rules of fairdraw/beam_search.h, and
against enumeration."""

import itertools
import math

import numpy as np
import pytest

import fairdraw


def norm(length, penalty):
    return np.float32(math.pow(length, penalty)) if penalty else np.float32(1)


class Model:
    """A model whose rows depend on the whole prefix. The rows are float32 log-probabilities."""

    def __init__(self, number, vocab):
        self._number, self._vocab, self._rows = number, vocab, {}

    def __call__(self, prefix):
        if prefix not in self._rows:
            random = np.random.default_rng([self._number, *prefix])
            row = random.standard_normal(self._vocab) * 2
            self._rows[prefix] = (row - np.log(np.exp(row).sum())).astype(np.float32)
        return self._rows[prefix]


def score_of(model, sequence):
    """Returns a sequence's cumulative log-probability, with one float32 addition per token."""
    score = np.float32(0)
    for i, token in enumerate(sequence):
        score = np.float32(score + model(sequence[:i])[token])
    return score


def search_by_hand(model, width, max_tokens, ends, penalty, early_stopping):
    """Returns the result after the last step: whether the pool ended the search, the live
    sequences, and the pool."""
    live, pool = [((), np.float32(0))], []
    most = max(1, 1 + len(ends)) * width
    for length in range(1, max_tokens + 1):
        candidates = [
            (-np.float32(score + logprob), beam, token, (*sequence, token))
            for beam, (sequence, score) in enumerate(live)
            for token, logprob in enumerate(model(sequence))
        ]
        candidates = sorted(candidates)[:most]
        live = []
        for rank, (negative, _, token, sequence) in enumerate(candidates):
            if token not in ends:
                live.append((sequence, np.float32(-negative)))
            elif rank < width:
                pool.append((np.float32(-negative / norm(length, penalty)), sequence))
            if len(live) == width:
                break
        # The sort is stable, so that earlier sequences come first.
        pool = sorted(pool, key=lambda entry: -entry[0])[:width]
        if len(pool) == width:
            best = np.float32(-candidates[0][0])
            reach = max_tokens if early_stopping == 2 and penalty > 0 else length
            if early_stopping == 1 or pool[-1][0] >= best / norm(reach, penalty):
                return True, live, pool
        if not live:
            break
    return False, live, pool


def best_by_hand(found, penalty, best):
    done, live, pool = found
    entries = list(pool)
    if not done:
        entries += [(np.float32(s / norm(len(t), penalty)), t) for t, s in live]
    return sorted(entries, key=lambda entry: -entry[0])[:best]


def run(models, vocab, width, **options):
    """Runs all steps of a batch in which each request has its own model."""
    search = fairdraw.BeamSearch(len(models), width, **options)
    live = [[()] for _ in models]
    while not search.done:
        rows = [
            models[r](sequence)
            for r, sequences in enumerate(live)
            for sequence in sequences
        ]  # fmt: skip
        assert len(rows) == search.rows
        step = search.step(np.stack(rows), logprobs=True)
        live = [
            [
                (*live[r][step.parents[r, b]], int(step.tokens[r, b]))
                for b in range(step.live_beams[r])
            ]
            if step.states[r] == 0
            else []
            for r in range(len(models))
        ]
        assert set(step.statuses.tolist()) <= {0, 1}
    return search


def expect_best(search, r, best, expected):
    result = search.result(best)
    assert result.statuses[r] == 0
    for place in range(best):
        if place >= len(expected):
            assert result.lengths[r, place] == 0 and result.scores[r, place] == -np.inf
            continue
        score, sequence = expected[place]
        assert result.tokens[r, place, : len(sequence)].tolist() == list(sequence)
        assert (result.tokens[r, place, len(sequence) :] == -1).all()
        assert result.lengths[r, place] == len(sequence)
        assert result.scores[r, place] == score  # float32 scores must be equal bit for bit


@pytest.mark.parametrize("early_stopping", [0, 1, 2])
@pytest.mark.parametrize("penalty", [0.0, 1.0, 0.6, -0.5])
@pytest.mark.parametrize("ends", [[], [0], [0, 5]])
def test_steps_follow_the_rules(early_stopping, penalty, ends):
    vocab, width, max_tokens = 7, 3, 5
    models = [Model(number, vocab) for number in range(12)]
    search = run(
        models,
        vocab,
        width,
        max_tokens=max_tokens,
        end_ids=ends,
        length_penalty=penalty,
        early_stopping=early_stopping,
    )
    penalty = float(np.float32(penalty))
    for r, model in enumerate(models):
        found = search_by_hand(model, width, max_tokens, ends, penalty, early_stopping)
        expect_best(search, r, width, best_by_hand(found, penalty, width))


def test_wide_enough_it_finds_all_sequences_in_their_order():
    # There are 4 tokens, one of which ends a sequence: 1 + 3 + 9 sequences end, and 27 do not. 64
    # beams are more than the candidates of a step (9 * 4), so that no candidate is dropped.
    model, penalty = Model(1, 4), 0.75
    every = [
        sequence
        for length in (1, 2, 3)
        for sequence in itertools.product(range(4), repeat=length)
        if 0 not in sequence[:-1] and (length == 3 or sequence[-1] == 0)
    ]
    assert len(every) == 40
    expected = sorted(
        ((np.float32(score_of(model, s) / norm(len(s), penalty)), s) for s in every),
        key=lambda entry: -entry[0],
    )
    search = run(
        [model], 4, 64, max_tokens=3, end_ids=[0], length_penalty=penalty, early_stopping=2
    )
    expect_best(search, 0, 40, expected)
    result = search.result(1)
    assert result.cumulative[0, 0] == score_of(model, expected[0][1])


def test_logits_are_their_log_probabilities():
    """Compares scores computed from logits with float64. The bound is the stated error (2^-22 +
    2^-24 * ln2 * d for d <= 40 octaves in log Z), and half an ulp of numbers below 32 for the value
    and for each sum."""
    search = fairdraw.BeamSearch(1, 4, max_tokens=4)
    random = np.random.default_rng(3)
    live, error = [((), 0.0)], 0.0
    for _ in range(4):
        logits = (random.standard_normal((search.rows, 30)) * 3).astype(np.float32)
        wide = logits.astype(np.float64)
        rows = wide - np.log(np.exp(wide).sum(axis=1, keepdims=True))
        step = search.step(logits)
        live = [
            ((*live[parent][0], int(token)), live[parent][1] + rows[parent, token])
            for parent, token in zip(step.parents[0], step.tokens[0], strict=True)
        ]
        error += 2**-22 + 2**-24 * math.log(2) * 40 + 2 * 2**-20
        for b, (_, score) in enumerate(live):
            assert abs(step.scores[0, b] - score) < error
    best = search.result(2)
    assert best.tokens[0].tolist() == [list(sequence) for sequence, _ in live[:2]]


def test_requests_of_one_batch_do_not_know_of_each_other():
    vocab = 6
    widths, lengths, penalties = [1, 4, 2], [6, 2, 4], [0.0, 1.0, 0.5]
    ends = [[1], [], [2, 3]]
    models = [Model(number, vocab) for number in (7, 8, 9)]
    together = run(
        models, vocab, widths, max_tokens=lengths, end_ids=ends, length_penalty=penalties,
        early_stopping=[0, 1, 2],
    )  # fmt: skip
    for r, model in enumerate(models):
        found = search_by_hand(model, widths[r], lengths[r], ends[r], penalties[r], r)
        expect_best(together, r, widths[r], best_by_hand(found, penalties[r], widths[r]))


def test_a_request_that_fails_leaves_the_others():
    models = [Model(number, 5) for number in range(3)]
    rows = np.stack([model(()) for model in models])
    rows[1, 2] = math.nan
    search = fairdraw.BeamSearch(3, [2, 2, 2000], max_tokens=2)
    step = search.step(rows, logprobs=True)
    # The statuses are nan_input, and invalid_beam for the wrong width.
    assert step.statuses.tolist() == [0, 2, 22]
    assert step.live_beams.tolist() == [2, 0, 0] and search.rows == 2
    step = search.step(rows[[0, 0]], logprobs=True)
    assert step.statuses[0] == 0 and step.states[0] == 2
    assert search.done
    result = search.result(1)
    assert result.lengths[:, 0].tolist() == [2, 0, 0]
    assert search.step(rows[:0], logprobs=True).statuses[0] == 1  # done before: inactive


def test_row_begins_say_where_rows_are():
    model = Model(3, 5)
    padded = np.full((4, 5), math.nan, np.float32)
    padded[2] = model(())
    search = fairdraw.BeamSearch(1, 2, max_tokens=2)
    step = search.step(padded, logprobs=True, row_begins=[2])
    assert step.statuses.tolist() == [0]
    assert step.tokens[0].tolist() == np.argsort(-model(()))[:2].tolist()
    assert search.step(padded, logprobs=True, row_begins=[3]).statuses.tolist() == [10]


@pytest.mark.parametrize(
    "error, message, call",
    [
        (ValueError, "requests is -1; allowed: >= 0", lambda: beams(requests=-1)),
        (ValueError, "width is 0; allowed: 1 to 1024", lambda: beams(width=0)),
        (ValueError, "width is 1025; allowed: 1 to 1024", lambda: beams(width=1025)),
        (ValueError, r"width has shape \[3\]; a number or \[2\]", lambda: beams(width=[1, 2, 3])),
        (TypeError, "width holds float64; integers", lambda: beams(width=1.5)),
        (ValueError, "max_tokens is 0; allowed: 1 to", lambda: beams(max_tokens=0)),
        (ValueError, "early_stopping is 3; allowed: 0 to 2", lambda: beams(early_stopping=3)),
        (ValueError, "length_penalty is nan; allowed", lambda: beams(length_penalty=math.nan)),
        (ValueError, "length_penalty is inf; allowed", lambda: beams(length_penalty=math.inf)),
        (ValueError, "end_ids has 1 lists; 2 are needed", lambda: beams(end_ids=[[1]])),
        (TypeError, r"end_ids\[1\] holds float64", lambda: beams(end_ids=[[1], [0.5]])),
        (ValueError, "logits has 3 rows; 2 are needed", lambda: beams().step(ROWS[:3])),
        (TypeError, "logits has 1 axes; 2 are needed", lambda: beams().step(np.zeros(100))),
        (TypeError, "logits holds float64", lambda: beams().step(ROWS[:2].astype(np.float64))),
        (TypeError, "logprobs: a NumPy array", lambda: beams().step([[0.0]], logprobs=True)),
        (ValueError, r"row_begins has shape \[1\]", lambda: beams().step(ROWS, row_begins=[0])),
        (ValueError, "best is 0; allowed: 1 to 3", lambda: beams().result(0)),
        (ValueError, "best is 4; allowed: 1 to 3", lambda: beams().result(4)),
    ],
)  # fmt: skip
def test_what_is_refused_names_the_argument(error, message, call):
    with pytest.raises(error, match=message):
        call()


def test_a_first_step_that_is_refused_decides_nothing():
    torch = pytest.importorskip("torch")
    search = beams(end_ids=[0])
    wrong = [torch.zeros(2, 5).double(), torch.zeros(3, 5), torch.zeros(10)]
    for rows in wrong:
        with pytest.raises((TypeError, ValueError)):
            search.step(rows)
        assert isinstance(search.result().tokens, np.ndarray)  # no step has had torch tensors yet
    row = np.arange(5, dtype=np.float32)
    step, expected = (s.step(np.stack([row, row])) for s in (search, beams(end_ids=[0])))
    assert step.tokens.tolist() == expected.tokens.tolist() == [[4, 3, 2]] * 2


ROWS = np.zeros((4, 5), np.float32)


def beams(requests=2, width=3, max_tokens=4, **options):
    return fairdraw.BeamSearch(requests, width, max_tokens=max_tokens, **options)


def test_torch_gives_tensors_and_the_same_beams():
    torch = pytest.importorskip("torch")
    model = Model(5, 6)
    numpy, tensor = (fairdraw.BeamSearch(1, 2, max_tokens=3, end_ids=[0]) for _ in range(2))
    row = model(())[None]
    for _ in range(2):
        rows = np.repeat(row, numpy.rows, axis=0)
        expected = numpy.step(rows, logprobs=True)
        found = tensor.step(torch.from_numpy(rows), logprobs=True)
        assert found.tokens.dtype == torch.int32
        for left, right in zip(expected, found, strict=True):
            assert left.tolist() == right.tolist()
    assert tensor.result().tokens.tolist() == numpy.result().tokens.tolist()
    assert isinstance(tensor.result().tokens, torch.Tensor)
