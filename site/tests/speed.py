"""How large the page is and how fast it answers: `target/site-env/bin/python site/tests/speed.py`, on a machine with nothing else to do."""

import gzip
import statistics

from browser import PAGE, URL, Browser

MOVES = 50
MOVE = """(async (i) => {
  const range = document.getElementById('control-cpu-packet_ns');
  range.value = 150 + 2 * i;
  range.dispatchEvent(new Event('input', { bubbles: true }));
})"""


def spread(name, values):
    values = sorted(values)
    p95 = values[int(0.95 * (len(values) - 1))]
    print(f"{name}: median {statistics.median(values):.1f} ms, p95 {p95:.1f} ms, of {len(values)}")


def main():
    text = PAGE.read_bytes()
    print(f"page: {len(text) / 1024:.0f} KiB, gzip {len(gzip.compress(text, 9)) / 1024:.0f} KiB")
    browser = Browser()
    try:
        page = browser.page(URL).ready()
        paints = page.run("performance.getEntriesByType('paint').map((e) => [e.name, e.startTime])")
        print("; ".join(f"{name} {ms:.0f} ms" for name, ms in paints))
        first, last = [], []
        for i in range(MOVES):
            page.run(f"{MOVE}({i})")
            page.ready()
            times = page.run("planner.times")
            first.append(times["first"])
            last.append(times["last"])
        spread("a move to the first numbers", first)
        spread("a move to all replications", last)
    finally:
        browser.close()


if __name__ == "__main__":
    main()
