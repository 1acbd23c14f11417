"""Tests kept sets on a GPU. The GPU's kept sets must equal the CPU's, also in CUDA graphs, and have
vLLM's layout.

The tests are skipped without torch, a GPU, or the package's CUDA part.
"""

import pytest

import fairdraw
from cuda_tensors import expect_same, on_gpu, torch

DTYPES = [torch.float32, torch.float16, torch.bfloat16]

import fairdraw.torch  # noqa: E402


def logits_of(rows, vocab, dtype):
    numbers = torch.Generator().manual_seed(rows)
    return (torch.randn(rows, vocab, generator=numbers) * 3).to(dtype)


def expect_same_sets(here, there):
    """Compares kept sets. The sets `there` (GPU) have unused room at the end, and the sets `here`
    (CPU) are trimmed."""
    assert there.token_ids.is_cuda and len(there.token_ids) >= len(here.token_ids)
    for mine, other in zip(here, there.trimmed(), strict=True):
        expect_same(mine, other)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "filters",
    [
        {"top_p": 0.95},
        {"top_k": 50, "top_p": 0.9, "temperature": 0.7},
        {"min_p": 0.02},
        {"temperature": 0.0},
        {"top_p": torch.linspace(0.1, 1, 6)},
        {"top_k": 40, "indices": torch.tensor([5, 0, 0, 2, 17])},
        {"top_p": 0.9, "room": 700},  # room that is too small for all sets
        {"active": torch.tensor([True, False, True, True, False, True])},
    ],
)
def test_sets_are_those_of_the_cpu(dtype, filters):
    logits = logits_of(6, 4099, dtype)
    here = fairdraw.sample_with_kept_sets(logits, **filters, seed=3)
    there = fairdraw.sample_with_kept_sets(
        logits.cuda(), **{name: on_gpu(value) for name, value in filters.items()}, seed=3
    )
    expect_same(here.tokens, there.tokens)
    expect_same(here.statuses, there.statuses)
    expect_same_sets(here.kept, there.kept)
    for output in range(len(here.tokens)):
        expect_same(here.kept.of(output), there.kept.of(output))


def test_vllms_layout_goes_there_and_comes_back():
    logits = logits_of(5, 3000, torch.float32).cuda()
    drawn = fairdraw.sample_with_kept_sets(logits, top_p=0.8, seed=7)
    mask = drawn.kept.to_sampling_mask()
    assert mask[1][-1] == len(mask[0]) < len(drawn.kept.token_ids)
    again = fairdraw.KeptSets.from_sampling_mask(*mask, device=logits.device)
    for tensor, same in zip(again, drawn.kept.trimmed(), strict=True):
        assert tensor.device == same.device and torch.equal(tensor, same)
    for sets in (drawn.kept, again):
        replayed = fairdraw.torch.replay_logprobs(logits, drawn.tokens, sets)
        # The GPU's own logarithm differs from the CPU's.
        assert (replayed - drawn.logprobs).abs().max() < 2e-6


def test_a_mask_becomes_the_sets_of_its_columns():
    logits = logits_of(6, 3000, torch.float32)
    here = fairdraw.sample(logits, top_p=0.8, seed=7, return_details=True)
    statuses = torch.tensor([0, 0, 4, 0, 0, 1], dtype=torch.int32)
    expected = fairdraw.kept_sets_of_mask(here.mask, 3000, 128, statuses=statuses)
    found = fairdraw.kept_sets_of_mask(here.mask.cuda(), 3000, 128, statuses=statuses.cuda())
    expect_same_sets(expected, found)


def test_drafts_have_a_set_for_each_emitted_token():
    numbers = torch.Generator().manual_seed(8)
    logits = torch.randn(4, 4, 900, generator=numbers) * 2
    ids = logits[:, :3].argmax(-1)
    parents = torch.tensor([[-1, 0, 1]] * 4, dtype=torch.int32)
    call = {"top_p": 0.6, "seed": torch.arange(4)}
    on_device = {name: on_gpu(value) for name, value in call.items()}
    here = fairdraw.accept_chain_with_kept_sets(logits, ids, **call)
    there = fairdraw.accept_chain_with_kept_sets(logits.cuda(), ids.cuda(), **on_device)
    tree = fairdraw.accept_tree_with_kept_sets(
        logits.cuda(), ids.cuda(), parents=parents.cuda(), **on_device
    )
    expect_same(here.verified.tokens, there.verified.tokens)
    expect_same_sets(here.kept, there.kept)
    expect_same_sets(here.kept, tree.kept)


def test_a_captured_call_reads_its_logits_anew():
    logits = logits_of(4, 2000, torch.float32).cuda()
    seeds = torch.arange(4).cuda()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        fairdraw.sample_with_kept_sets(logits, top_p=0.9, seed=seeds)  # loads the kernels
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        drawn = fairdraw.sample_with_kept_sets(logits, top_p=0.9, seed=seeds)
    for turn in range(3):
        logits.copy_(logits_of(4, 2000, torch.float32).roll(turn, 1))
        graph.replay()
        torch.cuda.synchronize()
        here = fairdraw.sample_with_kept_sets(logits.cpu(), top_p=0.9, seed=seeds.cpu())
        expect_same(here.tokens, drawn.tokens)
        # The graph also computes the flags from the call's bytes.
        expect_same_sets(here.kept, drawn.kept)
