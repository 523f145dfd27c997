"""Every Atari game: restored states show and do what the game did, from the first frame."""

import functools
from typing import Any

import ale_py
import gymnasium as gym
import numpy as np
import pytest

import plangym_ext
from plangym_ext.envs.atari import AtariPart, Game
from plangym_ext.errors import ForeignState, IncompleteState

pytestmark = pytest.mark.slow  # two emulators are loaded for each game

ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
#: Its states are of no use: ale-py reads three of its numbers otherwise than it wrote them.
BROKEN = "miniature_golf"
GAMES = sorted(
    {spec.kwargs["game"] for spec in gym.registry.values() if spec.id.startswith("ALE/")} - {BROKEN}
)


class Console:
    """An env without wrappers, one frame a step, with its codec."""

    def __init__(self, game: str, seed: int, **options: Any) -> None:
        # As `make` builds them: the game is loaded once, which takes as long as all else here.
        self.env: Any = Game(game=game, obs_type="ram", frameskip=1, **options)
        self.part = AtariPart(self.env)
        self.env.reset(seed=seed)

    def save(self) -> bytes:
        row = bytearray(2 * self.part.width)
        return bytes(row[: self.part.capture(memoryview(row), 0, len(row))])

    def restore(self, state: bytes) -> None:
        assert self.part.restore(memoryview(state), 0) == len(state)

    def seen(self) -> dict[str, bytes]:
        ale = self.env.ale
        return {
            "rgb": ale.getScreenRGB().tobytes(),
            "gray": ale.getScreenGrayscale().tobytes(),
            "ram": ale.getRAM().tobytes(),
            "numbers": repr((ale.lives(), ale.getFrameNumber(), ale.game_over())).encode(),
        }

    def play(self, action: int) -> dict[str, bytes]:
        _, reward, *_ = self.env.step(action)
        return self.seen() | {"reward": np.float64(reward).tobytes(), "state": self.save()}


def policy(console: Console, seed: int) -> list[int]:
    """Actions that are held for some frames, as players do."""
    rng = np.random.default_rng(seed)
    held = rng.integers(console.env.action_space.n, size=400)
    return [int(a) for a in np.repeat(held, rng.integers(1, 9, size=400))]


@pytest.mark.parametrize("game", GAMES)
def test_every_game_is_exact_from_the_first_frame(game):
    first, second = Console(game, seed=0), Console(game, seed=1)
    actions = policy(first, seed=0)
    for action in actions[:20]:
        second.play(action)  # another past shows if anything of it is left
    # The game's start, its first frames, and both sides of the renewals of a lead.
    points = (0, 1, 2, 33, 36, 70)
    states, seen, played = {}, {}, []
    for t, action in enumerate(actions[:75]):
        if t in points:
            states[t], seen[t] = first.save(), first.seen()
        played.append(first.play(action))
    width = first.part.width
    for console in (first, second):
        for t in (70, 0, 36, 1, 33, 2):
            assert len(states[t]) <= width
            console.restore(states[t])
            if t % 2 == 0:  # or else none is read before the first frame
                assert console.seen() == seen[t], f"screen of the restored state of frame {t}"
                assert console.save() == states[t]
            for k in range(4):
                got = console.play(actions[t + k])
                for field, value in played[t + k].items():
                    assert got[field] == value, f"{field} {k + 1} frames after frame {t}"


@pytest.mark.parametrize("game", ["pong", "breakout", "pitfall2", "qbert", "video_cube"])
def test_games_are_those_of_the_emulator_itself(game):
    # Frames are made sticky here: they have to stick when the emulator's own would.
    # Only Double Dunk differs: its reset works through a menu, here without sticky frames.
    console, native = Console(game, 5), ale_py.AtariEnv(game=game, obs_type="ram", frameskip=1)
    mine, actions = console.env, policy(console, seed=3)[:500]
    for seed in (5, None, 6):
        # The second seed does without loading the game anew.
        assert mine.reset(seed=seed)[0].tobytes() == native.reset(seed=seed)[0].tobytes()
        for action in actions:
            got, want = mine.step(action), native.step(action)
            assert got[0].tobytes() == want[0].tobytes()
            assert got[1:] == want[1:]
            if want[2]:
                mine.reset()
                native.reset()
    assert mine.ale.getScreenRGB().tobytes() == native.ale.getScreenRGB().tobytes()


@pytest.mark.parametrize(("mode", "difficulty"), [(1, 0), (0, 3)])
def test_states_of_another_mode_or_difficulty_are_refused(mode, difficulty):
    make = functools.partial(plangym_ext.make, "ALE/Adventure-v5", obs_type="ram")
    with make() as env, make(mode=mode, difficulty=difficulty) as other:
        state, *_ = other.reset(seed=0)
        with pytest.raises(ForeignState):
            env.set_state(state)
        # The game that is restored is the one of the state.
        other.step(2)
        other.set_state(state)
        ale = other.gym_env.unwrapped.ale
        saved = ale.cloneState()
        assert (saved.getCurrentMode(), saved.getDifficulty()) == (mode, difficulty)


@pytest.mark.parametrize("mode", [1, 2])
def test_modes_whose_reset_draws_random_numbers_are_exact(mode):
    console = Console("adventure", seed=0, mode=mode, difficulty=1)
    console.env.reset()
    state, seen = console.save(), console.seen()
    played = [console.play(action) for action in (2, 2, 3, 3)]
    console.restore(state)
    assert console.seen() == seen
    assert [console.play(action) for action in (2, 2, 3, 3)] == played


def test_game_whose_states_are_broken_is_replayed_instead():
    name = "ALE/MiniatureGolf-v5"
    with pytest.raises(IncompleteState, match=r"miniature_golf.*replay"):
        plangym_ext.make(name, capture="codec")
    with plangym_ext.make(name, obs_type="ram") as env:
        assert [part.method for part, _ in env.codec.described()] == ["replay"]


def test_limit_of_frames_counts_from_the_restored_one():
    with plangym_ext.make("ALE/Pong-v5", obs_type="ram", max_num_frames_per_episode=22) as env:
        state, *_ = env.reset(seed=0)
        for _ in range(4):
            state = env.step(0, state).state
        # Sixteen frames are done: the game stops within the second step from here.
        middle = env.step(0, state)
        assert not middle.truncated
        assert env.step(0, middle.state).truncated
        assert env.step_batch([0, 0], [state, middle.state]).truncateds.tolist() == [False, True]


@pytest.mark.parametrize(
    ("obs_type", "shape"), [("rgb", (210, 160, 3)), ("grayscale", (210, 160)), ("ram", (128,))]
)
def test_observation_types_and_continuous_actions(obs_type, shape):
    options = {"obs_type": obs_type, "continuous": True, "frameskip": (2, 5)}
    with plangym_ext.make("ALE/Breakout-v5", **options) as env:
        state, obs, _ = env.reset(seed=0)
        assert obs.shape == shape
        env.action_space.seed(0)
        actions = [env.sample_action() for _ in range(12)]
        first = env.rollout_batch(np.stack(actions)[None], state[None])
        with env.clone() as other:
            again = other.rollout_batch(np.stack([actions] * 2), np.stack([state] * 2))
        for i in range(2):
            assert again.states[i].tobytes() == first.states[0].tobytes()
            assert again.obs[i].tobytes() == first.obs[0].tobytes()


def test_sound_is_captured_by_replay():
    # Where in their waves the sounds are is no part of an emulator's state.
    with pytest.raises(IncompleteState, match=r"sound_obs.*replay"):
        plangym_ext.make("ALE/Pong-v5", sound_obs=True, capture="codec")
    with plangym_ext.make("ALE/Pong-v5", sound_obs=True, frameskip=1) as env:
        state, *_ = env.reset(seed=0)
        first = [env.step(a).obs["sound"].tobytes() for a in (1, 2, 3, 3, 2)]
        env.set_state(state)
        assert [env.step(a).obs["sound"].tobytes() for a in (1, 2, 3, 3, 2)] == first
