"""Copies the repository's pages, and the files to which they link, into a folder from which MkDocs
reads.

Pages lie next to the code that they describe, but MkDocs reads one folder. Paths stay as they are
in the repository, so that links stay right, too. A Markdown file that is not a page is data of a
test. Pages that list headers get the names that the headers declare.

Usage: stage.py REPOSITORY FOLDER
"""

import pathlib
import shutil
import sys
import urllib.parse

import c_reference
import pages


PAGES = ("docs", "docs/api", "docs/decisions")
STYLE = "docs/site/site.css"


def is_page(path, root):
    return path.name == "README.md" or path.parent in (root, *(root / name for name in PAGES))


def linked_files(root, path):
    """Lists the files of the repository to which a page links."""
    for _, target in pages.links(path.read_text(encoding="utf-8")):
        name = urllib.parse.unquote(target.partition("#")[0])
        linked = (path.parent / name).resolve()
        if name and linked.is_file() and linked.is_relative_to(root):
            yield linked


def staged_files(root):
    """Lists the pages, and the files to which they link, directly or through a linked page."""
    staged, ahead = set(), [path for path in pages.markdown_files(root) if is_page(path, root)]
    while ahead:
        path = ahead.pop()
        if path in staged:
            continue
        staged.add(path)
        if path.suffix == ".md":
            ahead += linked_files(root, path)
    return staged


def expand_headers(root, folder):
    pages_of_headers = {f"docs/api/{path.name}": path.read_text(encoding="utf-8")
                        for path in sorted((folder / "docs" / "api").glob("*.md"))}
    for name, text in c_reference.expand(root, pages_of_headers).items():
        (folder / name).write_text(text, encoding="utf-8")
        for file in c_reference.DIRECTIVE.findall(pages_of_headers[name]):
            copy = folder / file
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / file, copy)


def main():
    root, folder = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    for path in sorted({*staged_files(root), root / STYLE}):
        copy = folder / path.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    expand_headers(root, folder)


if __name__ == "__main__":
    main()
