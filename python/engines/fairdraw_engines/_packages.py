"""Imports packages that may be missing. The file does not import fairdraw, because benchmarks use
the file, too.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from typing import Any


class Unavailable(Exception):
    """The reason why an engine cannot run here: a missing package, file or device."""


def package(name: str) -> Any:
    """Imports the module `name`. Raises Unavailable if the module is not installed or cannot be
    imported.
    """
    try:
        return importlib.import_module(name)
    except Exception as error:  # without a driver, a CUDA package may raise any exception
        raise Unavailable(f"{name} cannot be imported: {type(error).__name__}: {error}") from error


def version_of(*distributions: str) -> str:
    """Returns a text like "transformers 5.23.0, torch 2.13.0+cpu". Raises Unavailable if one of the
    packages is not installed.
    """
    try:
        return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in distributions)
    except importlib.metadata.PackageNotFoundError as error:
        raise Unavailable(f"{error.name} is not installed") from error
