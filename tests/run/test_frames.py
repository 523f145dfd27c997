"""Frames of films and pages: what envs render, made `[H, W, 3]` uint8 or refused."""

from __future__ import annotations

import subprocess

import gymnasium as gym
import numpy as np
import pytest

import plangym_ext
from plangym_ext.core.drawing import rgb_frame
from plangym_ext.errors import CannotDraw, InvalidOption
from plangym_ext.planners import play
from plangym_ext.planners.pages.tree import reduced
from plangym_ext.planners.rollouts.discrete_shooting import DiscreteShooting
from plangym_ext.run.settings.compose import compose
from plangym_ext.run.training.runner import Runner
from plangym_ext.run.video import film_grid, recorded

RGB = np.arange(8 * 6 * 3, dtype=np.uint8).reshape(8, 6, 3)
GREY = RGB[:, :, 0]
OPAQUE = np.full((8, 6, 1), 255, np.uint8)


@pytest.mark.parametrize(
    ("picture", "want"),
    [
        (RGB, RGB),
        (np.concatenate([RGB, OPAQUE], axis=2), RGB),
        (GREY, np.repeat(GREY[:, :, None], 3, axis=2)),
        (GREY[:, :, None], np.repeat(GREY[:, :, None], 3, axis=2)),
        (RGB / 255.0, RGB),
        ((RGB / 255.0).astype(np.float32), RGB),
        (RGB.astype(np.int64), RGB),
        (RGB.tolist(), RGB),
        (GREY > 60, np.repeat(np.where(GREY > 60, 255, 0)[:, :, None], 3, axis=2)),
        ([0 * RGB, RGB], RGB),
        ((RGB,), RGB),
    ],
    ids=["rgb", "rgba", "grey", "grey1", "f8", "f4", "i8", "lists", "bool", "list", "tuple"],
)
def test_a_picture_of_any_usual_form_is_taken(picture, want):
    found = rgb_frame(picture, "env")
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, want)
    np.testing.assert_array_equal(reduced(picture, 320), want)


@pytest.mark.parametrize(
    ("picture", "got"),
    [
        (None, "got NoneType"),
        ([], "got list"),
        ("a text", "got str"),
        (np.zeros(5), r"shape \(5,\)"),
        (np.zeros((3, 8, 6), np.uint8), r"shape \(3, 8, 6\)"),
        (np.zeros((0, 6, 3), np.uint8), r"shape \(0, 6, 3\)"),
        (RGB * 1.0, "float64 from 0.0 to 143.0"),
        (np.full((8, 6), np.nan), "float64 from nan"),
        (np.full((8, 6), 300), "int64 from 300 to 300"),
        (-RGB.astype(int), "from -143 to 0"),
        (np.full((8, 6), 1j), "dtype complex128"),
    ],
    ids=["none", "nothing", "text", "flat", "first", "empty", "f255", "nan", "i300", "neg", "c"],
)
def test_what_is_no_picture_is_refused_by_name(picture, got):
    with pytest.raises(CannotDraw, match=f"^env: render must return a picture .*{got}"):
        rgb_frame(picture, "env")


class Drawn(gym.Env):
    """Draws one picture or another, and says or not how fast it is."""

    observation_space = gym.spaces.Box(0, 10, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, draw, fps=30, render_mode=None):
        self.draw, self.render_mode = draw, render_mode
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": fps}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        return np.full(1, self.t, np.float32), 1.0, self.t >= 6, False, {}

    def render(self):
        return self.draw(self.t)


def grey(t):
    return np.full((100, 76), 40 * t, np.uint8)


def with_opacity(t):
    return np.dstack([grey(t)] * 3 + [np.full((100, 76), 255, np.uint8)])


def fractions(t):
    return grey(t) / 255.0


def numbers(t):
    return grey(t).astype(np.int64)


def frames_of(reader, path, *shape):
    """Return the frames of a film, `[N, *shape]`."""
    command = [reader.get_ffmpeg_exe(), "-v", "error", "-i", str(path)]
    command += ["-fps_mode", "passthrough", "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    pixels = subprocess.run(command, check=True, capture_output=True, timeout=300).stdout
    return np.frombuffer(pixels, np.uint8).reshape(-1, *shape)


@pytest.mark.parametrize("ending", ["mp4", "gif"])
def test_a_film_of_several_episodes_shows_each_in_its_tile_to_the_end(tmp_path, ending):
    reader = pytest.importorskip("imageio_ffmpeg")
    with plangym_ext.make(lambda: Drawn(grey, 30), n_workers=0) as env:

        def play_some(seed):
            for _ in range(seed):
                env.step(0)

        film_grid(tmp_path / f"grid.{ending}", env, [2, 4, 1], play_some)
    # Two rows of two tiles, of which one is empty; each picture is enlarged twice.
    shown = frames_of(reader, tmp_path / f"grid.{ending}", 2, 200, 2, 152, 3)
    assert len(shown) == 1 + 4
    for t, frame in enumerate(shown):
        tiles = frame.mean(axis=(1, 3, 4)).ravel()
        np.testing.assert_allclose(tiles, [40 * min(t, last) for last in (2, 4, 1, 0)], atol=5)


def test_a_film_of_another_kind_is_refused_before_anything_is_played(tmp_path):
    with (
        plangym_ext.make(lambda: Drawn(grey), n_workers=0) as env,
        pytest.raises(InvalidOption, match=r"must end in \.mp4 or \.gif; got '.*film\.avi'"),
        recorded(tmp_path / "film.avi", env, 0),
    ):
        raise AssertionError("the episode began")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("draw", "fps"), [(grey, 30), (with_opacity, None), (fractions, 0), (numbers, "fast")]
)
def test_films_have_the_frames_that_were_drawn(tmp_path, draw, fps):
    reader = pytest.importorskip("imageio_ffmpeg")
    with (
        plangym_ext.make(lambda: Drawn(draw, fps), n_workers=0) as env,
        recorded(tmp_path / "film.mp4", env, 0),
    ):
        play(env, DiscreteShooting(4), seed=0, max_steps=6)
    shown = frames_of(reader, tmp_path / "film.mp4", 400 * 304 * 3)
    assert len(shown) == 7
    for t, frame in enumerate(shown):
        assert abs(float(frame.mean()) - 40 * t) < 5
        assert frame.std() < 3


@pytest.mark.slow
def test_frames_of_two_sizes_are_refused(tmp_path):
    pytest.importorskip("imageio_ffmpeg")

    def growing(t):
        return np.zeros((100 + 10 * t, 76, 3), np.uint8)

    def filmed(env):
        with recorded(tmp_path / "film.mp4", env, 0) as film:
            film.add(growing(1))

    with (
        plangym_ext.make(lambda: Drawn(growing), n_workers=0) as env,
        pytest.raises(CannotDraw, match="100 by 76 pixels; got one of 110 by 76"),
    ):
        filmed(env)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_run_that_cannot_be_filmed_is_refused_before_it_begins(tmp_path):
    pytest.importorskip("imageio_ffmpeg")
    pytest.importorskip("torch")
    settings = {"evaluation": {"every": 1, "record": 1}, "env": {"max_steps": 9}, "rounds": 1}
    make_env = lambda render_mode=None: Drawn(lambda t: None, render_mode=render_mode)  # noqa: E731
    with pytest.raises(CannotDraw, match="render must return a picture"):
        Runner(compose(["ppo_cartpole", settings]), tmp_path / "run", make_env=make_env)
    assert not (tmp_path / "run").exists()
