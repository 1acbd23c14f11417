"""Runs one rank of test_sharded.py on a GPU of its own. The kernels exchange blocks through memory
of all ranks. The tokens must equal those of `fairdraw.sample` over the whole rows on one GPU.

The file is also a program for machines without pytest. The program uses all GPUs, or 2 if there are
more than 8.

    python3 python/tests/sharded_peer_ranks.py [nccl | gloo]
"""

import sys
import tempfile
from itertools import accumulate

import torch
import torch.distributed as distributed
from sharded_ranks import columns_of, same, same_reports

import fairdraw
import fairdraw.torch

LIMITS = fairdraw.torch.PeerLimits(rows=48, num_samples=3, logprobs=20)
CALLS = [
    {},
    {"temperature": 0.7, "top_k": 50, "top_p": 0.9},
    {"min_p": 0.05},
    {"top_p": 0.95},
    {"top_k": 2000, "top_p": 0.99},
    {"temperature": 0.0},
    {"top_k": 40, "num_samples": 3, "filter_apply_order": "joint"},
    {"temperature": 0.5, "logprobs": 20},
    {"top_k": 9, "logprobs": 3, "logprobs_mode": "processed_logprobs"},
]


class Rows:
    """Batches of whole rows, which are the same on every rank, and the batches' columns for this
    rank."""

    def __init__(self, widths, rank):
        self.vocab = sum(widths)
        self.begin = sum(widths[:rank])
        self.end = self.begin + widths[rank]
        self._numbers = torch.Generator().manual_seed(11)

    def batch(self, rows, dtype=torch.float32):
        whole = torch.randn(rows, self.vocab, generator=self._numbers) * 2
        whole[-1] = whole[-1].round()  # ties
        seeds = torch.randint(2**62, (rows,), generator=self._numbers)
        return whole.to(dtype).cuda(), seeds.cuda()

    def of(self, whole):
        return whole[:, self.begin : self.end]


def check_batches(sampler, rows):
    for count, dtype in ((1, torch.float32), (3, torch.bfloat16), (LIMITS.rows, torch.float32),
                         (2, torch.float16), (8, torch.bfloat16)):  # fmt: skip
        whole, seeds = rows.batch(count, dtype)
        for call in CALLS:
            expected = fairdraw.sample(whole, **call, seed=seeds, offset=3, return_details=True)
            got = sampler(rows.of(whole), **call, seed=seeds, offset=3, return_details=True)
            for name in ("tokens", "statuses", "support_size"):
                same(f"{name} of {call}", getattr(got, name), getattr(expected, name))
            same("mask", got.mask.cpu(), columns_of(expected.mask.cpu(), rows.begin, rows.end))
            if "logprobs" in call:
                same_reports(got.logprobs, expected.logprobs)
            left = sampler.gathered_rows
            assert left == count or call.get("top_k") != 2000, left  # more than the ranks can list
            tokens = sampler(rows.of(whole), **call, seed=seeds, offset=3, gather=False)
            undecided = int(sampler.undecided)
            # Wide nuclei are decided without gathering their rows, unless the support size is
            # requested.
            assert undecided <= left and sampler.gathered_rows == 0
            assert sampler.exchanges == 1 and sampler.exchanged_bytes == 0
            assert sampler.gather_undecided() == undecided and int(sampler.undecided) == 0
            same(f"tokens of {call}, gathered later", tokens[0] if "logprobs" in call else tokens,
                 expected.tokens)  # fmt: skip
        check_indices(sampler, rows, whole)
        check_probs(sampler, rows, whole)


def check_indices(sampler, rows, whole):
    """Tests outputs that name rows: many outputs name one row, and no output names another."""
    indices = (torch.arange(LIMITS.rows) ** 2 % (len(whole) + 1)).int().cuda()
    indices[-1] = -1  # no row
    seeds = torch.arange(LIMITS.rows).cuda() + 50
    for call in CALLS:
        call = call | {"indices": indices, "seed": seeds, "offset": 3, "return_details": True}
        expected = fairdraw.sample(whole, **call)
        got = sampler(rows.of(whole), **call)
        for name in ("tokens", "statuses", "support_size"):
            same(f"{name} of {list(call)}", getattr(got, name), getattr(expected, name))
        if "logprobs" in call:
            same_reports(got.logprobs, expected.logprobs)


def check_probs(sampler, rows, whole):
    """Tests rows of probabilities, whose tokens must equal those of the operations over whole rows."""
    probs = fairdraw.softmax(whole.float())
    seeds = torch.arange(len(whole)).cuda() + 70
    for function, filters in [
        (fairdraw.sampling_from_probs, {}),
        (fairdraw.top_k_sampling_from_probs, {"top_k": 9}),
        (fairdraw.top_k_sampling_from_probs, {"top_k": 3000}),
        (fairdraw.top_p_sampling_from_probs, {"top_p": 0.8}),
        (fairdraw.min_p_sampling_from_probs, {"min_p": 0.2}),
        (fairdraw.top_k_top_p_sampling_from_probs, {"top_k": 40, "top_p": 0.7}),
    ]:
        expected = function(probs, **filters, seed=seeds)
        for gather in (True, False):
            got = sampler(rows.of(probs), **filters, input="probs", seed=seeds, gather=gather)
            sampler.gather_undecided()
            same(f"{function.__name__}, gather {gather}", got, expected)
        details = sampler(rows.of(probs), **filters, input="probs", seed=seeds, return_details=True)
        same("tokens", details.tokens, expected)
        assert details.logprob is None and details.probs is None


def check_graphs(sampler, rows):
    """Alternates graphs of batches of two sizes, and calls without a graph. The graphs and the
    calls use one exchange memory.
    """
    filters = {"temperature": 0.8, "top_k": 50, "top_p": 0.9}
    graphs = []
    for count in (2, LIMITS.rows):
        whole, seeds = rows.batch(count)
        local = rows.of(whole).clone()
        sampler(local, **filters, seed=seeds, gather=False)
        torch.cuda.synchronize()
        distributed.barrier()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            tokens = sampler(local, **filters, seed=seeds, gather=False)  # also of ties
        graphs.append((count, graph, local, seeds, tokens, sampler.gather_undecided))
    for _ in range(3):
        for count, graph, local, seeds, tokens, gather_undecided in graphs:
            whole, fresh = rows.batch(count)
            local.copy_(rows.of(whole))
            seeds.copy_(fresh)
            graph.replay()
            gather_undecided()
            same("tokens of a graph", tokens, fairdraw.sample(whole, **filters, seed=seeds))
            assert gather_undecided() == 0
            eager = sampler(local, top_p=0.95, seed=seeds)
            same("tokens between graphs", eager, fairdraw.sample(whole, top_p=0.95, seed=seeds))


def refused(kind, part, call):
    try:
        call()
    except kind as error:
        assert part in str(error), error
    else:
        raise AssertionError(f"{part!r} was not said")


def check_refusals(sampler, rows, rank):
    whole, _ = rows.batch(LIMITS.rows + 1)
    few = rows.of(whole)[:2]
    refused(ValueError, "logits has 49 rows; allowed: 0 to 48 through peers",
            lambda: sampler(rows.of(whole), seed=1))  # fmt: skip
    refused(ValueError, "num_samples is 4; allowed: 1 to 3 through peers",
            lambda: sampler(few, num_samples=4, seed=1))  # fmt: skip
    refused(ValueError, "logprobs is 21; allowed: None, 0 to 20 through peers",
            lambda: sampler(few, logprobs=21, seed=1))  # fmt: skip
    refused(ValueError, "allowed: host memory", lambda: sampler.softmax(few))
    refused(ValueError, "ranks disagree", lambda: sampler(few, seed=rank))
    # The exchange memory must still work afterwards.
    same("tokens", sampler(few, seed=1), fairdraw.sample(whole[:2], seed=1))


def run(rank, ranks, folder, backend):
    torch.cuda.set_device(rank)
    distributed.init_process_group(
        backend, init_method=f"file://{folder}/store", rank=rank, world_size=ranks
    )
    try:
        refused(ValueError, "columns: are not given; with peers they are needed",
                lambda: fairdraw.torch.ShardedSampler(peers=LIMITS))  # fmt: skip
        uneven = [20000, 0, 300, 900, 40, 1, 5000, 7][:ranks]
        for widths in ([-(-128256 // ranks)] * ranks, uneven):
            sampler = fairdraw.torch.ShardedSampler(columns=widths, peers=LIMITS)
            assert not getattr(sampler._peers._handle, "multicast_ptr", 0)
            rows = Rows(widths, rank)
            check_batches(sampler, rows)
            check_graphs(sampler, rows)
            check_refusals(sampler, rows, rank)
            torch.cuda.synchronize()
            distributed.barrier()  # no rank may free memory that another rank still reads
            if rank == 0:
                ends = list(accumulate(widths))
                print(f"{backend}: columns end at {ends}; {sampler._peers.bytes} bytes a rank: ok")
    finally:
        distributed.destroy_process_group()


def main(arguments):
    gpus = torch.cuda.device_count()
    if gpus < 2:
        print(f"SKIPPED: {gpus} GPUs; 2 are needed")
        return
    for backend in arguments or ["nccl", "gloo"]:
        with tempfile.TemporaryDirectory() as folder:
            ranks = gpus if gpus <= 8 else 2
            torch.multiprocessing.spawn(run, (ranks, folder, backend), nprocs=ranks)


if __name__ == "__main__":
    import torch.multiprocessing

    main(sys.argv[1:])
