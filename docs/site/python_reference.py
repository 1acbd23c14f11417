"""Reads the exceptions and the definitions that the docstrings of the Python package state.

Docstrings state exceptions in a section "Raises:", with a line for each exception, and the source of a
definition in a sentence "Definition: ...". A statement of a class or of a module holds for all functions
there. docs/api/python.md says which modules and names are public; python/tests/test_reference_page.py
tests that this page has them all.
"""

import ast
import builtins
import inspect
import re

import c_reference
import statements

PAGE = "docs/api/python.md"
PACKAGE = "python"
DIRECTIVE = re.compile(r"^::: (fairdraw[\w.]*)(?:\n    options: \{members: \[(.*)\]\})?$", re.MULTILINE)
RAISES = re.compile(r"^Raises:\n((?:    .*(?:\n|\Z))+)", re.MULTILINE)
#: Special methods that users call directly or by syntax.
CALLED = ("__init__", "__call__")
#: Functions that raise no exception for any argument, each with the reason.
NEVER_RAISE = {
    "fairdraw.verification.Report.__init__": "takes the record of a run, which `verify` has made",
    "fairdraw.verification.Report.to_json": "returns a text that the report has",
    "fairdraw.running_batch.RunningBatch": "is a protocol: an exception of its methods fails the case",
}
#: Functions and modules that implement no definition of sampling, each with the reason.
NO_DEFINITION = {
    "fairdraw.torch_compile": "calls other functions of the package",
}


class Function:
    """A public function or method, with the docstrings that hold for it: those of the function, its
    class and its module."""

    def __init__(self, name, file, node, docstrings):
        self.name, self.file, self.node = name, file, node
        self.docstrings = [inspect.cleandoc(text) for text in docstrings if text]

    def raised(self):
        """Returns the exceptions that the docstrings name."""
        return {name for text in self.docstrings for section in RAISES.findall(text)
                for name in re.findall(r"^    ([\w.]+): \w", section, re.MULTILINE)}

    def raised_here(self):
        """Returns the exceptions that the function's own statements raise by name."""
        calls = [node.exc for node in ast.walk(self.node) if isinstance(node, ast.Raise)]
        names = [getattr(exc.func if isinstance(exc, ast.Call) else exc, "id", "") for exc in calls]
        return {name for name in names if is_exception(name)}

    def is_of(self, names):
        """Returns whether one of the names is the name of the function, its class or its module."""
        return any(self.name == name or self.name.startswith(f"{name}.") for name in names)

    def lacks(self, root, known):
        """Lists the statements that the docstrings lack."""
        where = f"{self.file}:{self.node.lineno}: {self.name}"
        found, raised = [], self.raised()
        if not raised and not self.is_of(NEVER_RAISE):
            found.append("no docstring has a section 'Raises:'")
        found += [f"'Raises:' names {name}, which is no exception"
                  for name in sorted(raised) if not is_exception(name) and name not in known]
        found += [f"no 'Raises:' names {name}, which it raises"
                  for name in sorted(self.raised_here() - raised)]
        if not self.is_of(NO_DEFINITION):
            found += statements.wrong(root, statements.DEFINITION,
                                      c_reference.stated(statements.DEFINITION, self.docstrings),
                                      c_reference.head_of)
        return [f"{where}: {line}" for line in found]


def is_exception(name):
    kind = getattr(builtins, name, None)
    return isinstance(kind, type) and issubclass(kind, BaseException)


class Module:
    """A module's source, and the names that the module defines or imports unchanged."""

    def __init__(self, root, name):
        self.root, self.name = root, name
        path = root / PACKAGE / name.replace(".", "/")
        found = [path.with_suffix(suffix) for suffix in (".py", ".pyi")]
        self.path = next((each for each in found if each.is_file()), found[0])
        tree = ast.parse(self.path.read_text(encoding="utf-8"))
        self.docstring = ast.get_docstring(tree)
        self.definitions, self.imported = {}, {}
        for node in flattened(tree.body):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                self.definitions[node.name] = node
            elif isinstance(node, ast.ImportFrom) and node.level == 1 and node.module:
                module = f"{name.rpartition('.')[0]}.{node.module}"
                self.imported.update({each.name: module for each in node.names if each.asname == each.name})

    def public_names(self):
        return [name for name in (*self.definitions, *self.imported) if not name.startswith("_")]

    def functions(self, name):
        """Returns the functions of a public name: the function of this name, or the methods of a
        class of this name."""
        if name in self.imported:
            return Module(self.root, self.imported[name]).functions(name)
        node = self.definitions.get(name)
        if node is None:  # a constant, or a second name of a function
            return []
        file, full = self.path.relative_to(self.root).as_posix(), f"{self.name}.{name}"
        if isinstance(node, ast.FunctionDef):
            return [Function(full, file, node, [ast.get_docstring(node), self.docstring])]
        above = [ast.get_docstring(node), self.docstring]
        return [Function(f"{full}.{method.name}", file, method, [ast.get_docstring(method), *above])
                for method in flattened(node.body) if isinstance(method, ast.FunctionDef)
                and (not method.name.startswith("_") or method.name in CALLED)
                and not any(getattr(each, "id", "") == "property" for each in method.decorator_list)]


def flattened(body):
    """Yields the statements of a body, and the statements inside its conditions."""
    for node in body:
        yield from flattened([*node.body, *node.orelse]) if isinstance(node, ast.If) else [node]


def listed(root):
    """Yields the modules of the page with their public names: those that the page lists, or all."""
    text = (root / PAGE).read_text(encoding="utf-8")
    for name, members in DIRECTIVE.findall(text):
        module = Module(root, name)
        yield module, [each for each in members.split(", ") if each] or module.public_names()


def functions(root):
    """Lists the public functions and methods, each once."""
    found = {each.name: each for module, names in listed(root) for name in names
             for each in module.functions(name)}
    return list(found.values())


def lacks(root):
    known = {name for module, names in listed(root) for name in names}
    return [line for each in functions(root) for line in each.lacks(root, known)]
