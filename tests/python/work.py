"""Does in a real browser what people do on live pages: pause and resume the updates of an agent's timeline, start a run and
stop its job.

usage: work.py BROWSER URL PLAN

PLAN is a JSON file: `run` is the id of an agent's run that goes on, `message` is one more message of the agent. The server has one
suite below its root, whose target does not answer.
"""
import json
import re
import sys
import time
from pathlib import Path

from playwright.sync_api import Error, sync_playwright

browser_path, base, plan = sys.argv[1:]
plan = json.loads(Path(plan).read_text())
failures = []


def check_live(page):
    """While paused, the page counts what is new and stays as it is; afterwards it reloads by itself."""
    messages = f"{base}/v1/conversations/{plan['run']}/messages"
    page.goto(f"{base}/progress/{plan['run']}", wait_until="load")
    steps = page.locator("tr[id^=step-]")
    before = steps.count()
    page.get_by_role("button", name="Pause updates").click()
    page.evaluate("window.kept = true")
    page.request.post(messages, data={"messages": [plan["message"]]})
    page.get_by_text("Paused, 1 new").wait_for()
    if steps.count() != before or not page.evaluate("window.kept"):
        failures.append("a paused timeline has changed")
    with page.expect_navigation():
        page.get_by_role("button", name="Resume updates").click()
    if steps.count() != before + 1:
        failures.append(f"a resumed timeline has {steps.count()} steps instead of {before + 1}")
    with page.expect_navigation():
        page.request.post(messages, data={"messages": [plan["message"]]})
    if steps.count() != before + 2:
        failures.append(f"a live timeline has {steps.count()} steps instead of {before + 2}")


def wait_for_state(page, job, state):
    for _ in range(200):
        found = page.request.get(f"{base}/v1/jobs/{job}").json()["state"]
        if found == state:
            return
        time.sleep(0.1)
    failures.append(f"the job is {found} instead of {state}")


def check_job(page):
    """A run is started from the list of runs, its job is shown, and a person stops it."""
    page.goto(f"{base}/bench", wait_until="load")
    page.get_by_role("link", name="Start a run").click()
    page.get_by_role("button", name="Start").click()
    page.wait_for_url(re.compile("/bench/jobs/[^/]+$"))
    job = page.url.rsplit("/", 1)[1]
    # A page that reloads by itself must not do so while it is used.
    page.get_by_role("button", name="Pause updates").click()
    wait_for_state(page, job, "running")
    page.goto(f"{base}/bench/jobs/{job}", wait_until="load")
    if "running" not in page.inner_text("main"):
        failures.append(f"the page of a running job says {page.inner_text('main')!r}")
    with page.expect_navigation():
        page.get_by_role("button", name="Stop").click()
    wait_for_state(page, job, "stopped")
    page.goto(f"{base}/bench/jobs/{job}", wait_until="load")
    if "stopped" not in page.inner_text("main") or page.get_by_role("button", name="Stop").count():
        failures.append(f"the page of a stopped job says {page.inner_text('main')!r}")


with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox", "--disable-gpu"])
    for check in [check_live, check_job]:
        page = browser.new_page()
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: failures.append(f"script: {error}"))
        try:
            check(page)
        except Error as error:
            failures.append(f"{check.__name__}: {page.url}: {error.message}")
        page.close()
    browser.close()

print("\n".join(failures))
sys.exit(1 if failures else 0)
