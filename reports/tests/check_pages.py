"""The test reads junit.xml and index.html of the sample records with Python's parsers. Both files must be
well formed, and text from outside must stay text."""

import argparse
import base64
import hashlib
import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

VOID_ELEMENTS = {"meta", "br", "input"}
ALLOWED_ELEMENTS = set(
    "html head meta title style body header nav main section article details summary h1 h2 h3 h4 p dl"
    " dt dd div table caption thead tbody tr th td span b small sup code kbd pre br ol ul li a label"
    " input figure figcaption"
    " select option button noscript script svg desc text path circle rect g".split()
)
ALLOWED_ATTRIBUTES = set(
    "lang charset http-equiv content name class scope id href hidden open role tabindex type value rel"
    " placeholder aria-label aria-hidden aria-expanded aria-sort colspan"
    # attributes of pictures
    " viewbox preserveaspectratio width height x y d cx cy r transform".split()
)

# A link may lead to a place on this page, to a page beside it, or to the bug of an engine on GitHub. Other
# schemes, and so scripts, and other hosts are not allowed.
LINK = re.compile(r"https://github\.com/[\w.-]+/[\w.-]+/(issues/\d+|commit/[0-9a-f]+)|#[A-Za-z0-9_-]+|#cases\?[A-Za-z0-9_.*+&=%-]+|(\.\./)*[A-Za-z0-9._~%-][A-Za-z0-9/._~%-]*(#[A-Za-z0-9_-]+)?")

# The part of JUnit's format that readers share (a part of Jenkins' junit-10.xsd): attributes, required
# attributes, and children in their order.
JUNIT = {
    "testsuites": ("name tests failures errors time", "", ["testsuite"]),
    "testsuite": (
        "name tests failures errors skipped time",
        "name tests failures errors",
        ["properties", "testcase"],
    ),
    "properties": ("", "", ["property"]),
    "property": ("name value", "name value", []),
    "testcase": (
        "name classname time",
        "name classname",
        ["skipped", "error", "failure", "flakyFailure", "system-out"],
    ),
    "skipped": ("message type", "", []),
    "error": ("message type", "type", []),
    "failure": ("message type", "type", []),
    "flakyFailure": ("message type", "type", []),
    "system-out": ("", "", []),
}
AT_MOST_ONCE = {"properties", "skipped", "error", "failure", "system-out"}
COUNT = re.compile("[0-9]+")
TIME = re.compile(r"[0-9]+\.[0-9]{3}")


class Page(HTMLParser):
    """Collects the text of a page, and all markup that report pages must not have."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open = []
        self.problems = []
        self.text = ""

    def handle_starttag(self, tag, attrs):
        if tag not in ALLOWED_ELEMENTS:
            self.problems.append(f"element <{tag}>")
        for name, value in attrs:
            if name not in ALLOWED_ATTRIBUTES:
                self.problems.append(f"attribute {name} of <{tag}>")
            if name == "href" and not LINK.fullmatch(value):
                self.problems.append(f"a link to {value!r}")
        self.end_implied(tag, {"td": ["td"], "tr": ["td", "tr"]})
        if tag not in VOID_ELEMENTS:
            self.open.append(tag)

    def end_implied(self, tag, elements):
        """Closes table cells and rows, because HTML allows leaving out their end tags."""
        for element in elements.get(tag, []):
            if self.open and self.open[-1] == element:
                self.open.pop()

    def handle_endtag(self, tag):
        self.end_implied(tag, {"tbody": ["td", "tr"]})
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}> closes another element")

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID_ELEMENTS:
            self.open.pop()

    def handle_comment(self, data):
        self.problems.append(f"comment {data!r}")

    def handle_data(self, data):
        self.text += data

    def close(self):
        super().close()
        if self.open:
            self.problems.append(f"not closed: {self.open}")


def markup_problems(html):
    """Returns markup that report pages must not have, characters that hide or move text, and all text of the
    page."""
    page = Page()
    page.feed(html)
    page.close()
    problems = list(page.problems)
    for character in "\x1b\x07\x00\x7f\x9b\u202e\u2066\ufeff":
        if character in html:
            problems.append(f"character {character!r}")
    return problems, page.text


def html_problems(html, report):
    problems = markup_problems(html)[0] + script_problems(html, report)
    for marker in ("http:", "https:", "url(", "@import", "src="):
        if marker in html.split("<body>")[0]:
            problems.append(f"the head names {marker}")
    return problems


def drawn_problems(html, report):
    """Returns the problems of a page that its script has drawn."""
    problems, text = markup_problems(html)
    pictures = "".join(re.findall(r"<svg.*?</svg>", html, re.DOTALL))
    if "NaN" in pictures or re.search(r' (d|x|y|cx|cy|width|height)="[^"]*(nan|inf)', pictures):
        problems.append("a picture has no number")
    for check in {case["check"] for case in report["cases"]}:
        if check.split('"')[0] not in text:
            problems.append(f"the page lacks {check!r}")
    return problems


def script_problems(html, report):
    """Requires that the page has one script, which the page's policy names, and that its data are JSON."""
    scripts = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    if len(scripts) != 1 or html.count("<script") != 2:
        return [f"{html.count('<script')} scripts, {len(scripts)} of them code"]
    problems = []
    digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
    if f"script-src 'sha256-{digest}'" not in html:
        problems.append(f"the policy does not name the script's hash: sha256-{digest}")
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    if "<" in data.group(1):
        problems.append("the data hold a <")
    cases = json.loads(data.group(1))["cases"]
    if len(cases) != len(report["cases"]):
        problems.append(f"{len(cases)} cases of {len(report['cases'])}")
    return problems


def junit_format_problems(element):
    """Returns everything in `element` and below that the JUnit format does not allow."""
    if element.tag not in JUNIT:
        return [f"element <{element.tag}>"]
    allowed, required, children = JUNIT[element.tag]
    problems = []
    for name, value in element.attrib.items():
        if name not in allowed.split():
            problems.append(f"attribute {name} of <{element.tag}>")
        if name in ("tests", "failures", "errors", "skipped") and not COUNT.fullmatch(value):
            problems.append(f"{name}={value!r} of <{element.tag}>")
        if name == "time" and not TIME.fullmatch(value):
            problems.append(f"time={value!r} of <{element.tag}>")
    for name in required.split():
        if name not in element.attrib:
            problems.append(f"<{element.tag}> has no {name}")
    tags = [child.tag for child in element]
    order = [children.index(tag) for tag in tags if tag in children]
    if len(order) < len(tags) or order != sorted(order):
        problems.append(f"children of <{element.tag}>: {tags[:6]}")
    if any(tags.count(tag) > 1 for tag in AT_MOST_ONCE):
        problems.append(f"an element more than once in <{element.tag}>: {tags[:6]}")
    for child in element:
        problems += junit_format_problems(child)
    return problems


def lacks_what_is_required(report):
    """Returns whether a feature of --require was not judged, or more cases were skipped than --max-skipped
    allows."""
    for coverage in report.get("coverage", []):
        judged = {feature["name"] for feature in coverage["features"] if feature["judged"]}
        if not judged.issuperset(report.get("required", [])):
            return True
        most = report.get("max_skipped")
        if most is not None and 100 * coverage["skipped"] > most * coverage["cases"]:
            return True
    return False


def junit_problems(xml, report):
    root = ElementTree.fromstring(xml)
    problems = junit_format_problems(root)
    watched = sum(1 for case in report["cases"] if case["watch"])
    if len(list(root.iter("flakyFailure"))) != watched:
        problems.append(f"not {watched} <flakyFailure>")
    of_the_run = ("the run is whole", "what is required was judged")
    cases = [case for case in root.iter("testcase") if case.get("name") not in of_the_run]
    if len(cases) != len(report["cases"]):
        problems.append(f"{len(cases)} testcases for {len(report['cases'])} cases")
    summary = report["summary"]
    incomplete = 1 if report["incomplete"] else 0  # a separate test, which could not be run
    unmet = 1 if lacks_what_is_required(report) else 0  # an unmet requirement is a separate test that failed
    counts = {
        "tests": len(report["cases"]) + incomplete + unmet,
        "failures": summary["failed"] + summary["underpowered"] + unmet,
        "errors": summary["error"] + incomplete,
        "skipped": summary["skipped"],
    }
    elements = {"failures": "failure", "errors": "error", "skipped": "skipped"}
    for name, count in counts.items():
        of_suites = sum(int(suite.get(name)) for suite in root.iter("testsuite"))
        of_root = int(root.get(name)) if name != "skipped" else count  # the root has no attribute "skipped"
        if of_root != count or of_suites != count:
            problems.append(f"{name}: {root.get(name)} and {of_suites}, expected {count}")
        if name in elements and len(list(root.iter(elements[name]))) != count:
            problems.append(f"number of <{elements[name]}>")
    kinds = sorted(failure.get("type") for failure in root.iter("failure"))
    expected = ["coverage"] * unmet + ["failed"] * summary["failed"]
    if kinds != expected + ["underpowered"] * summary["underpowered"]:
        problems.append(f"types of failures: {kinds}")
    for suite in root.iter("testsuite"):
        names = [item.get("name") for item in suite.findall("properties/property")]
        if "seed" not in names:
            problems.append(f"suite {suite.get('name')!r} has no seed")
    shown = sum(item.get("name").startswith("evidence of ") for item in root.iter("property"))
    red = sum(1 for case in report["cases"] if case["verdict"] == "failed" or case["watch"])
    if shown != red:
        problems.append(f"the evidence of {shown} cases, expected {red}")
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
        if len(sample["markdown"].encode()) > 1 << 20:
            problems.append(f"{name} summary.md is larger than GitHub shows")
    # Wrong inputs show that the checks above can fail.
    small = json.loads(samples["small"]["report"])
    for spoiled in ("<script>x</script>", "<b onclick=x>", "</p>", "<!-- x -->", "\u202e", "\x1b"):
        html = samples["small"]["html"].replace("</body>", spoiled + "</body>")
        if not html_problems(html, small):
            problems.append(f"a page with {spoiled!r} was accepted")
    for link in ("javascript:x", "//host/x", "https://host"):
        html = samples["small"]["html"].replace("</body>", f'<a href="{link}"></a></body>', 1)
        if not html_problems(html, small):
            problems.append(f"a link to {link} was accepted")
    html = samples["small"]["html"].replace("</body>", '<a href="#cases?check=a%2Bb"></a></body>')
    problems += [f"a right link: {p}" for p in html_problems(html, small)]
    html = samples["small"]["html"].replace('"use strict"', '"use sloppy"')
    if not html_problems(html, small):
        problems.append("a script that the policy does not name was accepted")
    for right, wrong in (
        ('<failure type="failed"', '<failure type="x"'),
        ("<failure ", "<failure nobody='knows' "),
        ("<flakyFailure ", "<flaky "),
        ("<properties>", "<system-out/><properties>"),
        (' time="0.250"', ' time="a while"'),
    ):
        junit = samples["small"]["junit"].replace(right, wrong)
        if junit == samples["small"]["junit"] or not junit_problems(junit, small):
            problems.append(f"a junit.xml with {wrong!r} was accepted")
    for problem in problems:
        print(problem)
    print(f"{len(samples)} records, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
