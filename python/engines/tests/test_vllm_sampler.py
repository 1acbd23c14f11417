"""Tests vLLM's own Sampler with fairdraw.torch.TopKTopPSampler in place of vLLM's class of that
name.

The tests are skipped if vllm cannot be imported and FAIRDRAW_VLLM_WHEEL names no wheel (README.md).
"""

import math

import numpy as np
import pytest

import fairdraw
from fairdraw_engines import Unavailable

torch = pytest.importorskip("torch")

import vllm_sampler  # noqa: E402

import fairdraw.torch as drop_in  # noqa: E402

MODES = ("raw_logits", "raw_logprobs", "processed_logits", "processed_logprobs")
ROWS, VOCAB = 8, 120


@pytest.fixture(scope="module")
def vllm():
    try:
        sampler, metadata, state = vllm_sampler.load()
    except Unavailable as reason:
        pytest.skip(str(reason))
    sampler.SamplingMetadata = metadata.SamplingMetadata
    sampler.LogitsProcessors = state.LogitsProcessors
    return sampler


def with_ours(vllm, mode, monkeypatch):
    """Makes vLLM's Sampler, with fairdraw's class under the name of vLLM's class."""
    monkeypatch.setattr(vllm, "TopKTopPSampler", drop_in.TopKTopPSampler)
    sampler = vllm.Sampler(mode)
    assert type(sampler.topk_topp_sampler) is drop_in.TopKTopPSampler
    return sampler


def logits_of(number, rows=ROWS):
    return torch.randn(rows, VOCAB, generator=torch.Generator().manual_seed(number)) * 3


def metadata_of(vllm, temperature, top_k=None, top_p=None, generators=None, logprobs=None):
    nothing = torch.empty(0)
    greedy = temperature < 1e-5
    return vllm.SamplingMetadata(
        temperature=temperature,
        all_greedy=bool(greedy.all()),
        all_random=not bool(greedy.any()),
        top_p=top_p,
        top_k=top_k,
        generators=generators or {},
        max_num_logprobs=logprobs,
        no_penalties=True,
        prompt_token_ids=None,
        frequency_penalties=nothing,
        presence_penalties=nothing,
        repetition_penalties=nothing,
        output_token_ids=[[] for _ in temperature],
        allowed_token_ids_mask=None,
        bad_words_token_ids={},
        logitsprocs=vllm.LogitsProcessors(),
    )


def mixed():
    """Returns logits of greedy and random rows, filters of all kinds, and generators for some rows."""
    temperature = torch.tensor([0.7, 0, 1, 1.3, 0, 0.9, 1, 0.5])
    top_k = torch.tensor([5, 3, VOCAB, 40, VOCAB, 1, VOCAB, 20], dtype=torch.int32)
    top_p = torch.tensor([0.9, 0.5, 1, 0.8, 1, 0.9, 0.6, 1])
    generators = {row: torch.Generator().manual_seed(1000 + row) for row in (0, 1, 3, 6)}
    return temperature, top_k, top_p, generators


def next_word(generator):
    """Returns the next 64-bit seed of a generator."""
    return int(torch.empty((), dtype=torch.int64).random_(-(2**63), None, generator=generator))


def expected_tokens(logits, temperature, top_k, top_p, seeds):
    """Draws the expected tokens with `sample`. Rows with their own seed draw at offset 0, and other
    rows at their row's number.
    """
    shared = next_word(None)
    signed = [seeds.get(row, shared) for row in range(len(logits))]
    drawn = fairdraw.sample(
        logits / torch.where(temperature < 1e-5, 1.0, temperature)[:, None],
        top_k=0 if top_k is None else top_k,
        top_p=1.0 if top_p is None else top_p,
        seed=torch.tensor(signed),
        offset=torch.tensor([0 if row in seeds else row for row in range(len(logits))]),
    )
    return torch.where(temperature < 1e-5, logits.argmax(-1).int(), drawn)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("filters", ["none", "top_k", "top_p", "both"])
def test_tokens_are_those_of_sample(vllm, mode, filters, monkeypatch):
    sampler = with_ours(vllm, mode, monkeypatch)
    temperature, top_k, top_p, generators = mixed()
    top_k = top_k if filters in ("top_k", "both") else None
    top_p = top_p if filters in ("top_p", "both") else None
    copies = {row: torch.Generator().manual_seed(1000 + row) for row in generators}
    for step in range(6):
        logits = logits_of(step)
        metadata = metadata_of(vllm, temperature, top_k, top_p, generators)
        torch.manual_seed(step)
        output = sampler.forward(logits.clone(), metadata)
        torch.manual_seed(step)
        seeds = {row: next_word(copy) for row, copy in copies.items()}
        expected = expected_tokens(logits, temperature, top_k, top_p, seeds)
        assert output.sampled_token_ids.dtype == torch.int32
        assert torch.equal(output.sampled_token_ids, expected[:, None])
        assert output.logprobs_tensors is None


def test_all_random_and_all_greedy_batches(vllm, monkeypatch):
    sampler = with_ours(vllm, "raw_logprobs", monkeypatch)
    logits = logits_of(3)
    hot = torch.full((ROWS,), 1.5)
    generators = {row: torch.Generator().manual_seed(row) for row in range(ROWS)}
    tokens, processed = sampler.sample(
        logits.clone(), metadata_of(vllm, hot, generators=generators)
    )
    seeds = {row: next_word(torch.Generator().manual_seed(row)) for row in range(ROWS)}
    assert tokens.int().tolist() == expected_tokens(logits, hot, None, None, seeds).tolist()
    assert processed is None
    tokens, _ = sampler.sample(logits.clone(), metadata_of(vllm, torch.zeros(ROWS)))
    assert tokens.tolist() == logits.argmax(-1).tolist()


@pytest.mark.parametrize("mode", MODES)
def test_logprobs_are_those_of_vllms_own_sampler(vllm, mode, monkeypatch):
    """Without ties the masks are equal. vLLM then reports the same log-probabilities for whole
    rows, and for the tokens that fairdraw's class drew it reports the values of those rows."""
    temperature, top_k, top_p, generators = mixed()
    own = vllm.Sampler(mode)
    ours = with_ours(vllm, mode, monkeypatch)
    for step in range(5):
        logits = logits_of(50 + step)
        arguments = (vllm, temperature, top_k, top_p, generators)
        rows = own.forward(logits.clone(), metadata_of(*arguments, logprobs=-1))
        whole = ours.forward(logits.clone(), metadata_of(*arguments, logprobs=-1))
        assert torch.equal(whole.logprobs_tensors.logprobs, rows.logprobs_tensors.logprobs)
        found = ours.forward(logits.clone(), metadata_of(*arguments, logprobs=3))
        ids, values, ranks = found.logprobs_tensors[:3]
        tokens = found.sampled_token_ids.long()
        table = rows.logprobs_tensors.logprobs
        assert torch.equal(ids[:, :1], found.sampled_token_ids)
        assert torch.equal(values[:, :1], table.gather(1, tokens))
        assert torch.equal(values[:, 1:], table.topk(3).values)
        assert torch.equal(ranks, (table >= table.gather(1, tokens)).sum(-1))


def test_the_law_is_that_of_vllms_mask(vllm, monkeypatch):
    """Compares frequencies of tokens with vLLM's own processed probabilities.

    By Hoeffding's inequality the frequency of one of 12 tokens among n draws is off by more than
    sqrt(ln(2 * 12 / 1e-9) / (2 n)) with probability below 1e-9 / 12.
    """
    draws, vocab = 40000, 12
    row = torch.linspace(-1.5, 2, vocab)[torch.randperm(vocab, generator=torch.manual_seed(4))]
    logits = row.repeat(draws, 1)
    ones = torch.full((draws,), 1.2)
    filters = (torch.full((draws,), 9, dtype=torch.int32), torch.full((draws,), 0.85))
    own = vllm.Sampler("processed_logprobs")
    law = (
        own.forward(
            logits[:1].clone(),
            metadata_of(vllm, ones[:1], filters[0][:1], filters[1][:1], logprobs=-1),
        )
        .logprobs_tensors.logprobs[0]
        .exp()
    )
    # Both filters matter, because top_p keeps fewer than top_k's nine tokens.
    assert 2 <= (law > 0).sum() < 9
    sampler = with_ours(vllm, "processed_logprobs", monkeypatch)
    metadata = metadata_of(vllm, ones, *filters)
    tokens = sampler.forward(logits.clone(), metadata).sampled_token_ids[:, 0]
    bound = math.sqrt(math.log(2 * vocab / 1e-9) / (2 * draws))
    counts = torch.bincount(tokens, minlength=vocab) / draws
    assert (counts[law == 0] == 0).all()
    assert (counts - law).abs().max() < bound
    unfiltered = (row / 1.2).softmax(-1)
    assert (counts - unfiltered).abs().max() > bound  # the test would notice another mask


def test_it_takes_the_place_in_a_sampler_that_exists(vllm):
    sampler = vllm.Sampler("raw_logprobs", use_fp64_gumbel=True)
    sampler.topk_topp_sampler = drop_in.TopKTopPSampler("raw_logprobs", use_fp64_gumbel=True)
    logits = logits_of(9)
    generators = {row: torch.Generator().manual_seed(row) for row in range(ROWS)}
    metadata = metadata_of(vllm, torch.ones(ROWS), generators=generators)
    tokens = sampler.forward(logits.clone(), metadata).sampled_token_ids[:, 0]
    seeds = np.array([next_word(torch.Generator().manual_seed(row)) for row in range(ROWS)])
    assert tokens.tolist() == fairdraw.sample(logits, seed=torch.from_numpy(seeds)).tolist()


def test_a_row_of_nan_gets_no_token_and_the_others_theirs(vllm, monkeypatch):
    sampler = with_ours(vllm, "raw_logprobs", monkeypatch)
    temperature, top_k, top_p, generators = mixed()
    logits = logits_of(11)
    metadata = metadata_of(vllm, torch.ones(ROWS), top_k, top_p, generators)
    broken = logits.clone()
    broken[3, 7] = math.nan
    torch.manual_seed(1)
    tokens = sampler.forward(broken, metadata).sampled_token_ids[:, 0]
    torch.manual_seed(1)
    seeds = {row: next_word(torch.Generator().manual_seed(1000 + row)) for row in generators}
    expected = expected_tokens(logits, torch.ones(ROWS), top_k, top_p, seeds)
    expected[3] = -1
    assert tokens.tolist() == expected.tolist()


def test_a_row_of_nan_beside_logprobs_needs_an_id(vllm):
    sampler = vllm.Sampler("raw_logprobs")
    logits = logits_of(12)
    logits[3, 7] = math.nan
    metadata = metadata_of(vllm, torch.ones(ROWS), logprobs=2)
    # The docstring of the class says about its default that vLLM gathers at index -1.
    sampler.topk_topp_sampler = drop_in.TopKTopPSampler()
    with pytest.raises(RuntimeError, match="index -1 is out of bounds"):
        sampler.forward(logits.clone(), metadata)
    sampler.topk_topp_sampler = drop_in.TopKTopPSampler(failed_token=5)
    output = sampler.forward(logits.clone(), metadata)
    assert output.sampled_token_ids[3] == 5
    others = [row for row in range(ROWS) if row != 3]
    assert output.logprobs_tensors.logprobs[others].isfinite().all()
