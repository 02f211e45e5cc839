"""Traffic, service times and throttling by a function of Python.

The simulator asks for batches. What it gets is checked here with NumPy and handed over as bytes, so that the interpreter is held for
the batch, and for nothing in between.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, Iterator, Optional, Tuple

from rxlane._arrays import needed
from rxlane._errors import CallableError

# Packets for which service times are asked at once.
SERVICE_BATCH = 1024
FRAMES = (64, 65535)
LONGEST_NS = 1e18
LONGEST_SERVICE_NS = 1e12


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", None) or repr(function)


def _said(function: Callable[..., Any], what: str) -> CallableError:
    return CallableError(f"{_name(function)}: {what}")


def _raised(function: Callable[..., Any], error: Exception) -> CallableError:
    why = " ".join(str(error).split())
    return _said(function, f"it raised {type(error).__name__}: {why}: the traceback above says where")


class _Callable:
    def __init__(self, function: Callable[..., Any]) -> None:
        if not callable(function):
            raise TypeError(f"{type(self).__name__} takes a function: {function!r} is none")
        self.function = function

    def __repr__(self) -> str:
        return f"<rxlane.{type(self).__name__} {_name(self.function)}>"


class Arrivals(_Callable):
    """Packets by a function, in the place of `traffic.pattern`.

    function: called with a numpy.random.Generator for each NIC and replication, it returns an iterable of batches (a generator is the
        easiest). A batch is `(time_ns, class)` or `(time_ns, class, bytes)`, of arrays of one length or single values for all packets; or
        whatever has columns of these names: a dict, a DataFrame, an Arrow table. Times are from the beginning of the run, warm-up included, and never
        go back; classes are numbered from the highest, 0; bytes are of frames with FCS (128 without). Packets end where batches do.

    Draw from the generator that is given, and equal seeds give equal results.

    >>> def bursts(rng):
    ...     time = 0.0
    ...     while True:
    ...         time += rng.exponential(32_000)
    ...         times_ns = time + 700.0 * rng.random(32).cumsum()
    ...         yield times_ns, rng.random(32) > 0.3
    ...         time = times_ns[-1]
    >>> result = rxlane.Scenario({"seconds": 0.01, "traffic.pattern": rxlane.Arrivals(bursts)}).run(seed=3)
    >>> 5e3 < float(result["arrived"]) < 2e4
    True

    What the function raises ends the run, as the cause of a CallableError; so do times that are no numbers, negative or go back.
    """

    def _start(self, seed: int, classes: int) -> "_Batches":
        return _Batches(self.function, seed, classes)


class Stage(_Callable):
    """A stage of processing whose service times are given by a function, behind all others: the key `stage`.

    function: called with a numpy.random.Generator, a class and a number of packets, it returns as many service times, ns. They are those of
        the next packets of that class that are served, on one core.

    >>> def crypto(rng, class_, packets):
    ...     return rng.gamma(4.0, 100.0, packets) if class_ == 1 else numpy.zeros(packets)
    >>> import numpy
    >>> result = rxlane.Scenario({"seconds": 0.01, "stage": rxlane.Stage(crypto)}).run()
    >>> 0.3 < float(result["cpu_stage"]) < 0.5
    True

    Needs the scheme `napi` or `busy-polling`, without worker and host.
    """

    def _start(self, seed: int, classes: int) -> "_Times":
        return _Times(self.function, seed)


class Controller(_Callable):
    """Interrupt throttling by a function, in the place of `interrupt.throttling`.

    function: called at the end of each poll that drained a vector with the packets and bytes since the last time, the time since then in
        ns, and a dict that is the vector's own, for whatever it wants to remember. It returns the least time to the next interrupt, ns; 0 for no limit.

    >>> def by_rate(packets, bytes, elapsed_ns, state):
    ...     state["pps"] = 0.9 * state.get("pps", 0.0) + 0.1 * packets / max(elapsed_ns, 1) * 1e9
    ...     return 125_000 if state["pps"] > 5e5 else 0
    >>> keys = {"seconds": 0.01, "traffic.pps": 1e6, "interrupt.throttling": rxlane.Controller(by_rate)}
    >>> float(rxlane.Scenario(keys).run()["irq_per_s"]) < 2e4
    True
    """

    def _start(self, seed: int, classes: int) -> "_Law":
        return _Law(self.function)


class _Batches:
    def __init__(self, function: Callable[..., Any], seed: int, classes: int) -> None:
        self._function = function
        self._classes = classes
        self._last = 0.0
        self._numpy = needed("numpy", "traffic by a function")
        try:
            made: Iterable[Any] = function(self._numpy.random.default_rng(seed))
            self._batches: Iterator[Any] = iter(made)
        except TypeError as e:
            raise _said(function, f"it does not return batches: write a generator, def {_name(function)}(rng): yield ... ({e})") from e
        except Exception as e:
            raise _raised(function, e) from e

    def next(self) -> Optional[Tuple[bytes, bytes, bytes]]:
        while True:
            try:
                batch = next(self._batches)
            except StopIteration:
                return None
            except Exception as e:
                raise _raised(self._function, e) from e
            times, classes, sizes = self._checked(batch)
            if len(times):
                return times.tobytes(), classes.tobytes(), sizes.tobytes()

    def _parts(self, batch: Any) -> Tuple[Any, Any, Any]:
        wanted = "yield (time_ns, class) or (time_ns, class, bytes), or columns of these names"
        if isinstance(batch, (tuple, list)):
            if len(batch) not in (2, 3):
                raise _said(self._function, f"a batch of {len(batch)} arrays: {wanted}")
            return (*batch, 128)[:3] if len(batch) == 2 else tuple(batch)
        try:
            names = set(getattr(batch, "column_names", None) or batch.keys())
            if {"time_ns", "class"} <= names:
                return batch["time_ns"], batch["class"], batch["bytes"] if "bytes" in names else 128
        except (AttributeError, TypeError):
            pass
        raise _said(self._function, f"a batch of type {type(batch).__name__}: {wanted}")

    def _checked(self, batch: Any) -> Tuple[Any, Any, Any]:
        np = self._numpy
        arrays = []
        for name, values in zip(("time_ns", "class", "bytes"), self._parts(batch)):
            array = np.asarray(values)
            if array.ndim > 1 or array.dtype.kind not in "biuf":
                raise _said(self._function, f"{name} has the shape {array.shape} of {array.dtype}: give one list of numbers")
            arrays.append(array)
        length = len(np.atleast_1d(arrays[0]))
        for name, array in zip(("class", "bytes"), arrays[1:]):
            if array.ndim and len(array) != length:
                raise _said(self._function, f"{length} times and {len(array)} of {name}: give as many, or a single one for all")
        times, classes, sizes = (np.broadcast_to(np.atleast_1d(array), (length,)) for array in arrays)
        times = times.astype(np.float64)
        if length == 0:
            return times, times, times
        self._refuse("time_ns", times, np.isnan(times), "is no time: give ns")
        self._refuse("time_ns", times, (times < 0) | (times > LONGEST_NS), f"is outside of 0 to {LONGEST_NS:g} ns")
        before = np.concatenate(([self._last], times[:-1]))
        self._refuse("time_ns", times, times < before, "is before the one in front of it: give times in their order, from batch to batch, too")
        whole = classes == np.floor(classes) if classes.dtype.kind == "f" else True
        within = (classes >= 0) & (classes < self._classes) & whole
        self._refuse("class", classes, ~within, f"is no class: there are {self._classes}, from 0 on; traffic.shares says how many")
        within = (sizes >= FRAMES[0]) & (sizes <= FRAMES[1])
        self._refuse("bytes", sizes, ~within, f"is no frame: give {FRAMES[0]} to {FRAMES[1]} bytes, with FCS")
        self._last = float(times[-1])
        return times, classes.astype(np.uint8), sizes.astype(np.uint32)

    def _refuse(self, name: str, values: Any, wrong: Any, why: str) -> None:
        if wrong.any():
            at = int(wrong.argmax())
            raise _said(self._function, f"{name}[{at}] = {values[at]} {why}")


class _Times:
    def __init__(self, function: Callable[..., Any], seed: int) -> None:
        self._function = function
        self._numpy = needed("numpy", "a stage by a function")
        self._rng = self._numpy.random.default_rng(seed)

    def next(self, class_: int) -> bytes:
        np = self._numpy
        try:
            times = np.asarray(self._function(self._rng, class_, SERVICE_BATCH))
        except Exception as e:
            raise _raised(self._function, e) from e
        if times.shape != (SERVICE_BATCH,) or times.dtype.kind not in "iuf":
            raise _said(
                self._function,
                f"the shape {times.shape} of {times.dtype} for {SERVICE_BATCH} packets of class {class_}: return as many numbers, ns",
            )
        times = times.astype(np.float64)
        wrong = ~((times >= 0) & (times <= LONGEST_SERVICE_NS))
        if wrong.any():
            at = int(wrong.argmax())
            raise _said(self._function, f"{times[at]} ns for packet {at} of class {class_} is no service time: return 0 to 1e12 ns")
        return bytes(times.tobytes())


class _Law:
    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._state: Dict[Any, Any] = {}

    def update(self, packets: int, bytes_: int, elapsed_ns: int) -> float:
        try:
            interval = self._function(packets, bytes_, elapsed_ns, self._state)
        except Exception as e:
            raise _raised(self._function, e) from e
        try:
            ns = float(interval)
        except (TypeError, ValueError) as e:
            raise _said(self._function, f"{interval!r} is no interval: return ns, 0 for no limit") from e
        if not 0 <= ns <= LONGEST_SERVICE_NS:
            raise _said(self._function, f"{ns} ns is no interval: return 0 to 1e12 ns")
        return ns
