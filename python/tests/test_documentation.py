"""What docstrings, stubs and the book say is so."""

from __future__ import annotations

import doctest
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Iterator, Tuple

import pytest
from conftest import REPOSITORY

import rxlane
import rxlane.study

BOOK = REPOSITORY / "docs" / "src" / "how-to" / "python.md"


def public() -> Iterator[Tuple[str, Any]]:
    for module in (rxlane, rxlane.study):
        yield module.__name__, module
        for name in module.__all__:
            thing = getattr(module, name)
            yield f"{module.__name__}.{name}", thing
            if inspect.isclass(thing) and thing.__module__.startswith("rxlane"):
                for member, value in vars(thing).items():
                    if not member.startswith("_") and not issubclass(thing, BaseException):
                        yield f"{module.__name__}.{name}.{member}", value


@pytest.mark.parametrize(("name", "thing"), list(public()), ids=lambda v: v if isinstance(v, str) else "")
def test_everything_public_has_a_docstring_whose_examples_hold(name: str, thing: Any, tmp_path: Path, monkeypatch: Any) -> None:
    if isinstance(thing, (str, int, float)) or name.startswith("rxlane.PollEnd."):
        return
    text = inspect.getdoc(thing)
    assert text, name
    monkeypatch.chdir(tmp_path)
    example = doctest.DocTestParser().get_doctest(text, {"rxlane": rxlane}, name, None, None)
    failures, _ = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(example)
    assert failures == 0


def test_stubs_have_what_the_module_has(tmp_path: Path) -> None:
    allowed = tmp_path / "allowed"
    allowed.write_text("rxlane._rxlane.__all__\n")
    arguments = ["--allowlist", str(allowed), "rxlane._rxlane"]
    done = subprocess.run([sys.executable, "-m", "mypy.stubtest", *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_package_and_tests_are_typed() -> None:
    here = Path(__file__).parent
    arguments = ["--strict", "--ignore-missing-imports", "--disable-error-code=misc", "-p", "rxlane"]
    done = subprocess.run([sys.executable, "-m", "mypy", *arguments], capture_output=True, text=True, cwd=here)
    assert done.returncode == 0, done.stdout


def test_the_examples_of_the_book_run_one_after_the_other(tmp_path: Path, monkeypatch: Any) -> None:
    import matplotlib

    matplotlib.use("Agg")
    blocks = re.findall(r"```python\n(.*?)```", BOOK.read_text(), re.DOTALL)
    assert len(blocks) > 4
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, str(BOOK), "exec"), names)
