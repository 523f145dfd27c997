"""Films of a vector env, all copies side by side, now and then: gymnasium's own wrapper."""

from pathlib import Path

from gymnasium.wrappers.vector import RecordVideo

import plangym_ext

NUM_ENVS, STEPS = 6, 250

envs = plangym_ext.make_vec("CartPole-v1", NUM_ENVS, n_workers=2, render_mode="rgb_array")
# A film of 50 steps begins every 100; six pictures of 600 x 400 are two rows of three.
envs = RecordVideo(
    envs,
    "films",
    step_trigger=lambda step: step % 100 == 0,
    video_length=50,
    video_aspect_ratio=(4, 3),
)
envs.reset(seed=0)
for _ in range(STEPS):
    envs.step(envs.action_space.sample())
envs.close()

films = sorted(path.name for path in Path("films").glob("*.mp4"))
assert films == [f"rl-video-step-{step}.mp4" for step in (0, 100, 200)], films
print("wrote", *films)
