"""Supports torch.compile for functions that call fairdraw, without graph breaks (fullgraph=True).

>>> import fairdraw.torch_compile
>>> @torch.compile(fullgraph=True)
... def step(logits, seed, offset):
...     return fairdraw.sample(logits, 0.7, top_p=0.9, seed=seed, offset=offset)

After this import, torch.compile uses the operators of fairdraw/torch_operators.py. A compiled
function uses them where it calls `sample`, `log_probabilities`, `accept_chain` or an operation of
flashinfer.sampling by its name in fairdraw. Calls in functions that are not compiled do not change.
Tested with torch 2.13.

A compiled function needs a seed for each call, because otherwise every run of the graph would draw
the same numbers.

Numbers become tensors of one value in host memory, and torch makes no CUDA graph
(mode="reduce-overhead") of a function with such tensors. Pass tensors on the GPU instead.

The following have no operator, and compiled calls of them are refused by name: `generator`;
`processing` of sample and similar functions, because the host builds the histories; a `tie_rule` or
`filter_apply_order` per row; `return_details` and `logprobs` in one call of sample; accept_tree.

Raises:
    ValueError: A compiled call has no seed, or uses what has no operator, which the message names.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

# Importing registers the operators that this module uses.
from . import torch_operators as torch_operators
from ._operations import TABLE, Operation
from .logprobs import Logprobs
from .sampling import SampleDetails
from .speculative import LawFilters, VerifiedChains

#: Maps an operator to its arguments. Each argument has its name, its kind, its group, and its field
#: in the group.
_OPERANDS: dict[str, tuple[tuple[str, str, str, str], ...]] = {}


def _refuse(name: str, instead: str) -> None:
    raise ValueError(f"{name}: has no operator in a compiled function; {instead}")


def _expect_unprocessed(given: dict[str, Any]) -> None:
    if given["processing"] is not None:
        _refuse("processing", "process the logits in front of it")


def _tensor(value: Any, kind: str) -> Any:
    """Returns an argument in the form that an operator takes: a number becomes a tensor of one
    value."""
    if value is None or isinstance(value, Tensor):
        return value
    if kind == "Float":
        return torch.full((1,), value, dtype=torch.float32)
    if kind == "Int":
        return torch.full((1,), value, dtype=torch.int64)
    if kind == "Bits":  # 64-bit words, which torch stores as int64
        return torch.full((1,), value - 2**64 if value >= 2**63 else value, dtype=torch.int64)
    return value


def _called(operator: str, given: dict[str, Any]) -> Any:
    """Returns the results of an operator, which is called with the function's arguments by name."""
    if "seed" in given:
        if given["generator"] is not None:
            _refuse("generator", "give a seed")
        if given["seed"] is None:
            raise ValueError(
                "seed: is needed in a compiled function, or each of its runs would draw the same "
                "numbers; give a tensor of seeds and change it between runs"
            )
        if given["offset"] is None:
            given["offset"] = 0
    operands = {}
    for name, kind, group, field in _OPERANDS[operator]:
        value = getattr(given[group], field) if group else given[name]
        if kind in ("TieRules", "FilterOrders") and not isinstance(value, str):
            _refuse(name, "give one name for the call")
        operands[name] = _tensor(value, kind)
    return getattr(torch.ops.fairdraw, operator)(**operands)


def _logprobs(n: int, values: Any, ranks: Any, ids: Any, top: Any, every: Any) -> Logprobs:
    return Logprobs(values, ranks, ids, top, every if n == -1 else None)


def _sample(given: dict[str, Any]) -> Any:
    _expect_unprocessed(given)
    logprobs, out = given["logprobs"], given["out"]
    if given["return_details"]:
        if logprobs is not None:
            _refuse("logprobs with return_details", "ask for them in two calls with equal seeds")
        details = [*_called("sample_details", given), None, given["seed"]]
        if out is not None:
            details[0] = out.copy_(details[0])
        return SampleDetails(*details)
    report = None
    if logprobs is None:
        tokens, valid = _called("sample", given)
    else:
        tokens, valid, *found = _called("sample_logprobs", given)
        report = _logprobs(logprobs, *found)
    if out is not None:
        tokens = out.copy_(tokens)
    results = [tokens]
    if given["return_valid"]:
        results.append(valid)
    if report is not None:
        results.append(report)
    return tuple(results) if len(results) > 1 else tokens


def _log_probabilities(given: dict[str, Any]) -> Any:
    _expect_unprocessed(given)
    return _logprobs(given["logprobs"], *_called("log_probabilities", given))


def _draw(given: dict[str, Any]) -> Any:
    tokens, valid = _called("draw", given)
    return (tokens, valid) if given["return_valid"] else tokens


def _chain_speculative_sampling(given: dict[str, Any]) -> Any:
    tokens, accepted, emitted = _called("chain_speculative_sampling", given)
    if given["maybe_output_accepted_token_num"] is not None:
        accepted = given["maybe_output_accepted_token_num"].add_(accepted)
    if given["maybe_output_emitted_draft_token_num"] is not None:
        emitted = given["maybe_output_emitted_draft_token_num"].add_(emitted)
    return tokens, accepted, emitted


def _accept_chain(given: dict[str, Any]) -> Any:
    _expect_unprocessed(given)
    if given["draft_filters"] is None:
        given["draft_filters"] = LawFilters()
    elif given["draft_logits"] is None:
        raise ValueError("draft_filters: are given without draft_logits")
    return VerifiedChains(*_called("verify_chain", given))


#: Functions that convert the results of operators to an operation's results, where the two differ.
_RESULTS = {
    each.__name__: each
    for each in (_sample, _log_probabilities, _draw, _chain_speculative_sampling, _accept_chain)
}


def substitute(row: Operation) -> Any:
    """Returns the function that a compiled function calls instead; both have the same signature."""
    for operator in row.operators:
        _OPERANDS[operator.name] = tuple(
            (each.name, each.kind, each.group, each.field) for each in row.operands(operator)
        )
    own = f"_{row.name.removeprefix('_')}"
    call = f"{own}({{}})" if own in _RESULTS else f"_called({row.name!r}, {{}})"
    made: dict[str, Any] = {}
    exec(compile(row.substitute(call), __file__, "exec"), globals(), made)
    return made[row.name]


for _row in TABLE.values():
    if _row.operators:
        torch.compiler.substitute_in_graph(_row.public)(substitute(_row))
