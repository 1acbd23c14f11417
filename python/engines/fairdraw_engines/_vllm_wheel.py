"""Loads files of vLLM, from an installed vLLM or from its wheel, for adapters and benchmarks. Reads
files of SGLang's wheel, too.

vLLM can be installed only with CUDA, but single files of it run without CUDA. FAIRDRAW_VLLM_WHEEL
names a wheel (`pip download --no-deps vllm`, or the part that suites/gpu/fetch_peers extracts). A
file's text runs unchanged, and its imports from the rest of vLLM are replaced by stand-ins with the
few values that the file needs. For Triton kernels the stand-ins are the device's properties, and
the dispatcher, which binds a launcher's arguments to the kernel's arguments by name. The stand-ins
are removed after the import.

This module imports no other module of fairdraw.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import linecache
import os
import re
import sys
import types
import zipfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ._packages import Unavailable, package, version_of

WHEEL = "FAIRDRAW_VLLM_WHEEL"
#: Returns the members of stand-in modules, by the modules' names.
Needs = Callable[[], Mapping[str, Mapping[str, Any]]]


def path_of(module: str) -> str:
    """Returns the path of a module's file in a wheel."""
    return module.replace(".", "/") + ".py"


def wheel_source(path_inside: str, engine: str = "vllm") -> tuple[str, str]:
    """Returns a file's text from an engine's wheel, which FAIRDRAW_VLLM_WHEEL or
    FAIRDRAW_SGLANG_WHEEL names, and the wheel's version."""
    variable = f"FAIRDRAW_{engine.upper()}_WHEEL"
    wheel = os.environ.get(variable)
    if not wheel:
        raise Unavailable(f"{engine} is not installed, and {variable} names no wheel of it")
    named = re.match(rf"{engine}-([^-]+)-", os.path.basename(wheel))
    if not named:
        raise Unavailable(f"{variable} is {wheel}: not named as a wheel of {engine} is")
    try:
        with zipfile.ZipFile(wheel) as archive:
            return archive.read(path_inside).decode(), named[1]
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise Unavailable(f"{variable}: {wheel}: {error}") from error


@contextlib.contextmanager
def stand_ins(modules: dict[str, dict[str, Any]]) -> Iterator[None]:
    """Puts stand-in modules with these members into sys.modules while the body of the with
    statement imports."""
    before = {name: sys.modules.get(name) for name in modules}
    for name, members in modules.items():
        module = types.ModuleType(name)
        module.__dict__.update(members)
        module.__path__ = []
        sys.modules[name] = module
    for name in modules:  # `from vllm import envs` reads an attribute of the parent package
        parent, _, child = name.rpartition(".")
        if parent in modules:
            setattr(sys.modules[parent], child, sys.modules[name])
    try:
        yield
    finally:
        for name, module_before in before.items():
            if module_before is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module_before


class Nothing:
    """A stand-in whose every attribute is a function that returns None. The stand-in replaces
    vLLM's loggers and platforms."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


class NoTriton(Nothing):
    """A stand-in for Triton that lets files define kernels, but not call them."""

    @staticmethod
    def jit(kernel: Any = None, **_: Any) -> Any:
        return (lambda decorated: decorated) if kernel is None else kernel


def triton_device() -> str:
    """Returns the device that runs Triton kernels: "cuda", or "cpu" for Triton's interpreter."""
    torch = package("torch")
    package("triton")
    if torch.cuda.is_available():
        return "cuda"
    if os.environ.get("TRITON_INTERPRET") == "1":
        return "cpu"
    raise Unavailable("torch sees no CUDA device, and TRITON_INTERPRET is not 1")


def _bound(kernel: Any, given: dict[str, Any], launch: dict[str, Any]) -> dict[str, Any]:
    """Returns the kernel's arguments: first those of the launch, then the launcher's arguments,
    whose names may differ in case and by a suffix _ptr, then the tensors' strides."""
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
    """Replaces vLLM's triton_kernel_dispatcher_with_warmup by a dispatcher that launches without a
    warm-up.
    """

    def decorate(specification: Any) -> Any:
        signature = inspect.signature(specification)

        def launch(*args: Any, **kwargs: Any) -> None:
            given = signature.bind(*args, **kwargs).arguments
            grid, options, *_ = specification(**given)
            kernel[grid](**_bound(kernel, given, options))

        return launch

    return decorate


def _compute_units(*_: Any) -> int:
    if triton_device() == "cpu":
        return 1
    return int(package("torch").cuda.get_device_properties(0).multi_processor_count)


def _device_functions(device: str) -> Any:
    """Returns the module that vLLM calls tldevice. On a GPU this module has CUDA's functions. Triton's interpreter cannot call
    CUDA's functions, and gets a log1p written in Triton's language."""
    if device == "cuda":
        return package("triton.language.extra.libdevice")
    tl = package("triton.language")
    return types.SimpleNamespace(log1p=lambda value: tl.log(1 + value))


def _facts(device: str) -> dict[str, dict[str, Any]]:
    """Returns stand-ins for the imports of the kernels' files from the rest of vLLM."""
    triton = package("triton")
    platform = type(
        "Platform",
        (Nothing,),
        {
            "is_cpu": lambda self: device == "cpu",
            "is_cuda": lambda self: device == "cuda",
            "is_cuda_alike": lambda self: device == "cuda",
        },
    )()
    return {
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
        "vllm.triton_utils": {
            "HAS_TRITON": True,
            "tl": package("triton.language"),
            "tldevice": _device_functions(device),
            "triton": triton,
        },
        "vllm.utils": {},
        "vllm.utils.gpu_sync_debug": {"gpu_sync_allowed": contextlib.nullcontext},
        "vllm.utils.math_utils": {"next_power_of_2": triton.next_power_of_2},
        "vllm.utils.platform_utils": {"num_compute_units": _compute_units},
    }


def _with_parents(modules: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Adds the parent packages of the modules. A parent package comes before its children."""
    found: dict[str, dict[str, Any]] = {}
    for name, members in sorted(modules.items()):
        parts = name.split(".")
        for end in range(1, len(parts)):
            found.setdefault(".".join(parts[:end]), {})
        found[name] = dict(members)
    return found


@functools.cache
def _triton_module_of(name: str, source: str, device: str, needs: Needs | None) -> Any:
    """Loads one module for all calls, because a new module would compile all of its kernels
    again."""
    if device == "cpu":
        # In Triton's interpreter a loop counter is a Python integer.
        source = source.replace("row_id.to(tl.int64)", "row_id")
    module = types.ModuleType("fairdraw_" + name.replace(".", "_"))
    file = f"<{WHEEL}:{name}>"
    # Triton reads a kernel's text again, through the name of its file.
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    try:
        with stand_ins(_with_parents({**_facts(device), **(needs() if needs else {})})):
            exec(compile(source, file, "exec"), module.__dict__)
    except Exception as error:
        raise Unavailable(f"{name} of the wheel needs more of vllm: {error}") from error
    return module


def triton_module(name: str, needs: Needs | None = None) -> Any:
    """Returns a module of Triton kernels, from an installed vllm or from the wheel.

    `needs` gives the members of further modules that the kernels import. `needs` is called once,
    and only for the wheel.
    """
    device = triton_device()
    if device != "cpu":
        with contextlib.suppress(Exception):  # a CUDA package may raise any exception
            return importlib.import_module(name)
    return _triton_module_of(name, wheel_source(path_of(name))[0], device, needs)


def version_with(module: str, *others: str, engine: str = "vllm") -> str:
    """Returns the versions of other packages and of the engine, which is installed or is in the
    wheel's name."""
    packages = version_of(*others)
    try:
        return f"{version_of(engine)}, {packages}"
    except Unavailable:
        return f"{engine} {wheel_source(path_of(module), engine)[1]}, {packages}"
