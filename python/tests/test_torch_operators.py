"""Tests torch.ops.fairdraw, and torch.compile of functions that call fairdraw."""

import warnings

import pytest

import fairdraw

torch = pytest.importorskip("torch", reason="torch is not installed")

import fairdraw.torch_compile  # noqa: E402
from fairdraw import _core  # noqa: E402

ROWS, VOCAB, DRAFTED = 4, 70, 3

on_gpu = pytest.mark.skipif(
    not torch.cuda.is_available() or bool(_core.why_no_cuda()),
    reason="there is no CUDA device, or no kernels for it",
)
DEVICES = ["cpu", pytest.param("cuda", marks=on_gpu)]


@pytest.fixture(params=DEVICES)
def device(request):
    torch.compiler.reset()
    return request.param


def rows(number, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(number)) * 3


def random_bits(outputs=ROWS):
    return {"seed": torch.arange(outputs) + 2**62, "offset": torch.arange(outputs) * 5}


LOGITS = rows(1, ROWS, VOCAB)
PROBS = LOGITS.softmax(-1)
BY_ROW = {
    "temperature": torch.tensor([0.0, 0.5, 1.0, 2.0]),
    "top_k": torch.tensor([0, 1, 5, 50]),
    "top_p": torch.tensor([0.1, 0.5, 0.9, 1.0]),
    "min_p": torch.tensor([0.0, 0.1, 0.01, 0.0]),
}
ALLOWED = torch.full((ROWS, (VOCAB + 31) // 32), 0x55555555, dtype=torch.int32)
ACTIVE = torch.tensor([True, False, True, True])
INDICES = torch.tensor([3, 0, 0, 2, 1])
DRAFT_IDS = torch.tensor([[1, 2, 3], [4, 5, 6], [7, 8, 9], [10, 11, 12]])
TARGET = rows(2, ROWS, DRAFTED + 1, VOCAB)
DRAFT = rows(3, ROWS, DRAFTED, VOCAB)
PACKED = {"row_begins": torch.tensor([0, 4, 8, 12, 16]), "max_draft": DRAFTED}

#: Maps each torch operator to its arguments by name.
CALLS = [
    ("sample", {"logits": LOGITS, **random_bits()}),
    ("sample", {"logits": LOGITS.half(), **random_bits(1), "top_k": torch.tensor([5])}),
    ("sample", {"logits": LOGITS, **random_bits(), **BY_ROW, "num_samples": 3}),
    ("sample", {"logits": LOGITS, **random_bits(5), "indices": INDICES}),
    ("sample", {"logits": LOGITS, **random_bits(), "allowed": ALLOWED, "active": ACTIVE}),
    ("sample_logprobs", {"logits": LOGITS, **random_bits(), "logprobs": 2, "num_samples": 2}),
    (
        "sample_logprobs",
        {"logits": LOGITS, **random_bits(), "logprobs": -1, "logprobs_mode": "processed_logits"},
    ),
    ("sample_details", {"logits": LOGITS, **random_bits(), **BY_ROW, "num_samples": 2}),
    ("sample_details", {"logits": LOGITS, **random_bits(5), "indices": INDICES}),
    ("log_probabilities", {"logits": LOGITS, "token_ids": DRAFT_IDS, "logprobs": 4}),
    ("log_probabilities", {"logits": LOGITS, "token_ids": INDICES, "indices": INDICES}),
    ("draw", {"rows": LOGITS, **random_bits(), "input": "logits", "top_k": BY_ROW["top_k"]}),
    ("draw", {"rows": PROBS, **random_bits(), "input": "probs", "top_p": BY_ROW["top_p"]}),
    ("draw", {"rows": PROBS, **random_bits(5), "input": "probs", "indices": INDICES}),
    ("draw", {"rows": PROBS, **random_bits(), "input": "probs", "min_p": BY_ROW["min_p"]}),
    ("draw", {"rows": TARGET, **random_bits(1), "input": "logits", "top_k": torch.tensor([9])}),
    ("softmax", {"logits": TARGET}),
    ("softmax", {"logits": LOGITS, "temperature": BY_ROW["temperature"]}),
    ("softmax", {"logits": LOGITS.bfloat16()}),
    ("top_k_mask_logits", {"logits": LOGITS.half(), "top_k": BY_ROW["top_k"]}),
    ("top_p_mask_logits", {"logits": LOGITS.half(), "top_p": BY_ROW["top_p"]}),
    ("top_k_renorm_probs", {"probs": PROBS, "top_k": torch.tensor([7])}),
    ("top_p_renorm_probs", {"probs": PROBS, "top_p": BY_ROW["top_p"]}),
    (
        "chain_speculative_sampling",
        {
            "draft_probs": DRAFT.softmax(-1),
            "draft_token_ids": DRAFT_IDS,
            "target_probs": TARGET.softmax(-1),
            **random_bits(),
        },
    ),
    ("verify_chain", {"logits": TARGET, "draft_token_ids": DRAFT_IDS, **random_bits()}),
    (
        "verify_chain",
        {
            "logits": TARGET,
            "draft_token_ids": DRAFT_IDS,
            **random_bits(),
            "draft_logits": DRAFT,
            "draft_temperature": torch.tensor([0.7]),
            "draft_lengths": torch.tensor([3, 0, 1, 2]),
            **BY_ROW,
            "active": ACTIVE,
        },
    ),
    (
        "verify_chain",
        {
            "logits": TARGET.flatten(0, 1),
            "draft_token_ids": DRAFT_IDS.flatten(),
            **random_bits(),
            **PACKED,
        },
    ),
]


def moved(value, device):
    return value.to(device) if isinstance(value, torch.Tensor) and value.numel() > 1 else value


def expect_equal(got, want):
    """Expects results of the same types and values: tensors, None, and tuples of both."""
    assert type(got) is type(want)
    if isinstance(want, tuple):
        for left, right in zip(got, want, strict=True):
            expect_equal(left, right)
    elif want is None:
        assert got is None
    else:
        assert got.dtype == want.dtype and got.device == want.device
        assert torch.equal(got, want)


def test_every_operator_is_called_here():
    assert {name for name, _ in CALLS} == {
        name.removeprefix("fairdraw::")
        for name in torch._C._dispatch_get_all_op_names()
        if name.startswith("fairdraw::")
    }


@pytest.mark.parametrize("name, arguments", CALLS, ids=[name for name, _ in CALLS])
def test_opcheck(device, name, arguments):
    operator = getattr(torch.ops.fairdraw, name).default
    checks = torch.library.opcheck(
        operator, (), {key: moved(value, device) for key, value in arguments.items()}
    )
    assert set(checks.values()) == {"SUCCESS"}
    assert not operator._schema.is_mutable


def chains(seed, offset):
    count = torch.zeros(ROWS, dtype=torch.int32, device=seed.device)
    found = fairdraw.chain_speculative_sampling(
        DRAFT.softmax(-1).to(seed.device), DRAFT_IDS.to(seed.device),
        TARGET.softmax(-1).to(seed.device), count, seed=seed, offset=offset,
    )  # fmt: skip
    return *found, count


#: Functions of logits and random bits, as users write them.
FUNCTIONS = {
    "sample": lambda x, **bits: fairdraw.sample(x, 0.7, 50, 0.9, 0.01, **bits),
    "sample with valid": lambda x, **bits: fairdraw.sample(
        x, min_p=0.1, return_valid=True, tie_rule="lowest_id", check_nan=True, **bits
    ),
    "sample with log-probabilities": lambda x, **bits: fairdraw.sample(
        x, top_k=7, logprobs=2, rank_rule="at_least", **bits
    ),
    "sample with all log-probabilities": lambda x, **bits: fairdraw.sample(
        x, logprobs=-1, return_valid=True, num_samples=2, **bits
    ),
    "sample with details": lambda x, **bits: fairdraw.sample(
        x, top_p=0.5, filter_apply_order="joint", return_details=True, **bits
    ),
    "sample into": lambda x, **bits: fairdraw.sample(
        x, out=torch.empty(ROWS, dtype=torch.int32, device=x.device), **bits
    ),
    "log_probabilities": lambda x, **bits: fairdraw.log_probabilities(
        x, fairdraw.sample(x, **bits), 3, temperature=0.5, logprobs_mode="processed_logprobs"
    ),
    "probabilities": lambda x, **bits: fairdraw.top_k_top_p_sampling_from_probs(
        fairdraw.softmax(x, 0.8), 40, 0.9, filter_apply_order="joint", return_valid=True, **bits
    ),
    "logits": lambda x, **bits: fairdraw.top_k_top_p_sampling_from_logits(x, 5, 0.9, **bits),
    "temperature": lambda x, **bits: fairdraw.top_k_top_p_sampling_from_logits(
        x[:, None], 5, 0.9, temperature=0.7, **bits
    ),
    "leading axes": lambda x, **bits: fairdraw.top_k_sampling_from_probs(
        fairdraw.softmax(x[:, None], 0.7), 5, return_valid=True, **bits
    ),
    "unfiltered": lambda x, **bits: fairdraw.sampling_from_logits(x, **bits),
    "min_p": lambda x, **bits: fairdraw.min_p_sampling_from_probs(
        fairdraw.top_p_renorm_probs(fairdraw.top_k_renorm_probs(x.softmax(-1), 9), 0.9), 0.1, **bits
    ),
    "mask": lambda x, **bits: fairdraw.sampling_from_logits(
        fairdraw.top_k_mask_logits(x, 3), torch.zeros(ROWS, dtype=torch.int64, device=x.device),
        **bits,
    ),
    "chains": lambda x, **bits: chains(**bits),
    "verify_chain": lambda x, **bits: fairdraw.verify_chain(
        TARGET.to(x.device), DRAFT_IDS.to(x.device), draft_logits=DRAFT.to(x.device),
        draft_filters=fairdraw.LawFilters(0.7, top_k=20), temperature=0.7, top_p=0.9, **bits,
    ),
}  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_compiled_functions_have_no_break_and_equal_results(device, function):
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    logits = LOGITS.to(device)
    for step in range(2):  # the second step runs the same graph with other random bits
        bits = {name: moved(value, device) + step for name, value in random_bits().items()}
        expect_equal(compiled(logits, **bits), function(logits, **bits))


def test_the_default_compiler(device):
    function = FUNCTIONS["sample"]
    compiled = torch.compile(function, fullgraph=True, dynamic=True)
    for count in (2, 3):  # number of rows, which is a dynamic axis
        logits = LOGITS[:count].to(device) * 2
        bits = {name: moved(v[:count], device) for name, v in random_bits().items()}
        expect_equal(compiled(logits, **bits), function(logits, **bits))


def test_a_number_is_a_seed_of_64_bits():
    def function(x):
        return fairdraw.sample(x, seed=2**64 - 5, offset=2**63)

    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    expect_equal(compiled(LOGITS), function(LOGITS))


def test_an_exported_program_has_the_operators():
    class Step(torch.nn.Module):
        def forward(self, logits, seed, offset, top_p):
            return torch.ops.fairdraw.sample(logits, seed, offset, top_p=top_p)

    arguments = (LOGITS, *random_bits().values(), torch.tensor([0.9]))
    rows = torch.export.Dim("rows", min=2, max=64)
    axes = ({0: rows}, {0: rows}, {0: rows}, None)
    program = torch.export.export(Step(), arguments, dynamic_shapes=axes)
    names = {str(node.target) for node in program.graph.nodes if node.op == "call_function"}
    assert "fairdraw.sample.default" in names
    two = tuple(value[:2] for value in arguments[:3]) + arguments[3:]
    got = program.module()(*two)
    want = fairdraw.sample(two[0], top_p=0.9, seed=two[1], offset=two[2], return_valid=True)
    expect_equal(tuple(got), want)


@pytest.mark.parametrize(
    "function, message",
    [
        (lambda x: fairdraw.sample(x), "seed: is needed in a compiled function"),
        (lambda x: fairdraw.sample(x, seed=1, generator=2), "generator: has no operator"),
        (
            lambda x: fairdraw.sample(x, seed=1, return_details=True, logprobs=1),
            "logprobs with return_details: has no operator",
        ),
        (
            lambda x: fairdraw.accept_chain(x[:, None], DRAFT_IDS[:, :0], seed=1, processing=[1]),
            "processing: has no operator",
        ),
        (lambda x: fairdraw.sample(x, top_p=2.0, seed=1), "top_p is 2; allowed: 0 to 1"),
        (lambda x: fairdraw.sample(x, tie_rule="all", seed=1), "tie_rule is 'all'; allowed"),
        (
            lambda x: fairdraw.sample(x, tie_rule=["keep_all"] * ROWS, seed=1),
            "tie_rule: has no operator",
        ),
    ],
)
def test_what_compiled_functions_refuse(function, message):
    torch.compiler.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(Exception, match=message):
            torch.compile(function, fullgraph=True, backend="aot_eager")(LOGITS)


def test_packed_rows_need_max_draft():
    def function(logits, ids, begins):
        return fairdraw.accept_chain(logits, ids, row_begins=begins, seed=1)

    with pytest.raises(Exception, match="max_draft: is needed with row_begins"):
        torch.compile(function, fullgraph=True, backend="aot_eager")(
            TARGET.flatten(0, 1), DRAFT_IDS.flatten(), PACKED["row_begins"]
        )


@on_gpu
def test_a_cuda_graph_replays_with_other_seeds():
    logits, out = LOGITS.cuda(), torch.empty(ROWS, dtype=torch.int32, device="cuda")
    seed, offset = (value.cuda() for value in random_bits().values())
    top_p = torch.tensor([0.9], device="cuda")

    def step():
        out.copy_(torch.ops.fairdraw.sample(logits, seed, offset, top_p=top_p)[0])

    step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    for number in range(8):
        seed.fill_(number)
        graph.replay()
        want = fairdraw.sample(LOGITS, top_p=0.9, seed=seed.cpu(), offset=offset.cpu())
        assert torch.equal(out.cpu(), want)
