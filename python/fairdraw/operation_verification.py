"""Defines `verify_operations`, the gate for Python callables that are row operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from . import _core
from ._device_calls import DeviceOperation
from ._judged import (
    Ability,
    Arrays,
    expect_means,
    expect_name,
    expect_names,
    expression,
    given,
    literal,
    replay_call,
)
from .verification import Report, Suite, run

#: Names of the row operations, which harness/contract/operation.h defines.
OperationName = Literal[
    "log_softmax",
    "min_p_mask_logits",
    "softmax",
    "top_k_mask_logits",
    "top_k_renorm_probs",
    "top_p_renorm_probs",
]
DTypeName = Literal["bfloat16", "float16", "float32"]


def verify_operations(
    operations: Mapping[OperationName, Callable[..., Any]],
    semantics: str = "fairdraw",
    suite: Suite = "gate",
    *,
    name: str | None = None,
    version: str = "",
    arrays: Arrays | None = None,
    device: Any = "cpu",
    dtypes: Sequence[DTypeName] = ("float32",),
    keep_dtype: bool = False,
    exact_integer: bool = False,
    case: str | None = None,
    seed: int | None = None,
    seed_from: str | None = None,
    jobs: int = 0,
    progress: bool | Callable[[str, int, int], object] | None = None,
) -> Report:
    """Judges row operations, each by itself, and returns the report. Raises an exception only for
    bad arguments.

    `operations` maps names to functions, which are called as in flashinfer.sampling. The functions'
    rows [rows, vocab] are lent for the call:

            softmax(logits, temperature)          top_k_renorm_probs(probs, top_k)
            log_softmax(logits)                   top_p_renorm_probs(probs, top_p)
            top_k_mask_logits(logits, top_k)      min_p_mask_logits(logits, min_p)

    The parameter of a function is a number, or an array [rows] of float32 (top_k: int32).
    Probabilities have any sum, unless the profile requires a sum of 1. A function returns a new
    array [rows, vocab] of float32 or wider; masks may have the dtype of the logits. An exception or
    a bad result fails the case, and the run goes on. A function may refuse calls with invalid rows
    (NaN, +inf, nothing allowed, a parameter out of range). If the function does not refuse such a
    call, only the other rows are judged.

    The arguments semantics, suite, name, version, arrays, device, case, seed, seed_from, jobs and
    progress mean the same as for `verify`. On a GPU rows and parameter arrays are copies there, and
    results are copied back.

    `dtypes` lists the dtypes of the rows that the functions take. In NumPy, bfloat16 rows are given
    as their bits, in uint16.

    `keep_dtype` says that results have the dtype of the rows, with its rounding; otherwise results
    must be float32.

    `exact_integer` says that softmax and renormalised probabilities equal this package's integer
    arithmetic bit for bit; otherwise the results may have errors within the bounds for float32.

    Definition: flashinfer.sampling for the functions; harness/contract/operation.h for the results,
    reference/operation_bound.h for their bounds.

    Raises:
        TypeError: An argument is of a wrong type.
        ValueError: A name is unknown, a number is out of its range, or no case matches.
    """
    if not isinstance(operations, Mapping) or not operations:
        raise TypeError(
            f"operations is {operations!r}; allowed: a mapping from names to functions, at least one"
        )
    judged: dict[str, Callable[..., Any]] = {str(k): function for k, function in operations.items()}
    for field, function in judged.items():
        expect_name("operations", field, _core.operation_names())
        if not callable(function):
            raise TypeError(f"operations[{field!r}] is {function!r}; allowed: a callable")
    takes = expect_names("dtypes", dtypes, ["float32", "float16", "bfloat16"])
    if "float32" not in takes:
        raise ValueError(f"dtypes is {takes!r}; allowed: float32, and others besides")
    able: list[Ability] = [dtype for dtype in ("float16", "bfloat16") if dtype in takes]
    if exact_integer:
        able.append("exact_integer")
    gpu, means = expect_means(semantics, arrays, device, version, name, seed, seed_from)
    modules: list[str] = []
    who = ", ".join(
        f"{literal(field)}: {expression(function, None, modules)}"
        for field, function in judged.items()
    )
    if gpu is not None:
        judged = {field: DeviceOperation(function, gpu) for field, function in judged.items()}
    return run(
        name=name or "operations",
        **means,
        replay=replay_call(
            "verify_operations",
            "{" + who + "}",
            modules,
            {"semantics": semantics, "suite": suite},
            given(
                name=name,
                version=version,
                arrays=arrays,
                device=str(device),
                dtypes=takes,
                keep_dtype=bool(keep_dtype),
                exact_integer=bool(exact_integer),
            ),
        ),
        suite=suite,
        abilities=able,
        case=case,
        jobs=jobs,
        progress=progress,
        operations=judged,
        keep_dtype=bool(keep_dtype),
    )
