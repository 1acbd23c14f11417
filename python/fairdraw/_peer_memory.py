"""Allocates memory on all ranks of a machine, through which the ranks' kernels exchange blocks
(ShardedPeers of fairdraw/cuda_sharded.h). The memory is torch's symmetric memory, which maps each
rank's piece into all processes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed

from . import _core
from .logprobs import MAX_LOGPROBS

_NO_MULTICAST = "TORCH_SYMM_MEM_DISABLE_MULTICAST"


@dataclass(frozen=True)
class PeerLimits:
    """Limits of the calls that exchange blocks through memory of the ranks. A call beyond the
    limits raises ValueError.

    Definition: docs/sharded.md.

    Raises:
        ValueError: A limit is out of its range, or a call is beyond the limits.
    """

    rows: int  #: maximum number of rows, and of outputs in calls with indices
    num_samples: int = 1
    #: Maximum number of log-probabilities; None if no call requests any.
    logprobs: int | None = None

    def __post_init__(self) -> None:
        self._expect("rows", self.rows, 1, 2**31 - 1)
        self._expect("num_samples", self.num_samples, 1, 2**31 - 1)
        if self.logprobs is not None:
            self._expect("logprobs", self.logprobs, 0, MAX_LOGPROBS)

    @staticmethod
    def _expect(name: str, value: int, least: int, most: int) -> None:
        if not least <= value <= most:
            raise ValueError(f"{name} is {value}; allowed: {least} to {most}")

    def expect(self, rows: int, outputs: int, num_samples: int, logprobs: int | None) -> None:
        """Raises ValueError on all ranks alike if a call is beyond the limits."""
        through = "through peers (PeerLimits)"
        if rows > self.rows:
            raise ValueError(f"logits has {rows} rows; allowed: 0 to {self.rows} {through}")
        if outputs > self.rows:
            raise ValueError(f"indices has {outputs} values; allowed: 0 to {self.rows} {through}")
        if num_samples > self.num_samples:
            raise ValueError(
                f"num_samples is {num_samples}; allowed: 1 to {self.num_samples} {through}"
            )
        if logprobs is not None and logprobs > (-1 if self.logprobs is None else self.logprobs):
            allowed = "None" if self.logprobs is None else f"None, 0 to {self.logprobs}"
            raise ValueError(f"logprobs is {logprobs}; allowed: {allowed} {through}")


@contextmanager
def _without_multicast() -> Iterator[None]:
    """Turns multicast memory off while memory is allocated. torch maps multicast memory if the
    machine reports it. No kernel of fairdraw uses multicast memory, and the mapping fails on
    machines that report multicast memory but do not grant it."""
    before = os.environ.get(_NO_MULTICAST)
    os.environ[_NO_MULTICAST] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_NO_MULTICAST]
        else:
            os.environ[_NO_MULTICAST] = before


class PeerMemory:
    """A piece of memory on the current GPU of each rank. All ranks must construct this object at
    the same time.
    """

    def __init__(
        self,
        group: Any,
        boundaries: Sequence[int],
        limits: PeerLimits,
        gathered: Callable[[Any], Any],
    ) -> None:
        """`gathered` is a function that joins the tensors of all ranks in host memory."""
        try:
            from torch.distributed import _symmetric_memory as symmetric
        except ImportError:
            symmetric = None
        if not hasattr(symmetric, "empty") or not hasattr(symmetric, "rendezvous"):
            raise RuntimeError(
                f"peers: torch is {torch.__version__}; one with symmetric memory (2.6) is needed"
            )
        self.limits = limits
        self.device = torch.device("cuda", torch.cuda.current_device())
        rank = torch.distributed.get_rank(group)
        self.bytes = _core.sharded_peer_bytes(
            dict(
                boundaries=list(boundaries),
                shard=rank,
                max_rows=limits.rows,
                max_samples=limits.num_samples,
                max_logprobs=-1 if limits.logprobs is None else limits.logprobs,
                workspace=self._allocate,
            )
        )
        sizes = gathered(torch.tensor([self.bytes], dtype=torch.int64)).tolist()
        if len(set(sizes)) > 1:
            raise ValueError(
                f"peers: ranks would have pieces of {sizes} bytes; the same limits and columns are "
                "needed on all of them"
            )
        with _without_multicast():
            self._piece = symmetric.empty(self.bytes, dtype=torch.uint8, device=self.device)
            self._handle = symmetric.rendezvous(
                self._piece, torch.distributed.group.WORLD if group is None else group
            )
        #: Addresses of the ranks' pieces of memory, as mapped in this process.
        self.addresses = [
            self._handle.get_buffer(each, (self.bytes,), torch.uint8).data_ptr()
            for each in range(len(sizes))
        ]
        self._piece.zero_()
        torch.cuda.synchronize(self.device)
        # A barrier, so that all pieces are zeroed before any rank begins a call.
        gathered(torch.zeros(1))

    def expect_device(self, name: str, device: Any) -> None:
        if device != self.device:
            raise ValueError(
                f"{name} is on {device}; allowed: {self.device}, with the peers that were made there"
            )

    def _allocate(self, size: int) -> Any:
        return torch.empty(size, dtype=torch.uint8, device=self.device).__dlpack__(stream=-1)
