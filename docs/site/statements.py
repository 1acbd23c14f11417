"""The two statements that the comment of a public function makes.

"Errors:" says how a call fails, and "Definition:" names the source of the definition that the function
implements. A statement begins a paragraph or follows a full stop. One statement at the head of a header,
of a module or of a class holds for all functions there, so that their comments need not repeat it.
c_reference.py and python_reference.py read the statements of headers and of modules.
"""

import re

ERRORS, DEFINITION = "Errors", "Definition"
LABELS = rf"(?:{ERRORS}|{DEFINITION}|Raises)"
INCLUDE = "kernels/include"
#: Names that say how a call of C or C++ fails: a code, an exception, or the value that the call
#: returns.
FAILURE = re.compile(r"\b(?:invalid_argument|unsupported)\b|\bstd::\w+|\breturns? (?:0|another number)\b")
HEADER = re.compile(r"\bfairdraw/\w+\.h\b")
FILE = re.compile(r"\b(?:docs|harness|kernels|reference|suites)/[\w/]+\.(?:md|h)\b")
PAPER = re.compile(r"\b(?:et al\.|[A-Z]\w+) (?:19|20)\d\d\b")
ENGINE = re.compile(r"\b(?:vLLM|SGLang|TensorRT-LLM|FlashInfer|flashinfer|transformers|Hugging Face|MAX|"
                    r"llama\.cpp)(?!\w)")


def paragraphs(text):
    """Returns the paragraphs of a comment, each in one line."""
    return [" ".join(part.split()) for part in re.split(r"\n\s*\n", text) if part.strip()]


def statements(text, label):
    """Lists the statements of a comment under a label, from all of its paragraphs."""
    pattern = re.compile(rf"(?:^|(?<=\. )){label}: (.+?)(?= {LABELS}: |$)")
    return [found for part in paragraphs(text) for found in pattern.findall(part)]


def missing_files(root, text):
    """Lists the files that a statement names and that the repository lacks."""
    names = [*FILE.findall(text), *(f"{INCLUDE}/{name}" for name in HEADER.findall(text))]
    return [name for name in names if not (root / name).is_file()]


def is_failure(text):
    return FAILURE.search(text) is not None


def is_source(text):
    """Says whether a definition's statement names a page or a file, a paper, or an engine."""
    return any(pattern.search(text) for pattern in (FILE, PAPER, ENGINE))


def ends(root, label, text, head_of, seen=()):
    """Returns whether a statement names a failure or a source, either directly or through the
    headers that the statement refers to.

    `head_of` returns the text at the head of a header."""
    if (is_failure if label == ERRORS else is_source)(text):
        return True
    headers = [name for name in HEADER.findall(text) if name not in seen and not missing_files(root, name)]
    return any(ends(root, label, found, head_of, (*seen, name)) for name in headers
               for found in statements(head_of(root / INCLUDE / name), label))


def wrong(root, label, found, head_of):
    """Lists the errors in the statements that hold for a function."""
    if not found:
        return [f"no statement says '{label}: ...'"]
    gone = [f"'{label}: {text}' names {name}, which does not exist"
            for text in found for name in missing_files(root, text)]
    if gone or any(ends(root, label, text, head_of) for text in found):
        return gone
    needed = ("a code, an exception or a value" if label == ERRORS
              else "a page, a file, a paper or an engine")
    return [f"'{label}: {found[0]}' names neither {needed} nor a header that does"]


def set_apart(text):
    """Returns the comment as Markdown, with each statement in a paragraph of its own and its label
    in bold."""
    return re.sub(rf"(?:^|(?<=\.) )({LABELS}): ", r"\n\n**\1:** ", text).strip()
