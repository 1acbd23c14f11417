"""Calls a judged callable with tensors on a GPU: copies the judge's arrays to the GPU, and the
results back.

This module never imports torch, because `verify` has already imported torch if a device was
requested.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any


def _is_tensor(value: Any) -> bool:
    return isinstance(value, sys.modules["torch"].Tensor)


class DeviceBatch:
    """A `fairdraw.Batch` with copies of its tensors on a device; each copy is made when it is first
    read.

    The out_* tensors start as copies of the judge's arrays, and `give_back` copies their contents
    back.
    """

    def __init__(self, batch: Any, device: Any) -> None:
        self._batch = batch
        self._device = device
        self._read: dict[str, Any] = {}

    # Python calls __getattr__ for names that the object itself does not define.
    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if self._batch is None:
            raise RuntimeError(
                "the call of this batch has ended: copy arrays before the callable returns"
            )
        if name not in self._read:
            value = getattr(self._batch, name)
            self._read[name] = value.to(self._device, copy=True) if _is_tensor(value) else value
        return self._read[name]

    def give_back(self) -> Any:
        """Returns the judge's batch after copying back every out_* tensor that the callable has
        read."""
        for name, value in self._read.items():
            if name.startswith("out_") and _is_tensor(value):
                getattr(self._batch, name).copy_(value)
        return self._batch

    def end(self) -> None:
        self._batch = None


class _OnDevice:
    """Makes the GPU the current device during calls, and copies results to host memory."""

    def __init__(self, device: Any) -> None:
        self.device = device

    def is_current(self) -> AbstractContextManager[Any]:
        if self.device.type != "cuda":
            return nullcontext()
        current: AbstractContextManager[Any] = sys.modules["torch"].cuda.device(self.device)
        return current

    def brought_back(self, result: Any) -> Any:
        """Copies result tensors from this device to host memory. The judge itself checks all other
        results."""
        if isinstance(result, tuple | list):
            parts = [self.brought_back(part) for part in result]
            return parts if isinstance(result, list) else tuple(parts)
        return result.cpu() if _is_tensor(result) and result.device == self.device else result


class DeviceFunction(_OnDevice):
    """A callable under test, which is called with a DeviceBatch."""

    def __init__(self, function: Callable[[Any], Any], device: Any) -> None:
        super().__init__(device)
        self._function = function

    def __call__(self, batch: Any) -> Any:
        lent = DeviceBatch(batch, self.device)
        try:
            with self.is_current():
                result = self._function(lent)
                given_back = lent.give_back()
                return given_back if result is lent else self.brought_back(result)
        finally:
            lent.end()


class DeviceOperation(_OnDevice):
    """A row operation under test, which is called with copies on a device."""

    def __init__(self, function: Callable[..., Any], device: Any) -> None:
        super().__init__(device)
        self._function = function
        self.__name__ = getattr(function, "__name__", "...")

    def __call__(self, *lent: Any) -> Any:
        with self.is_current():
            there = [a.to(self.device, copy=True) if _is_tensor(a) else a for a in lent]
            return self.brought_back(self._function(*there))


class _DeviceRunningBatch(_OnDevice):
    """A running batch under test, whose steps get tensors on a device."""

    def __init__(self, made: Any, device: Any) -> None:
        super().__init__(device)
        self._made = made

    def __getattr__(self, name: str) -> Any:  # Python calls this method for all methods except step
        return getattr(self._made, name)

    def step(self, slots: Any, logits: Any, allowed: Any) -> Any:
        with self.is_current():
            lent = (slots, logits, allowed)
            there = [a.to(self.device, copy=True) if _is_tensor(a) else a for a in lent]
            return self.brought_back(self._made.step(*there))


def device_running_batch(make: Callable[[], Any], device: Any) -> Callable[[], Any]:
    """Returns a function that makes running batches whose steps get tensors on the device."""

    def made() -> Any:
        found = make()
        if not callable(getattr(found, "step", None)):
            return found  # the judge reports methods that do not exist
        # The wrapper keeps the type's name, because messages name the object by its type.
        named = type(type(found).__name__, (_DeviceRunningBatch,), {})
        return named(found, device)

    return made
