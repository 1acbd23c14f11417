"""Defines verifiers of drafts for the tests: the textbook's verifier in NumPy, subclasses that make
a part of it wrong, and the library's own verifier.
"""

import numpy as np

import fairdraw

_ACCEPT, _RECOVER, _BONUS = 1, 2, 3


def _mixed(state):
    """Returns the finishing hash of SplitMix64 for uint64 arrays."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def uniforms(batch, purpose):
    """Returns random numbers [requests, max_draft + 1] in [0, 1), made from a request's seed, the
    position's offset and a purpose."""
    shape = (batch.requests, 1)
    seed, offset = (np.broadcast_to(a.reshape(-1, 1), shape) for a in (batch.seed, batch.offset))
    index = np.arange(batch.requests, dtype=np.uint64)[:, None] * np.uint64(batch.seed_is_scalar)
    positions = np.arange(batch.max_draft + 1, dtype=np.uint64)
    state = _mixed(seed + np.uint64(0x9E3779B97F4A7C15))
    state = _mixed(state ^ (offset + positions))
    state = _mixed(state ^ (index * np.uint64(4) + np.uint64(purpose)))
    return (state >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _excluded_mass(weights):
    """Returns, for each weight of a row, the sum of the strictly larger weights."""
    order = np.argsort(-weights, axis=-1, kind="stable")
    ranked = np.take_along_axis(weights, order, axis=-1)
    before = ranked.cumsum(axis=-1) - ranked
    later_of_tie = np.zeros(ranked.shape, bool)
    later_of_tie[..., 1:] = ranked[..., 1:] == ranked[..., :-1]
    before = np.maximum.accumulate(np.where(later_of_tie, 0, before), axis=-1)
    found = np.empty_like(weights)
    np.put_along_axis(found, order, before, axis=-1)
    return found


def _filtered(logits, temperature, top_k, top_p, min_p):
    """Returns weights of [requests, rows, vocab] logits after min_p, then top_k, then top_p. Ties
    stay."""
    x = logits.astype(np.float64) - logits.max(axis=-1, keepdims=True)
    t, k, p, m = (a.reshape(-1, 1, 1) for a in (temperature, top_k, top_p, min_p))
    w = np.exp(x / np.where(t == 0, 1, t))
    w = np.where(w < m, 0, w)
    vocab = w.shape[-1]
    place = np.where((k <= 0) | (k > vocab), vocab, k).astype(np.int64) - 1
    kth = np.take_along_axis(-np.sort(-w, axis=-1), np.broadcast_to(place, (*w.shape[:2], 1)), -1)
    w = np.where(w < kth, 0, w)
    w = np.where((_excluded_mass(w) >= p * w.sum(axis=-1, keepdims=True)) & (p < 1), 0, w)
    largest = np.arange(vocab) == x.argmax(axis=-1)[..., None]
    return np.where((t == 0) | (k == 1) | (p == 0), largest, w)


def _distributions(batch):
    """Returns the rows of the target and of the draft, divided by their sums. Padding rows are
    zeros."""
    places = np.arange(batch.max_draft + 1)
    used = (places <= batch.draft_lengths[:, None])[..., None]
    target = np.where(used, batch.target, 0)
    if batch.input == "logits":
        if batch.allowed is not None:
            bits = np.unpackbits(batch.allowed.view(np.uint8), axis=-1, bitorder="little")
            target = np.where(bits[..., : batch.vocab] | ~used, target, -np.inf)
        target = _filtered(target, batch.temperature, batch.top_k, batch.top_p, batch.min_p)
    drafted = np.where(used[:, 1:], batch.draft_tokens[..., None], 0)
    if batch.draft_probs is not None:
        draft = batch.draft_probs
    elif batch.draft_logits is not None:
        parameters = (batch.draft_temperature, batch.draft_top_k, batch.draft_top_p)
        logits = np.where(used[:, 1:], batch.draft_logits, 0)
        draft = _filtered(logits, *parameters, batch.draft_min_p)
    else:  # a drafted token without a distribution has probability 1
        draft = np.arange(batch.vocab) == drafted
    draft = np.where(used[:, 1:], draft, 0)
    target, draft = (d.astype(np.float64) for d in (target, draft))
    target, draft = (d / np.maximum(d.sum(axis=-1, keepdims=True), 1e-300) for d in (target, draft))
    return target, draft, drafted[..., 0]


def _drawn(weights, uniform):
    """Draws by the inverse CDF along the last axis. The weights need not sum to 1."""
    sums = weights.cumsum(axis=-1)
    # If rounding leaves no sum above the random number, the last token with a positive weight is
    # drawn.
    last = weights.shape[-1] - 1 - (weights[..., ::-1] > 0).argmax(axis=-1)
    return np.minimum((sums <= uniform[..., None] * sums[..., -1:]).sum(axis=-1), last)


class Textbook:
    """Accepts a draft with probability min(1, p / q), draws in place of a rejected draft from (p -
    q)+, and draws a bonus token from the target. Subclasses override parts."""

    def uniforms(self, batch, purpose):
        return uniforms(batch, purpose)

    def accepts(self, p, q, uniform):
        """The arguments `p` and `q` are the probabilities of the drafted tokens in the target and
        in the draft, [requests, max_draft]."""
        return uniform * q < p

    def residual(self, target, draft):
        return np.maximum(target - draft, 0)

    def bonus(self, target, draft):
        """Returns weights [requests, rows, vocab] from which the bonus token is drawn, in the row
        after all drafts."""
        return target

    def __call__(self, batch):
        target, draft, drafted = _distributions(batch)
        n, lengths = batch.max_draft, batch.draft_lengths[:, None]
        p, q = (
            np.take_along_axis(d[:, :n], drafted[..., None], axis=-1)[..., 0]
            for d in (target, draft)
        )
        stands = self.accepts(p, q, self.uniforms(batch, _ACCEPT)[:, :n]) | (q == 0) & (p > 0)
        stands &= np.arange(n) < lengths
        accepted = np.logical_and.accumulate(stands, axis=1).sum(axis=1)
        recovered = _drawn(
            self.residual(target[:, :n], draft), self.uniforms(batch, _RECOVER)[:, :n]
        )
        bonus = _drawn(self.bonus(target, draft), self.uniforms(batch, _BONUS))
        requests, last = np.arange(batch.requests), accepted
        own = bonus[requests, last]
        rejected = last < lengths[:, 0]
        own[rejected] = recovered[requests[rejected], last[rejected]]
        tokens = np.full((batch.requests, n + 1), -1)
        kept = np.arange(n) < accepted[:, None]
        tokens[:, :n][kept] = drafted[kept]
        tokens[requests, last] = own
        return self.answer(batch, tokens, accepted, stands)

    def answer(self, batch, tokens, accepted, stands):
        if batch.out_passed is not None:
            batch.out_passed[...] = stands.sum(axis=1)
        return tokens, accepted


class Block(Textbook):
    """Verifies a chain as a block (Sun et al. 2024, Algorithm 2), up to the last position that is
    accepted."""

    def __call__(self, batch):
        target, draft, drafted = _distributions(batch)
        n, lengths = batch.max_draft, batch.draft_lengths
        requests = np.arange(batch.requests)
        u = self.uniforms(batch, _ACCEPT)
        r = np.ones(batch.requests)
        accepted = np.zeros(batch.requests, np.int64)
        left = np.where(lengths[:, None] == 0, target[:, 0], 0)
        if n:
            left = np.where(lengths[:, None] > 0, np.maximum(target[:, 0] - draft[:, 0], 0), left)
        for i in range(n):
            q = draft[requests, i, drafted[:, i]]
            ratio = np.divide(target[requests, i, drafted[:, i]], q, np.zeros(len(q)), where=q > 0)
            r = np.minimum(r * ratio, 1)
            is_last = lengths == i + 1
            rest = r[:, None] * target[:, i + 1]
            if i + 1 < n:
                rest = np.maximum(rest - np.where(is_last[:, None], 0, draft[:, i + 1]), 0)
            total = rest.sum(axis=1)
            whole = total + 1 - r
            h = np.divide(total, whole, np.zeros(len(r)), where=whole > 0)
            stands = (u[:, i] < np.where(is_last, r, h)) & (i < lengths)
            accepted = np.where(stands, i + 1, accepted)
            after = np.where(is_last[:, None], target[:, i + 1], rest)
            left = np.where(stands[:, None], after, left)
        uniform = self.uniforms(batch, _RECOVER)[requests, accepted]
        own = _drawn(left[:, None], uniform[:, None])[:, 0]
        wide = np.pad(drafted, ((0, 0), (0, 1)))
        tokens = np.where(np.arange(n + 1) < accepted[:, None], wide, -1)
        tokens[requests, accepted] = own
        return tokens, accepted


class Library:
    """Verifies drafts by fairdraw.accept_chain with one rule of acceptance."""

    def __init__(self, accept_rule="token_wise"):
        self.accept_rule = accept_rule

    def __call__(self, batch):
        filters = None
        if batch.draft_logits is not None:
            parameters = (batch.draft_temperature, batch.draft_top_k, batch.draft_top_p)
            rules = (batch.tie_rule, batch.filter_apply_order)
            filters = fairdraw.LawFilters(*parameters, batch.draft_min_p, *rules)
        scalar = batch.seed_is_scalar
        found = fairdraw.accept_chain(
            batch.target,
            batch.draft_tokens,
            draft_probs=batch.draft_probs,
            draft_logits=batch.draft_logits,
            draft_filters=filters,
            draft_lengths=batch.draft_lengths,
            temperature=batch.temperature,
            top_k=batch.top_k,
            top_p=batch.top_p,
            min_p=batch.min_p,
            tie_rule=batch.tie_rule,
            filter_apply_order=batch.filter_apply_order,
            allowed=None
            if batch.allowed is None
            else batch.allowed.reshape(-1, batch.allowed.shape[2]),
            active=batch.active,
            seed=int(batch.seed[0]) if scalar else batch.seed,
            offset=int(batch.offset[0]) if scalar else batch.offset,
            accept_rule=self.accept_rule,
        )
        batch.out_tokens[...] = found.tokens
        if batch.out_accepted is not None:
            batch.out_accepted[...] = found.accepted
        if batch.out_statuses is not None:
            batch.out_statuses[...] = found.statuses
        return batch


class Matching(Textbook):
    """Draws a token from the target at each position, and accepts a draft if it equals that
    token."""

    def __call__(self, batch):
        target, _, drafted = _distributions(batch)
        n, lengths = batch.max_draft, batch.draft_lengths[:, None]
        own = _drawn(target, self.uniforms(batch, _BONUS))
        equal = (own[:, :n] == drafted) & (np.arange(n) < lengths)
        accepted = np.logical_and.accumulate(equal, axis=1).sum(axis=1)
        return np.where(np.arange(n + 1) <= accepted[:, None], own, -1), accepted


class AcceptsAlways(Textbook):
    def accepts(self, p, q, uniform):
        return np.ones(p.shape, bool)


class ResidualNotSubtracted(Textbook):
    def residual(self, target, draft):
        return target


class BonusOfTheDraft(Textbook):
    def bonus(self, target, draft):
        return np.concatenate([target[:, :1], draft], axis=1) if draft.shape[1] else target


class RatioInverted(Textbook):
    def accepts(self, p, q, uniform):
        return uniform * p < q


class SeedsIgnored(Textbook):
    def __init__(self):
        self.random = np.random.default_rng(1)

    def uniforms(self, batch, purpose):
        return self.random.random((batch.requests, batch.max_draft + 1))


class OneWordForAll(Textbook):
    """Draws from the residual with the same random number that rejected the draft, which is
    wrong."""

    def uniforms(self, batch, purpose):
        return uniforms(batch, _ACCEPT)


class RejectedDraftsStay(Textbook):
    """Does not clear the drafted tokens after a rejection, which is wrong."""

    def answer(self, batch, tokens, accepted, stands):
        padded = np.concatenate([batch.draft_tokens, tokens[:, -1:]], axis=1)
        return np.where(
            np.arange(batch.max_draft + 1) > accepted[:, None], padded, tokens
        ), accepted


class AcceptsByTarget(Textbook):
    def accepts(self, p, q, uniform):
        return uniform < p


class BonusOfTheRowBefore(Textbook):
    def bonus(self, target, draft):
        return np.concatenate([target[:, :1], target[:, :-1]], axis=1)


class NumpyBatch:
    """A batch of torch tensors converted to NumPy arrays, with unsigned seeds."""

    def __init__(self, batch, arrays):
        self._batch = batch
        for name in arrays:
            value = getattr(batch, name)
            setattr(self, name, None if value is None else value.numpy())
        self.seed, self.offset = self.seed.view(np.uint64), self.offset.view(np.uint64)

    def __getattr__(self, name):
        return getattr(self._batch, name)
