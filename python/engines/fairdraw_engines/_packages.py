"""Packages that may be missing. Does not import fairdraw, because benchmarks use this file too."""

from __future__ import annotations

import importlib
import importlib.metadata
from typing import Any


class Unavailable(Exception):
    """Says why an engine cannot run here: a package, a file or a device is missing."""


def package(name: str) -> Any:
    """Imports the module `name`; Unavailable if it is not installed or cannot be imported."""
    try:
        return importlib.import_module(name)
    except Exception as error:  # a CUDA package may raise anything without a driver
        raise Unavailable(f"{name} cannot be imported: {type(error).__name__}: {error}") from error


def version_of(*distributions: str) -> str:
    """Returns "transformers 5.23.0, torch 2.13.0+cpu"; Unavailable if one is not installed."""
    try:
        return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in distributions)
    except importlib.metadata.PackageNotFoundError as error:
        raise Unavailable(f"{error.name} is not installed") from error
