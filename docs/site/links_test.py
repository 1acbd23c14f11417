"""Tests that every link to a file of the repository, every anchor, and every path that a page names
exists, and that the site has every page.

Usage: links_test.py REPOSITORY
"""

import pathlib
import re
import sys
import tempfile
import unittest
import urllib.parse

import pages
import stage

ROOT = None
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|//", re.IGNORECASE)


def wrong_link(root, path, target):
    """Returns the reason why a link of the page at `path` leads nowhere, or None if the link is
    right."""
    name, _, anchor = urllib.parse.unquote(target).partition("#")
    linked = (path.parent / name).resolve() if name else path.resolve()
    if not linked.is_relative_to(root.resolve()):
        return "lies outside of the repository"
    if not linked.exists():
        return "does not exist"
    if anchor and linked.suffix != ".md":
        return "has an anchor, and is no Markdown file"
    if anchor and anchor not in pages.anchors(linked.read_text(encoding="utf-8")):
        return f"has no heading {anchor}"
    return None


def wrong_links(root, path):
    return [f"{path.relative_to(root)}:{line}: {target}: {why}"
            for line, target in pages.links(path.read_text(encoding="utf-8"))
            if not ELSEWHERE.match(target) and (why := wrong_link(root, path, target))]


def alternatives(path):
    """Returns `a.{h,cpp}` as two paths."""
    braces = re.search(r"\{([^{}]*)\}", path)
    if not braces:
        return [path]
    return [found for word in braces[1].split(",")
            for found in alternatives(path[: braces.start()] + word + path[braces.end():])]


def wrong_paths(root, path):
    """Lists paths from the repository's root that are written as code:
    `suites/gate/cases/*_cases.cpp`. A path without an extension may be that of a header and its
    source: `reference/stop_model`."""
    folders = "|".join(re.escape(entry.name) for entry in root.iterdir()
                       if entry.is_dir() and not entry.name.startswith(".") and entry.name != "build")
    page = pages.FENCE.sub(lambda match: "\n" * match[0].count("\n"),
                              path.read_text(encoding="utf-8"))
    wrong = []
    for match in re.finditer(rf"`((?:{folders})/[\w./*{{}},+-]*)`", page):
        line = page.count("\n", 0, match.start()) + 1
        wrong += [f"{path.relative_to(root)}:{line}: {name} does not exist"
                  for name in alternatives(match[1])
                  if not any(root.glob(name.rstrip("/"))) and not any(root.glob(name + ".*"))]
    return wrong


class Links(unittest.TestCase):
    def test_every_link_and_anchor_exists(self):
        wrong = [line for path in pages.markdown_files(ROOT) for line in wrong_links(ROOT, path)]
        self.assertEqual(wrong, [], "\n".join(["", *wrong]))

    def test_every_path_that_is_named_exists(self):
        wrong = [line for path in pages.markdown_files(ROOT) for line in wrong_paths(ROOT, path)]
        self.assertEqual(wrong, [], "\n".join(["", *wrong]))

    def test_the_site_has_every_page(self):
        settings = (ROOT / "docs" / "site" / "mkdocs.yml").read_text(encoding="utf-8")
        menu = re.findall(r"^ +- .+: (\S+\.md)$", settings, re.MULTILINE)
        unlisted = re.search(r"^not_in_nav: \|\n  /(\S+)\n$", settings, re.MULTILINE)[1]
        of_the_tree = {str(path.relative_to(ROOT)) for path in pages.markdown_files(ROOT)}
        needed = {str(path.relative_to(ROOT)) for path in stage.staged_files(ROOT)
                  if path.suffix == ".md" and not path.relative_to(ROOT).match(unlisted)}
        self.assertLess({"README.md", "docs/vocabulary.md", "kernels/README.md"}, needed)
        self.assertEqual(sorted(needed - set(menu)), [])
        self.assertEqual(sorted(set(menu) - of_the_tree), [])
        self.assertEqual(len(menu), len(set(menu)))

    def test_pages_and_links_are_found(self):
        found = pages.markdown_files(ROOT)
        self.assertIn(ROOT / "README.md", found)
        self.assertIn(ROOT / "docs" / "vocabulary.md", found)
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        self.assertIn("docs/pictures/red-report.png", [name for _, name in pages.links(readme)])

    def test_the_picture_is_small(self):
        size = (ROOT / "docs" / "pictures" / "red-report.png").stat().st_size
        # Maximum size of a picture that a page should load, as in make_red_report.py.
        self.assertLessEqual(size, 200_000)


class Checks(unittest.TestCase):
    """Tests the checks with an invented repository."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve() / "tree"
        (self.root / "docs").mkdir(parents=True)
        (self.root / "README.md").write_text("# One\n\n## `code`, and [a link](docs/a.md)\n\n# One\n",
                                             encoding="utf-8")

    def links_of(self, text):
        page = self.root / "docs" / "a.md"
        page.write_text(text, encoding="utf-8")
        return wrong_links(self.root, page)

    def test_right_links(self):
        for target in ["../README.md", "../README.md#one", "../README.md#one-1", "..", "a.md",
                       "../README.md#code-and-a-link", "#here", "https://example.org/x.md#y"]:
            self.assertEqual(self.links_of(f"# Here\n\n[text]({target})\n"), [], target)

    def test_wrong_links(self):
        for target, why in [("b.md", "does not exist"), ("../README.md#two", "no heading two"),
                            ("../README.md#one-2", "no heading one-2"), ("../../x.md", "outside"),
                            ("#there", "no heading there"), ("../docs#here", "no Markdown file")]:
            for text in [f"[text]({target})", f"![text]({target})", f"[text\nmore]({target} \"title\")",
                         f"[name]: {target}", f"<img alt=\"x\" src=\"{target}\">"]:
                (wrong,) = self.links_of(f"# Here\n\n{text}\n")
                self.assertIn(why, wrong)
                self.assertIn(target, wrong)

    def test_code_has_no_links(self):
        self.assertEqual(self.links_of("`[a](b.md)` and\n```\n[a](b.md)\n# c\n```\n"), [])
        self.assertTrue(self.links_of("```\n# c\n```\n[a](#c)\n"))

    def test_paths(self):
        page = self.root / "docs" / "a.md"
        for text, count in [("`docs/a.md`, `docs/`, `docs/*.md`, `elsewhere/x`, `docs/{a,a}.md`", 0),
                            ("`docs/b.md` `docs/*.txt` `docs/{a,b}.md`", 3)]:
            page.write_text(text, encoding="utf-8")
            self.assertEqual(len(wrong_paths(self.root, page)), count, text)


if __name__ == "__main__":
    ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
