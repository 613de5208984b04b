"""Looks at pages of the dashboard in a real browser.

usage: dashboard.py BROWSER URL FOLDER PATH...

Every page is opened wide and light, and narrow and dark. It must answer 200, say nothing on the console, ask nobody but
the server for anything, fit the width, and pass axe without a serious finding. Pictures go to FOLDER.
"""
import json
import sys

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import sync_playwright

browser_path, base, folder, *paths = sys.argv[1:]
LOOKS = [
    ("wide", {"viewport": {"width": 1200, "height": 900}, "color_scheme": "light"}),
    ("phone", {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark"}),
]
complaints = []

with sync_playwright() as playwright:
    browser = playwright.chromium.launch(
        executable_path=browser_path,
        args=["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
    )
    for look, options in LOOKS:
        plain = browser.new_context(**options)
        # axe is put into the page, which its policy forbids: the second visit is without the policy.
        scanned = browser.new_context(bypass_csp=True, **options)
        for path in paths:
            where = f"{look} {path}"
            page = plain.new_page()
            page.on("console", lambda message: message.type in ("error", "warning") and complaints.append(f"{where}: console: {message.text}"))
            page.on("pageerror", lambda error: complaints.append(f"{where}: script: {error}"))
            page.on("request", lambda request: request.url.startswith((base, "data:")) or complaints.append(f"{where}: asks {request.url}"))
            answer = page.goto(base + path, wait_until="load")
            if answer is None or answer.status != 200:
                complaints.append(f"{where}: status {answer and answer.status}")
            if page.locator("h1").count() != 1:
                complaints.append(f"{where}: {page.locator('h1').count()} headings of the first order")
            too_wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            if too_wide > 1:
                complaints.append(f"{where}: {too_wide} pixels wider than the screen")
            name = f"{folder}/{look}{path.replace('/', '_').replace('?', '_')[:60]}.png"
            page.screenshot(path=name, full_page=True)
            page.close()
            page = scanned.new_page()
            page.goto(base + path, wait_until="load")
            for found in Axe().run(page).response["violations"]:
                if found["impact"] in ("serious", "critical"):
                    nodes = [node["html"][:160] for node in found["nodes"][:3]]
                    complaints.append(f"{where}: axe: {found['id']}: {found['help']}: {json.dumps(nodes)}")
            page.close()
        plain.close()
        scanned.close()
    # A chart tells its values under the pointer, and a drag looks closer.
    page = browser.new_page()
    for path in paths:
        page.goto(base + path, wait_until="load")
        plot = page.locator("figure[data-chart=lines] svg.plot").first
        if plot.count() and page.locator("figure[data-chart=lines] tbody tr").count() > 3:
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
            break
    else:
        complaints.append("no page has a chart to point at")
    browser.close()

print("\n".join(complaints))
sys.exit(1 if complaints else 0)
