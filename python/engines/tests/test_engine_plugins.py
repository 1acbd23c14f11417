"""Tests code of fairdraw that engines load as plugins or by name. The tests use the loaders of
these engines.

The tests are skipped if vllm or sglang can neither be imported nor loaded from a wheel in
FAIRDRAW_VLLM_WHEEL or FAIRDRAW_SGLANG_WHEEL (README.md).
"""

import contextlib
import math
import re
import types
from pathlib import Path

import pytest

import fairdraw
from fairdraw_engines import Unavailable

torch = pytest.importorskip("torch", reason="torch is not installed")

import sglang_sampler  # noqa: E402
import vllm_sampler  # noqa: E402

import fairdraw.torch as drop_in  # noqa: E402
from fairdraw import vllm_plugin  # noqa: E402

ROWS, VOCAB = 4, 50
GROUP = "vllm.general_plugins"


@contextlib.contextmanager
def or_skipped(modules):
    with contextlib.ExitStack() as stack:
        try:
            found = stack.enter_context(modules)
        except Unavailable as reason:
            pytest.skip(str(reason))
        yield found


def entry_points_of_the_package():
    """Returns the entry points for vLLM's plugins in the package's wheel, from pyproject.toml."""
    project = Path(__file__).parents[3] / "pyproject.toml"
    (table,) = re.findall(
        rf'^\[project\.entry-points\."{re.escape(GROUP)}"\]\n((?:\w+ = ".*"\n)+)',
        project.read_text(),
        re.MULTILINE,
    )
    return f"[{GROUP}]\n{table.replace(chr(34), '')}"


@pytest.fixture
def vllm(tmp_path, monkeypatch):
    """Returns vLLM's sampler and its plugins, in an environment in which the package is
    installed."""
    for name in (vllm_plugin.SWITCH, vllm_plugin.FAILED_TOKEN, vllm_plugin.RUNNER, "VLLM_PLUGINS"):
        monkeypatch.delenv(name, raising=False)
    metadata = tmp_path / "fairdraw_for_a_test-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: fairdraw-for-a-test\nVersion: 1\n"
    )
    (metadata / "entry_points.txt").write_text(entry_points_of_the_package())
    monkeypatch.syspath_prepend(str(tmp_path))
    names = (vllm_sampler.SAMPLER, "vllm.plugins", "vllm.v1.sample.metadata")
    names += ("vllm.v1.sample.logits_processor.state", vllm_sampler.SAMPLER_V2)
    with or_skipped(vllm_sampler.modules(*names)) as (sampler, plugins, metadata, state, runner_v2):
        monkeypatch.setattr(sampler, "TopKTopPSampler", sampler.TopKTopPSampler)
        plugins.plugins_loaded = False
        sampler.SamplingMetadata = metadata.SamplingMetadata
        sampler.LogitsProcessors = state.LogitsProcessors
        sampler.runner_v2 = runner_v2
        yield sampler, plugins


def test_vllm_keeps_its_sampler_where_nothing_is_asked_for(vllm, monkeypatch):
    sampler, plugins = vllm
    for value in (None, "", "0"):
        if value is not None:
            monkeypatch.setenv(vllm_plugin.SWITCH, value)
        plugins.plugins_loaded = False
        plugins.load_general_plugins()
        assert type(sampler.Sampler().topk_topp_sampler).__module__.startswith("vllm.")


def test_vllm_loads_our_sampler_where_it_is_asked_for(vllm, monkeypatch):
    sampler, plugins = vllm
    monkeypatch.setenv(vllm_plugin.SWITCH, "1")
    monkeypatch.setenv(vllm_plugin.RUNNER, "0")
    monkeypatch.setenv(vllm_plugin.FAILED_TOKEN, "7")
    for _ in range(2):
        plugins.plugins_loaded = False
        plugins.load_general_plugins()
    ours = sampler.Sampler("processed_logits").topk_topp_sampler
    assert type(ours) is drop_in.TopKTopPSampler
    assert (ours.logprobs_mode, ours.failed_token) == ("processed_logits", 7)

    logits = torch.randn(ROWS, VOCAB, generator=torch.Generator().manual_seed(1)) * 3
    nothing = torch.empty(0)
    metadata = sampler.SamplingMetadata(
        temperature=torch.full((ROWS,), 0.7), all_greedy=False, all_random=True,
        top_p=torch.full((ROWS,), 0.9), top_k=None, generators={}, max_num_logprobs=None,
        no_penalties=True, prompt_token_ids=None, frequency_penalties=nothing,
        presence_penalties=nothing, repetition_penalties=nothing,
        output_token_ids=[[] for _ in range(ROWS)], allowed_token_ids_mask=None,
        bad_words_token_ids={}, logitsprocs=sampler.LogitsProcessors(),
    )  # fmt: skip
    torch.manual_seed(3)
    tokens = sampler.Sampler("raw_logprobs").forward(logits.clone(), metadata).sampled_token_ids
    torch.manual_seed(3)
    want, _ = drop_in.TopKTopPSampler()(logits / 0.7, {}, None, torch.full((ROWS,), 0.9))
    assert tokens[:, 0].tolist() == want.tolist()


def params(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, seed=None):
    """Makes the SamplingParams fields that model runner V2 reads."""
    return types.SimpleNamespace(
        temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, seed=seed, logprobs=None
    )


@pytest.mark.parametrize("mode", ["raw_logprobs", "processed_logprobs"])
def test_vllms_second_runner_draws_by_us(vllm, monkeypatch, mode):
    sampler, plugins = vllm
    monkeypatch.setenv(vllm_plugin.SWITCH, "1")
    monkeypatch.setenv(vllm_plugin.RUNNER, "1")
    monkeypatch.setenv(vllm_plugin.FAILED_TOKEN, "7")
    own = sampler.runner_v2.Sampler._sample_random
    monkeypatch.setattr(sampler.runner_v2.Sampler, "_sample_random", own)  # restored afterwards
    plugins.load_general_plugins()
    theirs = vllm_sampler.runner_v2_sampler(sampler.runner_v2, mode)

    # Requests are in slots whose order differs from the order of the batch's rows. One of the
    # requests has two rows, as with drafts.
    requests = {
        5: params(temperature=0.7, top_k=10, top_p=0.8, seed=11),
        2: params(temperature=0.0, seed=12),
        0: params(temperature=1.3, top_p=0.5, seed=-3),
        6: params(),
    }
    for slot, request in requests.items():
        theirs.add_request(slot, request)
    theirs.apply_staged_writes()
    slots = torch.tensor([5, 2, 0, 0, 6])
    positions = torch.tensor([3, 4, 9, 10, 0], dtype=torch.int32)
    logits = torch.randn(5, VOCAB, generator=torch.Generator().manual_seed(1)) * 3
    logits[4, 3] = math.nan
    tokens, processed = theirs.sample(
        logits.clone(), slots, slots, slots.numpy(), positions, None, None, None
    )
    seeds = theirs.sampling_states.seeds.gpu[slots]
    assert seeds[:4].tolist() == [11, 12, -3, -3]
    want = fairdraw.sample(
        logits / torch.tensor([0.7, 1.0, 1.3, 1.3, 1.0])[:, None],
        torch.tensor([1.0, 0.0, 1.0, 1.0, 1.0]),
        torch.tensor([10, 0, 0, 0, 0]),
        torch.tensor([0.8, 1.0, 0.5, 0.5, 1.0]),
        seed=seeds,
        offset=positions.long(),
        return_details=True,
    )
    assert want.tokens[4] == -1
    assert tokens.tolist() == [*want.tokens[:4].tolist(), 7]
    assert tokens.dtype == torch.int64
    dropped = torch.isneginf(processed[:4])
    if mode == "raw_logprobs":
        assert not dropped.any()
    else:
        assert torch.equal(~dropped, drop_in._survivors(want.mask, VOCAB)[:4])


@pytest.mark.parametrize(
    "name, value, message",
    [
        (vllm_plugin.SWITCH, "yes", "FAIRDRAW_VLLM is 'yes'; allowed: 1, or 0 or unset"),
        (
            vllm_plugin.RUNNER,
            "1",
            "FAIRDRAW_VLLM_FAILED_TOKEN is unset; allowed with model runner V2",
        ),
        (vllm_plugin.RUNNER, None, "VLLM_USE_V2_MODEL_RUNNER=0"),
        (vllm_plugin.FAILED_TOKEN, "end", "FAIRDRAW_VLLM_FAILED_TOKEN is 'end'; allowed: -1, or"),
        (vllm_plugin.FAILED_TOKEN, "-2", "FAIRDRAW_VLLM_FAILED_TOKEN is '-2'; allowed: -1, or"),
    ],
)
def test_vllm_does_not_start_with_what_cannot_be(vllm, monkeypatch, name, value, message):
    sampler, plugins = vllm
    own = sampler.TopKTopPSampler
    monkeypatch.setenv(vllm_plugin.SWITCH, "1")
    monkeypatch.setenv(vllm_plugin.RUNNER, "0")
    if value is None:
        monkeypatch.delenv(name)
    else:
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=message):
        plugins.load_general_plugins()
    assert sampler.TopKTopPSampler is own


def test_sglang_applies_our_processor():
    for name in ("dill", "orjson"):  # needed by sglang
        pytest.importorskip(name, reason=f"{name} is not installed")
    with or_skipped(sglang_sampler.modules()) as (processor, layer):
        ours = processor.CustomLogitProcessor.from_str(drop_in.SglangSampler.to_str())
        assert type(ours) is drop_in.SglangSampler
        chosen = [0, 2, 3]
        params = [
            drop_in.SglangSampler.params(seed=row, temperature=0.7, top_p=0.9)
            if row in chosen
            else None
            for row in range(ROWS)
        ]

        class Batch(types.SimpleNamespace):  # the fields of SamplingBatchInfo that SGLang reads
            def __len__(self):
                return ROWS

        entry = types.SimpleNamespace(processor=ours, rows=chosen, indices=torch.tensor(chosen))
        batch = Batch(custom_params=params, custom_logit_processor={1: entry}, device="cpu")
        for step in range(4):
            logits = torch.randn(ROWS, VOCAB, generator=torch.Generator().manual_seed(step)) * 3
            applied = logits.clone()
            layer.apply_custom_logit_processor(applied, batch)
            assert torch.equal(applied[1], logits[1])
            # In a row with one finite logit SGLang then draws that logit's token, whether greedy or
            # not.
            tokens = torch.multinomial(applied[chosen].softmax(-1), 1)[:, 0]
            assert tokens.tolist() == applied[chosen].argmax(-1).tolist()
            want = fairdraw.sample(
                logits[chosen],
                0.7,
                top_p=0.9,
                seed=torch.tensor(chosen),
                offset=torch.full((3,), step),
            )
            assert tokens.tolist() == want.tolist()
        assert math.isfinite(float(applied[1].sum()))
