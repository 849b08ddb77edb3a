"""A clock that a test advances."""


class ManualClock:
    """A clock whose times change only when `advance` is called."""

    __slots__ = ("_seconds", "_start_ms")

    def __init__(self, seconds: float = 0.0, start_ms: int = 0) -> None:
        self._seconds = seconds
        self._start_ms = start_ms

    def monotonic(self) -> float:
        """See `Clock`."""
        return self._seconds

    def wall_ms(self) -> int:
        """See `Clock`."""
        return self._start_ms + int(self._seconds * 1_000)

    def advance(self, seconds: float) -> None:
        """Advance the clock.

        Raises:
            ValueError: `seconds` is negative.
        """
        if seconds < 0:
            raise ValueError("a clock cannot go backwards")
        self._seconds += seconds
