"""Tests that BatchState and FusedSamplingProcessor equal `sample` and each other, whatever happens
to a batch. kernels/tests/serving tests sequences of events, and this file tests only the Python
layer."""

import pickle
import re
from pathlib import Path

import numpy as np
import pytest

import fairdraw

VOCAB = 100


def logits_of(step, rows=1):
    return np.random.default_rng(step).standard_normal((rows, VOCAB), np.float32) * 3


def state_of(**options):
    return fairdraw.BatchState(**{"vocab": VOCAB, "capacity": 4, "max_length": 64, **options})


def test_steps_are_sample_with_an_offset_that_advances():
    state = state_of()
    request = fairdraw.BatchRequest(
        temperature=0.7, top_k=40, top_p=0.9, min_p=0.01, seed=2**64 - 1, first_offset=5
    )
    assert state.add(9, request) == 0
    processor = fairdraw.FusedSamplingProcessor(state)
    drawn = []
    for step in range(5):
        processor.step(logits_of(step))
        tokens = processor.new_tokens()
        assert tokens.dtype == np.int32
        drawn += tokens.tolist()
        assert state.offset(9) == 5 + len(drawn)
    # The seeds are an array with one seed per output.
    want = [
        fairdraw.sample(
            logits_of(step),
            0.7,
            40,
            0.9,
            0.01,
            seed=np.array([2**64 - 1], np.uint64),
            offset=5 + step,
        )[0]
        for step in range(5)
    ]
    assert drawn == want == state.output(9)
    assert [tokens.tolist() for tokens in processor.generated_tokens()] == [drawn]


def test_a_hook_between_processing_and_draw():
    state = state_of()
    for request in range(3):
        banned = {"bias": {5: -np.inf}, "presence_penalty": 1.0, "seed": request}
        state.add(request, fairdraw.BatchRequest(temperature=0.7, top_k=20, **banned))
    state.remove(1)  # an empty slot
    processor, tokens = fairdraw.FusedSamplingProcessor(state), []
    for step in range(3):
        logits = logits_of(step, 3)
        rows = processor.logits_for_sampling(logits)
        assert rows.dtype == np.float32 and (rows[1] == -np.inf).all()
        for slot in (0, 2):
            seen = np.unique([drawn[slot] for drawn in tokens]).astype(int)
            expected = logits[slot].copy()
            expected[seen] -= 1
            expected[5] = -np.inf
            assert rows[slot].tolist() == expected.tolist()
        # The caller changes the logits: this request gets token 5, which its own processing bans.
        rows[2] = -np.inf
        rows[2, 5] = 0
        processor.step_processed(rows)
        tokens.append(processor.new_tokens().tolist())
        want = fairdraw.sample(
            rows[[0]], 0.7, 20, seed=np.zeros(1, np.uint64), offset=step
        )  # rows that are already processed are not processed again
        assert tokens[-1] == [want[0], -1, 5]
    assert state.output(2) == [5, 5, 5] and state.offset(0) == 3
    assert processor.get_new_tokens_numpy().dtype == np.int64
    assert processor.get_new_tokens_numpy().tolist() == tokens[-1]


def test_without_a_hook_a_step_in_two_is_a_step():
    drawn = []
    for in_two in (False, True):
        state = state_of(capacity=2)
        state.add(1, fairdraw.BatchRequest(top_p=0.9, repetition_penalty=1.5, seed=3, prompt=[7]))
        state.add(2, fairdraw.BatchRequest(temperature=0.5, allowed_ids=[1, 2, 3], seed=4))
        processor = fairdraw.FusedSamplingProcessor(state)
        words = np.full((2, 4), 0xFFFFFFFE, np.uint32)  # all but token 0
        for step in range(8):
            processor.update_bitmask(words)
            logits = logits_of(step, 2)
            if in_two:
                processor.step_processed(processor.logits_for_sampling(logits))
            else:
                processor.step(logits)
        drawn.append([state.output(1), state.output(2)])
    assert drawn[0] == drawn[1] and len(drawn[0][0]) == 8
    with pytest.raises(ValueError, match="vocab"):
        processor.logits_for_sampling(np.zeros((2, VOCAB - 1), np.float32))
    with pytest.raises(ValueError, match=r"logits\.rows is 1"):
        processor.step_processed(np.zeros((1, VOCAB), np.float32))


def test_log_probabilities_and_stops_of_a_step():
    state = state_of(capacity=2)
    state.add(1, fairdraw.BatchRequest(temperature=0, presence_penalty=100.0))
    state.add(2, fairdraw.BatchRequest(temperature=0))
    processor = fairdraw.FusedSamplingProcessor(state)
    logits = np.zeros((2, VOCAB), np.float32)
    logits[:, 8], logits[:, 9] = 1, 2
    for step in range(2):
        processor.step(logits)
        found = fairdraw.log_probabilities(logits, processor.new_tokens(), 1)
        total = np.log(np.exp(logits[0].astype(np.float64)).sum())
        # The reported values are the model's, whatever the penalties: first of logits 9 and 9, then
        # of 8 and 9.
        wanted = [(2 - step) - total, 2 - total]
        # The spacing of float32 numbers below 8 is at most 2^-21. There are two roundings, of the
        # sum and of the difference.
        assert np.abs(found.values - wanted).max() <= 2 * 2.0**-21
        assert found.top_ids.tolist() == [[9], [9]]
        stops = processor.check_stop(stop_sequences=[[], [[9, 9]]], max_tokens=2)
        reasons = [["NONE", "NONE"], ["LENGTH", "STOP_SEQUENCE"]][step]
        assert [fairdraw.FinishReason(r).name for r in stops.reasons] == reasons
        assert stops.output_lengths.tolist() == [step + 1] * 2


def test_every_field_of_a_request_changes_its_tokens():
    """Catches parameters that are accepted but have no effect."""
    row = np.linspace(0, 2, VOCAB, dtype=np.float32)[None, :]
    row[0, 7] = 4.0  # the greedy token
    base = {"seed": 3, "prompt": [7]}
    # With this temperature the token with the largest logit is almost certain.
    neutral = {"temperature": 1e-3}

    def tokens(**fields):
        state = state_of()
        state.add(1, fairdraw.BatchRequest(**{**base, **neutral, **fields}))
        processor = fairdraw.FusedSamplingProcessor(state)
        for _ in range(3):
            processor.step(row)
        return state.output(1)

    largest, second = 7, 99
    assert tokens() == [largest] * 3
    assert tokens(repetition_penalty=4.0)[0] == second  # token 7 is in the prompt
    assert tokens(repetition_penalty=4.0, repetition_of_prompt=False)[:2] == [largest, second]
    assert tokens(frequency_penalty=3.0) == [largest, second, 98]
    assert tokens(presence_penalty=3.0) == [largest, second, 98]
    assert tokens(bias={50: 100.0})[0] == 50
    assert tokens(bias={largest: -np.inf})[0] == second
    assert tokens(stop_ids=[largest], min_tokens=2) == [second, second, largest]
    assert tokens(bad_words=[[largest, largest]]) == [largest, second, largest]
    assert tokens(allowed_ids=[3]) == [3] * 3
    hot = tokens(temperature=100.0)
    assert hot != [largest] * 3
    assert tokens(temperature=100.0, top_k=1) == [largest] * 3
    assert tokens(temperature=100.0, top_p=0.0) == [largest] * 3
    assert tokens(temperature=100.0, min_p=1.0) == [largest] * 3
    assert tokens(temperature=100.0, top_n_sigma=0.01) == [largest] * 3
    assert tokens(temperature=100.0, typical_p=0.0) != hot
    assert tokens(temperature=100.0, epsilon_cutoff=1.0) == [largest] * 3
    assert tokens(temperature=100.0, eta_cutoff=1.0) != hot
    assert tokens(temperature=100.0, p_less=1) == [largest] * 3
    assert tokens(temperature=100.0, top_h=0.0) == [largest] * 3
    assert tokens(temperature=100.0, xtc_probability=1.0, xtc_threshold=0.0) != hot
    # The prompt and the first token are 7, 7, so that another 7 would repeat one id.
    assert tokens(dry_multiplier=100.0, dry_allowed_length=1) == [largest, second, largest]
    assert tokens(forced_tokens=[3, 4], forced_delay=1) == [largest, 3, 4]
    assert tokens(temperature=100.0, filter_chain=["top_k"], chain_top_k=1) == [largest] * 3
    cold = {"dynatemp_range": 100.0, "dynatemp_exponent": 2.0**64}  # h^e is 0
    assert tokens(temperature=100.0, **cold) == [largest] * 3
    assert tokens(temperature=100.0, top_p_decay=2.0**-20) == [hot[0], largest, largest]
    assert tokens(temperature=100.0, seed=4) != hot
    assert tokens(temperature=100.0, first_offset=1)[:2] == hot[1:]


@pytest.mark.parametrize("history", ["lists", "dense"])
def test_a_request_goes_on_where_it_was(history):
    request = fairdraw.BatchRequest(
        seed=11,
        frequency_penalty=0.5,
        bias={3: -1.5, 4: -np.inf},
        bad_words=[[5], [6, 7]],
        stop_ids=[1],
        min_tokens=4,
        allowed_ids=range(50),
        prompt=np.arange(10),
    )
    alone = state_of()
    alone.add(1, request)
    processor = fairdraw.FusedSamplingProcessor(alone)
    for step in range(6):
        processor.step(logits_of(step))

    state = state_of(history=history)
    state.add(1, request)
    processor = fairdraw.FusedSamplingProcessor(state)
    for step in range(3):
        processor.step(logits_of(step))
    snapshot = pickle.loads(pickle.dumps(state.evict(1)))
    assert 1 not in state and len(state) == 0
    assert snapshot.output == tuple(alone.output(1)[:3])
    elsewhere = state_of(capacity=3)
    elsewhere.add(2, fairdraw.BatchRequest(seed=5))
    assert elsewhere.restore(snapshot, slot=2) == 2
    processor = fairdraw.FusedSamplingProcessor(elsewhere)
    for step in range(3, 6):
        rows = np.concatenate([logits_of(100), logits_of(101), logits_of(step)])
        processor.step(rows)
        if step == 4:
            assert elsewhere.compact() == [(2, 1)]
            elsewhere.swap(1, 2)
    assert elsewhere.output(1) == alone.output(1)
    assert elsewhere.prompt(1) == list(range(10))


def test_offsets_and_rows():
    def run(rows):
        state = state_of()
        for number in range(3):
            state.add(number, fairdraw.BatchRequest(seed=number))
        processor = fairdraw.FusedSamplingProcessor(state)
        offsets = np.array([0, 3, 3, 5], np.uint32)
        processor.step(logits_of(1, rows=6), offsets, rows=rows)
        return state, processor

    state, processor = run("last")
    assert processor.new_token_counts().tolist() == [1, 0, 1]
    assert processor.statuses().tolist() == [0, 1, 0]
    assert processor.new_tokens()[1] == -1
    everything, processor = run("all")
    assert processor.new_token_counts().tolist() == [3, 0, 2]
    assert everything.output(1) == []
    assert processor.new_tokens().tolist() == [
        everything.output(0)[-1],
        -1,
        everything.output(2)[-1],
    ]


def test_bitmask_and_copy():
    state = state_of()
    state.add(1)
    processor = fairdraw.FusedSamplingProcessor(state)
    packed = np.zeros((1, 4), np.int32)
    packed[0, 1] = 1 << 5  # token 37
    processor.update_bitmask(packed)
    processor.step(logits_of(1))
    with pytest.raises(RuntimeError, match="no copy was started"):
        processor.wait_for_tokens()
    processor.start_async_token_copy()
    processor.clear_bitmask()
    processor.step(logits_of(2))
    processor.step(logits_of(3))
    assert processor.wait_for_tokens().tolist() == [37]
    copied = processor.wait_for_tokens(return_details=True)
    assert [array.tolist() for array in copied] == [[37], [1], [0]]
    assert len(state.output(1)) == 3
    processor.bring_changes()  # for GPUs only
    processor.catch_up()
    assert len(state.output(1)) == 3


def test_new_tokens_come_by_a_copy_that_was_started_or_by_one_made_now():
    state = state_of()
    state.add(1, fairdraw.BatchRequest(temperature=0.0))
    processor = fairdraw.FusedSamplingProcessor(state)
    with pytest.raises(ValueError, match="number of steps is 0; allowed: >= 1"):
        processor.get_new_tokens()
    greedy = [int(logits_of(step).argmax()) for step in range(4)]
    processor.step(logits_of(0))
    assert processor.get_new_tokens().tolist() == greedy[:1]
    processor.step(logits_of(1))
    processor.start_async_token_copy()
    processor.step(logits_of(2))
    assert processor.get_new_tokens().tolist() == greedy[1:2]  # the started copy
    found = processor.get_new_tokens(return_details=True)
    assert found.tokens.tolist() == greedy[2:3] and found.counts.tolist() == [1]
    processor.step(logits_of(3))
    for _ in range(2):  # on the CPU, a caller can wait only for the last copy
        processor.start_async_token_copy()
    assert processor.get_new_tokens().tolist() == greedy[3:]
    assert state.output(1) == greedy


def test_what_is_refused_names_the_field_and_changes_nothing():
    state = state_of(capacity=1)
    processor = fairdraw.FusedSamplingProcessor(state)
    bad = [
        ({"temperature": -1.0}, "temperature is -1; allowed: 0, or 2^-126 to 2^64"),
        ({"typical_p": 1.5}, "typical_p is 1.5; allowed: 0 to 1"),
        ({"eta_cutoff": -1}, "eta_cutoff is -1; allowed: 0 to 1"),
        ({"p_less": 2}, "p_less is 2; allowed: 0 to 1"),
        ({"xtc_seed": -1}, "xtc_seed is -1; allowed: 0 to 18446744073709551615"),
        ({"dry_base": 0.5}, "dry_base is 0.5; allowed: 1 to 2^64"),
        ({"forced_tokens": [VOCAB]}, "forced_tokens[0] is 100; allowed: 0 to 99"),
        ({"top_k": 2**40}, "top_k is 1099511627776; allowed: -2147483648 to 2147483647"),
        ({"seed": -1}, "seed is -1; allowed: 0 to 18446744073709551615"),
        ({"bias": {0: float("nan")}}, "bias[0].bias is nan; allowed: -inf, or -2^64 to 2^64"),
        ({"stop_ids": [5, 2**33]}, "stop_ids[1] is 8589934592; allowed: an id of the vocabulary"),
        ({"bad_words": [[1], []]}, "length of bad_words[1] is 0; allowed: >= 1"),
        ({"prompt": [VOCAB]}, "prompt[0] is 100; allowed: -1 to 99"),
    ]
    for fields, message in bad:
        with pytest.raises(ValueError) as error:
            state.add(1, fairdraw.BatchRequest(**fields))
        assert str(error.value) == message
        assert len(state) == 0
    state.add(1)
    calls = [
        (lambda: state.add(1), "request id is 1; allowed: an id that is not in the batch"),
        (lambda: state.add(2), "number of requests is 2; allowed: 0 to 1 (capacity)"),
        (lambda: state.add(2, slot=-1), "slot is -1; allowed: 0 to 0"),
        (lambda: state.add(2, slot=0), "slot is 0; allowed: a free slot; request 1 is in this one"),
        (lambda: state.remove(2), "request id is 2; allowed: the id of a request in the batch"),
        (lambda: state.evict(2), "request id is 2; allowed: the id of a request in the batch"),
        (lambda: state.output(2), "request id is 2; allowed: the id of a request in the batch"),
        (lambda: state.append(1, [VOCAB]), "tokens[0] is 100; allowed: 0 to 99"),
        (lambda: state.append_step([0, -1]), "length of tokens is 2; allowed: 0 to 1"),
        (lambda: state.swap(0, 1), "second is 1; allowed: 0 to 0 (capacity - 1)"),
        (lambda: fairdraw.BatchState(0, 1, 1), "vocab is 0; allowed: 1 to 1048576"),
        (lambda: state_of(history="sparse"), "history is 'sparse'; allowed: 'lists', 'dense'"),
        (
            lambda: processor.step(logits_of(1, 2)),
            "logits.rows is 2; allowed: 1 (slots in use) to 1",
        ),
        (lambda: processor.step(logits_of(1)[:, :99]), "length of a row of logits is 99"),
        (lambda: processor.step(logits_of(1), rows="first"), "rows is 'first'; allowed: 'last'"),
        (
            lambda: processor.step(logits_of(1), np.array([0, 2])),
            "logit_offsets[1] is 2; allowed: 0 to 1",
        ),
        (
            lambda: processor.step(logits_of(1), np.zeros(0, np.int64)),
            "logit_offsets has 0 values; allowed: >= 1 (requests + 1)",
        ),
        (
            lambda: processor.update_bitmask(np.zeros((1, 3), np.uint32)),
            "packed: 3 words per row, 1 apart; allowed: >= 4 (ceil(vocab / 32)), side by side",
        ),
    ]
    for call, message in calls:
        with pytest.raises(ValueError) as error:
            call()
        assert message in str(error.value)
        assert state.output(1) == [] and len(state) == 1
    with pytest.raises(TypeError, match="logit_offsets holds float64"):
        processor.step(logits_of(1), np.array([0.0, 1.0]))
    for dtype in (np.uint8, np.float32):
        held = f"packed holds {np.dtype(dtype)}; packed words of uint32 or int32 are needed"
        with pytest.raises(TypeError, match=held):
            processor.update_bitmask(np.zeros((1, 4), dtype))


def test_torch_gives_tensors_and_the_same_tokens():
    torch = pytest.importorskip("torch")
    outputs = []
    for convert in (np.asarray, torch.from_numpy):
        state = state_of()
        state.add(1, fairdraw.BatchRequest(seed=2), slot=1)
        processor = fairdraw.FusedSamplingProcessor(state)
        for step in range(4):
            offsets = convert(np.array([0, 0, 2]))
            processor.step(convert(logits_of(step, 2)), offsets)
        outputs.append(state.output(1))
    assert outputs[0] == outputs[1]
    assert processor.new_tokens().dtype == torch.int32
    assert processor.new_tokens().tolist() == [-1, outputs[0][-1]]
    narrow = torch.from_numpy(logits_of(1, 2)).bfloat16()
    processor.step(narrow)
    wide = state.output(1)[-1]
    assert processor.new_tokens().tolist() == [-1, wide]


def test_a_device_that_is_not_there_is_named():
    state = state_of()
    assert fairdraw.FusedSamplingProcessor(state, "cpu").new_tokens().tolist() == []
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match="device is 'meta'; allowed: 'cpu', 'cuda'"):
        fairdraw.FusedSamplingProcessor(state, "meta")
    if torch.cuda.is_available():
        return
    with pytest.raises((RuntimeError, AssertionError), match="CUDA|NVIDIA"):  # torch's message
        fairdraw.FusedSamplingProcessor(state, "cuda")


def test_a_processor_keeps_its_state():
    processor = fairdraw.FusedSamplingProcessor(state_of())
    processor.step(np.empty((0, VOCAB), np.float32))
    assert processor.new_tokens().tolist() == []


def test_the_readmes_example(capsys):
    text = (Path(__file__).parent.parent / "README.md").read_text()
    (block,) = re.findall(r"^```python\n([^`]*BatchState\(.*?)^```$", text, re.M | re.S)
    names = {}
    exec(block, names)
    assert len(names["state"].output(17)) == 3
    assert capsys.readouterr().out.startswith(str(names["state"].output(17)))
