"""Log-probabilities as engines report them: of drawn tokens, of given ones, and of a row's largest."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from . import _core
from ._arguments import _FILTER_ORDERS, _TIE_RULES, FilterOrder, TieRule, _member
from ._arrays import Backend, backend_of, length, width

LogprobsMode = Literal["raw_logits", "raw_logprobs", "processed_logits", "processed_logprobs"]
RankRule = Literal["position", "at_least"]

#: Most log-probabilities besides the token's own, except in whole rows (fairdraw/log_probabilities.h).
MOST_LOGPROBS = 128


class Logprobs(NamedTuple):
    """Log-probabilities as engines report them; fairdraw/log_probabilities.h defines each value."""

    values: Any  #: [outputs, num_samples] float32, of the tokens; -inf where there is none
    ranks: Any  #: [outputs, num_samples] int32, from 1 on; 0 where the value is -inf
    top_ids: Any  #: [outputs, n] int32, value descending, then id; -1: fewer tokens have a value
    top_values: Any  #: [outputs, n] float32
    all: Any  #: [rows, vocab] float32 where n is -1, else None


def _reports(
    backend: Backend,
    logits: Any,
    outputs: int,
    shape: tuple[int, ...],
    n: int,
    mode: str,
    rank_rule: str,
) -> tuple[Logprobs, tuple[Any, ...]]:
    """The arrays of the results, and what the compiled module takes."""
    if not -1 <= n <= MOST_LOGPROBS:
        raise ValueError(f"logprobs is {n}; allowed: 0 to {MOST_LOGPROBS}, or -1 (whole rows)")
    reported = _member("logprobs_mode", mode, _core.LogprobsMode.__members__)
    rule = _member("rank_rule", rank_rule, _core.RankRule.__members__)
    top_n = max(n, 0)
    result = Logprobs(
        backend.empty(shape, "float32"),
        backend.empty(shape, "int32"),
        backend.empty((outputs, top_n), "int32"),
        backend.empty((outputs, top_n), "float32"),
        backend.empty(tuple(logits.shape), "float32") if n == -1 else None,
    )
    if result.all is not None:
        result.all[...] = -float("inf")  # of inactive rows, too
    return result, (reported, rule, top_n, *(backend.lend(array) for array in result))


def log_probabilities(
    logits: Any,
    token_ids: Any,
    logprobs: int = 0,
    logprobs_mode: LogprobsMode = "raw_logprobs",
    rank_rule: RankRule = "position",
    indices: Any = None,
    *,
    temperature: Any = 1.0,
    top_k: Any = 0,
    top_p: Any = 1.0,
    min_p: Any = 0.0,
    allowed: Any = None,
    active: Any = None,
    tie_rule: TieRule = "keep_all",
    filter_apply_order: FilterOrder = "top_k_first",
) -> Logprobs:
    """Logprobs of given tokens, [outputs] or [outputs, m] of them; nothing is drawn.

    Output i is of row indices[i]. What follows `indices` matters to the processed modes alone.
    Outputs with an id outside the vocabulary, and rows that cannot be sampled, get -inf, -1 and 0.
    """
    backend = backend_of(logits, "logits")
    order = _member("filter_apply_order", filter_apply_order, _FILTER_ORDERS)
    ties = _member("tie_rule", tie_rule, _TIE_RULES)
    outputs = length(logits) if indices is None else length(indices)
    shape = tuple(token_ids.shape)
    if len(shape) not in (1, 2) or shape[0] != outputs:
        raise ValueError(
            f"token_ids has shape {list(shape)}; [{outputs}] or [{outputs}, m] is needed"
        )
    report, reports = _reports(backend, logits, outputs, shape, logprobs, logprobs_mode, rank_rule)
    if str(token_ids.dtype).endswith("int64"):  # what int32 cannot hold is no token either
        token_ids = backend.cast(token_ids.clip(-1, 2**31 - 1), "int32")
    backend.call(
        _core.sample,
        backend.lend(logits),
        backend.parameter(temperature, "float32"),
        backend.parameter(top_k, "int32"),
        backend.parameter(top_p, "float32"),
        backend.parameter(min_p, "float32"),
        0,
        0,
        backend.indices(indices),
        shape[1] if len(shape) == 2 else 1,
        ties,
        order,
        _core.Purpose.draw,
        backend.lend(allowed),
        backend.lend(active),
        *(None,) * 7,
        reports,
        backend.lend(token_ids),
        backend.stream,
        backend.workspace(length(logits), width(logits)),
    )
    return report
