"""Verification, beams, stop criteria and the processor on tensors of an NVIDIA GPU: what the CPU
gives, call by call; calls in a CUDA graph, on a stream, and without waiting.

Skipped where there is no torch, no GPU, or no CUDA part in the package.
"""

import numpy as np
import pytest

import fairdraw
from cuda_tensors import expect_same, on_gpu, same_on_both, torch

BATCH, DRAFTED, VOCAB = 7, 4, 1003
SEEDS = torch.arange(BATCH) + 2**62
BY_REQUEST = {
    "temperature": torch.tensor([0, 0.5, 1, 1.3, 0.8, 2, 1]),  # the first is greedy
    "top_k": torch.tensor([0, 40, 1, 0, 200, 5, -1]),
    "top_p": torch.tensor([1, 0.9, 1, 0.95, 0.5, 1, 0.99]),
    "min_p": torch.tensor([0, 0, 0, 0.01, 0, 0.1, 0]),
}


def values(number, *shape):
    random = np.random.default_rng(number)
    return torch.from_numpy(random.standard_normal((*shape, VOCAB), np.float32) * 3)


@pytest.fixture(params=[torch.float32, torch.float16, torch.bfloat16], ids=str)
def dtype(request):
    return request.param


def likely(logits, offset, parents=None, **filters):
    """Drafted tokens [batch, n] int64, most of them those that the target draws there."""
    batch, rows, _ = logits.shape
    random = np.random.default_rng(batch)
    drafts = torch.from_numpy(random.integers(0, VOCAB, (batch, rows - 1)))
    depth = torch.zeros(batch, rows, dtype=torch.int64)
    for i in range(rows - 1):
        at = torch.full((batch,), i) if parents is None else parents[:, i] + 1
        depth[:, i + 1] = depth.gather(1, at[:, None])[:, 0] + 1
        row = logits[torch.arange(batch), at]
        token = fairdraw.sample(
            row, **filters, seed=SEEDS[:batch], offset=offset + depth[:, i + 1] - 1
        )
        stands = torch.from_numpy(random.random(batch) < 0.8)
        drafts[:, i] = torch.where(stands, token.long(), drafts[:, i])
    return drafts


# --- Chains and trees ----------------------------------------------------------------------------


def test_chains_are_those_of_the_cpu(dtype):
    logits = values(1, BATCH, DRAFTED + 1).to(dtype)
    draft = likely(logits, 3, **BY_REQUEST)
    named = {**BY_REQUEST, "seed": SEEDS, "offset": 3}
    found = same_on_both(fairdraw.verify_chain, logits, draft, **named)
    assert (found.statuses == 0).all() and found.accepted.max() >= 2
    # Of known law; on the GPU filters are tensors, too.
    drafts = values(2, BATCH, DRAFTED).to(dtype)
    law = fairdraw.LawFilters(torch.linspace(0.5, 1.5, BATCH), top_p=0.999)
    same_on_both(
        fairdraw.verify_chain, logits, draft, draft_logits=drafts, draft_filters=law, **named
    )
    probs = fairdraw.softmax(drafts.reshape(-1, VOCAB)).reshape(drafts.shape)
    found = same_on_both(fairdraw.verify_chain, logits, draft, draft_probs=probs, **named)
    assert (found.statuses == 0).all()
    # Numbers for the call, one seed, a tensor of one value, other rules.
    same_on_both(
        fairdraw.verify_chain, logits, draft, temperature=torch.tensor([0.7]), top_k=20, seed=5,
        tie_rule="lowest_id", filter_apply_order="joint", top_p=0.9,
    )  # fmt: skip


def packed(logits, draft, lengths):
    begins = torch.tensor([0, *np.cumsum([n + 1 for n in lengths])])
    rows = torch.cat([logits[b, : n + 1] for b, n in enumerate(lengths)])
    return rows, torch.cat([draft[b, :n] for b, n in enumerate(lengths)]), begins


def test_layouts_masks_and_padding_are_those_of_the_cpu():
    logits = values(3, BATCH, DRAFTED + 1)
    draft = likely(logits, 0)
    lengths = [2, 4, 0, 1, 3, 4, 2]
    active = torch.tensor([True, True, False, True, True, True, True])
    words = torch.from_numpy(
        np.random.default_rng(4).integers(-(2**31), 2**31, (BATCH, DRAFTED + 1, 32), np.int32)
    )
    named = {"seed": SEEDS, "active": active}
    found = same_on_both(
        fairdraw.verify_chain, logits, draft, draft_lengths=torch.tensor(lengths), allowed=words,
        **named,
    )  # fmt: skip
    assert found.statuses.tolist() == [0, 0, 1, 0, 0, 0, 0]
    # Sequences are brought to the GPU.
    same_on_both(
        fairdraw.verify_chain, logits, draft.tolist(), draft_lengths=lengths, seed=SEEDS,
        active=active.tolist(),
    )  # fmt: skip
    rows, ids, begins = packed(logits, draft, lengths)
    for most in (None, 4, 6):
        named = {**BY_REQUEST, "seed": SEEDS, "row_begins": begins, "max_draft": most}
        found = same_on_both(fairdraw.verify_chain, rows, ids, **named)
        assert found.tokens.shape == (BATCH, 1 + (most or 4))
        same_on_both(fairdraw.verify_chain, rows, ids, **{**named, "top_p": torch.tensor([0.9])})


def random_parents(number, batch, nodes):
    random = np.random.default_rng(number)
    return torch.tensor([[int(random.integers(-1, j)) for j in range(nodes)] for _ in range(batch)])


def test_trees_are_those_of_the_cpu(dtype):
    nodes = 9
    logits = values(5, BATCH, nodes + 1).to(dtype)
    parents = random_parents(6, BATCH, nodes)
    ids = likely(logits, 2, parents, **BY_REQUEST)
    named = {**BY_REQUEST, "seed": SEEDS, "offset": 2}
    found = same_on_both(fairdraw.verify_tree, logits, ids, parents, **named)
    assert (found.statuses == 0).all() and found.accepted.max() >= 2
    same_on_both(fairdraw.verify_tree, logits, ids, parents, max_depth=2, **named)
    lengths = [9, 0, 4, 9, 9, 1, 5]
    rows, packed_ids, begins = packed(logits, ids, lengths)
    links = torch.cat([parents[b, :n] for b, n in enumerate(lengths)])
    same_on_both(
        fairdraw.verify_tree, rows, packed_ids, links, row_begins=begins, max_draft=9, **named
    )


@pytest.mark.parametrize("siblings", ["with_replacement", "without_replacement"])
def test_trees_of_known_law_are_those_of_the_cpu(dtype, siblings):
    nodes = 9
    logits = values(7, BATCH, nodes + 1).to(dtype)
    drafts = values(8, BATCH, nodes + 1).to(dtype)
    parents = random_parents(9, BATCH, nodes)
    ids = likely(logits, 2, parents)
    named = {**BY_REQUEST, "seed": SEEDS, "offset": 2, "siblings": siblings}
    law = fairdraw.LawFilters(torch.linspace(0.5, 1.5, BATCH), top_p=0.999)
    same_on_both(
        fairdraw.verify_tree, logits, ids, parents, draft_logits=drafts, draft_filters=law, **named
    )
    probs = fairdraw.softmax(drafts.reshape(-1, VOCAB)).reshape(drafts.shape)
    found = same_on_both(fairdraw.verify_tree, logits, ids, parents, draft_probs=probs, **named)
    assert (found.statuses == 0).any()


def test_processing_is_that_of_the_cpu():
    requests = [
        fairdraw.RequestProcessing(
            repetition_penalty=1.7, prompt=[1, 2, 3, 3], output=[4, 5, 4], frequency_penalty=0.4
        ),
        fairdraw.RequestProcessing(presence_penalty=-1.5, bias={3: 4.0, 9: -np.inf}),
        fairdraw.RequestProcessing(min_tokens=3, stop_ids=[3, 11], output=[6]),
        fairdraw.RequestProcessing(bad_words=[[8], [6, 3]], allowed_ids=range(20)),
        fairdraw.RequestProcessing(),
    ]
    batch = len(requests)
    logits = values(10, batch, DRAFTED + 1)
    logits[:, :, [2, 3, 4, 6, 8, 11]] += 9
    draft = torch.from_numpy(np.random.default_rng(11).choice([2, 3, 4, 6, 8, 11], (batch, 4)))
    named = {"processing": requests, "seed": SEEDS[:batch], "top_p": 0.9}
    found = same_on_both(fairdraw.verify_chain, logits, draft, **named)
    assert (found.statuses == 0).all()
    parents = random_parents(12, batch, DRAFTED)
    same_on_both(fairdraw.verify_tree, logits, draft, parents, **named)
    rows, ids, begins = packed(logits, draft, [1, 4, 0, 2, 4])
    same_on_both(fairdraw.verify_chain, rows, ids, row_begins=begins, **named)


def test_bad_requests_fail_alone():
    logits = values(13, BATCH, 3)
    draft = likely(logits, 0)
    lengths, top_p = torch.full((BATCH,), 2), torch.ones(BATCH)
    logits[0, 0, 3] = float("nan")
    logits[1, 1, 3] = float("inf")
    draft[1, 0] = fairdraw.sample(logits[1:2, 0], seed=SEEDS[1:2, None][0])[0]
    draft[2, 1] = VOCAB
    draft[3, 1] = -(2**40)  # beyond int32
    lengths[4] = 3
    top_p[5] = 1.5
    found = same_on_both(
        fairdraw.verify_chain, logits, draft, draft_lengths=lengths, top_p=top_p, seed=SEEDS
    )
    # nan_input, infinite_input, index_out_of_range twice, invalid_draft_length, invalid_top_p
    assert found.statuses.tolist() == [2, 3, 10, 10, 18, 8, 0]
    parents = torch.tensor([[-1, 0]] * BATCH)
    parents[6] = torch.tensor([0, -1])  # a node before itself
    found = same_on_both(fairdraw.verify_tree, logits, draft, parents, seed=SEEDS)
    assert found.statuses[6] == 20  # RowStatus::invalid_draft_tree


def test_arrays_elsewhere_are_named():
    logits = values(14, 2, 3).cuda()
    ids = torch.zeros(2, 2, dtype=torch.int32, device="cuda")
    elsewhere = {
        "draft_token_ids": ids.cpu(),
        "draft_lengths": np.full(2, 2),
        "active": torch.ones(2, dtype=torch.bool),
        "temperature": torch.ones(2),
        "seed": torch.arange(2),
        "allowed": torch.full((2, 3, 32), -1, dtype=torch.int32),
        "draft_probs": torch.ones(2, 2, VOCAB),
    }
    for name, array in elsewhere.items():
        named = {"draft_token_ids": ids, "seed": 1, name: array}
        with pytest.raises(ValueError, match=f"{name} is on cpu; the rows are on cuda:0"):
            fairdraw.verify_chain(logits, **named)
    with pytest.raises(ValueError, match="parents is on cpu; the rows are on cuda:0"):
        fairdraw.verify_tree(logits, ids, ids.cpu(), seed=1)
    with pytest.raises(ValueError, match="draft_token_ids is on cuda:0; allowed: host memory"):
        fairdraw.verify_chain(logits.cpu(), ids, seed=1)
    with pytest.raises(ValueError, match="draft_probs is on cuda:0; the rows are on cpu"):
        probs = torch.ones(2, 2, VOCAB, device="cuda")
        fairdraw.verify_chain(logits.cpu(), ids.cpu(), draft_probs=probs, seed=1)
    with pytest.raises(TypeError, match="draft_token_ids holds float32; integers are needed"):
        fairdraw.verify_chain(logits, ids.float(), seed=1)
    with pytest.raises(ValueError, match=r"draft_lengths has shape \[3\]; \[2\] is needed"):
        lengths = torch.ones(3, dtype=torch.int32, device="cuda")
        fairdraw.verify_chain(logits, ids, draft_lengths=lengths, seed=1)


def test_verification_does_not_wait():
    logits = values(15, BATCH, DRAFTED + 1).cuda()
    draft = torch.zeros(BATCH, DRAFTED, dtype=torch.int64, device="cuda")
    rows, begins = logits.reshape(-1, VOCAB), torch.arange(BATCH + 1, device="cuda") * (DRAFTED + 1)
    named = {"seed": on_gpu(SEEDS), "temperature": 0.7, "draft_lengths": [DRAFTED] * BATCH}
    fairdraw.verify_chain(logits, draft, **named)
    fairdraw.verify_tree(logits, draft, draft - 1, seed=1)
    torch.cuda.set_sync_debug_mode("error")
    try:
        fairdraw.verify_chain(logits, draft, **named)
        fairdraw.verify_tree(logits, draft, draft - 1, seed=1, active=True)
        fairdraw.verify_chain(
            rows, draft.reshape(-1), row_begins=begins, max_draft=DRAFTED, **named
        )
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_a_graph_verifies_other_drafts():
    logits = values(16, BATCH, DRAFTED + 1)
    there, offset = logits.cuda(), torch.zeros(BATCH, dtype=torch.int64, device="cuda")
    draft = torch.zeros(BATCH, DRAFTED, dtype=torch.int32, device="cuda")
    seeds = on_gpu(SEEDS)

    def call():
        return fairdraw.verify_chain(there, draft, seed=seeds, offset=offset, active=True)

    call()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = call()
        with pytest.raises(RuntimeError, match="draft_lengths: is needed as a tensor on cuda:0"):
            fairdraw.verify_chain(there, draft, seed=seeds, draft_lengths=[1] * BATCH)
        with pytest.raises(RuntimeError, match="calls with processing cannot be captured"):
            histories = [fairdraw.RequestProcessing()] * BATCH
            fairdraw.verify_chain(there, draft, seed=seeds, processing=histories)
    for step in range(3):
        drafted = likely(logits, 5 * step)
        draft.copy_(drafted)
        offset.fill_(5 * step)
        graph.replay()
        want = fairdraw.verify_chain(logits, drafted, seed=SEEDS, offset=5 * step)
        for here, now in zip(want, found, strict=True):
            expect_same(here, now)
        assert want.accepted.max() >= 2


def test_verification_goes_to_the_current_stream():
    stream = torch.cuda.Stream()
    logits = torch.zeros(2, 3, VOCAB, device="cuda")
    draft = torch.full((2, 2), 77, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(50_000_000)  # tens of milliseconds: who does not queue sees zeros
        logits[..., 77] = 1000
        found = fairdraw.verify_chain(logits, draft, seed=1)
    stream.synchronize()
    assert found.tokens.tolist() == [[77] * 3] * 2


# --- Beams ---------------------------------------------------------------------------------------


def table_of(number, vocab=50):
    """A model whose row is that of the last token, as log-probabilities."""
    random = np.random.default_rng(number)
    logits = torch.from_numpy(random.standard_normal((vocab, vocab), np.float32) * 2)
    return logits.log_softmax(-1)


def expect_beams(here, there):
    """All but scores are equal; those differ by the last unit of a power, and here of no logarithm."""
    for name in ("parents", "tokens", "live_beams", "states", "statuses", "lengths", "cumulative"):
        if hasattr(here, name):
            expect_same(getattr(here, name), getattr(there, name))
    scores, others = here.scores, there.scores.cpu()
    assert torch.equal(scores.isinf(), others.isinf())
    finite = scores.isfinite()
    # One unit of the power, and one rounding of the quotient.
    unit = 2 * torch.finfo(torch.float32).eps * scores[finite].abs()
    assert bool(((scores - others)[finite].abs() <= unit).all())


def beam_rows(table, step):
    """Rows of the live beams, request after request, on the device of the step."""
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
    logits = table_of(2) * 1.5 + 3  # any logits: a softmax puts them back
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

    def call():  # a place for every beam, whether it lives or not
        found = there.step(
            weights[tokens.clamp(min=0).long().flatten()], logprobs=True, row_begins=begins
        )
        tokens.copy_(found.tokens)
        return found

    want = here.step(beam_rows(table, step), logprobs=True)
    expect_beams(want, call())  # what a first call loads is no part of a capture
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
        kept = rows + 1  # a capture without work is a warning
        with pytest.raises(RuntimeError, match="the first step brings the search to the GPU"):
            search.step(rows)
    assert kept.shape == rows.shape


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
    """Two states of the same requests, with the CPU's processor and the GPU's."""
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


def test_steps_are_those_of_the_cpu(dtype):
    (state, here), (other, there) = both()
    for step in range(6):
        if step == 3:  # a request goes, and comes back elsewhere with the tokens that it had
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
    assert outputs_of(other) == [[], [], []]  # the host has waited for nothing
    for step, want in enumerate(wanted):
        copied = there.wait_for_tokens(return_details=True)
        assert [array.tolist() for array in copied] == want
        assert len(other.output(0)) == step + 1
    for step in range(40):  # more than the device remembers
        logits = small_logits(step, 3)
        here.step(logits)
        there.step(logits.cuda())
    there.catch_up()
    assert outputs_of(state) == outputs_of(other)
    # A state whose processor is on a GPU goes on elsewhere.
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
            there.step(rows)  # what a first call loads is no part of a capture
        there.bring_changes()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for rows in logits:
                there.step(rows)
        tokens, statuses = there.new_tokens(), there.statuses()
        for step in range(2, 12, 2):
            if step == 6:  # another request in the same slot
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
    # One after the other: results are those of the step before until the stream has run.
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
