"""Converts small arguments (ids, lengths, seeds, flags) to NumPy arrays, which the compiled module
takes.

The functions accept any object that holds numbers: sequences, NumPy arrays, torch tensors in host
memory. Integers outside the range of int32 become the nearest int32, which is an invalid value, so
that only the request with this value fails. The first parameter of every function is the argument's
name, for errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ._arrays import Backend, NumpyBackend, backend_of

#: Lists of ids in the form of TokenLists of fairdraw/token_lists.h: ids, begins, lengths.
TokenLists = tuple[Any, Any, Any]

_INT32 = np.iinfo(np.int32)
#: Maximum number of bytes that an array may span, equal to kMaxArrayBytes of fairdraw/limits.h.
_MAX_BYTES = 2**48
#: Maps a dtype to the kinds of values (numpy.dtype.kind) that can be converted to the dtype, and to
#: the name of these values in errors.
_KINDS = {
    **dict.fromkeys(("int32", "int64", "uint64"), ("iu", "integers")),
    **dict.fromkeys(("float32", "float64"), ("iuf", "numbers")),
    "uint8": ("biu", "bool or integers"),
}


def like(value: Any, name: str) -> Backend:
    """Returns the backend for results: that of the library of `value`, or NumPy's if `value` is not
    an array.
    """
    return backend_of(value, name) if hasattr(value, "__dlpack__") else NumpyBackend()


def _as_numpy(name: str, value: Any) -> Any:
    if getattr(value, "is_cuda", False):
        raise ValueError(f"{name} is on {value.device}; allowed: host memory")
    if hasattr(value, "detach"):  # this branch is for torch tensors, because NumPy has no bfloat16
        value = value.detach()
        value = value.float() if value.is_floating_point() and value.itemsize < 4 else value
        return value.numpy()
    try:
        return np.asarray(value)
    except ValueError as error:  # NumPy raises ValueError for sequences of different lengths
        raise TypeError(f"{name}: an array is needed, not rows of unlike lengths") from error
    except TypeError as error:  # NumPy raises TypeError for GPU tensors in a sequence
        for place, part in enumerate(value if isinstance(value, Sequence) else ()):
            if getattr(part, "is_cuda", False):
                message = f"{name}[{place}] is on {part.device}; allowed: host memory"
                raise ValueError(message) from error
        raise


def _expect_extent(name: str, found: Any) -> None:
    """Raises ValueError for strides that reach beyond the address space, because NumPy itself would
    crash on such an array.
    """
    if found.flags.c_contiguous:
        return
    span = sum(
        (length - 1) * abs(stride)
        for length, stride in zip(found.shape, found.strides, strict=True)
        if length > 1
    )
    if span > _MAX_BYTES:
        raise ValueError(
            f"{name} spans {span} bytes by its strides {list(found.strides)}; allowed: at most "
            f"{_MAX_BYTES} (2^48)"
        )


def expect_kind(name: str, held: str, kind: str, dtype: str) -> None:
    """Raises TypeError for a kind of values (numpy.dtype.kind) that cannot be converted to
    `dtype`."""
    kinds, needed = _KINDS[dtype]
    if kind not in kinds:
        raise TypeError(f"{name} holds {held}; {needed} are needed")


def expect_axes(name: str, found: int, axes: Sequence[int] | None) -> None:
    if axes is not None and found not in axes:
        wanted = " or ".join(map(str, axes))
        raise TypeError(f"{name} has {found} axes; {wanted} are needed")


def expect_shape(name: str, found: Any, shape: tuple[int, ...]) -> None:
    if tuple(found.shape) != shape:
        raise ValueError(f"{name} has shape {list(found.shape)}; {list(shape)} is needed")


def array(name: str, value: Any, dtype: str, axes: Sequence[int] | None = None) -> Any:
    """Returns `value` as a contiguous array of `dtype`. Raises TypeError if `value` holds anything
    but numbers of a kind that can be converted.
    """
    found = _as_numpy(name, value)
    _expect_extent(name, found)
    if found.size:
        expect_kind(name, str(found.dtype), found.dtype.kind, dtype)
    expect_axes(name, found.ndim, axes)
    if dtype == "int32" and found.dtype.kind in "iu":
        own = np.iinfo(found.dtype)
        found = found.clip(max(_INT32.min, own.min), min(_INT32.max, own.max))
    elif dtype == "uint8":  # flags
        found = found != 0
    return np.ascontiguousarray(found.astype(dtype, copy=False)).reshape(found.shape)


def shaped(name: str, value: Any, dtype: str, shape: tuple[int, ...]) -> Any:
    """Converts a value as `array` does, and raises ValueError unless the result has exactly this
    shape."""
    found = array(name, value, dtype)
    expect_shape(name, found, shape)
    return found


def expect_one_each(name: str, found: Any, count: int, meaning: str) -> None:
    if tuple(found.shape) != (count,):
        raise ValueError(
            f"{name} has shape {list(found.shape)}; a number or [{count}] ({meaning}) is needed"
        )


def each(
    name: str,
    value: Any,
    dtype: str,
    count: int,
    allowed: tuple[float, float] | None = None,
    meaning: str = "one per request",
) -> Any:
    """Returns an array [count] of `dtype`, made from one value for all requests or from one value
    per request. `allowed` is the range of a single value for all requests. A wrong entry of an
    array fails only its own request."""
    found = array(name, value, dtype)
    if found.ndim == 0:
        if allowed is not None and not allowed[0] <= found <= allowed[1]:
            least, most = (int(v) if dtype != "float32" else v for v in allowed)
            raise ValueError(f"{name} is {value}; allowed: {least} to {most}")
        return np.full(count, found, dtype)
    expect_one_each(name, found, count, meaning)
    return found


def ids_of(name: str, values: Iterable[Any]) -> list[int]:
    """Returns a list of ids from any iterable of integers. ValueError outside int32."""
    ids = [int(value) for value in values]
    for place, value in enumerate(ids):
        if not _INT32.min <= value <= _INT32.max:
            raise ValueError(f"{name}[{place}] is {value}; allowed: an id of the vocabulary")
    return ids


def _is_flat(value: Any) -> bool:
    """Returns true if a sequence is empty or holds numbers instead of sequences."""
    return len(value) == 0 or np.ndim(value[0]) == 0


def token_lists(name: str, value: Any, count: int, lengths: Any = None) -> TokenLists | None:
    """Returns `count` lists of ids, made from a sequence of lists or from one list for all
    requests. An array [count, m] has one list per row. With `lengths`, only the first lengths[i]
    ids of row i are in the list."""
    if value is None:
        return None
    if len(getattr(value, "shape", ())) == 2:
        rows = array(name, value, "int32")
        if rows.shape[0] != count:
            raise ValueError(f"{name} has {rows.shape[0]} rows; {count} are needed")
        begins = np.arange(count, dtype=np.int64) * rows.shape[1]
        if lengths is None:
            return rows, begins, np.full(count, rows.shape[1], np.int32)
        for place, found in enumerate(lengths):
            if not 0 <= found <= rows.shape[1]:
                raise ValueError(
                    f"{name}_lengths[{place}] is {found}; allowed: 0 to {rows.shape[1]}, the "
                    f"columns of {name}"
                )
        return rows, begins, lengths
    if _is_flat(value):
        shared = array(name, value, "int32", axes=(1,))
        return shared, np.zeros(count, np.int64), np.full(count, len(shared), np.int32)
    if len(value) != count:
        raise ValueError(f"{name} has {len(value)} lists; {count} are needed")
    return joined([array(f"{name}[{i}]", ids, "int32", axes=(1,)) for i, ids in enumerate(value)])


def joined(lists: Sequence[Any]) -> TokenLists:
    """Joins the lists of ids into one array."""
    sizes = np.array([len(ids) for ids in lists], np.int32)
    ends = np.cumsum(sizes, dtype=np.int64)
    ids = np.concatenate([np.empty(0, np.int32), *lists]).astype(np.int32, copy=False)
    return ids, ends - sizes, sizes


def sequence_lists(
    name: str, value: Any, count: int
) -> tuple[TokenLists | None, TokenLists | None]:
    """Joins several sequences of ids per request. Returns the ids per request, and the length of
    each sequence."""
    if value is None:
        return None, None
    if len(value) != count:
        raise ValueError(f"{name} has {len(value)} lists; {count} are needed")
    ids, lengths = [], []
    for place, sequences in enumerate(value):
        found = [
            array(f"{name}[{place}][{i}]", sequence, "int32", axes=(1,))
            for i, sequence in enumerate(sequences)
        ]
        ids.append(np.concatenate([np.empty(0, np.int32), *found]))
        lengths.append(np.array([len(sequence) for sequence in found], np.int32))
    return joined(ids), joined(lengths)


def uploaded(name: str, value: Any) -> Any:
    """Returns the arrays unchanged, because they are in host memory, like the rows."""
    return value


def on_host(name: str, value: Any, instead: str) -> Any:
    """Returns an array of this module, which is a NumPy array already."""
    return value
