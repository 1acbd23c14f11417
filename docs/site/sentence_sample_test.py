"""Tests which sentences sentence_sample.py finds in each kind of file, and that a seed always draws
the same sentences.

Usage: sentence_sample_test.py REPOSITORY
"""

import contextlib
import io
import pathlib
import sys
import tempfile
import unittest

import prose
import sentence_sample

ROOT = None

FILES = {
    "a/things.h": """\
// Reads a file of things. It goes on
// in the next line of it.
//
//   a line of its own is no prose

/// Counts all things there are.
/// Takes the time of a scan.
int count();  // an aside of five words
const char* kText = "// is no comment at all here";
const int kMany = 1'000'000;  ///< more than there can be
const int kFew = 3;           ///< fewer than one may think,
                              ///< for it goes on here
const int kSome = 30;         ///< a number between the two
// NOLINT(of a tool for tools alone)
// --- a line between two sections ---
}  // namespace fairdraw::of::many::things
// Too short.
""",
    "a/kernel.cu": "/* Adds two rows of numbers. */\n__global__ void add();\n",
    "tool.py": '''\
#!/usr/bin/env python3
"""Finds what is lost. Prints it in the order of names."""

TEXT = "# is no comment at all here"


def find():
    """Looks into every folder there is."""
    return 1  # because one is always enough
''',
    "run": """\
#!/usr/bin/env bash
# Runs all of the tests.
#SBATCH --comment="options of a job are no prose"
echo '# no'  # says no on purpose here
""",
    "data": "# This file has no interpreter at all.\n",
    "README.md": """\
# A heading of some words here

A paragraph with `code of it`. (An aside stands between two sentences.) Another one
goes on here.

```sh
# this is code and no prose
```

- An item of a list.
1. One more item of it.

| the column with its heading | what |
|---|---|
| some words in a cell | x |
| `a call with (four, words, more)`, `and_other_names` | [a_name_of_words](a/page/of/words.md) |

    a command that is indented as code is no prose

See `things.h`, which `others.h` includes.

<https://an.address.of/words/and/more>

- An item with a part

    that goes on in a paragraph of its own.
""",
}

SENTENCES = [
    ("cpp", "things.h", "Reads a file of things."), ("cpp", "things.h", "It goes on in the next line of it."),
    ("cpp", "things.h", "Counts all things there are."), ("cpp", "things.h", "Takes the time of a scan."),
    ("cpp", "things.h", "an aside of five words"), ("cpp", "things.h", "more than there can be"),
    ("cpp", "things.h", "fewer than one may think, for it goes on here"),
    ("cpp", "things.h", "a number between the two"),
    ("cuda", "kernel.cu", "Adds two rows of numbers."),
    ("python", "tool.py", "Finds what is lost."), ("python", "tool.py", "Prints it in the order of names."),
    ("python", "tool.py", "Looks into every folder there is."),
    ("python", "tool.py", "because one is always enough"),
    ("shell", "run", "Runs all of the tests."), ("shell", "run", "says no on purpose here"),
    ("page", "README.md", "A paragraph with `code of it`."), ("page", "README.md", "Another one goes on here."),
    ("page", "README.md", "(An aside stands between two sentences.)"),
    ("page", "README.md", "An item of a list."), ("page", "README.md", "One more item of it."),
    ("page", "README.md", "the column with its heading"), ("page", "README.md", "some words in a cell"),
    ("page", "README.md", "See `things.h`, which `others.h` includes."), ("page", "README.md", "An item with a part"),
    ("page", "README.md", "that goes on in a paragraph of its own."),
]
SENTENCES = [("header" if kind == "cpp" else kind, file, text) for kind, file, text in SENTENCES]


class Sample(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name, text in FILES.items():
            (self.root / name).parent.mkdir(exist_ok=True)
            (self.root / name).write_text(text, encoding="utf-8")

    def printed(self, *words):
        with contextlib.redirect_stdout(io.StringIO()) as output:
            self.assertEqual(sentence_sample.main([*words, str(self.root)]), 0)
        return output.getvalue()

    def test_sentences_of_every_kind(self):
        self.assertEqual(sorted(sentence_sample.all_sentences(self.root)), sorted(SENTENCES))

    def test_lines_have_a_column_for_the_rating_the_name_of_the_file_and_the_sentence(self):
        lines = self.printed("--count", str(len(SENTENCES) + 1)).splitlines()
        self.assertEqual(lines[0], "rating\tfile\tsentence")
        self.assertEqual(sorted(lines[1:]), sorted(f"\t{file}\t{text}" for _, file, text in SENTENCES))

    def test_a_seed_draws_the_same_and_no_sentence_twice(self):
        drawn = self.printed("--seed", "1", "--count", "6")
        self.assertEqual(drawn, self.printed("--seed", "1", "--count", "6"))
        self.assertEqual(len(set(drawn.splitlines()[1:])), 6)
        # A draw is one of very many orders of 6 of 25 sentences, so that five other seeds cannot all
        # give the same draw by accident.
        others = {self.printed("--seed", str(seed), "--count", "6") for seed in range(2, 7)}
        self.assertNotEqual(others, {drawn})

    def test_as_many_of_each_kind(self):
        lines = self.printed("--per-kind", "--count", "5").splitlines()[1:]
        self.assertEqual({line.split("\t")[1] for line in lines},
                         {"things.h", "kernel.cu", "tool.py", "run", "README.md"})
        self.assertEqual(len(lines), 5)

    def test_a_count_that_is_none_is_refused(self):
        with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()) as error:
            self.printed("--count", "0")
        self.assertIn("--count is 0", error.getvalue())

    def test_a_comment_knows_the_code_after_it(self):
        blocks = list(prose.cpp_blocks("/// A list.\ntemplate <class T>\nstruct List {\n  int size;  // of it\n};\n"))
        self.assertEqual([(block.line, block.kind, block.follows) for block in blocks],
                         [(1, "reference", "struct List {"), (4, "trailing", "};")])

    def test_the_tree_has_sentences_of_every_kind(self):
        kinds = {kind for kind, _, _ in sentence_sample.all_sentences(ROOT)}
        self.assertEqual(kinds, {"cuda", "header", "cpp", "python", "shell", "page"})


if __name__ == "__main__":
    ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
