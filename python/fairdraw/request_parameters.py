"""Defines requests in the form of each engine, and translates them to fairdraw's parameters.

>>> parameters = fairdraw.from_vllm(fairdraw.VllmRequest(temperature=0.7, top_k=-1, seed=7), vocab)
>>> tokens = fairdraw.sample(logits, **parameters.filters(), seed=parameters.seed)
>>> state.add(1, parameters.batch_request(prompt=[1, 529, 29871], eos_id=2))

Each engine has a dataclass with the engine's own names and defaults, and a function that turns the
dataclass into RequestParameters. The function raises ValueError if the engine would refuse the
request by its own limits. The error names the field, the value and the allowed range. The function
raises RuntimeError for features of the engine that fairdraw does not have; no feature is ignored.
`vocab` is the size of the vocabulary. All ids are below `vocab`, and a top_k of at least `vocab` is
off. Stop words and bad words are ids, because strings are the tokeniser's affair. Numbers become
float32. Each engine's class names its sources. The sources are the engine's code as of 2026, which
was read, not run.

Definition: docs/semantics.md for the parameters; the code that each class names for its engine:
vLLM, SGLang, TensorRT-LLM, transformers, MAX, llama.cpp.

Raises:
    TypeError: A field is of a wrong type.
    ValueError: A field or an argument is out of its range.
    RuntimeError: The request has a feature that a BatchState with these rules does not have.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from . import _core
from ._arguments import FilterOrder, TieRule
from ._request_checks import (
    AT_LEAST_0,
    OWN,
    UINT64,
    check_value,
    text,
    typed,
    typed_value,
    unsupported,
)
from .parallel_sampling import ChildSeedRule
from .request_processing import FilterStep
from .serving import BatchRequest

Ids = Sequence[int]
Biases = Mapping[int, float]

#: Filters that only `processing` has, with the values at which they are off.
FILTERS_OF_PROCESSING: dict[str, float] = {
    "typical_p": 1.0,
    "epsilon_cutoff": 0.0,
    "eta_cutoff": 0.0,
    "top_h": 1.0,
    "xtc_probability": 0.0,
    "dynatemp_range": 0.0,
    "dynatemp_exponent": 1.0,
}

#: The filter chain and the filters that only a chain has, with the values at which they are off.
FILTER_CHAIN: dict[str, Any] = {
    "filter_chain": (),
    "chain_temperature": 1.0,
    "chain_top_k": 0,
    "chain_top_p": 1.0,
    "chain_min_p": 0.0,
}

LlamaCppSampler = Literal[
    "penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature",
    "adaptive_p",
]  # fmt: skip


@dataclass(frozen=True)
class RequestParameters:
    """A request that has been translated to fairdraw's parameters. Greedy requests have temperature
    0 and no filters after it.

    `adjustments` lists the values that the engine changes silently. `differences` lists the
    respects in which the engine's distribution is not that of `sample` with these parameters. Both
    lists hold sentences that can be logged.
    """

    greedy: bool = False
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    #: Filters before the temperature, of which `sample` takes the first without `processing`.
    top_n_sigma: float = 0.0
    typical_p: float = 1.0
    epsilon_cutoff: float = 0.0
    eta_cutoff: float = 0.0
    top_h: float = 1.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    #: The engine's order of these filters, as RequestProcessing has it; (): that of RequestProcessing.
    filter_chain: Sequence[FilterStep] = ()
    chain_temperature: float = 1.0
    chain_top_k: int = 0
    chain_top_p: float = 1.0
    chain_min_p: float = 0.0
    #: The temperature that follows the entropy, as RequestProcessing has it; 0: off.
    dynatemp_range: float = 0.0
    dynatemp_exponent: float = 1.0
    #: 1 or 2: the chain's last filter has the parameter that a Mirostat chooses before each token.
    mirostat: int = 0
    mirostat_tau: float = 5.0
    mirostat_eta: float = 0.1
    #: The chain ends with adaptive_p, whose target an AdaptiveP chooses before each token. It is this
    #: one for the first token; below 0: off.
    adaptive_target: float = -1.0
    adaptive_decay: float = 0.9
    tie_rule: TieRule = "keep_all"
    filter_apply_order: FilterOrder = "top_k_first"
    seed: int | None = None  #: seed of the request; None means that a fresh seed is drawn
    child_seed_rule: ChildSeedRule = "threefry"
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repetition_of_prompt: bool = True  #: whether the repetition penalty counts the prompt's tokens
    #: True if frequency and presence penalties count the prompt's tokens too.
    counts_of_prompt: bool = False
    #: Number of last tokens that the penalties count; -1 counts all tokens.
    penalty_window: int = -1
    #: Length of the n-grams that must not occur twice in prompt and output; 0: off.
    no_repeat_ngram_size: int = 0
    #: The penalty of repetitions, as RequestProcessing has it; 0: off.
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_window: int = -1
    dry_breakers: Ids = ()
    #: Tokens that follow one another forced_delay ids after forced_after, such as the end of thinking.
    forced_tokens: Ids = ()
    forced_after: int = -1
    forced_delay: int = 0
    #: The factor of top_p after each token, as RequestProcessing has it; 1: off.
    top_p_decay: float = 1.0
    top_p_min: float = 1e-6
    top_p_reset_id: int = -1
    logit_bias: Biases = field(default_factory=dict)
    bad_words: Sequence[Ids] = ()
    allowed_ids: Ids = ()  #: empty: all
    n: int = 1  #: outputs returned
    best_of: int = 1  #: number of generated outputs, or of beams
    min_tokens: int = 0
    max_tokens: int | None = None
    ignore_eos: bool = False
    stop_ids: Ids = ()
    stop_sequences: Sequence[Ids] = ()
    #: Number of log-probabilities besides the sampled token's; -1 for all tokens.
    logprobs: int | None = None
    beam_width: int = 0  #: 0: no beam search
    length_penalty: float = 0.0
    early_stopping: int = 1
    adjustments: Sequence[str] = ()
    differences: Sequence[str] = ()

    def filters(self) -> dict[str, Any]:
        """Returns arguments for `sample`: the temperature, the filters and their rules. Raises
        RuntimeError for filters that only `processing` has."""
        if self.filter_chain:
            raise unsupported(
                "filter_chain", str(tuple(self.filter_chain)), "() without processing"
            )
        for name, off in FILTERS_OF_PROCESSING.items():
            if getattr(self, name) != off:
                raise unsupported(
                    name, text(getattr(self, name)), f"{text(off)} without processing"
                )
        names = ["temperature", "top_k", "top_p", "min_p", "tie_rule", "filter_apply_order"]
        if self.top_n_sigma != 0:
            names.append("top_n_sigma")
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
        """Returns the request of output number `child` of the n outputs, for a BatchState with
        these rules.

        Before min_tokens is reached, `eos_id` is banned too, unless ignore_eos is set.
        `fresh_seed` is the seed that all n outputs share if the request has no seed of its own.
        None draws a fresh seed. Raises RuntimeError for rules that differ from the state's own,
        and for Mirostat and adaptive-p, which change a parameter before each token.
        """
        given = typed(self, OWN)
        if given.mirostat != 0:
            allowed = "0 in a running batch, whose parameters do not change"
            raise unsupported("mirostat", str(given.mirostat), allowed)
        if given.adaptive_target >= 0:
            allowed = "below 0 in a running batch, whose parameters do not change"
            raise unsupported("adaptive_target", text(given.adaptive_target), allowed)
        history: Ids = typed_value("prompt", Ids, prompt)
        given._check_rules(
            typed_value("tie_rule", TieRule, tie_rule),
            typed_value("filter_apply_order", FilterOrder, filter_apply_order),
        )
        child = typed_value("child", int, child)
        check_value("child", child, AT_LEAST_0)
        seed = given.seed
        if seed is None:
            fresh = secrets.randbits(64) if fresh_seed is None else fresh_seed
            seed = typed_value("fresh_seed", int, fresh, OWN._replace(integers=UINT64))
        seed = _core.child_seed(seed, child, given.child_seed_rule == "seed_plus_index")
        # The purposes of random words keep the coins apart from the draws of the same seed.
        xtc: dict[str, Any] = {"xtc_threshold": given.xtc_threshold, "xtc_seed": seed}
        if given.xtc_probability == 0:
            xtc.clear()
        end = () if eos_id is None or eos_id < 0 or given.ignore_eos else (eos_id,)
        return BatchRequest(
            temperature=given.temperature,
            top_k=given.top_k,
            top_p=given.top_p,
            min_p=given.min_p,
            top_n_sigma=given.top_n_sigma,
            **{name: getattr(given, name) for name in (*FILTERS_OF_PROCESSING, *FILTER_CHAIN)},
            **xtc,
            repetition_penalty=given.repetition_penalty,
            repetition_of_prompt=given.repetition_of_prompt,
            frequency_penalty=given.frequency_penalty,
            presence_penalty=given.presence_penalty,
            **given._history_rules(),
            seed=seed,
            min_tokens=given.min_tokens,
            stop_ids=(*given.stop_ids, *end),
            bias=given.logit_bias,
            bad_words=given.bad_words,
            allowed_ids=given.allowed_ids,
            prompt=history,
        )

    def _check_rules(self, tie_rule: TieRule, filter_apply_order: FilterOrder) -> None:
        """Checks that the request's rule for ties and its filter order are those of the state.
        Without a filter the rules for ties and filter order have no effect."""
        by_top_k = self.top_k != 0 and not self.greedy
        if by_top_k and self.tie_rule != tie_rule:
            raise unsupported("tie_rule", self.tie_rule, f"{tie_rule}, the batch state's")
        if by_top_k and self.top_p < 1 and self.filter_apply_order != filter_apply_order:
            allowed = f"{filter_apply_order}, the batch state's"
            raise unsupported("filter_apply_order", self.filter_apply_order, allowed)

    def _history_rules(self) -> dict[str, Any]:
        """Returns the rules of histories that can change a row, because a state with dense
        histories refuses these rules."""
        counted = self.frequency_penalty != 0 or self.presence_penalty != 0
        rules: dict[str, Any] = {"no_repeat_ngram_size": self.no_repeat_ngram_size}
        if self.dry_multiplier != 0:
            rules |= {
                f"dry_{name}": getattr(self, f"dry_{name}")
                for name in ("multiplier", "base", "allowed_length", "window", "breakers")
            }
        if self.forced_tokens:
            rules |= {
                f"forced_{name}": getattr(self, f"forced_{name}")
                for name in ("tokens", "after", "delay")
            }
        if self.top_p_decay != 1:
            rules |= {
                f"top_p_{name}": getattr(self, f"top_p_{name}")
                for name in ("decay", "min", "reset_id")
            }
        if counted and self.counts_of_prompt:
            rules["counts_of_prompt"] = 1
        if counted or self.repetition_penalty != 1:
            rules["penalty_window"] = self.penalty_window
        return rules


@dataclass(frozen=True)
class VllmRequest:
    """A request in the form of vLLM's SamplingParams (vllm/sampling_params.py).

    A temperature between 0 and 0.01 is first raised to 0.01, so that only 0 is below the engine's
    threshold for greedy, 1e-5. A greedy request drops top_k, top_p and min_p, and has n = 1.
    `top_k` 0 and -1 are off. A `seed` of -1 or None means no seed. `n` is at most 16384
    (VLLM_MAX_N_SEQUENCES). Biases are clamped to [-100, 100]. Output i of a request has seed + i.
    Temperatures are at most 2, as in newer versions of vLLM; older versions accept any temperature.
    An empty `allowed_token_ids` is refused.
    """

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
    #: Most tokens of thinking; None: any number. The ids that begin and end it are those of the
    #: engine's ReasoningConfig.
    thinking_token_budget: int | None = None
    think_start_token_ids: Ids = ()
    think_end_token_ids: Ids = ()


@dataclass(frozen=True)
class SglangRequest:
    """A request in the form of SGLang's SamplingParams
    (python/sglang/srt/sampling/sampling_params.py).

    A temperature of at least 0 and below 1e-6 is greedy. `top_k` -1 is off, and 0 is refused. The
    repetition penalty counts only the output. `top_p` and `top_k` both apply to the whole row
    (joint). `min_p` comes after both of them in sequence: if min_p and top_p are on, the nucleus is
    measured before min_p.
    """

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
    """A request in the form of TensorRT-LLM's SamplingParams (tensorrt_llm/sampling_params.py; the
    ranges are those of cpp/tensorrt_llm/executor/samplingConfig.cpp, and a request is greedy if
    TorchSampler decides so).

    A request is greedy if temperature or top_p is 0, top_k is 1 or min_p is 1, or if temperature,
    top_k and top_p are all unset. A greedy request with n or best_of above 1 is refused. In all
    other requests, unset values and values of 0 are neutral. Beam search has width best_of, and by
    default length_penalty 0 and early_stopping 1. With a top_p_decay below 1, a request with unset
    values is not greedy, and top_p_min and top_p_reset_ids have a meaning.

    If a request has no seed, the engine uses seed 0, so that equal prompts always get equal tokens.
    fairdraw treats such a request as unseeded, as for all engines. TensorRT-LLM's documentation
    defines the nucleus as the smallest set "with total probability greater than top_p".
    The list `differences` includes this difference.
    """

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
    #: [vocab] numbers, an array in host memory, added to the logits; -inf bans a token.
    embedding_bias: Any = field(default=None, compare=False)


@dataclass(frozen=True)
class HuggingFaceRequest:
    """A request in the form of transformers' GenerationConfig (generation/configuration_utils.py,
    logits_process.py, version 5), with the length of the prompt.

    Requests with neither do_sample nor beams are greedy, whatever the filters. With do_sample the
    temperature is above 0. `top_k` is 50 by default, and an unset value or 0 is off. A `top_p`
    below 1 and `min_p` apply, min_p after top_p. A `typical_p` of 1, and cutoffs that are not
    between 0 and 1, are off; the engine applies them after the other filters, `sample` before the
    temperature, unless the translation keeps the order (exact_order) by a filter chain. `num_beams`
    above 1 is beam search; beam search with sampling is refused. A request of transformers has no seed. Lengths that include the prompt
    (max_length, min_length) need `prompt_tokens`. `eos_token_id` is one id or several ids, which
    become stop ids.
    """

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
    top_h: float | None = None
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
    """A request in the form of MAX's SamplingParams
    (max/python/max/pipelines/context/sampling_params.py).

    The temperature is in [0, 2], and 0 is greedy. `top_k` 0 and -1 are off. Unset fields have the
    class's defaults. A request without a seed is unseeded (MAX draws a seed of 32 bits). `top_p`
    applies to the whole mass (joint), before min_p.
    """

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
    """A request in the form of llama.cpp's common_params_sampling (common/common.h;
    src/llama-sampler.cpp).

    Samplers run in the order of `samplers`, and samplers that are not listed are off. A `temp` of
    at most 0 is greedy. A `top_k` of at most 0 is off; otherwise exactly k tokens stay. A `top_p`
    of at least 1 and a `min_p` of at most 0 are off. Penalties count the last penalty_last_n tokens
    of prompt and output: 0 turns the penalties off, and -1 counts all tokens. With a
    `dynatemp_range` above 0 the temperature follows the entropy. A `top_n_sigma` of at most 0, a `typ_p` of at least 1, and an `xtc_threshold` above 1/2 are off. The breakers of `dry`
    are ids here, because there is no vocabulary that could split texts. In the default order the
    temperature is last. A min_p before the temperature equals min_p^(1/temp) after it. A top_p
    before the temperature has no such equivalent, and `differences` lists it, unless the translation
    keeps the order (exact_order) by a filter chain. With `mirostat` 1 or 2 the temperature and
    Mirostat are the only samplers, as in the engine. With "adaptive_p" among the samplers and an
    `adaptive_target` of at least 0, adaptive_p is the last sampler, wherever it stands, and the order
    is always kept by a filter chain; the temperature is in the chain, and that of the draw is 1. Seed
    2^32 - 1 means no seed, and n_predict -1 allows any length.
    """

    seed: int = 2**32 - 1
    min_keep: int = 0
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    typ_p: float = 1.0
    temp: float = 0.8
    dynatemp_range: float = 0.0
    dynatemp_exponent: float = 1.0
    penalty_last_n: int = 64
    penalty_repeat: float = 1.0
    penalty_freq: float = 0.0
    penalty_present: float = 0.0
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_penalty_last_n: int = -1
    dry_breakers: Ids = ()
    top_n_sigma: float = -1.0
    mirostat: int = 0
    mirostat_tau: float = 5.0
    mirostat_eta: float = 0.1
    adaptive_target: float = -1.0
    adaptive_decay: float = 0.9
    samplers: Sequence[LlamaCppSampler] = get_args(LlamaCppSampler)[:-1]
    ignore_eos: bool = False
    logit_bias: Biases = field(default_factory=dict)
    n_predict: int = -1
