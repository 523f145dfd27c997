"""Particles explore Montezuma's Revenge; the best trajectory is played again from the reset.

`python montezuma_go_explore.py` takes some minutes on two processors.
`ROUNDS=2` in the environment makes it a short trial.
"""

import os
import tempfile
from pathlib import Path

import plangym_ext
from plangym_ext.explore import GoExplore, InfoCells, verify
from plangym_ext.explore.playing import steps_again

rounds = int(os.environ.get("ROUNDS", "80"))
folder = Path(tempfile.mkdtemp())


def told(progress):
    print(f"{4 * progress.steps:,} frames: {progress.cells} cells, {progress.score:g} points")
    return progress.score >= 2500


# Without sticky actions the game is deterministic; a lost life ends an episode, so that no cell is
# bought with one. Cells are where the player is and how many keys it has.
if __name__ == "__main__":
    with plangym_ext.make(
        "ALE/MontezumaRevenge-v5",
        n_workers=2,
        obs_type="ram",
        repeat_action_probability=0.0,
        episodic_life=True,
        render_mode="rgb_array",
    ) as env:
        cells = InfoCells.of("room", "level", "keys", x=8, y=16)
        explorer = GoExplore(env, cells, kind="particles", rows=32, seed=0)
        archive = explorer.run(rounds * 3_200, callback=told)
        explorer.save(folder / "montezuma.npz")
        verify(explorer, archive.best)
        actions = archive.trajectory(archive.best)
        frames = [env.render() for _ in steps_again(env, explorer.seed, actions)]
        print(f"{len(archive)} cells in {folder}; the best trajectory has {len(frames)} frames")
