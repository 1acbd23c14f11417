"""torch.compile of functions that call fairdraw: without a break of the graph (fullgraph=True).

>>> import fairdraw.torch_compile
>>> @torch.compile(fullgraph=True)
... def step(logits, seed, offset):
...     return fairdraw.sample(logits, 0.7, top_p=0.9, seed=seed, offset=offset)

Importing this has torch.compile take the operators of fairdraw/torch_operators.py where a compiled
function calls `sample`, `log_probabilities`, `verify_chain` or an operation of flashinfer.sampling
by its name in fairdraw. Calls that are not compiled are as they were. Tested with torch 2.13.

- A seed is needed: without one every run of the graph would draw the same numbers.
- Numbers become tensors of one value in host memory, and torch makes no CUDA graph
  (mode="reduce-overhead") of a function that has such tensors: give tensors on the GPU there.
- These have no operator, and a compiled call of them is refused by name: `generator`; `processing`
  of sample and its like, whose histories the host puts together; `return_details` and `logprobs` in one
  call of sample. verify_tree has none either.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from . import torch_operators as torch_operators  # registers what is called here
from ._operations import TABLE, Operation
from .logprobs import Logprobs
from .sampling import SampleDetails
from .speculative import LawFilters, VerifiedChains

#: By operator, the name of each of its arguments, its kind, the group that it is of, and its field.
_OPERANDS: dict[str, tuple[tuple[str, str, str, str], ...]] = {}


def _refuse(name: str, instead: str) -> None:
    raise ValueError(f"{name}: has no operator in a compiled function; {instead}")


def _expect_unprocessed(given: dict[str, Any]) -> None:
    if given["processing"] is not None:
        _refuse("processing", "process the logits in front of it")


def _tensor(value: Any, kind: str) -> Any:
    """An argument as an operator takes it: a number as a tensor of one value."""
    if value is None or isinstance(value, Tensor):
        return value
    if kind == "Float":
        return torch.full((1,), value, dtype=torch.float32)
    if kind == "Int":
        return torch.full((1,), value, dtype=torch.int64)
    if kind == "Bits":  # 64 of them, as the int64 that torch has
        return torch.full((1,), value - 2**64 if value >= 2**63 else value, dtype=torch.int64)
    return value


def _called(operator: str, given: dict[str, Any]) -> Any:
    """The operator's results, for the arguments of the function by name."""
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


def _verify_chain(given: dict[str, Any]) -> Any:
    _expect_unprocessed(given)
    if given["draft_filters"] is None:
        given["draft_filters"] = LawFilters()
    elif given["draft_logits"] is None:
        raise ValueError("draft_filters: are given without draft_logits")
    return VerifiedChains(*_called("verify_chain", given))


#: What makes an operation's results of those of its operators, where these are not the same.
_RESULTS = {
    each.__name__: each
    for each in (_sample, _log_probabilities, _draw, _chain_speculative_sampling, _verify_chain)
}


def substitute(row: Operation) -> Any:
    """Returns what a compiled function calls instead of an operation: a function of the same signature."""
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
