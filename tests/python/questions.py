"""Answers questions of users in a real browser, each from the overview with at most four interactions.

usage: questions.py BROWSER URL PLAN

PLAN is a JSON file: `looks`, and `questions`, each with `ask`, `steps` and the words that the last page must contain. A step
is one interaction: `link:NAME` clicks the first visible link whose name contains NAME, `button:NAME` a button, `search:LABEL=TEXT` fills a
field and presses Enter, `select:LABEL=WORDS` chooses and applies, `check:LABEL` ticks and applies, `key:KEYS` presses keys
one after another, `open:NAME` opens a collapsed part.
"""
import json
import sys
from pathlib import Path

from playwright.sync_api import Error, sync_playwright

browser_path, base, plan = sys.argv[1:]
plan = json.loads(Path(plan).read_text())
LOOKS = {
    "wide": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "light"},
    "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark", "has_touch": True},
}
failures = []


def interact(page, step):
    kind, _, what = step.partition(":")
    if kind == "link":
        page.get_by_role("link", name=what).first.click()
    elif kind == "button":
        page.get_by_role("button", name=what).first.click()
    elif kind == "open":
        page.locator("summary", has_text=what).first.click()
    elif kind == "key":
        for key in what.split():
            page.keyboard.press(key)
    else:
        label, _, value = what.partition("=")
        field = page.get_by_label(label, exact=False).first
        if kind == "search":
            field.fill(value)
            field.press("Enter")
        elif kind == "select":
            field.select_option(label=value)
            page.get_by_role("button", name="Apply").first.click()
        elif kind == "check":
            field.check()
            page.get_by_role("button", name="Apply").first.click()
        else:
            raise ValueError(step)
    page.wait_for_load_state("load")


with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox", "--disable-gpu"])
    for look in plan["looks"]:
        context = browser.new_context(**LOOKS[look])
        context.set_default_timeout(5000)
        for question in plan["questions"]:
            where = f"{look}: {question['ask']}"
            if len(question["steps"]) > 4:
                failures.append(f"{where}: {len(question['steps'])} interactions")
            page = context.new_page()
            page.on("console", lambda message: failures.append(f"{where}: console: {message.text}"))
            page.on("pageerror", lambda error: failures.append(f"{where}: script: {error}"))
            page.goto(base + "/", wait_until="load")
            try:
                for step in question["steps"]:
                    interact(page, step)
                shown = page.evaluate("document.querySelector('main').textContent")
                for word in question["words"]:
                    if word not in shown:
                        failures.append(f"{where}: {page.url} lacks {word!r}")
            except Error as error:
                failures.append(f"{where}: {page.url}: {error.message.splitlines()[0]} in {step!r}")
            page.close()
        context.close()
    browser.close()

print("\n".join(failures))
sys.exit(1 if failures else 0)
