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
