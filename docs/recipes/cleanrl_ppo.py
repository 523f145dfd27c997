"""PPO in one file of plain torch, after CleanRL's ppo.py: what its scripts do with their envs."""

import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

import plangym_ext
from plangym_ext.vector.adapters.in_workers import LegacyInfo

NUM_ENVS, NUM_STEPS, ITERATIONS, GAMMA, LAMBDA = 8, 64, 5, 0.99, 0.95

torch.manual_seed(0)
envs = LegacyInfo(plangym_ext.make_vec("CartPole-v1", NUM_ENVS, autoreset_mode="same_step"))
size, actions = envs.single_observation_space.shape[0], int(envs.single_action_space.n)
actor = nn.Sequential(nn.Linear(size, 64), nn.Tanh(), nn.Linear(64, actions))
critic = nn.Sequential(nn.Linear(size, 64), nn.Tanh(), nn.Linear(64, 1))
optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=2.5e-3)

obs = torch.as_tensor(envs.reset(seed=0)[0])
returns, running = [], np.zeros(NUM_ENVS)
for _ in range(ITERATIONS):
    batch = []
    for _ in range(NUM_STEPS):
        with torch.no_grad():
            policy, value = Categorical(logits=actor(obs)), critic(obs)[:, 0]
            action = policy.sample()
        new_obs, reward, terminated, truncated, infos = envs.step(action.numpy())
        running += reward
        paid = torch.as_tensor(reward, dtype=torch.float32)
        for env in np.flatnonzero(truncated & ~terminated):
            # The episode was cut: what was still to come is estimated.
            last = torch.as_tensor(infos["final_observation"][env])
            with torch.no_grad():
                paid[env] += GAMMA * critic(last)[0]
        done = torch.as_tensor(terminated | truncated)
        returns += running[done.numpy()].tolist()
        running[done.numpy()] = 0
        batch.append((obs, action, policy.log_prob(action), value, paid, done))
        obs = torch.as_tensor(new_obs)

    seen, taken, old_log_prob, values, rewards, dones = map(torch.stack, zip(*batch, strict=True))
    with torch.no_grad():
        next_value, advantage = critic(obs)[:, 0], torch.zeros(NUM_ENVS)
        advantages = torch.zeros_like(rewards)
        for t in reversed(range(NUM_STEPS)):
            alive = (~dones[t]).float()
            delta = rewards[t] + GAMMA * next_value * alive - values[t]
            advantages[t] = advantage = delta + GAMMA * LAMBDA * alive * advantage
            next_value = values[t]
        targets = advantages + values
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    for _ in range(4):
        policy = Categorical(logits=actor(seen))
        ratio = (policy.log_prob(taken) - old_log_prob).exp()
        clipped = torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages).mean()
        value_loss = (critic(seen)[..., 0] - targets).square().mean()
        optimizer.zero_grad()
        (0.5 * value_loss - clipped - 0.01 * policy.entropy().mean()).backward()
        optimizer.step()

print(f"{len(returns)} episodes, mean return of the last ten {np.mean(returns[-10:]):.0f}")
envs.close()
