"""Tests fairdraw.verify with tensors on a GPU. The CPU's tests also run the copies to the device
and back, by the same code."""

import re

import pytest

import fairdraw
from fairdraw import _core
from samplers import EXACT, exact

torch = pytest.importorskip("torch", reason="torch is not installed")

from fairdraw._device_calls import DeviceFunction, device_running_batch  # noqa: E402

SEED = 1

on_gpu = pytest.mark.skipif(
    not torch.cuda.is_available() or bool(_core.why_no_cuda()),
    reason="there is no CUDA device, or no kernels for it",
)
DEVICES = ["cpu", pytest.param("cuda", marks=on_gpu)]


@pytest.fixture(params=DEVICES)
def device(request):
    return torch.device(request.param, 0) if request.param == "cuda" else torch.device("cpu")


def judge(function, device, case, **more):
    """Judges like verify(function, device=device), but also accepts the CPU as the device."""
    return fairdraw.verify(
        DeviceFunction(function, device), suite="smoke", case=case, seed=SEED, arrays="torch",
        name="mine", **more,
    )  # fmt: skip


@pytest.mark.parametrize("case", ["support/*", "metamorphic/*", "logprobs/*", "mask/*"])
def test_exact_callable_passes(device, case):
    report = judge(exact, device, case, **EXACT)
    assert report.verdict == "passed", str(report.failures)


def test_tensors_are_where_they_were_asked_for(device):
    seen = []

    def look(batch):
        arrays = (batch.logits, batch.temperature, batch.seed, batch.out_tokens)
        assert batch.logits is arrays[0] and batch.allowed is None
        assert batch.rows == len(batch.logits) and batch.input == "logits"
        seen.extend(array.device for array in arrays)
        return batch.logits.argmax(dim=1)

    report = judge(look, device, "support/*")
    assert "passed" in {case.verdict for case in report.cases}
    assert set(seen) == {device}


def test_what_was_kept_is_no_array_of_the_judge(device):
    kept = []

    def keep(batch):
        kept.append((batch, batch.logits, batch.logits.argmax(dim=1)))
        return kept[-1][-1]

    report = judge(keep, device, "support/*")
    assert "passed" in {case.verdict for case in report.cases}
    assert all(torch.equal(logits.argmax(dim=1), tokens) for _, logits, tokens in kept)
    with pytest.raises(RuntimeError, match="the call of this batch has ended"):
        _ = kept[0][0].top_p


@pytest.mark.parametrize(
    "function, message",
    [
        (lambda b: b.nothing, "AttributeError: .*nothing"),
        (lambda b: b.logits.argmax(dim=1).float(), "returned float32 values"),
        (lambda b: b.logits.argmax(dim=1)[:0], r"returned tokens of shape \[0\]"),
        (lambda b: None, "returned None"),
    ],
)
def test_bad_results_fail_the_case_by_name(device, function, message):
    report = judge(function, device, "support/*")
    red = [case.message for case in report.failures]
    assert red
    for text in red:
        assert re.search(message, text), text


class Greedy:
    """A running batch that returns each row's largest token, and records the devices of the arrays
    in its steps.
    """

    devices = set()

    def begin(self, slots, vocab, dtype, tie_rule, filter_apply_order):
        pass

    def add(self, slot, request):
        pass

    def restore(self, slot, request, output):
        pass

    def evict(self, slot):
        pass

    end = evict

    def step(self, slots, logits, allowed):
        self.devices.update({slots.device, logits.device})
        return logits.argmax(dim=1)


def test_running_batches(device):
    def judged(made):
        return fairdraw.verify(
            running_batch=device_running_batch(made, device), suite="smoke", seed=SEED,
            case="sequences/*/unfiltered", arrays="torch", name="Greedy",
            abilities=["per_request_seeds"], lacks=["top_k", "top_p", "min_p"],
        )  # fmt: skip

    Greedy.devices.clear()
    judged(Greedy)
    assert Greedy.devices == {device}
    (case,) = judged(object).failures
    assert "running_batch() returned a object, which has no method begin" in case.message

    class Stepping:
        def step(self, slots, logits, allowed):
            raise AssertionError("never called")

    (case,) = judged(Stepping).failures
    assert "running_batch() returned a Stepping, which has no method begin" in case.message


def accept_by_noise(batch):
    """Implements the textbook's verifier in torch and ignores seeds, for target="probs" without
    padding."""
    target, draft = (d / d.sum(dim=-1, keepdim=True) for d in (batch.target, batch.draft_probs))
    drafted = batch.draft_tokens.long()
    q = draft.gather(2, drafted[..., None])[..., 0]
    p = target[:, :-1].gather(2, drafted[..., None])[..., 0]
    stands = torch.rand(q.shape, dtype=torch.float64, device=q.device) * q < p
    accepted = stands.long().cumprod(dim=1).sum(dim=1)
    left = torch.cat([(target[:, :-1] - draft).clamp(min=0), target[:, -1:]], dim=1)
    left = left[torch.arange(batch.requests), accepted]
    noise = torch.empty(left.shape, dtype=torch.float64, device=left.device).exponential_()
    places = torch.arange(batch.max_draft + 1, device=q.device)
    tokens = torch.cat([drafted, drafted[:, :1]], dim=1).masked_fill(places > accepted[:, None], -1)
    tokens[torch.arange(batch.requests), accepted] = (left / noise).argmax(dim=1)
    return tokens, accepted


def test_verifiers_of_drafts(device):
    seen = set()

    def look(batch):
        arrays = (
            batch.target,
            batch.draft_probs,
            batch.draft_tokens,
            batch.seed,
            batch.out_accepted,
        )
        seen.update(array.device for array in arrays)
        return accept_by_noise(batch)

    def write(batch):
        tokens, accepted = accept_by_noise(batch)
        batch.out_tokens.copy_(tokens)
        batch.out_accepted.copy_(accepted)
        return batch

    for verifier in (look, write):
        report = fairdraw.verify_speculation(
            DeviceFunction(verifier, device), suite="smoke", target="probs", arrays="torch",
            acceptance_rule="token_wise", case="chain_law/*", seed=SEED, name="mine",
        )  # fmt: skip
        assert report.verdict == "passed", report.failures
    assert seen == {device}


@on_gpu
def test_verify_speculation_on_a_gpu():
    report = fairdraw.verify_speculation(
        accept_by_noise, suite="smoke", target="probs", device="cuda",
        acceptance_rule="token_wise", case="chain_law/*", seed=SEED,
    )  # fmt: skip
    assert report.verdict == "passed", report.failures


def test_arguments_that_do_not_go_together(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(
        ValueError, match="arrays is 'numpy'; allowed with device 'cuda:0': 'torch'"
    ):
        fairdraw.verify(exact, device="cuda:0", arrays="numpy")
    with pytest.raises(ValueError, match="sampler is 'cpu:scalar'; allowed with device 'cuda:0'"):
        fairdraw.verify("cpu:scalar", device="cuda:0")
    with pytest.raises(ValueError, match="device is 'cuda:1'; allowed: 'cpu', 'cuda:0'$"):
        fairdraw.verify(exact, device="cuda:1")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(ValueError, match="device is 'cuda'; allowed: 'cpu' .torch sees no CUDA"):
        fairdraw.verify(exact, device="cuda")


@on_gpu
def test_verify_on_a_gpu():
    report = fairdraw.verify(
        exact, suite="smoke", case="support/*", seed=SEED, device="cuda", **EXACT
    )
    assert report.verdict == "passed", str(report.failures)
