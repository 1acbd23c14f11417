"""vllm drops token 1, which must stay, in a row of 2 tokens with ordinary logits and temperature 1, top_p 0.9.

Seen with vllm 0.33.0, torch 2.13.0+cpu, triton 3.7.1, Triton's interpreter. Ends with 1 where it shows, with 0 where it does not.
"""

inf, nan = float('inf'), float('nan')

"""vLLM's Triton kernel (vllm/v1/sample/ops/topk_topp_triton.py), for capsules.

Needs a CUDA device, or TRITON_INTERPRET=1 for Triton's interpreter. Uses an installed vllm, or the
wheel that the environment variable VLLM_WHEEL names (with the interpreter always): the one file of it,
with stand-ins for what it imports of the rest.
"""

import contextlib
import importlib
import inspect
import linecache
import os
import sys
import types
import zipfile

import numpy as np
import torch

MODULE = "vllm.v1.sample.ops.topk_topp_triton"
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def dispatcher(kernel, **_):
    """Launches a kernel with a launcher's arguments, by name; strides are those of its tensors."""

    def decorate(specification):
        signature = inspect.signature(specification)

        def launch(*args, **kwargs):
            given = signature.bind(*args, **kwargs).arguments
            grid, options, *_ = specification(**given)
            arguments = dict(options)
            for name, value in given.items():
                for spelled in (name, f"{name}_ptr", name.upper(), f"{name.upper()}_PTR"):
                    if spelled in kernel.arg_names:
                        arguments.setdefault(spelled, value)
            for name in kernel.arg_names:
                tensor, stride, axis = name.upper().rpartition("_STRIDE")
                if stride and name not in arguments:
                    held = {key.upper().removesuffix("_PTR"): v for key, v in arguments.items()}
                    arguments[name] = held[tensor].stride(int(axis.strip("_") or 0))
            kernel[grid](**arguments)

        return launch

    return decorate


def load():
    if "VLLM_WHEEL" not in os.environ:
        return importlib.import_module(MODULE)
    import triton
    import triton.language as tl

    class Platform:
        def __getattr__(self, name):
            mine = ("is_cuda", "is_cuda_alike") if DEVICE == "cuda" else ("is_cpu",)
            return lambda *_: name in mine

    def units(*_):
        if DEVICE == "cpu":
            return 1
        return torch.cuda.get_device_properties(0).multi_processor_count

    helper = "vllm.model_executor.warmup.jit_warmup"
    members = {
        "vllm": {},
        "vllm.model_executor": {},
        "vllm.model_executor.warmup": {},
        helper: {"WarmupChoices": None, "WarmupIntRange": None, "_when": None},
        f"{helper}_triton_helper": {
            "DispatchSpec": tuple,
            "TritonWarmupTensor": None,
            "triton_kernel_dispatcher_with_warmup": dispatcher,
        },
        "vllm.platforms": {"current_platform": Platform()},
        "vllm.triton_utils": {"tl": tl, "triton": triton},
        "vllm.utils": {},
        "vllm.utils.gpu_sync_debug": {"gpu_sync_allowed": contextlib.nullcontext},
        "vllm.utils.math_utils": {"next_power_of_2": triton.next_power_of_2},
        "vllm.utils.platform_utils": {"num_compute_units": units},
    }
    for name, content in members.items():
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__dict__.update(content)
    with zipfile.ZipFile(os.environ["VLLM_WHEEL"]) as wheel:
        source = wheel.read(MODULE.replace(".", "/") + ".py").decode()
    if DEVICE == "cpu":  # in the interpreter the number of a loop is a Python integer
        source = source.replace("row_id.to(tl.int64)", "row_id")
    module = types.ModuleType("vllm_triton")
    # Triton reads a kernel's text again, by the name of its file.
    linecache.cache["vllm_triton"] = (len(source), None, source.splitlines(True), "vllm_triton")
    exec(compile(source, "vllm_triton", "exec"), module.__dict__)
    return module


def answer(logits, temperature, top_k, top_p, min_p, draws):
    """(ids that the filters keep, tokens drawn): the steps of vLLM's Sampler in their order."""
    module = load()
    vocab = len(logits)
    rows = torch.tensor(np.array(logits, np.float32), device=DEVICE)[None, :]
    if temperature < 1e-5:
        largest = int(rows.argmax())
        return {largest}, [largest] * draws
    rows = rows / float(np.float32(temperature))
    if min_p > 0:
        probs = rows.softmax(dim=-1)
        least = float(np.float32(min_p)) * probs.amax(dim=-1, keepdim=True)
        rows[probs < least] = -float("inf")
    k = None
    if 0 < top_k < vocab:
        k = torch.tensor([top_k], dtype=torch.int32, device=DEVICE)
    p = torch.tensor([top_p], dtype=torch.float32, device=DEVICE) if top_p < 1 else None
    if k is not None or p is not None:
        rows = module.apply_top_k_top_p_triton(rows, k, p)
    kept = set(torch.nonzero(rows[0] > -float("inf")).flatten().tolist())
    torch.manual_seed(1)
    probs = rows.softmax(dim=-1).expand(draws, vocab)
    noise = torch.empty_like(probs, memory_format=torch.contiguous_format).exponential_()
    return kept, (probs / noise).argmax(dim=-1).tolist()


LOGITS = [0.5, 0]
TEMPERATURE = 1
TOP_K = 0
TOP_P = 0.9
MIN_P = 0
DRAWS = 4
KEPT = [0, 1]
MAY_BE_KEPT = [0, 1]
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
