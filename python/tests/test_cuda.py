"""Tests operations on GPU tensors. The tokens must equal those on the CPU, and no call may copy
rows or wait.

The tests are skipped without torch, a GPU, or the package's CUDA part.
"""

import numpy as np
import pytest

import fairdraw
from cuda_tensors import on_gpu, same_on_both, torch
from fairdraw import _core
from fairdraw.request_processing import RequestProcessing

ROWS, VOCAB = 6, 4099
DTYPES = [torch.float32, torch.float16, torch.bfloat16]


@pytest.fixture(params=DTYPES, ids=str)
def logits(request):
    values = np.random.default_rng(3).standard_normal((ROWS, VOCAB), np.float32) * 3
    return torch.from_numpy(values).to(request.param)


@pytest.fixture
def probs(logits):
    return fairdraw.softmax(logits)


SEEDS = torch.arange(ROWS) + 2**62
BY_ROW = {
    "temperature": torch.linspace(0, 2, ROWS),
    "top_k": torch.tensor([0, 1, 5, 50, -1, 2**40]),
    "top_p": torch.linspace(0.1, 1, ROWS, dtype=torch.float64),
    "min_p": torch.tensor([0.0, 0.1, 0.0, 0.01, 0.5, 1.0]),
}


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"temperature": 0.7, "top_k": 50, "top_p": 0.9, "min_p": 0.01},
        {"temperature": 0.0},
        BY_ROW,
        # One value of the parameter for all rows.
        {name: value[1:2] for name, value in BY_ROW.items()},
        {"top_k": torch.tensor(7), "filter_apply_order": "joint", "top_p": np.float32(0.9)},
        {"top_k": 50, "tie_rule": "lowest_id"},
        {
            "top_k": 50,
            "top_p": 0.4,
            "tie_rule": torch.tensor([0, 1, 0, 1, 2, 1]),
            "filter_apply_order": ["joint", "top_k_first", "joint"] * 2,
        },
        {"num_samples": 3},
        {"indices": torch.tensor([5, 0, 0, 2])},
        {"indices": torch.tensor([2**33, 1]), "return_valid": True},
    ],
)
@pytest.mark.parametrize("seed", [7, torch.tensor([7]), SEEDS], ids=["one", "[1]", "[rows]"])
def test_sample(logits, parameters, seed):
    outputs = len(parameters.get("indices", SEEDS))
    if isinstance(seed, torch.Tensor) and len(seed) > 1:
        seed = seed[:outputs]
    same_on_both(fairdraw.sample, logits, **parameters, seed=seed, offset=5)


def test_processing_and_masked_nuclei(logits):
    rows = [
        RequestProcessing(bias={row: 3.0, 5: -np.inf}, presence_penalty=0.5, output=[row, 7])
        for row in range(ROWS)
    ]
    same_on_both(
        fairdraw.sample, logits, top_p=0.9, processing=rows, seed=SEEDS, return_details=True
    )
    same_on_both(fairdraw.top_p_mask_logits, logits, BY_ROW["top_p"])


def test_details_masks_and_padding(logits):
    allowed = torch.from_numpy(
        np.random.default_rng(1).integers(-(2**31), 2**31, (ROWS, (VOCAB + 31) // 32), np.int32)
    )
    details = same_on_both(
        fairdraw.sample, logits, 0.8, 40, 0.9, allowed=allowed, seed=SEEDS, return_details=True
    )
    assert (details.statuses == 0).all() and (details.support_size > 0).all()
    active = torch.tensor([True, False, True, True, False, True])
    tokens = same_on_both(fairdraw.sample, logits, active=active, seed=1)
    assert ((tokens >= 0) == active).all()


def test_operations_of_flashinfer(logits, probs):
    top_k, top_p = BY_ROW["top_k"], BY_ROW["top_p"]
    same_on_both(fairdraw.softmax, logits, BY_ROW["temperature"])
    same_on_both(fairdraw.softmax, logits)
    same_on_both(fairdraw.sampling_from_logits, logits, seed=SEEDS)
    same_on_both(fairdraw.sampling_from_probs, probs, seed=SEEDS, return_valid=True)
    same_on_both(fairdraw.top_k_sampling_from_probs, probs, top_k, seed=1)
    same_on_both(fairdraw.top_p_sampling_from_probs, probs, 0.9, seed=SEEDS, offset=SEEDS)
    same_on_both(fairdraw.min_p_sampling_from_probs, probs, BY_ROW["min_p"], seed=1)
    for order in ("top_k_first", "joint"):
        same_on_both(
            fairdraw.top_k_top_p_sampling_from_logits, logits, top_k, top_p,
            filter_apply_order=order, seed=1,
        )  # fmt: skip
        same_on_both(
            fairdraw.top_k_top_p_sampling_from_probs, probs, 40, top_p,
            filter_apply_order=order, seed=1, return_valid=True,
        )  # fmt: skip
    same_on_both(fairdraw.top_k_mask_logits, logits, top_k)
    same_on_both(fairdraw.top_k_renorm_probs, probs, top_k)
    same_on_both(fairdraw.top_p_renorm_probs, probs, top_p)


def test_chains():
    def rows(seed, *shape):
        return torch.from_numpy(np.random.default_rng(seed).random((*shape, 50), np.float32))

    ids = torch.from_numpy(np.random.default_rng(2).integers(0, 50, (4, 3)))
    total = torch.full((4,), 10)
    tokens, accepted, emitted = same_on_both(
        fairdraw.chain_speculative_sampling, rows(0, 4, 3), ids, rows(1, 4, 4), total, seed=9
    )
    assert (tokens[:, 0] >= 0).all() and (accepted >= 10).all() and (emitted >= 0).all()


def test_rows_are_not_copied():
    rows = torch.zeros(64, 1 << 20, device="cuda")
    wide = torch.zeros(64, (1 << 20) + 3, device="cuda")[:, : 1 << 20]
    for given in (rows, wide):
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        fairdraw.sample(given, top_k=5, top_p=0.9, seed=1)
        torch.cuda.synchronize()
        # The call needs 64 tokens and the workspace. torch's allocator rounds each of them up by at
        # most 2 MiB.
        grown = torch.cuda.max_memory_allocated() - before
        assert grown < _core.cuda_workspace_bytes(64) + 2 * 2**21 < given.numel()
    out = torch.empty(64, dtype=torch.int32, device="cuda")
    assert fairdraw.sample(rows, out=out, seed=1) is out


def test_unseeded_calls_are_fresh_and_generators_repeat():
    flat = torch.ones(64, VOCAB, device="cuda")

    def drawn(**named):  # two independent calls give equal tokens with a probability of 4099^-64
        return fairdraw.sampling_from_probs(flat, **named).tolist()

    assert drawn() != drawn()
    torch.manual_seed(1)
    first = drawn()
    torch.manual_seed(1)
    assert drawn() == first
    for device in ("cuda", "cpu"):
        generator = torch.Generator(device).manual_seed(5)
        once, twice = drawn(generator=generator), drawn(generator=generator)
        assert once != twice
        generator.manual_seed(5)
        assert drawn(generator=generator) == once


def test_a_graph_draws_anew_with_seeds_in_a_tensor():
    logits = torch.randn(4, VOCAB, device="cuda")
    top_p = torch.full((1,), 0.95, device="cuda")
    seed = torch.zeros(4, dtype=torch.int64, device="cuda")
    out = torch.empty(4, dtype=torch.int32, device="cuda")

    def call():
        fairdraw.sample(logits, 0.8, top_p=top_p, seed=seed, out=out)

    call()  # loads the kernels before the graph is captured
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    for step in range(3):
        seed.fill_(step)
        top_p.fill_(0.9 - 0.1 * step)
        graph.replay()
        want = fairdraw.sample(logits.cpu(), 0.8, top_p=top_p.item(), seed=torch.full((4,), step))
        assert out.tolist() == want.tolist()
    # With one request, each replay also reads a tensor of one seed again.
    one = torch.empty(1, dtype=torch.int32, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        fairdraw.sample(logits[:1], seed=seed[:1], out=one)
    for step in range(3):
        seed.fill_(100 + step)
        graph.replay()
        assert one.item() == fairdraw.sample(logits[:1].cpu(), seed=100 + step).item()


def test_an_unseeded_call_is_refused_in_a_capture():
    logits = torch.randn(4, VOCAB, device="cuda")
    fairdraw.sample(logits)
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        kept = logits + 1  # torch warns about a graph capture without work
        with pytest.raises(RuntimeError, match="seed: is needed while a CUDA graph is captured"):
            fairdraw.sample(logits)
    assert kept.shape == logits.shape


def test_one_seed_in_a_tensor_for_several_outputs_is_refused_in_a_capture():
    logits = torch.randn(4, VOCAB, device="cuda")
    one, each = torch.ones(1, dtype=torch.int64, device="cuda"), torch.arange(4, device="cuda")
    tokens = fairdraw.sample(logits, seed=one, offset=one)  # waits
    assert tokens.tolist() == fairdraw.sample(logits, seed=1, offset=1).tolist()
    message = (
        " is a tensor of one value on cuda:0, which would be waited for while a CUDA graph is "
        "captured; allowed: a number, or 4 values, one each"
    )
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        kept = logits + 1  # torch warns about a graph capture without work
        with pytest.raises(RuntimeError, match="seed" + message):
            fairdraw.sample(logits, seed=one)
        with pytest.raises(RuntimeError, match="offset" + message):
            fairdraw.sample(logits, seed=each, offset=one)
    assert kept.shape == logits.shape


def test_unsigned_parameters_do_not_wrap():
    logits = torch.randn(2, VOCAB)
    top_k = torch.tensor([2**32 - 2, 1]).to(torch.uint32)  # off, and 1
    tokens = same_on_both(fairdraw.sample, logits, top_k=top_k, seed=torch.arange(2))
    assert tokens[1] == logits[1].argmax()
    with pytest.raises(TypeError, match="top_k holds uint64; on a GPU int32 is needed"):
        fairdraw.sample(logits.cuda(), top_k=top_k.to(torch.int64).to(torch.uint64).cuda(), seed=1)


def test_calls_go_to_the_current_stream():
    stream = torch.cuda.Stream()
    logits = torch.zeros(8, VOCAB, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        # The sleep takes tens of ms, so that a call that does not wait for the stream reads zeros.
        torch.cuda._sleep(50_000_000)
        logits[:, 77] = 1000
        tokens = fairdraw.sample(logits, seed=1)
    stream.synchronize()
    assert tokens.tolist() == [77] * 8


def test_calls_do_not_wait():
    logits = torch.randn(8, VOCAB, device="cuda")
    top_k = torch.full((8,), 50, device="cuda")
    temperature, seeds = torch.full((1,), 0.7, device="cuda"), torch.arange(8, device="cuda")
    fairdraw.sample(logits, temperature, top_k, seed=seeds)
    torch.cuda.set_sync_debug_mode("error")
    try:
        fairdraw.sample(logits, 0.7, top_k, 0.9, seed=seeds, return_valid=True)
        fairdraw.sampling_from_logits(logits)
        fairdraw.softmax(logits, temperature)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_bad_rows_fail_alone():
    probs = torch.rand(4, VOCAB)
    probs[1, 5] = float("nan")
    probs[2] = 0
    tokens, valid = same_on_both(fairdraw.sampling_from_probs, probs, seed=4, return_valid=True)
    assert valid.tolist() == [True, False, False, True] and tokens[1] == tokens[2] == -1
    with pytest.raises(ValueError, match="probs contains NaN"):
        fairdraw.sampling_from_probs(probs.cuda(), check_nan=True)


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ({"logits": torch.zeros(2, 8).double()}, TypeError, "logits holds float64"),
        ({"logits": torch.zeros(8)}, TypeError, "logits has 1 axes"),
        ({"logits": torch.zeros(8, 2).T}, ValueError, "logits: .* their stride is 2"),
        ({"temperature": -1.0}, ValueError, "temperature is -1"),
        ({"temperature": torch.ones(3)}, ValueError, "length of temperature is 3; allowed: 2"),
        ({"top_k": torch.ones(2)}, TypeError, "top_k holds float32"),
        ({"top_p": torch.ones(2, dtype=torch.bool)}, TypeError, "top_p holds bool"),
        ({"seed": torch.ones(2)}, TypeError, "seed holds float32"),
        ({"seed": torch.arange(3)}, ValueError, "length of seed is 3; allowed: 2"),
        ({"indices": torch.zeros(2)}, TypeError, "indices holds float32"),
        ({"out": torch.empty(2, dtype=torch.int64)}, TypeError, "out holds int64"),
    ],
)
def test_bad_arguments_are_named(arguments, error, message):
    call = {"logits": torch.zeros(2, 8), "seed": 1, **arguments}
    with pytest.raises(error, match=message):
        fairdraw.sample(**{name: on_gpu(value) for name, value in call.items()})


def test_arrays_elsewhere_are_named():
    logits = torch.zeros(2, 8, device="cuda")
    elsewhere = {
        "temperature": torch.ones(2),
        "top_p": np.ones(2, np.float32),
        "seed": torch.arange(2),
        "indices": torch.zeros(2, dtype=torch.int32),
        "allowed": torch.full((2, 1), -1, dtype=torch.int32),
        "out": torch.empty(2, dtype=torch.int32),
    }
    for name, array in elsewhere.items():
        with pytest.raises(ValueError, match=f"{name} is on cpu; the rows are on cuda:0"):
            fairdraw.sample(logits, **{"seed": 1, name: array})
    with pytest.raises(ValueError, match="out is on cuda:0; the rows are on cpu"):
        fairdraw.sample(logits.cpu(), out=torch.empty(2, dtype=torch.int32).cuda(), seed=1)


def test_a_device_that_is_not_the_current_one():
    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    logits = torch.randn(4, VOCAB)
    tokens = fairdraw.sample(logits.to("cuda:1"), seed=1)
    assert tokens.device.index == 1 and torch.cuda.current_device() == 0
    assert tokens.tolist() == fairdraw.sample(logits, seed=1).tolist()
    with pytest.raises(ValueError, match="temperature is on cuda:0; the rows are on cuda:1"):
        fairdraw.sample(logits.to("cuda:1"), torch.ones(4, device="cuda:0"), seed=1)


def test_a_sampler_on_the_gpu_is_judged():
    def mine(batch):
        return fairdraw.sample(
            batch.logits.cuda(), batch.temperature.cuda(), batch.top_k.cuda(),
            batch.top_p.cuda(), batch.min_p.cuda(), seed=batch.seed.cuda(),
            offset=batch.offset.cuda(),
        ).cpu()  # fmt: skip

    report = fairdraw.verify(
        mine, suite="smoke", case="replay/*", seed=1, arrays="torch",
        abilities=["exact_integer", "per_request_seeds"], randomness=["seeds", "offsets", "outputs", "replays"],
    )  # fmt: skip
    assert report.verdict == "passed", str(report.failures)
    stays = fairdraw.verify(
        lambda batch: batch.logits.cuda().argmax(1), suite="smoke", case="support/*", seed=1,
        arrays="torch",
    )  # fmt: skip
    assert "the callable returned an array on cuda:0; bring it to the CPU" in str(
        [case.message for case in stays.failures]
    )


@pytest.mark.parametrize("mode", ["raw_logits", "raw_logprobs", "processed_logprobs"])
@pytest.mark.parametrize("top", [0, 20, -1])
def test_log_probabilities_are_those_of_the_cpu(logits, mode, top):
    named = {**BY_ROW, "seed": SEEDS, "logprobs": top, "logprobs_mode": mode}
    tokens, here = fairdraw.sample(logits, **named)
    there_named = {name: on_gpu(value) for name, value in named.items()}
    there_tokens, there = fairdraw.sample(logits.cuda(), **there_named)
    assert torch.equal(tokens, there_tokens.cpu())
    given = fairdraw.log_probabilities(
        logits.cuda(), there_tokens, **{n: there_named[n] for n in BY_ROW}, logprobs=top,
        logprobs_mode=mode,
    )  # fmt: skip
    for name in ("values", "ranks", "top_ids", "top_values", "all"):
        want = getattr(here, name, None)
        if want is None:
            continue
        for report in (there, given):
            got = getattr(report, name)
            if want.dtype == torch.float32:
                # The GPU's own logarithm differs from the CPU's by one unit in the last place.
                assert torch.equal(want.isinf(), got.cpu().isinf())
                finite = want.isfinite()
                unit = torch.finfo(torch.float32).eps * want[finite].abs()
                assert bool(((want - got.cpu())[finite].abs() <= unit).all())
            else:
                assert torch.equal(want, got.cpu())
