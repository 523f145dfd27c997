"""Super Mario Bros. through nes-py: refused, with the reason."""

from __future__ import annotations

from typing import NoReturn

from plangym_ext.errors import UnknownName


def resolve(name: str) -> NoReturn:
    """Say why there is no such env here.

    Raises:
        UnknownName: always.
    """
    raise UnknownName(
        f"{name}: not supported. gym-super-mario-bros 7.4 and nes-py 8.2 run with numpy 1 and the "
        "retired package gym alone (with numpy 2 nes-py cannot even read a cartridge: "
        "OverflowError), and this library needs numpy 2. With a cartridge of your own, "
        "'retro/SuperMarioBros-Nes-v0' plays the game through stable-retro."
    )
