"""Reads Markdown for the site and the tests of the documentation: headings, links and code."""

import html
import re
import subprocess

FENCE = re.compile(r"^(?P<fence>```+|~~~+)(?P<language>[^\n`]*)\n(?P<text>.*?)^(?P=fence)[ \t]*$",
                   re.MULTILINE | re.DOTALL)
# The line in front of a block of code, if that line is a comment.
MARK = re.compile(r"<!--(?P<words>(?:(?!-->).)*)-->[ \t]*\n\Z", re.DOTALL)
NO_SOURCES = {"build", "fairdraw-report"}


class Block:
    """A block of fenced code, with its language, its text, the comment in front of it and its
    line."""

    def __init__(self, page, match):
        self.language = match["language"].strip()
        self.text = match["text"]
        self.line = page.count("\n", 0, match.start()) + 1
        mark = MARK.search(page[: match.start()])
        self.mark = mark["words"].strip() if mark else ""
        # Expected output of the example, if a block of text follows at once.
        rest = page[match.end():].lstrip("\n")
        follows = FENCE.match(rest)
        self.output = follows["text"] if follows and follows["language"].strip() == "text" else None


def blocks(page):
    return [Block(page, match) for match in FENCE.finditer(page)]


def without_code(page):
    """Returns the page with empty blocks and spans of code, and with the same number of lines."""
    page = FENCE.sub(lambda match: "\n" * match[0].count("\n"), page)
    return re.sub(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)", lambda match: "\n" * match[0].count("\n"), page,
                  flags=re.DOTALL)


def links(page):
    """Lists (line, target) for every link and picture."""
    text = without_code(page)
    found = []
    for pattern in [r"\]\(\s*<?([^()\s<>]+)>?(?:\s+\"[^\"]*\")?\s*\)",  # [text](target "title")
                    r"^\[[^\]]+\]:\s*<?([^\s<>]+)>?",  # [name]: target
                    r"<(?:a|img)\s[^>]*?(?:href|src)=\"([^\"]+)\""]:
        for match in re.finditer(pattern, text, re.MULTILINE):
            found.append((text.count("\n", 0, match.start(1)) + 1, html.unescape(match[1])))
    return sorted(found)


def anchors(page):
    """Lists the names that headings have on GitHub and in the rendered site."""
    found = set()
    text = FENCE.sub("", page)
    for heading in re.findall(r"^#{1,6}\s+(.+?)\s*#*\s*$", text, re.MULTILINE):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        name = re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")
        number, unique = 0, name
        while unique in found:
            number += 1
            unique = f"{name}-{number}"
        found.add(unique)
    return found


def markdown_files(root):
    """Lists the Markdown files of the repository, or of a copy without git."""
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
                            cwd=root, capture_output=True, text=True, check=False)
    if listed.returncode == 0 and listed.stdout:
        found = [root / name for name in listed.stdout.splitlines()]
    else:
        found = [path for path in root.rglob("*.md")
                 if not any(part in NO_SOURCES or part.startswith(".")
                            for part in path.relative_to(root).parts)]
    return sorted(path for path in found if path.is_file())
