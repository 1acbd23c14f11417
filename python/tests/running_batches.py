"""Defines running batches for the tests: one on fairdraw's own classes, one with histories kept in
Python, and wrong running batches."""

import numpy as np

import fairdraw

#: Abilities that both correct running batches have.
EXACT = {
    "abilities": (
        "exact_integer",
        "per_request_seeds",
        "float16",
        "allowed_mask",
        "lowest_id_ties",
        "joint_order",
        "processing",
        "reports_status",
    ),
    "randomness": ("seeds", "offsets", "outputs", "samples", "replays"),
}


class OfTheLibrary:
    """Adapts fairdraw's BatchState and FusedSamplingProcessor to the contract's events."""

    def begin(self, slots, vocab, dtype, tie_rule, filter_apply_order):
        self.slots, self.words = slots, (vocab + 31) // 32
        rules = {"tie_rule": tie_rule, "filter_apply_order": filter_apply_order}
        self.state = fairdraw.BatchState(vocab, slots, 8192, **rules)
        self.processor = fairdraw.FusedSamplingProcessor(self.state)
        self.added = 0

    def add(self, slot, request):
        self.added += 1
        self.state.add(self.added, request, slot)

    def restore(self, slot, request, output):
        self.added += 1
        self.state.restore(fairdraw.RequestSnapshot(self.added, request, tuple(output), ()), slot)

    def evict(self, slot):
        self.state.remove(self.state.id_at(slot))

    end = evict

    def step(self, slots, logits, allowed):
        order = np.argsort(slots)
        runs = np.zeros(self.slots + 1, np.int64)
        runs[slots + 1] = 1
        self.processor.clear_bitmask()
        if allowed is not None:
            mask = np.full((self.slots, self.words), 2**32 - 1, np.uint32)
            mask[slots] = allowed
            self.processor.update_bitmask(mask)
        self.processor.step(logits[order], np.cumsum(runs))
        return self.processor.new_tokens()[slots], self.processor.statuses()[slots]


class Kept:
    """A request whose history is a list."""

    def __init__(self, request, output):
        self.request, self.output = request, list(output)
        self.drawn = len(output)  # the offset of the random bits for the next token


class InPython:
    """Keeps requests in a dictionary. Draws each token by one call of fairdraw's kernels that takes
    the request's whole state: a verification of a chain without drafts."""

    def begin(self, slots, vocab, dtype, tie_rule, filter_apply_order):
        self.kept = {}
        self.rules = {"tie_rule": tie_rule, "filter_apply_order": filter_apply_order}

    def add(self, slot, request):
        self.kept[slot] = Kept(request, [])

    def restore(self, slot, request, output):
        self.kept[slot] = Kept(request, output)

    def evict(self, slot):
        del self.kept[slot]

    end = evict

    def parameters(self, slot):
        return self.kept[slot].request

    def draw(self, slot, logits, allowed):
        request, kept = self.parameters(slot), self.kept[slot]
        processing = fairdraw.RequestProcessing(
            output=kept.output,
            **{
                name: getattr(request, name)
                for name in ("repetition_penalty", "frequency_penalty", "presence_penalty", "bias",
                             "min_tokens", "stop_ids", "bad_words", "allowed_ids", "prompt")
            },
        )  # fmt: skip
        found = fairdraw.accept_chain(
            logits[None, None],
            np.empty((1, 0), np.int32),
            temperature=request.temperature,
            top_k=request.top_k,
            top_p=request.top_p,
            min_p=request.min_p,
            allowed=None if allowed is None else allowed[None],
            processing=[processing],
            seed=request.seed,
            offset=request.first_offset + kept.drawn,
            **self.rules,
        )
        return int(found.tokens[0, 0]), int(found.statuses[0])

    def step(self, slots, logits, allowed):
        tokens, statuses = [], []
        for row, slot in enumerate(slots.tolist()):
            token, status = self.draw(slot, logits[row], None if allowed is None else allowed[row])
            tokens.append(token)
            statuses.append(status)
            if token >= 0:
                self.kept[slot].output.append(token)
                self.kept[slot].drawn += 1
        return tokens, statuses


class KeepsTheOutputOfTheEvicted(InPython):
    """Keeps the output of a slot's former request in front of the next request's output, which is
    wrong."""

    def begin(self, *batch):
        super().begin(*batch)
        self.left = {}

    def evict(self, slot):
        self.left[slot] = self.kept.pop(slot).output

    def add(self, slot, request):
        super().add(slot, request)
        self.kept[slot].output = self.left.pop(slot, [])


class StartsTheOffsetAgain(InPython):
    """Draws a restored request's next token with the random bits of its first token, which is
    wrong."""

    def restore(self, slot, request, output):
        super().restore(slot, request, output)
        self.kept[slot].drawn = -request.first_offset


class ParametersOfTheFormerRequest(InPython):
    """Writes parameters to a slot only for the slot's first request, which is wrong."""

    def begin(self, *batch):
        super().begin(*batch)
        self.of_slot = {}

    def parameters(self, slot):
        first = self.of_slot.setdefault(slot, self.kept[slot].request)
        filters = {
            name: getattr(first, name) for name in ("temperature", "top_k", "top_p", "min_p")
        }
        return fairdraw.BatchRequest(**{**vars(self.kept[slot].request), **filters})
