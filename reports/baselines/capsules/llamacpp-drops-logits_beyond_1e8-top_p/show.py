"""llama-cpp-python drops token 25, which must stay, in a row of 129 tokens with logits beyond 1e8 and temperature 1, top_p 0.

Seen with llama_cpp_python 0.3.36. Ends with 1 where it shows, with 0 where it does not.
"""

inf, nan = float('inf'), float('nan')

"""llama.cpp's sampler chain of top_k, top_p, min_p, temp and dist, by llama-cpp-python, for capsules."""

import ctypes

import llama_cpp
import numpy as np


def chain(*samplers):
    made = llama_cpp.llama_sampler_chain_init(llama_cpp.llama_sampler_chain_default_params())
    for sampler in samplers:
        llama_cpp.llama_sampler_chain_add(made, sampler)
    return made


def answer(logits, temperature, top_k, top_p, min_p, draws):
    """(ids that the filters keep, tokens drawn)."""
    candidates = np.zeros(len(logits), [("id", np.int32), ("logit", np.float32), ("p", np.float32)])
    candidates["id"] = np.arange(len(logits))
    candidates["logit"] = logits
    data = candidates.ctypes.data_as(ctypes.POINTER(llama_cpp.llama_token_data))
    array = llama_cpp.llama_token_data_array(data=data, size=len(logits), selected=-1, sorted=False)
    filters = chain(
        llama_cpp.llama_sampler_init_top_k(top_k),
        llama_cpp.llama_sampler_init_top_p(top_p, 1),
        llama_cpp.llama_sampler_init_min_p(min_p, 1),
        llama_cpp.llama_sampler_init_temp(temperature),
    )
    llama_cpp.llama_sampler_apply(filters, ctypes.byref(array))
    left = candidates[: array.size]
    # The temperature comes last and, above 0, drops nothing: logits as they were say what is allowed.
    values = np.array(logits, np.float32)[left["id"]] if temperature > 0 else left["logit"]
    kept = set(left["id"][values > -np.inf].tolist())
    draw = chain(llama_cpp.llama_sampler_init_dist(1))
    tokens = []
    for _ in range(draws):
        llama_cpp.llama_sampler_apply(draw, ctypes.byref(array))
        tokens.append(int(left["id"][array.selected]))
    return kept, tokens


LOGITS = [0] * 25 + [2e+35] + [0] * 103
TEMPERATURE = 1
TOP_K = 0
TOP_P = 0
MIN_P = 0
DRAWS = 4
KEPT = [25]
MAY_BE_KEPT = [25]
FEWEST = 1
MOST = 1
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
