"""Defines speculation, which accepts drafted tokens by the target's raw logits
(fairdraw/speculative.h).

A request has up to n drafted tokens and n + 1 rows of the target. Row 0 follows the request's
history, and row i + 1 follows drafted token i (in a tree: node i). The emitted tokens are the
accepted drafts, followed by one token that is drawn from the target. The emitted tokens have the
target's distribution, whatever the drafts are.

>>> found = fairdraw.accept_chain(logits, draft_ids, temperature=0.7, top_p=0.9, seed=seeds, offset=t)
>>> new = found.tokens[0, : found.accepted[0] + 1]     # and the next offset is t + len(new)

After block verification (accept_rule="block") the next offset is t + n + 1 for a request with n
drafts, because the words of all positions take part in the decision.

Rows and drafts have one of two layouts, padded or packed. In the padded layout, the logits are
[batch, n + 1, vocab], and the drafted tokens [batch, n]. In the packed layout, with `row_begins`
[batch + 1], request b has rows row_begins[b] to row_begins[b + 1] of logits [rows, vocab]. The
request's drafted tokens, one fewer than its rows, begin at row_begins[b] - b. `draft_lengths`
[batch] is the number of drafts of each request; entries after these drafts are not read.

The arguments temperature, top_k, top_p, min_p, seed and offset have the same meaning as in
`sample`, with one value or one value per request. With an array of seeds and no distribution of the
drafts, the tokens are those that `sample` draws one by one at offset, offset + 1, and so on.

Calls run on the device of the logits, which is the CPU or an NVIDIA GPU. All other arrays must be
on the device of the logits, and the results are on that device. On a GPU no call waits for the GPU,
and calls can be captured in a CUDA graph whose replays read other drafts. Calls of three kinds do
wait, and are refused while a graph is captured. A call with packed rows but without `max_draft`
waits for `row_begins`. A call with `processing` waits for the drafted tokens, because the host
builds the histories. A call waits for a tensor of one seed or offset for several requests. Python
sequences are copied to the GPU, but not while a graph is captured.

Definition: fairdraw/speculative.h, which names the papers: Leviathan et al. 2023 and Chen et al.
2023 for chains, Sun et al. 2024 for block verification, and those for trees; SGLang for the links
of parents_from_links.

Raises:
    TypeError: An argument is no array or number, or has a wrong dtype or number of axes.
    ValueError: A number is out of its range, a name is unknown, arrays do not fit together, or an
        argument excludes another.
    RuntimeError: No kernel of this build can run on the GPU, the CUDA runtime reports an error, or
        the call would wait while a CUDA graph is captured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from . import _core
from ._arguments import FilterOrder, TieRule, _member, _seed_and_offset
from ._arrays import Backend, backend_of
from ._device_arrays import small_arrays
from ._host_arrays import array, expect_shape, shaped
from ._operations import (
    TABLE,
    Array,
    BackendFor,
    Bits,
    Float,
    Int,
    Operator,
    Sizes,
    _named_by_row,
    lent,
    operation,
)
from .request_processing import RequestProcessing, rows_processing

SiblingSampling = Literal["with_replacement", "without_replacement"]
AcceptRule = Literal["token_wise", "block"]
#: A rule of acceptance is one name for the call, or one per request: a list of names, or an array
#: of the numbers in fairdraw/speculative.h.
AcceptRules: TypeAlias = AcceptRule | Sequence[AcceptRule] | Any

_accept_rules = _named_by_row(_core.AcceptRule, bad_rows_fail=False)

_UNPROCESSED = "calls with processing cannot be captured"


class VerifiedChains(NamedTuple):
    """Results of `accept_chain`."""

    tokens: Any  #: [batch, n + 1] int32; -1 after a request's last token
    accepted: Any  #: [batch] int32: number of accepted drafted tokens; 0 if the request fails
    statuses: Any  #: [batch] int32: 0, or the reason why the request has no token (RowStatus)


class VerifiedTrees(NamedTuple):
    """Results of `accept_tree`."""

    tokens: Any  #: [batch, max_depth + 1] int32; -1 after a request's last token
    nodes: Any  #: [batch, max_depth] int32: numbers of the accepted drafted tokens
    accepted: Any  #: [batch] int32: number of accepted drafted tokens
    statuses: Any  #: [batch] int32


@dataclass(frozen=True)
class LawFilters:
    """Filters of the draft's logits, as `sample` applied them when it drew the draft. Each filter
    is one value, or one value per request."""

    temperature: Float = 1.0
    top_k: Int = 0
    top_p: Float = 1.0
    min_p: Float = 0.0
    tie_rule: TieRule = "keep_all"
    filter_apply_order: FilterOrder = "top_k_first"

    def _lent(self, backend: Backend, batch: int) -> dict[str, Any]:
        return lent(LawFilters, backend, vars(self), batch)


class _Drafted:
    """Requests with drafts in the padded or packed layout."""

    def __init__(
        self,
        backend: Backend,
        logits: Any,
        draft_token_ids: Any,
        row_begins: Any,
        max_draft: int | None,
    ) -> None:
        self.backend = backend
        self.small = small_arrays(self.backend)
        self.axes = 3 if row_begins is None else 2
        if len(logits.shape) != self.axes:
            layout = "[batch, n + 1, vocab]" if row_begins is None else "[rows, vocab]"
            raise TypeError(
                f"logits has {len(logits.shape)} axes; {self.axes} are needed: {layout}"
            )
        if row_begins is None:
            self.batch, rows = logits.shape[:2]
            if rows < 1:
                raise ValueError("logits has 0 rows per request; allowed: >= 1 (n + 1)")
            self.row_begins = None
            self.max_draft = rows - 1
            if max_draft not in (None, self.max_draft):
                raise ValueError(
                    f"max_draft is {max_draft}; allowed: {self.max_draft}, or with row_begins any"
                )
            self.places: tuple[int, ...] = (self.batch, self.max_draft)
        else:
            self.row_begins = self.small.array("row_begins", row_begins, "int64", axes=(1,))
            if len(self.row_begins) < 1:
                raise ValueError("row_begins has 0 values; allowed: >= 1 (batch + 1)")
            self.batch = len(self.row_begins) - 1
            if max_draft is None:
                most = int(np.diff(self.begins("give max_draft")).max(initial=1)) - 1
                max_draft = max(most, 0)
            self.max_draft = max_draft
            if self.max_draft < 0:
                raise ValueError(f"max_draft is {max_draft}; allowed: >= 0")
            self.places = tuple(np.shape(draft_token_ids))
        self.ids = self.small.array("draft_token_ids", draft_token_ids, "int32")
        if tuple(self.ids.shape) != self.places or self.ids.ndim != self.axes - 1:
            layout = str(list(self.places)) if row_begins is None else "[rows - batch]"
            raise ValueError(
                f"draft_token_ids has shape {list(self.ids.shape)}; {layout} is needed"
            )
        self.logits = logits

    def begins(self, instead: str) -> Any:
        """Returns the index of each request's first row, [batch + 1], in host memory."""
        if self.row_begins is None:
            return np.arange(self.batch + 1, dtype=np.int64) * (self.max_draft + 1)
        return self.small.on_host("row_begins", self.row_begins, instead)

    def lengths(self, draft_lengths: Any) -> Any:
        if draft_lengths is None:
            return None
        lengths = self.small.shaped("draft_lengths", draft_lengths, "int32", (self.batch,))
        return lengths

    def draft(
        self, probs: Any, logits: Any, filters: LawFilters | None, places: tuple[int, ...]
    ) -> dict[str, Any]:
        """Returns the arguments about the draft's distribution. `places` is the shape of the
        draft's rows without the vocabulary."""
        law, name, rows = _core.DraftLaw.none, "", None
        if probs is not None and logits is not None:
            raise ValueError("draft_probs and draft_logits are both given; allowed: one of them")
        if probs is not None:
            law, name, rows = _core.DraftLaw.probs, "draft_probs", probs
        elif logits is not None:
            law, name, rows = _core.DraftLaw.logits, "draft_logits", logits
        if filters is not None and law != _core.DraftLaw.logits:
            raise ValueError("draft_filters: are given without draft_logits")
        if rows is not None:
            backend_of(rows, name)  # raises TypeError if row_begins is not an array
            expect_shape(name, rows, (*places, self.logits.shape[-1]))
        filters = LawFilters() if filters is None else filters
        lent_filters = filters._lent(self.backend, self.batch)
        return {"draft_law": law, "draft": rows, "draft_filters": lent_filters}

    def processing(
        self,
        requests: Sequence[RequestProcessing] | None,
        paths: Callable[[int, Any], list[Any]],
    ) -> Any:
        """Returns the processing of all rows. paths(i, ids) returns, for each row of a request, the
        drafted tokens on the path to the row. `ids` are the request's drafted tokens, and i is the
        number of the first of these tokens."""
        if requests is None:
            return None
        if len(requests) != self.batch:
            raise ValueError(f"processing has {len(requests)} entries; {self.batch} are needed")
        begins = self.begins(_UNPROCESSED)
        flat = self.small.on_host("draft_token_ids", self.ids, _UNPROCESSED).reshape(-1)
        nobody = (self.batch, flat[:0])
        rows = [nobody] * (int(np.prod(self.logits.shape[:-1])))
        for b in range(self.batch):
            begin, end = int(begins[b]), int(begins[b + 1])
            # A request whose begin and end are out of range fails, whatever the rows contain.
            if 0 <= begin < end <= len(rows):
                first = begin - b
                rows[begin:end] = [(b, ids) for ids in paths(first, flat[first : end - b - 1])]
        return self.small.uploaded("processing", rows_processing(requests, rows))

    def accept(
        self,
        target: dict[str, Any],
        draft: dict[str, Any],
        draft_lengths: Any,
        depth: int,
        parents: Any = None,
        siblings: Any = _core.SiblingSampling.with_replacement,
        accept_rule: Any = _core.AcceptRule.token_wise,
    ) -> dict[str, Any]:
        """Makes the arrays for tokens, nodes, accepted and statuses, for paths of up to `depth`
        drafted tokens. Without parents the arrays are for chains, which have no nodes."""
        shapes = {"tokens": (depth + 1,), "nodes": (depth,), "accepted": (), "statuses": ()}
        if parents is None:
            del shapes["nodes"]
        found = {
            name: self.backend.empty((self.batch, *shape), "int32")
            for name, shape in shapes.items()
        }
        self.backend.call(
            _core.accept_drafts,
            dict(
                **target,
                **draft,
                max_depth=depth,
                parents=parents,
                draft_lengths=self.lengths(draft_lengths),
                siblings=siblings,
                accept_rule=accept_rule,
                **{"nodes": None, **found},
                workspace=self.backend.allocate,
                make_sets=None,
            ),
        )
        return found

    def target(
        self,
        filters: LawFilters,
        allowed: Any,
        processing: Any,
        active: Any,
        generator: Any,
        seed: Any,
        offset: Any,
    ) -> dict[str, Any]:
        backend = self.backend
        seed, offset = _seed_and_offset(backend, generator, seed, offset, self.batch)
        if allowed is not None:
            backend_of(allowed, "allowed")  # raises TypeError if the value is not an array
            if self.axes == 3 and len(allowed.shape) == 3:
                allowed = allowed.reshape(math.prod(allowed.shape[:2]), allowed.shape[-1])
        if active is not None:
            active = self.small.each("active", active, "uint8", self.batch)
        return {
            "logits": self.logits,
            "filters": filters._lent(backend, self.batch),
            "allowed": allowed,
            "processing": processing,
            "batch": self.batch,
            "row_begins": self.row_begins,
            "active": active,
            "seed": seed,
            "offset": offset,
            "max_draft": self.max_draft,
            "draft_token_ids": self.ids,
        }


def _accepted_sizes(
    logits: Any, row_begins: Any = None, max_draft: int | None = None, **_: Any
) -> Sizes:
    if row_begins is None:
        return {"batch": logits.shape[:1], "positions": logits.shape[1:2]}
    if max_draft is None:
        raise ValueError(
            "max_draft: is needed with row_begins in a compiled function, because it shapes the "
            "result"
        )
    return {"batch": (row_begins.shape[0] - 1,), "positions": (max_draft + 1,)}


_CHAINS = {
    "tokens": ("int32", "batch", "positions"),
    "accepted": ("int32", "batch"),
    "statuses": ("int32", "batch"),
}


@TABLE.declare(
    Operator("verify_chain", _CHAINS),
    sizes=_accepted_sizes,
    groups={"draft_filters": LawFilters},
    core="accept_drafts",
)
@operation
def accept_chain(
    backend_for: BackendFor, logits: Array, draft_token_ids: Array, *, draft_probs: Array = None,
    draft_logits: Array = None, draft_filters: LawFilters | None = None,
    draft_lengths: Array = None, row_begins: Array = None, max_draft: int | None = None,
    temperature: Float = 1.0, top_k: Int = 0, top_p: Float = 1.0, min_p: Float = 0.0,
    tie_rule: TieRule = "keep_all", filter_apply_order: FilterOrder = "top_k_first",
    accept_rule: AcceptRules = "token_wise", allowed: Array = None,
    processing: Sequence[RequestProcessing] | None = None,
    active: Array = None, generator: Any = None, seed: Bits = None, offset: Bits = None,
) -> VerifiedChains:  # fmt: skip
    """Accepts or rejects chains, in which drafted token i follows drafted token i - 1.

    The logits are float32, float16 or bfloat16, and the ids int32 or int64. If the draft's
    distribution is unknown (n-gram, prompt lookup, top-k heads), a token is drawn from the target,
    and the draft is accepted if it is that token. The draft's distribution may be known, as
    probabilities `draft_probs` or logits `draft_logits` (shape of the drafted tokens and [vocab]).
    A draft is then accepted with probability min(1, P / Q). The draft must have been drawn
    independently of this call's bits (as by `sample` with purpose "draft"). Greedy requests always
    follow the rule for drafts with an unknown distribution.

    `accept_rule` applies to drafts of a known distribution: "token_wise" (each draft has a test of
    its own) or "block" (block verification, which accepts the longest prefix of the chain that
    passes, and at least as many drafts on average), or one per request: a list of names, or int32
    [batch]. After a block of n drafts, the next offset is offset + n + 1.

    `allowed` holds packed words, one row of words per row of logits. `processing` holds one
    RequestProcessing per request. Row i sees the first i drafted tokens after the request's output.
    `active` [batch] is False for padding requests. `max_draft` (packed rows) is the maximum number
    of drafted tokens of a request, which determines the shape of the result.
    """
    backend = backend_for(logits, "logits")
    drafted = _Drafted(backend, logits, draft_token_ids, row_begins, max_draft)
    draft = drafted.draft(draft_probs, draft_logits, draft_filters, drafted.places)
    rows = drafted.processing(processing, lambda first, ids: [ids[:i] for i in range(len(ids) + 1)])
    filters = LawFilters(temperature, top_k, top_p, min_p, tie_rule, filter_apply_order)
    target = drafted.target(filters, allowed, rows, active, generator, seed, offset)
    rule = _accept_rules(backend, "accept_rule", accept_rule, drafted.batch)
    return VerifiedChains(
        **drafted.accept(target, draft, draft_lengths, drafted.max_draft, accept_rule=rule)
    )


verify_chain = accept_chain
"""Alias of accept_chain, by the name that engines use."""


def _paths(ids: Any, parents: Any) -> list[Any]:
    """Returns, for each row of a tree, the drafted tokens on the path from the root to the row. (A
    parent that does not come before its child makes the request fail, whatever the rows
    contain.)"""
    paths = [ids[:0]]
    for node in range(len(ids)):
        parent = int(parents[node])
        before = paths[parent + 1] if -1 <= parent < node else paths[0]
        paths.append(np.append(before, ids[node]))
    return paths


@TABLE.declare(core="accept_drafts")
@operation
def accept_tree(
    backend_for: BackendFor, logits: Array, draft_token_ids: Array, parents: Array, *,
    max_depth: int | None = None, draft_probs: Array = None, draft_logits: Array = None,
    draft_filters: LawFilters | None = None, siblings: SiblingSampling = "with_replacement",
    draft_lengths: Array = None, row_begins: Array = None, max_draft: int | None = None,
    temperature: Float = 1.0, top_k: Int = 0, top_p: Float = 1.0, min_p: Float = 0.0,
    tie_rule: TieRule = "keep_all", filter_apply_order: FilterOrder = "top_k_first",
    allowed: Array = None, processing: Sequence[RequestProcessing] | None = None,
    active: Array = None, generator: Any = None, seed: Bits = None, offset: Bits = None,
) -> VerifiedTrees:  # fmt: skip
    """Accepts or rejects trees, in which drafted token j follows drafted token parents[j]. A parent comes
    before its children, and parent -1 is the root. Row 0 of a request belongs to the root, and row
    j + 1 follows drafted token j.

    `parents`, int32 in the shape of the drafted tokens, are numbers of drafted tokens within the
    request. `max_depth` is the maximum number of drafted tokens on a path (default: no limit),
    which determines the shape of the result. Without a distribution of the drafts, the first of
    several children with the same token is accepted.

    `draft_probs` or `draft_logits` have the shape of the logits. Row j is the distribution from
    which the children of node j were drawn, in the order of their numbers; a node has at most 1024
    children. Each child was drawn from the whole distribution (`siblings` "with_replacement"), or
    from the distribution without the earlier children ("without_replacement"). Trees of the most
    probable tokens, and trees pruned by probability, have no distribution of this kind. All other
    arguments have the same meaning as in accept_chain.
    """
    backend = backend_for(logits, "logits")
    drafted = _Drafted(backend, logits, draft_token_ids, row_begins, max_draft)
    draft = drafted.draft(draft_probs, draft_logits, draft_filters, tuple(logits.shape[:-1]))
    drawn = _member("siblings", siblings, _core.SiblingSampling.__members__)
    links = drafted.small.shaped("parents", parents, "int32", tuple(drafted.ids.shape))
    depth = drafted.max_draft if max_depth is None else max_depth
    if depth < 0:
        raise ValueError(f"max_depth is {depth}; allowed: >= 0")
    flat: Any = None
    if processing is not None:
        flat = drafted.small.on_host("parents", links, _UNPROCESSED).reshape(-1)
    rows = drafted.processing(processing, lambda first, ids: _paths(ids, flat[first:]))
    filters = LawFilters(temperature, top_k, top_p, min_p, tie_rule, filter_apply_order)
    target = drafted.target(filters, allowed, rows, active, generator, seed, offset)
    return VerifiedTrees(**drafted.accept(target, draft, draft_lengths, depth, links, drawn))


verify_tree = accept_tree
"""Alias of accept_tree, by the name that engines use."""


def parents_from_links(retrieve_next_token: Any, retrieve_next_sibling: Any) -> Any:
    """Returns parents [batch, nodes - 1] int32 for accept_tree, made from the links [batch, nodes]
    of SGLang's tree kernels (-1: none). Node 0 is the root and no draft. A node that no link
    reaches, or that two links reach, gets a parent below -1, for which accept_tree returns a
    status."""
    backend = backend_of(retrieve_next_token, "retrieve_next_token")
    children = array("retrieve_next_token", retrieve_next_token, "int32", axes=(2,))
    siblings = shaped("retrieve_next_sibling", retrieve_next_sibling, "int32", children.shape)
    batch, nodes = children.shape
    parents = backend.empty((batch, max(nodes - 1, 0)), "int32")
    _core.parents_from_links(children, siblings, batch, nodes, backend.lend(parents))
    return parents
