"""Registers the operators torch.ops.fairdraw.* with torch when this file is imported.

The operators are the operations of the same names, and `draw`, which covers all functions of
flashinfer.sampling that draw from rows of `input` "probs" or "logits". With
fairdraw/torch_compile.py, torch.compile uses the operators for calls of those functions. Calls of
torch.ops.fairdraw, also in torch.export, need only this file.

An operator changes none of its arguments and keeps no state. `seed` and `offset` are tensors of
int64 with one value per output, or with one value for the call.

Parameters are tensors. A tensor of one value in host memory counts as a number: if the number is
out of range, the running operator refuses the tensor by name. None means the operation's default.

A result that an operation omits (`all` of Logprobs) is a tensor without rows.

Tested with torch 2.13.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

# The two modules are imported so that their operations enter the table.
from . import sampling as _sampling  # noqa: F401
from . import speculative as _speculative  # noqa: F401
from ._operations import TABLE, Operation, Operator, Results, shape_of


def _empty(rows: Any, result: tuple[str, ...], row: Operation, given: Mapping[str, Any]) -> Any:
    """Makes an empty result of the right shape and dtype, on the rows' device."""
    dtype, *axes = result
    indices = given.get("indices")
    wide = indices is not None and indices.dtype == torch.int64
    dtypes = {
        "ids": torch.int64 if wide else torch.int32,
        "words": torch.int32,
        "like": rows.dtype,
    }
    found = dtypes.get(dtype) or getattr(torch, dtype)
    return rows.new_empty(shape_of(axes, row.sizes(**given)), dtype=found)


def _parts(found: Any, results: Results) -> Iterator[tuple[str, Any]]:
    """Yields the results of a function of the operation table, by the names of an operator's
    results.
    """
    if not isinstance(found, tuple):
        found = (found,)
    names = getattr(found, "_fields", None)
    if names is not None:
        yield from (
            (name, part) for name, part in zip(names, found, strict=True) if name in results
        )
        return
    left = iter(results)
    for part in found:
        if isinstance(part, tuple):
            yield from _parts(part, results)
        else:
            yield next(left), part


def register(row: Operation, operator: Operator) -> None:
    """Makes the operator and its fake kernel, which makes results without values from arguments
    without values."""
    operands = row.operands(operator)
    defaults = {each.name: each.default for each in operands}

    def given(arguments: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        """Returns the arguments in the operator's order. torch has already checked that all
        required arguments are present."""
        return {**defaults, **dict(zip(defaults, arguments, strict=False)), **named}

    def results(found: Mapping[str, Any]) -> Any:
        parts = tuple(found[name] for name in operator.results)
        return parts if len(parts) > 1 else parts[0]

    def fake(*arguments: Any, **named: Any) -> Any:
        values = given(arguments, named)
        rows = values[operands[0].name]
        return results(
            {name: _empty(rows, what, row, values) for name, what in operator.results.items()}
        )

    def kernel(*arguments: Any, **named: Any) -> Any:
        values = given(arguments, named)
        # An argument of None stands for the function's default value. The filters of a draft are
        # applied to the draft's logits.
        each = {name: value for name, value in values.items() if value is not None}
        for group, kind in row.groups.items():
            fields = {
                operand.field: each.pop(operand.name)
                for operand in operands
                if operand.group == group and operand.name in each
            }
            if each.get("draft_logits") is not None:
                each[group] = kind(**fields)
        found = dict(_parts(row.public(**each, **operator.given), operator.results))
        rows = values[operands[0].name]
        return results(
            {
                name: _empty(rows, what, row, values) if found[name] is None else found[name]
                for name, what in operator.results.items()
            }
        )

    schema = row.schema(operator)
    made = torch.library.custom_op(
        f"fairdraw::{operator.name}", kernel, mutates_args=(), schema=schema
    )
    made.register_fake(fake)


for _row in TABLE.values():
    for _each in _row.operators:
        register(_row, _each)
