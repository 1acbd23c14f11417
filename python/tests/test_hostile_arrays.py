"""Tests that strides beyond the address space are refused by name, before any element is read.

NumPy makes arrays with such strides (numpy.lib.stride_tricks), and crashes when it reads them.
"""

import numpy as np
import pytest

import fairdraw

ROWS, VOCAB = 2, 40
LOGITS = np.zeros((ROWS, VOCAB), np.float32)
PROBS = np.full((ROWS, VOCAB), 1 / VOCAB, np.float32)
TARGETS = np.zeros((ROWS, 2, VOCAB), np.float32)
DRAFTED = np.zeros((ROWS, 1), np.int32)
CHAIN = {"logits": TARGETS, "draft_token_ids": DRAFTED, "seed": 1}
WORDS = np.full((ROWS, 2), 2**32 - 1, np.uint32)
FLOATS = np.ones(ROWS, np.float32)
INTS = np.ones(ROWS, np.int32)
SEEDS = np.ones(ROWS, np.uint64)
FLAGS = np.ones(ROWS, np.uint8)

#: Strides in bytes along the first axis of an array.
STRIDES = [2**60, 2**62, -(2**62), 2**63 - 2**10, -(2**63)]

SAMPLE = {
    "logits": LOGITS,
    "temperature": FLOATS,
    "top_k": INTS,
    "top_p": FLOATS,
    "min_p": FLOATS,
    "seed": SEEDS,
    "offset": SEEDS,
    "indices": np.arange(ROWS, dtype=np.int32),
    "allowed": WORDS,
    "active": FLAGS,
}
VERIFY = {
    "temperature": FLOATS,
    "top_k": INTS,
    "top_p": FLOATS,
    "min_p": FLOATS,
    "offset": SEEDS,
    "allowed": np.full((2 * ROWS, 2), 2**32 - 1, np.uint32),
    "active": FLAGS,
    "draft_lengths": INTS,
    "draft_probs": PROBS.reshape(ROWS, 1, VOCAB),
}

STOP = {
    "step_tokens": INTS,
    "output": np.ones((ROWS, 3), np.int32),
    "output_lengths": INTS,
    "eos_id": INTS + 1,
    "ignore_eos": FLAGS,
    "min_tokens": INTS,
    "max_tokens": INTS + 5,
    "active": FLAGS,
}


def beam_step(rows, row_begins):
    return fairdraw.BeamSearch(ROWS, 1, max_tokens=4).step(rows, row_begins=row_begins)


def serving_step(logits, logit_offsets):
    state = fairdraw.BatchState(VOCAB, ROWS, 8)
    state.add(5)
    fairdraw.FusedSamplingProcessor(state).step(logits, logit_offsets)


def serving_bitmask(packed):
    state = fairdraw.BatchState(VOCAB, ROWS, 8)
    state.add(5)
    fairdraw.FusedSamplingProcessor(state).update_bitmask(packed)


#: A function, valid arguments, and the names of the arguments that the test breaks one at a time.
CALLS = [
    (fairdraw.sample, SAMPLE, list(SAMPLE)),
    (fairdraw.log_probabilities, {"logits": LOGITS, "token_ids": DRAFTED}, None),
    (fairdraw.softmax, {"logits": LOGITS, "temperature": FLOATS}, None),
    (fairdraw.top_k_renorm_probs, {"probs": PROBS, "top_k": INTS}, None),
    (fairdraw.top_p_renorm_probs, {"probs": PROBS, "top_p": FLOATS}, None),
    (fairdraw.top_k_mask_logits, {"logits": LOGITS, "top_k": INTS}, None),
    (fairdraw.top_p_mask_logits, {"logits": LOGITS, "top_p": FLOATS}, None),
    (fairdraw.sampling_from_probs, {"probs": PROBS, "indices": INTS, "seed": SEEDS}, None),
    (fairdraw.min_p_sampling_from_probs, {"probs": PROBS, "min_p": FLOATS, "seed": 1}, ["min_p"]),
    (
        fairdraw.chain_speculative_sampling,
        {
            "draft_probs": PROBS.reshape(ROWS, 1, VOCAB),
            "draft_token_ids": DRAFTED,
            "target_probs": np.full((ROWS, 2, VOCAB), 1 / VOCAB, np.float32),
            "seed": SEEDS,
            "offset": SEEDS,
        },
        None,
    ),
    (fairdraw.accept_chain, {**CHAIN, **VERIFY}, [*CHAIN, *VERIFY]),
    (
        fairdraw.accept_tree,
        {**CHAIN, **VERIFY, "parents": DRAFTED - 1, "draft_probs": TARGETS + 1},
        [*CHAIN, *VERIFY, "parents"],
    ),
    (
        fairdraw.parents_from_links,
        {"retrieve_next_token": DRAFTED - 1, "retrieve_next_sibling": DRAFTED - 1},
        None,
    ),
    (fairdraw.check_stop, STOP, None),
    (fairdraw.child_seeds, {"seeds": SEEDS, "n": 2}, None),
    (
        fairdraw.add_logprobs,
        {"cumulative": np.zeros(ROWS), "logprobs": np.zeros((ROWS, 2), np.float32), "kept": INTS},
        None,
    ),
    (
        fairdraw.best_of,
        {
            "cumulative": np.zeros((ROWS, 2)),
            "n": 1,
            "lengths": np.ones((ROWS, 2), np.int32),
            "length_penalty": np.ones(ROWS),
            "statuses": np.zeros((ROWS, 2), np.int32),
        },
        None,
    ),
    (beam_step, {"rows": LOGITS, "row_begins": np.arange(ROWS)}, None),
    (serving_step, {"logits": LOGITS, "logit_offsets": np.arange(ROWS + 1)}, None),
    (serving_bitmask, {"packed": WORDS}, None),
]
#: Maps an argument's name to the name that the called function uses for an argument of a beam
#: search step.
OTHER_NAMES = {"beam_step-rows": "logits"}
CASES = [
    pytest.param(function, arguments, name, id=f"{function.__name__}-{name}")
    for function, arguments, names in CALLS
    for name in (names or arguments)
    if isinstance(arguments[name], np.ndarray)
]


def with_stride(array, stride):
    return np.lib.stride_tricks.as_strided(array, strides=(stride, *array.strides[1:]))


@pytest.mark.parametrize(("function", "arguments", "name"), CASES)
def test_a_stride_beyond_memory_is_refused(function, arguments, name):
    function(**arguments)  # is valid
    named = OTHER_NAMES.get(f"{function.__name__}-{name}", name)
    for stride in STRIDES:
        broken = {**arguments, name: with_stride(arguments[name], stride)}
        with pytest.raises(ValueError, match=f"^{named}.*(stride|span)") as raised:
            function(**broken)
        assert "allowed: " in str(raised.value), stride


def test_strides_that_memory_has_are_taken():
    apart = np.zeros((ROWS, 3, VOCAB), np.float32)[:, 1]
    backwards = np.array([1.0, 2.0], np.float32)[::-1]
    everywhere = np.broadcast_to(np.uint64(7), (ROWS,))
    expected = fairdraw.sample(LOGITS, temperature=np.array([2.0, 1.0]), seed=np.full(ROWS, 7))
    got = fairdraw.sample(apart, temperature=backwards, seed=everywhere)
    assert (got == expected).all()


def test_drafted_tokens_beyond_int32_are_no_tokens():
    # Truncated to int32 these ids would become token 0, which the draft never proposes.
    target = np.full((ROWS, 2, VOCAB), 1 / VOCAB, np.float32)
    draft = PROBS.reshape(ROWS, 1, VOCAB)
    for token in (2**32, 2**33, -(2**32), 2**63 - 1, -(2**63)):
        ids = np.array([[token], [3]], np.int64)
        tokens, accepted, emitted = fairdraw.chain_speculative_sampling(
            draft, ids, target, seed=np.arange(ROWS, dtype=np.uint64)
        )
        assert tokens[0].tolist() == [-1, -1], token
        assert (accepted[0], emitted[0]) == (0, 0), token
        assert tokens[1, 0] >= 0, token
