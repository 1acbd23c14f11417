"""Defines `RunningBatch`, the interface of a sampler that keeps the requests of a running batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from .serving import BatchRequest


class RunningBatch(Protocol):
    """A running batch: requests enter and leave slots, and each step draws a token for some of the
    requests.

    Methods are called one at a time, in a valid order: `begin` first, `add` and `restore` with a
    free slot, and all other methods with occupied slots. By raising an exception, a method refuses
    its event. The case then fails, and shows the exception's name and text. The judge uses only the
    result of `step`.

    A request's token is the token that the sampler draws for the same logits with the request's
    parameters, seed and offset. If "processing" is among the abilities, the token also depends on
    the request's history: the prompt, and the tokens drawn so far. The token does not depend on the
    slot, on other requests, on the order of rows, or on the slot's earlier contents. The object
    appends the token to the request's history and advances the request's offset by one. A row
    without a token (-1) leaves its request unchanged.

    Definition: harness/contract/sequence.h.
    """

    def begin(
        self, slots: int, vocab: int, dtype: str, tie_rule: str, filter_apply_order: str
    ) -> object:
        """Begins a new batch with all slots free. Earlier batches are forgotten.

        `slots` is the number of slots, which are numbered from 0. `vocab` is the number of logits
        per row. `dtype` is the dtype of the logits: "float32", "float16" or "bfloat16". `tie_rule`
        is "keep_all" or "lowest_id". `filter_apply_order` is "top_k_first" or "joint". All
        arguments hold for the whole batch.
        """

    def add(self, slot: int, request: BatchRequest) -> object:
        """Adds a request to a free slot. The request's next token has the offset
        request.first_offset.

        The request's processing fields are neutral unless "processing" is among the abilities.
        """

    def step(self, slots: Any, logits: Any, allowed: Any) -> Any:
        """Draws a token for each of the given requests, of which there is at least one.

        `slots` [rows] int32 are all different, in any order: row i belongs to the request in
        slots[i]. `logits` [rows, vocab] have the batch's dtype (bfloat16 in NumPy: uint16 bits).
        `allowed` [rows, ceil(vocab / 32)] uint32 is the packed mask of this step, or None. Token t
        is bit t % 32 of word t // 32 of the mask, and 1 means allowed. With arrays="torch"
        `allowed` has the same bits as int32. The arrays are read-only and lent for this call. An
        object that keeps an array is not called again.

        Returns the tokens as [rows] integers, an array or a list; -1 stands for no token. With the
        ability "reports_status" `step` returns a tuple (tokens, statuses). The statuses are [rows]
        integers: 0, or the reason why there is no token (RowStatus in fairdraw/types.h).
        """

    def evict(self, slot: int) -> object:
        """Preempts a request. The request's slot becomes free, and the object forgets the
        request."""

    def restore(self, slot: int, request: BatchRequest, output: list[int]) -> object:
        """Restores a preempted request in any free slot, from the arguments alone.

        `output` holds the tokens that the request has drawn, oldest first; `output` is empty
        without processing. The request's next token has the offset request.first_offset +
        len(output).
        """

    def end(self, slot: int) -> object:
        """Ends a request and frees its slot."""
