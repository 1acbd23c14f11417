"""Reads the prose of the tree: comments of C++, CUDA, Python and shell, docstrings, and pages.

A Block is a unit that a reader reads at once: a comment, a docstring, or a paragraph, an item or a
cell of a page. sentence_sample.py draws from the sentences of the blocks, and
reports/ci/openings.py reads how they begin.
"""

import ast
import io
import pathlib
import re
import subprocess
import textwrap
import tokenize
from typing import NamedTuple

import pages

CPP = (".h", ".cpp", ".cuh", ".cu", ".c")
# The alternatives are in the order in which they hide each other: the text of a string is not a
# comment.
CPP_TOKEN = re.compile(r'R"(?P<end>[^(\s]*)\(.*?\)(?P=end)"|"(?:\\.|[^"\\\n])*"'
                       r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'|(?P<comment>//[^\n]*|/\*.*?\*/)",
                       re.DOTALL)
DIRECTIVE = re.compile(r"NOLINT|clang-format|IWYU|noqa|type: ignore|fmt: |pylint|shellcheck |SPDX|-{3}|={4}"
                       r"|\Anamespace \S+\Z|\A::: ")
# Pattern of code spans, addresses and the targets of links, whose words do not count.
NO_WORDS = re.compile(r"`+[^`]+`+|<https?://[^>]*>|https?://\S+|(?<=\])\([^)\s]*\)")
SENTENCE_END = re.compile(r"(?:(?<=[.!?])|(?<=[.!?]\)))\s+(?=[A-Z`\"(\[])")


class Block(NamedTuple):
    line: int  # the first line of the block, from 1 on
    kind: str  # kind of the block: comment, reference (of the name after it), trailing, docstring or page
    text: str
    follows: str = ""  # the line of code after a comment, or the line that has a docstring
    last: int = 0  # its last line


def tree_files(root):
    """Lists the files of the tree that git tracks, or would track. For an archive without git,
    lists all files except built files."""
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=root,
                            capture_output=True, text=True, check=False)
    if listed.returncode == 0 and listed.stdout:
        names = listed.stdout.splitlines()
    else:
        names = [path.relative_to(root).as_posix() for path in pathlib.Path(root).rglob("*")]
        names = [name for name in names if name.split("/")[0] not in (*pages.NO_SOURCES, ".git")]
    return sorted(name for name in names if (pathlib.Path(root) / name).is_file())


def is_shell(name, text):
    return pathlib.PurePath(name).suffix in ("", ".sh", ".sbatch") and bool(re.match(r"#!.*\b(ba)?sh\b", text))


def is_python(name, text):
    return name.endswith(".py") or bool(re.match(r"#!.*\bpython3?\b", text))


def joined(found, lines):
    """Makes blocks of single comments, which are given as (line, column, text, kind). A comment
    below another comment in the same column continues the other comment's block, unless code stands
    before it."""
    blocks = []
    for line, column, text, kind in found:
        parts = text.splitlines() or [""]
        begun = blocks[-1] if blocks else None
        goes_on = kind == "comment" or kind != "trailing" and begun and begun[3] in (kind, "trailing")
        if begun and begun[1:3] == [line - 1, column] and goes_on:
            begun[1] = line + len(parts) - 1
            begun[4] += parts
        else:
            blocks.append([line, line + len(parts) - 1, column, kind, parts])
    for first, last, _, kind, parts in blocks:
        follows = next((line for line in lines[last:last + 2] if not line.lstrip().startswith("template")), "")
        yield Block(first, kind, "\n".join(parts), follows, last)


def cpp_blocks(text):
    lines, found = text.splitlines(), []
    for match in CPP_TOKEN.finditer(text):
        if match["comment"]:
            line = text.count("\n", 0, match.start())
            start = text.rfind("\n", 0, match.start()) + 1
            bare = re.sub(r"^\s*(?://[/!]?<?|/\*\*?<?|\*(?!/)|\*/)[ ]?|\s*\*/$|\s*\\$", "", match["comment"],
                          flags=re.MULTILINE)
            before = text[start:match.start()].strip()
            is_reference = re.match(r"//[/!]|/\*\*", match["comment"]) is not None
            found.append((line + 1, match.start() - start, bare,
                          "trailing" if before else "reference" if is_reference else "comment"))
    yield from joined(found, lines)


def python_blocks(text):
    lines = text.splitlines()
    try:
        tree = ast.parse(text)
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (SyntaxError, tokenize.TokenError):
        return
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            docstring = ast.get_docstring(node)
            if docstring:
                begin, end = node.body[0].lineno, node.body[0].end_lineno
                above = "" if isinstance(node, ast.Module) else lines[node.lineno - 1]
                yield Block(begin, "docstring", docstring, above, end)
    found = [(token.start[0], token.start[1], re.sub(r"^#:? ?", "", token.string),
              "trailing" if token.line[:token.start[1]].strip() else "comment")
             for token in tokens if token.type == tokenize.COMMENT and not token.string.startswith("#!")]
    yield from joined(found, lines)


def shell_blocks(text):
    lines, found = text.splitlines(), []
    for number, line in enumerate(lines, 1):
        match = re.match(r"^(\s*)#(?!!|SBATCH ) ?(.*)$", line) or re.match(r"^(.*\S)  # (.*)$", line)
        if match:
            found.append((number, len(match[1]), match[2], "trailing" if match[1].strip() else "comment"))
    yield from joined(found, lines)


def page_blocks(text):
    """Yields paragraphs, items of lists and cells of tables, without headings and code. A paragraph
    that is indented by four spaces is code, unless a list is above it."""
    text = pages.FENCE.sub(lambda match: "\n" * match[0].count("\n"), text)
    text = re.sub(r"<!--.*?-->", lambda match: "\n" * match[0].count("\n"), text, flags=re.DOTALL)
    current, first, is_list = [], 0, False

    def finished(last):
        if current:
            yield Block(first, "page", "\n".join(current), "", last)
            current.clear()

    number = 0
    for number, line in enumerate(text.splitlines(), 1):
        item = re.match(r"\s*(?:[-*]|\d+\.)\s+(.*)", line)
        if not line.strip() or re.match(r"#{1,6} |\s*[-|: ]+$", line) or line.startswith("|") or item:
            yield from finished(number - 1)
        is_list = bool(item) or is_list and (not line.strip() or line.startswith(" ") or bool(current))
        if line.startswith("    ") and not item and not is_list and not current:
            continue
        if line.startswith("|") and not re.match(r"[-|: ]+$", line):
            for cell in re.split(r"(?<!\\)\|", line.strip().strip("|")):
                if cell.strip():
                    yield Block(number, "page", cell.strip(), "", number)
        elif line.strip() and not re.match(r"#{1,6} |[-|: ]+$", line):
            first = first if current else number
            current.append(item[1] if item else line.strip())
    yield from finished(number)


def blocks(name, text):
    """Returns the blocks of a file, whose kind is found from its name and first line."""
    if name.endswith(".md"):
        return list(page_blocks(text))
    if name.endswith(CPP):
        return list(cpp_blocks(text))
    if is_python(name, text):
        return list(python_blocks(text))
    if is_shell(name, text):
        return list(shell_blocks(text))
    return []


def has_words(sentence):
    """Tells a sentence from a list of names: code, addresses and the targets of links are no words.
    A sentence that ends with a full stop needs only two other words."""
    words = [len(re.findall(r"[A-Za-z]{2,}", text)) for text in (sentence, NO_WORDS.sub("", sentence))]
    return words[0] >= 4 and words[1] >= (2 if sentence.endswith(".") else 4)


def sentences(block):
    """Yields the sentences of a block that have at least four words, without text that is meant for
    tools."""
    paragraphs = re.split(r"\n\s*\n", textwrap.dedent(block.text))
    for paragraph in paragraphs:
        if re.search(r"^ {2,}\S", paragraph, re.MULTILINE) and block.kind != "page":
            paragraph = "\n".join(line for line in paragraph.splitlines() if not line.startswith("  "))
        if DIRECTIVE.search(paragraph):
            continue
        for sentence in SENTENCE_END.split(" ".join(paragraph.split())):
            if has_words(sentence):
                yield sentence


def read(root, name):
    try:
        return (pathlib.Path(root) / name).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""
