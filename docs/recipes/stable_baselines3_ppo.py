"""PPO of Stable-Baselines3 on a vector env whose sub-envs live in two workers."""

from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecMonitor

import plangym_ext
from plangym_ext.vector.adapters.stable_baselines3 import StableBaselines3VecEnv

venv = plangym_ext.make_vec("CartPole-v1", 8, n_workers=2, autoreset_mode="same_step")
# VecMonitor, not Monitor: episodes are counted here, outside of the workers.
model = PPO("MlpPolicy", VecMonitor(StableBaselines3VecEnv(venv)), n_steps=64, seed=0)
model.learn(2_000)
episodes = [episode["r"] for episode in model.ep_info_buffer]
print(f"{len(episodes)} episodes, the last one's return {episodes[-1]}")
venv.close()
