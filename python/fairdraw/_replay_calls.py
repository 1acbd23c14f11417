"""Calls as text: what a report says to repeat a case, which runs where it is pasted into Python."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any


def literal(value: Any) -> str:
    """A value of an argument as Python writes it, texts in double quotes where that is the same."""
    if isinstance(value, str):
        plain = value.isascii() and value.isprintable() and not set(value) & {'"', "\\"}
        return f'"{value}"' if plain else repr(value)
    if isinstance(value, os.PathLike):
        return literal(os.fspath(value))
    if isinstance(value, tuple) and len(value) == 2:  # a file of logits, and its dtype
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
    """The name that a session gave it: what is pasted there finds it."""
    here = vars(sys.modules["__main__"])
    return next((n for n, v in list(here.items()) if v is thing and not n.startswith("_")), None)


def expression(thing: Any, name: str | None, modules: list[str]) -> str:
    """What gives `thing` where it is evaluated: a name of the session, or of a module, which joins
    `modules`. What has neither (a lambda, something local) goes by a name that the reader knows."""
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
    """The call in front of the case and the seed, and behind them. `more`: what was given and differs
    from what the verb has by itself."""
    names = ", ".join(["fairdraw", *dict.fromkeys(modules)])
    arguments = [judged, *(f"{key}={literal(value)}" for key, value in common.items())]
    tail = "".join(f", {key}={literal(value)}" for key, value in more.items())
    return f"import {names}; fairdraw.{verb}({', '.join(arguments)}", tail + ")"


def given(**arguments: tuple[Any, Any]) -> dict[str, Any]:
    """Of arguments, each with what it is where nothing is said, those that say something else."""
    return {key: value for key, (value, usual) in arguments.items() if value != usual}
