"""Adapts llama.cpp's whole chain of samplers via llama-cpp-python: penalties, logit bias, DRY, and
top_n_sigma, typ_p, xtc, top_k, top_p, min_p and temperatures in the order of each request, and
adaptive_p at its end.

The cases of check processing judge the chain by profile `llamacpp`. A request's processing is
translated to calls of llama_sampler_init_*. `library` makes llama.cpp's samplers of these calls, and
llamacpp_described.py applies them as it describes them. Repetition, frequency and presence
penalties are samplers of their own, so that each step rounds as the definition says. A temperature
in the middle of a chain is taken back at its end, because the parameters of the draw come after it.

Candidates whose logit is -inf after biases and bans leave the candidates before the filters. typ_p
is judged alone, because its entropy is NaN in every row with a probability of 0 (README.md).
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np

from fairdraw import Batch, RequestProcessing
from fairdraw.verification import ProcessingStep

from ._engine import TENSOR_ABILITIES, Engine, Sampler, report_kept
from ._packages import package, version_of
from .llamacpp import CANDIDATE, Chain, float32_rows

Array = np.ndarray[Any, Any]

#: Globs of the cases that judge processing.
CASES = ("processing/*",)
#: Steps of processing for which llama.cpp has no sampler; its caller bans tokens by logit bias.
LACKS: tuple[ProcessingStep, ...] = (
    "min_tokens",
    "bad_words",
    "allowed_ids",
    "epsilon_cutoff",
    "eta_cutoff",
    "p_less",
    "top_h",
    "no_repeat_ngram_size",
    "dry_breakers",  # texts, which need a model's vocabulary
    "forced_tokens",
    "top_p_decay",
)
#: Steps of a filter chain, and where a request has no chain, in fairdraw's order.
NO_CHAIN = ("top_n_sigma", "typical_p", "xtc")


@dataclass(frozen=True)
class Call:
    """A sampler of llama.cpp: llama_sampler_init_`name` with `arguments`, and the tokens that it
    accepts before it is applied."""

    name: str
    arguments: tuple[Any, ...]
    accepts: tuple[int, ...] = ()


def _penalties(processing: RequestProcessing) -> Iterator[Call]:
    history = (*processing.prompt, *processing.output)
    counted = history if processing.counts_of_prompt else tuple(processing.output)
    window = processing.penalty_window
    repeat = processing.repetition_penalty
    frequency, presence = processing.frequency_penalty, processing.presence_penalty
    for ids, penalties in (
        (history, (repeat, 0.0, 0.0)),
        (counted, (1.0, frequency, 0.0)),
        (counted, (1.0, 0.0, presence)),
    ):
        last = len(ids) if window < 0 else window
        if last > 0 and ids and penalties != (1.0, 0.0, 0.0):
            yield Call("penalties", (last, *penalties), ids)


def calls_before_filters(processing: RequestProcessing) -> list[Call]:
    """Returns the samplers that change logits."""
    calls = list(_penalties(processing))
    if processing.bias:
        calls.append(Call("logit_bias", tuple(processing.bias.items())))
    history = (*processing.prompt, *processing.output)
    last = len(history) if processing.dry_window < 0 else processing.dry_window
    if processing.dry_multiplier > 0 and last > 0:
        # A position whose token is unknown equals no other one.
        ids = tuple(id if id >= 0 else -1 - place for place, id in enumerate(history))
        dry = (processing.dry_multiplier, processing.dry_base, processing.dry_allowed_length, last)
        calls.append(Call("dry", dry, ids))
    return calls


def calls_of_filters(processing: RequestProcessing) -> list[Call]:
    """Returns the filters, and temperatures among them, that come before the parameters of the
    draw."""
    calls = []
    temperature = 1.0
    replaces = False  # whether the last step gives logits that no temperature divides
    sigmas = processing.top_n_sigma
    for step in processing.filter_chain or NO_CHAIN:
        if step == "top_n_sigma" and 0 < sigmas < math.inf:
            calls.append(Call("top_n_sigma", (sigmas,)))
        elif step == "typical_p" and processing.typical_p < 1:
            calls.append(Call("typical", (processing.typical_p, 1)))
        elif step == "xtc" and processing.xtc_probability > 0:
            calls.append(Call("xtc", (processing.xtc_probability, processing.xtc_threshold, 1, 1)))
        elif step == "temperature" and processing.chain_temperature != 1 and temperature == 1:
            temperature = processing.chain_temperature
            calls.append(Call("temp", (temperature,)))
        elif step == "top_k" and processing.chain_top_k > 0:
            calls.append(Call("top_k", (processing.chain_top_k,)))
        elif step == "top_p" and processing.chain_top_p < 1:
            calls.append(Call("top_p", (processing.chain_top_p, 1)))
        elif step == "min_p" and processing.chain_min_p > 0:
            calls.append(Call("min_p", (processing.chain_min_p, 1)))
        elif step == "adaptive_p" and processing.adaptive_target >= 0:
            # Without a decay, the target of the first draw is the given one.
            calls.append(Call("adaptive_p", (processing.adaptive_target, 0.0, 1)))
            replaces = True
    if temperature != 1 and not replaces:
        calls.append(Call("temp", (1 / temperature,)))
    return calls


def calls_of_draw(
    processing: RequestProcessing, top_k: int, top_p: float, min_p: float
) -> list[Call]:
    """Returns the filters that are parameters of the draw; see `calls_of_filters` for the others."""
    return [
        *calls_of_filters(processing),
        Call("top_k", (top_k,)),
        Call("top_p", (top_p, 1)),
        Call("min_p", (min_p, 1)),
    ]


def temperature_of(processing: RequestProcessing, temperature: float) -> Call:
    if processing.dynatemp_range > 0 and temperature > 0:
        return Call(
            "temp_ext", (temperature, processing.dynatemp_range, processing.dynatemp_exponent)
        )
    return Call("temp", (temperature,))


#: Applies samplers to candidates, an array of CANDIDATE, and returns those that are left.
Apply = Callable[[Sequence[Call], Array], Array]
#: Draws from candidates. Returns them with their probabilities, and the place of the token.
Draw = Callable[[Array], "tuple[Array, int]"]


class Library:
    """llama.cpp's library, which makes samplers of calls and applies them to candidates."""

    def __init__(self) -> None:
        self._library = package("llama_cpp").llama_cpp

    def _sampler_of(self, call: Call, vocab: int) -> Any:
        library = self._library
        arguments: tuple[Any, ...] = call.arguments
        if call.name == "penalties":
            arguments = (vocab, *arguments)
        elif call.name == "logit_bias":
            entries = (library.llama_logit_bias * len(arguments))(*arguments)
            arguments = (vocab, len(arguments), entries)
        elif call.name == "dry":
            arguments = (None, *arguments, None, 0)
        made = getattr(library, f"llama_sampler_init_{call.name}")(*arguments)
        for token in call.accepts:
            library.llama_sampler_accept(made, token)
        return made

    def chain(self, calls: Sequence[Call], vocab: int) -> Chain:
        return Chain(self._library, [self._sampler_of(call, vocab) for call in calls])

    def applied(self, chain: Chain, candidates: Array) -> tuple[Array, int]:
        """Returns the candidates that a chain leaves, and the place of the selected one, or -1."""
        data = candidates.ctypes.data_as(ctypes.POINTER(self._library.llama_token_data))
        array = self._library.llama_token_data_array(
            data=data, size=len(candidates), selected=-1, sorted=False
        )
        chain.apply(array)
        # xtc moves the pointer past the candidates that it drops.
        moved = ctypes.addressof(array.data.contents) - candidates.ctypes.data
        first = moved // CANDIDATE.itemsize
        return candidates[first : first + array.size].copy(), int(array.selected)


def library() -> tuple[Apply, Draw]:
    """Returns functions of llama.cpp's library: one that applies samplers, and one that draws."""
    found = Library()
    dist = found.chain([Call("dist", (1,))], 0)

    def apply(calls: Sequence[Call], candidates: Array) -> Array:
        return found.applied(found.chain(calls, len(candidates)), candidates.copy())[0]

    return apply, lambda candidates: found.applied(dist, candidates)


def stateful(call: Call) -> Draw:
    """Returns a sampler of llama.cpp's library that keeps its state between draws (Mirostat)."""
    found = Library()
    chain = found.chain([call], 0)
    return lambda candidates: found.applied(chain, candidates.copy())


def make(functions: Callable[[], tuple[Apply, Draw]], seed: int) -> Sampler:
    """Makes a sampler of the functions that apply llama.cpp's samplers. Its draws start anew in
    each sampler, whatever `seed` is."""
    apply, draw = functions()

    def answer(row: Array, processing: RequestProcessing, parameters: tuple[Any, ...]) -> Any:
        """Returns the candidates that are left, with their probabilities, and the token; no
        candidate and -1 for a row without an allowed token."""
        temperature, top_k, top_p, min_p = parameters
        candidates = np.zeros(len(row), CANDIDATE)
        candidates["id"] = np.arange(len(row))
        candidates["logit"] = row
        candidates = apply(calls_before_filters(processing), candidates)
        candidates = candidates[candidates["logit"] > -np.inf]
        if len(candidates) == 0:
            return candidates, -1
        left = apply(calls_of_draw(processing, int(top_k), float(top_p), float(min_p)), candidates)
        # A filter may leave what it drops at -inf, and so does a temperature of 0.
        left = left[left["logit"] > -np.inf]
        left = apply([temperature_of(processing, float(temperature))], left)
        if temperature <= 0:
            left = left[left["logit"] > -np.inf]
        left, place = draw(left)
        return left, int(left["id"][place])

    def sample(batch: Batch) -> Any:
        logits = float32_rows(batch)
        processing = batch.processing or [RequestProcessing()] * batch.rows
        columns = (batch.temperature, batch.top_k, batch.top_p, batch.min_p)
        kept = np.zeros((batch.rows, batch.vocab), bool)
        tokens = np.full((batch.rows, 1), -1, np.int64)
        for row in range(batch.rows):
            left, token = answer(logits[row], processing[row], tuple(c[row] for c in columns))
            kept[row, left["id"]] = True
            tokens[row] = token
            if batch.out_probs is not None:
                batch.out_probs[row] = 0
                batch.out_probs[row, left["id"]] = left["p"]
        report_kept(batch, kept)
        return tokens

    return sample


def engine(
    name: str,
    calls: str,
    version: Callable[[], str],
    functions: Callable[[], tuple[Apply, Draw]],
    lacks: Sequence[ProcessingStep] = (*LACKS, "typical_p"),
    **more: Any,
) -> Engine:
    """Returns the engine that applies llama.cpp's samplers by these functions, without the steps
    `lacks`."""
    return Engine(
        name=name,
        semantics="llamacpp",
        calls=calls,
        version=version,
        make=lambda seed: make(functions, seed),
        arrays="numpy",
        abilities=(
            *(a for a in TENSOR_ABILITIES if a not in ("indices", "num_samples")),
            "processing",
            "top_n_sigma",
            "probability_filters",
            "history_rules",
            "reports_probs",
        ),
        lacks=lacks,
        cases=CASES,
        **more,
    )


def _version() -> str:
    return version_of("llama_cpp_python")


ENGINE = engine(
    "llamacpp_chain",
    "llama-cpp-python: llama_sampler_chain of penalties, logit_bias, dry, top_n_sigma, xtc, top_k, "
    "top_p, min_p, temp, temp_ext, adaptive_p, dist",
    _version,
    library,
)

TYPICAL = engine(
    "llamacpp_typical",
    "llama-cpp-python: llama_sampler_chain of logit_bias, typical, top_k, top_p, min_p, temp, dist",
    _version,
    library,
    [step for step in get_args(ProcessingStep) if step not in ("bias", "typical_p")],
    standalone="llamacpp_typical",
    example={
        "what": "keeps other tokens than those nearest to the entropy, if a probability is 0",
        "call": {"logits": [0.7, 0.0, 0.0, 0.0, -1000.0], "p": 0.5},
        "right": "Right filters keep tokens 1, 2 and 3, whose surprise of 1.61 is nearer to the entropy "
        "of 1.33 than that of token 0, 0.91.",
        "expected": {
            "kept": [1, 2, 3],
            "may_be_kept": [1, 2, 3],
            "fewest": 3,
            "most": 3,
            "must_fail": False,
            "counts": [],
        },
    },
)
