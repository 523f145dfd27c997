"""Arguments of `make`."""

from __future__ import annotations

import sys

import pytest

import plangym_ext
from plangym_ext.errors import MissingExtra


@pytest.mark.parametrize("backend", ["serial", "kernel"])
def test_workers_and_a_backend_of_one_process_exclude_each_other(backend):
    with pytest.raises(ValueError, match="n_workers=2"):
        plangym_ext.make("CartPole-v1", backend=backend, n_workers=2)


@pytest.mark.parametrize("frameskip", [0, -1, 2.5, True])
def test_frameskip_must_count_steps(frameskip):
    with pytest.raises(ValueError, match="frameskip must be an integer >= 1"):
        plangym_ext.make("CartPole-v1", frameskip=frameskip)


@pytest.mark.slow
def test_frameskip_of_a_game_replaces_its_own():
    # ALE v5 games advance 4 frames a step by themselves.
    for frameskip, frames in ((None, 4), (1, 1), (6, 6)):
        with plangym_ext.make("ALE/Pong-v5", frameskip=frameskip) as env:
            env.reset(seed=0)
            first = env.step(0).info["frame_number"]
            assert env.step(0).info["frame_number"] - first == frames


def test_the_ray_backend_names_its_extra_and_what_belongs_to_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    for make in (plangym_ext.make, plangym_ext.make_vec):
        with pytest.raises(MissingExtra, match=r"backend='ray'.*'\.\[ray\]'"):
            make("CartPole-v1", backend="ray")
    with pytest.raises(MissingExtra, match=r"'\.\[ray\]'"):
        plangym_ext.make("CartPole-v1", ray=True)
    with pytest.raises(ValueError, match="address='auto' is for the ray backend"):
        plangym_ext.make("CartPole-v1", address="auto")
    with pytest.raises(ValueError, match="ray=True is for the ray backend; got backend='serial'"):
        plangym_ext.make("CartPole-v1", backend="serial", ray=True)
