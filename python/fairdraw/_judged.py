"""Checks the arguments that `verify` and `fuzz` share, and writes calls as text. Pasted into
Python, the text of a call in a report repeats a case."""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from . import _core
from ._arguments import unknown_name
from ._device_calls import DeviceFunction, device_running_batch

Arrays = Literal["numpy", "torch"]
#: Names of a sampler's abilities beyond float32 logits with temperature, top_k, top_p and min_p.
#: The names are fields of SamplerDescription in harness/contract/sampler.h, which defines each
#: ability. With a running batch, the abilities of processing are those of the running batch.
Ability = Literal[
    "active_rows",
    "allowed_mask",
    "bfloat16",
    "exact_integer",
    "float16",
    "from_probs",
    "from_probs_all_filters",
    "history_rules",
    "indices",
    "joint_order",
    "lowest_id_ties",
    "marks_by_key",
    "marks_by_key_and_seed",
    "marks_green_lists",
    "num_samples",
    "per_request_seeds",
    "probability_filters",
    "processing",
    "ranks_at_least",
    "ranks_position",
    "reports_logprobs",
    "reports_mask",
    "reports_probs",
    "reports_processed",
    "reports_raw",
    "reports_status",
    "reports_support",
    "scripted_words",
    "top_n_sigma",
]
Filter = Literal["min_p", "top_k", "top_p"]
#: Promises that a sampler makes unless `lacks` declines them. "bad_rows" promises that the sampler
#: itself answers bad rows (NaN, parameters out of range, no allowed token, indices that name no
#: row). A sampler that declines the promise leaves bad rows to its caller. "flush_modes" promises
#: that the caller's FTZ and DAZ modes do not change any result.
Declinable = Literal["bad_rows", "flush_modes"]
#: Steps of processing that a sampler with the ability "processing" has unless `lacks` names them.
ProcessingStep = Literal[
    "repetition_penalty",
    "frequency_penalty",
    "presence_penalty",
    "bias",
    "min_tokens",
    "bad_words",
    "allowed_ids",
    "top_n_sigma",
    "typical_p",
    "epsilon_cutoff",
    "eta_cutoff",
    "p_less",
    "top_h",
    "xtc",
    "chain_temperature",
    "chain_top_k",
    "chain_top_p",
    "chain_min_p",
    "adaptive_p",
    "filter_chain",
    "dynatemp",
    "penalty_window",
    "counts_of_prompt",
    "no_repeat_ngram_size",
    "dry",
    "dry_breakers",
    "forced_tokens",
    "top_p_decay",
]
Promise = Literal["offsets", "outputs", "replays", "samples", "seeds"]

#: Promises that a sampler keeps if it simply draws fresh random numbers. The promise "replays" (the
#: same seeds and offsets give the same tokens) is not among them.
INDEPENDENCE: tuple[Promise, ...] = ("seeds", "offsets", "outputs", "samples")


LONGEST_NAME = 200


def expect_text(name: str, value: Any, allowed: str) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{name} is {value!r}; allowed: {allowed}")


def expect_name(name: str, value: Any, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise unknown_name(name, value, allowed)


def expect_names(name: str, values: Any, allowed: Sequence[str]) -> list[str]:
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"{name} is {values!r}; allowed: a sequence of names")
    found = list(values)
    for place, value in enumerate(found):
        expect_name(f"{name}[{place}]", value, allowed)
    return found


def expect_integer(name: str, value: Any, least: int, most: int, range_as_text: str) -> int:
    """Returns a Python integer made from an integer of any library, after checking its range."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} is {value!r}; allowed: an integer, {range_as_text}") from None
    if not least <= number <= most:
        raise ValueError(f"{name} is {value}; allowed: {range_as_text}")
    return number


def gpu_of(device: Any) -> Any:
    """Returns the torch.device of a GPU of this machine, or None if the arrays are on the CPU."""
    if str(device) == "cpu":
        return None
    names: list[str] = []
    try:
        import torch
    except ImportError:
        reason = " (torch is not installed)"
    else:
        names = [f"cuda:{i}" for i in range(torch.cuda.device_count())]
        if names and str(device) == "cuda":
            return torch.device("cuda", torch.cuda.current_device())
        if str(device) in names:
            return torch.device(str(device))
        reason = "" if names else " (torch sees no CUDA device)"
    allowed = ", ".join(map(repr, ["cpu", *names]))
    raise ValueError(f"device is '{device}'; allowed: {allowed}{reason}")


def expect_arrays(arrays: Any, gpu: Any, device: Any) -> Any:
    """Returns the library that makes the arrays, which is torch for a GPU. Errors name `device`."""
    if arrays is None:
        arrays = "numpy" if gpu is None else "torch"
    expect_name("arrays", arrays, ["numpy", "torch"])
    if gpu is not None and arrays != "torch":
        raise ValueError(f"arrays is {arrays!r}; allowed with device '{device}': 'torch'")
    return arrays


def expect_seed(seed: Any, seed_from: Any) -> str | None:
    """Returns a run's seed in the form that `_core` takes, or None if the seed comes from
    `seed_from`."""
    if seed is None:
        return None
    if seed_from is not None:
        raise ValueError("seed and seed_from are both given; allowed: one of them")
    return str(expect_integer("seed", seed, 0, 2**64 - 1, "0 to 2^64 - 1"))


def expect_semantics(semantics: Any) -> None:
    """Checks a profile's name and the changes after the name, such as "hf,top_k_ties=any_k"."""
    profile = semantics.partition(",")[0] if isinstance(semantics, str) else semantics
    expect_name("semantics", profile, _core.profile_names())
    _core.expect_semantics(semantics)


def expect_means(
    semantics: Any, arrays: Any, device: Any, version: Any, name: Any, seed: Any, seed_from: Any
) -> tuple[Any, dict[str, Any]]:
    """Returns the GPU, and the arguments that all judged callables share in the form that `_core`
    takes."""
    expect_semantics(semantics)
    gpu = gpu_of(device)
    arrays = expect_arrays(arrays, gpu, device)
    expect_text("version", version, "a string")
    for field, text in (("name", name), ("seed_from", seed_from)):
        if text is not None:
            expect_text(field, text, "a string, or None")
    for field, text in (("name", name), ("version", version)):
        # Every case of a report repeats this value.
        if text is not None and len(text) > LONGEST_NAME:
            raise ValueError(f"{field} has {len(text)} letters; allowed: up to {LONGEST_NAME}")
    run_seed = expect_seed(seed, seed_from)
    return gpu, {
        "semantics": semantics,
        "arrays": arrays,
        "version": version,
        "seed": run_seed,
        "seed_from": seed_from,
    }


def expect_judged(
    sampler: Any,
    semantics: Any,
    *,
    name: Any,
    version: Any,
    arrays: Any,
    device: Any,
    abilities: Any,
    lacks: Any,
    randomness: Any,
    seed: Any,
    seed_from: Any,
    running_batch: Any = None,
) -> dict[str, Any]:
    """Returns the judged callables' arguments in the form that `_core` takes. On a GPU the
    callables are wrapped, so that arrays are copied to the GPU and results are copied back."""
    builtin = isinstance(sampler, str)
    if (
        not builtin
        and not callable(sampler)
        and not (sampler is None and running_batch is not None)
    ):
        raise TypeError(
            f"sampler: a callable or the name of a built-in sampler is needed, not "
            f"{type(sampler).__name__}"
        )
    if running_batch is not None and not callable(running_batch):
        raise TypeError(
            "running_batch: a class or a function that makes a running batch is needed, not "
            f"{type(running_batch).__name__}"
        )
    if running_batch is not None and builtin:
        raise TypeError(
            f"running_batch: needs a callable as sampler, but sampler is {sampler!r}, which has its own"
        )
    gpu, means = expect_means(semantics, arrays, device, version, name, seed, seed_from)
    if gpu is not None and builtin:
        raise ValueError(f"sampler is {sampler!r}; allowed with device '{device}': a callable")
    able = expect_names("abilities", abilities, _core.ability_names())
    steps = _core.processing_step_names()
    lacking = expect_names(
        "lacks", lacks, [*_core.filter_names(), *_core.declinable_names(), *steps]
    )
    promises = expect_names("randomness", randomness, _core.promise_names())
    if builtin:
        label = str(sampler)
    else:
        judged = running_batch if sampler is None else sampler
        label = name or str(getattr(judged, "__name__", type(judged).__name__))
    if gpu is not None:
        sampler = DeviceFunction(sampler, gpu) if callable(sampler) else None
        running_batch = device_running_batch(running_batch, gpu) if running_batch else None
    return {
        "function": sampler,
        "running_batch": running_batch,
        **means,
        "name": label,
        "abilities": able,
        "lacks": lacking,
        "randomness": promises,
    }


def literal(value: Any) -> str:
    """Returns a value as Python source. Strings get double quotes unless another quote is
    needed."""
    if isinstance(value, str):
        plain = value.isascii() and value.isprintable() and not set(value) & {'"', "\\"}
        return f'"{value}"' if plain else repr(value)
    if isinstance(value, os.PathLike):
        return literal(os.fspath(value))
    # A tuple holds a file of captured logits, and the dtype of the logits.
    if isinstance(value, tuple) and len(value) == 2:
        return f"({literal(value[0])}, {literal(value[1])})"
    if isinstance(value, bool | int | float):
        return repr(value)
    if hasattr(value, "__iter__"):
        return "[" + ", ".join(map(literal, value)) + "]"
    return literal(str(value))  # a torch.device


def _is_reached(module: Any, name: str, thing: Any) -> bool:
    for part in name.split("."):
        module = getattr(module, part, None)
    return module is thing


def _global_name(thing: Any) -> str | None:
    """Returns the global name of an object in the user's session, because the text of a call is
    pasted there.
    """
    here = vars(sys.modules["__main__"])
    return next((n for n, v in list(here.items()) if v is thing and not n.startswith("_")), None)


def expression(thing: Any, name: str | None, modules: list[str]) -> str:
    """Returns an expression for `thing`: a name in the user's session, or a name in a module, which
    is added to `modules`. An object without a name (a lambda, a local function) gets a placeholder,
    which tells the reader to insert the object."""
    if isinstance(thing, str):
        return literal(thing)
    found = _global_name(thing)
    if found is not None:
        return found
    module, own = getattr(thing, "__module__", ""), getattr(thing, "__qualname__", "")
    if module in sys.modules and own and _is_reached(sys.modules[module], own, thing):
        modules.append(module)
        return f"{module}.{own}"
    for known in (name, getattr(thing, "__name__", None), type(thing).__name__.lower()):
        if known and known.isidentifier() and known != "function":
            return known
    return "sampler"


def replay_call(
    verb: str, judged: str, modules: list[str], common: Mapping[str, Any], more: Mapping[str, Any]
) -> tuple[str, str]:
    """Returns two parts of the call's text: the part before the case and the seed, and the part
    after them. `more` are the arguments of the call that differ from the defaults of the
    function."""
    names = ", ".join(["fairdraw", *dict.fromkeys(modules)])
    arguments = [judged, *(f"{key}={literal(value)}" for key, value in common.items())]
    tail = "".join(f", {key}={literal(value)}" for key, value in more.items())
    return f"import {names}; fairdraw.{verb}({', '.join(arguments)}", tail + ")"


#: Default values of the arguments of the verifying functions. All other arguments default to None.
_USUAL = {
    "abilities": [],
    "device": "cpu",
    "dtypes": ["float32"],
    "exact_integer": False,
    "keep_dtype": False,
    "lacks": [],
    "randomness": list(INDEPENDENCE),
    "target": "logits",
    "version": "",
}


def given(**arguments: Any) -> dict[str, Any]:
    """Returns the arguments whose values differ from the defaults in _USUAL."""
    return {key: value for key, value in arguments.items() if value != _USUAL.get(key)}
