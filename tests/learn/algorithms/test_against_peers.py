"""Losses beside TorchRL's, moments beside Stable-Baselines3's, where they are installed.

tox -e frameworks
"""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

torch = pytest.importorskip("torch")
pytest.importorskip("torchrl")
vec_env = pytest.importorskip("stable_baselines3.common.vec_env")

from plangym_ext.learn import ObservationNormalizer, RewardNormalizer  # noqa: E402
from plangym_ext.learn.losses import policies  # noqa: E402
from plangym_ext.learn.returns import gae, td_lambda  # noqa: E402
from plangym_ext.learn.transforms.moments import moments_of  # noqa: E402

T, B, GAMMA, LAM = 12, 4, 0.95, 0.8


@pytest.fixture
def rows():
    """Return made-up rows `[T, B]`, the last of which ends without an ending."""
    generator = torch.Generator().manual_seed(3)

    def normal():
        return torch.randn(T, B, generator=generator)

    terminated = torch.rand(T, B, generator=generator) < 0.1
    truncated = (torch.rand(T, B, generator=generator) < 0.1) & ~terminated
    return {
        "reward": normal(),
        "value": normal(),
        "next_value": normal(),
        "terminated": terminated,
        "truncated": truncated,
        "log_prob": normal() - 2,
        "old_log_prob": normal() - 2,
    }


def theirs(rows):
    """Return tensors as TorchRL wants them, `[B, T, 1]`."""
    return {name: part.T[..., None] for name, part in rows.items()}


def ours(rows):
    """Return the keywords of our functions: values after a step count at ends alone."""
    # Within an episode the value after a step is that of the next row.
    ends = {"bootstrap": rows["next_value"][-1], "truncated": rows["truncated"]}
    return ends | {"final_value": rows["next_value"], "discount": GAMMA}


def consistent(rows):
    """Have the value after a step be that of the next row, but where an episode ended."""
    after = torch.cat([rows["value"][1:], rows["next_value"][-1:]])
    ended = rows["terminated"] | rows["truncated"]
    return {**rows, "next_value": torch.where(ended, rows["next_value"], after)}


def plain(found):
    return found[..., 0].T


def test_advantages_and_lambda_returns(rows):
    from torchrl.objectives.value import functional

    rows = consistent(rows)
    other = theirs(rows)
    done = other["terminated"] | other["truncated"]
    common = (other["value"], other["next_value"], other["reward"], done, other["terminated"])
    advantage, target = functional.generalized_advantage_estimate(GAMMA, LAM, *common)
    own = (rows["reward"], rows["value"], rows["terminated"])
    mine = gae(*own, lam=LAM, **ours(rows))
    torch.testing.assert_close(mine, plain(advantage), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(mine + rows["value"], plain(target), rtol=1e-4, atol=1e-5)
    returns = functional.td_lambda_return_estimate(
        GAMMA, LAM, other["next_value"], other["reward"], done, other["terminated"]
    )
    mine = td_lambda(*own, lam=LAM, **ours(rows))
    torch.testing.assert_close(mine, plain(returns), rtol=1e-4, atol=1e-5)


def test_vtrace(rows):
    from torchrl.objectives.value.functional import vtrace_advantage_estimate

    rows = consistent(rows)
    other = theirs(rows)
    done = other["terminated"] | other["truncated"]
    advantage, target = vtrace_advantage_estimate(
        GAMMA,
        other["log_prob"],
        other["old_log_prob"],
        other["value"],
        other["next_value"],
        other["reward"],
        done,
        other["terminated"],
        rho_thresh=1.0,
        c_thresh=1.0,
    )
    mine = policies.vtrace_estimates(
        rows["log_prob"] - rows["old_log_prob"],
        rows["value"],
        rows["reward"],
        rows["terminated"],
        **ours(rows),
    )
    torch.testing.assert_close(mine[1], plain(target), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(mine[0], plain(advantage), rtol=1e-4, atol=1e-5)


def test_losses_of_ppo_and_a2c(rows):
    """Their modules are given a policy and values that say what our rows do."""
    from tensordict import TensorDict
    from tensordict.nn import ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential
    from tensordict.nn import TensorDictModule as Module
    from torch.distributions import Categorical
    from torchrl.objectives import A2CLoss, ClipPPOLoss

    generator = torch.Generator().manual_seed(4)
    count, clip = 40, 0.2
    obs, advantage, target = torch.randn(3, count, 3, generator=generator)
    advantage, target = advantage[:, 0], target[:, 0]
    action = torch.randint(4, (count,), generator=generator)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        policy, value = torch.nn.Linear(3, 4), torch.nn.Linear(3, 1)
    logits = policy(obs)
    log_prob = Categorical(logits=logits).log_prob(action)
    old = (log_prob + 0.3 * torch.randn(count, generator=generator)).detach()
    actor = ProbabilisticTensorDictSequential(
        Module(policy, in_keys=["observation"], out_keys=["logits"]),
        ProbabilisticTensorDictModule(
            in_keys=["logits"], out_keys=["action"], distribution_class=Categorical
        ),
    )
    critic = Module(value, in_keys=["observation"], out_keys=["state_value"])
    data = TensorDict(
        {
            "observation": obs,
            "action": action,
            "action_log_prob": old,
            "advantage": advantage[:, None],
            "value_target": target[:, None],
        },
        [count],
    )
    options = {"entropy_bonus": False, "loss_critic_type": "l2", "critic_coeff": 1.0}
    ppo = ClipPPOLoss(actor, critic, clip_epsilon=clip, **options)(data.clone())
    mine = policies.clipped_policy_loss(log_prob, old, advantage, clip)
    torch.testing.assert_close(mine, ppo["loss_objective"])
    torch.testing.assert_close(policies.value_loss(value(obs)[:, 0], target), ppo["loss_critic"])
    a2c = A2CLoss(actor, critic, **options)(data.clone())
    mine = policies.policy_gradient_loss(log_prob, advantage)
    torch.testing.assert_close(mine, a2c["loss_objective"])


# Stable-Baselines3 ------------------------------------------------------------------------


class Stream(gymnasium.Env):
    """Shows and pays numbers that are drawn; episodes of 9 steps."""

    observation_space = spaces.Box(-np.inf, np.inf, (3,))
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._obs(), {}

    def _obs(self):
        return self.np_random.normal([5.0, -2.0, 0.0], [1.0, 9.0, 0.1]).astype(np.float32)

    def step(self, action):
        self.steps += 1
        return self._obs(), float(self.np_random.normal(1.0)), self.steps == 9, False, {}


def stream(num_steps=300):
    """Return `[T + 1, 3]` observations, `[T]` rewards and endings, as a sampler has them."""
    env = Stream()
    obs, rewards, ends = [env.reset(seed=3)[0]], [], []
    for _ in range(num_steps):
        after, reward, terminated, *_ = env.step(0)
        obs.append(env.reset()[0] if terminated else after)
        rewards.append(reward)
        ends.append(terminated)
    return np.array(obs), np.array(rewards, np.float32), np.array(ends)


def test_moments_are_those_of_stable_baselines3():
    """It begins with 1e-4 rows of mean 0 and variance 1."""
    venv = vec_env.VecNormalize(vec_env.DummyVecEnv([Stream]), gamma=GAMMA)
    venv.seed(3)
    venv.reset()
    for _ in range(300):
        venv.step(np.zeros(1, int))
    obs, rewards, ends = stream()
    normalizer = ObservationNormalizer(Stream.observation_space, 10.0)
    normalizer.add([moments_of(obs[:, None])])
    (mine,), scaler = normalizer.parts, RewardNormalizer(GAMMA)
    scaler.scaled(rewards[:, None], ends[:, None])
    np.testing.assert_allclose(mine.mean[0], venv.obs_rms.mean, rtol=1e-5)
    np.testing.assert_allclose((mine.squares / mine.count)[0], venv.obs_rms.var, rtol=1e-4)
    np.testing.assert_allclose(scaler.seen.variance, venv.ret_rms.var, rtol=1e-4)
    venv.close()
