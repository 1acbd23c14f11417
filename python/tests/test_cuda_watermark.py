"""Tests marked draws on a GPU, whose tokens must equal the CPU's.

The tests are skipped without torch, a GPU, or the package's CUDA part.
"""

import pytest

import fairdraw
from cuda_tensors import expect_same, on_gpu, torch
from fairdraw import RequestProcessing

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
SCHEMES = ["race", "tournament", "green_list"]
LISTS = [[], [5], [7, 8, 9], list(range(20)), [3, 1, 3, 1, 3, 1, 3], [2, 9]]


def logits_of(dtype, vocab=3001):
    numbers = torch.Generator().manual_seed(11)
    return (torch.randn(len(LISTS), vocab, generator=numbers) * 3).to(dtype)


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "options",
    [
        {"top_k": 50, "top_p": 0.9},
        {"top_p": 0.9, "window": 2},
        {"temperature": 0.7, "second_key": 5, "second_share": 0.5, "mask_repeated": False},
        {"min_p": 0.02, "layers": 7, "green_share": 0.5, "green_bias": 4.0},
        {"seed": torch.arange(6), "active": torch.tensor([True, False, True, True, False, True])},
        {"key": torch.tensor([0, 5, -1, 2**62, 0, 9])},
        {"key": 2**64 - 1},
    ],
)
def test_tokens_are_those_of_the_cpu(scheme, dtype, options):
    logits = logits_of(dtype)
    call = {"key": 77, "seed": 3, "scheme": scheme, "outputs": LISTS, **options}
    here_call = dict(call)
    if isinstance(call["key"], torch.Tensor):  # the same bits
        here_call["key"] = call["key"].numpy().view("uint64")
    here = fairdraw.sample_marked(logits, **here_call)
    there = fairdraw.sample_marked(logits.cuda(), **{n: on_gpu(v) for n, v in call.items()})
    expect_same(here.tokens, there.tokens)
    expect_same(here.statuses, there.statuses)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_rows_with_processing(scheme):
    logits = logits_of(torch.float32)
    call = {"top_p": 0.9, "key": 77, "seed": 3, "scheme": scheme}
    kept = [
        RequestProcessing(output=ids, bias={3: 2.0, 9: -1.0}, repetition_penalty=1.2)
        for ids in LISTS
    ]
    here = fairdraw.sample_marked(logits, **call, processing=kept)
    there = fairdraw.sample_marked(logits.cuda(), **call, processing=kept)
    expect_same(here.tokens, there.tokens)


def test_a_key_in_host_memory_is_refused():
    with pytest.raises(ValueError, match="key is on cpu; the rows are on cuda:0"):
        fairdraw.sample_marked(
            logits_of(torch.float32).cuda(), key=torch.arange(6), outputs=LISTS, seed=1
        )
