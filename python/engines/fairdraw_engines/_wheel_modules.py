"""Loads those modules of an engine whose import needs CUDA from the engine's wheel.

The texts of a few files run unchanged. The files' other imports from the package are replaced by
classes without members, except for the few names that the files need at import.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ._packages import Unavailable


def member_of_a_stand_in(name: str) -> type:
    """Makes a class that can stand in annotations and in `isinstance`."""
    if name.startswith("__"):
        raise AttributeError(name)
    return type(name, (), {})


class FromWheel(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds every module of a package. `real` are prefixes of modules from the wheel, `facts` has
    members of the other modules, and `source` reads a file of the wheel."""

    def __init__(
        self,
        package: str,
        real: Sequence[str],
        facts: Mapping[str, Mapping[str, Any]],
        source: Callable[[str], str],
    ) -> None:
        self.package, self.real, self.facts, self.source = package, tuple(real), facts, source

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name.partition(".")[0] != self.package:
            return None
        is_file = name.startswith(self.real) and self.file_of(name) is not None
        # A relative import of a file starts from the file's package.
        return importlib.machinery.ModuleSpec(name, self, is_package=not is_file)

    def file_of(self, name: str) -> str | None:
        """Returns the text of a module that is a file, or None for a package."""
        try:
            return self.source(name.replace(".", "/") + ".py")
        except Unavailable:
            return None

    def exec_module(self, module: Any) -> None:
        name = module.__name__
        if not name.startswith(self.real):
            module.__dict__.update(self.facts.get(name, {}))
            module.__getattr__ = member_of_a_stand_in
            return
        path = name.replace(".", "/")
        text = self.file_of(name)
        if text is None:
            text = self.source(f"{path}/__init__.py")
        exec(compile(text, f"wheel: {path}", "exec"), module.__dict__)


@contextlib.contextmanager
def importing(
    package: str,
    names: Sequence[str],
    facts: Mapping[str, Mapping[str, Any]],
    source: Callable[[str], str],
    real: Sequence[str] | None = None,
) -> Iterator[list[Any]]:
    """Imports modules of these names, installed or from the wheel, while the body of the with
    statement runs. Raises Unavailable, with the reason, if a module cannot be imported."""
    try:
        found = [importlib.import_module(name) for name in names]
    except Exception:  # a CUDA package may raise any exception
        forget(package)
        source(names[0].replace(".", "/") + ".py")  # raises an error that names the missing part
        finder = FromWheel(package, real or names, facts, source)
        sys.meta_path.insert(0, finder)
        try:
            yield [importlib.import_module(name) for name in names]
        finally:
            sys.meta_path.remove(finder)
            forget(package)
    else:
        yield found


def forget(package: str) -> None:
    """Removes all modules of the package from sys.modules, so that later imports do not find them."""
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        del sys.modules[name]
