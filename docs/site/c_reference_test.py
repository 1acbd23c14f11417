"""Every public name of the C and C++ headers has its comment, arrays have their shapes, and the pages
of docs/api/ have every header that is installed.

Usage: c_reference_test.py REPOSITORY
"""

import pathlib
import shutil
import sys
import tempfile
import unittest

import c_reference

ROOT = None

HEADER = """\
// Things: made up for a test.
//
//   set   in lines of its own
#pragma once

/// A type.
struct Thing {
  int size = 0;  ///< >= 0; a | stays
  Thing() = default;
  ~Thing();

  /// Counts. `values`: [size].
  int count(View<int> values) const;

 private:
  int hidden;
};

/// Kinds.
enum class Kind : int {
  one = 1,  ///< the first
};

/// Uses a Thing. `rows` [rows, vocab].
void use(const Thing& thing, const RowsView& rows, int number = 1);
"""


@unittest.skipIf(shutil.which("doxygen") is None, "doxygen is not installed")
class Headers(unittest.TestCase):
    def test_every_public_name_has_a_comment_with_the_shapes_of_its_arrays(self):
        names = c_reference.read(ROOT, c_reference.headers(ROOT))
        found = {name.qualified for name in names}
        self.assertLess({"fairdraw::sample", "fairdraw::cuda::sample", "fairdraw::SampleRequest",
                         "fairdraw_batch", "fairdraw_plugin_run", "FAIRDRAW_CAN_TOP_K"}, found)
        wrong = c_reference.lacks(names)
        self.assertEqual(wrong, [], "\n".join(["", *wrong]))

    def test_the_pages_have_every_header_once(self):
        listed = [file for page in sorted((ROOT / "docs" / "api").glob("*.md"))
                  for file in c_reference.DIRECTIVE.findall(page.read_text(encoding="utf-8"))]
        self.assertEqual(sorted(listed), c_reference.headers(ROOT))


@unittest.skipIf(shutil.which("doxygen") is None, "doxygen is not installed")
class Checks(unittest.TestCase):
    """The same on a header that is made up."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def names(self, text):
        (self.root / "thing.h").write_text(text, encoding="utf-8")
        return c_reference.read(self.root, ["thing.h"])

    def test_all_is_there(self):
        names = self.names(HEADER)
        self.assertEqual([name.name for name in names], ["Thing", "Kind", "use"])
        self.assertEqual(c_reference.lacks(names), [])

    def test_what_lacks_is_named(self):
        for there, gone, what in [
            ("/// A type.\n", "", "struct Thing has no comment"),
            ("  ///< >= 0; a | stays", "", "variable Thing::size has no comment"),
            ("  /// Counts. `values`: [size].\n", "", "function Thing::count has no comment"),
            ("`values`: [size]", "Of `values`", "function Thing::count: its comment has no shape of 'val"),
            ("/// Kinds.\n", "", "enum Kind has no comment"),
            ("  ///< the first", "", "enumerator Kind::one has no comment"),
            ("/// Uses a Thing. `rows` [rows, vocab].\n", "", "function use has no comment"),
            (" `rows` [rows, vocab].", " [rows].", "function use: its comment has no shape of 'rows'"),
            ("int size = 0;", "View<int> size;", "variable Thing::size: its comment has no shape"),
            ("int size = 0;", "float* size;", "variable Thing::size: its comment has no shape"),
            ("/// Kinds.\n", "#define THING 1\n/// Kinds.\n", "define THING has no comment"),
        ]:
            self.assertEqual(HEADER.count(there), 1, there)
            (wrong,) = c_reference.lacks(self.names(HEADER.replace(there, gone)))
            self.assertIn(what, wrong)
            self.assertRegex(wrong, r"^thing\.h:\d+: ")

    def test_comments_of_c(self):
        text = "/** A type. */\ntypedef struct thing {\n  int a; /**< one */\n  int b; /* two */\n} thing;\n"
        (wrong,) = c_reference.lacks(self.names(text))
        self.assertIn("variable thing::b has no comment", wrong)

    def test_a_comment_that_doxygen_does_not_understand_is_an_error(self):
        with self.assertRaisesRegex(RuntimeError, "nothing"):
            self.names("/// \\nothing here.\nvoid use();\n")

    def test_a_page(self):
        self.names(HEADER)
        pages = {"docs/api/one.md": "# One\n\n::: thing.h\n", "docs/api/two.md": "# Two\n"}
        expanded = c_reference.expand(self.root, pages)
        self.assertEqual(expanded["docs/api/two.md"], "# Two\n")
        page = expanded["docs/api/one.md"]
        for text in ["## thing.h\n\nThings: made up for a test.\n\n```text\nset   in lines of its own\n```",
                     '<a id="thing"></a>\n\n### Thing\n\n```cpp\nstruct Thing\n```\n\nA type.',
                     "Source: [thing.h:7](../../thing.h)",
                     "| `size` | `int` | `0` | \\>= 0; a \\| stays |",
                     "| `one` | `1` | the first |",
                     "int Thing::count(View<int> values) const",
                     "void use(const Thing& thing, const RowsView& rows, int number = 1)",
                     "Uses a [`Thing`](#thing)."]:
            self.assertIn(text, page)
        self.assertNotIn("hidden", page)
        self.assertNotIn("~Thing", page)

    def test_links_between_pages(self):
        (self.root / "use.h").write_text("// Use.\n/// Uses a Thing.\nvoid use();\n", encoding="utf-8")
        self.names(HEADER.replace("void use(", "void use_all("))
        pages = {"docs/api/one.md": "::: thing.h\n", "docs/api/two.md": "::: use.h\n"}
        expanded = c_reference.expand(self.root, pages)
        self.assertIn("Uses a [`Thing`](one.md#thing).", expanded["docs/api/two.md"])

    def test_long_comments(self):
        self.assertEqual(
            c_reference.essay("Before a_b:\n  1. one\n     more\n  2. two\nafter it.\n\nProse `a_b`\nhere."),
            ["Before a\\_b:", "```text\n1. one\n   more\n2. two\n```", "after it.", "Prose `a_b`\nhere."])


if __name__ == "__main__":
    ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
