"""Converts small arguments (ids, lengths, flags, lists) to tensors on the GPU if the rows are on a
GPU.

The module has the same functions and raises the same errors as _host_arrays.py. Tensors that are
already on the device of the rows are converted on that device, and the host does not wait. Numbers
and Python sequences are copied to the device. Sequences are refused while a CUDA graph is captured.
Array arguments in host memory are refused by name, as in `sample`. Sequences may hold numbers, and
arrays in host memory. Only a list of lists of ids may hold tensors on the device, which are joined
there.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from . import _host_arrays
from ._arrays import Backend, TorchBackend
from ._host_arrays import TokenLists, expect_axes, expect_kind, expect_one_each, expect_shape


class SmallArrays(Protocol):
    """The functions that _host_arrays.py and DeviceArrays share."""

    def array(
        self, name: str, value: Any, dtype: str, axes: Sequence[int] | None = None
    ) -> Any: ...
    def shaped(self, name: str, value: Any, dtype: str, shape: tuple[int, ...]) -> Any: ...
    def each(
        self,
        name: str,
        value: Any,
        dtype: str,
        count: int,
        allowed: tuple[float, float] | None = None,
        meaning: str = "one per request",
    ) -> Any: ...
    def token_lists(
        self, name: str, value: Any, count: int, lengths: Any = None
    ) -> TokenLists | None: ...
    def sequence_lists(
        self, name: str, value: Any, count: int
    ) -> tuple[TokenLists | None, TokenLists | None]: ...
    def uploaded(self, name: str, value: Any) -> Any: ...
    def on_host(self, name: str, value: Any, instead: str) -> Any: ...


def small_arrays(backend: Backend) -> SmallArrays:
    """Returns the functions that convert small arguments for the backend's device."""
    if isinstance(backend, TorchBackend) and backend.on_gpu:
        return DeviceArrays(backend)
    return _host_arrays


def _is_array(value: Any) -> bool:
    """Returns true for an array in memory. A NumPy array without axes counts as a number."""
    return hasattr(value, "__dlpack__") and not (
        isinstance(value, np.ndarray | np.generic) and value.ndim == 0
    )


def _kind_of(tensor: Any) -> str:
    """Returns a tensor's kind with the letters of numpy.dtype.kind."""
    if tensor.is_floating_point():
        return "f"
    if tensor.is_complex():
        return "c"
    return "b" if str(tensor.dtype) == "torch.bool" else "i"


def _holds_gpu_tensors(value: Any) -> bool:
    """Returns true if a sequence holds GPU tensors with axes, which are lists of ids."""
    return any(getattr(part, "is_cuda", False) and part.dim() > 0 for part in value)


class DeviceArrays:
    def __init__(self, backend: TorchBackend) -> None:
        self._backend = backend
        self._torch = sys.modules["torch"]

    def array(self, name: str, value: Any, dtype: str, axes: Sequence[int] | None = None) -> Any:
        if not _is_array(value):
            return self.uploaded(name, _host_arrays.array(name, value, dtype, axes))
        where = str(getattr(value, "device", "cpu"))
        if where != self._backend.device:
            raise ValueError(f"{name} is on {where}; the rows are on {self._backend.device}")
        held = str(value.dtype).removeprefix("torch.")
        if value.numel():
            expect_kind(name, held, _kind_of(value), dtype)
        if held == "uint64":  # int64 would wrap the largest uint64 values
            raise TypeError(f"{name} holds uint64; on a GPU int64, int32 or uint32 is needed")
        expect_axes(name, value.dim(), axes)
        if dtype == "uint8":  # flags
            value = value != 0
        elif dtype == "int32":
            value = self._backend.in_int32(value)
        return value.to(getattr(self._torch, dtype)).contiguous()

    def shaped(self, name: str, value: Any, dtype: str, shape: tuple[int, ...]) -> Any:
        found = self.array(name, value, dtype)
        expect_shape(name, found, shape)
        return found

    def each(
        self,
        name: str,
        value: Any,
        dtype: str,
        count: int,
        allowed: tuple[float, float] | None = None,
        meaning: str = "one per request",
    ) -> Any:
        if not _is_array(value):
            found = _host_arrays.each(name, value, dtype, count, allowed, meaning)
            if np.ndim(value) > 0:
                return self.uploaded(name, found)
            return self._full(count, found[0].item() if count else 0, dtype)
        found = self.array(name, value, dtype)
        if found.dim() == 0:
            return found.expand(count).contiguous()
        expect_one_each(name, found, count, meaning)
        return found

    def token_lists(
        self, name: str, value: Any, count: int, lengths: Any = None
    ) -> TokenLists | None:
        if value is None:
            return None
        if not _is_array(value):
            if _holds_gpu_tensors(value):
                return self._joined(name, value, count)
            return self.uploaded(name, _host_arrays.token_lists(name, value, count))  # type: ignore[no-any-return]
        rows = self.array(name, value, "int32", axes=(1, 2))
        if rows.dim() == 1:  # one list of ids for all requests
            return rows, self._full(count, 0, "int64"), self._full(count, len(rows), "int32")
        if rows.shape[0] != count:
            raise ValueError(f"{name} has {rows.shape[0]} rows; {count} are needed")
        columns = rows.shape[1]
        begins = self._torch.arange(count, dtype=self._torch.int64, device=rows.device) * columns
        if lengths is None:
            return rows, begins, self._full(count, columns, "int32")
        # A begin of -1 makes the request fail. An error would need the lengths, and the host would
        # have to wait for the GPU to read them.
        fits = (lengths >= 0) & (lengths <= columns)
        return rows, begins.where(fits, -1), lengths

    def _joined(self, name: str, value: Sequence[Any], count: int) -> TokenLists:
        """Joins lists of ids, some of which are on the device, into one array on the device."""
        if len(value) != count:
            raise ValueError(f"{name} has {len(value)} lists; {count} are needed")
        lists = [self.array(f"{name}[{i}]", ids, "int32", axes=(1,)) for i, ids in enumerate(value)]
        sizes = np.array([len(ids) for ids in lists], np.int32)
        begins = np.cumsum(sizes, dtype=np.int64) - sizes
        return self._torch.cat(lists), self.uploaded(name, begins), self.uploaded(name, sizes)

    def sequence_lists(
        self, name: str, value: Any, count: int
    ) -> tuple[TokenLists | None, TokenLists | None]:
        found = _host_arrays.sequence_lists(name, value, count)
        return self.uploaded(name, found)  # type: ignore[no-any-return]

    def uploaded(self, name: str, value: Any) -> Any:
        """Copies NumPy arrays to the device, also those inside tuples and mappings."""
        if value is None:
            return None
        if isinstance(value, tuple):
            return tuple(self.uploaded(name, part) for part in value)
        if isinstance(value, dict):
            return {key: self.uploaded(name, part) for key, part in value.items()}
        return self._backend.upload(name, value)

    def on_host(self, name: str, value: Any, instead: str) -> Any:
        """Returns the tensor as a NumPy array, after waiting for the GPU. `instead` names an
        alternative that does not wait, for the error."""
        if self._backend.is_captured():
            raise RuntimeError(
                f"{name} would be waited for while a CUDA graph is captured; {instead}"
            )
        return value.cpu().numpy()

    def _full(self, count: int, value: int | float, dtype: str) -> Any:
        filled = self._backend.empty((count,), dtype)
        filled.fill_(value)
        return filled
