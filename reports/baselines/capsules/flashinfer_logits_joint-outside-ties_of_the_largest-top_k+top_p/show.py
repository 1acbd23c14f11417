"""flashinfer draws token 0, which cannot be drawn, in a row of 3 tokens with ties of the largest logit and temperature 1, top_k 1, top_p 1e-45.

Seen with flashinfer-python 0.7.2.post1, torch 2.11.0, NVIDIA H100 80GB HBM3. Ends with 1 where it shows, with 0 where it does not.
"""

inf, nan = float('inf'), float('nan')

"""FlashInfer's samplers (flashinfer-python), for capsules. Needs a CUDA device."""

import numpy as np
import torch
from flashinfer import sampling


def answer(logits, temperature, top_k, top_p, min_p, draws):
    """(ids that are kept, or None where a function does not say, and tokens drawn).

    FUNCTION and ORDER say which functions are called.
    """
    vocab = len(logits)
    torch.manual_seed(1)
    rows = torch.tensor(np.array(logits, np.float32), device="cuda").expand(draws, vocab)
    t = torch.full((draws,), temperature, dtype=torch.float32, device="cuda")
    k = torch.full((draws,), top_k if top_k > 0 else vocab, dtype=torch.int32, device="cuda")
    p = torch.full((draws,), top_p, dtype=torch.float32, device="cuda")
    if FUNCTION == "cake":
        from flashinfer import cake_sampling

        probs = sampling.softmax(rows.contiguous(), t)
        tokens = cake_sampling.top_k_top_p_sampling_from_probs(probs, k, p, top_k_max=int(k.max()))
        return None, tokens.tolist()
    if FUNCTION == "logits":
        inverse = t.reciprocal().masked_fill(t == 0, 0.0)
        tokens = sampling.top_k_top_p_sampling_from_logits(
            (rows * inverse[:, None]).contiguous(),
            k,
            p,
            filter_apply_order=ORDER,
        )
        return None, tokens.tolist()
    probs = sampling.softmax(rows.contiguous(), t)
    if FUNCTION == "renorm":
        probs = sampling.top_p_renorm_probs(sampling.top_k_renorm_probs(probs, k), p)
        kept = set(torch.nonzero(probs[0] > 0).flatten().tolist())
        return kept, sampling.sampling_from_probs(probs.contiguous()).tolist()
    if min_p > 0:
        probs = sampling.top_p_renorm_probs(sampling.top_k_renorm_probs(probs, k), p)
        least = torch.full((draws,), min_p, dtype=torch.float32, device="cuda")
        return None, sampling.min_p_sampling_from_probs(probs, least).tolist()
    tokens = sampling.top_k_top_p_sampling_from_probs(
        probs,
        k,
        p,
        filter_apply_order=ORDER,
    )
    return None, tokens.tolist()


FUNCTION = 'logits'
ORDER = 'joint'
LOGITS = [0, 6, 6]
TEMPERATURE = 1
TOP_K = 1
TOP_P = 1e-45
MIN_P = 0
DRAWS = 4
KEPT = [1, 2]
MAY_BE_KEPT = [1, 2]
FEWEST = 2
MOST = 2
MUST_FAIL = False
COUNTS = {}

"""What a capsule's script ends with: the row by its constants, the engine's answer, what was expected."""


def main():
    kept, tokens = answer(LOGITS, TEMPERATURE, TOP_K, TOP_P, MIN_P, DRAWS)
    wrong = []
    if kept is not None and KEPT is not None:
        if missing := sorted(set(KEPT) - kept):
            wrong.append(f"the filters drop {missing[:8]}, which have to stay")
        if extra := sorted(kept - set(MAY_BE_KEPT)):
            wrong.append(f"the filters keep {extra[:8]}, which have to go")
        if not FEWEST <= len(kept) <= MOST:
            wrong.append(f"{len(kept)} tokens stay; expected: {FEWEST} to {MOST}")
    if kept is not None and (left := sorted({t for t in tokens if t >= 0} - kept)):
        wrong.append(f"{left[:8]} are drawn, which the filters of the same call dropped")
    if KEPT is not None and (outside := sorted({t for t in tokens if t >= 0} - set(MAY_BE_KEPT))):
        wrong.append(f"{outside[:8]} are drawn; expected: one of {MAY_BE_KEPT[:8]}")
    if MUST_FAIL and any(t >= 0 for t in tokens):
        wrong.append(f"a row without a distribution gives tokens {sorted(set(tokens))[:8]}")
    for token, (fewest, most) in COUNTS.items():
        if not fewest <= tokens.count(token) <= most:
            wrong.append(
                f"token {token} is drawn {tokens.count(token)} times in {DRAWS}; "
                f"expected: {fewest} to {most}"
            )
    print("\n".join(wrong) or "right")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
