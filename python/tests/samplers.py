"""Defines samplers for the tests: one on fairdraw's kernels, one in plain NumPy, and wrong
samplers."""

import numpy as np

import fairdraw

#: Declarations of a callable that uses fairdraw.sample.
EXACT = {
    "abilities": (
        "exact_integer",
        "per_request_seeds",
        "float16",
        "allowed_mask",
        "active_rows",
        "indices",
        "num_samples",
        "lowest_id_ties",
        "joint_order",
        "reports_status",
        "reports_support",
        "reports_mask",
        "reports_probs",
        "reports_logprobs",
        "reports_raw",
        "reports_processed",
        "ranks_position",
        "ranks_at_least",
    ),
    "randomness": ("seeds", "offsets", "outputs", "samples", "replays"),
}


def exact(batch):
    """Adapts fairdraw.sample to the contract, and writes every result into the judge's arrays."""
    scalar = batch.seed_is_scalar
    details = fairdraw.sample(
        batch.logits,
        batch.temperature,
        batch.top_k,
        batch.top_p,
        batch.min_p,
        batch.indices,
        allowed=batch.allowed,
        active=batch.active,
        num_samples=batch.num_samples,
        tie_rule=batch.tie_rule,
        filter_apply_order=batch.filter_apply_order,
        seed=int(batch.seed[0]) % 2**64 if scalar else batch.seed,
        offset=int(batch.offset[0]) % 2**64 if scalar else batch.offset,
        return_details=True,
        logprobs=None if batch.out_report_values is None else batch.top_n,
        logprobs_mode=batch.report_mode,
        rank_rule=batch.rank_rule,
    )
    batch.out_tokens[...] = details.tokens.reshape(batch.out_tokens.shape)
    for target, values in (
        (batch.out_statuses, details.statuses),
        (batch.out_support_size, details.support_size),
        (batch.out_logprob, details.logprob),
        (batch.out_logprob_filtered, details.logprob_filtered),
        (batch.out_mask, details.mask),
        (batch.out_probs, details.probs),
    ):
        if target is not None:
            target[...] = values.reshape(target.shape)
    if details.logprobs is not None:
        report(batch, details.logprobs)
    return batch


def report(batch, logprobs):
    """Writes Logprobs into the judge's arrays. Whole rows need a second call, because of
    `top_n`."""
    batch.out_report_values[...] = logprobs.values.reshape(batch.out_report_values.shape)
    if batch.out_report_ranks is not None:
        batch.out_report_ranks[...] = logprobs.ranks.reshape(batch.out_report_ranks.shape)
    if batch.top_n > 0:
        batch.out_report_top_ids[...] = logprobs.top_ids
        batch.out_report_top_values[...] = logprobs.top_values
    if batch.out_report_all is not None:
        no_ids = np.zeros(batch.rows, np.int32)
        if hasattr(batch.logits, "new_tensor"):  # in torch the array is on the device of the rows
            no_ids = batch.logits.new_tensor(no_ids, dtype=batch.out_tokens.dtype)
        batch.out_report_all[...] = fairdraw.log_probabilities(
            batch.logits,
            no_ids,
            -1,
            batch.report_mode,
            temperature=batch.temperature,
            top_k=batch.top_k,
            top_p=batch.top_p,
            min_p=batch.min_p,
            allowed=batch.allowed,
            active=batch.active,
            tie_rule=batch.tie_rule,
            filter_apply_order=batch.filter_apply_order,
        ).all


class Textbook:
    """Draws by softmax, sort and cumulative sum, in float64. The random numbers come from the
    sampler's own generator, which ignores the seeds of the batch."""

    def __init__(self, seed=1, temperature_error=1.0):
        self.random = np.random.default_rng(seed)
        self.temperature_error = temperature_error

    def __call__(self, batch):
        tokens = np.empty(batch.outputs, np.int64)
        for row in range(batch.rows):
            tokens[row] = self.draw(
                batch.logits[row].astype(np.float64),
                float(batch.temperature[row]),
                int(batch.top_k[row]),
                float(batch.top_p[row]),
                float(batch.min_p[row]),
            )
        return tokens

    def draw(self, x, temperature, top_k, top_p, min_p):
        if temperature == 0 or top_k == 1 or top_p == 0:
            return int(np.argmax(x))
        p = np.exp((x - x.max()) / (temperature * self.temperature_error))
        return self.one_of(p, self.kept(p.copy(), top_k, top_p, min_p))

    def kept(self, p, top_k, top_p, min_p):
        p[p < min_p * p.max()] = 0
        if 0 < top_k < len(p):
            p[p < np.partition(p, -top_k)[-top_k]] = 0
        p /= p.sum()
        if top_p < 1:
            order = np.argsort(-p, kind="stable")
            above = np.cumsum(p[order]) - p[order]
            first = np.maximum.accumulate(np.where(np.diff(p[order], prepend=2.0) != 0, above, 0))
            p[order[first >= top_p]] = 0
        return p

    def one_of(self, p, kept):
        """Draws a token. `p` are the probabilities before the filters, and `kept` the probabilities
        after the filters."""
        return self.drawn(kept)

    def drawn(self, p):
        return int(np.searchsorted(np.cumsum(p), self.random.random() * p.sum(), side="right"))


class Proposing(Textbook):
    """Draws without filters until the filters keep the token, at most 64 times, and then draws from
    the kept tokens."""

    def one_of(self, p, kept):
        for _ in range(64):
            token = self.drawn(p)
            if kept[token] > 0:
                return token
        return self.drawn(kept)


#: Declarations of a callable that uses the operations on probabilities.
EXACT_PROBS = {
    "abilities": (
        "exact_integer",
        "per_request_seeds",
        "float16",
        "from_probs",
        "indices",
        "joint_order",
    ),
    "randomness": ("seeds", "offsets", "outputs", "samples", "replays"),
}


def exact_probs(batch):
    """Uses the operations of flashinfer.sampling for rows of probabilities, and the sampler `exact`
    for logits."""
    if batch.input == "logits":
        return exact(batch)
    scalar = batch.seed_is_scalar
    bits = {
        "indices": batch.indices,
        "seed": int(batch.seed[0]) % 2**64 if scalar else batch.seed,
        "offset": int(batch.offset[0]) % 2**64 if scalar else batch.offset,
    }
    if batch.min_p.any():
        return fairdraw.min_p_sampling_from_probs(batch.logits, batch.min_p, **bits)
    return fairdraw.top_k_top_p_sampling_from_probs(
        batch.logits,
        batch.top_k,
        batch.top_p,
        filter_apply_order=batch.filter_apply_order,
        **bits,
    )


class Reporting(Textbook):
    """Reports log-probabilities in float32, as engines do: by log_softmax, with ties in any order.

    `wrong` names a mistake that the sampler makes.
    """

    CLAIM = {
        "abilities": ("indices", "num_samples", "reports_raw", "reports_processed",
                      "ranks_at_least", "allowed_mask"),
        "randomness": (),
    }  # fmt: skip

    def __init__(self, wrong=None):
        super().__init__()
        self.wrong = wrong

    def __call__(self, batch):
        rows = range(batch.rows) if batch.indices is None else batch.indices
        kept = [self.filtered(batch, row) for row in range(batch.rows)]
        for output, row in enumerate(rows):
            sums = np.cumsum(np.exp(kept[row].astype(np.float64) - kept[row].max()))
            uniforms = self.random.random(batch.num_samples) * sums[-1]
            batch.out_tokens[output] = np.searchsorted(sums, uniforms, side="right")
        if batch.out_report_values is None:
            return batch
        values = np.stack([self.values(batch, row, kept[row]) for row in range(batch.rows)])
        if batch.out_report_all is not None:
            batch.out_report_all[...] = values
        for output, row in enumerate(rows):
            own = values[row][batch.out_tokens[output]]
            batch.out_report_values[output] = own
            if batch.out_report_ranks is not None:
                ranks = (values[row] >= own[:, None]).sum(axis=1)
                batch.out_report_ranks[output] = ranks + (self.wrong == "rank")
            order = np.argsort(-values[row])[: batch.top_n]
            there = np.isfinite(values[row][order])
            batch.out_report_top_ids[output] = -1
            batch.out_report_top_ids[output, : len(order)] = np.where(there, order, -1)
            batch.out_report_top_values[output] = -np.inf
            batch.out_report_top_values[output, : len(order)] = values[row][order]
        return batch

    def filtered(self, batch, row):
        """Returns the row divided by its temperature, with -inf outside the mask."""
        x = batch.logits[row].copy()
        if batch.allowed is not None:
            bits = np.unpackbits(batch.allowed[row].view(np.uint8), bitorder="little")
            x[bits[: len(x)] == 0] = -np.inf
        temperature = np.float32(batch.temperature[row])
        if temperature == 0 or batch.top_k[row] == 1 or batch.top_p[row] == 0:
            best = int(np.argmax(x))
            x[np.arange(len(x)) != best] = -np.inf
            return x / (temperature or np.float32(1))
        x = x / temperature
        p = np.exp(x.astype(np.float64) - x.max())
        p[p < batch.min_p[row] * p.max()] = 0
        k = int(batch.top_k[row])
        if 0 < k < len(p):
            p[p < np.partition(p, -k)[-k]] = 0
        if batch.top_p[row] < 1:
            order = np.argsort(-p, kind="stable")
            above = (np.cumsum(p[order]) - p[order]) / p.sum()
            first = np.maximum.accumulate(np.where(np.diff(p[order], prepend=2.0) != 0, above, 0))
            p[order[first >= batch.top_p[row]]] = 0
        x[p == 0] = -np.inf
        return x

    def values(self, batch, row, kept):
        raw = batch.report_mode.startswith("raw")
        x = batch.logits[row] if raw else kept
        if self.wrong == "temperature" and raw:
            x = x / np.float32(batch.temperature[row] or 1)
        if batch.report_mode.endswith("logits"):
            return x.astype(np.float32)
        shifted = x - x.max()
        total = np.exp(shifted).sum(dtype=np.float32)
        return shifted - np.log(total)
