"""Boards in mirrors: what is played on an image leads to the image of what it led to."""

from __future__ import annotations

import numpy as np

from plangym_ext.envs.sokoban import SokobanEnv
from plangym_ext.envs.sokoban.cells import mirrored

LEVEL = "########\n#@ $ . #\n# #$   #\n#   #. #\n#      #\n#   ## #\n#      #\n########"
OBLONG = "########\n#@ $ . #\n# #$ # #\n#   . ##\n########"


def image(obs, action, draw):
    policy = np.eye(4, dtype=np.float32)[[action]]
    found = mirrored({"obs": obs[None], "policy": policy, "value": np.ones(1)}, np.array([draw]))
    assert found["value"].tolist() == [1.0]
    return found["obs"][0], int(found["policy"][0].argmax())


def test_every_image_of_a_step_is_a_step():
    for level, draws in ((LEVEL, 8), (OBLONG, 4)):
        env = SokobanEnv(levels=[level])
        seen = set()
        for k in range(draws):
            draw = (k + 0.5) / draws
            obs, _ = env.reset()
            codes = image(obs, 0, draw)[0].argmax(-1)
            mirror = SokobanEnv(levels=["\n".join("".join("# .*$@+"[c] for c in r) for r in codes)])
            mirror.reset()
            seen.add(codes.tobytes())
            for action in (3, 3, 1, 0, 2, 1, 1, 3, 3, 0):
                obs, *_ = env.step(action)
                there, *_ = mirror.step(image(obs, action, draw)[1])
                np.testing.assert_array_equal(there, image(obs, action, draw)[0])
        assert len(seen) == draws


def test_rows_are_drawn_one_by_one_and_the_batch_stays_as_it_was():
    env = SokobanEnv(levels=[LEVEL])
    obs, _ = env.reset()
    given = {"obs": np.stack([obs] * 8), "legal": np.tile([True, False, False, False], (8, 1))}
    before = {name: rows.copy() for name, rows in given.items()}
    found = mirrored(given, (np.arange(8) + 0.5) / 8)
    assert len({rows.tobytes() for rows in found["obs"]}) == 8
    # Up becomes each of the four, twice.
    assert found["legal"].sum(axis=0).tolist() == [2, 2, 2, 2]
    for name, rows in given.items():
        np.testing.assert_array_equal(rows, before[name])
