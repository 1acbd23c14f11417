"""Runs one rank of test_sharded.py: each method of ShardedSampler over the rank's columns, compared
bit for bit with the package's function over the whole rows."""

import torch
import torch.distributed as distributed
from sharded_ranks import same

import fairdraw
import fairdraw.torch


class Columns:
    """Takes the rank's part of tensors that have one value per token."""

    def __init__(self, widths, rank):
        self.widths = widths
        self.begin = sum(widths[:rank])
        self.end = self.begin + widths[rank]
        self.vocab = sum(widths)

    def of(self, whole):
        return whole[..., self.begin : self.end]


def bits(tensor):
    """Converts tensors for `same`. Floats of 16 bits become float32, which represents each of their
    values uniquely."""
    return tensor.float() if tensor.is_floating_point() else tensor


def hard_rows(numbers, vocab):
    """Returns rows with ties, NaN, only -inf, or +inf, besides ordinary rows."""
    rows = torch.randn(6, vocab, generator=numbers) * 3
    rows[1] = rows[1].round()
    rows[2, vocab - 1] = float("nan")
    rows[3] = -float("inf")
    rows[4, vocab // 2] = float("inf")
    return rows


def check_rows(sampler, columns):
    numbers = torch.Generator().manual_seed(6)
    whole = hard_rows(numbers, columns.vocab)
    temperatures = torch.tensor([1.0, 0.0, 0.5, 2.0, 1.0, 0.3])
    ks = torch.tensor([1, 1, 5, 0, 9, 400])
    ps = torch.tensor([0.9, 0.0, 1.0, 0.5, 0.99, 0.01])
    calls = [
        ("softmax", ()),
        ("softmax", (0.7,)),
        ("softmax", (0.0,)),
        ("softmax", (temperatures,)),
        *(("top_k_mask_logits", (k,)) for k in (0, 1, 7, 500, ks)),
    ]
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        logits = whole.to(dtype)
        for name, arguments in calls:
            expected = getattr(fairdraw, name)(logits, *arguments)
            got = getattr(sampler, name)(columns.of(logits), *arguments)
            assert got.dtype == expected.dtype
            same(name, bits(got), columns.of(bits(expected)))
        expected = fairdraw.sample(logits, logprobs=-1, seed=0)[1].all
        same("log_softmax", sampler.log_softmax(columns.of(logits)), columns.of(expected))
    probs = fairdraw.softmax(whole)
    probs[2, 0] = -1.0  # not a probability
    for name, parameter in [
        *(("top_k_renorm_probs", k) for k in (0, 1, 7, 500, ks)),
        *(("top_p_renorm_probs", p) for p in (0.0, 0.5, 0.999, ps)),
    ]:
        expected = getattr(fairdraw, name)(probs, parameter)
        same(name, getattr(sampler, name)(columns.of(probs), parameter), columns.of(expected))
    # Calls with rows that have several axes before the vocabulary.
    folded = whole.unflatten(0, (2, 3))
    expected = fairdraw.softmax(folded, temperatures.reshape(2, 3))
    same("softmax", sampler.softmax(columns.of(folded), temperatures.reshape(2, 3)),
         columns.of(expected))  # fmt: skip


def check_probs(sampler, columns):
    """Tests rows of probabilities as input."""
    numbers = torch.Generator().manual_seed(7)
    rows = 5
    seeds = torch.arange(rows) + 40
    probs = fairdraw.softmax(torch.randn(rows, columns.vocab, generator=numbers) * 2)
    # Row 1 has ties, and a larger scale of the probabilities.
    probs[1] = (probs[1] * 64).round() + 1
    whole_calls = [
        (fairdraw.sampling_from_probs, {}),
        (fairdraw.top_k_sampling_from_probs, {"top_k": 9}),
        (fairdraw.top_p_sampling_from_probs, {"top_p": 0.8}),
        (fairdraw.min_p_sampling_from_probs, {"min_p": 0.2}),
        (fairdraw.top_k_top_p_sampling_from_probs, {"top_k": 40, "top_p": 0.7}),
        (fairdraw.top_k_top_p_sampling_from_probs,
         {"top_k": 40, "top_p": 0.7, "filter_apply_order": "joint"}),
    ]  # fmt: skip
    for function, filters in whole_calls:
        same("tokens", sampler(columns.of(probs), **filters, input="probs", seed=seeds),
             function(probs, **filters, seed=seeds))  # fmt: skip
    details = sampler(columns.of(probs), top_k=9, input="probs", seed=seeds, return_details=True)
    renormalised = fairdraw.top_k_renorm_probs(probs, 9)
    same("probs", details.probs, columns.of(renormalised))
    same("support_size", details.support_size, (renormalised > 0).sum(-1).to(torch.int32))
    assert details.logprob is None and details.logprob_filtered is None
    for refused in ({"logprobs": 1}, {"temperature": 0.5}):
        try:
            sampler(columns.of(probs), input="probs", seed=1, **refused)
        except (ValueError, RuntimeError) as error:
            assert next(iter(refused)) in str(error), error
        else:
            raise AssertionError(f"{refused} of probabilities was not refused")


def run(rank, ranks, folder):
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks
    )
    torch.set_num_threads(1)
    try:
        even = [1300 // ranks] * (ranks - 1)
        for widths in ([*even, 1300 - sum(even)], [1000, 0, 256, 44][:ranks]):
            columns = Columns(widths, rank)
            sampler = fairdraw.torch.ShardedSampler(columns=widths)
            check_rows(sampler, columns)
            check_probs(sampler, columns)
    finally:
        distributed.destroy_process_group()
