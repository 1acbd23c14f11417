"""Translates the requests of each engine to RequestParameters.

Each function makes the engine's own checks, then refuses features that fairdraw does not have, and
translates the rest.

Definition: the code of each engine, which its request class in fairdraw.request_parameters names:
vLLM, SGLang, TensorRT-LLM, transformers, MAX, llama.cpp.

Raises:
    TypeError: A field is of a wrong type.
    ValueError: The engine refuses the request; the message names the field, its value and the
        allowed range.
    RuntimeError: The request uses a feature of the engine that fairdraw does not have.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from . import _core
from ._arguments import FilterOrder
from ._host_arrays import shaped
from ._llama_cpp_chain import Chain
from ._request_checks import (
    AT_LEAST_0,
    AT_LEAST_1,
    AT_LEAST_MINUS_1,
    COUNT,
    FACTOR,
    FINITE_NOT_NEGATIVE,
    INT32,
    LLAMA_CPPS,
    PENALTY,
    POSITIVE,
    PYTHONS,
    UINT32,
    UNIT,
    UNIT_WITHOUT_0,
    UNSET,
    WITHIN_2,
    Range,
    biases_of,
    check,
    check_features,
    check_ids,
    check_value,
    check_vocab,
    check_words,
    lengths_of,
    out_of_range,
    single,
    text,
    typed,
    unsupported,
)
from .logprobs import MAX_LOGPROBS
from .request_parameters import (
    FILTER_CHAIN,
    FILTERS_OF_PROCESSING,
    HuggingFaceRequest,
    LlamaCppRequest,
    MaxRequest,
    RequestParameters,
    SglangRequest,
    TensorRtLlmRequest,
    VllmRequest,
)
from .request_processing import FilterStep

_FILTERS_BEFORE_THE_TEMPERATURE = {"top_n_sigma": 0.0, **FILTERS_OF_PROCESSING}
_GREEDY = {
    **{"greedy": True, "temperature": 0.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0},
    **_FILTERS_BEFORE_THE_TEMPERATURE,
}
_NEUTRAL = {
    **_FILTERS_BEFORE_THE_TEMPERATURE,
    "temperature": 1.0,
    "top_p": 1.0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "frequency_penalty": 0.0,
    "presence_penalty": 0.0,
    "dry_multiplier": 0.0,
    "dry_base": 1.75,
}
_SINGLES = (
    *_NEUTRAL, "chain_temperature", "chain_top_p", "chain_min_p", "adaptive_target", "adaptive_decay",
)  # fmt: skip
_RANGES_OF_SAMPLE: dict[str, Range] = {
    "top_p": UNIT,
    "min_p": UNIT,
    "repetition_penalty": FACTOR,
    "frequency_penalty": PENALTY,
    "presence_penalty": PENALTY,
}
_TEMPERATURE: Range = (2.0**-126, 2.0**64, "0, or 2^-126 to 2^64 as float32")
_LARGEST_SINGLE = float(np.finfo(np.float32).max)
_LENGTH_PENALTY: Range = (-_LARGEST_SINGLE, _LARGEST_SINGLE, "finite as float32")
_LENGTH_PENALTY_FROM_0: Range = (0, _LARGEST_SINGLE, ">= 0 and finite as float32")


def _numbers(given: Any, vocab: int) -> dict[str, Any]:
    """Returns a request's filters and penalties, by names that most engines share. Unset fields
    become neutral."""
    values: dict[str, Any] = {"top_k": _top_k_of(given.top_k or 0, vocab)}
    for name, neutral in _NEUTRAL.items():
        value = getattr(given, name, None)
        values[name] = neutral if value is None else value
    return values


def _top_k_of(top_k: int, vocab: int) -> int:
    """Returns 0 if top_k keeps the whole vocabulary, and top_k otherwise."""
    return top_k if 0 < top_k < vocab else 0


def _seed(seed: int | None) -> int | None:
    """Returns a seed as the same 64 bits in two's complement."""
    return None if seed is None else seed % 2**64


def _new_tokens(given: SglangRequest | MaxRequest) -> dict[str, Any]:
    return lengths_of(
        "min_new_tokens", given.min_new_tokens, "max_new_tokens", given.max_new_tokens
    )


def _finished(values: dict[str, Any], **others: Any) -> RequestParameters:
    """Returns the parameters as float32, after checking that they are in the ranges of `sample` and
    of processing.

    The parameters are greedy if `sample` would be greedy with them, as with top_k 1 or top_p 0.
    """
    singles = {name: single(values[name]) for name in _SINGLES if name in values}
    found = RequestParameters(**{**values, **singles, **others})
    if not found.greedy and found.temperature == 0:
        raise out_of_range("temperature", "0 as float32", _TEMPERATURE[2])
    if found.top_k == 1 or found.top_p == 0:
        found = replace(found, **_GREEDY)  # type: ignore[arg-type]
    if found.temperature != 0:
        check_value("temperature", found.temperature, _TEMPERATURE)
    check(found, _RANGES_OF_SAMPLE)
    if found.logprobs is not None and found.logprobs > MAX_LOGPROBS:
        raise unsupported("logprobs", str(found.logprobs), f"0 to {MAX_LOGPROBS}, or of all tokens")
    return found


_VLLM_RANGES: dict[str, Range] = {
    "n": (1, 16384, "1 to 16384"),
    "presence_penalty": WITHIN_2,
    "frequency_penalty": WITHIN_2,
    "repetition_penalty": POSITIVE,
    "temperature": (0, 2, "0 to 2"),
    "top_p": UNIT_WITHOUT_0,
    "top_k": AT_LEAST_MINUS_1,
    "min_p": UNIT,
    "max_tokens": AT_LEAST_1,
    "min_tokens": AT_LEAST_0,
    "logprobs": AT_LEAST_MINUS_1,
    "thinking_token_budget": (0, INT32[1], "0 to 2^31 - 1"),
}


def from_vllm(request: VllmRequest, vocab: int) -> RequestParameters:
    """Translates a request of vLLM. The checks are in the order of vLLM's __post_init__ and
    _verify_args."""
    given, vocab = typed(request, PYTHONS), check_vocab(vocab)
    adjustments = []
    if 0 < given.temperature < 0.01:
        adjustments.append(f"temperature {text(given.temperature)} is raised to 0.01")
        given = replace(given, temperature=0.01)
    check(given, _VLLM_RANGES)
    check_ids("stop_token_ids", given.stop_token_ids, vocab)
    check_words("bad_words", given.bad_words, vocab)
    forced = _vllm_thinking(given, vocab)
    if given.allowed_token_ids is not None:
        if not given.allowed_token_ids:
            raise out_of_range("allowed_token_ids", "empty", "unset, or at least one id")
        check_ids("allowed_token_ids", given.allowed_token_ids, vocab)
    clamped = {token: min(max(bias, -100.0), 100.0) for token, bias in given.logit_bias.items()}
    for token, bias in given.logit_bias.items():
        if clamped[token] != bias:
            adjustments.append(f"logit_bias {text(bias)} is clamped to [-100, 100]")
    biases = biases_of("logit_bias", clamped, vocab)
    values = _numbers(given, vocab)
    if given.temperature == 0:
        if given.n > 1:
            raise out_of_range("n", str(given.n), "1 where temperature is 0")
        values |= _GREEDY
    return _finished(
        values,
        seed=None if given.seed == -1 else _seed(given.seed),
        child_seed_rule="seed_plus_index",
        logit_bias=biases,
        bad_words=given.bad_words,
        allowed_ids=given.allowed_token_ids or (),
        n=given.n,
        best_of=given.n,
        **lengths_of("min_tokens", given.min_tokens, "max_tokens", given.max_tokens),
        ignore_eos=given.ignore_eos,
        stop_ids=tuple(dict.fromkeys(given.stop_token_ids)),
        logprobs=given.logprobs,
        adjustments=tuple(adjustments),
        differences=_vllm_differences(given) if forced else (),
        **forced,
    )


def _vllm_thinking(given: VllmRequest, vocab: int) -> dict[str, Any]:
    """Returns the budget of thinking as forced tokens."""
    if given.thinking_token_budget is None:
        return {}
    for name in ("think_start_token_ids", "think_end_token_ids"):
        ids = getattr(given, name)
        if not ids:
            raise out_of_range(name, "empty", "at least one id where thinking_token_budget is set")
        check_ids(name, ids, vocab)
    return {
        "forced_after": given.think_start_token_ids[-1],
        "forced_delay": given.thinking_token_budget,
        "forced_tokens": given.think_end_token_ids,
    }


def _vllm_differences(given: VllmRequest) -> tuple[str, ...]:
    if len(given.think_start_token_ids) == 1 and len(given.think_end_token_ids) == 1:
        return ()
    return (
        "vLLM looks for all ids that begin or end the thinking, one after the other; sample looks for "
        "the last one of each",
    )


_SGLANG_RANGES: dict[str, Range] = {
    "temperature": FINITE_NOT_NEGATIVE,
    "top_p": UNIT_WITHOUT_0,
    "min_p": UNIT,
    "frequency_penalty": WITHIN_2,
    "presence_penalty": WITHIN_2,
    "repetition_penalty": (UNIT_WITHOUT_0[0], 2, "above 0, up to 2"),
    "min_new_tokens": AT_LEAST_0,
    "max_new_tokens": AT_LEAST_0,
    "n": COUNT,
}


def from_sglang(request: SglangRequest, vocab: int) -> RequestParameters:
    """Translates a request of SGLang. The checks are in the order of SGLang's __post_init__ and
    verify."""
    given, vocab = typed(request, PYTHONS), check_vocab(vocab)
    check(given, _SGLANG_RANGES)
    coldest = given.temperature is not None and given.temperature < 1e-6
    if given.top_k != -1 and not coldest:
        check_value("top_k", given.top_k, (1, math.inf, "-1, or >= 1"))
    check_ids("stop_token_ids", given.stop_token_ids, vocab)
    biases = biases_of("logit_bias", given.logit_bias, vocab)
    values, n = _numbers(given, vocab), 1 if given.n is None else given.n
    order: FilterOrder = "top_k_first"
    differences: tuple[str, ...] = ()
    if coldest or given.top_k == 1:
        values |= _GREEDY
    elif values["min_p"] == 0:
        order = "joint"
    elif values["top_p"] < 1:
        differences = (
            "SGLang measures top_p before min_p; sample measures it on the tokens that min_p keeps",
        )
    return _finished(
        values,
        filter_apply_order=order,
        seed=_seed(given.sampling_seed),
        repetition_of_prompt=False,
        logit_bias=biases,
        n=n,
        best_of=n,
        **_new_tokens(given),
        ignore_eos=bool(given.ignore_eos),
        stop_ids=given.stop_token_ids,
        differences=differences,
    )


_TENSORRT_LLM_RANGES: dict[str, Range] = {
    "temperature": FINITE_NOT_NEGATIVE,
    "top_k": AT_LEAST_0,
    "top_p": UNIT,
    "min_p": UNIT,
    "repetition_penalty": POSITIVE,
    "n": COUNT,
    "max_tokens": AT_LEAST_1,
    "min_tokens": AT_LEAST_0,
    "logprobs": (0, INT32[1], ">= 0"),
    "no_repeat_ngram_size": AT_LEAST_1,
    "top_p_decay": UNIT_WITHOUT_0,
    "top_p_min": UNIT,
}
_NOT_OF_TENSORRT_LLM: dict[str, Range] = {
    "beam_search_diversity_rate": (0, 0, "0"),
}
_BEAM_WIDTH: Range = (1, _core.MAX_BEAM_WIDTH, f"1 to {_core.MAX_BEAM_WIDTH} (beam widths)")


def from_tensorrt_llm(request: TensorRtLlmRequest, vocab: int) -> RequestParameters:
    """Translates a request of TensorRT-LLM."""
    given, vocab = typed(request, PYTHONS), check_vocab(vocab)
    check(given, _TENSORRT_LLM_RANGES)
    check_features(given, _NOT_OF_TENSORRT_LLM)
    decay = _top_p_decay(given, vocab)
    unset = given.temperature is None and given.top_p is None and given.top_k is None and not decay
    greedy = (
        unset or given.temperature == 0 or given.top_p == 0 or given.top_k == 1 or given.min_p == 1
    )
    best_of = given.best_of or given.n
    check_value("best_of", best_of, (given.n, INT32[1], "n to 2^31 - 1"))
    if greedy and not given.use_beam_search and best_of > 1:
        raise out_of_range("best_of", str(best_of), "1 for a greedy request")
    values = _numbers(given, vocab)
    if greedy:
        values |= _GREEDY
    if given.use_beam_search:
        check_value("best_of", best_of, _BEAM_WIDTH)
        check_value("length_penalty", given.length_penalty, _LENGTH_PENALTY_FROM_0)
        check_value("early_stopping", given.early_stopping, AT_LEAST_0)
        if decay:
            raise unsupported("top_p_decay", text(given.top_p_decay or 1.0), "1 with beam search")
        stopping = 1 if given.early_stopping is None else min(given.early_stopping, 2)
        penalty = single(given.length_penalty or 0.0)
        values |= {"beam_width": best_of, "length_penalty": penalty, "early_stopping": stopping}
    check_ids("stop_token_ids", given.stop_token_ids, vocab)
    check_words("stop_words", given.stop_words, vocab)
    check_words("bad_words", given.bad_words, vocab)
    differences = []
    if greedy:
        decay = {}
    if values["top_p"] < 1 or decay:
        differences.append(
            "TensorRT-LLM's nucleus is the least with more than top_p of the mass; sample's is the "
            "least with top_p of it, which is a token less where the mass is exactly top_p"
        )
    found = _finished(
        values,
        seed=_seed(given.seed),
        bad_words=given.bad_words,
        no_repeat_ngram_size=given.no_repeat_ngram_size or 0,
        n=given.n,
        best_of=best_of,
        **lengths_of("min_tokens", given.min_tokens, "max_tokens", given.max_tokens),
        ignore_eos=given.ignore_eos,
        stop_ids=given.stop_token_ids,
        stop_sequences=given.stop_words,
        logprobs=given.logprobs,
        **decay,
    )
    bias: dict[int, float] = {}
    if given.embedding_bias is not None:
        bias = _sparse("embedding_bias", given.embedding_bias, vocab)
    if bias and found.repetition_penalty != 1:
        differences.append(
            "embedding_bias is added before the repetition penalty by TensorRT-LLM, here after it"
        )
    return replace(found, logit_bias=bias, differences=tuple(differences))


def _top_p_decay(given: TensorRtLlmRequest, vocab: int) -> dict[str, Any]:
    """Returns the rule by which top_p decays, if it does."""
    ids: Range = (0, vocab - 1, f"0 to {vocab - 1} (ids of the vocabulary)")
    check_value("top_p_reset_ids", given.top_p_reset_ids, ids)
    if given.top_p_decay in (None, 1):
        return {}
    if given.top_p_min == 0:
        raise unsupported("top_p_min", "0", "above 0, up to 1")
    return {
        "top_p_decay": single(given.top_p_decay or 1.0),
        "top_p_min": single(given.top_p_min or 1e-6),
        "top_p_reset_id": -1 if given.top_p_reset_ids is None else given.top_p_reset_ids,
    }


def _sparse(name: str, dense: Any, vocab: int) -> dict[int, float]:
    """Returns biases by token id, made from an array with one bias per token."""
    values = shaped(name, dense, "float32", (vocab,))
    for token in np.nonzero(~((np.abs(values) <= 2.0**64) | (values == -np.inf)))[0][:1]:
        raise ValueError(f"{name}[{token}] is {values[token]}; allowed: -2^64 to 2^64, or -inf")
    return {int(token): float(values[token]) for token in np.nonzero(values)[0]}


_NOT_OF_HUGGING_FACE: dict[str, Range] = {
    "num_beam_groups": (1, 1, "1"),
    "diversity_penalty": (0, 0, "0"),
}
_HUGGING_FACE_RANGES_OF_SAMPLING: dict[str, Range] = {
    "temperature": POSITIVE,
    "top_k": (0, math.inf, "unset, 0, or >= 1"),
    "top_p": UNIT,
    "min_p": UNIT,
    "typical_p": POSITIVE,
    "top_h": UNIT_WITHOUT_0,
}
_HUGGING_FACE_RANGES: dict[str, Range] = {
    "num_beams": (1, _core.MAX_BEAM_WIDTH, f"1 to {_core.MAX_BEAM_WIDTH}"),
    "num_return_sequences": COUNT,
    "prompt_tokens": (0, INT32[1], "0 to 2^31 - 1"),
    "min_length": AT_LEAST_0,
    "max_new_tokens": AT_LEAST_1,
    "min_new_tokens": AT_LEAST_0,
    "repetition_penalty": POSITIVE,
}


def from_hugging_face(
    request: HuggingFaceRequest, vocab: int, *, exact_order: bool = False
) -> RequestParameters:
    """Translates a request of transformers, with the rules of its generate(). With `exact_order` the
    filters become a filter chain, which takes longer and needs processing."""
    given, vocab = typed(request, PYTHONS), check_vocab(vocab)
    check_features(given, _NOT_OF_HUGGING_FACE)
    if given.do_sample:
        check(given, _HUGGING_FACE_RANGES_OF_SAMPLING)
    check(given, _HUGGING_FACE_RANGES)
    values = _numbers(given, vocab)
    values["typical_p"] = min(values["typical_p"], 1)
    values |= {n: 0.0 for n in ("epsilon_cutoff", "eta_cutoff") if not 0 < values[n] < 1}
    differences = []
    if not given.do_sample or given.top_k == 1 or given.top_p == 0:
        values |= _GREEDY
    elif values["min_p"] > 0 and values["top_p"] < 1 and not exact_order:
        differences.append(
            "Hugging Face measures top_p before min_p; sample measures it on the tokens that min_p keeps"
        )
    plain = {"temperature": 1, "top_k": 0, "top_p": 1, "min_p": 0}
    if values["top_h"] != 1:
        when = "" if exact_order else "after the temperature, "
        differences.append(
            f"Hugging Face measures top_h {when}on the 100 largest logits, and splits ties; sample "
            f"measures it {'before the temperature, ' if when else ''}on all logits, and keeps ties "
            "together"
        )
    for name in ("typical_p", "epsilon_cutoff", "eta_cutoff"):
        off = FILTERS_OF_PROCESSING[name]
        is_late = any(values[other] != plain[other] for other in plain)
        if values[name] != off and is_late and not exact_order:
            differences.append(
                f"Hugging Face applies {name} after the temperature, top_k, top_p and min_p; sample "
                "applies it before them"
            )
    if exact_order and not values.get("greedy"):
        values |= _chain_of_hugging_face(values)
    check_ids("eos_token_id", given.eos_token_id, vocab)
    check_words("bad_words_ids", given.bad_words_ids, vocab)
    return _finished(
        values | _hugging_face_beams(given) | _hugging_face_lengths(given),
        bad_words=given.bad_words_ids,
        no_repeat_ngram_size=max(given.no_repeat_ngram_size or 0, 0),
        n=given.num_return_sequences,
        stop_ids=given.eos_token_id,
        differences=tuple(differences),
    )


def _chain_of_hugging_face(values: dict[str, Any]) -> dict[str, Any]:
    """Returns the filters as a chain, in the order of transformers' warpers."""
    steps: tuple[FilterStep, ...] = (
        *("temperature", "top_h", "top_k", "top_p", "min_p"),
        *("typical_p", "epsilon_cutoff", "eta_cutoff"),
    )
    made: dict[str, Any] = {"filter_chain": ()}
    for step in steps:
        name = step if step in FILTERS_OF_PROCESSING else f"chain_{step}"
        off = {**FILTERS_OF_PROCESSING, **FILTER_CHAIN}[name]
        if values[step] == off:
            continue
        made[name] = values[step]
        made["filter_chain"] += (step,)
        if name != step and step != "temperature":
            made[step] = _NEUTRAL.get(step, 0)
    return made


def _hugging_face_beams(given: HuggingFaceRequest) -> dict[str, Any]:
    sequences = given.num_return_sequences
    if given.num_beams == 1:
        if sequences > 1 and not given.do_sample:
            raise out_of_range(
                "num_return_sequences", str(sequences), "1 without do_sample and beams"
            )
        return {"best_of": sequences}
    if given.do_sample:
        allowed = "false where num_beams is not 1 (fairdraw has no such feature)"
        raise unsupported("do_sample", "true", allowed)
    allowed_sequences: Range = (1, given.num_beams, f"1 to num_beams ({given.num_beams})")
    check_value("num_return_sequences", sequences, allowed_sequences)
    check_value("length_penalty", given.length_penalty, _LENGTH_PENALTY)
    return {
        "best_of": given.num_beams,
        "beam_width": given.num_beams,
        "length_penalty": single(given.length_penalty),
        "early_stopping": 2 if given.early_stopping == "never" else int(given.early_stopping),
    }


def _hugging_face_lengths(given: HuggingFaceRequest) -> dict[str, Any]:
    """Returns min_tokens and max_tokens without the prompt. max_new_tokens and min_new_tokens take
    precedence if they are set.
    """
    prompt = given.prompt_tokens
    most = given.max_new_tokens
    if most is None:
        if given.max_length <= prompt:
            raise out_of_range(
                "max_length", str(given.max_length), f"above prompt_tokens ({prompt})"
            )
        most = given.max_length - prompt
    least = max(0, given.min_length - prompt, given.min_new_tokens or 0)
    named = "min_length" if given.min_new_tokens is None else "min_new_tokens"
    return lengths_of(named, least, "the largest length", most)


_MAX_RANGES: dict[str, Range] = {
    "min_p": UNIT,
    "repetition_penalty": POSITIVE,
    "top_k": AT_LEAST_MINUS_1,
    "top_p": UNIT,
    "temperature": (0, 2, "0 to 2"),
    "frequency_penalty": WITHIN_2,
    "presence_penalty": WITHIN_2,
    "min_new_tokens": AT_LEAST_0,
    "max_new_tokens": AT_LEAST_0,
}


def from_max(request: MaxRequest, vocab: int) -> RequestParameters:
    """Translates a request of MAX, with MAX's defaults and the checks of its __post_init__ in their
    order."""
    given, vocab = typed(request, PYTHONS), check_vocab(vocab)
    check(given, _MAX_RANGES)
    check_features(given, {"thinking_temperature": UNSET})
    check_ids("stop_token_ids", given.stop_token_ids, vocab)
    values = _numbers(given, vocab)
    differences: tuple[str, ...] = ()
    if given.temperature == 0 or given.top_k == 1 or given.top_p == 0:
        values |= _GREEDY
    elif values["min_p"] > 0 and values["top_p"] < 1:
        differences = (
            "MAX measures top_p on the whole mass; sample measures it on the tokens that min_p keeps",
        )
    return _finished(
        values,
        filter_apply_order="joint",
        seed=_seed(given.seed),
        **_new_tokens(given),
        ignore_eos=bool(given.ignore_eos),
        stop_ids=given.stop_token_ids,
        differences=differences,
    )


_NOT_OF_LLAMA_CPP: dict[str, Range] = {
    "min_keep": (-math.inf, 1, "0 or 1"),
}
_LLAMA_CPP_RANGES: dict[str, Range] = {
    "dynatemp_range": (-math.inf, 2.0**64, "at most 2^64"),
    "dynatemp_exponent": (0, 2.0**64, "0 to 2^64"),
    "mirostat": (0, 2, "0 to 2"),
    "mirostat_tau": (-math.inf, math.inf, "a number"),
    "mirostat_eta": (-math.inf, math.inf, "a number"),
    "adaptive_target": (-math.inf, 1, "at most 1"),
    "adaptive_decay": (-math.inf, math.inf, "a number"),
    "temp": (-math.inf, 2.0**64, "at most 2^64"),
    "top_p": AT_LEAST_0,
    "min_p": (-math.inf, 1, "at most 1"),
    "penalty_last_n": AT_LEAST_MINUS_1,
    "typ_p": (-math.inf, math.inf, "a number"),
    "top_n_sigma": (-math.inf, math.inf, "a number"),
    "xtc_probability": (-math.inf, 1, "at most 1"),
    "xtc_threshold": AT_LEAST_0,
    "dry_multiplier": (0, 2.0**64, "0 to 2^64"),
    "dry_base": (-math.inf, 2.0**64, "at most 2^64"),
    "dry_penalty_last_n": AT_LEAST_MINUS_1,
    "n_predict": AT_LEAST_MINUS_1,
}


def from_llama_cpp(
    request: LlamaCppRequest, vocab: int, *, exact_order: bool = False
) -> RequestParameters:
    """Translates a request of llama.cpp, which is a chain of samplers. With `exact_order` the
    filters become a filter chain, which takes longer and needs processing. Otherwise they become
    those of `sample`, and `differences` says where its order is another. Mirostat and adaptive-p
    always have a filter chain."""
    given, vocab = typed(request, LLAMA_CPPS), check_vocab(vocab)
    check_features(given, _NOT_OF_LLAMA_CPP)
    check(given, _LLAMA_CPP_RANGES)
    for i, name in enumerate(given.samplers):
        if name in given.samplers[:i]:
            raise out_of_range(f"samplers[{i}]", repr(name), "each sampler once")
    check_ids("dry_breakers", given.dry_breakers, vocab)
    chain = Chain(given, _top_k_of(given.top_k, vocab))
    for name in given.samplers if given.mirostat == 0 else ():
        getattr(chain, name)()
    coldest = "temperature" in given.samplers and given.temp <= 0
    is_greedy = coldest or chain.values.get("top_k") == 1 or chain.values.get("top_p") == 0
    adjustments = chain.adjustments
    adapts = "adaptive_p" in given.samplers and given.adaptive_target >= 0 and not is_greedy
    if given.mirostat != 0:
        values, differences = chain.of_mirostat()
        adjustments = []
    elif exact_order or adapts:
        values, adjustments = chain.in_order(), []
        if adapts:
            values, adjustments = chain.with_adaptive_p(values)
        differences = chain.differences
        if is_greedy:
            values |= {"greedy": True, "temperature": 0.0}
    else:
        values, differences = chain.values, chain.differences + chain.differences_of_order
        if is_greedy:
            values |= {**_GREEDY, **chain.filters_of_greedy()}
            # The largest logit is in every nucleus, so that a greedy draw does not depend on top_p.
            differences = [each for each in differences if not each.startswith("top_p")]
    return _finished(
        values,
        tie_rule="lowest_id",
        seed=None if given.seed == UINT32[1] else given.seed,
        counts_of_prompt=True,
        logit_bias=biases_of("logit_bias", given.logit_bias, vocab),
        max_tokens=None if given.n_predict in (-1, _core.NO_MAX_TOKENS) else given.n_predict,
        ignore_eos=given.ignore_eos,
        adjustments=tuple(adjustments),
        differences=tuple(differences),
    )
