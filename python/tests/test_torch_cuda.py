"""Tests fairdraw.torch on a GPU. Tokens and processed rows must equal the CPU's, bit for bit.

The tests are skipped without torch, a GPU, or the package's CUDA part.
"""

import math
from types import SimpleNamespace

import pytest

import fairdraw
from cuda_tensors import expect_same, on_gpu, torch

drop_in = pytest.importorskip("fairdraw.torch", reason="torch is not installed")

ROWS, VOCAB = 6, 4099
DTYPES = [torch.float32, torch.float16, torch.bfloat16]
MODES = ["raw_logits", "raw_logprobs", "processed_logits", "processed_logprobs"]
K = torch.tensor([1, 5, 50, VOCAB, 700, 3])
P = torch.tensor([0.5, 0.9, 1.0, 0.3, 0.99, 1.0])
FILTERS = {"none": (None, None), "k": (K, None), "p": (None, P), "k+p": (K, P)}


def logits_of(number, dtype=torch.float32, rows=ROWS):
    generator = torch.Generator().manual_seed(number)
    return (torch.randn(rows, VOCAB, generator=generator) * 3).to(dtype)


def seeded(number, device="cpu"):
    return torch.Generator(device).manual_seed(number)


def given(parameter):
    return None if parameter is None else on_gpu(parameter)


@pytest.mark.parametrize("rows_seeded", ["all", "some", "none"])
@pytest.mark.parametrize("filters", FILTERS)
@pytest.mark.parametrize("mode", MODES)
def test_every_mode_is_the_cpus(mode, filters, rows_seeded):
    sampler = drop_in.TopKTopPSampler(mode)
    k, p = FILTERS[filters]
    rows = {"all": range(ROWS), "some": range(0, ROWS, 2), "none": ()}[rows_seeded]
    for dtype in DTYPES:
        results = []
        for logits, on_k, on_p in (
            (logits_of(1, dtype), k, p),
            (on_gpu(logits_of(1, dtype)), given(k), given(p)),
        ):
            torch.manual_seed(5)  # the generator that rows without a generator of their own share
            generators = {row: seeded(row) for row in rows}
            results.append(sampler(logits, generators, on_k, on_p))
        (tokens, processed), (tokens_there, processed_there) = results
        expect_same(tokens, tokens_there)
        assert tokens_there.dtype == torch.int64 and (tokens_there >= 0).all()
        if mode == "processed_logprobs" and processed is not None:
            # log_softmax is computed by each device's own function: x - max - log(sum of exp(x -
            # max)). A sum of VOCAB terms, in any order, is off by at most VOCAB 2^-24 of itself,
            # and each exponential by 8 * 2^-24 (4 ulp). The logarithm turns relative errors into
            # absolute errors. There are then three roundings of numbers below 2^6, because no |x|
            # is above 3 * 6.
            kept = processed > -math.inf
            assert torch.equal(kept, processed_there.cpu() > -math.inf)
            difference = (processed - processed_there.cpu())[kept].abs().max()
            assert difference <= 2 * (VOCAB + 8 + 3 * 2**6) * 2**-24
        else:
            expect_same(processed, processed_there)


def test_a_generator_on_the_gpu_is_honoured_wherever_its_row_is():
    sampler = drop_in.TopKTopPSampler()

    def steps(row, neighbours):
        generator = seeded(42, "cuda")
        drawn = []
        for step in range(12):
            batch = logits_of(100 + step)
            batch[row] = logits_of(step)[0]
            generators = {row: generator}
            if neighbours:
                generators[(row + 1) % ROWS] = seeded(step)  # one generator is on the CPU
                generators[(row + 2) % ROWS] = seeded(step, "cuda")
            drawn.append(
                int(sampler(on_gpu(batch), generators, None, on_gpu(P * 0 + 0.95))[0][row])
            )
        assert generator.get_offset() == 4 * 12
        return drawn

    alone = steps(0, neighbours=False)
    assert steps(3, neighbours=True) == alone == steps(5, neighbours=False)
    assert len(set(alone)) > 1


def test_vllm_can_discard_a_token_of_a_generator_on_the_gpu():
    sampler = drop_in.TopKTopPSampler()
    flat = torch.zeros(1, VOCAB, device="cuda")
    generator = seeded(7, "cuda")
    first = sampler(flat, {0: generator}, None, None)[0]
    second = sampler(flat, {0: generator}, None, None)[0]
    generator.set_offset(generator.get_offset() - 4)
    assert torch.equal(sampler(flat, {0: generator}, None, None)[0], second)
    assert not torch.equal(first, second)  # equal with probability 1 / VOCAB, for this one seed


def test_a_row_that_fails_ends_alone_on_the_gpu():
    logits = on_gpu(logits_of(1))
    logits[2, 5] = math.nan
    good = [0, 1, 3, 4, 5]
    generators = {row: seeded(row) for row in range(ROWS)}
    tokens = drop_in.TopKTopPSampler(failed_token=9)(logits, generators, None, None)[0]
    generators = {row: seeded(row) for row in range(ROWS)}
    whole = drop_in.TopKTopPSampler()(on_gpu(logits_of(1)), generators, None, None)[0]
    assert tokens[2] == 9 and torch.equal(tokens[good], whole[good])


def test_nothing_waits_for_the_gpu():
    sampler = drop_in.TopKTopPSampler()
    logits, k, p = on_gpu(logits_of(1)), on_gpu(K), on_gpu(P)
    generators = {0: seeded(0, "cuda"), 1: seeded(1)}
    sampler(logits, generators, k, p)  # allocates memory that later calls reuse
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        sampler(logits, generators, k, p)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_generation_draws_on_the_gpu_what_it_draws_on_the_cpu(dtype):
    # The loop imitates generate(): the input of a logits processor, and the draws from the
    # processor's scores.
    for seed in (7, torch.arange(ROWS) + 2**62):
        sampler = drop_in.GenerationSampler(0.8, K, P, 0.01, seed=seed)
        there = drop_in.GenerationSampler(0.8, on_gpu(K), on_gpu(P), 0.01, seed=on_gpu(seed))
        for length in (3, 4):
            ids = torch.zeros(ROWS, length, dtype=torch.int64)
            scores = logits_of(length, dtype)
            expect_same(sampler(ids, scores), there(on_gpu(ids), on_gpu(scores)))


def test_a_tensorrt_llm_request_on_a_stream_of_the_engine():
    sampler = drop_in.RequestSampler(0.7, 50, 0.9, seed=2**63 + 5)
    stream = torch.cuda.Stream()
    ids = [3, 4]
    for step in range(4):
        logits = logits_of(step, rows=1)
        expected = fairdraw.sample(logits, 0.7, 50, 0.9, seed=2**63 + 5, offset=len(ids))
        shaped = on_gpu(logits)[None]
        torch.cuda.synchronize()
        sampler(1, shaped, [ids], stream.cuda_stream, None)
        stream.synchronize()
        assert (shaped > -math.inf).sum() == 1
        ids.append(int(shaped.argmax()))
        assert ids[-1] == int(expected[0])


def test_sglang_requests_on_the_gpu():
    requests = SimpleNamespace(
        here=[drop_in.SglangSampler.params(seed=2**64 - 1 - row, top_k=row) for row in range(ROWS)],
        there=[
            drop_in.SglangSampler.params(seed=2**64 - 1 - row, top_k=row) for row in range(ROWS)
        ],
    )
    requests.here[2] = requests.there[2] = None  # left to SGLang
    sampler = drop_in.SglangSampler()
    for step in range(3):
        logits = logits_of(step)
        expect_same(sampler(logits.clone(), requests.here), sampler(on_gpu(logits), requests.there))


def test_a_captured_draw_is_replayed():
    # GenerationSampler and RequestSampler read their numbers when they are called. A captured
    # `sample` reads seeds and offsets from device memory, as an engine's graph needs.
    logits = on_gpu(logits_of(1))
    seeds = torch.arange(ROWS, device="cuda")
    offsets = torch.zeros(ROWS, dtype=torch.int64, device="cuda")
    fairdraw.sample(logits, seed=seeds, offset=offsets)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tokens = fairdraw.sample(logits, seed=seeds, offset=offsets)
    for step in range(3):
        offsets.fill_(step)
        graph.replay()
        expect_same(fairdraw.sample(logits_of(1), seed=seeds.cpu(), offset=offsets.cpu()), tokens)
