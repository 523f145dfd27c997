"""skrl takes the vector env as it is; here a few steps with random actions."""

import torch
from skrl.envs.wrappers.torch import wrap_env

import plangym_ext

venv = plangym_ext.make_vec("Pendulum-v1", 4, n_workers=2)
env = wrap_env(venv)
observations, _ = env.reset()
total = torch.zeros(env.num_envs, 1)
for _ in range(200):
    actions = torch.as_tensor(venv.action_space.sample())
    observations, rewards, terminated, truncated, infos = env.step(actions)
    total += rewards.cpu()
print(tuple(observations.shape), total.flatten().tolist())
env.close()
