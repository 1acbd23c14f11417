"""junit.xml and index.html of the sample records, read by Python's parsers: well formed, and text
from outside is text, whatever is in it."""

import argparse
import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

VOID_ELEMENTS = {"meta", "br"}
ALLOWED_ELEMENTS = set(
    "html head meta title style body header main section article h1 h2 h3 p dl dt dd div table"
    " caption thead tbody tr th td span code pre br ul li".split()
)
ALLOWED_ATTRIBUTES = {"lang", "charset", "http-equiv", "content", "name", "class", "scope"}


class Page(HTMLParser):
    """Collects the text, and what a page of ours must not have."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open = []
        self.problems = []
        self.text = ""

    def handle_starttag(self, tag, attrs):
        if tag not in ALLOWED_ELEMENTS:
            self.problems.append(f"element <{tag}>")
        for name, _ in attrs:
            if name not in ALLOWED_ATTRIBUTES:
                self.problems.append(f"attribute {name} of <{tag}>")
        if tag not in VOID_ELEMENTS:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}> closes another element")

    def handle_comment(self, data):
        self.problems.append(f"comment {data!r}")

    def handle_data(self, data):
        self.text += data

    def close(self):
        super().close()
        if self.open:
            self.problems.append(f"not closed: {self.open}")


def html_problems(html, report):
    page = Page()
    page.feed(html)
    page.close()
    problems = list(page.problems)
    for marker in ("http:", "https:", "url(", "@import", "src="):
        if marker in html.split("<body>")[0]:
            problems.append(f"the head names {marker}")
    for case in report["cases"]:
        if case["check"].split('"')[0] not in page.text:
            problems.append(f"the page lacks {case['check']!r}")
    # Characters that hide or move text must not reach the page.
    for character in "\x1b\x07\x00\x7f\x9b\u202e\u2066\ufeff":
        if character in html:
            problems.append(f"character {character!r}")
    return problems


def junit_problems(xml, report):
    root = ElementTree.fromstring(xml)
    problems = []
    cases = list(root.iter("testcase"))
    if len(cases) != len(report["cases"]):
        problems.append(f"{len(cases)} testcases for {len(report['cases'])} cases")
    summary = report["summary"]
    counts = {
        "tests": len(report["cases"]),
        "failures": summary["failed"] + summary["underpowered"],
        "errors": summary["error"],
        "skipped": summary["skipped"],
    }
    elements = {"failures": "failure", "errors": "error", "skipped": "skipped"}
    for name, count in counts.items():
        of_suites = sum(int(suite.get(name)) for suite in root.iter("testsuite"))
        if int(root.get(name)) != count or of_suites != count:
            problems.append(f"{name}: {root.get(name)} and {of_suites}, expected {count}")
        if name in elements and len(list(root.iter(elements[name]))) != count:
            problems.append(f"number of <{elements[name]}>")
    kinds = sorted(failure.get("type") for failure in root.iter("failure"))
    if kinds != ["failed"] * summary["failed"] + ["underpowered"] * summary["underpowered"]:
        problems.append(f"types of failures: {kinds}")
    for suite in root.iter("testsuite"):
        names = [item.get("name") for item in suite.findall("properties/property")]
        if "seed" not in names:
            problems.append(f"suite {suite.get('name')!r} has no seed")
    for element in root.iter():
        for text in [element.text or "", *element.attrib.values()]:
            if any(ord(c) < 32 and c not in "\n\r\t" for c in text):
                problems.append(f"control character in <{element.tag}>")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", required=True, help="the program that prints the samples")
    arguments = parser.parse_args()
    output = subprocess.run([arguments.samples], check=True, capture_output=True).stdout
    samples = json.loads(output)
    problems = []
    for name, sample in samples.items():
        report = json.loads(sample["report"])
        problems += [f"{name} index.html: {p}" for p in html_problems(sample["html"], report)]
        problems += [f"{name} junit.xml: {p}" for p in junit_problems(sample["junit"], report)]
    # The checks above must be able to fail.
    small = json.loads(samples["small"]["report"])
    for spoiled in ("<script>", "<b onclick=x>", "</p>", "<!-- x -->", "\u202e", "\x1b"):
        html = samples["small"]["html"].replace("</body>", spoiled + "</body>")
        if not html_problems(html, small):
            problems.append(f"a page with {spoiled!r} was accepted")
    junit = samples["small"]["junit"].replace("<failure type=\"failed\"", "<failure type=\"x\"")
    if not junit_problems(junit, small):
        problems.append("a junit.xml with an unknown type of failure was accepted")
    for problem in problems:
        print(problem)
    print(f"{len(samples)} records, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
