"""Tests the verification of drafts on a GPU. The results must equal the CPU's bit for bit, without
waiting, also in a CUDA graph and on another stream.

The tests are skipped without torch, a GPU, or the package's CUDA part.
"""

import numpy as np
import pytest

import fairdraw
from cuda_tensors import expect_same, on_gpu, same_on_both, torch

BATCH, DRAFTED, VOCAB = 7, 4, 1003
SEEDS = torch.arange(BATCH) + 2**62
BY_REQUEST = {
    "temperature": torch.tensor([0, 0.5, 1, 1.3, 0.8, 2, 1]),  # the first request is greedy
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
    """Returns drafted tokens [batch, n] int64, most of which the target draws, too."""
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


def test_chains_are_those_of_the_cpu(dtype):
    logits = values(1, BATCH, DRAFTED + 1).to(dtype)
    draft = likely(logits, 3, **BY_REQUEST)
    named = {**BY_REQUEST, "seed": SEEDS, "offset": 3}
    found = same_on_both(fairdraw.accept_chain, logits, draft, **named)
    assert (found.statuses == 0).all() and found.accepted.max() >= 2
    # The drafts have a known distribution, and filters on the GPU are tensors, too.
    drafts = values(2, BATCH, DRAFTED).to(dtype)
    law = fairdraw.LawFilters(torch.linspace(0.5, 1.5, BATCH), top_p=0.999)
    same_on_both(
        fairdraw.accept_chain, logits, draft, draft_logits=drafts, draft_filters=law, **named
    )
    probs = fairdraw.softmax(drafts.reshape(-1, VOCAB)).reshape(drafts.shape)
    found = same_on_both(fairdraw.accept_chain, logits, draft, draft_probs=probs, **named)
    assert (found.statuses == 0).all()
    # Chains are verified by block: all of them, or some.
    for rule in ("block", ["block", "token_wise"] * (BATCH // 2) + ["block"] * (BATCH % 2)):
        block = same_on_both(
            fairdraw.accept_chain, logits, draft, draft_probs=probs, accept_rule=rule, **named
        )
        assert (block.statuses == 0).all()
    # The call has numbers, one seed, a tensor of one value, and other rules for ties and order.
    same_on_both(
        fairdraw.accept_chain, logits, draft, temperature=torch.tensor([0.7]), top_k=20, seed=5,
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
        fairdraw.accept_chain, logits, draft, draft_lengths=torch.tensor(lengths), allowed=words,
        **named,
    )  # fmt: skip
    assert found.statuses.tolist() == [0, 0, 1, 0, 0, 0, 0]
    # Python sequences are copied to the GPU.
    same_on_both(
        fairdraw.accept_chain, logits, draft.tolist(), draft_lengths=lengths, seed=SEEDS,
        active=active.tolist(),
    )  # fmt: skip
    rows, ids, begins = packed(logits, draft, lengths)
    for most in (None, 4, 6):
        named = {**BY_REQUEST, "seed": SEEDS, "row_begins": begins, "max_draft": most}
        found = same_on_both(fairdraw.accept_chain, rows, ids, **named)
        assert found.tokens.shape == (BATCH, 1 + (most or 4))
        same_on_both(fairdraw.accept_chain, rows, ids, **{**named, "top_p": torch.tensor([0.9])})


def random_parents(number, batch, nodes):
    random = np.random.default_rng(number)
    return torch.tensor([[int(random.integers(-1, j)) for j in range(nodes)] for _ in range(batch)])


def test_trees_are_those_of_the_cpu(dtype):
    nodes = 9
    logits = values(5, BATCH, nodes + 1).to(dtype)
    parents = random_parents(6, BATCH, nodes)
    ids = likely(logits, 2, parents, **BY_REQUEST)
    named = {**BY_REQUEST, "seed": SEEDS, "offset": 2}
    found = same_on_both(fairdraw.accept_tree, logits, ids, parents, **named)
    assert (found.statuses == 0).all() and found.accepted.max() >= 2
    same_on_both(fairdraw.accept_tree, logits, ids, parents, max_depth=2, **named)
    lengths = [9, 0, 4, 9, 9, 1, 5]
    rows, packed_ids, begins = packed(logits, ids, lengths)
    links = torch.cat([parents[b, :n] for b, n in enumerate(lengths)])
    same_on_both(
        fairdraw.accept_tree, rows, packed_ids, links, row_begins=begins, max_draft=9, **named
    )


@pytest.mark.parametrize("siblings", ["with_replacement", "without_replacement"])
def test_trees_of_known_law_are_those_of_the_cpu(dtype, siblings):
    nodes = 9
    logits = values(7, BATCH, nodes + 1).to(dtype)
    drafts = values(8, BATCH, nodes + 1).to(dtype)
    parents = random_parents(9, BATCH, nodes)
    ids = likely(logits, 2, parents)
    # No sibling repeats, because no token can be drawn twice without replacement.
    for b, j in np.ndindex(BATCH, nodes):
        before = ids[b, :j][parents[b, :j] == parents[b, j]]
        while ids[b, j] in before:
            ids[b, j] = (ids[b, j] + 1) % VOCAB
    named = {**BY_REQUEST, "seed": SEEDS, "offset": 2, "siblings": siblings}
    law = fairdraw.LawFilters(torch.linspace(0.5, 1.5, BATCH), top_p=0.999)
    same_on_both(
        fairdraw.accept_tree, logits, ids, parents, draft_logits=drafts, draft_filters=law, **named
    )
    probs = fairdraw.softmax(drafts.reshape(-1, VOCAB)).reshape(drafts.shape)
    found = same_on_both(fairdraw.accept_tree, logits, ids, parents, draft_probs=probs, **named)
    assert (found.statuses == 0).all() and found.accepted.max() >= 2


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
    found = same_on_both(fairdraw.accept_chain, logits, draft, **named)
    assert (found.statuses == 0).all()
    parents = random_parents(12, batch, DRAFTED)
    same_on_both(fairdraw.accept_tree, logits, draft, parents, **named)
    rows, ids, begins = packed(logits, draft, [1, 4, 0, 2, 4])
    same_on_both(fairdraw.accept_chain, rows, ids, row_begins=begins, **named)


def test_bad_requests_fail_alone():
    logits = values(13, BATCH, 3)
    draft = likely(logits, 0)
    lengths, top_p = torch.full((BATCH,), 2), torch.ones(BATCH)
    logits[0, 0, 3] = float("nan")
    logits[1, 1, 3] = float("inf")
    draft[1, 0] = fairdraw.sample(logits[1:2, 0], seed=SEEDS[1:2])[0]
    draft[2, 1] = VOCAB
    draft[3, 1] = -(2**40)  # outside int32
    lengths[4] = 3
    top_p[5] = 1.5
    found = same_on_both(
        fairdraw.accept_chain, logits, draft, draft_lengths=lengths, top_p=top_p, seed=SEEDS
    )
    # The statuses are nan_input, infinite_input, index_out_of_range twice, invalid_draft_length,
    # invalid_top_p
    assert found.statuses.tolist() == [2, 3, 10, 10, 18, 8, 0]
    parents = torch.tensor([[-1, 0]] * BATCH)
    parents[6] = torch.tensor([0, -1])  # a node before itself
    found = same_on_both(fairdraw.accept_tree, logits, draft, parents, seed=SEEDS)
    assert found.statuses[6] == 20  # the status RowStatus::invalid_draft_tree


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
            fairdraw.accept_chain(logits, **named)
    with pytest.raises(ValueError, match="parents is on cpu; the rows are on cuda:0"):
        fairdraw.accept_tree(logits, ids, ids.cpu(), seed=1)
    with pytest.raises(ValueError, match="draft_token_ids is on cuda:0; allowed: host memory"):
        fairdraw.accept_chain(logits.cpu(), ids, seed=1)
    with pytest.raises(ValueError, match="draft_probs is on cuda:0; the rows are on cpu"):
        probs = torch.ones(2, 2, VOCAB, device="cuda")
        fairdraw.accept_chain(logits.cpu(), ids.cpu(), draft_probs=probs, seed=1)
    with pytest.raises(TypeError, match="draft_token_ids holds float32; integers are needed"):
        fairdraw.accept_chain(logits, ids.float(), seed=1)
    with pytest.raises(ValueError, match=r"draft_lengths has shape \[3\]; \[2\] is needed"):
        lengths = torch.ones(3, dtype=torch.int32, device="cuda")
        fairdraw.accept_chain(logits, ids, draft_lengths=lengths, seed=1)


def test_verification_does_not_wait():
    logits = values(15, BATCH, DRAFTED + 1).cuda()
    draft = torch.zeros(BATCH, DRAFTED, dtype=torch.int64, device="cuda")
    rows, begins = logits.reshape(-1, VOCAB), torch.arange(BATCH + 1, device="cuda") * (DRAFTED + 1)
    named = {"seed": on_gpu(SEEDS), "temperature": 0.7, "draft_lengths": [DRAFTED] * BATCH}
    fairdraw.accept_chain(logits, draft, **named)
    fairdraw.accept_tree(logits, draft, draft - 1, seed=1)
    torch.cuda.set_sync_debug_mode("error")
    try:
        fairdraw.accept_chain(logits, draft, **named)
        fairdraw.accept_tree(logits, draft, draft - 1, seed=1, active=True)
        fairdraw.accept_chain(
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
        return fairdraw.accept_chain(there, draft, seed=seeds, offset=offset, active=True)

    call()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = call()
        with pytest.raises(RuntimeError, match="draft_lengths: is needed as a tensor on cuda:0"):
            fairdraw.accept_chain(there, draft, seed=seeds, draft_lengths=[1] * BATCH)
        with pytest.raises(RuntimeError, match="calls with processing cannot be captured"):
            histories = [fairdraw.RequestProcessing()] * BATCH
            fairdraw.accept_chain(there, draft, seed=seeds, processing=histories)
    for step in range(3):
        drafted = likely(logits, 5 * step)
        draft.copy_(drafted)
        offset.fill_(5 * step)
        graph.replay()
        want = fairdraw.accept_chain(logits, drafted, seed=SEEDS, offset=5 * step)
        for here, now in zip(want, found, strict=True):
            expect_same(here, now)
        assert want.accepted.max() >= 2


def test_verification_goes_to_the_current_stream():
    stream = torch.cuda.Stream()
    logits = torch.zeros(2, 3, VOCAB, device="cuda")
    draft = torch.full((2, 2), 77, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        # Takes tens of ms, so that a call that does not queue behind it reads zeros.
        torch.cuda._sleep(50_000_000)
        logits[..., 77] = 1000
        found = fairdraw.accept_chain(logits, draft, seed=1)
    stream.synchronize()
    assert found.tokens.tolist() == [[77] * 3] * 2
