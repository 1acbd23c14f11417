"""Interface of a sampler that keeps the requests of a running batch: `RunningBatch`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from .serving import BatchRequest


class RunningBatch(Protocol):
    """A running batch: requests enter and leave slots, and each step draws a token for some of
    them.

    Methods are called one at a time, in a valid order: `begin` first, `add` and `restore` with a
    free slot, all others with occupied slots. An exception refuses the event, and the case fails
    with the exception's name and text. Only the result of `step` is used.

    A request's token is the one that the sampler draws for the same logits with the request's
    parameters, seed and offset and, if "processing" is among the abilities, with its history: the
    prompt, and the tokens drawn so far. The token does not depend on the slot, on other requests,
    on the order of rows or on earlier contents of the slot. The object appends the token to the
    history and advances the offset by one. A row without a token (-1) leaves its request unchanged.

    Definition: harness/contract/sequence.h.
    """

    def begin(
        self, slots: int, vocab: int, dtype: str, tie_rule: str, filter_apply_order: str
    ) -> object:
        """Begins a new batch with all slots free; earlier batches are forgotten.

        slots: number of slots, numbered from 0. vocab: logits per row. dtype: of the logits:
        "float32", "float16" or "bfloat16". tie_rule: "keep_all" or "lowest_id". filter_apply_order:
        "top_k_first" or "joint". All arguments hold for the whole batch.
        """

    def add(self, slot: int, request: BatchRequest) -> object:
        """Adds a request to a free slot. The request's next token has the offset
        request.first_offset.

        The request's processing fields are neutral unless "processing" is among the abilities.
        """

    def step(self, slots: Any, logits: Any, allowed: Any) -> Any:
        """Draws a token for each of one or more requests.

        slots: [rows] int32, all different, in any order: row i belongs to the request in slots[i].
        logits: [rows, vocab] of the batch's dtype (bfloat16 in NumPy: uint16 bits). allowed: [rows,
        ceil(vocab / 32)] uint32, the packed mask of this step, token t at bit t % 32 of word t //
        32, 1: allowed; or None. With arrays="torch" `allowed` has the same bits as int32. The
        arrays are read-only and lent for this call: an object that keeps an array is not called
        again.

        Returns the tokens, [rows] integers, as an array or a list; -1: no token. With the ability
        "reports_status" `step` returns a tuple (tokens, statuses): statuses are [rows] integers, 0
        or the reason why there is no token (RowStatus in fairdraw/types.h).
        """

    def evict(self, slot: int) -> object:
        """Preempts a request: its slot becomes free, and the object forgets it."""

    def restore(self, slot: int, request: BatchRequest, output: list[int]) -> object:
        """Restores an evicted request in any free slot, from the arguments alone.

        `output`: the tokens that the request has drawn, oldest first; empty without processing. The
        request's next token has the offset request.first_offset + len(output).
        """

    def end(self, slot: int) -> object:
        """Ends a request and frees its slot."""
