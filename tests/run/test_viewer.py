"""Frames of several envs in one grid, in a window, and in a notebook."""

import base64
import io
import sys

import numpy as np
import pytest

from plangym_ext import make_vec
from plangym_ext.errors import InvalidOption
from plangym_ext.run import Viewer, frame_grid
from plangym_ext.run.viewer import blocks


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


#: The cell of a notebook.
CELL = """
import numpy as np
from plangym_ext.run import Viewer

with Viewer() as viewer:
    for value in (1, 2):
        viewer.show([np.full((4, 4, 3), value, np.uint8)] * 2)
"""


def test_a_notebook_has_one_picture_that_is_renewed():
    pillow = pytest.importorskip("PIL.Image")
    pytest.importorskip("ipykernel")
    from jupyter_client.manager import run_kernel
    from jupyter_core.utils import ensure_event_loop

    shown = []
    with run_kernel(kernel_name="python3") as client:
        # Jupyter's own messages, as a page in a browser gets them.
        reply = client.execute_interactive(CELL, timeout=300, output_hook=shown.append)
        assert reply["content"]["status"] == "ok", reply
    ensure_event_loop().close()  # which the client would leave behind
    first, second = [one for one in shown if "data" in one["content"]]
    kinds = first["msg_type"], second["msg_type"]
    assert kinds == ("display_data", "update_display_data")
    places = [one["content"]["transient"]["display_id"] for one in (first, second)]
    assert places[0] == places[1]
    for value, one in ((1, first), (2, second)):
        data = base64.b64decode(one["content"]["data"]["image/png"])
        picture = np.asarray(pillow.open(io.BytesIO(data)).convert("RGB"))
        assert picture.shape == (4, 8, 3)
        assert (picture == value).all()


def test_a_terminal_without_a_display_has_coloured_blocks(monkeypatch, capsys):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    frame = np.zeros((4, 2, 3), np.uint8)
    frame[0, 0], frame[3, 1] = (255, 0, 0), (0, 0, 255)
    assert Viewer.can_show()
    with Viewer() as viewer:
        viewer.show([frame])
    cell = "\x1b[38;2;{};48;2;{}m▀".format
    black, end = "0;0;0", "\x1b[0m\x1b[K\n"
    rows = [
        cell("255;0;0", black) + cell(black, black),
        cell(black, black) + cell(black, "0;0;255"),
    ]
    assert capsys.readouterr().out == "\x1b[H" + end.join([*rows, "\x1b[J"])
    # What is larger than the terminal is reduced by a whole factor.
    assert blocks(np.zeros((40, 40, 3), np.uint8), 10, 24).count("▀") == 10 * 5
