"""Tests that every public name of C and C++ has its comment, that arrays have their shapes, functions say how
they fail and whose definition they implement, and
that the pages of docs/api/ have every header that is
installed.

Usage: c_reference_test.py REPOSITORY
"""

import pathlib
import re
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
  /// Errors: It returns 0 for no values. Definition: Euclid 1982.
  int count(View<int> values) const;

 private:
  int hidden;
};

/// Kinds.
enum class Kind : int {
  one = 1,  ///< the first
};

/// Uses a Thing. `rows` [rows, vocab].
/// Definition: vLLM.
/// Errors: invalid_argument if number is below 1.
Error use(const Thing& thing, const RowsView& rows, int number = 1);

/// Ends. Definition: vLLM.
void end() noexcept;
"""


@unittest.skipIf(shutil.which("doxygen") is None, "doxygen is not installed")
class Headers(unittest.TestCase):
    def test_every_public_name_has_a_comment_with_the_shapes_of_its_arrays(self):
        names = c_reference.read(ROOT, c_reference.headers(ROOT))
        found = {name.qualified for name in names}
        self.assertLess({"fairdraw::sample", "fairdraw::cuda::sample", "fairdraw::SampleRequest",
                         "fairdraw_batch", "fairdraw_plugin_run", "FAIRDRAW_CAN_TOP_K"}, found)
        wrong = c_reference.lacks(names, ROOT)
        self.assertEqual(wrong, [], "\n".join(["", *wrong]))
        self.assertLess(c_reference.NEVER_FAIL.keys(),
                        found | {member.qualified for name in names for member in name.members})
        self.assertLessEqual(c_reference.NO_DEFINITION.keys(), {name.file for name in names})

    def test_the_pages_have_every_header_once(self):
        listed = [file for page in sorted((ROOT / "docs" / "api").glob("*.md"))
                  for file in c_reference.DIRECTIVE.findall(page.read_text(encoding="utf-8"))]
        self.assertEqual(sorted(listed), c_reference.headers(ROOT))


@unittest.skipIf(shutil.which("doxygen") is None, "doxygen is not installed")
class Checks(unittest.TestCase):
    """Makes the same tests with an invented header."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def names(self, text):
        (self.root / "thing.h").write_text(text, encoding="utf-8")
        return c_reference.read(self.root, ["thing.h"])

    def test_all_is_there(self):
        names = self.names(HEADER)
        self.assertEqual([name.name for name in names], ["Thing", "Kind", "use", "end"])
        self.assertEqual(c_reference.lacks(names, self.root), [])

    def test_what_lacks_is_named(self):
        for there, gone, what in [
            ("/// A type.\n", "", "struct Thing has no comment"),
            ("  ///< >= 0; a | stays", "", "variable Thing::size has no comment"),
            ("`values`: [size]", "Of `values`", "function Thing::count: its comment has no shape of 'val"),
            ("/// Kinds.\n", "", "enum Kind has no comment"),
            ("  ///< the first", "", "enumerator Kind::one has no comment"),
            (" `rows` [rows, vocab].", " [rows].", "function use: its comment has no shape of 'rows'"),
            ("int size = 0;", "View<int> size;", "variable Thing::size: its comment has no shape"),
            ("int size = 0;", "float* size;", "variable Thing::size: its comment has no shape"),
            ("/// Kinds.\n", "#define THING 1\n/// Kinds.\n", "define THING has no comment"),
        ]:
            self.assertEqual(HEADER.count(there), 1, there)
            (wrong,) = c_reference.lacks(self.names(HEADER.replace(there, gone)), self.root)
            self.assertIn(what, wrong)
            self.assertRegex(wrong, r"^thing\.h:\d+: ")

    def test_a_function_without_a_comment(self):
        for comment in [r"  /// Counts\..*\n.*1982\.\n", r"/// Uses a Thing\.(.*\n){3}", r"/// Ends\..*\n"]:
            wrong = c_reference.lacks(self.names(re.sub(comment, "", HEADER)), self.root)
            self.assertRegex(wrong[0], "function .* has no comment")
            self.assertRegex("\n".join(wrong), "no statement says 'Definition: ...'")

    def test_functions_without_errors_and_definitions(self):
        for there, gone, what in [
            (" Errors: It returns 0 for no values.", "", "Thing::count: no statement says 'Errors: ...'"),
            (" Definition: Euclid 1982.", "", "Thing::count: no statement says 'Definition: ...'"),
            ("/// Errors: invalid_argument if number is below 1.\n", "", "use: no statement says 'Errors"),
            ("/// Definition: vLLM.\n", "", "use: no statement says 'Definition"),
            ("/// Ends. Definition: vLLM.", "/// Ends.", "end: no statement says 'Definition"),
            ("void end() noexcept", "void end()", "end: no statement says 'Errors"),
            ("invalid_argument if", "It fails if", "use: 'Errors: It fails if number is below 1.' names n"),
            ("Euclid 1982", "as usual", "Thing::count: 'Definition: as usual.' names neither a page"),
            ("Euclid 1982", "docs/none.md", "'Definition: docs/none.md.' names docs/none.md, which does n"),
            ("/// Definition: vLLM.\n", "/// Definition: fairdraw/none.h.\n", "which does not exist"),
        ]:
            self.assertEqual(HEADER.count(there), 1, there)
            (wrong,) = c_reference.lacks(self.names(HEADER.replace(there, gone)), self.root)
            self.assertIn(what, wrong)

    def test_statements_of_heads_and_types(self):
        bare = re.sub(r"///? ?(Errors|Definition): .*\n", "", HEADER)
        head = "// Errors: Calls return unsupported on\n// Sundays.\n//\n// Definition: docs/page.md.\n"
        (self.root / "docs").mkdir()
        (self.root / "docs" / "page.md").touch()
        wrong = c_reference.lacks(self.names(bare), self.root)
        self.assertEqual(len(wrong), 4, wrong)
        # The function count() returns no Error, so that the errors at the head of the header do not
        # hold for count().
        (wrong,) = c_reference.lacks(self.names(head + "//\n" + bare), self.root)
        self.assertIn("Thing::count: no statement says 'Errors", wrong)
        of_type = bare.replace("/// A type.", "/// A type. Definition: llama.cpp.")
        wrong = c_reference.lacks(self.names(of_type), self.root)
        self.assertNotIn("Thing::count: no statement says 'Definition", "\n".join(wrong))

    def test_statements_of_other_headers(self):
        include = self.root / "kernels" / "include" / "fairdraw"
        include.mkdir(parents=True)
        text = HEADER.replace("Errors: invalid_argument if number is below 1.", "Errors: fairdraw/a.h.")
        for a, b, ends in [("Errors: unsupported.", "", True), ("None.", "", False),
                           ("Errors: fairdraw/b.h.", "Errors: std::x.", True),
                           ("Errors: fairdraw/b.h.", "Errors: fairdraw/a.h.", False)]:
            (include / "a.h").write_text(f"// {a}\n", encoding="utf-8")
            (include / "b.h").write_text(f"// {b}\n", encoding="utf-8")
            self.assertEqual(c_reference.lacks(self.names(text), self.root) == [], ends, (a, b))

    def test_comments_of_c(self):
        text = "/** A type. */\ntypedef struct thing {\n  int a; /**< one */\n  int b; /* two */\n} thing;\n"
        (wrong,) = c_reference.lacks(self.names(text), self.root)
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
                     "Error use(const Thing& thing, const RowsView& rows, int number = 1)",
                     "Uses a [`Thing`](#thing).",
                     "vocab\\].\n\n**Definition:** vLLM.\n\n**Errors:** invalid\\_argument if number is"]:
            self.assertIn(text, page)
        self.assertNotIn("see the head of", page)
        self.assertNotIn("hidden", page)
        self.assertNotIn("~Thing", page)

    def test_a_page_points_to_the_statements_of_a_head(self):
        head = "// Errors: unsupported.\n//\n// Definition: MAX.\n"
        bare = re.sub("/// Errors: .*\n", "", HEADER)  # of count(), which returns no Error, and of use()
        self.names(head + "//\n" + bare)
        page = c_reference.expand(self.root, {"docs/api/one.md": "::: thing.h\n"})["docs/api/one.md"]
        self.assertIn('<a id="head-thing-h"></a>\n\n## thing.h\n\n**Errors:** unsupported.\n\n**Def', page)
        self.assertEqual(re.findall(r".*see the head of.*", page), [
            "Definition: see the head of [thing.h](#head-thing-h).",
            "Errors: see the head of [thing.h](#head-thing-h)."])

    def test_links_between_pages(self):
        (self.root / "use.h").write_text("// Use.\n/// Uses a Thing.\nvoid use();\n", encoding="utf-8")
        self.names(HEADER.replace("Error use(", "Error use_all("))
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
