"""Looks at pages of the dashboard in a real browser.

usage: dashboard.py BROWSER URL PLAN

PLAN is a JSON file: `pages` with the words that stand on each, `looks`, and what else is to be tried. Every page must answer
200, show its words, say nothing on the console, ask nobody but the server for anything, fit the width, and have a table for
every chart. With `access`, axe must find nothing serious and every control must be reached by the Tab key. With `scripts`,
somebody has written scripts wherever one can write: they must be shown, and nothing of them may have run. Pictures go to the
folder `pictures`, if there is one.
"""
import json
import re
import sys
from pathlib import Path

from axe_playwright_python.base import AXE_SCRIPT as AXE
from playwright.sync_api import sync_playwright

browser_path, base, plan = sys.argv[1:]
plan = json.loads(Path(plan).read_text())
LOOKS = {
    "wide": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark", "has_touch": True},
}
complaints = []


def looks_right(page, where, words):
    """What holds for every page."""
    if page.locator("h1").count() != 1:
        complaints.append(f"{where}: {page.locator('h1').count()} headings of the first order")
    text = page.evaluate("document.body.textContent")
    for word in words:
        if word not in text:
            complaints.append(f"{where}: {word!r} is not there")
    too_wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
    if too_wide > 1:
        complaints.append(f"{where}: {too_wide} pixels wider than the screen")
    bare = page.evaluate(
        "[...document.querySelectorAll('svg[role=img]')].filter((svg) => !svg.closest('figure')?.querySelector('table')"
        " || !svg.getAttribute('aria-label')).map((svg) => svg.getAttribute('aria-label'))"
    )
    if bare:
        complaints.append(f"{where}: charts without a name or a table: {bare}")
    # A place without a number, or a number that is none, is a mistake of ours.
    shown = page.evaluate("document.body.innerText")
    for sign in ["NaN", "undefined", "Infinity", "None"]:
        if re.search(rf"(?<![\w]){sign}(?![\w])", shown):
            complaints.append(f"{where}: shows {sign}")


def is_accessible(page, where):
    """axe, put in by the debugger, which the page's policy does not concern."""
    page.evaluate(AXE)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    for one in found["violations"]:
        if one["impact"] in ("serious", "critical"):
            nodes = [node["html"][:160] for node in one["nodes"][:3]]
            complaints.append(f"{where}: axe: {one['id']}: {one['help']}: {json.dumps(nodes)}")


def is_reached_by_keyboard(page, where):
    """The first Tab leads to the content; further ones to every control (of the first sixty), and each shows that it has the
    focus."""
    page.keyboard.press("Tab")
    if page.evaluate("document.activeElement.className") != "skip":
        complaints.append(f"{where}: the first Tab does not lead to the link to the content")
        return
    page.keyboard.press("Enter")
    if page.evaluate("location.hash") != "#content":
        complaints.append(f"{where}: the link to the content leads elsewhere")
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
                return getComputedStyle(one).outlineStyle === 'none' ? 'unseen ' + one.outerHTML.slice(0, 120) : '';
            }"""
        )
        if state == "end":
            break
        if state:
            complaints.append(f"{where}: {state} does not show that it has the focus")
    missed = page.evaluate(f"{controls}.filter((one) => !one.dataset.reached).map((one) => one.outerHTML.slice(0, 120))")
    if missed:
        complaints.append(f"{where}: Tab does not lead to {missed[:3]}")
    closed = page.query_selector("main details:not([open]) > summary")
    if closed and closed.is_visible():
        closed.focus()
        page.keyboard.press("Enter")
        if not closed.evaluate("(one) => one.parentElement.open"):
            complaints.append(f"{where}: Enter does not open {closed.inner_text()!r}")


def nothing_has_run(page, where):
    """Everything is opened and pointed at; nothing of what was written has become an element or has run."""
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    for mark in page.locator("svg path.dot, svg rect, svg circle").all()[:5]:
        if mark.is_visible():
            mark.hover(force=True)
    page.wait_for_timeout(50)
    if page.evaluate("window.pwned") is not None:
        complaints.append(f"{where}: what somebody wrote has run: {page.evaluate('window.pwned')}")
    made = page.evaluate(
        "[...document.querySelectorAll('img, iframe, object, embed, script:not([src^=\"/assets/\"]), [onerror], [onload], [onclick]')]"
        ".map((one) => one.outerHTML.slice(0, 160))"
    )
    if made:
        complaints.append(f"{where}: what somebody wrote has become {made}")


def a_chart_can_be_pointed_at(page):
    """A chart tells its values under the pointer, and a drag looks closer."""
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
            complaints.append(f"{path}: nothing is told under the pointer")
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.9, middle)
        page.mouse.up()
        if "Escape" not in page.locator(".zoomed").first.inner_text():
            complaints.append(f"{path}: a drag does not look closer")
        page.keyboard.press("Escape")
        if page.locator(".zoomed").first.is_visible():
            complaints.append(f"{path}: Escape does not show all")
        return
    complaints.append("no page has a chart to point at")


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
            page.on("console", lambda message: complaints.append(f"{where}: console: {message.text}"))
            page.on("pageerror", lambda error: complaints.append(f"{where}: script: {error}"))
            page.on("dialog", lambda dialog: (complaints.append(f"{where}: a dialog: {dialog.message}"), dialog.dismiss()))
            page.on("request", lambda request: request.url.startswith((base, "data:")) or complaints.append(f"{where}: asks {request.url}"))
            answer = page.goto(base + path, wait_until="load")
            missing = path.startswith("/conversations/%")
            if answer is None or answer.status != (404 if missing else 200):
                complaints.append(f"{where}: status {answer and answer.status}")
            if missing:
                # That the browser says so on the console is no complaint.
                complaints = [one for one in complaints if "404" not in one]
            looks_right(page, where, words)
            if plan["pictures"]:
                name = re.sub(r"[^a-z0-9]+", "-", path.split("/run")[0].lower()).strip("-") or "overview"
                page.screenshot(path=f"{plan['pictures']}/{look}-{number:02}-{name[:40]}.png", full_page=True)
            if plan["scripts"]:
                nothing_has_run(page, where)
            if plan["access"]:
                is_accessible(page, where)
                if look == "wide":
                    is_reached_by_keyboard(page, where)
            page.close()
        context.close()
    if plan["access"]:
        a_chart_can_be_pointed_at(browser.new_page())
    browser.close()

print("\n".join(complaints))
sys.exit(1 if complaints else 0)
