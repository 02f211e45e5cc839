"""Those of the book: `python3 site/tests/pictures.py FOLDER`."""

import sys
from pathlib import Path

from browser import URL, Browser

LOOKS = {
    "planner": dict(width=1200, height=1000),
    "planner-phone": dict(width=400, height=860, dark=True),
}


def main():
    folder = Path(sys.argv[1])
    browser = Browser()
    try:
        for name, look in LOOKS.items():
            page = browser.page(URL, **look).ready()
            page.wait("planner.shown.curve?.length === planner.shown.points.length && planner.shown.curve.length > 10")
            # What is drawn last is on the screen a frame later.
            page.run("new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))")
            (folder / f"{name}.png").write_bytes(page.screenshot(whole=True))
            page.close()
            print(f"pictures: {folder}/{name}.png")
    finally:
        browser.close()


if __name__ == "__main__":
    main()
