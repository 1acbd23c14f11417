"""Loads those modules of an engine whose import needs CUDA from the engine's wheel.

The texts of a few files run unchanged. The files' other imports from the package are replaced by
classes without members, except for the few names that the files need at import.
"""

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import sys

from fairdraw_engines import Unavailable


def member_of_a_stand_in(name):
    """Makes a class that can stand in annotations and in `isinstance`."""
    if name.startswith("__"):
        raise AttributeError(name)
    return type(name, (), {})


class FromWheel(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds every module of a package. `real` are prefixes of modules from the wheel, `facts` has
    members of the other modules, and `source` reads a file of the wheel."""

    def __init__(self, package, real, facts, source):
        self.package, self.real, self.facts, self.source = package, tuple(real), facts, source

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] != self.package:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def exec_module(self, module):
        name = module.__name__
        if not name.startswith(self.real):
            module.__dict__.update(self.facts.get(name, {}))
            module.__getattr__ = member_of_a_stand_in
            return
        path = name.replace(".", "/")
        try:
            text = self.source(f"{path}.py")
        except Unavailable:
            text = self.source(f"{path}/__init__.py")
        exec(compile(text, f"wheel: {path}", "exec"), module.__dict__)


@contextlib.contextmanager
def importing(package, names, facts, source, real=None):
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


def forget(package):
    """Removes all modules of the package from sys.modules, so that later imports do not find them."""
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        del sys.modules[name]
