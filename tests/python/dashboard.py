"""Checks the pages of the dashboard in a real browser.

usage: dashboard.py BROWSER URL PLAN

URL is the address of a server, or `file://DIRECTORY` with exported pages.

PLAN is a JSON file: `pages` with the words that each must contain, `looks`, and the checks to run. Every page must answer
200, contain its words, log nothing to the console, request nothing from other hosts, fit the width, have a table for
every chart, and have at most 100 kB when compressed. With `access`, axe must find nothing above minor, every control must
be reachable with the Tab key, tables must be printed and forms must not, and keys and sorting of lists must work. With
`scripts`, the data contains scripts in every text field: they must be shown as text and must not run. Screenshots are saved
to the directory `pictures`, if it is set.
"""
import gzip
import json
import re
import sys
from pathlib import Path

from axe_playwright_python.base import AXE_SCRIPT as AXE
from playwright.sync_api import Error, sync_playwright

browser_path, base, plan = sys.argv[1:]
plan = json.loads(Path(plan).read_text())
LOOKS = {
    "wide": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark", "has_touch": True},
}
# Maximum size of a compressed page in bytes; the reference of the API is not a page of the dashboard.
MAX_BYTES = 100_000
failures = []


def check_size(answer, where):
    size = len(gzip.compress(answer.body()))
    if size > MAX_BYTES:
        failures.append(f"{where}: {size} bytes when compressed")


def check_page(page, where, words):
    """Checks that apply to every page."""
    if page.locator("h1").count() != 1:
        failures.append(f"{where}: {page.locator('h1').count()} first-level headings")
    text = page.evaluate("document.body.textContent")
    for word in words:
        if word not in text:
            failures.append(f"{where}: {word!r} is missing")
    too_wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    if too_wide > 1:
        failures.append(f"{where}: {too_wide} pixels wider than the screen")
    bare = page.evaluate(
        "[...document.querySelectorAll('svg[role=img]')].filter((svg) => !svg.closest('figure')?.querySelector('table')"
        " || !svg.getAttribute('aria-label')).map((svg) => svg.getAttribute('aria-label'))"
    )
    if bare:
        failures.append(f"{where}: charts without a name or a table: {bare}")
    # Missing and invalid numbers must not be printed.
    shown = page.evaluate("document.body.innerText")
    for sign in ["NaN", "undefined", "Infinity", "None"]:
        if re.search(rf"(?<![\w]){sign}(?![\w])", shown):
            failures.append(f"{where}: shows {sign}")


def check_accessibility(page, where):
    """Runs axe, injected by the debugger, which is not subject to the content security policy."""
    page.evaluate(AXE)
    # Style sheets of files cannot be requested by a script.
    preload = "false" if base.startswith("file:") else "true"
    found = page.evaluate(f"axe.run(document, {{resultTypes: ['violations'], preload: {preload}}})")
    for one in found["violations"]:
        if one["impact"] != "minor":
            nodes = [node["html"][:160] for node in one["nodes"][:3]]
            failures.append(f"{where}: axe: {one['id']}: {one['help']}: {json.dumps(nodes)}")


def check_keyboard(page, where):
    """The first Tab focuses the skip link, further ones every control (of the first sixty), with a visible focus."""
    page.keyboard.press("Tab")
    if page.evaluate("document.activeElement.className") != "skip":
        failures.append(f"{where}: the first Tab does not focus the skip link")
        return
    page.keyboard.press("Enter")
    if page.evaluate("location.hash") != "#content":
        failures.append(f"{where}: the skip link does not lead to the content")
    page.evaluate("history.replaceState(null, '', location.pathname + location.search)")
    controls = """
        [...document.querySelectorAll('main a[href], main button, main select, main input:not([type=hidden]), main summary')]
            .filter((one) => one.checkVisibility()).slice(0, 60)"""
    wanted = page.evaluate(f"{controls}.length")
    for _ in range(3 * wanted + 60):
        page.keyboard.press("Tab")
        state = page.evaluate(
            """() => {
                const one = document.activeElement;
                if (!one || one === document.body || one.closest('footer') || document.querySelectorAll('[data-reached]').length > 90) return 'end';
                one.dataset.reached = '1';
                return getComputedStyle(one).outlineStyle === 'none' ? one.outerHTML.slice(0, 120) : '';
            }"""
        )
        if state == "end":
            break
        if state:
            failures.append(f"{where}: {state} has no visible focus")
    missed = page.evaluate(f"{controls}.filter((one) => !one.dataset.reached).map((one) => one.outerHTML.slice(0, 120))")
    if missed:
        failures.append(f"{where}: Tab does not reach {missed[:3]}")
    closed = page.query_selector("main details:not([open]) > summary")
    if closed and closed.is_visible():
        closed.focus()
        page.keyboard.press("Enter")
        if not closed.evaluate("(one) => one.parentElement.open"):
            failures.append(f"{where}: Enter does not open {closed.inner_text()!r}")


def check_scripts(page, where):
    """Opens every element and hovers over marks; no script in the data may become an element or run."""
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    for mark in page.locator("svg path.dot, svg rect, svg circle").all()[:5]:
        if mark.is_visible():
            mark.hover(force=True)
    page.wait_for_timeout(50)
    if page.evaluate("window.pwned") is not None:
        failures.append(f"{where}: a script in the data has run: {page.evaluate('window.pwned')}")
    made = page.evaluate(
        "[...document.querySelectorAll('img, iframe, object, embed, script:not([src^=\"/assets/\"]), [onerror], [onload], [onclick]')]"
        ".map((one) => one.outerHTML.slice(0, 160))"
    )
    if made:
        failures.append(f"{where}: text in the data has become an element: {made}")


def check_print(page, where):
    """Tables are printed; the menu, forms and tools are not."""
    page.emulate_media(media="print")
    shown = page.evaluate(
        "[...document.querySelectorAll('header.site, form.line, form.grades, .tools')].filter((one) => one.checkVisibility()).length"
    )
    if shown:
        failures.append(f"{where}: {shown} controls are printed")
    hidden = page.evaluate(
        "[...document.querySelectorAll('main table')].filter((one) => !one.closest('details:not([open])') && !one.checkVisibility()).length"
    )
    if hidden:
        failures.append(f"{where}: {hidden} tables are not printed")


def check_list_keys(page):
    """In a list, keys move, select, search and open, and the selection is copied as CSV or Markdown."""
    page.add_init_script(
        "Object.defineProperty(navigator.clipboard, 'writeText', {value: async (text) => { window.copied = text; }})"
    )
    page.goto(base + "/bench", wait_until="load")
    for key in "jjkx":
        page.keyboard.press(key)
    if page.locator("tr.chosen").count() != 1 or page.locator("tr.current.chosen").count() != 1:
        failures.append("/bench: x does not select the row that j and k moved to")
    for name, start, lines in [("Copy as CSV", '"run","suite","started"', 2), ("Copy as Markdown", "| run | suite | started |", 3)]:
        page.get_by_role("button", name=name).click()
        copied = page.evaluate("window.copied") or ""
        if not copied.startswith(start) or len(copied.splitlines()) != lines:
            failures.append(f"/bench: {name} copies {copied!r}")
    page.keyboard.press("/")
    if page.evaluate("document.activeElement.name") != "q":
        failures.append("/bench: / does not focus the search field")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    try:
        page.wait_for_url("**/bench/runs/*", timeout=5000)
    except Error:
        failures.append(f"/bench: Enter does not open the row, but {page.url}")
    page.close()


def check_sort(page):
    """A click on the head of a column sorts the list, a second one turns the order around, and the address says so."""
    for path, column, key in [("/bench", "pass rate", "rate"), ("/conversations", "saturation", "score"), ("/progress", "wasted", "wasted")]:
        page.goto(base + path, wait_until="load")
        for order, sort in [("descending", f"sort=-{key}"), ("ascending", f"sort={key}")]:
            with page.expect_navigation(wait_until="load"):
                page.locator("section.list thead a", has_text=column).first.click()
            head = page.locator(f"section.list th[aria-sort={order}]")
            if not page.url.endswith(sort) or head.count() != 1 or column not in head.inner_text():
                failures.append(f"{path}: a click on {column} leads to {page.url}")
            cells = page.locator(f"section.list td[data-label='{column}']").all_inner_texts()
            numbers = [re.match(r"[\d.]+", cell.strip()) for cell in cells]
            # Rows without a value are the lowest.
            numbers = [float(number.group()) if number else -1.0 for number in numbers]
            if len(numbers) < 2 or numbers != sorted(numbers, reverse=order == "descending"):
                failures.append(f"{path}: {order} by {column} gives {cells}")
    page.close()


def check_chart_pointer(page):
    """A chart shows its values under the pointer, and dragging zooms in."""
    for path, _ in plan["pages"]:
        page.goto(base + path, wait_until="load")
        plot = page.locator("figure[data-chart=lines] svg.plot").first
        if not plot.count() or page.locator("figure[data-chart=lines] tbody tr").count() <= 3:
            continue
        plot.scroll_into_view_if_needed()
        box = plot.bounding_box()
        middle = box["y"] + box["height"] / 2
        page.mouse.move(box["x"] + box["width"] / 2, middle)
        if not page.locator(".tip").first.is_visible():
            failures.append(f"{path}: no tooltip under the pointer")
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.9, middle)
        page.mouse.up()
        if "Escape" not in page.locator(".zoomed").first.inner_text():
            failures.append(f"{path}: dragging does not zoom in")
        page.keyboard.press("Escape")
        if page.locator(".zoomed").first.is_visible():
            failures.append(f"{path}: Escape does not reset the zoom")
        return
    failures.append("no page has a chart to point at")


with sync_playwright() as playwright:
    browser = playwright.chromium.launch(
        executable_path=browser_path,
        args=["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
    )
    for look in plan["looks"]:
        context = browser.new_context(**LOOKS[look])
        for number, (path, words) in enumerate(plan["pages"]):
            where = f"{look} {path}"
            page = context.new_page()
            page.on("console", lambda message: failures.append(f"{where}: console: {message.text}"))
            page.on("pageerror", lambda error: failures.append(f"{where}: script: {error}"))
            page.on("dialog", lambda dialog: (failures.append(f"{where}: a dialog: {dialog.message}"), dialog.dismiss()))
            page.on("request", lambda request: request.url.startswith((base, "data:")) or failures.append(f"{where}: requests {request.url}"))
            answer = page.goto(base + path, wait_until="load")
            missing = path.startswith("/conversations/%")
            # A file has no status.
            if not base.startswith("file:") and (answer is None or answer.status != (404 if missing else 200)):
                failures.append(f"{where}: status {answer and answer.status}")
            if missing:
                # The browser logs the expected 404 to the console.
                failures = [one for one in failures if "404" not in one]
            if not base.startswith("file:") and path != "/docs":
                check_size(answer, where)
            check_page(page, where, words)
            if plan["pictures"]:
                name = re.sub(r"[^a-z0-9]+", "-", path.split("/run")[0].lower()).strip("-") or "overview"
                page.screenshot(path=f"{plan['pictures']}/{look}-{number:02}-{name[:40]}.png", full_page=True)
            if plan["scripts"]:
                check_scripts(page, where)
            if plan["access"]:
                check_accessibility(page, where)
                if look == "wide":
                    check_keyboard(page, where)
                    if path != "/docs":
                        check_print(page, where)
            page.close()
        context.close()
    if plan["access"] and not base.startswith("file:"):
        check_chart_pointer(browser.new_page())
        check_list_keys(browser.new_page())
        check_sort(browser.new_page())
    browser.close()

print("\n".join(failures))
sys.exit(1 if failures else 0)
