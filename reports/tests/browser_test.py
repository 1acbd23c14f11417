"""The test uses index.html in a real browser. Headless Chromium, driven by Playwright, opens the reports of a
failed and of a passed run, of hostile text and of 100,000 cases, and uses them as a reader would.

Exit codes: 0 if all checks passed; 1 if some failed; 77 if there is no browser or no Playwright here
(skipped).
"""

import argparse
import importlib.util
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from browser import enter_venv, launch, missing

SKIPPED = 77
# The page must show its first paint within two seconds for 100,000 cases. Sanitizers do not slow the browser
# down, so the limit holds for every build.
FIRST_PAINT_MS = 2000
MAX_PIXELS = 9000  # largest height in pixels of a page with 68 failures of five causes, 1280 pixels wide
# Largest distance in pixels from the top of a failed page to the end of the changes to make, 1280 pixels wide.
CHANGE_PIXELS = 600
AXE_SERIOUS = {"serious", "critical"}

problems = []


def check(condition, what):
    if not condition:
        problems.append(what)
        print(f"FAILED: {what}")


class Page:
    """A page in the browser, with a record of every request and of every message on the console."""

    def __init__(self, browser, path, fragment="", **context):
        self.context = browser.new_context(**context)
        self.context.grant_permissions(["clipboard-read", "clipboard-write"])
        self.context.set_default_timeout(120_000)  # the timeout is long, because a busy machine is slow
        self.page = self.context.new_page()
        self.path = path
        self.requests, self.messages = [], []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.messages.append(message.text))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.goto(path.as_uri() + ("#" + fragment if fragment else ""))

    def __enter__(self):
        return self.page

    def __exit__(self, *_):
        name = self.path.parent.name
        check([url.split("#")[0] for url in self.requests] == [self.path.as_uri()],
              f"{name}: requests {self.requests[1:]}")
        check(not self.messages, f"{name}: console says {self.messages[:5]}")
        self.context.close()


def shown(page):
    return page.locator("#shown").inner_text()


def wait_until(page, condition):
    """Polls from Python, because the page's policy forbids running text as a script, even for Playwright."""
    for _ in range(200):
        if condition():
            return
        page.wait_for_timeout(50)
    check(False, f"{page.url}: ten seconds were not enough")


def rows(page):
    return page.locator("button.row")


def column(page, index):
    return page.locator(f"#rows tr:not(.details) td:nth-child({index + 1})").all_inner_texts()


def use_table(page, name, total):
    """Filters, sorts, turns pages and expands rows of the table, by pointer and by keys."""
    check(shown(page).startswith(f"{total:,} of {total:,}"), f"{name}: shows {shown(page)!r}")
    check(rows(page).count() == min(total, 100), f"{name}: {rows(page).count()} rows")

    sampler = page.locator("#f-sampler option").nth(1).inner_text()
    page.select_option("#f-sampler", label=sampler)
    check(set(column(page, 1)) == {sampler}, f"{name}: the filter of samplers")
    page.click("#f-clear")
    check(shown(page).startswith(f"{total:,} of"), f"{name}: Clear leaves a filter")

    first = rows(page).first.inner_text()
    page.keyboard.press("/")
    check(page.evaluate("document.activeElement.id") == "f-text", f"{name}: / does not search")
    page.keyboard.type(first)
    # A slow machine may first show the result of a search for the first letters.
    wait_until(page, lambda: rows(page).count() > 0 and
               all(first in text for text in rows(page).all_inner_texts()))
    page.fill("#f-text", "no such case anywhere")
    wait_until(page, lambda: rows(page).count() == 0)
    page.click("#f-clear")

    heads = page.locator(".cases th button")
    for index in range(heads.count()):
        heads.nth(index).click()
    check(page.locator("th[aria-sort]").count() == 1, f"{name}: columns sorted by")
    heads.nth(2).click()
    up = column(page, 2)
    check(page.locator(".cases th").nth(2).get_attribute("aria-sort") == "ascending", f"{name}: aria-sort")
    check(up == sorted(up), f"{name}: not sorted by case")
    heads.nth(7).focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    draws = [int(text.replace(",", "")) for text in column(page, 7)]
    check(draws == sorted(draws, reverse=True), f"{name}: not sorted by falling draws")

    rows(page).first.focus()
    page.keyboard.press("Enter")
    check(rows(page).first.get_attribute("aria-expanded") == "true", f"{name}: Enter opens no row")
    check(page.locator("tr.details").count() == 1, f"{name}: no details")
    copy = page.locator("tr.details .copy")
    if copy.count():
        line = page.locator("tr.details pre").inner_text()
        copy.click()
        copied = page.evaluate("navigator.clipboard.readText()")
        check(copied == line and copied.startswith("./fairdraw") or copied.startswith("fairdraw"),
              f"{name}: copied {copied!r}")
    rows(page).first.focus()
    page.keyboard.press("Enter")
    check(page.locator("tr.details").count() == 0, f"{name}: Enter closes no row")
    page.keyboard.press("ArrowDown")
    at = "[...document.querySelectorAll('button.row')].indexOf(document.activeElement)"
    check(page.evaluate(at) == min(1, total - 1), f"{name}: the arrow down")
    if total > 100:
        before = rows(page).first.inner_text()
        page.keyboard.press("PageDown")
        check("Page 2 of" in page.locator("#page").inner_text(), f"{name}: PageDown")
        check(rows(page).first.inner_text() != before, f"{name}: page 2 is page 1")
    page.click("#f-clear")


def accessibility(page, name, axe):
    """Applies axe-core's rules; violations that are serious or worse fail the test. The page's policy admits
    no further script, so axe is run through the debugger."""
    page.evaluate(axe)
    found = page.evaluate("axe.run(document)")["violations"]
    for violation in found:
        if violation["impact"] in AXE_SERIOUS:
            nodes = [node["target"] for node in violation["nodes"]][:3]
            check(False, f"{name}: {violation['id']} ({violation['impact']}) at {nodes}: "
                  f"{violation['help']}; {violation['nodes'][0]['failureSummary'][:300]}")
    return len(found)


def no_sideways_scroll(page, name):
    wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    if wide > 0:
        who = page.evaluate("""[...document.querySelectorAll('main *, header *')].filter((e) =>
            e.getBoundingClientRect().right > window.innerWidth && !e.closest('.scroll, pre, svg'))
            .map((e) => e.tagName + '.' + e.className).slice(0, 5)""")
        check(False, f"{name}: {wide} px wider than the window: {who}")


def red_run(browser, folder, axe, pictures):
    path = folder / "evidence" / "index.html"
    for theme, width in (("light", 1280), ("dark", 1280), ("light", 400), ("dark", 400)):
        name = f"evidence, {theme}, {width} px"
        with Page(browser, path, color_scheme=theme, viewport={"width": width, "height": 900}) as page:
            cause = page.locator("article.cause h3").first.inner_text()
            check(page.locator("h1").inner_text() == cause, f"{name}: the headline is no cause")
            check("failed" in page.locator("#ended").inner_text(), f"{name}: the verdict")
            no_sideways_scroll(page, name)
            box = page.locator(".top .change").bounding_box()
            below = box["y"] + box["height"]
            check(width < 1280 or below <= CHANGE_PIXELS,
                  f"{name}: what to change ends {below:.0f} px down")
            page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
            no_sideways_scroll(page, name + ", all open")
            engines = page.locator(".engines a[href^='https://github.com/']").count()
            check(engines > 0, f"{name}: no link to the bug of an engine")
            count = page.locator("svg").count()
            named = page.locator("svg[role=img][aria-label] > desc").count()
            check(count == named and count > 15, f"{name}: {named} of {count} pictures have words")
            accessibility(page, name, axe)
            if pictures:
                page.screenshot(path=pictures / f"red-{theme}-{width}.png", full_page=True)
    with Page(browser, path) as page:
        card = page.locator("article").last
        card.locator(".members > summary").click()
        check(card.locator(".members").get_attribute("open") is not None, "a card does not open")
        replay = page.locator("article .replay").first
        replay.locator("button").click()
        check(page.evaluate("navigator.clipboard.readText()") ==
              replay.locator("code").text_content(), "the replay line was not copied")
        check(replay.locator("button").inner_text() == "Copied", "Copy does not say that it did")
        page.locator(".tiles .failed a").click()
        wait_until(page, lambda: set(column(page, 0)) == {"failed"})
        page.click("#f-clear")
        use_table(page, "evidence", int(shown(page).split()[0].replace(",", "")))


def addresses(browser, folder):
    """Checks that the reader's selections (a filter, a row, a case, a cause) are in the page's address, and
    that the address restores the selections in a new window."""
    path = folder / "evidence" / "index.html"
    with Page(browser, path) as page:
        page.locator(".tiles .failed a").click()
        wait_until(page, lambda: "#cases?verdict=failed" in page.url)
        page.select_option("#f-check", label="binomial")
        page.fill("#f-text", "lane")
        page.locator(".cases th button").nth(7).click()
        wait_until(page, lambda: "q=lane" in page.url and "sort=draws" in page.url)
        address, chosen = page.url, column(page, 2)
        check(chosen == ["binomial/gaussian/v1000/none/t1"], f"the filters show {chosen}")
        rows(page).first.click()
        of_case = page.locator("tr.details .hint a").get_attribute("href")
        page.click("#f-clear")
        check(page.url.endswith("#cases"), f"Clear leaves {page.url}")
        member = page.locator("details.case").last.get_attribute("id")
        cause = page.locator("article.cause").nth(1).get_attribute("id")
        cell = page.locator(".heat a").first
        cell.focus()
        page.keyboard.press("Enter")
        wait_until(page, lambda: "check=" in page.url)
        wait_until(page, lambda: page.locator("#f-check").input_value() != "")
    for fragment, wanted in ((address.split("#")[1], chosen), (of_case[1:], chosen)):
        with Page(browser, path, fragment=fragment) as page:
            check(column(page, 2) == wanted, f"#{fragment} shows {column(page, 2)}")
    with Page(browser, path, fragment=of_case[1:]) as page:
        check(page.locator("tr.details").count() == 1, f"{of_case} does not open its row")
    with Page(browser, path, fragment="cases?check=no-such-check") as page:
        check(rows(page).count() == 0, "an address with an unknown check shows cases")
    for name in (member, cause):
        with Page(browser, path, fragment=name) as page:
            place = page.locator("#" + name)
            check(place.is_visible() and page.evaluate(
                f"document.getElementById('{name}').getBoundingClientRect().top < innerHeight"),
                f"#{name} does not show what it names")
    with Page(browser, path, fragment="%E0%A4%A") as page:
        check(rows(page).count() > 0, "an address that is no text breaks the page")


def short_page(browser, folder, pictures):
    """Checks that a page with 68 failures of a few causes is short enough to read without much scrolling."""
    with Page(browser, folder / "red" / "index.html", viewport={"width": 1280, "height": 900}) as page:
        check(page.locator("details.case").count() == 68, "a failed case has no details")
        height = page.evaluate("document.documentElement.scrollHeight")
        causes = page.evaluate("document.getElementById('causes').getBoundingClientRect().height")
        print(f"68 failures: the page is {height} px high, what went wrong {causes:.0f} px")
        check(height <= MAX_PIXELS, f"68 failures take {height} px")
        no_sideways_scroll(page, "red")
        if pictures:
            page.screenshot(path=pictures / "red-68.png", full_page=True)
    # On paper.
    with Page(browser, folder / "red" / "index.html") as page:
        page.emulate_media(media="print")
        check(page.locator("article.cause .change").first.is_visible(), "paper lacks what to change")
        check(not page.locator("nav.contents").is_visible(), "paper has contents that lead nowhere")


def green_run(browser, folder, axe, pictures):
    for theme in ("light", "dark"):
        with Page(browser, folder / "green" / "index.html", color_scheme=theme,
                  viewport={"width": 1280, "height": 900}) as page:
            check("passed" in page.locator("h1").inner_text(), "green: the verdict")
            check(page.locator("article").count() == 0, "green: has cards of failures")
            for part in ("It shows", "It does not show"):
                check(page.locator("#proof h3", has_text=part).first.is_visible(), f"green: {part}")
            accessibility(page, f"green, {theme}", axe)
            if pictures:
                page.screenshot(path=pictures / f"green-{theme}-1280.png")
            use_table(page, f"green, {theme}", 2500)
    with Page(browser, folder / "green" / "index.html", java_script_enabled=False) as page:
        check(page.locator("h1", has_text="passed").is_visible(), "without script: the verdict")
        check(page.locator("noscript p", has_text="summary.md").is_visible(),
              "without script: where to read on")


def hostile_text(browser, folder, axe):
    for name in ("nasty", "nasty_evidence"):
        with Page(browser, folder / name / "index.html", viewport={"width": 400, "height": 900}) as page:
            check(page.locator("script").count() == 2, f"{name}: a name became a script")
            check(page.locator("b[onload]").count() == 0, f"{name}: a name became an element")
            no_sideways_scroll(page, name)
            accessibility(page, name, axe)


def many_cases(browser, folder):
    path = folder / "large" / "index.html"
    paints = []
    while len(paints) < 3 and (not paints or min(paints) > FIRST_PAINT_MS):
        # The smallest of three times counts, because other work on the machine also takes time.
        with Page(browser, path) as page:
            entry = "performance.getEntriesByName('first-contentful-paint')[0]"
            wait_until(page, lambda page=page: page.evaluate(f"{entry} !== undefined"))
            paints.append(page.evaluate(f"{entry}.startTime"))
    print(f"100,000 cases: first paint after {min(paints):.0f} ms")
    check(min(paints) <= FIRST_PAINT_MS, f"first paint after {paints} ms")
    with Page(browser, path) as page:
        start = time.monotonic()
        use_table(page, "large", 100_000)
        print(f"100,000 cases: the table used in {time.monotonic() - start:.1f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", required=True, help="the program that writes the sample reports")
    parser.add_argument("--screenshots", type=Path, help="a folder to leave screenshots in")
    parser.add_argument("--venv", type=Path, help="the environment that has Playwright, if any")
    arguments = parser.parse_args()
    enter_venv(arguments.venv)
    absent = missing("playwright", "axe_playwright_python")
    if absent:
        print(f"skipped: {', '.join(absent)} not installed; ./fairdraw test --all installs them")
        return SKIPPED
    from playwright.sync_api import sync_playwright

    spec = importlib.util.find_spec("axe_playwright_python")
    axe = (Path(spec.submodule_search_locations[0]) / "axe.min.js").read_text(encoding="utf-8")
    if arguments.screenshots:
        arguments.screenshots.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([arguments.samples, name], check=True)
        with sync_playwright() as playwright:
            browser = launch(playwright)
            red_run(browser, folder, axe, arguments.screenshots)
            addresses(browser, folder)
            short_page(browser, folder, arguments.screenshots)
            green_run(browser, folder, axe, arguments.screenshots)
            hostile_text(browser, folder, axe)
            many_cases(browser, folder)
            # A page with faults shows that the checks above can fail. The faulty page has an error, a request
            # and a fault of accessibility.
            before = len(problems)
            bad = folder / "bad"
            bad.mkdir()
            (bad / "index.html").write_text("<html><title>x</title><img src='none.png'>"
                                            "<script>undefined.x</script>")
            with Page(browser, bad / "index.html") as page:
                accessibility(page, "bad", axe)
            expected = len(problems) - before
            del problems[before:]
            check(expected >= 3, f"a bad page was found to have {expected} faults only")
            print("(those of the bad page were expected)")
            browser.close()
    print(f"{len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
