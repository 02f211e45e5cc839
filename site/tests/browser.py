"""A headless Chromium, driven by its DevTools protocol over a pipe: no port, no driver, no package."""

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = Path(os.environ.get("PLANNER", ROOT / "target/site/index.html"))
URL = PAGE.as_uri()
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
]
# It reads what it shall do from descriptor 3 and answers on 4, which may be anything else here.
LAUNCH = """
import fcntl, os, sys
high = [fcntl.fcntl(int(fd), fcntl.F_DUPFD, 10) for fd in sys.argv[1:3]]
for fd, number in zip(high, (3, 4)):
    os.dup2(fd, number)
os.execv(sys.argv[3], sys.argv[3:])
"""
# Machines that test are slow and busy.
LONGEST_S = 60


class Browser:
    """One browser with a profile of its own, and one page at a time."""

    def __init__(self):
        chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        assert chromium, "no chromium: install it, as `make test-site` does"
        self.profile = tempfile.TemporaryDirectory(prefix="rxlane-site-", ignore_cleanup_errors=True)
        its_in, self.to = os.pipe()
        self.answers, its_out = os.pipe()
        self.process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, str(its_in), str(its_out), chromium, *FLAGS, f"--user-data-dir={self.profile.name}", "about:blank"],
            pass_fds=(its_in, its_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(its_in)
        os.close(its_out)
        self.numbers = itertools.count(1)
        self.buffer = b""
        self.events = []

    def close(self):
        try:
            self.send("Browser.close")
            self.process.wait(10)
        except Exception:
            self.process.kill()
            self.process.wait()
        os.close(self.to)
        os.close(self.answers)
        self.profile.cleanup()

    def send(self, method, session=None, **params):
        """Calls a method and returns what it returns; events that come meanwhile are kept."""
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + LONGEST_S
        while True:
            got = self.receive(end - time.monotonic())
            assert got is not None, f"{method}: no answer"
            if got.get("id") == number:
                assert "error" not in got, f"{method}: {got}"
                return got["result"]
            self.events.append(got)

    def receive(self, seconds):
        """The next message, or None after so long."""
        end = time.monotonic() + seconds
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.answers], [], [], max(end - time.monotonic(), 0))
            if not ready:
                return None
            more = os.read(self.answers, 1 << 20)
            assert more, "the browser has ended"
            self.buffer += more
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def page(self, url, width=1200, height=900, dark=False, scale=1):
        return Page(self, url, width, height, dark, scale)


class Page:
    """A page, with all that it asked for and complained of."""

    def __init__(self, browser, url, width, height, dark, scale):
        self.browser = browser
        self.target = browser.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.send("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        browser.events.clear()
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=width < 600)
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.send("Page.navigate", url=url)

    def send(self, method, **params):
        return self.browser.send(method, session=self.session, **params)

    def close(self):
        self.browser.send("Target.closeTarget", targetId=self.target)

    def run(self, script):
        """The value of an expression, waiting for promises."""
        got = self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in got, f"{script}: {got['exceptionDetails']}"
        return got["result"].get("value")

    def wait(self, script, what=None):
        """Until an expression is true."""
        end = time.monotonic() + LONGEST_S
        while time.monotonic() < end:
            value = self.run(script)
            if value:
                return value
            time.sleep(0.02)
        raise AssertionError(f"never: {what or script}")

    def ready(self):
        """Until all replications of what the sliders say are on the page."""
        drawn = "document.getElementById('results').dataset"
        self.wait(f"window.planner && Number({drawn}.id) === planner.model.newest && {drawn}.last === 'true'", "all replications")
        return self

    def complaints(self):
        """Errors of scripts and of the console, and what the browser has refused."""
        self.run("1")
        found = []
        for event in self.browser.events:
            params = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(params["exceptionDetails"])
            if event.get("method") == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                found.append(params["args"])
            if event.get("method") == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(params["entry"])
        return found

    def requests(self):
        """Every address that was asked for."""
        self.run("1")
        return [e["params"]["request"]["url"] for e in self.browser.events if e.get("method") == "Network.requestWillBeSent"]

    def screenshot(self, whole=False):
        clip = {}
        if whole:
            size = self.send("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"captureBeyondViewport": True, "clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}}
        return base64.b64decode(self.send("Page.captureScreenshot", format="png", **clip)["data"])
