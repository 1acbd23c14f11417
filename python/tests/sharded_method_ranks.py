"""What one rank of test_sharded.py does with the methods of ShardedSampler: each of them over its own
columns, compared bit for bit with the package's function over the whole rows."""

import torch
import torch.distributed as distributed
from sharded_ranks import columns_of, same

import fairdraw
import fairdraw.torch


class Columns:
    """A rank's part of tensors that have a value a token."""

    def __init__(self, widths, rank):
        self.widths = widths
        self.begin = sum(widths[:rank])
        self.end = self.begin + widths[rank]
        self.vocab = sum(widths)

    def of(self, whole):
        return whole[..., self.begin : self.end]

    def of_packed(self, words):
        mine = columns_of(words.flatten(0, -2), self.begin, self.end)
        return mine.unflatten(0, words.shape[:-1])


def bits(tensor):
    """What `same` compares: 16-bit floats as float32, which has each of their values once."""
    return tensor.float() if tensor.is_floating_point() else tensor


def hard_rows(numbers, vocab):
    """Ties everywhere, NaN, nothing but -inf, and +inf, besides what is common."""
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
    probs[2, 0] = -1.0  # no probability
    for name, parameter in [
        *(("top_k_renorm_probs", k) for k in (0, 1, 7, 500, ks)),
        *(("top_p_renorm_probs", p) for p in (0.0, 0.5, 0.999, ps)),
    ]:
        expected = getattr(fairdraw, name)(probs, parameter)
        same(name, getattr(sampler, name)(columns.of(probs), parameter), columns.of(expected))
    # Axes in front of the vocabulary.
    folded = whole.unflatten(0, (2, 3))
    expected = fairdraw.softmax(folded, temperatures.reshape(2, 3))
    same("softmax", sampler.softmax(columns.of(folded), temperatures.reshape(2, 3)),
         columns.of(expected))  # fmt: skip


def check_probs(sampler, columns):
    """Rows of probabilities as input."""
    numbers = torch.Generator().manual_seed(7)
    rows = 5
    seeds = torch.arange(rows) + 40
    probs = fairdraw.softmax(torch.randn(rows, columns.vocab, generator=numbers) * 2)
    probs[1] = (probs[1] * 64).round() + 1  # ties, in another scale
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


def same_results(name, mine, whole):
    for part, each, expected in zip(whole._fields, mine, whole, strict=True):
        same(f"{name} {part}", each, expected)


def on_device(call, device):
    """Arguments of a call, of which tensors are on a device."""
    return {
        name: value.to(device) if isinstance(value, torch.Tensor) else value
        for name, value in call.items()
    }


class Chains:
    """Chains of drafted tokens, the same on every rank, and this rank's columns of them."""

    def __init__(self, columns, device):
        numbers = torch.Generator().manual_seed(8)
        batch, n, vocab = 6, 3, columns.vocab
        # A draft that is near the target: some tokens are accepted and some are not.
        logits = torch.randn(batch, n + 1, vocab, generator=numbers) * 2
        draft_logits = logits[:, :n] + torch.randn(batch, n, vocab, generator=numbers)
        ids = fairdraw.sample(draft_logits.flatten(0, 1), seed=5, purpose="draft")
        self.columns = columns
        self.batch = batch
        self.logits = logits.to(device)
        self.ids = ids.unflatten(0, (batch, n)).to(device)
        self.seeds = (torch.arange(batch) + 7).to(device)
        self.draft_probs = fairdraw.softmax(draft_logits).to(device)
        packed = torch.randint(-(2**31), 2**31 - 1, (batch, n + 1, (vocab + 31) // 32),
                               generator=numbers).to(torch.int32)  # fmt: skip
        processing = [
            fairdraw.RequestProcessing(repetition_penalty=1.2, prompt=[1, vocab - 1], bias={3: 1.0})
        ] * batch
        wide = {"temperature": 0.8, "top_k": 200, "top_p": 0.95}
        probs = {"draft_probs": self.draft_probs}
        calls = [
            {},
            {"top_k": 5, "draft_lengths": torch.tensor([3, 2, 1, 0, 3, 3])},
            {"temperature": torch.tensor([0.0, 1.0, 0.5, 0.7, 1.0, 2.0])},
            probs,
            {**probs, **wide, "active": torch.tensor([1, 1, 0, 1, 1, 1]).bool()},
            {"draft_logits": draft_logits, **wide, "draft_filters": fairdraw.LawFilters(top_k=50)},
            {**probs, "min_p": 0.01, "tie_rule": "lowest_id", "top_k": 30},
            {**probs, "allowed": packed},
            {"processing": processing},
            {**probs, "processing": processing, "top_p": 0.9},
        ]
        self.calls = [on_device(call, device) for call in calls]

    def of(self, call):
        """This rank's part of the arguments."""
        parts = {name: self.columns.of(call[name]) for name in ("draft_probs", "draft_logits")
                 if name in call}  # fmt: skip
        if "allowed" in call:
            words = call["allowed"]
            parts["allowed"] = self.columns.of_packed(words.cpu()).to(words.device)
        return call | parts


def check_chains(sampler, columns, device="cpu", **rounds):
    """`rounds`: of calls on a GPU, or nothing."""
    chains = Chains(columns, device)
    logits, ids, seeds = chains.logits, chains.ids, chains.seeds
    seen = set()
    for call in chains.calls:
        expected = fairdraw.verify_chain(logits, ids, **call, seed=seeds, offset=2)
        got = sampler.verify_chain(
            columns.of(logits), ids, **chains.of(call), seed=seeds, offset=2, **rounds
        )
        same_results(f"verify_chain {list(call)}", got, expected)
        seen |= set(expected.accepted.tolist())
    assert 0 in seen and max(seen) > 0, seen  # else no draft was rejected, or none accepted
    begins = torch.tensor([0, 4, 5, 9]).to(device)
    few = {"row_begins": begins, "max_draft": 3, "top_p": 0.9, "seed": 3}
    rows, drafted = logits.flatten(0, 1)[:9], ids.flatten()[:6]
    same_results("packed", sampler.verify_chain(columns.of(rows), drafted, **few, **rounds),
                 fairdraw.verify_chain(rows, drafted, **few))  # fmt: skip
    none = sampler.verify_chain(columns.of(logits[:0]), ids[:0], seed=1, **rounds)
    assert none.tokens.shape == (0, 4)


def check_chain_sampling(sampler, columns, device="cpu", **rounds):
    """`rounds`: of calls on a GPU, or nothing."""
    chains = Chains(columns, device)
    target = fairdraw.softmax(chains.logits)
    counts = [torch.ones(chains.batch, dtype=torch.int32, device=device) for _ in range(4)]
    expected = fairdraw.chain_speculative_sampling(
        chains.draft_probs, chains.ids, target, *counts[:2], seed=chains.seeds, offset=1
    )
    got = sampler.chain_speculative_sampling(
        columns.of(chains.draft_probs), chains.ids, columns.of(target), *counts[2:],
        seed=chains.seeds, offset=1, **rounds,
    )  # fmt: skip
    for name, mine, whole in zip(("tokens", "accepted", "emitted"), got, expected, strict=True):
        same(name, mine, whole)
    same("counts", counts[2], counts[0])


def check_trees(sampler, columns, device="cpu", **rounds):
    """`rounds`: of calls on a GPU, or nothing."""
    numbers = torch.Generator().manual_seed(9)
    batch, vocab = 6, columns.vocab
    parents = torch.tensor([-1, -1, -1, 0, 0, 1, 3]).expand(batch, -1)
    n = parents.shape[1]
    logits = torch.randn(batch, n + 1, vocab, generator=numbers) * 2
    draft_logits = logits + torch.randn(batch, n + 1, vocab, generator=numbers)
    draft_probs = fairdraw.softmax(draft_logits)
    by_node = fairdraw.sample(
        draft_logits.flatten(0, 1), num_samples=n, seed=5, purpose="draft"
    ).unflatten(0, (batch, n + 1))
    # Child j is draw j of its parent's row.
    rows = parents[0] + 1
    ids = torch.stack([by_node[:, rows[j], j] for j in range(n)], dim=1)
    seeds = (torch.arange(batch) + 70).to(device)
    logits, ids, parents = logits.to(device), ids.to(device), parents.contiguous().to(device)
    calls = [
        {},
        {"draft_probs": draft_probs},
        {"draft_logits": draft_logits, "top_k": 300, "draft_filters": fairdraw.LawFilters(top_p=0.9)},
        {"draft_probs": draft_probs, "siblings": "without_replacement", "top_p": 0.9},
        {"max_depth": 2, "temperature": 0.5,
         "processing": [fairdraw.RequestProcessing(frequency_penalty=0.5)] * batch},
    ]  # fmt: skip
    seen = set()
    for call in (on_device(call, device) for call in calls):
        local = {name: columns.of(value) if name in ("draft_probs", "draft_logits") else value
                 for name, value in call.items()}  # fmt: skip
        expected = fairdraw.verify_tree(logits, ids, parents, **call, seed=seeds)
        got = sampler.verify_tree(columns.of(logits), ids, parents, **local, seed=seeds, **rounds)
        same_results(f"verify_tree {list(call)}", got, expected)
        seen |= set(expected.accepted.tolist())
    assert 0 in seen and max(seen) > 0, seen


def check_fresh_seeds(sampler, columns):
    """Without a seed all ranks verify with the same fresh one."""
    logits = torch.zeros(4, 2, columns.vocab)
    found = sampler.verify_chain(columns.of(logits), torch.zeros(4, 1, dtype=torch.int32))
    told = [torch.empty_like(found.tokens) for _ in columns.widths]
    distributed.all_gather(told, found.tokens)
    assert all(torch.equal(each, found.tokens) for each in told)


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
            check_chains(sampler, columns)
            check_chain_sampling(sampler, columns)
            check_trees(sampler, columns)
            check_fresh_seeds(sampler, columns)
    finally:
        distributed.destroy_process_group()
