"""Those of the book: `python3 site/tests/pictures.py FOLDER`."""

import sys
from pathlib import Path

from browser import URL, Browser

# How each looks, and where on the page: all of it, or from an element on.
LOOKS = {
    "planner": (dict(width=1200, height=1000), None),
    "planner-phone": (dict(width=400, height=1500, dark=True), "progress"),
}


def main():
    folder = Path(sys.argv[1])
    browser = Browser()
    try:
        for name, (look, begin) in LOOKS.items():
            page = browser.page(URL, **look).ready()
            page.wait("planner.shown.curve?.length === planner.shown.points.length && planner.shown.curve.length > 10")
            if begin:
                page.run(f"scrollTo(0, document.getElementById('{begin}').offsetTop - document.getElementById('summary').offsetHeight)")
            # What is drawn last is on the screen a frame later.
            page.run("new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))")
            (folder / f"{name}.png").write_bytes(page.screenshot(whole=begin is None))
            page.close()
            print(f"pictures: {folder}/{name}.png")
    finally:
        browser.close()


if __name__ == "__main__":
    main()
