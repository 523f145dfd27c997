"""What an option that does not exist was probably meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def closest_option(typed: str, options: Iterable[str]) -> str | None:
    """Return the option that is most like what was typed; None if none is.

    Sections need not be typed (`--learning-rate` for `--trainer.learning_rate`), nor more
    than a word's initial (`--lr`, `--trainer.lr`).

    Args:
        typed: with its dashes.
        options: with theirs.
    """
    wanted = _plain(typed)
    named = {option: _plain(option) for option in options if option not in ("-h", "--help")}
    if not wanted:
        return None
    # From the surest to the vaguest; the first that any option passes decides.
    tests = (
        lambda name: name == wanted,
        lambda name: _last(name) == _last(wanted),
        lambda name: (
            "".join(word[:1] for word in _last(name).split("-")) == _last(wanted)
            and _section(wanted) in ("", _section(name))
        ),
        # One or two letters begin too many names to mean one of them.
        lambda name: len(wanted) > 2 and _last(name).startswith(wanted),
    )
    for test in tests:
        for option, name in named.items():
            if test(name):
                return option
    by_name = {name: option for option, name in named.items()}
    # Backwards, so that of options with the same last part the first stays.
    by_last = {_last(name): option for option, name in reversed(named.items())}
    for found, word in ((by_name, wanted), (by_last, _last(wanted))):
        close = difflib.get_close_matches(word, found, n=1, cutoff=0.7)
        if close:
            return found[close[0]]
    return None


def _plain(option: str) -> str:
    return option.lstrip("-").lower().replace("_", "-")


def _section(name: str) -> str:
    return name.rpartition(".")[0]


def _last(name: str) -> str:
    return name.rpartition(".")[2]
