"""When states of rows that are played are captured again, so that little has to be replayed."""

from __future__ import annotations

#: Calls after which states are captured, and bytes of states that one call more may cost:
#: large states are captured less often.
_CALLS, _BYTES_PER_CALL = 64, 1024
#: Seconds of env time that may have to be played again: at least, and at most.
_LEAST, _MOST = 0.1, 1.0
#: Of the time that envs take, capturing takes at most a fiftieth, if that bound allows it;
#: at most a tenth in any case.
_CHEAP, _DEAR = 50, 10


class CapturePace:
    """Measures what steps and captures cost."""

    def __init__(self) -> None:
        self._calls, self._seconds = 0, 0.0
        self._longest, self._bound = _CALLS, _LEAST

    def note(self, seconds: float) -> bool:
        """Note a call that took some seconds; whether states should be captured now."""
        self._calls += 1
        self._seconds += seconds
        return self._calls >= self._longest or self._seconds >= self._bound

    def captured(self, seconds: float, nbytes: int) -> None:
        """Note that states of some bytes were captured, which took some seconds."""
        self._calls, self._seconds = 0, 0.0
        self._longest = max(_CALLS, nbytes // _BYTES_PER_CALL)
        self._bound = max(_LEAST, min(_MOST, _CHEAP * seconds), _DEAR * seconds)
