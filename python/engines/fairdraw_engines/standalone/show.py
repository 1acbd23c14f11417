"""Shows a sampler's defect. `python show.py case.json` gives the case's row to the sampler's
package, or to a rule written from an engine's source, in rules.py beside this script.

The script prints the errors and ends with 1, or prints "right" and ends with 0. The script needs
NumPy, the package that the case names in `seen_with`, and torch if that package does. A case named
vllm_* uses an installed vllm, or the wheel that the environment variable VLLM_WHEEL names. Only the
called file of the wheel is run, with stand-ins for its other imports.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import inspect
import json
import linecache
import os
import sys
import types
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

#: Ids that the filters keep, or None if a package does not report them, and the drawn tokens.
Answer = tuple["set[int] | None", "list[int]"]


def flashinfer(
    logits: list[float],
    temperature: float,
    top_k: int,
    top_p: float,
    min_p: float,
    draws: int,
    function: str,
    order: str,
) -> Answer:
    """Draws by FlashInfer's samplers (flashinfer-python) for `function`. Needs a CUDA device."""
    import torch
    from flashinfer import sampling

    vocab = len(logits)
    torch.manual_seed(1)
    rows = torch.tensor(np.array(logits, np.float32), device="cuda").expand(draws, vocab)
    t = torch.full((draws,), temperature, dtype=torch.float32, device="cuda")
    k = torch.full((draws,), top_k if top_k > 0 else vocab, dtype=torch.int32, device="cuda")
    p = torch.full((draws,), top_p, dtype=torch.float32, device="cuda")
    if function == "cake":
        from flashinfer import cake_sampling

        probs = sampling.softmax(rows.contiguous(), t)
        tokens = cake_sampling.top_k_top_p_sampling_from_probs(probs, k, p, top_k_max=int(k.max()))
        return None, tokens.tolist()
    if function == "logits":
        inverse = t.reciprocal().masked_fill(t == 0, 0.0)
        tokens = sampling.top_k_top_p_sampling_from_logits(
            (rows * inverse[:, None]).contiguous(),
            k,
            p,
            filter_apply_order=order,
        )
        return None, tokens.tolist()
    probs = sampling.softmax(rows.contiguous(), t)
    if function == "renorm":
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
        filter_apply_order=order,
    )
    return None, tokens.tolist()


def llamacpp(
    logits: list[float], temperature: float, top_k: int, top_p: float, min_p: float, draws: int
) -> Answer:
    """Draws by llama.cpp's chain of top_k, top_p, min_p, temp and dist, via llama-cpp-python."""
    import llama_cpp

    def chain(*samplers: Any) -> Any:
        made = llama_cpp.llama_sampler_chain_init(llama_cpp.llama_sampler_chain_default_params())
        for sampler in samplers:
            llama_cpp.llama_sampler_chain_add(made, sampler)
        return made

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
    # The temperature sampler comes last and drops no token if T is above 0, so that the original
    # logits show the allowed ids.
    values = np.array(logits, np.float32)[left["id"]] if temperature > 0 else left["logit"]
    kept = set(left["id"][values > -np.inf].tolist())
    draw = chain(llama_cpp.llama_sampler_init_dist(1))
    tokens = []
    for _ in range(draws):
        llama_cpp.llama_sampler_apply(draw, ctypes.byref(array))
        tokens.append(int(left["id"][array.selected]))
    return kept, tokens


def llamacpp_typical(logits: list[float], p: float) -> Answer:
    """Keeps tokens by llama.cpp's sampler typical alone, via llama-cpp-python."""
    import llama_cpp

    candidates = np.zeros(len(logits), [("id", np.int32), ("logit", np.float32), ("p", np.float32)])
    candidates["id"] = np.arange(len(logits))
    candidates["logit"] = logits
    data = candidates.ctypes.data_as(ctypes.POINTER(llama_cpp.llama_token_data))
    array = llama_cpp.llama_token_data_array(data=data, size=len(logits), selected=-1, sorted=False)
    sampler = llama_cpp.llama_sampler_init_typical(p, 1)
    llama_cpp.llama_sampler_apply(sampler, ctypes.byref(array))
    llama_cpp.llama_sampler_free(sampler)
    return set(candidates["id"][: array.size].tolist()), []


class Nothing:
    """A stand-in object whose members are functions that do nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


def from_wheel(
    name: str, stand_ins: Mapping[str, Mapping[str, Any]], edits: Mapping[str, str]
) -> Any:
    """Loads a module of the wheel VLLM_WHEEL, with its text edited and with `stand_ins` for its
    imports."""
    for other, content in stand_ins.items():
        sys.modules[other] = types.ModuleType(other)
        sys.modules[other].__dict__.update(content)
    with zipfile.ZipFile(os.environ["VLLM_WHEEL"]) as wheel:
        source = wheel.read(name.replace(".", "/") + ".py").decode()
    for old, new in edits.items():
        source = source.replace(old, new)
    module = types.ModuleType(name)
    # Triton reads a kernel's text again, through the name of its file.
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    exec(compile(source, name, "exec"), module.__dict__)
    return module


def vllm_package(
    logits: list[float], temperature: float, top_k: int, top_p: float, min_p: float, draws: int
) -> Answer:
    """Draws by vLLM's PyTorch path (vllm/v1/sample/ops/topk_topp_sampler.py), in the order of
    vLLM's Sampler."""
    import torch

    name = "vllm.v1.sample.ops.topk_topp_sampler"
    if "VLLM_WHEEL" not in os.environ:
        module = importlib.import_module(name)
    else:
        stand_ins: dict[str, dict[str, Any]] = {
            "vllm": {"envs": Nothing()},
            "vllm._aiter_ops": {"rocm_aiter_ops": Nothing()},
            "vllm.config": {},
            "vllm.config.model": {"PROCESSED_LOGPROBS_MODES": (), "LogprobsMode": str},
            "vllm.logger": {"init_logger": lambda name: Nothing()},
            "vllm.platforms": {"CpuArchEnum": Nothing(), "current_platform": Nothing()},
            "vllm.platforms.interface": {"DeviceCapability": object},
            "vllm.triton_utils": {"HAS_TRITON": False},
        }
        module = from_wheel(name, stand_ins, {})
    vocab = len(logits)
    rows = torch.tensor(np.array(logits, np.float32))[None, :]
    if temperature < 1e-5:
        largest = int(rows.argmax())
        return {largest}, [largest] * draws
    rows = rows / np.float32(temperature)
    if min_p > 0:
        probs = rows.softmax(dim=-1)
        rows[probs < np.float32(min_p) * probs.amax(dim=-1, keepdim=True)] = -float("inf")
    k = torch.tensor([min(top_k, vocab)]) if 0 < top_k < vocab else None
    p = torch.tensor([top_p], dtype=torch.float32) if top_p < 1 else None
    if k is not None or p is not None:
        rows = module.apply_top_k_top_p_pytorch(rows, k, p)
    kept = set(torch.nonzero(rows[0] > -float("inf")).flatten().tolist())
    torch.manual_seed(1)
    probs = rows.softmax(dim=-1).expand(draws, vocab).contiguous()
    return kept, module.random_sample(probs, {}).tolist()


def dispatcher(kernel: Any, **_: Any) -> Any:
    """Launches a kernel with a launcher's arguments, by name, and with the strides of its
    tensors."""

    def decorate(specification: Callable[..., Any]) -> Any:
        signature = inspect.signature(specification)

        def launch(*args: Any, **kwargs: Any) -> None:
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


def triton_module(device: str) -> Any:
    """Returns vLLM's module of its Triton kernel. On the CPU the module comes from a wheel, for
    Triton's interpreter."""
    name = "vllm.v1.sample.ops.topk_topp_triton"
    if "VLLM_WHEEL" not in os.environ:
        return importlib.import_module(name)
    import torch
    import triton
    import triton.language as tl

    class Platform:
        def __getattr__(self, name: str) -> Any:
            mine = ("is_cuda", "is_cuda_alike") if device == "cuda" else ("is_cpu",)
            return lambda *_: name in mine

    def units(*_: Any) -> int:
        if device == "cpu":
            return 1
        return int(torch.cuda.get_device_properties(0).multi_processor_count)

    helper = "vllm.model_executor.warmup.jit_warmup"
    stand_ins: dict[str, dict[str, Any]] = {
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
    # In Triton's interpreter a loop counter is a Python integer.
    edits = {"row_id.to(tl.int64)": "row_id"} if device == "cpu" else {}
    return from_wheel(name, stand_ins, edits)


def vllm_triton(
    logits: list[float], temperature: float, top_k: int, top_p: float, min_p: float, draws: int
) -> Answer:
    """Draws by vLLM's Triton kernel (vllm/v1/sample/ops/topk_topp_triton.py), in the order of
    vLLM's Sampler.

    The function needs a CUDA device, or TRITON_INTERPRET=1 for Triton's interpreter together with
    VLLM_WHEEL.
    """
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    module = triton_module(device)
    vocab = len(logits)
    rows = torch.tensor(np.array(logits, np.float32), device=device)[None, :]
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
        k = torch.tensor([top_k], dtype=torch.int32, device=device)
    p = torch.tensor([top_p], dtype=torch.float32, device=device) if top_p < 1 else None
    if k is not None or p is not None:
        rows = module.apply_top_k_top_p_triton(rows, k, p)
    kept = set(torch.nonzero(rows[0] > -float("inf")).flatten().tolist())
    torch.manual_seed(1)
    probs = rows.softmax(dim=-1).expand(draws, vocab)
    noise = torch.empty_like(probs, memory_format=torch.contiguous_format).exponential_()
    return kept, (probs / noise).argmax(dim=-1).tolist()


def rules() -> Any:
    """Loads rules.py, which is beside this script."""
    file = Path(__file__).with_name("rules.py")
    specification = importlib.util.spec_from_file_location("rules", file)
    assert specification is not None and specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def rule(
    logits: list[float],
    temperature: float,
    top_k: int,
    top_p: float,
    min_p: float,
    draws: int,
    rule: str,
) -> Answer:
    """Draws by a sampler of rules.py."""
    row = np.array(logits, np.float32)
    t, p, m = (float(np.float32(value)) for value in (temperature, top_p, min_p))
    kept, tokens = rules().RULES[rule](1).answer(row, t, top_k, p, m, draws)
    return set(np.flatnonzero(kept).tolist()), tokens.tolist()


def drafted(target: list[float], draft: list[float], draws: int, rule: str) -> Answer:
    """Returns the first tokens after drafts that are drawn from `draft`, by a verifier of
    rules.py."""
    p, q = (
        np.broadcast_to(np.array(law)[None, None], (draws, 2, len(law))) for law in (target, draft)
    )
    tokens = np.random.default_rng(2).choice(len(draft), (draws, 1), p=draft)
    verified = rules().VERIFIERS[rule](1).verify(p, q[:, :1], tokens, np.ones(draws, np.int64))
    return None, verified[:, 0].tolist()


def banned(logits: list[list[float]], banned: list[list[int]], rule: str) -> Answer:
    """Returns the id of the largest logit in a batch's first row, after banning ids in each row."""
    scores = np.array(logits, np.float32)
    getattr(rules(), rule)(scores, banned)
    return None, [int(scores[0].argmax())]


def penalised(
    logits: list[float], prompt: list[int], output: list[int], penalty: float, rule: str
) -> Answer:
    """Returns the id of the largest logit in a row, after the frequency penalty for a history."""
    scores = np.array(logits, np.float32)
    histories = (np.array(history, np.int64) for history in (prompt, output))
    getattr(rules(), rule)(scores, penalty, *histories)
    return None, [int(scores.argmax())]


def green_list(logits: list[float], ids: list[int], key: int, width: int, draws: int) -> Answer:
    """Draws after transformers' WatermarkLogitsProcessor, which gets a text's ids and a row."""
    import torch
    from transformers.generation.logits_process import WatermarkLogitsProcessor

    processor = WatermarkLogitsProcessor(len(logits), "cpu", hashing_key=key, context_width=width)
    row = processor(torch.tensor([ids]), torch.tensor([logits], dtype=torch.float32))[0]
    torch.manual_seed(1)
    return None, torch.multinomial(row.softmax(dim=-1), draws, replacement=True).tolist()


#: Maps the name in a case's `answer` to the function of that name.
ANSWERS: dict[str, Callable[..., Answer]] = {
    "banned": banned,
    "drafted": drafted,
    "flashinfer": flashinfer,
    "green_list": green_list,
    "llamacpp": llamacpp,
    "llamacpp_typical": llamacpp_typical,
    "penalised": penalised,
    "rule": rule,
    "vllm_package": vllm_package,
    "vllm_triton": vllm_triton,
}


def named(tokens: list[int], conjunction: str = "and") -> str:
    """Names at most eight of the tokens, such as "token 3" or "tokens 1, 2 and more"."""
    if len(tokens) == 1:
        return f"token {tokens[0]}"
    shown, last = (tokens[:8], "more") if len(tokens) > 8 else (tokens[:-1], str(tokens[-1]))
    return f"tokens {', '.join(map(str, shown))} {conjunction} {last}"


def faults(
    kept: set[int] | None, tokens: list[int], draws: int, expected: Mapping[str, Any]
) -> list[str]:
    """Returns the errors of an answer, in sentences."""
    wrong = []
    must, may = expected["kept"], expected["may_be_kept"]
    fewest, most = expected["fewest"], expected["most"]
    drawn = {token for token in tokens if token >= 0}
    if kept is not None and must is not None:
        if missing := sorted(set(must) - kept):
            wrong.append(f"The filters drop {named(missing)}, which must be kept.")
        if extra := sorted(kept - set(may)):
            wrong.append(f"The filters keep {named(extra)}, which must be dropped.")
        if not fewest <= len(kept) <= most:
            right = f"{fewest}" if fewest == most else f"{fewest} to {most}"
            wrong.append(f"The number of kept tokens is {len(kept)}, but must be {right}.")
    if kept is not None and (left := sorted(drawn - kept)):
        wrong.append(f"The sampler draws {named(left)}, which its own filters dropped.")
    if must is not None and (outside := sorted(drawn - set(may))):
        wrong.append(f"The sampler draws {named(outside)}, but may only draw {named(may, 'or')}.")
    if expected["must_fail"] and drawn:
        wrong.append(f"The sampler draws {named(sorted(drawn))} from a row without a distribution.")
    for token, low, high in expected["counts"]:
        if not low <= tokens.count(token) <= high:
            wrong.append(
                f"The sampler draws token {token} in {tokens.count(token)} of {draws} draws, but a "
                f"right sampler draws this token in {low} to {high} of them."
            )
    return wrong


def main(file: str) -> int:
    case = json.loads(Path(file).read_text())
    call = dict(case["call"])
    if "logits" in call:  # values that are not finite are names such as "-inf"
        call["logits"] = np.array(call["logits"], np.float64).tolist()
    kept, tokens = ANSWERS[case["answer"]](**call)
    wrong = faults(kept, tokens, len(tokens), case["expected"])
    print("\n".join(wrong) or "right")
    return 1 if wrong else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python show.py case.json")
    raise SystemExit(main(sys.argv[1]))
