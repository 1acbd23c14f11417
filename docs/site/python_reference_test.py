"""Tests that every public function of the Python package states the exceptions that it raises and
the source of the definition that it implements.

Usage: python_reference_test.py REPOSITORY
"""

import pathlib
import sys
import tempfile
import unittest

import python_reference

ROOT = None

MODULE = '''\
"""Things: made up for a test.

Definition: docs/things.md.
"""

from .others import other as other


class Thing:
    """A thing.

    Raises:
        TypeError: A thing is expected.
    """

    def __init__(self, size):
        if size < 0:
            raise ValueError("size")

    @property
    def size(self):
        """The size."""

    def use(self):
        """Uses the thing. Definition: vLLM."""

    def _hidden(self):
        pass


def find(name):
    """Finds a thing.

    Raises:
        LookupError: There is no such thing.
    """
    raise LookupError(name)


if find:

    def lose(name):
        """Loses a thing.

        Definition: llama.cpp.

        Raises:
            Lost: The thing
                is lost already.
        """
'''
OTHERS = '''\
def other():
    """Does something else.

    Definition: Euclid 1982.

    Raises:
        OSError: There is nothing else.
    """


def one():
    pass
'''
PAGE = "# Python\n\n::: fairdraw.things\n::: fairdraw.others\n    options: {members: [other, Lost]}\n"

FILES = {"docs/things.md": "", "docs/api/python.md": PAGE, "python/fairdraw/things.py": MODULE,
         "python/fairdraw/others.py": OTHERS}


def write(root, there="", gone=""):
    """Writes the invented files, with one text in place of another."""
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text.replace(there, gone) if there else text, encoding="utf-8")


class Package(unittest.TestCase):
    def test_functions_state_exceptions_and_definitions(self):
        wrong = python_reference.lacks(ROOT)
        self.assertEqual(wrong, [], "\n".join(["", *wrong]))

    def test_the_functions_are_found(self):
        names = {each.name for each in python_reference.functions(ROOT)}
        self.assertLess({"fairdraw.sampling.sample", "fairdraw.verification.verify",
                         "fairdraw.serving.BatchState.add", "fairdraw.replay.replay_logprobs",
                         "fairdraw.sharded.ShardedSampler.__call__"}, names)

    def test_exemptions_are_of_functions_that_state_nothing(self):
        found = python_reference.functions(ROOT)
        for name in python_reference.NEVER_RAISE:
            exempt = [each for each in found if each.is_of([name])]
            self.assertTrue(exempt, name)
            self.assertFalse(any(each.raised() for each in exempt), name)
        for name in python_reference.NO_DEFINITION:
            self.assertTrue(any(each.is_of([name]) for each in found), name)


class Checks(unittest.TestCase):
    """Makes the same tests with an invented module."""

    def lacks(self, there="", gone=""):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            write(root, there, gone)
            return python_reference.lacks(root)

    def test_what_lacks_is_named(self):
        used = "    Raises:\n        TypeError: A thing is expected.\n"
        (wrong,) = self.lacks()
        self.assertEqual(wrong, "python/fairdraw/things.py:16: fairdraw.things.Thing.__init__: no 'Raises:' "
                                "names ValueError, which it raises")
        for there, gone, what in [
            (used, "", ["Thing.__init__: no docstring has a section 'Raises:'", "names ValueError",
                        "Thing.use: no docstring has a section 'Raises:'"]),
            ("        LookupError: T", "        KeyError: T", ["find: no 'Raises:' names LookupError"]),
            ("TypeError: A thing", "A thing", ["__init__: no docstring has", "ValueError", "use: no docs"]),
            ("Lost: The", "Broken: The", ["lose: 'Raises:' names Broken, which is no exception"]),
            ("Definition: docs/things.md.\n", "", ["__init__: no statement says 'Definition",
                                                   "find: no statement says 'Definition"]),
            ("docs/things.md", "docs/none.md", ["__init__: 'Definition: docs/none.md.' names docs/none.md",
                                                "find: 'Definition: docs/none.md.' names docs/none.md"]),
            ("Euclid 1982", "as usual", ["others.other: 'Definition: as usual.' names neither a page"]),
            ("    Raises:\n        OSError: There is nothing else.\n", "", ["others.other: no docstr"]),
        ]:
            wrong = self.lacks(there, gone)
            for part in what:
                self.assertTrue(any(part in line for line in wrong), (part, wrong))

    def test_all_is_there(self):
        self.assertEqual(self.lacks("TypeError: A thing", "ValueError: A thing"), [])

    def test_private_names_properties_and_names_of_no_page_are_left_out(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            write(root)
            names = [each.name.removeprefix("fairdraw.") for each in python_reference.functions(root)]
        self.assertEqual(names, ["things.Thing.__init__", "things.Thing.use", "things.find", "things.lose",
                                 "others.other"])


if __name__ == "__main__":
    ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
