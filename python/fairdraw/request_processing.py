"""Processes a request's logits before temperature and filters (fairdraw/logits_processing.h defines
the order and the arithmetic)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np

from ._arrays import Backend
from ._device_arrays import small_arrays
from ._host_arrays import TokenLists, array, ids_of, joined

#: The steps of filter chains, in the order of their numbers (FilterStep in logits_processing.h).
FilterStep = Literal[
    "top_n_sigma",
    "typical_p",
    "epsilon_cutoff",
    "eta_cutoff",
    "p_less",
    "top_h",
    "xtc",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "adaptive_p",
]
_FILTER_STEPS: tuple[str, ...] = get_args(FilterStep)
_BITS_OF_STEP = 4
_MOST_STEPS = 16


@dataclass(frozen=True)
class RequestProcessing:
    """The logits processing of a request. The default values of all fields are neutral.

    `repetition_penalty` in [2^-64, 2^64] applies to the tokens in prompt or output (with
    `repetition_of_prompt` False only in the output). `frequency_penalty` and `presence_penalty` in
    [-2^64, 2^64] apply to the tokens in the output. `bias` maps a token to the number that is added
    to the token's logit; -inf bans the token. `stop_ids` are banned until the output has
    `min_tokens` tokens. `bad_words` are sequences of ids, and the last id of a sequence is banned
    after the ids before it. If `allowed_ids` is empty, all ids are allowed. `prompt` and `output`
    are ids, with -1 for a position whose token is unknown. `top_n_sigma` is at least 0, or -1, as
    in `sample`; -1, 0 and inf are off.

    The filters by probability are in [0, 1], and off at 1, 0, 0, 0, 1 and 0. They come last, before the
    temperature, in this order; each sees the tokens that are left, with probabilities p at
    temperature 1 and the entropy H. `typical_p` keeps the tokens that are nearest to H in -ln p,
    until their mass reaches typical_p, and ties. `epsilon_cutoff` keeps p >= epsilon_cutoff.
    `eta_cutoff` keeps p >= min(eta, sqrt(eta) exp(-H)). `p_less` 1 keeps p >= sum p^2.
    `top_h` drops a token if the tokens with at least its logit, alone, have more than top_h H of
    entropy. These four never ban the largest logit. With a chance of `xtc_probability` in each step,
    by a coin of `xtc_seed` (which requests should not share) and the output's length, the tokens
    above the least probable one of at least `xtc_threshold` are banned.

    The steps of a `filter_chain`, at most 16, take the place of `top_n_sigma` and of these filters.
    They are applied one after the other, and a filter that it does not name has no effect. After its
    step "temperature", the others see the distribution at `chain_temperature`. Its "top_k" keeps the
    logits of at least the `chain_top_k`-th largest that is left, its "top_p" a token if the mass of
    larger logits is below `chain_top_p`, and its "min_p" p of at least `chain_min_p` times the
    largest. Its "adaptive_p", which only may be the last step, gives a token the logit 5 - 10 d^2 / (1 +
    d), where d is |p - `adaptive_target`| / 0.3; the target is at most 1, and below 0 the step is off.
    The parameters of the draw come after the chain, and so does its temperature.

    With a `dynatemp_range` r above 0, the draw's temperature T, unless it is 0, becomes l + (T + r - l)
    h^e, where l is T - r, at least 0, e is `dynatemp_exponent`, and h the entropy of the tokens that
    are left, at temperature 1, as a share of that of as many equal tokens.

    Penalties see only the last `penalty_window` tokens of prompt and output together; -1 is all
    tokens. With `counts_of_prompt` 1, frequency and presence penalty count the prompt's tokens, too.
    With `no_repeat_ngram_size` n of at least 1, no id is drawn that would repeat n ids of prompt and
    output, in their order. 0 is off for both. With `dry_multiplier` m above 0, an id that would
    repeat n >= a last ids of prompt and output loses m * dry_base^(n - a), where a is
    `dry_allowed_length`; the last `dry_window` ids count (-1: all), after the last of `dry_breakers`,
    which lose nothing. When `forced_delay` ids have followed the last `forced_after` (-1: the
    beginning of the output), the entries of `forced_tokens` are the next ids, unless the last of them
    came before. These rules need `repetition_of_prompt`.

    With a `top_p_decay` below 1, the request's top_p is multiplied by it after each id of the output,
    but is at least `top_p_min` then. After `top_p_reset_id` (-1: none) it is the request's own again.

    A value out of its range makes the request fail.
    """

    repetition_penalty: float = 1.0
    repetition_of_prompt: bool = True
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    bias: Mapping[int, float] = field(default_factory=dict)
    min_tokens: int = 0
    stop_ids: Sequence[int] = ()
    bad_words: Sequence[Sequence[int]] = ()
    allowed_ids: Sequence[int] = ()
    prompt: Sequence[int] = ()
    output: Sequence[int] = ()
    top_n_sigma: float = 0.0
    typical_p: float = 1.0
    epsilon_cutoff: float = 0.0
    eta_cutoff: float = 0.0
    p_less: int = 0
    top_h: float = 1.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    xtc_seed: int | None = None
    filter_chain: Sequence[FilterStep] = ()
    chain_temperature: float = 1.0
    chain_top_k: int = 0
    chain_top_p: float = 1.0
    chain_min_p: float = 0.0
    dynatemp_range: float = 0.0
    dynatemp_exponent: float = 1.0
    adaptive_target: float = -1.0
    penalty_window: int = -1
    counts_of_prompt: int = 0
    no_repeat_ngram_size: int = 0
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_window: int = -1
    dry_breakers: Sequence[int] = ()
    forced_after: int = -1
    forced_delay: int = 0
    forced_tokens: Sequence[int] = ()
    top_p_decay: float = 1.0
    top_p_min: float = 1e-6
    top_p_reset_id: int = -1

    @classmethod
    def _of(cls, fields: dict[str, Any]) -> RequestProcessing:
        return cls(**values_of_request(fields))


#: The filters by probability in the order of their steps, and the rules of histories, with the
#: dtypes of their values.
FILTERS_AND_RULES = {
    "typical_p": "float32",
    "epsilon_cutoff": "float32",
    "eta_cutoff": "float32",
    "p_less": "int32",
    "top_h": "float32",
    "xtc_probability": "float32",
    "xtc_threshold": "float32",
    "xtc_seed": "uint64",
    "filter_chain": "uint64",
    "chain_temperature": "float32",
    "chain_top_k": "int32",
    "chain_top_p": "float32",
    "chain_min_p": "float32",
    "dynatemp_range": "float32",
    "dynatemp_exponent": "float32",
    "adaptive_target": "float32",
    "penalty_window": "int32",
    "counts_of_prompt": "int32",
    "no_repeat_ngram_size": "int32",
    "dry_multiplier": "float32",
    "dry_base": "float32",
    "dry_allowed_length": "int32",
    "dry_window": "int32",
    "forced_after": "int32",
    "forced_delay": "int32",
    "top_p_decay": "float32",
    "top_p_min": "float32",
    "top_p_reset_id": "int32",
}
#: The rules of histories that read the prompt; others have no effect without them.
_RULES_OF_PROMPTS = (
    "penalty_window",
    "counts_of_prompt",
    "no_repeat_ngram_size",
    "dry_multiplier",
    "forced_after",
)


def _ids(name: str, values: Any) -> Any:
    return array(name, values, "int32", axes=(1,))


def packed_filter_chain(name: str, steps: Sequence[str]) -> int:
    """Returns a chain as the compiled module has it, 4 bits for each step."""
    if len(steps) > _MOST_STEPS:
        raise ValueError(f"{name} has {len(steps)} steps; allowed: at most {_MOST_STEPS}")
    packed = 0
    for place, step in enumerate(steps):
        if step not in _FILTER_STEPS:
            allowed = ", ".join(map(repr, _FILTER_STEPS))
            raise ValueError(f"{name}[{place}] is {step!r}; allowed: {allowed}")
        if step == "adaptive_p" and place + 1 < len(steps):
            raise ValueError(f"{name}[{place}] is {step!r}; allowed: only as the last step")
        packed |= (1 + _FILTER_STEPS.index(step)) << (_BITS_OF_STEP * place)
    return packed


def unpacked_filter_chain(packed: int) -> tuple[str, ...]:
    """Returns the steps of a chain that the compiled module has checked."""
    steps = []
    while packed:
        steps.append(_FILTER_STEPS[packed % 2**_BITS_OF_STEP - 1])
        packed >>= _BITS_OF_STEP
    return tuple(steps)


def values_of_request(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of a request from its fields as the compiled module has them."""
    values = dict(fields)
    if values["xtc_probability"] == 0 and values["xtc_seed"] == 0:
        values["xtc_seed"] = None
    values["filter_chain"] = unpacked_filter_chain(values["filter_chain"])
    for name in ("stop_ids", "allowed_ids", "prompt", "output", "forced_tokens", "dry_breakers"):
        if name in values:
            values[name] = tuple(values[name])
    values["bad_words"] = tuple(tuple(word) for word in values["bad_words"])
    values["bias"] = dict(values["bias"])
    return values


def _xtc_seeds(requests: Sequence[RequestProcessing]) -> Any:
    """Returns the seed of each request, or None if no request has xtc."""
    seeds = np.zeros(len(requests), np.uint64)
    for i, request in enumerate(requests):
        seed = request.xtc_seed
        if seed is None and request.xtc_probability != 0:
            raise ValueError(
                f"processing[{i}].xtc_seed is None; allowed: a seed where xtc_probability is not 0"
            )
        if seed is not None and not 0 <= seed < 2**64:
            raise ValueError(f"processing[{i}].xtc_seed is {seed}; allowed: 0 to {2**64 - 1}")
        seeds[i] = seed or 0
    return seeds if any(request.xtc_probability != 0 for request in requests) else None


def processing_of_rows(
    backend: Backend, processing: Sequence[RequestProcessing] | None, rows: int, top_n_sigma: Any
) -> Any:
    """Returns processing for the compiled module, on the rows' device. Entry i applies to row i.
    `top_n_sigma` is the call's own argument, which must be off if there are entries."""
    if processing is None:
        return None
    if len(processing) != rows:
        raise ValueError(
            f"processing has {len(processing)} entries; {rows} are needed, one per row"
        )
    if not (isinstance(top_n_sigma, int | float) and top_n_sigma in (-1, 0, math.inf)):
        raise ValueError(
            "top_n_sigma: is given together with processing; allowed: in the entries of processing"
        )
    made = rows_processing(processing, [(row, ()) for row in range(rows)])
    return small_arrays(backend).uploaded("processing", made)


def rows_processing(
    requests: Sequence[RequestProcessing], rows: Sequence[tuple[int, Any]]
) -> tuple[Any, ...]:
    """Returns processing for the compiled module. Each row belongs to request rows[i][0], where
    len(requests) means no request, and the row's history has the ids rows[i][1] after that
    request's output."""
    requests = [*requests, RequestProcessing()]
    owners = np.array([owner for owner, _ in rows], np.int64)

    def numbers(name: str, dtype: str) -> Any:
        return array(name, [getattr(request, name) for request in requests], dtype)[owners]

    def filter_values(name: str, dtype: str) -> Any:
        if name == "xtc_seed":
            seeds = _xtc_seeds(requests)
            return None if seeds is None else seeds[owners]
        if name == "filter_chain":
            chains = [
                packed_filter_chain(f"processing[{i}].filter_chain", request.filter_chain)
                for i, request in enumerate(requests)
            ]
            return array(name, chains, dtype)[owners] if any(chains) else None
        off = getattr(RequestProcessing, name)
        users = [i for i, request in enumerate(requests) if getattr(request, name) != off]
        for i in users:
            if name in _RULES_OF_PROMPTS and not requests[i].repetition_of_prompt:
                raise ValueError(
                    f"processing[{i}].repetition_of_prompt is False; allowed: True, or {off} for "
                    f"{name}, which reads the prompt"
                )
        return numbers(name, dtype) if users else None

    def lists(name: str, values: Sequence[Any]) -> TokenLists:
        ids, begins, lengths = joined(
            [_ids(f"processing[{i}].{name}", value) for i, value in enumerate(values)]
        )
        return ids, begins[owners], lengths[owners]

    def given_lists(name: str) -> TokenLists | None:
        values = [getattr(request, name) for request in requests]
        return lists(name, values) if any(len(ids) > 0 for ids in values) else None

    outputs = [_ids(f"processing[{i}].output", r.output) for i, r in enumerate(requests)]
    bias_values = [value for request in requests for value in request.bias.values()]
    words = [
        [_ids(f"processing[{i}].bad_words[{j}]", word) for j, word in enumerate(r.bad_words)]
        for i, r in enumerate(requests)
    ]
    return (
        numbers("repetition_penalty", "float32"),
        numbers("frequency_penalty", "float32"),
        numbers("presence_penalty", "float32"),
        lists("prompt", [r.prompt if r.repetition_of_prompt else () for r in requests]),
        joined([np.concatenate([outputs[owner], drafted]) for owner, drafted in rows]),
        lists("bias", [ids_of("bias", request.bias) for request in requests]),
        array("bias", bias_values, "float32"),
        numbers("min_tokens", "int32"),
        lists("stop_ids", [request.stop_ids for request in requests]),
        lists("bad_words", [np.concatenate([np.empty(0, np.int32), *each]) for each in words]),
        lists("bad_words", [[len(word) for word in each] for each in words]),
        lists("allowed_ids", [request.allowed_ids for request in requests]),
        given_lists("forced_tokens"),
        given_lists("dry_breakers"),
        # The array is None if no request has the filter, because a split vocabulary refuses such an
        # array.
        filter_values("top_n_sigma", "float32"),
        *(filter_values(name, dtype) for name, dtype in FILTERS_AND_RULES.items()),
    )
