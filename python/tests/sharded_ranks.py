"""Runs one rank of test_sharded.py: the same calls as the other ranks, over the rank's own
columns."""

from itertools import accumulate

import torch
import torch.distributed as distributed

import fairdraw
import fairdraw.torch


def same(name, mine, whole):
    """Expects equality bit for bit, so that floats are compared as integers."""
    mine, whole = (
        tensor.contiguous().view(torch.int32) if tensor.is_floating_point() else tensor
        for tensor in (mine, whole)
    )
    assert mine.shape == whole.shape, (name, mine.shape, whole.shape)
    assert torch.equal(mine, whole), (name, (mine != whole).nonzero()[:5])


def columns_of(packed, begin, end):
    """Returns the bits from `begin` to `end` of packed rows, shifted so that the first bit is bit
    0."""
    bits = (packed[:, :, None] >> torch.arange(32, dtype=torch.int32)) & 1
    bits = bits.flatten(1)[:, begin:end].to(torch.int64)
    bits = torch.nn.functional.pad(bits, (0, -bits.shape[1] % 32)).unflatten(1, (-1, 32))
    words = (bits << torch.arange(32)).sum(-1)
    return words.where(words < 2**31, words - 2**32).to(torch.int32)


def check_kept(logits, call, seeds, got, begin, end):
    """Tests that part of each kept set that belongs to the rank."""
    filters = {
        name: value for name, value in call.items() if not name.startswith(("log", "rank", "num"))
    }
    room = logits.numel() * 2
    whole = fairdraw.sample_with_kept_sets(logits, **filters, seed=seeds, room=room).kept
    part = fairdraw.kept_sets_of_mask(
        got.mask, end - begin, begin, call.get("indices"), statuses=got.statuses, room=room
    )
    for output in range(len(got.tokens)):
        ids = whole.of(output)
        same("kept", part.of(output), ids[(ids >= begin) & (ids < end)])


def check_calls(sampler, rank, widths):
    boundaries = [0, *accumulate(widths)]
    vocab, (begin, end) = boundaries[-1], boundaries[rank : rank + 2]
    numbers = torch.Generator().manual_seed(5)
    rows = 6
    whole = torch.randn(rows, vocab, generator=numbers) * 3
    whole[1] = whole[1].round()  # ties
    whole[2, vocab - 1] = float("nan")
    seeds = torch.arange(rows) + 100
    packed = torch.randint(-(2**31), 2**31 - 1, (rows, (vocab + 31) // 32), generator=numbers)
    packed = packed.to(torch.int32)
    calls = [
        {},
        {"temperature": 0.7, "top_k": 50, "top_p": 0.9},
        {"top_p": 0.95},
        {"min_p": 0.02, "logprobs": 5},
        {"temperature": 0.0, "logprobs": 3, "logprobs_mode": "processed_logprobs"},
        {"top_k": 300, "tie_rule": "lowest_id", "logprobs": 2, "rank_rule": "at_least"},
        {"top_k": 40, "top_p": 0.8, "filter_apply_order": "joint", "num_samples": 3},
        {"indices": torch.tensor([0, 0, 3, 5, 1, 1])},
    ]
    for dtype in (torch.float32, torch.bfloat16):
        logits = whole.to(dtype)
        local = logits[:, begin:end]
        for call in calls:
            expected = fairdraw.sample(logits, **call, seed=seeds, return_details=True)
            got = sampler(local, **call, seed=seeds, return_details=True)
            for name in ("tokens", "statuses", "support_size", "logprob", "logprob_filtered"):
                same(name, getattr(got, name), getattr(expected, name))
            ok = torch.arange(rows) != 2  # the row with NaN is all zeros
            same("probs", got.probs[ok], expected.probs[ok][:, begin:end])
            same("mask", got.mask[ok], columns_of(expected.mask[ok], begin, end))
            check_kept(logits, call, seeds, got, begin, end)
            if "logprobs" in call:
                for name in ("values", "ranks", "top_ids", "top_values"):
                    same(name, getattr(got.logprobs, name), getattr(expected.logprobs, name))
        banned = fairdraw.sample(logits, top_k=9, seed=seeds, allowed=packed)
        same("tokens", sampler(local, top_k=9, seed=seeds,
                               allowed=columns_of(packed, begin, end)), banned)  # fmt: skip
    # Without a seed all ranks draw with the same fresh seed.
    tokens = sampler(whole[:, begin:end])
    told = [torch.empty_like(tokens) for _ in widths]
    distributed.all_gather(told, tokens)
    assert all(torch.equal(each, tokens) for each in told)
    assert not torch.equal(sampler(whole[:, begin:end], num_samples=40),
                           sampler(whole[:, begin:end], num_samples=40))  # fmt: skip


def run(rank, ranks, folder):
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks
    )
    try:
        for vocab in (31, 3000):
            widths = [vocab // ranks] * (ranks - 1)
            widths.append(vocab - sum(widths))
            check_calls(fairdraw.torch.ShardedSampler(), rank, widths)
        # Ranks have unequal numbers of columns, and one rank has no column.
        widths = [1000, 0, 256, 1744][:ranks]
        check_calls(fairdraw.torch.ShardedSampler(columns=widths), rank, widths)
        processing = [fairdraw.RequestProcessing(repetition_penalty=1.3, prompt=[7, 2100],
                                                 bias={5: 2.0, 2999: -1.0})]  # fmt: skip
        logits = torch.zeros(1, 3000)
        width = 3000 // ranks
        local = logits[:, rank * width : (rank + 1) * width]
        report = fairdraw.torch.ShardedSampler()(
            local, processing=processing, seed=1, logprobs=1, logprobs_mode="processed_logits"
        )[1]
        assert report.top_ids.tolist() == [[5]] and report.top_values.tolist() == [[2.0]]
        # A disagreement between ranks is reported on every rank.
        try:
            fairdraw.torch.ShardedSampler()(local, seed=rank)
        except ValueError as error:
            assert "is of another call" in str(error)
        else:
            raise AssertionError("ranks with different seeds were not told")
    finally:
        distributed.destroy_process_group()


def same_reports(got, expected):
    """Compares log-probabilities from a GPU, whose logarithm differs from the CPU's by one unit in
    the last place, 2^-23."""
    for name in ("ranks", "top_ids"):
        same(name, getattr(got, name).cpu(), getattr(expected, name).cpu())
    for name in ("values", "top_values"):
        mine, theirs = (getattr(each, name).cpu() for each in (got, expected))
        assert torch.allclose(mine, theirs, rtol=2**-23, atol=0), name


def check_calls_on_gpu(sampler, rank, widths):
    """Tests logits of ranks with one GPU each: in direct calls, with rows gathered later, and in a
    graph.
    """
    begin = sum(widths[:rank])
    numbers = torch.Generator().manual_seed(5)
    rows = 4
    whole = torch.randn(rows, sum(widths), generator=numbers) * 2
    seeds = torch.arange(rows) + 100
    packed = torch.randint(-(2**31), 2**31 - 1, (rows, (whole.shape[1] + 31) // 32),
                           generator=numbers).to(torch.int32)  # fmt: skip
    calls = [
        {},
        {"temperature": 0.7, "top_k": 50, "top_p": 0.9},
        {"top_p": 0.95},
        {"top_k": 1000, "num_samples": 3},
        {"temperature": 0.0, "logprobs": 3},
        {"temperature": 0.5, "top_k": 9, "logprobs": 20, "logprobs_mode": "processed_logprobs"},
    ]
    for dtype in (torch.float32, torch.bfloat16):
        logits = whole.to(dtype)
        local = logits[:, begin : begin + widths[rank]].cuda()
        for call in calls:
            expected = fairdraw.sample(logits, **call, seed=seeds, return_details=True)
            got = sampler(local, **call, seed=seeds.cuda(), return_details=True)
            for name in ("tokens", "statuses", "support_size"):
                same(name, getattr(got, name).cpu(), getattr(expected, name))
            same("mask", got.mask.cpu(),
                 columns_of(expected.mask, begin, begin + widths[rank]))  # fmt: skip
            if "logprobs" in call:
                same_reports(got.logprobs, expected.logprobs)
                continue
            gathered = sampler.gathered_rows
            tokens = sampler(local, **call, seed=seeds.cuda(), gather=False)
            left = int(sampler.undecided)
            # Wide nuclei are decided unless their support size is requested.
            assert left <= gathered
            assert sampler.gather_undecided() == left and int(sampler.undecided) == 0
            same("tokens", tokens.cpu(), expected.tokens)
        banned = fairdraw.sample(logits, top_k=9, seed=seeds, allowed=packed)
        mine = columns_of(packed, begin, begin + widths[rank]).cuda()
        same("tokens", sampler(local, top_k=9, seed=seeds.cuda(), allowed=mine).cpu(), banned)
        # Reports are of the caller's logits for masked rows, and of the processed logits for
        # processed rows.
        expected = fairdraw.sample(logits, seed=seeds, allowed=packed, logprobs=7)
        got = sampler(local, seed=seeds.cuda(), allowed=mine, logprobs=7)
        same("tokens", got[0].cpu(), expected[0])
        same_reports(got[1], expected[1])
        processing = [
            fairdraw.RequestProcessing(output=[row, 5, 5, 290], prompt=[7, 900], bias={11: 3.0},
                                       repetition_penalty=1.3, frequency_penalty=0.4)
            for row in range(rows)
        ]  # fmt: skip
        filters = {"top_k": 20, "processing": processing, "logprobs": 4}
        expected = sampler(local.cpu(), **filters, seed=seeds)
        got = sampler(local, **filters, seed=seeds.cuda())
        same("tokens", got[0].cpu(), expected[0])
        same_reports(got[1], expected[1])
    graph = torch.cuda.CUDAGraph()
    captured = seeds.cuda()
    with torch.cuda.graph(graph):
        tokens = sampler(local, top_p=0.95, seed=captured, gather=False)
    captured += 7
    graph.replay()
    sampler.gather_undecided()
    same("tokens", tokens.cpu(), fairdraw.sample(logits, top_p=0.95, seed=seeds + 7))
    try:
        sampler(local, seed=rank)
    except ValueError as error:
        assert "ranks disagree" in str(error)
    else:
        raise AssertionError("ranks with different seeds were not told")


def run_on_gpu(rank, ranks, folder):
    torch.cuda.set_device(rank)
    distributed.init_process_group(
        "nccl", init_method=f"file://{folder}/store", rank=rank, world_size=ranks
    )
    try:
        for widths in ([15000] * ranks, [20000, 0, 300, 900][:ranks]):
            check_calls_on_gpu(fairdraw.torch.ShardedSampler(columns=widths), rank, widths)
    finally:
        distributed.destroy_process_group()
