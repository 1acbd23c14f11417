"""Hides the differences between NumPy and torch: how to make new arrays, find devices and streams,
and draw fresh seeds.

This module never imports torch, because a caller who passes a tensor has already imported torch.
"""

from __future__ import annotations

import hashlib
import secrets
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from . import _core


def length(array: Any) -> int:
    """Returns the length of the first axis. An array without axes gets 0, and the kernels report
    the wrong shape.
    """
    shape: tuple[int, ...] = tuple(getattr(array, "shape", ()))
    return shape[0] if shape else 0


def width(array: Any) -> int:
    """Returns the length of the last axis. An array without axes gets 0, as in `length`."""
    shape: tuple[int, ...] = tuple(getattr(array, "shape", ()))
    return shape[-1] if shape else 0


def _is_torch(value: Any, name: str) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, getattr(torch, name))


def torch_seed(generator: Any) -> int:
    on_gpu = generator is not None and generator.device.type == "cuda"
    return torch_words([generator], on_gpu)[0] & (2**64 - 1)


def torch_words(generators: Iterable[Any], on_gpu: bool) -> list[int]:
    """Draws 64 bits from each generator. None stands for the default generator. The bits are int64,
    because torch draws no other type. Generators on a GPU are searched for only if `on_gpu` says
    that there may be some: a batch has one generator per row, and the search takes a fifth of the
    time of a draw."""
    torch = sys.modules["torch"]
    words = []
    with torch.inference_mode():  # inference mode saves a sixth of a draw's time
        word = torch.empty((), dtype=torch.int64)
        for generator in generators:
            if on_gpu and generator is not None and generator.device.type == "cuda":
                seed = _cuda_generator_seed(generator)
                words.append(seed - 2**64 if seed >= 2**63 else seed)
            else:
                words.append(word.random_(-(2**63), None, generator=generator).item())
    return words


def cuda_generator_place(generator: Any) -> tuple[int, int]:
    """Returns seed and offset of a GPU generator's next draw, as int64, and advances the
    generator's offset. torch's own kernels derive their bits from seed and offset with the same
    function, at offsets below 2^63. The returned offset is above 2^63, so that no draw uses the
    same bits as torch's kernels and no hash is needed."""
    seed, offset = generator.initial_seed(), generator.get_offset()
    generator.set_offset(offset + 4)
    return (seed - 2**64 if seed >= 2**63 else seed), offset - 2**63


def _cuda_generator_seed(generator: Any) -> int:
    # Random bits drawn on the GPU would make the host wait. The generator's seed and offset are on
    # the host, and the offset advances by 4, as in every other draw of the generator. Seed and
    # offset are hashed, because torch's own kernels derive their bits from the same seed and
    # offset.
    seed, offset = generator.initial_seed(), generator.get_offset()
    generator.set_offset(offset + 4)
    state = b"%d %d" % (seed, offset)
    return int.from_bytes(hashlib.blake2b(state, digest_size=8).digest(), "little")


class NumpyBackend:
    """The backend for NumPy arrays, and for the arrays of all other libraries in CPU memory."""

    stream = 0

    def lend(self, array: Any) -> Any:
        return array

    indices = lend

    def parameter(self, value: Any, dtype: str, rows: int | None = None) -> Any:
        return value

    def seed(self, name: str, value: Any, outputs: int) -> Any:
        return value

    def call(self, operation: Any, named: dict[str, Any]) -> Any:
        """Calls an operation of the compiled module, which takes its arguments by name."""
        named["stream"] = self.stream
        named.setdefault("workspace", None)
        return operation(named)

    def workspace(self, rows: int) -> Any:
        return None

    def allocate(self, size: int) -> Any:
        return None

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        return np.empty(shape, dtype)

    def from_ints(self, values: list[int]) -> Any:
        return np.array(values, np.int32)

    def from_numpy(self, array: Any) -> Any:
        return array.copy()

    def empty_words(self, shape: tuple[int, ...]) -> Any:
        return np.empty(shape, np.uint32)

    def empty_like(self, rows: Any) -> Any:
        return np.empty(rows.shape, rows.dtype)

    def cast(self, array: Any, dtype: str) -> Any:
        return array.astype(dtype)

    def masked(self, rows: Any, words: Any) -> Any:
        """Returns a copy of the rows with -inf in place of each token whose bit in the packed words
        is 0."""
        bits = np.unpackbits(words.view(np.uint8), axis=-1, bitorder="little")
        masked = np.array(rows)
        masked[bits[:, : masked.shape[1]] == 0] = -np.inf
        return masked

    def fresh_seed(self, generator: Any) -> int:
        if generator is None:
            return secrets.randbits(64)
        if isinstance(generator, np.random.Generator):
            return int(generator.integers(0, 2**64, dtype=np.uint64))
        if _is_torch(generator, "Generator"):
            return torch_seed(generator)
        raise TypeError(
            "generator: a numpy.random.Generator or a torch.Generator is needed, not "
            + type(generator).__name__
        )


class TorchBackend:
    """The backend for torch tensors on one device: results are new tensors on that device, and work
    is enqueued on the device's current stream.

    GPU tensors are lent without synchronisation (stream -1 of DLPack), because all work is enqueued
    on the current stream anyway. Waiting for events of other streams is not allowed in a graph
    capture. Parameters are converted on the GPU to the types that the kernels read from device
    memory, so that each replay of a graph reads the parameters' values at the time of the replay.
    """

    stream: int

    def __init__(self, tensor: Any) -> None:
        self._torch = sys.modules["torch"]
        self._device = tensor.device
        self._rows = tensor.shape[:1]
        self._cuda: bool = tensor.device.type == "cuda"
        self.stream = 0
        if self._cuda:
            self.stream = self._torch.cuda.current_stream(self._device).cuda_stream

    @property
    def on_gpu(self) -> bool:
        return self._cuda

    @property
    def device(self) -> str:
        return str(self._device)

    @property
    def index(self) -> int:
        """Returns the index of the GPU."""
        return int(self._device.index)

    def is_captured(self) -> bool:
        """Returns true if a CUDA graph is being captured on the current stream."""
        if not self._cuda:
            return False
        with self._torch.cuda.device(self._device):  # the device whose current stream runs the call
            return bool(self._torch.cuda.is_current_stream_capturing())

    def lend(self, tensor: Any) -> Any:
        if not isinstance(tensor, self._torch.Tensor):
            if isinstance(tensor, tuple):
                return tuple(self.lend(part) for part in tensor)
            if isinstance(tensor, dict):
                return {name: self.lend(part) for name, part in tensor.items()}
            return tensor
        if tensor.requires_grad:  # DLPack cannot carry a gradient graph
            tensor = tensor.detach()
        if not tensor.is_cuda:
            return tensor
        try:
            return tensor.__dlpack__(stream=-1)
        except BufferError:  # torch lends only tensors of the current device
            with self._torch.cuda.device(tensor.device):
                return tensor.__dlpack__(stream=-1)

    def _on_gpu(self, value: Any) -> bool:
        return self._cuda and _is_torch(value, "Tensor") and bool(value.is_cuda)

    def _converted(self, tensor: Any, dtype: str) -> Any:
        return self.lend(tensor.to(getattr(self._torch, dtype)).contiguous())

    def parameter(self, value: Any, dtype: str, rows: int | None = None) -> Any:
        """`rows` is the number of values that an array must have, if that number differs from the
        number of rows."""
        if not self._on_gpu(value) or not self._becomes(value, dtype):
            return self.lend(value)
        if value.numel() == 1:  # true if the tensor is one value for all rows
            value = value.reshape(1).expand(self._rows if rows is None else (rows,))
        return self._converted(self.in_int32(value) if dtype == "int32" else value, dtype)

    def seed(self, name: str, value: Any, outputs: int) -> Any:
        """Returns the seeds or the offsets of a call; `name` is "seed" or "offset"."""
        if not self._on_gpu(value) or not self._becomes(value, "int64"):
            return self.lend(value)
        if value.numel() == 1 and outputs != 1:
            # The kernels take the one seed of a call as an argument, and the host must wait for the
            # GPU to read the seed from a tensor. With one output, one seed for the call and one
            # seed per output give the same bits.
            if self.is_captured():
                raise RuntimeError(
                    f"{name} is a tensor of one value on {self.device}, which would be waited for "
                    f"while a CUDA graph is captured; allowed: a number, or {outputs} values, one "
                    "each"
                )
            return int(value.item()) & (2**64 - 1)
        return self._converted(value.reshape(-1) if value.dim() == 0 else value, "int64")

    def indices(self, value: Any) -> Any:
        if not self._on_gpu(value) or not self._becomes(value, "int32"):
            return self.lend(value)
        return self._converted(self.in_int32(value, least=-1), "int32")

    def in_int32(self, value: Any, least: int = -(2**31)) -> Any:
        """Clamps integers to int32. The tensor must not hold uint64 values."""
        if str(value.dtype) == "torch.uint32":  # torch cannot clamp tensors of uint32
            value = value.to(self._torch.int64)
        return value.clamp(least, 2**31 - 1) if value.dtype == self._torch.int64 else value

    def _becomes(self, value: Any, dtype: str) -> bool:
        # A tensor that cannot be converted to `dtype` is lent unchanged, and the operation refuses
        # the tensor by name.
        if value.dtype == self._torch.bool or value.is_complex():
            return False
        if dtype == "int32" and str(value.dtype) == "torch.uint64":
            return False
        return dtype == "float32" or not value.is_floating_point()

    def call(self, operation: Any, named: dict[str, Any]) -> Any:
        """Calls an operation as NumpyBackend.call does; all tensors are lent to the operation."""
        lent = self.lend({"workspace": None, **named, "stream": self.stream})
        return self.on_device(operation, lent)

    def on_device(self, function: Any, *arguments: Any) -> Any:
        cuda = self._torch.cuda
        if not self._cuda or self._device.index == cuda.current_device():
            return function(*arguments)
        with cuda.device(self._device):  # kernels are launched on the current device
            return function(*arguments)

    def workspace(self, rows: int) -> Any:
        return self.allocate(_core.cuda_workspace_bytes(rows)) if self._cuda else None

    def allocate(self, size: int) -> Any:
        """Returns bytes on the device, lent for a workspace. torch's caching allocator reuses these
        bytes only for later work on the same stream."""
        return self.lend(self.empty((max(size, 1),), "uint8"))

    def upload(self, name: str, array: Any) -> Any:
        """Copies a small NumPy array to the device without waiting for the end of the copy."""
        if self.is_captured():
            raise RuntimeError(
                f"{name}: is needed as a tensor on {self.device} while a CUDA graph is captured; a "
                "replay would read host memory that is gone"
            )
        host = self._torch.from_numpy(np.require(array, requirements="W"))
        return host.pin_memory().to(self._device, non_blocking=True)

    def empty(self, shape: tuple[int, ...], dtype: str) -> Any:
        return self._torch.empty(shape, dtype=getattr(self._torch, dtype), device=self._device)

    def from_ints(self, values: list[int]) -> Any:
        return self._torch.tensor(values, dtype=self._torch.int32, device=self._device)

    def from_numpy(self, array: Any) -> Any:
        return self._torch.tensor(array, device=self._device)

    def empty_words(self, shape: tuple[int, ...]) -> Any:
        return self.empty(shape, "int32")

    def empty_like(self, rows: Any) -> Any:
        return self._torch.empty(rows.shape, dtype=rows.dtype, device=self._device)

    def cast(self, array: Any, dtype: str) -> Any:
        return array.to(getattr(self._torch, dtype))

    def masked(self, rows: Any, words: Any) -> Any:
        bits = words[:, :, None] >> self._torch.arange(32, device=self._device)
        kept = (bits & 1).reshape(len(words), -1)[:, : rows.shape[1]]
        return rows.masked_fill(kept == 0, -float("inf"))

    def fresh_seed(self, generator: Any) -> int:
        if self.is_captured():
            raise RuntimeError(
                "seed: is needed while a CUDA graph is captured, or each replay would draw the same "
                "numbers; give a tensor of seeds on the GPU, and change it between replays"
            )
        if generator is None or _is_torch(generator, "Generator"):
            return torch_seed(generator)
        return _NUMPY.fresh_seed(generator)


_NUMPY = NumpyBackend()

Backend = NumpyBackend | TorchBackend


def backend_of(rows: Any, name: str) -> Backend:
    """Returns the backend for an array of rows. Raises TypeError if `rows` is not an array."""
    if isinstance(rows, np.ndarray):
        return _NUMPY
    if _is_torch(rows, "Tensor"):
        return TorchBackend(rows)
    if hasattr(rows, "__dlpack__"):
        return _NUMPY
    raise TypeError(
        f"{name}: a NumPy array, a torch tensor or another array that speaks DLPack is needed, "
        f"not {type(rows).__name__}"
    )
