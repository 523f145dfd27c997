"""Ids of gym-super-mario-bros are refused, and the message says why."""

import pytest

import plangym_ext
from plangym_ext.errors import UnknownName


@pytest.mark.parametrize("name", ["SuperMarioBros-v0", "SuperMarioBros-1-1-v3"])
def test_mario_is_refused_with_the_reason(name):
    with pytest.raises(UnknownName, match=rf"{name}: not supported.*numpy 2.*retro/Super"):
        plangym_ext.make(name)
