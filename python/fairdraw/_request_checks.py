"""Checks requests: the types of their fields, as the classes declare them, and the ranges of the
values.

An error names the field, its value and the allowed range. A wrong type raises TypeError, a value
out of range ValueError, and a feature that fairdraw does not have RuntimeError.
"""

from __future__ import annotations

import functools
import math
import operator
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import numpy as np

from . import _core

Request = TypeVar("Request")

#: Minimum, maximum, and a text that states both. No range contains NaN.
Range = tuple[float, float, str]

UNIT: Range = (0, 1, "0 to 1")
UNIT_WITHOUT_0: Range = (math.ulp(0.0), 1, "above 0, up to 1")
FINITE_NOT_NEGATIVE: Range = (0, sys.float_info.max, "finite and >= 0")
POSITIVE: Range = (math.ulp(0.0), sys.float_info.max, "finite and > 0")
WITHIN_2: Range = (-2, 2, "-2 to 2")
AT_LEAST_MINUS_1: Range = (-1, math.inf, ">= -1")
AT_LEAST_0: Range = (0, math.inf, ">= 0")
AT_LEAST_1: Range = (1, math.inf, ">= 1")
COUNT: Range = (1, _core.NO_MAX_TOKENS, "1 to 2^31 - 1")
PENALTY: Range = (-(2.0**64), 2.0**64, "-2^64 to 2^64")
FACTOR: Range = (2.0**-64, 2.0**64, "2^-64 to 2^64")
#: Range for a feature that fairdraw does not have, in a field whose neutral value is None.
UNSET: Range = (1, 0, "unset")

INT32 = (-(2**31), 2**31 - 1)
INT64 = (-(2**63), 2**63 - 1)
UINT32 = (0, 2**32 - 1)
UINT64 = (0, 2**64 - 1)


class Widths(NamedTuple):
    """The allowed ranges of a request's numbers."""

    integers: tuple[int, int]
    seed: tuple[int, int]
    single: bool  # numbers are float32


PYTHONS = Widths(INT64, INT64, single=False)
LLAMA_CPPS = Widths(INT32, UINT32, single=True)
OWN = Widths(INT32, UINT64, single=True)


def single(value: float) -> float:
    """Returns the float32 nearest to a number, or infinity for a number outside the range of
    float32."""
    with np.errstate(over="ignore", under="ignore"):
        return float(np.float32(value))


def text(value: float) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def out_of_range(field: str, value: str, allowed: str) -> ValueError:
    return ValueError(f"{field} is {value}; allowed: {allowed}")


def unsupported(field: str, value: str, allowed: str) -> RuntimeError:
    return RuntimeError(f"{field} is {value}; allowed: {allowed}")


def typed(request: Request, widths: Widths) -> Request:
    """Returns the request with its fields converted to the types that the request's class declares.
    Lists become tuples."""
    kind: Any = type(request)
    hints = _hints_of(kind)
    values = {
        each.name: typed_value(
            each.name,
            hints[each.name],
            getattr(request, each.name),
            widths._replace(integers=widths.seed) if each.name == "seed" else widths,
        )
        for each in fields(request)  # type: ignore[arg-type]
    }
    return replace(request, **values)  # type: ignore[type-var]


@functools.cache
def _hints_of(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def typed_value(name: str, kind: Any, value: Any, widths: Widths = OWN) -> Any:
    """Returns the value of a field or of an argument, converted to its declared type."""
    if kind is Any:
        return value
    if kind is bool:
        if not isinstance(value, bool):
            raise _another_type(name, value, "True or False")
        return value
    if kind is int:
        return _integer(name, value, widths.integers)
    if kind is float:
        number = _number(name, value)
        return single(number) if widths.single else number
    if kind is str:
        if not isinstance(value, str):
            raise _another_type(name, value, "a text")
        return value
    origin, arguments = get_origin(kind), get_args(kind)
    of_elements = widths._replace(integers=INT32)
    if origin is Sequence:
        return tuple(
            typed_value(f"{name}[{i}]", arguments[0], element, of_elements)
            for i, element in enumerate(_elements(name, value))
        )
    if origin is Mapping:
        if not isinstance(value, Mapping):
            raise _another_type(name, value, "a mapping of tokens to biases")
        biases = {}
        for i, (token, bias) in enumerate(value.items()):
            key = _integer(f"{name}[{i}]", token, INT32)
            biases[key] = typed_value(f"{name}[{i}][{key}]", float, bias, widths)
        return biases
    if origin is not Literal and type(None) in arguments:
        return None if value is None else typed_value(name, arguments[0], value, widths)
    return _named(name, kind, value)


def _named(name: str, kind: Any, value: Any) -> Any:
    """Returns the value if it is a member of a Literal, or of a union of bool and a Literal."""
    parts = (kind,) if get_origin(kind) is Literal else get_args(kind)
    allowed = [one for part in parts for one in ((False, True) if part is bool else get_args(part))]
    for one in allowed:
        if type(value) is type(one) and value == one:
            return one
    raise out_of_range(name, repr(value), ", ".join(map(repr, allowed)))


def _another_type(name: str, value: Any, needed: str) -> TypeError:
    return TypeError(f"{name} is {value!r}; {needed} is needed")


def _integer(name: str, value: Any, bounds: tuple[int, int]) -> int:
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise _another_type(name, value, "an integer") from None
    if not bounds[0] <= number <= bounds[1]:
        raise out_of_range(name, str(number), f"{bounds[0]} to {bounds[1]}")
    return number


def _number(name: str, value: Any) -> float:
    try:
        # Strings are refused, because float() would parse them.
        if isinstance(value, str | bytes | bytearray):
            raise TypeError
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise _another_type(name, value, "a number") from None


def _elements(name: str, value: Any) -> list[Any]:
    try:
        iterator = iter(value)
    except TypeError:
        raise _another_type(name, value, "a sequence") from None
    return list(iterator)


def check(request: Any, ranges: Mapping[str, Range]) -> None:
    """Checks that all fields of a request that are set are in their ranges."""
    for field, allowed in ranges.items():
        check_value(field, getattr(request, field), allowed)


def check_value(field: str, value: float | None, allowed: Range) -> None:
    least, most, words = allowed
    if value is not None and not least <= value <= most:
        raise out_of_range(field, text(value), words)


def check_features(request: Any, neutral: Mapping[str, Range]) -> None:
    """Checks that the fields of features that fairdraw does not have are unset or neutral."""
    for field, allowed in neutral.items():
        value = getattr(request, field)
        least, most, words = allowed
        if value is not None and not least <= value <= most:
            found = "set" if allowed is UNSET else text(value)
            raise unsupported(field, found, f"{words} (fairdraw has no such feature)")


def check_vocab(vocab: int) -> int:
    most = _core.MAX_VOCAB
    check_value("vocab", _integer("vocab", vocab, INT64), (1, most, f"1 to {most}"))
    return vocab


def check_ids(field: str, ids: Sequence[int], vocab: int) -> None:
    for i, token in enumerate(ids):
        _check_id(f"{field}[{i}]", token, vocab)


def _check_id(name: str, token: int, vocab: int) -> None:
    check_value(name, token, (0, vocab - 1, f"0 to {vocab - 1} (ids of the vocabulary)"))


def check_words(field: str, words: Sequence[Sequence[int]], vocab: int) -> None:
    """Checks that every bad word has at least one id."""
    for i, word in enumerate(words):
        if not word:
            raise out_of_range(f"{field}[{i}]", "empty", "at least one id")
        check_ids(f"{field}[{i}]", word, vocab)


def biases_of(field: str, biases: Mapping[int, float], vocab: int) -> dict[int, float]:
    """Returns biases as float32. A bias must not be NaN or +inf, and its size is at most 2^64; -inf
    bans a token."""
    found = {}
    for i, (token, bias) in enumerate(biases.items()):
        _check_id(f"{field}[{i}]", token, vocab)
        found[token] = single(bias)
        if found[token] != -math.inf and not abs(found[token]) <= 2.0**64:
            raise out_of_range(f"{field}[{i}]", text(bias), "-2^64 to 2^64, or -inf")
    return found


def lengths_of(
    min_field: str, least: int | None, max_field: str, most: int | None
) -> dict[str, int | None]:
    """Returns min_tokens and max_tokens. max_tokens becomes None if it is absent or outside int32."""
    limit = _core.NO_MAX_TOKENS
    least, most = min(least or 0, limit), limit if most is None else min(most, limit)
    check_value(min_field, least, (0, most, f"0 to {max_field} ({most})"))
    return {"min_tokens": least, "max_tokens": None if most == limit else most}
