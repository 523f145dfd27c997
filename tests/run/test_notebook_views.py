"""What a notebook shows of envs, plans, episodes and runs: tables, and pages in a frame."""

from __future__ import annotations

import copy
import html
import json
import pickle
import re

import numpy as np
import pytest
from browser import answer_of

import plangym_ext
from plangym_ext.planners import MCTS, play
from plangym_ext.planners.pages import film as films
from plangym_ext.run import Runner, Trained, compose


def framed_page(view):
    """Return the page in the frame of a view."""
    (source,) = re.findall(r'<iframe sandbox="allow-scripts" srcdoc="([^"]*)"', view)
    return html.unescape(source)


def data_of(page):
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', page, re.S)
    return json.loads(found[1])


@pytest.fixture
def env():
    with plangym_ext.make("CartPole-v1", render_mode="rgb_array") as made:
        yield made


def answering(page, script):
    """Return a page with a script at its end, whose result it writes down."""
    return (
        f"{page}<script>(async () => {{ const sleep = ms => new Promise(r => setTimeout(r, ms));"
        f"{script} }})().then(answer => {{ const made = document.createElement('pre');"
        "made.id = 'answer'; made.textContent = JSON.stringify(answer);"
        "document.body.append(made); });</script>"
    )


def test_an_env_says_how_exact_it_is_and_what_it_costs(env):
    view = env._repr_html_()
    assert "<caption>CartPole-v1</caption>" in view
    assert re.search(r"<td>cost</td><td>[\d,]+ us a step</td>", view)
    assert re.search(r"<td>captured by</td><td>codec, \d+ transitions played again</td>", view)


@pytest.mark.slow
def test_a_plan_is_shown_as_its_tree(env, tmp_path):
    state, _, _ = env.reset(seed=0)
    plan = MCTS(num_simulations=40, return_tree=True).plan(env, state, rng=0)
    view = plan._repr_html_()
    assert len(view) < 100_000
    path = tmp_path / "page.html"
    look = (
        "for (let i = 0; i < 200 && !document.body.dataset.move; i++) await sleep(20);"
        "return { nodes: document.querySelectorAll('#nodes > *').length,"
        " score: document.getElementById('score').textContent,"
        " footer: getComputedStyle(document.querySelector('footer')).display,"
        " frame: getComputedStyle(document.getElementById('noframe')).display };"
    )
    path.write_text(answering(framed_page(view), look))
    answer = answer_of(path, 5000)
    assert answer["nodes"] == len(plan.tree.parent)
    assert answer["score"].startswith(f"plays {plan.action} · expects ")
    assert "reward" not in answer["score"]
    assert (answer["footer"], answer["frame"]) == ("none", "none")


@pytest.mark.parametrize("name", ["MCTS", "RolloutIW"])
def test_the_played_action_of_a_space_that_begins_later_is_marked(name):
    import gymnasium as gym

    from plangym_ext import planners
    from plangym_ext.planners.pages.tree import best_line

    def later():
        space = gym.spaces.Discrete(2, start=3)
        return gym.wrappers.TransformAction(gym.make("CartPole-v1"), lambda a: a - 3, space)

    with plangym_ext.make(later) as env:
        state, obs, _ = env.reset(seed=0)
        planner = getattr(planners, name)(num_simulations=20, return_tree=True)
        plan = planner.plan(env, state, rng=0, obs=obs)
    assert plan.first_action == 3
    page = framed_page(plan._repr_html_())
    assert data_of(page)["names"] == ["3", "4"]
    assert len(best_line(plan.tree, plan, 3)) > 1


@pytest.mark.slow
def test_an_episode_is_shown_as_a_film_while_its_env_is_open(env, tmp_path):
    episode = play(env, MCTS(num_simulations=8), seed=0, max_steps=20)
    before = env.get_state()
    view = episode._repr_html_()
    np.testing.assert_array_equal(env.get_state(), before)
    assert view.startswith("<table>")
    data = data_of(framed_page(view))
    assert data["moves"] == list(range(21))
    assert data["totals"][-1] == f"{episode.return_:g}"
    assert data["interval"] == pytest.approx(20)  # 50 frames a second
    path = tmp_path / "page.html"
    look = (
        "const first = $('where').textContent; $('play').click();"
        "for (let i = 0; i < 300 && shown < last; i++) await sleep(20); await sleep(100);"
        "return [first, $('where').textContent, $('frame').naturalWidth, $('play').textContent];"
    )
    path.write_text(answering(framed_page(view), look))
    first, then, width, button = answer_of(path, 20_000)
    assert first == "move 0 of 20, return 0"
    assert then == f"move 20 of 20, return {episode.return_:g}"
    assert (width, button) == (300, "▶")
    env.close()
    assert "is closed" in episode._repr_html_()
    assert "iframe" not in episode._repr_html_()


def test_one_of_several_episodes_is_drawn_as_it_was_played(env):
    episodes = play(env, MCTS(num_simulations=4), seed=3, max_steps=6, num_episodes=2)
    data = data_of(framed_page(episodes[1]._repr_html_()))
    assert len(data["frames"]) == 7
    alone = play(env, MCTS(num_simulations=4), seed=4, max_steps=6)
    assert data_of(framed_page(alone._repr_html_()))["frames"] == data["frames"]


def test_films_are_bounded(env, monkeypatch):
    monkeypatch.setattr(films, "MOST_FRAMES", 10)
    episode = play(env, MCTS(num_simulations=8), seed=0, max_steps=40)
    data = data_of(framed_page(episode._repr_html_()))
    assert len(data["frames"]) == len(data["moves"]) == len(data["totals"]) == 10
    assert (data["moves"][0], data["moves"][-1]) == (0, episode.length)
    monkeypatch.setattr(films, "MOST_BYTES", sum(map(len, data["frames"])) // 2)
    data = data_of(framed_page(episode._repr_html_()))
    assert sum(map(len, data["frames"])) <= films.MOST_BYTES
    assert data["moves"][-1] == episode.length


def test_an_episode_keeps_no_env_and_travels_without_its_film():
    with plangym_ext.make("CartPole-v1", render_mode="rgb_array") as env:
        episode = play(env, MCTS(num_simulations=4), seed=0, max_steps=3)
        assert pickle.loads(pickle.dumps(episode)).film is None
        assert copy.deepcopy(episode).film is None
    del env
    assert "iframe" not in episode._repr_html_()
    with plangym_ext.make("CartPole-v1") as env:  # draws no pictures
        assert play(env, MCTS(num_simulations=4), seed=0, max_steps=3).film is None


@pytest.mark.slow
def test_a_run_is_shown_with_its_curves(tmp_path):
    pytest.importorskip("torch")
    small = {"rounds": 2, "collector": {"num_envs": 2}, "evaluation": {"episodes": 1}}
    with Runner(compose(["ppo_cartpole", small]), tmp_path / "run", show=0) as runner:
        runner.run()
        data = data_of(framed_page(runner._repr_html_()))
    assert data["runs"][0]["columns"]["round"] == [1, 2]
    with Trained(tmp_path / "run") as trained:
        assert data_of(framed_page(trained._repr_html_())) == data
    with Trained("cartpole") as trained:  # which has no log
        view = trained._repr_html_()
    assert "iframe" not in view
    assert "<td>CartPole-v1</td>" in view


#: The cell of a notebook.
CELL = """
import plangym_ext
from plangym_ext.planners import MCTS, play

env = plangym_ext.make("CartPole-v1", render_mode="rgb_array")
state, obs, info = env.reset(seed=0)
display(env, MCTS(8, return_tree=True).plan(env, state, rng=0))
play(env, MCTS(8), seed=0, max_steps=5)
"""


@pytest.mark.slow
def test_jupyter_shows_them():
    pytest.importorskip("ipykernel")
    from jupyter_client.manager import run_kernel
    from jupyter_core.utils import ensure_event_loop

    shown = []
    with run_kernel(kernel_name="python3") as client:
        reply = client.execute_interactive(CELL, timeout=100, output_hook=shown.append)
        assert reply["content"]["status"] == "ok", reply
    ensure_event_loop().close()  # which the client would leave behind
    env, plan, episode = [
        one["content"]["data"]["text/html"] for one in shown if "data" in one["content"]
    ]
    assert "captured by" in env
    assert 'id="tree"' in framed_page(plan)
    assert len(data_of(framed_page(episode))["frames"]) == 6
