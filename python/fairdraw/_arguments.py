"""Reads the kinds of arguments that several operations share: names, seeds, and axes before the
vocabulary."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

from . import _core
from ._arrays import Backend

FilterOrder = Literal["top_k_first", "joint"]
TieRule = Literal["keep_all", "lowest_id"]
Purpose = Literal["draw", "draft"]
#: A rule for ties or a filter order is one value for the call, or one value per row: a list of
#: names, or an array of the numbers in fairdraw/types.h.
TieRules: TypeAlias = TieRule | Sequence[TieRule] | Any
FilterOrders: TypeAlias = FilterOrder | Sequence[FilterOrder] | Any
RowsHold = Literal["logits", "probs"]

# The members are stored, because the search for a member through an enum takes three times as long.
_TIE_RULES = _core.TieRule.__members__
_FILTER_ORDERS = _core.FilterOrder.__members__

_Member = TypeVar("_Member")


def _member(name: str, value: str, members: Mapping[str, _Member]) -> _Member:
    """Returns the member of one of the enums of `_core` that an argument names."""
    try:
        return members[value]
    except (KeyError, TypeError):  # an unhashable value raises TypeError
        raise unknown_name(name, value, members) from None


#: Maximum number of letters of a value in an error; the rest is cut off.
LONGEST_SHOWN = 200


def unknown_name(name: str, value: Any, allowed: Iterable[str]) -> ValueError:
    """Returns the error for a name that is not allowed; the error lists the closest allowed
    names."""
    import difflib  # difflib is imported only when an error is reported

    names = list(allowed)
    meant = difflib.get_close_matches(value, names, n=1) if isinstance(value, str) else []
    hint = "".join(f" did you mean {each!r}?" for each in meant)
    shown = repr(value)
    if len(shown) > LONGEST_SHOWN:
        shown = f"{shown[:LONGEST_SHOWN]}... ({len(shown)} letters)"
    return ValueError(f"{name} is {shown};{hint} allowed: {', '.join(map(repr, names))}")


def _seed_and_offset(
    backend: Backend, generator: Any, seed: Any, offset: Any, outputs: int
) -> tuple[Any, Any]:
    if seed is None:
        if offset is not None:
            raise ValueError("offset: is given without a seed")
        return backend.fresh_seed(generator), 0
    seed = backend.seed("seed", seed, outputs)
    return seed, 0 if offset is None else backend.seed("offset", offset, outputs)


def _raise_on_nan(name: str, statuses: Any) -> None:
    if bool((statuses == _core.NAN_INPUT).any()):
        raise ValueError(f"{name} contains NaN")


def _leading(name: str, rows: Any, indices: Any = None) -> tuple[int, ...]:
    """Returns the axes of the rows before the vocabulary if there are several such axes, otherwise
    ()."""
    shape = tuple(getattr(rows, "shape", ()))
    if len(shape) < 3:
        return ()
    if hasattr(rows, "stride"):  # only torch tensors have this method; NumPy's strides are in bytes
        steps = rows.stride()
    elif hasattr(rows, "strides"):
        steps = rows.strides
    else:  # the kernels report objects of other types
        return ()
    if indices is not None:
        raise ValueError(f"indices: are given with {len(shape)} axes of {name}; allowed: 2")
    # Strides along axes of length 1, or in empty arrays, have no meaning.
    long = [axis for axis in range(len(shape) - 1) if shape[axis] > 1 and 0 not in shape]
    for outer, inner in zip(long, long[1:], strict=False):
        if steps[outer] != steps[inner] * shape[inner]:
            raise ValueError(
                f"{name}: axes {outer} and {inner} cannot be joined without a copy; allowed: axes "
                "in front of the vocabulary that follow each other in memory"
            )
    return shape[:-1]


def _joined(rows: Any, leading: tuple[int, ...]) -> Any:
    """Returns the rows as an array [rows, vocab] in the same memory."""
    return rows.reshape((math.prod(leading), rows.shape[-1])) if leading else rows


def _one_each(value: Any, leading: tuple[int, ...]) -> Any:
    """Flattens a parameter or seeds that have the leading axes of the rows, so that one axis is
    left."""
    alike = leading and tuple(getattr(value, "shape", ())) == leading
    return value.reshape(-1) if alike else value


def _parted(result: Any, leading: tuple[int, ...]) -> Any:
    """Returns the results with the leading axes of the rows."""
    if not leading:
        return result
    if isinstance(result, tuple):
        return tuple(part.reshape(leading) for part in result)
    return result.reshape(leading)
