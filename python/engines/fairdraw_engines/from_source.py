"""Adapts rules of engines that are written from their public sources (standalone/rules.py). No
package is called.

Each rule breaks its profile, and `cause` is the cause that a report should name first. The profile
is `fairdraw`, which the textbook's sampler around a rule follows. For SonicSampler the profile is
`sonicsampler`, except for SonicSampler's top_p alone, because that profile includes this top_p.
Verifiers of drafts are token-wise. Running batches process logits in float32 as fairdraw does, and
draw with fairdraw's kernels, so that every token is compared.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import fairdraw
from fairdraw import Batch

from ._engine import (
    TENSOR_ABILITIES,
    DraftEngine,
    Engine,
    RunningEngine,
    Sampler,
    report_kept,
)
from ._one_row import call_of, counts_allowed
from ._packages import version_of
from .standalone import rules
from .standalone.rules import Array

if TYPE_CHECKING:
    from fairdraw import BatchRequest

#: Neutral values of temperature, top_k, top_p and min_p.
NEUTRAL = (1, 0, 1, 0)


def _columns(batch: Any) -> list[Array]:
    return [np.asarray(c) for c in (batch.temperature, batch.top_k, batch.top_p, batch.min_p)]


def make_sampler(rule: str, seed: int) -> Sampler:
    answer = rules.RULES[rule](seed).answer

    def sample(batch: Batch) -> Any:
        logits, rows = call_of(batch)
        kept = np.zeros(logits.shape, bool)
        tokens = np.full((batch.outputs, batch.num_samples), -1, np.int64)
        columns = (column.tolist() for column in _columns(batch))
        for row, (t, k, p, m) in enumerate(zip(*columns, strict=True)):
            outputs = np.flatnonzero(rows == row)
            draws = len(outputs) * batch.num_samples
            kept[row], drawn = answer(logits[row], t, k, p, m, draws)
            tokens[outputs] = drawn.reshape(len(outputs), batch.num_samples)
        report_kept(batch, kept)
        return tokens

    return sample


def make_verifier(rule: str, seed: int) -> Any:
    textbook, verifier = rules.Textbook(seed), rules.VERIFIERS[rule](seed)

    def verify(batch: Any) -> Any:
        target = np.array(batch.target, np.float32)
        if batch.allowed is not None:
            bits = np.unpackbits(batch.allowed.view(np.uint8), axis=-1, bitorder="little")
            target[bits[..., : batch.vocab] == 0] = -np.inf
        used = np.arange(batch.max_draft + 1) <= batch.draft_lengths[:, None]
        target[~used] = 0
        columns = [column[:, None] for column in _columns(batch)]
        refused = textbook.refuses(target, *columns)
        target[refused] = 0
        columns = [np.where(refused, off, c) for off, c in zip(NEUTRAL, columns, strict=True)]
        law = textbook.filtered(target, *columns)[1]
        drafted = np.where(used[:, 1:], batch.draft_tokens, 0)
        # If the drafts have no distribution, the drafted token has probability 1.
        draft = (np.arange(batch.vocab) == drafted[..., None]).astype(np.float64)
        if batch.draft_probs is not None:
            draft = np.where(used[:, 1:, None], batch.draft_probs, draft)
        law, draft = (weights / weights.sum(axis=-1, keepdims=True) for weights in (law, draft))
        tokens = verifier.verify(law, draft, drafted, batch.draft_lengths)
        tokens[(refused & used).any(axis=1)] = -1
        return tokens

    return verify


class Requests:
    """A running batch whose bans and frequency penalty can be replaced; everything else is
    fairdraw's."""

    ban = staticmethod(rules.ban)
    penalise = staticmethod(rules.penalise)

    def begin(self, slots: int, vocab: int, dtype: str, tie_rule: str, order: str) -> None:
        self.dtype = dtype
        self.rules: dict[str, Any] = {"tie_rule": tie_rule, "filter_apply_order": order}
        self.held: dict[int, tuple[BatchRequest, list[int]]] = {}

    def add(self, slot: int, request: BatchRequest) -> None:
        self.held[slot] = request, []

    def restore(self, slot: int, request: BatchRequest, output: list[int]) -> None:
        self.held[slot] = request, list(output)

    def evict(self, slot: int) -> None:
        del self.held[slot]

    end = evict

    def step(self, slots: Array, logits: Array, allowed: Array | None) -> Array:
        held = [self.held[slot] for slot in slots.tolist()]
        scores = np.array(logits, np.float32)
        bad = ~(scores < np.inf).all(axis=1)
        with np.errstate(over="ignore"):
            for row, (request, output) in zip(scores, held, strict=True):
                self._add_penalties(row, request, output)
        bad |= (~np.isfinite(scores) & np.isfinite(logits)).any(axis=1)
        for row, (request, _) in zip(scores, held, strict=True):
            for token, bias in request.bias.items():
                row[token] += np.float32(bias)
            if request.allowed_ids:
                row[np.isin(np.arange(len(row)), request.allowed_ids, invert=True)] = -np.inf
        self.ban(scores, [banned(request, output) for request, output in held])
        scores[bad] = np.nan
        tokens = fairdraw.sample(
            scores,
            *(np.array([getattr(r, name) for r, _ in held], kind) for name, kind in FILTERS),
            allowed=allowed,
            seed=np.array([request.seed for request, _ in held], np.uint64),
            offset=np.array([r.first_offset + len(output) for r, output in held], np.uint64),
            **self.rules,
        )
        for (_, output), token in zip(held, tokens.tolist(), strict=True):
            if token >= 0:
                output.append(token)
        return np.asarray(tokens)

    def _add_penalties(self, row: Array, request: BatchRequest, output: Sequence[int]) -> None:
        prompt, ids = (
            np.array([token for token in history if token >= 0], np.int64)
            for history in (request.prompt, output)
        )
        seen = np.union1d(prompt, ids)
        if request.repetition_penalty != 1:
            r, x = np.float32(request.repetition_penalty), row[seen]
            row[seen] = np.where(x > 0, x / r, x * r)
        if request.frequency_penalty != 0:
            self.penalise(row, request.frequency_penalty, prompt, ids)
        row[np.unique(ids)] -= np.float32(request.presence_penalty)


FILTERS = (
    ("temperature", np.float32),
    ("top_k", np.int32),
    ("top_p", np.float32),
    ("min_p", np.float32),
)


def banned(request: BatchRequest, output: Sequence[int]) -> list[int]:
    """Returns the stop ids while the output is too short, and the last ids of the bad words that
    would be complete."""
    ids = list(request.stop_ids) if len(output) < request.min_tokens else []
    for *first, last in request.bad_words:
        if not first or list(output[-len(first) :]) == first:
            ids.append(last)
    return ids


class LmDeployRequests(Requests):
    ban = staticmethod(rules.lmdeploy_ban)


class TgiRequests(Requests):
    penalise = staticmethod(rules.tgi_penalise)


def make_requests(kind: type[Requests], seed: int) -> Callable[[], Requests]:
    return kind


def _version() -> str:
    return version_of("numpy")


#: Addresses of the rules' sources, which are files at a commit.
SONIC = (
    "https://github.com/tachyontrails/sonic-sampler/blob/b3f8b7dfa052e0fde3020223346039a251b3e0ab"
)
LITERT = "https://github.com/google-ai-edge/LiteRT-LM/blob/d1bce6c99e2ab87e95d093e93564b4734fc89bc7"
MNN = "https://github.com/alibaba/MNN/blob/028f09a7c9afb9a2dcde4b4d31fb873e81ab08c1"
OPENVINO = "https://github.com/openvinotoolkit/openvino.genai/blob/02400d9b74a475e7484ae093f733625905e0bc2d"
LMDEPLOY = "https://github.com/InternLM/lmdeploy/blob/013638ed3e71af5ee08d914f3e20962726081c62"
TGI = "https://github.com/huggingface/text-generation-inference/blob/00cef24e7fb95cf7a46b2cf63415db959a11c089"


def _sampler(rule: str, semantics: str, calls: str, source: str, cause: str) -> Engine:
    return Engine(
        name=rule,
        semantics=semantics,
        calls=calls,
        version=_version,
        make=functools.partial(make_sampler, rule),
        arrays="numpy",
        abilities=TENSOR_ABILITIES,
        standalone="rule",
        settings={"rule": rule},
        source=source,
        cause=cause,
    )


SAMPLERS = (
    _sampler(
        "sonicsampler",
        "sonicsampler",
        "A sampler with SonicSampler's rules: bfloat16, 128 candidates, top_p, min_p",
        f"{SONIC}/src/sonic_sampler/ops/singular.py",
        "numeric precision",
    ),
    _sampler(
        "sonicsampler_top_p",
        "fairdraw",
        "A sampler with SonicSampler's top_p: nucleus_masking",
        f"{SONIC}/src/sonic_sampler/ops/base.py",
        "definition of mass exactly at top_p: inclusive_mass_at_most_p",
    ),
    _sampler(
        "sonicsampler_bfloat16",
        "sonicsampler",
        "A sampler with SonicSampler's arithmetic: logits, parameters and noise in bfloat16",
        f"{SONIC}/docs/concepts.md",
        "numeric precision",
    ),
    _sampler(
        "sonicsampler_pool",
        "sonicsampler",
        "A sampler with SonicSampler's candidates: 128 without a top_k",
        f"{SONIC}/docs/concepts.md",
        "truncation",
    ),
    _sampler(
        "sonicsampler_min_p",
        "sonicsampler",
        "A sampler with SonicSampler's min_p: off at 1",
        f"{SONIC}/src/sonic_sampler/core/flags.py",
        "min_p: rows",
    ),
    _sampler(
        "litert_lm",
        "fairdraw",
        "A sampler with LiteRT-LM's walk: TopKTopPSampling without a break",
        f"{LITERT}/runtime/components/sampling_cpu_util.cc",
        "lost tokens",
    ),
    _sampler(
        "mnn",
        "fairdraw",
        "A sampler with MNN's min_p: LocalSampler::minP",
        f"{MNN}/transformers/llm/engine/src/sampler.cpp",
        "min_p",
    ),
)


def _expected(kept: Sequence[int], counts: Mapping[int, tuple[int, int]] | None = None) -> Any:
    return {
        "kept": list(kept),
        "may_be_kept": list(kept),
        "fewest": 1,
        "most": len(kept),
        "must_fail": False,
        "counts": [[token, *bounds] for token, bounds in (counts or {}).items()],
    }


def _verifier(
    rule: str, calls: str, source: str, cause: str, what: str, call: Any, right: str, expected: Any
) -> DraftEngine:
    return DraftEngine(
        name=rule,
        semantics="fairdraw",
        calls=calls,
        version=_version,
        make=functools.partial(make_verifier, rule),
        arrays="numpy",
        drafts=("unknown", "probs"),
        draft_abilities=("allowed_mask", "float16"),
        standalone="drafted",
        settings={"rule": rule},
        source=source,
        cause=cause,
        example={"what": what, "call": call, "right": right, "expected": expected},
    )


_LAW, _DRAWS = [0.2, 0.4, 0.4], 65536
VERIFIERS = (
    _verifier(
        "sonicsampler_chain",
        "A verifier with SonicSampler's rule: rejection_sample with the draft's noise",
        f"{SONIC}/docs/concepts.md",
        "speculative decoding",
        "emits tokens with another distribution than the target's",
        {"target": _LAW, "draft": [0.7, 0.299, 0.001], "draws": _DRAWS},
        "A right verifier emits first tokens with the probabilities of the target.",
        _expected(
            [0, 1, 2],
            counts_allowed({"probability": _LAW, "total_variation_bound": 0.0}, _DRAWS),
        ),
    ),
    _verifier(
        "openvino_genai",
        "A verifier with OpenVINO GenAI's coin: validate_candidate",
        f"{OPENVINO}/src/cpp/src/sampling/sampler.cpp",
        "speculative decoding",
        "accepts drafted tokens whose probability in the target is 0",
        {"target": [1.0, 0.0], "draft": [0.0, 1.0], "draws": 4096},
        "A right verifier always emits token 0.",
        _expected([0]),
    ),
)


def _requests(
    name: str, kind: type[Requests], calls: str, source: str, cause: str, standalone: str,
    rule: str, what: str, call: Any, right: str, expected: Any,
) -> RunningEngine:  # fmt: skip
    return RunningEngine(
        name=name,
        semantics="fairdraw",
        calls=calls,
        version=_version,
        make=functools.partial(make_requests, kind),
        arrays="numpy",
        abilities=(
            "exact_integer",
            "per_request_seeds",
            "float16",
            "allowed_mask",
            "lowest_id_ties",
            "joint_order",
            "processing",
        ),
        standalone=standalone,
        settings={"rule": rule},
        source=source,
        cause=cause,
        example={"what": what, "call": call, "right": right, "expected": expected},
    )


RUNNING = (
    _requests(
        "lmdeploy",
        LmDeployRequests,
        "A running batch with LMDeploy's bad words: make_sampling_inputs, _process_bad_words_",
        f"{LMDEPLOY}/lmdeploy/pytorch/strategies/ar/sampling.py",
        "bad words",
        "banned",
        "lmdeploy_ban",
        "emits token 0, which the request bans, if another request bans more tokens",
        {"logits": [[5, 1, 2, 0], [1, 2, 3, 4]], "banned": [[0], [2, 3]]},
        "The first row must give token 2, because its temperature is 0.",
        _expected([2]),
    ),
    _requests(
        "tgi",
        TgiRequests,
        "A running batch with TGI's frequency penalty of one request: FrequencyPenaltyLogitsProcessor",
        f"{TGI}/server/text_generation_server/utils/logits_process.py",
        "frequency penalty",
        "penalised",
        "tgi_penalise",
        "subtracts twice the logit instead of the requested penalty of 1/2",
        {"logits": [0, 4, 3], "prompt": [], "output": [1], "penalty": 0.5},
        "The row must give token 1, whose logit 4 - 1/2 is the largest after the penalty.",
        _expected([1]),
    ),
)
