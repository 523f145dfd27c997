"""Frames of several envs in one grid, in a window, and in a notebook."""

import io
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from plangym_ext import make_vec
from plangym_ext.errors import InvalidOption
from plangym_ext.run import Viewer, frame_grid


@pytest.mark.parametrize(
    ("count", "columns", "shape"),
    [(1, None, (1, 1)), (3, None, (2, 2)), (5, 1, (5, 1)), (6, 4, (2, 4))],
)
def test_a_grid_has_each_frame_at_its_place(count, columns, shape):
    frames = [np.full((4, 4, 3), k + 1, np.uint8) for k in range(count)]
    grid = frame_grid(frames, columns)
    assert grid.shape == (4 * shape[0], 4 * shape[1], 3)
    places = grid[::4, ::4, 0].ravel().tolist()
    assert places == [*range(1, count + 1), *[0] * (len(places) - count)]


def test_frames_of_several_sizes_are_refused():
    with pytest.raises(InvalidOption, match="one size"):
        frame_grid([np.zeros((2, 2, 3), np.uint8), np.zeros((2, 3, 3), np.uint8)])
    with pytest.raises(InvalidOption, match="at least one"):
        frame_grid([])


def test_a_window_shows_all_envs_until_it_is_closed(monkeypatch):
    pygame = pytest.importorskip("pygame")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    venv = make_vec("CartPole-v1", 3, render_mode="rgb_array")
    venv.reset(seed=0)
    with Viewer() as viewer:
        frames = venv.render()
        viewer.show(frames)
        shown = pygame.surfarray.array3d(pygame.display.get_surface()).swapaxes(0, 1)
        np.testing.assert_array_equal(shown, frame_grid(frames))
        pygame.event.post(pygame.event.Event(pygame.QUIT))
        viewer.show(frames)
        assert not viewer.is_open
        viewer.show(frames)
    venv.close()


def test_a_notebook_has_one_picture_that_is_renewed(monkeypatch):
    pillow = pytest.importorskip("PIL.Image")

    class ZMQInteractiveShell:
        """Stands for the shell of Jupyter's kernel, which is known by this name."""

    shown = []

    def display(picture, display_id):
        assert display_id is True
        shown.append(picture)
        return SimpleNamespace(update=shown.append)

    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=ZMQInteractiveShell))
    ipython = SimpleNamespace(display=display, Image=lambda data: pillow.open(io.BytesIO(data)))
    monkeypatch.setitem(sys.modules, "IPython.display", ipython)
    with Viewer() as viewer:
        for value in (1, 2):
            viewer.show([np.full((4, 4, 3), value, np.uint8)] * 2)
    assert [np.asarray(picture.convert("RGB"))[0, 0, 0] for picture in shown] == [1, 2]
