"""Defines `BatchState`, the state of a running batch (fairdraw/batch_state.h), over which
FusedSamplingProcessor makes steps.

>>> state = fairdraw.BatchState(vocab=32000, capacity=8, max_length=4096)
>>> state.add(1, fairdraw.BatchRequest(temperature=0.7, top_p=0.9, seed=7, prompt=[1, 529, 29871]))
0

A request's tokens depend on its logits, parameters and seed. The tokens do not depend on the
request's slot, on its neighbours, or on how often the request was evicted and restored. A
ValueError names a value out of its range; the state is then unchanged. A state is not thread-safe,
so that only one thread at a time may use it.

Definition: docs/serving.md for requests in slots; fairdraw/batch_state.h for each call.

Raises:
    TypeError: A value is of a wrong type.
    ValueError: A value is out of its range, no request has the id or one has it already, a slot is
        not free, or there is no room; then the state is unchanged.
    RuntimeError: The memory of the host does not suffice for a new state.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from . import _core
from ._arguments import _FILTER_ORDERS, _TIE_RULES, _member
from ._host_arrays import ids_of
from .request_processing import (
    FILTERS_AND_RULES,
    FilterStep,
    packed_filter_chain,
    values_of_request,
)

_INT32 = np.iinfo(np.int32)


def _integer(name: str, value: int, least: int, most: int) -> int:
    if not least <= value <= most:
        raise ValueError(f"{name} is {value}; allowed: {least} to {most}")
    return int(value)


def _int32(name: str, value: int) -> int:
    return _integer(name, value, int(_INT32.min), int(_INT32.max))


def _uint64(name: str, value: int) -> int:
    return _integer(name, value, 0, 2**64 - 1)


def _float(name: str, value: float) -> float:
    del name  # the batch names a float that is out of its range
    return float(value)


_OF_DTYPE = {"float32": _float, "int32": _int32, "uint64": _uint64}


def _fresh_seed() -> int:
    """Returns 64 random bits from the operating system, so that no two requests without their own
    seed share a seed.
    """
    return secrets.randbits(64)


@dataclass(frozen=True)
class BatchRequest:
    """A request as it enters a running batch. The default values of all fields are neutral.

    `temperature` is 0 (greedy), or 2^-126 to 2^64. `top_k` is at least -1 (0 and -1 are off).
    `top_p` and `min_p` are in [0, 1]. `repetition_penalty` is in [2^-64, 2^64]. `frequency_penalty`
    and `presence_penalty` are in [-2^64, 2^64]. `repetition_of_prompt` says whether the repetition
    penalty counts the prompt's tokens. `bias` maps a token to the number that is added to the
    token's logit; -inf bans the token. `stop_ids` are banned until the output has `min_tokens`
    tokens. `bad_words` are sequences of ids. If `allowed_ids` is empty, all ids are allowed.
    `top_n_sigma` has the same meaning as in `sample`, and the fields from `typical_p` on have
    that of `RequestProcessing`; those from `penalty_window` on need histories as lists. Without an
    `xtc_seed`, the coins are those of `seed`. In `prompt`, -1 stands for a position without text.
    `first_offset` is the number of tokens drawn from `seed` before the request was added. A request
    without a seed gets a fresh seed from the operating system when the request is made; `seed` then
    holds the fresh seed.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    repetition_of_prompt: bool = True
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    seed: int = field(default_factory=_fresh_seed)
    first_offset: int = 0
    min_tokens: int = 0
    stop_ids: Sequence[int] = ()
    bias: Mapping[int, float] = field(default_factory=dict)
    bad_words: Sequence[Sequence[int]] = ()
    allowed_ids: Sequence[int] = ()
    prompt: Sequence[int] = ()
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
    adaptive_target: float = -1.0
    dynatemp_range: float = 0.0
    dynatemp_exponent: float = 1.0
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

    def _fields(self) -> _core.BatchRequest:
        biased = zip(ids_of("bias", self.bias), self.bias.values(), strict=True)
        return _core.BatchRequest(
            dict(
                temperature=float(self.temperature),
                top_k=_int32("top_k", self.top_k),
                top_p=float(self.top_p),
                min_p=float(self.min_p),
                repetition_penalty=float(self.repetition_penalty),
                repetition_of_prompt=bool(self.repetition_of_prompt),
                frequency_penalty=float(self.frequency_penalty),
                presence_penalty=float(self.presence_penalty),
                seed=_uint64("seed", self.seed),
                first_offset=_uint64("first_offset", self.first_offset),
                min_tokens=_int32("min_tokens", self.min_tokens),
                stop_ids=ids_of("stop_ids", self.stop_ids),
                bias=[(token, float(bias)) for token, bias in biased],
                bad_words=[
                    ids_of(f"bad_words[{i}]", word) for i, word in enumerate(self.bad_words)
                ],
                allowed_ids=ids_of("allowed_ids", self.allowed_ids),
                prompt=ids_of("prompt", self.prompt),
                top_n_sigma=float(self.top_n_sigma),
                forced_tokens=ids_of("forced_tokens", self.forced_tokens),
                dry_breakers=ids_of("dry_breakers", self.dry_breakers),
                **{
                    name: _OF_DTYPE[dtype](name, self._filter_or_rule(name))
                    for name, dtype in FILTERS_AND_RULES.items()
                },
            )
        )

    def _filter_or_rule(self, name: str) -> Any:
        if name == "xtc_seed" and self.xtc_seed is None:
            return self.seed if self.xtc_probability != 0 else 0
        if name == "filter_chain":
            return packed_filter_chain(name, self.filter_chain)
        return getattr(self, name)

    @classmethod
    def _of(cls, fields: dict[str, Any]) -> BatchRequest:
        return cls(**values_of_request(fields))


@dataclass(frozen=True)
class RequestSnapshot:
    """All data that a request needs in order to continue in another slot, state or process. A
    snapshot can be pickled.
    """

    id: int
    request: BatchRequest
    output: tuple[int, ...]
    #: Words of the request's bitmask; if there are none, all tokens are allowed.
    allowed: tuple[int, ...]


class BatchState:
    """The requests of a running batch, in `capacity` slots. Slot i belongs to row i of the logits.

    The caller chooses the request ids, from 0 to 2^64 - 1. `max_length` is the maximum number of
    tokens of a request, prompt and output together. `history="dense"` takes no rules of histories,
    and keeps counts of the whole vocabulary per slot, instead of counting the tokens in the
    histories of requests with penalties. Dense counts are faster if histories are about as long as
    the vocabulary. The drawn tokens are the same for both kinds of history. `tie_rule` and
    `filter_apply_order` have the same meaning as in `sample`.
    """

    def __init__(
        self,
        vocab: int,
        capacity: int,
        max_length: int,
        *,
        max_bias: int = 1024,
        max_stop_ids: int = 128,
        max_bad_words: int = 128,
        max_bad_word_tokens: int = 1024,
        max_allowed_ids: int = 1024,
        max_forced_tokens: int = 128,
        max_dry_breakers: int = 128,
        history: Literal["lists", "dense"] = "lists",
        tie_rule: Literal["keep_all", "lowest_id"] = "keep_all",
        filter_apply_order: Literal["top_k_first", "joint"] = "top_k_first",
    ) -> None:
        form = _member("history", history, _core.HistoryForm.__members__)
        ties = _member("tie_rule", tie_rule, _TIE_RULES)
        order = _member("filter_apply_order", filter_apply_order, _FILTER_ORDERS)
        self._core = _core.BatchState(
            dict(
                vocab=_integer("vocab", vocab, 1, 2**20),
                capacity=_int32("capacity", capacity),
                max_length=_int32("max_length", max_length),
                max_bias=_int32("max_bias", max_bias),
                max_stop_ids=_int32("max_stop_ids", max_stop_ids),
                max_bad_words=_int32("max_bad_words", max_bad_words),
                max_bad_word_tokens=_int32("max_bad_word_tokens", max_bad_word_tokens),
                max_allowed_ids=_int32("max_allowed_ids", max_allowed_ids),
                max_forced_tokens=_int32("max_forced_tokens", max_forced_tokens),
                max_dry_breakers=_int32("max_dry_breakers", max_dry_breakers),
                history=form,
                tie_rule=ties,
                filter_apply_order=order,
            )
        )

    def add(self, id: int, request: BatchRequest | None = None, slot: int | None = None) -> int:
        """Adds a request to the lowest free slot, or to `slot`, which must be free. Returns the
        slot."""
        fields = (BatchRequest() if request is None else request)._fields()
        return self._core.add(_uint64("request id", id), fields, self._wanted(slot))

    def remove(self, id: int) -> None:
        self._core.remove(_uint64("request id", id))

    def swap(self, first: int, second: int) -> None:
        """Exchanges the requests of two slots; one of the slots may be empty."""
        self._core.swap(_int32("first", first), _int32("second", second))

    def compact(self) -> list[tuple[int, int]]:
        """Moves the requests in the highest slots into the lowest free slots. Returns the moves as
        pairs (from, to), in the order in which they were made."""
        return self._core.compact()

    def evict(self, id: int) -> RequestSnapshot:
        """Removes a request from the batch, and returns a snapshot with which the request can
        continue."""
        fields, output, allowed = self._core.evict(_uint64("request id", id))
        return RequestSnapshot(id, BatchRequest._of(fields), tuple(output), tuple(allowed))

    def restore(self, snapshot: RequestSnapshot, slot: int | None = None) -> int:
        """Adds a request with the snapshot's id and drawn tokens. Returns the slot."""
        return self._core.restore(
            _uint64("request id", snapshot.id),
            snapshot.request._fields(),
            ids_of("output", snapshot.output),
            list(snapshot.allowed),
            self._wanted(slot),
        )

    def append(self, id: int, tokens: Iterable[int]) -> None:
        """Appends tokens that were drawn elsewhere to a request, and advances the request's
        offset."""
        self._core.append(_uint64("request id", id), ids_of("tokens", tokens))

    def append_step(self, tokens: Iterable[int]) -> None:
        """Appends tokens[slot] to the request of each slot; -1 stands for no token."""
        self._core.append_step(ids_of("tokens", tokens))

    def __len__(self) -> int:
        return self._core.size()

    def __contains__(self, id: int) -> bool:
        return self.slot_of(id) is not None

    @property
    def slots(self) -> int:
        """Number of the highest occupied slot plus one, which is the minimum number of rows of a
        step."""
        return self._core.slots()

    @property
    def capacity(self) -> int:
        return self._core.capacity()

    def slot_of(self, id: int) -> int | None:
        slot = self._core.slot_of(_uint64("request id", id))
        return None if slot < 0 else slot

    def id_at(self, slot: int) -> int | None:
        """Returns the id of the request in a slot, or None if the slot is empty."""
        number = _int32("slot", slot)
        return self._core.id_at(number) if self._core.is_occupied(number) else None

    def prompt(self, id: int) -> list[int]:
        return self._core.prompt(self._known(id))

    def output(self, id: int) -> list[int]:
        """Returns the tokens that a request has drawn, oldest first."""
        return self._core.output(self._known(id))

    def offset(self, id: int) -> int:
        """Returns the offset of the random bits for a request's next token: first_offset plus the
        number of tokens drawn.
        """
        return self._core.offset(self._known(id))

    def _known(self, id: int) -> int:
        slot = self.slot_of(id)
        if slot is None:
            raise ValueError(f"request id is {id}; allowed: the id of a request in the batch")
        return slot

    def _wanted(self, slot: int | None) -> int:
        if slot is None:
            return -1  # any
        return _integer("slot", slot, 0, self.capacity - 1)
