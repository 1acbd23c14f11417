"""Tests marked draws and the detector of watermarks."""

import math

import numpy as np
import pytest

import fairdraw
from fairdraw import RequestProcessing

VOCAB = 300


def logits_of(rows=4, seed=3):
    return np.random.default_rng(seed).normal(0, 2, (rows, VOCAB)).astype(np.float32)


def threefry(key, counter):
    """Returns a block of Threefry2x32-20 (Salmon et al. 2011)."""
    mask = 2**32 - 1
    keys = [key & mask, key >> 32]
    keys.append(keys[0] ^ keys[1] ^ 0x1BD11BDA)
    x, y = (counter + keys[0]) & mask, ((counter >> 32) + keys[1]) & mask
    for i in range(20):
        turn = (13, 15, 26, 6, 17, 29, 16, 24)[i % 8]
        x = (x + y) & mask
        y = ((y << turn) | (y >> (32 - turn))) & mask ^ x
        if i % 4 == 3:
            add = i // 4 + 1
            x, y = (x + keys[add % 3]) & mask, (y + keys[(add + 1) % 3] + add) & mask
    return x | y << 32


def words_of(key, output, window, tokens):
    """Returns the words of tokens after an output, by the definition."""
    state = threefry(key, window)
    for token in ([-1] * window + list(output))[-window:]:
        state = threefry(state, token + 1)
    return [threefry(state, token) for token in tokens]


def test_the_token_is_the_winner_of_the_race():
    logits = logits_of()
    outputs = [[], [5], [7, 8, 9], list(range(20))]
    drawn = fairdraw.sample_marked(logits, 0.9, 30, key=11, outputs=outputs, seed=1)
    details = fairdraw.sample(logits, 0.9, 30, seed=1, return_details=True)
    for row, output in enumerate(outputs):
        kept = details.probs[row].nonzero()[0].tolist()
        times = [
            (math.log1p(-(2**64 - word - 0.5) / 2**64) / -float(details.probs[row, token]), token)
            for word, token in zip(words_of(11, output, 4, kept), kept, strict=True)
        ]
        times.sort()
        # Probabilities are float32, so times are off by at most 2^-23 or so.
        assert times[0][0] < times[1][0] * (1 - 1e-5)
        assert drawn.tokens[row] == times[0][1]
    assert (drawn.statuses == 0).all() and drawn.seed == 1
    filtered = np.log(details.probs[np.arange(4), drawn.tokens].astype(np.float64))
    assert np.allclose(drawn.logprobs, filtered, rtol=2**-20, atol=2**-20)


def test_rows_without_a_key_and_repeated_contexts_draw_as_sample_does():
    logits = logits_of()
    seeds = np.arange(4, dtype=np.uint64)
    keys = np.array([0, 5, 2**64 - 1, 0], np.uint64)
    outputs = [[1], [2], [3, 1, 3], [4]]
    plain = fairdraw.sample(logits, top_p=0.9, seed=seeds)
    call = dict(top_p=0.9, key=keys, outputs=outputs, window=1, seed=seeds)
    drawn = fairdraw.sample_marked(logits, **call)
    assert (drawn.tokens == plain)[[0, 2, 3]].all()
    unmasked = fairdraw.sample_marked(logits, **call, mask_repeated=[True, True, False, False])
    assert (drawn.tokens == unmasked.tokens)[[0, 1, 3]].all()
    alone = fairdraw.sample_marked(logits[2:3], top_p=0.9, key=keys[2:3], outputs=[[3]], window=1)
    assert unmasked.tokens[2] == alone.tokens[0]
    processing = [RequestProcessing(output=output, frequency_penalty=0.5) for output in outputs]
    del call["outputs"]
    penalised = fairdraw.sample_marked(logits, **call, processing=processing)
    same = fairdraw.sample(logits, top_p=0.9, seed=seeds, processing=processing)
    assert (penalised.tokens == same)[[0, 2, 3]].all()


def test_two_keys_share_the_draws():
    logits = np.tile(logits_of(1), (200, 1))
    call = dict(outputs=[[]] * 200, seed=np.arange(200, dtype=np.uint64))
    first, second = (fairdraw.sample_marked(logits, key=key, **call).tokens for key in (3, 4))
    assert (first == first[0]).all() and (second == second[0]).all() and first[0] != second[0]
    both = fairdraw.sample_marked(logits, key=3, second_key=4, second_share=0.5, **call).tokens
    assert set(both.tolist()) == {first[0], second[0]}
    for share, expected in ((0, first), (1, second)):
        drawn = fairdraw.sample_marked(logits, key=3, second_key=4, second_share=share, **call)
        assert (drawn.tokens == expected).all()


def test_marked_text_is_found_and_its_key_named():
    keys = np.array([101, 102, 103], np.uint64)
    texts = [[] for _ in keys]
    for step in range(100):
        logits = logits_of(3, seed=step)
        drawn = fairdraw.sample_marked(logits, key=keys, outputs=texts, seed=5, offset=step)
        for text, token in zip(texts, drawn.tokens.tolist(), strict=True):
            text.append(token)
    for place, text in enumerate(texts):
        found = fairdraw.detect_watermark(text, keys)
        assert found.p_value < 1e-6 and found.log_e_value > math.log(1e6)
        assert found.key == place and found.scored == 100
        assert found.score >= fairdraw.watermark_threshold(100, 1e-6, keys=3)
        # By the definition of the score.
        words = [words_of(int(keys[place]), text[:i], 4, text[i : i + 1])[0] for i in range(100)]
        score = sum(64 * math.log(2) - math.log(2**64 - word - 0.5) for word in words)
        assert math.isclose(found.score, score, rel_tol=1e-12)
        # One text in a million has such a p-value under 1000 other keys.
        assert fairdraw.detect_watermark(text, range(1000, 2000)).p_value > 1e-6
    assert fairdraw.detect_watermark([], 5) == (0, 0.0, 0, 1.0, 0.0)


def test_tensors_are_taken():
    torch = pytest.importorskip("torch")
    logits = logits_of()
    outputs = [[1, 2], [], [3], [4]]
    expected = fairdraw.sample_marked(logits, key=7, outputs=outputs, seed=1)
    drawn = fairdraw.sample_marked(torch.from_numpy(logits), key=7, outputs=outputs, seed=1)
    assert isinstance(drawn.tokens, torch.Tensor)
    assert (drawn.tokens.numpy() == expected.tokens).all()
    text = torch.tensor([1, 2, 3], dtype=torch.int32)
    assert fairdraw.detect_watermark(text, 5) == fairdraw.detect_watermark([1, 2, 3], 5)


@pytest.mark.parametrize(
    "changed, message",
    [
        ({"key": 0}, "key is 0; allowed: 1 to 18446744073709551615"),
        ({"key": [1, 2, 3]}, r"key has shape \[3\]; a number or \[4\] \(one per row\) is needed"),
        ({"window": 0}, "window is 0; allowed: 1 to 32"),
        ({"window": 33}, "window is 33; allowed: 1 to 32"),
        ({"second_share": 1.5}, r"second_share is 1.5\d*; allowed: 0 to 1"),
        ({"outputs": None}, "outputs: are not given; allowed: outputs or processing"),
        ({"outputs": [[]]}, "outputs has 1 lists; 4 are needed, one per row"),
        ({"processing": [RequestProcessing()] * 4}, "outputs: are given together with processing"),
    ],
)
def test_wrong_arguments_are_refused_by_name(changed, message):
    call = {"key": 5, "outputs": [[]] * 4, **changed}
    with pytest.raises(ValueError, match=message):
        fairdraw.sample_marked(logits_of(), **call)


def test_an_unknown_id_fails_its_row():
    drawn = fairdraw.sample_marked(
        logits_of(), key=np.array([5, 5, 0, 5]), outputs=[[1, -1], [VOCAB], [-1], [2]]
    )
    assert (drawn.statuses != 0).tolist() == [True, True, False, False]
    assert (drawn.tokens == -1).tolist() == [True, True, False, False]


def test_wrong_texts_are_refused_by_name():
    for tokens, key, window, message in (
        ([1, -1], 5, 4, r"tokens\[1\] is -1; allowed: 0 to 1048575"),
        ([1], 0, 4, r"keys\[0\] is 0; allowed: 1 to 2\^64 - 1"),
        ([1], [], 4, "keys is empty"),
        ([1], 5, 0, "window is 0; allowed: 1 to 32"),
    ):
        with pytest.raises(ValueError, match=message):
            fairdraw.detect_watermark(tokens, key, window)
    with pytest.raises(TypeError, match="tokens holds"):
        fairdraw.detect_watermark([0.5], 5)
    with pytest.raises(ValueError, match="false_positive_rate is 0.0"):
        fairdraw.watermark_threshold(10, 0)


def test_green_tokens_have_greater_biases():
    logits = logits_of(1)
    green = [word < 2**64 // 4 for word in words_of(11, [5], 4, range(VOCAB))]
    expected = (logits + np.where(green, np.float32(3), np.float32(0))).astype(np.float32)
    marked = fairdraw.sample_marked(
        logits, top_k=30, key=11, outputs=[[5]], seed=9, scheme="green_list", green_bias=3.0
    )
    assert marked.tokens.tolist() == fairdraw.sample(expected, top_k=30, seed=9).tolist()


@pytest.mark.parametrize("rule", [{"scheme": "tournament", "layers": 20}, {"scheme": "green_list"}])
def test_counts_are_those_of_the_words(rule):
    ids = np.random.default_rng(1).integers(0, VOCAB, 50).tolist()
    words = [words_of(11, ids[:i], 2, [token])[0] for i, token in enumerate(ids)]
    found = fairdraw.detect_watermark(ids, 11, 2, **rule)
    if rule["scheme"] == "tournament":
        assert found.score == sum((word >> 44).bit_count() for word in words)
    else:
        assert found.score == sum(word < 2**62 for word in words)
    assert found.scored == 50
    threshold = fairdraw.watermark_threshold(50, 1e-6, **rule)
    assert (found.score >= threshold) == (found.p_value <= 1e-6)


def test_a_scheme_that_does_not_exist():
    message = "scheme is 'red'; allowed: 'race', 'tournament', 'green_list'"
    with pytest.raises(ValueError, match=message):
        fairdraw.detect_watermark([1], 1, scheme="red")
    with pytest.raises(ValueError, match="layers is 65; allowed: 1 to 64"):
        fairdraw.detect_watermark([1], 1, layers=65)
