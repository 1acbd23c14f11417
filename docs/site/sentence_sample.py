#!/usr/bin/env python3
"""Draws sentences from the comments and pages of the tree, for a person who rates them.

Prints tab-separated lines with a column for the rating, the name of the file, and the sentence.
Nothing else is printed about the sentence, because the rater is a reader who does not know the
code. The same seed draws the same sentences of the same tree.

Usage: sentence_sample.py [--seed N] [--count N] [--per-kind] [REPOSITORY]
"""

import argparse
import pathlib
import random
import sys

import prose

KINDS = {".cu": "cuda", ".cuh": "cuda", ".h": "header", ".cpp": "cpp", ".c": "cpp", ".md": "page"}


def kind(name, text):
    default = "python" if prose.is_python(name, text) else "shell"
    return KINDS.get(pathlib.PurePath(name).suffix, default)


def all_sentences(root):
    """Lists (kind of the file, its name, the sentence) for all sentences, in the order of the
    paths."""
    found = []
    for name in prose.tree_files(root):
        text = prose.read(root, name)
        found += [(kind(name, text), pathlib.PurePath(name).name, sentence)
                  for block in prose.blocks(name, text) for sentence in prose.sentences(block)]
    return found


def sample(found, count, seed, per_kind=False):
    """Draws `count` of the sentences, each with the same probability, or as many of each kind."""
    chosen = random.Random(seed)
    if not per_kind:
        return chosen.sample(found, min(count, len(found)))
    groups = [[each for each in found if each[0] == name] for name in sorted({each[0] for each in found})]
    return [each for group in groups
            for each in chosen.sample(group, min(-(-count // len(groups)), len(group)))]


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--per-kind", action="store_true",
                        help="as many of CUDA, headers, other C++, Python, shell and pages")
    parser.add_argument("repository", nargs="?", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parents[2])
    options = parser.parse_args(arguments)
    if options.count < 1:
        parser.error(f"--count is {options.count}: a whole number from 1")
    print("rating\tfile\tsentence")
    for _, file, sentence in sample(all_sentences(options.repository), options.count, options.seed,
                                    options.per_kind):
        print(f"\t{file}\t{sentence}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
