"""The browser and the page that all tests share."""

import os

import pytest

from browser import PAGE, ROOT, URL, Browser


@pytest.fixture(scope="session")
def browser():
    assert PAGE.exists(), f"{PAGE}: make it first: make site"
    browser = Browser()
    yield browser
    browser.close()


@pytest.fixture
def planner(browser):
    """Opens the page with these keys in its address; whatever a test does, nothing may be fetched and no script may fail."""
    opened = []

    def open_(hash="", **look):
        page = browser.page(URL + hash, **look)
        opened.append(page)
        return page

    yield open_
    for page in opened:
        complaints, requests = page.complaints(), page.requests()
        page.close()
        assert complaints == []
        # The page itself and its worker, which is a part of it.
        outside = [url for url in requests if not url.startswith((URL, "blob:", "data:"))]
        assert outside == []


@pytest.fixture(scope="session")
def rxlane():
    return os.environ.get("RXLANE_LAB", ROOT / "target/debug/rxlane-lab")
