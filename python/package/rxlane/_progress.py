"""Saying how far a run is: `progress=True` for a bar of tqdm, or a callable for `done, total`."""

from __future__ import annotations

from typing import Any, Callable, Optional, Protocol, Union

from rxlane._errors import DependencyError

Progress = Union[bool, Callable[[int, int], object], None]


class Shown(Protocol):
    """What is told how far the work is."""

    def update(self, done: int) -> None: ...

    def close(self) -> None: ...


class _Bar:
    def __init__(self, bar: Any) -> None:
        self._bar = bar

    def update(self, done: int) -> None:
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        self._bar.close()


class _Called:
    def __init__(self, call: Callable[[int, int], object], total: int) -> None:
        self._call = call
        self._total = total
        self._told = -1

    def update(self, done: int) -> None:
        if done != self._told:
            self._told = done
            self._call(done, self._total)

    def close(self) -> None:
        pass


def of(progress: Progress, total: int, unit: str) -> Optional[Shown]:
    """What `progress` asks for; nothing where it is None or False. What looks like a bar is one, and told at every look."""
    if progress is None or progress is False:
        return None
    if hasattr(progress, "update") and hasattr(progress, "close"):
        return progress  # type: ignore[return-value]
    if callable(progress):
        return _Called(progress, total)
    try:
        from tqdm.auto import tqdm
    except ImportError as e:
        raise DependencyError(
            "progress=True draws its bar with tqdm, which is not installed: pip install 'rxlane[progress]', or pass a callable"
        ) from e
    return _Bar(tqdm(total=total, unit=f" {unit}"))
