"""Returns kept sets, which are the ids that survived the filters, from the call that draws the
tokens (fairdraw/kept_sets.h).

>>> drawn = fairdraw.sample_with_kept_sets(logits, top_p=0.95, seed=7)
>>> drawn.tokens, drawn.logprobs          # log-probabilities among the survivors
>>> drawn.kept.of(0)                      # ids of output 0, ascending
>>> drawn.kept.to_sampling_mask()         # lists of ids and of offsets: vLLM's SamplingMask

On a GPU no call waits for the GPU, so that the calls can be captured in a graph. On a GPU token_ids
has all of the room, of which the sets use the first offsets[-1] ids. `of`, `trimmed` and
to_sampling_mask read offsets[-1], and so wait for the GPU. A trainer computes the same distribution from
its own logits with fairdraw.torch.replay_logprobs.

Definition: vLLM's SamplingMask for the layout; fairdraw/kept_sets.h for the sets.

Raises:
    TypeError: An argument is no array or number, or has a wrong dtype or number of axes.
    ValueError: A number is out of its range, a name is unknown, or an array has a wrong length,
        stride or device.
    RuntimeError: No kernel of this build can run on the GPU, the CUDA runtime reports an error, or
        the call would wait while a CUDA graph is captured.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from . import _core
from ._arguments import FilterOrders, Purpose, TieRules
from ._arrays import Backend, TorchBackend, backend_of, length
from ._operations import DETAILS, TABLE, empty, over
from .request_processing import RequestProcessing
from .sampling import drawing, sampled_sizes
from .speculative import VerifiedChains, VerifiedTrees, accept_chain, accept_tree

#: Default room per output, counted in ids.
_ROOM_AN_OUTPUT = 4096


class KeptSets(NamedTuple):
    """Kept sets of ids, one set after the other, in the layout of vLLM's SamplingMask."""

    #: [offsets[-1]] int32, ascending within a set; on a GPU unused room follows the last set.
    token_ids: Any
    offsets: Any  #: [outputs + 1] int64: output i has the ids token_ids[offsets[i]:offsets[i + 1]]
    overflow: Any  #: [outputs] bool: true if the set did not fit into the room, and is empty here

    def of(self, output: int) -> Any:
        """Returns the kept ids of an output.

        Raises:
            IndexError: There is no such output.
        """
        return self.token_ids[int(self.offsets[output]) : int(self.offsets[output + 1])]

    def trimmed(self) -> KeptSets:
        """Returns the same sets without the unused room after the last set."""
        return self._replace(token_ids=self.token_ids[: int(self.offsets[-1])])

    def to_sampling_mask(self) -> tuple[list[int], list[int]]:
        """Returns token_ids and offsets as the lists of a vLLM SamplingMask."""
        return self.trimmed().token_ids.tolist(), self.offsets.tolist()

    @classmethod
    def from_sampling_mask(
        cls, token_ids: Sequence[int], offsets: Sequence[int], device: Any = None
    ) -> KeptSets:
        """Makes kept sets from the lists of a vLLM SamplingMask.

        The arrays are NumPy's, or tensors on `device`.

        Raises:
            ValueError: The lists do not form sets.
        """
        ids = np.asarray(token_ids, np.int32).reshape(-1)
        begins = np.asarray(offsets, np.int64).reshape(-1)
        if len(begins) == 0 or begins[0] != 0 or begins[-1] != len(ids):
            raise ValueError(f"offsets: 0 to {len(ids)}, the number of ids, are needed")
        if (np.diff(begins) < 0).any():
            raise ValueError("offsets: fall; allowed: offsets that do not")
        overflow = np.zeros(len(begins) - 1, bool)
        if device is None:
            return cls(ids, begins, overflow)
        import torch  # imported only for callers who name a torch device

        return cls(*(torch.tensor(array, device=device) for array in (ids, begins, overflow)))


class KeptSample(NamedTuple):
    """Drawn tokens, and the kept sets from which the tokens were drawn."""

    tokens: Any  #: [outputs] int32; -1 if the status is not 0
    logprobs: Any  #: [outputs] float32, log-probability of the token among the survivors
    kept: KeptSets
    statuses: Any  #: [outputs] int32, RowStatus of fairdraw/types.h
    seed: Any  #: the seed with which the tokens were drawn, given or fresh


@TABLE.declare()
def sample_with_kept_sets(
    logits: Any, temperature: Any = 1.0, top_k: Any = 0, top_p: Any = 1.0, min_p: Any = 0.0,
    indices: Any = None, *, room: int | None = None, allowed: Any = None, active: Any = None,
    tie_rule: TieRules = "keep_all", filter_apply_order: FilterOrders = "top_k_first",
    generator: Any = None, seed: Any = None, offset: Any = None, purpose: Purpose = "draw",
    top_n_sigma: Any = 0.0, processing: Sequence[RequestProcessing] | None = None,
) -> KeptSample:  # fmt: skip
    """Draws as `fairdraw.sample` does, one token per output, and also returns the kept set of each
    output.

    `room` is the number of ids that the sets of all outputs together may take (default: 4096 per
    output). A set that does not fit into the room is left out, and `overflow` marks its output.
    """
    given = {**locals(), "num_samples": 1}
    backend = backend_of(logits, "logits")
    sizes = sampled_sizes(**given)
    (outputs,) = sizes["outputs"]
    sets = _sets(backend, outputs, int(logits.shape[-1]), room)
    call, drawn_with = drawing(backend, given, outputs)
    wanted = ("tokens", "statuses", "logprob_filtered")
    found = empty(backend, {name: DETAILS[name] for name in wanted}, sizes)
    call.update(found, sets=sets, workspace=backend.allocate)
    backend.call(_core.sample_with_kept_sets, call)
    tokens, statuses, logprobs = found.values()
    return KeptSample(tokens, logprobs, _found(backend, sets), statuses, drawn_with)


@TABLE.declare()
def kept_sets_of_mask(
    mask: Any,
    vocab: int,
    first_id: int = 0,
    indices: Any = None,
    *,
    statuses: Any = None,
    room: int | None = None,
) -> KeptSets:
    """Returns the kept sets of a call that returned a mask of packed words [rows, ceil(vocab /
    32)].

    `first_id` is the token id of the mask's first column. With `first_id` a rank of a
    ShardedSampler gets the ids of its own columns. The concatenation of an output's sets on all
    ranks is the set over the whole vocabulary:

    >>> found = sampler(local_logits, top_p=0.95, seed=seeds, return_details=True)
    >>> kept = fairdraw.kept_sets_of_mask(found.mask, local_logits.shape[1], first_column,
    ...                                   statuses=found.statuses)

    Output i belongs to row indices[i], or to row i without indices. `statuses` [outputs] int32 are
    the outputs' statuses. An output whose status is not 0 has no set, because the mask of a padding
    row is undefined. `room` as above.
    """
    backend = backend_of(mask, "mask")
    outputs = length(mask) if indices is None else length(indices)
    sets = _sets(backend, outputs, vocab, room)
    backend.call(
        _core.kept_sets_of_mask,
        dict(
            mask=mask,
            vocab=vocab,
            first_id=first_id,
            indices=backend.indices(indices),
            statuses=statuses,
            sets=sets,
            workspace=backend.allocate,
        ),
    )
    return _found(backend, sets)


class KeptChains(NamedTuple):
    """Verified chains, and the kept sets from which their tokens were drawn."""

    verified: VerifiedChains
    kept: KeptSets  #: one kept set for each slot of verified.tokens, row after row


class KeptTrees(NamedTuple):
    """Verified trees, and the kept sets from which their tokens were drawn."""

    verified: VerifiedTrees
    kept: KeptSets  #: one kept set for each slot of verified.tokens, row after row


@TABLE.declare(core="accept_drafts")
def accept_chain_with_kept_sets(*args: Any, room: int | None = None, **kwargs: Any) -> KeptChains:
    """Accepts drafts as `fairdraw.accept_chain` does, and returns a kept set for each emitted
    token: the tokens of its target row that survived the filters. Slots after a request's last
    token have empty kept sets. `room` as above."""
    return KeptChains(*_with_sets(accept_chain, args, kwargs, room))


verify_chain_with_kept_sets = accept_chain_with_kept_sets
"""Alias of accept_chain_with_kept_sets, by the name that engines use."""


@TABLE.declare(core="accept_drafts")
def accept_tree_with_kept_sets(*args: Any, room: int | None = None, **kwargs: Any) -> KeptTrees:
    """Accepts drafts as `fairdraw.accept_tree` does, and returns a kept set for each emitted
    token."""
    return KeptTrees(*_with_sets(accept_tree, args, kwargs, room))


verify_tree_with_kept_sets = accept_tree_with_kept_sets
"""Alias of accept_tree_with_kept_sets, by the name that engines use."""


def _with_sets(
    public: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], room: int | None
) -> tuple[Any, KeptSets]:
    found: list[KeptSets] = []

    def backend_for(rows: Any, name: str) -> Backend:
        backend = backend_of(rows, name)

        def call(function: Any, named: dict[str, Any]) -> None:
            made: list[dict[str, Any]] = []

            def make_sets(places: int) -> Any:
                made.append(_sets(backend, places, int(rows.shape[-1]), room))
                return backend.lend(made[0])

            backend.call(function, {**named, "make_sets": make_sets})
            found.append(_found(backend, made[0]))

        keeping = copy.copy(backend)
        vars(keeping)["call"] = call
        return keeping

    return over(backend_for, public)(*args, **kwargs), found[0]


def _sets(backend: Backend, outputs: int, vocab: int, room: int | None) -> dict[str, Any]:
    """Makes the arrays for kept sets that the compiled module takes."""
    if room is None:
        room = outputs * min(_ROOM_AN_OUTPUT, vocab)
    if room < 0:
        raise ValueError(f"room is {room}; allowed: >= 0")
    return {
        "token_ids": backend.empty((room,), "int32"),
        "offsets": backend.empty((outputs + 1,), "int64"),
        "overflow": backend.empty((outputs,), "uint8"),
        "room": room,
    }


def _found(backend: Backend, sets: dict[str, Any]) -> KeptSets:
    kept = KeptSets(sets["token_ids"], sets["offsets"], sets["overflow"] != 0)
    on_gpu = isinstance(backend, TorchBackend) and backend.on_gpu
    return kept if on_gpu else kept.trimmed()
