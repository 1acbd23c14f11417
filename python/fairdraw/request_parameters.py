"""Requests as engines give them, and what they mean here (fairdraw/request_parameters.h).

>>> parameters = fairdraw.from_vllm(fairdraw.VllmRequest(temperature=0.7, top_k=-1, seed=7), vocab)
>>> tokens = fairdraw.sample(logits, **parameters.filters(), seed=parameters.seed)
>>> state.add(1, parameters.batch_request(prompt=[1, 529, 29871], eos_id=2))

A dataclass an engine, with the engine's own names and defaults, and one function that turns it into
RequestParameters. ValueError where the engine refuses it: by the engine's own limits, with field,
value and range. RuntimeError for what the engine has and fairdraw has not: nothing is ignored.
`vocab`: ids lie below it, and a top_k of at least as much is off. Strings are the tokeniser's: stop
and bad words are ids.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import numpy as np

from . import _core
from ._arguments import FilterOrder, TieRule
from ._host_arrays import shaped
from .logprobs import MOST_LOGPROBS
from .parallel_sampling import ChildSeedRule
from .serving import BatchRequest

Ids = Sequence[int]
Biases = Mapping[int, float]

LlamaCppSampler = Literal["penalties", "top_k", "top_p", "min_p", "temperature"]


def _dict_of(request: Any) -> dict[str, Any]:
    """Fields by name; biases as pairs."""
    values = {each.name: getattr(request, each.name) for each in fields(request)}
    return {
        name: tuple(value.items()) if isinstance(value, Mapping) else value
        for name, value in values.items()
    }


@dataclass(frozen=True)
class VllmRequest:
    """vLLM's SamplingParams. 0 < temperature < 0.01 becomes 0.01; top_k 0 and -1 are off; seed -1
    and None are unseeded; biases are clamped to [-100, 100]; child i has seed + i."""

    n: int = 1
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    temperature: float = 1.0
    top_p: float = 1.0
    min_p: float = 0.0
    top_k: int = 0
    seed: int | None = None
    stop_token_ids: Ids = ()
    ignore_eos: bool = False
    max_tokens: int | None = 16
    min_tokens: int = 0
    logprobs: int | None = None
    logit_bias: Biases = field(default_factory=dict)
    allowed_token_ids: Ids | None = None
    bad_words: Sequence[Ids] = ()


@dataclass(frozen=True)
class SglangRequest:
    """SGLang's SamplingParams. temperature below 1e-6 is greedy; top_k -1 is off; top_p is measured
    before top_k (joint)."""

    max_new_tokens: int | None = 128
    stop_token_ids: Ids = ()
    temperature: float | None = None
    top_p: float | None = None
    min_p: float | None = None
    top_k: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    repetition_penalty: float | None = None
    min_new_tokens: int | None = None
    n: int | None = None
    ignore_eos: bool | None = None
    sampling_seed: int | None = None
    logit_bias: Biases = field(default_factory=dict)


@dataclass(frozen=True)
class TensorRtLlmRequest:
    """TensorRT-LLM's SamplingParams. Greedy where temperature, top_k and top_p are all unset; what
    is unset or 0 among others is neutral. The seed's default is 0."""

    max_tokens: int = 32
    stop_token_ids: Ids = ()
    stop_words: Sequence[Ids] = ()
    bad_words: Sequence[Ids] = ()
    n: int = 1
    best_of: int | None = None
    use_beam_search: bool = False
    top_k: int | None = None
    top_p: float | None = None
    top_p_min: float | None = None
    top_p_decay: float | None = None
    top_p_reset_ids: int | None = None
    seed: int | None = None
    temperature: float | None = None
    min_p: float | None = None
    min_tokens: int | None = None
    beam_search_diversity_rate: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    length_penalty: float | None = None
    early_stopping: int | None = None
    no_repeat_ngram_size: int | None = None
    logprobs: int | None = None
    ignore_eos: bool = False
    #: [vocab] numbers, an array in host memory: what is added to each logit; -inf bans a token.
    embedding_bias: Any = field(default=None, compare=False)


@dataclass(frozen=True)
class HuggingFaceRequest:
    """transformers' GenerationConfig, and the length of the prompt. Greedy without do_sample; the
    seed is not a request's there."""

    do_sample: bool | None = None
    temperature: float | None = 1.0
    top_p: float | None = 1.0
    min_p: float | None = None
    top_k: int | None = 50
    repetition_penalty: float | None = None
    typical_p: float | None = None
    epsilon_cutoff: float | None = None
    eta_cutoff: float | None = None
    no_repeat_ngram_size: int | None = None
    num_beams: int = 1
    num_beam_groups: int = 1
    num_return_sequences: int = 1
    length_penalty: float = 1.0
    diversity_penalty: float = 0.0
    early_stopping: bool | Literal["never"] = False
    prompt_tokens: int = 0
    max_new_tokens: int | None = None
    min_new_tokens: int | None = None
    max_length: int = 20
    min_length: int = 0
    eos_token_id: Ids = ()
    bad_words_ids: Sequence[Ids] = ()


@dataclass(frozen=True)
class MaxRequest:
    """MAX's SamplingParams. temperature in [0, 2], 0 is greedy; top_k 0 and -1 are off; top_p is
    measured on the whole mass (joint)."""

    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    temperature: float | None = None
    thinking_temperature: float | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    repetition_penalty: float | None = None
    max_new_tokens: int | None = None
    min_new_tokens: int | None = None
    ignore_eos: bool | None = None
    stop_token_ids: Ids = ()
    seed: int | None = None


@dataclass(frozen=True)
class LlamaCppRequest:
    """llama.cpp's common_params_sampling. Samplers run in the order of `samplers`, and those that
    are not listed are off; temp <= 0 is greedy; seed 2^32 - 1 is unseeded."""

    seed: int = 2**32 - 1
    min_keep: int = 0
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    xtc_probability: float = 0.0
    typ_p: float = 1.0
    temp: float = 0.8
    dynatemp_range: float = 0.0
    penalty_last_n: int = 64
    penalty_repeat: float = 1.0
    penalty_freq: float = 0.0
    penalty_present: float = 0.0
    dry_multiplier: float = 0.0
    top_n_sigma: float = -1.0
    mirostat: int = 0
    samplers: Sequence[LlamaCppSampler] = ("penalties", "top_k", "top_p", "min_p", "temperature")
    ignore_eos: bool = False
    logit_bias: Biases = field(default_factory=dict)
    n_predict: int = -1


@dataclass(frozen=True)
class RequestParameters:
    """A request in fairdraw's terms. Greedy requests have temperature 0 and no filters.

    What the engine changed silently is in `adjustments`, where its distribution is not that of
    `sample` with these parameters in `differences`: sentences for a log.
    """

    greedy: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    tie_rule: TieRule = "keep_all"
    filter_apply_order: FilterOrder = "top_k_first"
    seed: int | None = None  #: None: unseeded, draw a fresh one for the request
    child_seed_rule: ChildSeedRule = "threefry"
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repetition_of_prompt: bool = True  #: the repetition penalty counts the prompt's tokens
    counts_of_prompt: bool = False  #: frequency and presence count them too
    penalty_window: int = -1  #: the last tokens that penalties look at; -1: all
    logit_bias: Biases = field(default_factory=dict)
    bad_words: Sequence[Ids] = ()
    allowed_ids: Ids = ()  #: empty: all
    n: int = 1  #: outputs returned
    best_of: int = 1  #: outputs generated, or beams
    min_tokens: int = 0
    max_tokens: int | None = None
    ignore_eos: bool = False
    stop_ids: Ids = ()
    stop_sequences: Sequence[Ids] = ()
    logprobs: int | None = None  #: how many besides the sampled token's; -1: all
    beam_width: int = 0  #: 0: no beam search
    length_penalty: float = 0.0
    early_stopping: int = 1
    adjustments: Sequence[str] = ()
    differences: Sequence[str] = ()

    def filters(self) -> dict[str, Any]:
        """Arguments of `sample`: temperature, filters and their rules."""
        names = ("temperature", "top_k", "top_p", "min_p", "tie_rule", "filter_apply_order")
        return {name: getattr(self, name) for name in names}

    def batch_request(
        self,
        prompt: Iterable[int] = (),
        *,
        eos_id: int | None = None,
        fresh_seed: int | None = None,
        child: int = 0,
        tie_rule: TieRule = "keep_all",
        filter_apply_order: FilterOrder = "top_k_first",
    ) -> BatchRequest:
        """The request of output number `child` of the n, for a BatchState with these rules.

        `eos_id`: banned by min_tokens too, unless ignore_eos. `fresh_seed`: for requests without a
        seed of their own, the same for all n; None: a fresh one. RuntimeError for what a state
        cannot do: counts of the prompt, a window of penalties, other rules than its own.
        """
        values = _dict_of(self)
        if self.max_tokens is None:
            values["max_tokens"] = _core.NO_MAX_TOKENS
        found = _core.batch_request_from(
            values,
            prompt,
            -1 if eos_id is None else eos_id,
            secrets.randbits(64) if fresh_seed is None else fresh_seed,
            child,
            tie_rule,
            filter_apply_order,
        )
        return BatchRequest._of(found)

    @classmethod
    def _of(cls, values: dict[str, Any]) -> RequestParameters:
        if values["max_tokens"] == _core.NO_MAX_TOKENS:
            values["max_tokens"] = None
        logprobs = values["logprobs"]
        if logprobs is not None and logprobs > MOST_LOGPROBS:
            raise RuntimeError(
                f"logprobs is {logprobs}; allowed: 0 to {MOST_LOGPROBS}, or of all tokens"
            )
        return cls(**{**values, "logit_bias": dict(values["logit_bias"])})


def from_vllm(request: VllmRequest, vocab: int) -> RequestParameters:
    """A request of vLLM in fairdraw's terms."""
    return RequestParameters._of(_core.from_vllm(_dict_of(request), vocab))


def from_sglang(request: SglangRequest, vocab: int) -> RequestParameters:
    """A request of SGLang in fairdraw's terms."""
    return RequestParameters._of(_core.from_sglang(_dict_of(request), vocab))


def from_tensorrt_llm(request: TensorRtLlmRequest, vocab: int) -> RequestParameters:
    """A request of TensorRT-LLM in fairdraw's terms."""
    values = _dict_of(request)
    dense = values.pop("embedding_bias")
    found = RequestParameters._of(_core.from_tensorrt_llm(values, vocab))
    if dense is None:
        return found
    bias = _sparse("embedding_bias", dense, vocab)
    differences = tuple(found.differences)
    if bias and found.repetition_penalty != 1:
        differences += (
            "embedding_bias is added before the repetition penalty by TensorRT-LLM, here after it",
        )
    return replace(found, logit_bias=bias, differences=differences)


def _sparse(name: str, dense: Any, vocab: int) -> dict[int, float]:
    """Biases by id, of an array with one for each token."""
    values = shaped(name, dense, "float32", (vocab,))
    for token in np.nonzero(~((np.abs(values) <= 2.0**64) | (values == -np.inf)))[0][:1]:
        raise ValueError(f"{name}[{token}] is {values[token]}; allowed: -2^64 to 2^64, or -inf")
    return {int(token): float(values[token]) for token in np.nonzero(values)[0]}


def from_hugging_face(request: HuggingFaceRequest, vocab: int) -> RequestParameters:
    """A request of transformers in fairdraw's terms."""
    return RequestParameters._of(_core.from_hugging_face(_dict_of(request), vocab))


def from_max(request: MaxRequest, vocab: int) -> RequestParameters:
    """A request of MAX in fairdraw's terms."""
    return RequestParameters._of(_core.from_max(_dict_of(request), vocab))


def from_llama_cpp(request: LlamaCppRequest, vocab: int) -> RequestParameters:
    """A request of llama.cpp in fairdraw's terms."""
    return RequestParameters._of(_core.from_llama_cpp(_dict_of(request), vocab))
