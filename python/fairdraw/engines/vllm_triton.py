"""vLLM's Triton kernel for top-k and top-p (topk_topp_triton.py), on a CUDA device.

Judged by profile `vllm_triton`. Called is apply_top_k_top_p_triton of the package's module, then
softmax and vLLM's exponential race; temperature, min_p and greedy rows are those of `vllm_torch`.
The module is that of an installed vllm, or it is read out of the wheel that FAIRDRAW_VLLM_WHEEL
names, and what it imports of vLLM is replaced: facts of the device, and the dispatcher, which
binds a launcher's arguments to the kernel's by name. Nothing of it is kept.

With TRITON_INTERPRET=1 and no device Triton's interpreter runs it, slowly, with the tile sizes that
vLLM has for CPUs and without the pipeline that it has for small batches on CUDA. There the number
of a loop is a Python integer: the one conversion of it to int64 is taken out of what is run.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import linecache
import os
import types
from collections.abc import Callable
from typing import Any

from .._core import Batch
from ._engine import TENSOR_ABILITIES, Engine, Sampler, Unavailable, package, version_of
from ._tensors import exponential_race, generator_of
from .vllm_package import WHEEL, Nothing, stand_ins, wheel_source
from .vllm_torch import before_top_k, draw_or_largest, refused_by_params

MODULE = "vllm.v1.sample.ops.topk_topp_triton"


def _device() -> str:
    torch = package("torch")
    package("triton")
    if torch.cuda.is_available():
        return "cuda"
    if os.environ.get("TRITON_INTERPRET") == "1":
        return "cpu"
    raise Unavailable("torch sees no CUDA device, and TRITON_INTERPRET is not 1")


def _bound(kernel: Any, given: dict[str, Any], launch: dict[str, Any]) -> dict[str, Any]:
    """The kernel's arguments: those of the launch, then those given to the launcher, whose names
    may differ in case and by _ptr, then strides of tensors."""
    arguments = dict(launch)
    for name, value in given.items():
        for spelled in (name, f"{name}_ptr", name.upper(), f"{name.upper()}_PTR"):
            if spelled in kernel.arg_names:
                arguments.setdefault(spelled, value)
    for name in kernel.arg_names:
        tensor, stride, axis = name.upper().rpartition("_STRIDE")
        if stride and name not in arguments:
            held = {key.upper().removesuffix("_PTR"): value for key, value in arguments.items()}
            arguments[name] = held[tensor].stride(int(axis.strip("_") or 0))
    return arguments


def _dispatcher(kernel: Any, **_: Any) -> Callable[..., Any]:
    """Stands in for triton_kernel_dispatcher_with_warmup: launches, and warms nothing up."""

    def decorate(specification: Any) -> Any:
        signature = inspect.signature(specification)

        def launch(*args: Any, **kwargs: Any) -> None:
            given = signature.bind(*args, **kwargs).arguments
            grid, options, *_ = specification(**given)
            kernel[grid](**_bound(kernel, given, options))

        return launch

    return decorate


def _from_wheel(device: str) -> Any:
    triton = package("triton")
    source, _ = wheel_source(MODULE.replace(".", "/") + ".py")
    if device == "cpu":
        source = source.replace("row_id.to(tl.int64)", "row_id")

    def compute_units(*_: Any) -> int:
        if device == "cpu":
            return 1
        properties = package("torch").cuda.get_device_properties(0)
        return int(properties.multi_processor_count)

    platform = type(
        "Platform",
        (Nothing,),
        {
            "is_cpu": lambda self: device == "cpu",
            "is_cuda": lambda self: device == "cuda",
            "is_cuda_alike": lambda self: device == "cuda",
        },
    )()
    members: dict[str, dict[str, Any]] = {
        "vllm": {},
        "vllm.model_executor": {},
        "vllm.model_executor.warmup": {},
        "vllm.model_executor.warmup.jit_warmup": {
            "WarmupChoices": None,
            "WarmupIntRange": None,
            "_when": None,
        },
        "vllm.model_executor.warmup.jit_warmup_triton_helper": {
            "DispatchSpec": tuple,
            "TritonWarmupTensor": None,
            "triton_kernel_dispatcher_with_warmup": _dispatcher,
        },
        "vllm.platforms": {"current_platform": platform},
        "vllm.triton_utils": {"tl": package("triton.language"), "triton": triton},
        "vllm.utils": {},
        "vllm.utils.gpu_sync_debug": {"gpu_sync_allowed": contextlib.nullcontext},
        "vllm.utils.math_utils": {"next_power_of_2": triton.next_power_of_2},
        "vllm.utils.platform_utils": {"num_compute_units": compute_units},
    }
    module = types.ModuleType("fairdraw_vllm_triton")
    file = f"<{WHEEL}:{MODULE}>"
    # Triton reads a kernel's text again, by the name of its file.
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    try:
        with stand_ins(members):
            exec(compile(source, file, "exec"), module.__dict__)
    except Exception as error:
        raise Unavailable(f"{MODULE} of the wheel needs more of vllm: {error}") from error
    return module


def load() -> Any:
    """The module: of an installed vllm, or of the wheel."""
    device = _device()
    if device == "cpu":
        return _from_wheel(device)
    try:
        return importlib.import_module(MODULE)
    except Exception:  # a package for CUDA may raise anything here
        return _from_wheel(device)


def version() -> str:
    load()
    packages = version_of("torch", "triton")
    try:
        packages = f"{version_of('vllm')}, {packages}"
    except Unavailable:
        packages = f"vllm {wheel_source(MODULE.replace('.', '/') + '.py')[1]}, {packages}"
    if _device() == "cpu":
        return f"{packages}, Triton's interpreter"
    return f"{packages}, {package('torch').cuda.get_device_name()}"


def make(seed: int) -> Sampler:
    device = _device()
    module = load()
    generator = generator_of(seed, device)

    def sample(batch: Batch) -> Any:
        greedy, largest, logits, top_k, top_p = before_top_k(batch)
        k = top_k.int().to(device) if (top_k < batch.vocab).any() else None
        p = top_p.float().to(device) if (top_p < 1).any() else None
        logits = logits.to(device)
        if k is not None or p is not None:
            logits = module.apply_top_k_top_p_triton(logits, k, p)
        return draw_or_largest(
            batch,
            greedy.to(device),
            largest.to(device),
            logits,
            lambda probs: exponential_race(probs, generator),
            # A request is refused before the kernel.
            (refused_by_params(batch) | (batch.top_p <= 0)).to(device),
        )

    return sample


ENGINE = Engine(
    name="vllm_triton",
    semantics="vllm_triton",
    calls="vllm: apply_top_k_top_p_triton; softmax, exponential race",
    version=version,
    make=make,
    abilities=TENSOR_ABILITIES,
)
