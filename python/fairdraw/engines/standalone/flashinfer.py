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
