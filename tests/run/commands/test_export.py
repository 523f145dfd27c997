"""Policies written for other programs, and folders to share."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from plangym_ext.errors import InvalidOption
from plangym_ext.learn import AgentConfig, make_agent_network
from plangym_ext.learn.agents.inputs import Inputs
from plangym_ext.learn.networks.exported import GreedyPolicy
from plangym_ext.learn.torch_extra import torch
from plangym_ext.run.cli import main
from plangym_ext.run.training.trained import Trained

pytestmark = pytest.mark.slow
ROWS = 32


def exported(path, obs):
    """Return the actions that a written policy answers."""
    if path.suffix == ".onnx":
        # ONNX's own interpreter: onnxruntime opens a database in the user's home.
        reference = pytest.importorskip("onnx.reference")
        return reference.ReferenceEvaluator(str(path)).run(["action"], {"obs": obs})[0]
    return torch.jit.load(path)(torch.from_numpy(obs)).numpy()


# Torch says so of all of TorchScript, and its exporter of its own calls.
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("name", ["ppo_cartpole", "expert_pendulum"])
@pytest.mark.parametrize("kind", ["onnx", "torchscript"])
def test_a_written_policy_plays_as_the_agent_does(name, kind, tmp_path):
    if kind == "onnx":
        pytest.importorskip("onnxscript")
    path = tmp_path / f"policy.{kind}"
    assert main(["export", name, "--format", kind, "--out", str(path)]) == 0
    with Trained(name) as trained:
        low, high = (trained.env.observation_space.low, trained.env.observation_space.high)
        rng = np.random.default_rng(0)
        # In the middle of the bounds, some of which are as wide as float32.
        rows = rng.uniform(np.maximum(low, -2), np.minimum(high, 2), (ROWS, *low.shape))
        obs, first = rows.astype(np.float32), np.zeros(ROWS, np.bool_)
        agent = trained.player.agent
        agent.set_mode("eval")
        expected = agent.step(Inputs(obs, None, None, first), None).action
    found = exported(path, obs)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_what_is_no_function_of_observations_is_refused():
    seen, done = spaces.Box(-1, 1, (3,), np.float32), spaces.Discrete(2)
    config = AgentConfig(hidden=(4,), recurrent="gru", recurrent_size=4)
    with pytest.raises(InvalidOption, match="must take only observations"):
        GreedyPolicy(make_agent_network(seen, done, config, seed=0), seen, done)
    pair = spaces.MultiDiscrete([2, 2])
    network = make_agent_network(seen, pair, AgentConfig(hidden=(4,)), seed=0)
    with pytest.raises(InvalidOption, match="actions must be of a Box or Discrete; got Multi"):
        GreedyPolicy(network, seen, pair)


def test_a_folder_to_share_has_a_card_and_plays(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    quick = ["--rounds=2", "--evaluation.every=1", "--evaluation.episodes=1", "--quiet"]
    assert main(["train", "ppo_cartpole", "--out", "run", *quick]) == 0
    assert "best evaluation: " in capsys.readouterr().out
    assert main(["export", "run", "--format", "folder", "--out", "pole"]) == 0
    assert capsys.readouterr().out == "wrote pole/best.pt\nwrote pole/README.md\n"
    card = (tmp_path / "pole" / "README.md").read_text()
    assert "- CartPole-v1\n---\n\n# pole\n\nppo on CartPole-v1, after 512 steps. Best mean" in card
    with Trained("run") as run, Trained("pole") as shared:
        assert [one.return_ for one in run.play(2)] == [one.return_ for one in shared.play(2)]
    assert main(["export", "run", "--format", "folder", "--out", "pole"]) == 2
    assert "is there already" in capsys.readouterr().err
