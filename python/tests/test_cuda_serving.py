"""Tests beams, stop criteria and the processor on a GPU. Each call must give the CPU's results
without waiting, also in a CUDA graph.

The tests are skipped without torch, a GPU, or the package's CUDA part.
"""

import numpy as np
import pytest

import fairdraw
from cuda_tensors import expect_same, same_on_both, torch

# --- Beams ---------------------------------------------------------------------------------------


def table_of(number, vocab=50):
    """Returns a model as a table: the log-probabilities after each last token."""
    random = np.random.default_rng(number)
    logits = torch.from_numpy(random.standard_normal((vocab, vocab), np.float32) * 2)
    return logits.log_softmax(-1)


def expect_beams(here, there):
    """Expects steps to be equal, except for scores, which may differ in the last unit of a
    power."""
    for name in ("parents", "tokens", "live_beams", "states", "statuses", "lengths", "cumulative"):
        if hasattr(here, name):
            expect_same(getattr(here, name), getattr(there, name))
    scores, others = here.scores, there.scores.cpu()
    assert torch.equal(scores.isinf(), others.isinf())
    finite = scores.isfinite()
    # The bound is one unit in the last place for the power, and one rounding of the quotient.
    unit = 2 * torch.finfo(torch.float32).eps * scores[finite].abs()
    assert bool(((scores - others)[finite].abs() <= unit).all())


def beam_rows(table, step):
    """Returns the rows of the live beams, request after request, on the device of the step."""
    live = step.tokens[(step.tokens >= 0) & (step.states == 0)[:, None]]
    return table.to(live.device)[live.long()]


OPTIONS = {
    "width": [4, 1, 3],
    "max_tokens": [6, 4, 5],
    "end_ids": [[1], [1, 2, 3], []],
    "length_penalty": [1.0, 0.0, 0.7],
    "early_stopping": [1, 0, 2],
}


def test_a_search_is_that_of_the_cpu():
    table = table_of(1)
    table[:, 1:4] += 3
    here, there = (fairdraw.BeamSearch(3, **OPTIONS) for _ in range(2))
    rows = table[:3]
    other = rows.cuda()
    steps = 0
    while not here.done:
        assert not there.done and there.rows == here.rows == len(rows)
        step, same = here.step(rows, logprobs=True), there.step(other, logprobs=True)
        expect_beams(step, same)
        rows, other = beam_rows(table, step), beam_rows(table, same)
        steps += 1
    assert there.done and steps >= 4
    for best in (1, 3):
        expect_beams(here.result(best), there.result(best))
    with pytest.raises(ValueError, match="logits is on cpu; the search is on cuda:0"):
        there.step(rows)


def test_a_search_over_logits_finds_the_same_beams():
    # Logits may have any shift or scale, because softmax normalises them.
    logits = table_of(2) * 1.5 + 3
    here, there = (fairdraw.BeamSearch(2, 4, max_tokens=5, end_ids=[0]) for _ in range(2))
    rows, other = logits[:2], logits[:2].cuda()
    while not here.done:
        step, same = here.step(rows), there.step(other)
        for name in ("parents", "tokens", "live_beams", "states", "statuses"):
            expect_same(getattr(step, name), getattr(same, name))
        rows, other = beam_rows(logits, step), beam_rows(logits, same)
    expect_same(here.result(2).tokens, there.result(2).tokens)


def test_a_search_in_a_graph_makes_a_step_at_each_replay():
    table, width, requests = table_of(3), 4, 2
    options = {"max_tokens": 8, "end_ids": [1], "length_penalty": 1.0}
    here, there = (fairdraw.BeamSearch(requests, width, **options) for _ in range(2))
    step = here.step(table[:requests], logprobs=True)
    begins = torch.arange(requests, device="cuda") * width
    tokens = there.step(table[:requests].cuda(), logprobs=True).tokens
    weights = table.cuda()

    def call():  # one row for every beam slot, live or not
        found = there.step(
            weights[tokens.clamp(min=0).long().flatten()], logprobs=True, row_begins=begins
        )
        tokens.copy_(found.tokens)
        return found

    want = here.step(beam_rows(table, step), logprobs=True)
    expect_beams(want, call())  # loads the kernels before the graph is captured
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = call()
    while not here.done:
        want = here.step(beam_rows(table, want), logprobs=True)
        graph.replay()
        expect_beams(want, found)
    expect_beams(here.result(2), there.result(2))


def test_the_first_step_of_a_search_is_not_captured():
    rows = table_of(4)[:1].cuda()
    search = fairdraw.BeamSearch(1, 2, max_tokens=3)
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        kept = rows + 1  # torch warns about a graph capture without work
        with pytest.raises(RuntimeError, match="the first step brings the search to the GPU"):
            search.step(rows)
    assert kept.shape == rows.shape


def test_a_first_step_that_is_refused_decides_nothing():
    rows = table_of(4)[:1]
    search = fairdraw.BeamSearch(1, 2, max_tokens=3)
    for wrong in (rows.double(), rows[0]):
        with pytest.raises(TypeError):
            search.step(wrong.cuda())
    expected = fairdraw.BeamSearch(1, 2, max_tokens=3).step(rows)
    assert torch.equal(
        search.step(rows).tokens, expected.tokens
    )  # the search is still on the CPU after the refused steps


def test_steps_of_a_search_do_not_wait():
    rows = table_of(5)[:1].cuda()
    search = fairdraw.BeamSearch(1, 1, max_tokens=5)
    search.step(rows)
    torch.cuda.set_sync_debug_mode("error")
    try:
        search.step(rows)
        search.result()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert search.rows == 1


# --- Stop criteria -------------------------------------------------------------------------------


def test_stops_are_those_of_the_cpu():
    random = np.random.default_rng(1)
    requests = 64
    seen = set()
    for number in range(20):
        tokens = torch.from_numpy(random.integers(0, 8, (requests, 3)))
        history = torch.from_numpy(random.integers(0, 8, (requests, 6)))
        lengths = torch.from_numpy(random.integers(0, 7, requests))
        found = same_on_both(
            fairdraw.check_stop, tokens, output=history, output_lengths=lengths,
            eos_id=torch.from_numpy(random.integers(-1, 8, requests)),
            ignore_eos=torch.from_numpy(random.random(requests) < 0.3), stop_ids=[7, 6],
            stop_sequences=[[[1, 2], [3]] if i % 2 else [] for i in range(requests)],
            min_tokens=torch.from_numpy(random.integers(0, 4, requests)), max_tokens=7, vocab=8,
            active=torch.from_numpy(random.random(requests) < 0.9),
        )  # fmt: skip
        seen |= set(found.reasons.tolist())
        same_on_both(fairdraw.check_stop, tokens[:, 0], max_tokens=1 + number % 2)
    assert seen == {0, 1, 2, 3, 4}
    outputs = [[int(token)] * (i % 3) for i, token in enumerate(tokens[:, 0])]
    same_on_both(fairdraw.check_stop, tokens, output=outputs, stop_sequences=[[[1, 1]]] * requests)


def test_stops_that_cannot_be_looked_up_fail_alone():
    tokens = torch.tensor([1, 2], device="cuda")
    history = torch.zeros(2, 4, dtype=torch.int32, device="cuda")
    lengths = torch.tensor([4, 5], device="cuda")  # of four columns
    found = fairdraw.check_stop(tokens, output=history, output_lengths=lengths)
    assert found.statuses.tolist() == [0, 11]  # RowStatus::invalid_history
    with pytest.raises(ValueError, match="output_lengths is on cpu; the rows are on cuda:0"):
        fairdraw.check_stop(tokens, output=history, output_lengths=lengths.cpu())


def test_lists_of_tensors_are_joined_where_they_are():
    tokens = torch.tensor([2, 1], device="cuda")
    sequences = [[[7, 8, 2]], [[9, 1]]]
    output = [
        torch.tensor([7, 8], device="cuda"),
        torch.tensor([5, 6, 9], dtype=torch.int32).cuda(),
    ]
    for lists in (output, [output[0], [5, 6, 9]]):
        found = fairdraw.check_stop(tokens, output=lists, stop_sequences=sequences)
        assert found.reasons.tolist() == [fairdraw.FinishReason.STOP_SEQUENCE] * 2
    with pytest.raises(ValueError, match="output has 2 lists; 3 are needed"):
        fairdraw.check_stop(torch.zeros(3, dtype=torch.int32).cuda(), output=output)
    with pytest.raises(ValueError, match=r"output\[1\] is on cpu; the rows are on cuda:0"):
        fairdraw.check_stop(tokens, output=[output[0], output[1].cpu()])
    with pytest.raises(ValueError, match=r"stop_sequences\[0\]\[0\] is on cuda:0; allowed: host"):
        fairdraw.check_stop(tokens, stop_sequences=[[output[0]], []])


def test_unsigned_ids_do_not_wrap():
    tokens = torch.tensor([7, 2**32 - 1, 2**32 - 6]).to(torch.uint32).cuda()
    found = fairdraw.check_stop(tokens, eos_id=7, vocab=8)
    assert found.reasons.tolist() == [1, 0, 0]
    assert found.statuses.tolist()[0] == 0 and 0 not in found.statuses.tolist()[1:]
    wide = tokens.to(torch.int64).to(torch.uint64)
    with pytest.raises(
        TypeError, match="step_tokens holds uint64; on a GPU int64, int32 or uint32"
    ):
        fairdraw.check_stop(wide)


# --- The processor -------------------------------------------------------------------------------

SMALL = 100


def small_logits(step, rows, dtype=None):
    random = np.random.default_rng(step)
    found = torch.from_numpy(random.standard_normal((rows, SMALL), np.float32) * 3)
    return found if dtype is None else found.to(dtype)


def small_state(**options):
    return fairdraw.BatchState(**{"vocab": SMALL, "capacity": 4, "max_length": 64, **options})


REQUESTS = [
    fairdraw.BatchRequest(temperature=0.7, top_k=40, top_p=0.9, min_p=0.01, seed=2**64 - 1),
    fairdraw.BatchRequest(
        seed=11, frequency_penalty=0.5, repetition_penalty=1.3, bias={3: -1.5, 4: -np.inf},
        bad_words=[[5], [6, 7]], stop_ids=[1], min_tokens=4, prompt=range(10),
    ),
    fairdraw.BatchRequest(temperature=0.0, presence_penalty=1.0),
]  # fmt: skip


def both(requests=REQUESTS, **options):
    """Makes two states of the same requests, one with the CPU's processor and one with the
    GPU's."""
    found = []
    for device in (None, "cuda"):
        state = small_state()
        for number, request in enumerate(requests):
            state.add(number, request)
        named = options if device else {}
        found.append((state, fairdraw.FusedSamplingProcessor(state, device, **named)))
    return found


def same_results(here, there):
    for name in ("new_tokens", "new_token_counts", "statuses"):
        expect_same(getattr(here, name)(), getattr(there, name)())


def outputs_of(state):
    return [state.output(number) for number in range(len(REQUESTS)) if number in state]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_steps_are_those_of_the_cpu(dtype):
    (state, here), (other, there) = both()
    for step in range(6):
        if step == 3:  # a request leaves, and returns to another slot with its tokens
            for s in (state, other):
                assert s.restore(s.evict(1), slot=3) == 3
        logits = small_logits(step, state.slots, dtype)
        here.step(logits)
        there.step(logits.cuda())
        same_results(here, there)
        there.start_async_token_copy()
        tokens = there.wait_for_tokens()
        assert not tokens.is_cuda and torch.equal(tokens, here.new_tokens())
        assert outputs_of(state) == outputs_of(other)
    generated = there.generated_tokens()
    assert [tokens.tolist() for tokens in generated] == [
        tokens.tolist() for tokens in here.generated_tokens()
    ]
    assert not generated[0].is_cuda


@pytest.mark.parametrize("rows", ["last", "all"])
@pytest.mark.parametrize("where", ["numpy", "host", "device"])
def test_offsets_and_rows_are_those_of_the_cpu(rows, where):
    (state, here), (other, there) = both()
    for step in range(4):
        logits = small_logits(step, 6)
        offsets = torch.tensor([0, 3, 3, 5])
        given = {"numpy": offsets.numpy(), "host": offsets, "device": offsets.cuda()}[where]
        here.step(logits, offsets, rows=rows)
        there.step(logits.cuda(), given, rows=rows, most_rows=3)
        same_results(here, there)
    there.catch_up()
    assert outputs_of(state) == outputs_of(other)
    assert len(state.output(0)) == (12 if rows == "all" else 4)
    with pytest.raises(TypeError, match="logit_offsets holds float"):
        there.step(logits.cuda(), np.zeros(4))


@pytest.mark.parametrize("where", ["pinned", "device"])
def test_bitmasks_are_those_of_the_cpu(where):
    (_, here), (_, there) = both()
    for step in range(3):
        packed = torch.from_numpy(
            np.random.default_rng(step).integers(-(2**31), 2**31, (3, 4), np.int32)
        )
        logits = small_logits(step, 3)
        here.update_bitmask(packed)
        there.update_bitmask(packed.pin_memory() if where == "pinned" else packed.cuda())
        for p, rows in ((here, logits), (there, logits.cuda())):
            p.step(rows)
        same_results(here, there)
    for p, rows in ((here, logits), (there, logits.cuda())):
        p.clear_bitmask()
        p.step(rows)
    same_results(here, there)
    with pytest.raises(ValueError, match="memory of the host that is not page-locked"):
        there.update_bitmask(packed)


def test_copies_come_in_the_order_of_their_steps():
    (state, here), (other, there) = both()
    with pytest.raises(RuntimeError, match="no copy was started"):
        there.wait_for_tokens()
    wanted = []
    for step in range(3):
        logits = small_logits(step, 3)
        here.step(logits)
        there.step(logits.cuda())
        there.start_async_token_copy()
        wanted.append([here.new_tokens().tolist(), [1, 1, 1], [0, 0, 0]])
    # No copy was waited for, so that the host has no tokens.
    assert outputs_of(other) == [[], [], []]
    for step, want in enumerate(wanted):
        copied = there.wait_for_tokens(return_details=True)
        assert [array.tolist() for array in copied] == want
        assert len(other.output(0)) == step + 1
    here.step(small_logits(3, 3))
    there.step(small_logits(3, 3).cuda())
    # The tokens come by a copy that starts now.
    assert there.get_new_tokens().tolist() == here.new_tokens().tolist()
    for step in range(40):  # more steps than the device remembers
        logits = small_logits(step, 3)
        here.step(logits)
        there.step(logits.cuda())
    there.catch_up()
    assert outputs_of(state) == outputs_of(other)
    # A request of a state with a GPU processor continues in another state.
    snapshot = other.evict(1)
    assert list(snapshot.output) == state.output(1)


def test_a_graph_of_two_steps_serves_whoever_is_there():
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        (state, here), (other, there) = both()
        logits = [torch.zeros(3, SMALL, device="cuda") for _ in range(2)]
        first = [small_logits(step, 3) for step in range(2)]
        for rows, values in zip(logits, first, strict=True):
            rows.copy_(values)
            here.step(values)
            there.step(rows)  # loads the kernels before the graph is captured
        there.bring_changes()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for rows in logits:
                there.step(rows)
        tokens, statuses = there.new_tokens(), there.statuses()
        for step in range(2, 12, 2):
            if step == 6:  # another request enters the same slot
                for s in (state, other):
                    s.remove(2)
                    s.add(2, fairdraw.BatchRequest(seed=step, presence_penalty=0.5))
                there.bring_changes()
            for i, rows in enumerate(logits):
                values = small_logits(step + i, 3)
                rows.copy_(values)
                here.step(values)
            graph.replay()
            expect_same(here.new_tokens(), tokens)
            expect_same(here.statuses(), statuses)
            there.start_async_token_copy()
            assert there.wait_for_tokens().tolist() == here.new_tokens().tolist()
            assert outputs_of(state) == outputs_of(other)
            assert [state.offset(i) for i in range(3)] == [other.offset(i) for i in range(3)]
    with pytest.raises(RuntimeError, match="the current stream is 0x"):
        there.step(logits[0])


def test_steps_of_the_processor_do_not_wait():
    (_, (_, there)) = both()
    logits = small_logits(0, 3).cuda()
    there.step(logits)
    torch.cuda.set_sync_debug_mode("error")
    try:
        there.step(logits)
        there.start_async_token_copy()
        there.step(logits)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    # Copies run in order, so that the results are those of the previous step until the stream has
    # run.
    assert there.wait_for_tokens().shape == (3,)


def test_results_outlive_the_processor():
    (_, (state, there)) = both()
    there.step(small_logits(0, 3).cuda())
    tokens = there.new_tokens()
    torch.cuda.synchronize()
    before = tokens.tolist()
    del there, state
    torch.empty(1 << 20, device="cuda").fill_(7)
    assert tokens.tolist() == before


def test_what_the_processor_refuses():
    state = small_state()
    with pytest.raises(ValueError, match="most_copies is 0; allowed: >= 1"):
        fairdraw.FusedSamplingProcessor(state, "cuda", most_copies=0)
    there = fairdraw.FusedSamplingProcessor(
        state, "cuda", processing=False, bitmask=False, logit_offsets=False
    )
    logits = small_logits(0, 1).cuda()
    with pytest.raises(ValueError, match="logits is on cpu; allowed: the device of the processor"):
        there.step(logits.cpu())
    with pytest.raises(ValueError, match="logit_offsets of the options is false"):
        there.step(logits, np.array([0, 1]))
    with pytest.raises(ValueError, match="bitmask of the options is false"):
        there.update_bitmask(torch.zeros(1, 4, dtype=torch.int32, device="cuda"))
    state.add(1, fairdraw.BatchRequest(presence_penalty=1.0))
    with pytest.raises(ValueError, match="processing of the options is false"):
        there.step(logits)
    state.remove(1)
    with pytest.raises(ValueError, match="number of steps is 0; allowed: >= 1"):
        there.start_async_token_copy()
    here = fairdraw.FusedSamplingProcessor(state)
    with pytest.raises(ValueError, match="logits is on cuda:0; allowed: the device .*, cpu"):
        here.step(logits)
    with pytest.raises(ValueError, match="logit_offsets is on cuda:0; allowed: host memory$"):
        here.step(logits.cpu(), torch.tensor([0, 1], device="cuda"))
    with pytest.raises(ValueError, match="packed is on cuda:0; allowed: host memory$"):
        here.update_bitmask(torch.zeros(1, 4, dtype=torch.int32, device="cuda"))


def test_memory_of_another_gpu_is_named():
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    state = small_state()
    state.add(1)
    processor = fairdraw.FusedSamplingProcessor(state, "cuda:0")
    message = "is on cuda:1; allowed: host memory or the processor's, cuda:0"
    with pytest.raises(ValueError, match=f"logit_offsets {message}"):
        processor.step(small_logits(0, 1).cuda(), torch.tensor([0, 1], device="cuda:1"))
    with pytest.raises(ValueError, match=f"packed {message}"):
        processor.update_bitmask(torch.zeros(1, 4, dtype=torch.int32, device="cuda:1"))
