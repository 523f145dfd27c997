"""A TorchRL collector on a vector env: `GymWrapper` takes it as it is."""

from torchrl.collectors import Collector
from torchrl.envs import GymWrapper

import plangym_ext

# TorchRL resets sub-envs itself, by mask ("same_step" works for plain observations too).
venv = plangym_ext.make_vec("CartPole-v1", 4, n_workers=2, autoreset_mode="disabled")
env = GymWrapper(venv)
collector = Collector(env, None, frames_per_batch=200, total_frames=400)
for batch in collector:
    print(tuple(batch.batch_size), float(batch["next", "reward"].sum()))
collector.shutdown()
