"""The page that shows the search for each move, in a real browser where there is one."""

import base64
import io
import json
import re
import zlib

import numpy as np
import pytest
from browser import answer_of

from plangym_ext.planners.pages.tree import best_line, columns, drawn_nodes, png, reduced
from plangym_ext.planners.plans import Budget, Plan, SearchTree
from plangym_ext.run.cli import main


def small_tree():
    # 0 -> 1 (visits 5) -> 3 (4) -> 5 (1); 0 -> 2 (3) -> 4 (3)
    visits = np.array([9, 5, 3, 4, 3, 1], np.int32)
    zeros = np.zeros(6)
    return SearchTree(
        parent=np.array([-1, 0, 0, 1, 2, 3], np.int32),
        action=np.array([-1, 0, 1, 0, 1, 0], np.int32),
        visits=visits,
        q=np.arange(6, dtype=np.float32),
        reward=zeros,
        value=np.array([0, np.nan, 0, 0, 0, 0.123456]),
        prior=np.ones(6, np.float32),
        ended=np.zeros(6, bool),
    )


@pytest.mark.parametrize(
    ("most", "rows"), [(1, [0]), (2, [0, 1]), (4, [0, 1, 2, 3]), (99, [0, 1, 2, 3, 4, 5])]
)
def test_the_most_visited_nodes_are_drawn_with_their_parents(most, rows):
    assert drawn_nodes(small_tree(), most).tolist() == rows


def test_no_node_is_drawn_without_its_parent():
    tree = small_tree()
    # A child that was visited more than its parent, as in a tree of branches.
    assert drawn_nodes(
        tree._replace(visits=np.array([9, 1, 3, 8, 2, 7], np.int32)), 4
    ).tolist() == [
        0,
        2,
    ]


def test_the_best_line_follows_the_plan_and_then_the_visits():
    def plan(action, actions=None):
        return Plan(action, 0.0, Budget(), actions=actions)

    tree = small_tree()
    assert best_line(tree, plan(1), 0) == [0, 2, 4]
    assert best_line(tree, plan(10), 10) == [0, 1, 3, 5]
    assert best_line(tree, plan(0, np.array([0, 0])), 0) == [0, 1, 3]


def test_columns_are_compact_and_the_best_line_is_always_drawn():
    found = columns(small_tree(), Plan(0, 0.0, Budget()), 0, 2)
    assert found["nodes"] == 6
    assert found["parent"] == [-1, 0, 1, 2]
    assert found["line"] == [0, 1, 2, 3]
    assert found["value"] == [0.0, None, 0.0, 0.1235]


@pytest.mark.parametrize("colours", [3, 5000])
def test_a_png_is_read_back_as_it_was(colours):
    image = pytest.importorskip("PIL.Image")
    rng = np.random.default_rng(0)
    palette = rng.integers(0, 256, (colours, 3), np.uint8)
    frame = palette[rng.integers(colours, size=(90, 70))]
    np.testing.assert_array_equal(
        np.array(image.open(io.BytesIO(png(frame))).convert("RGB")), frame
    )


def test_large_frames_are_reduced_by_a_whole_factor():
    frame = np.zeros((480, 640, 3), np.uint8)
    frame[::2] = 100
    assert reduced(frame, 320).shape == (240, 320, 3)
    assert (reduced(frame, 320) == 50).all()
    assert reduced(frame, 640) is not None
    assert reduced(frame, 640).shape == frame.shape


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Page of an episode of CartPole, as the command writes it."""
    folder = tmp_path_factory.mktemp("page")
    arguments = ["plan", "CartPole-v1", "--num-simulations", "60", "--max-steps", "5"]
    options = ["--n-workers", "0", "--tree", str(folder / "tree.html"), "--tree-nodes", "40"]
    assert main([*arguments, *options, "--out", str(folder)]) == 0
    return folder / "tree.html"


def data_of(page):
    text = page.read_text()
    found = re.search(r'<script id="data" type="application/json">(.*?)</script>', text, re.S)
    return json.loads(found[1])


@pytest.mark.slow
def test_the_page_holds_everything_and_asks_for_nothing(page):
    text = page.read_text()
    data = data_of(page)
    assert (len(data["moves"]), len(data["frames"]), data["played"]) == (5, 5, 5)
    move = json.loads(zlib.decompress(base64.b64decode(data["moves"][2])))
    assert sum(move["visits"]) == 60
    assert move["tree"]["nodes"] == 61
    assert len(move["tree"]["parent"]) <= 40 + len(move["tree"]["line"])
    assert move["budget"]["expansions"] == 60
    assert base64.b64decode(data["frames"][0]).startswith(b"\x89PNG")
    # The name of the SVG format is the only address.
    assert set(re.findall(r"https?://[^\"'\s]+", text)) == {"http://www.w3.org/2000/svg"}
    assert len(text) < 200_000


@pytest.mark.slow
@pytest.mark.parametrize("env_id", ["plangym_ext/NarrowPath-v0", "FrozenLake-v1"])
def test_envs_without_pictures_and_other_planners_have_a_page_too(tmp_path, env_id):
    path = tmp_path / "deep" / "tree.html"
    options = ["--planner", "rollout-iw", "--num-simulations", "20", "--max-steps", "2"]
    arguments = ["--n-workers", "0", "--tree", str(path), "--out", str(tmp_path)]
    assert main(["plan", env_id, *options, *arguments]) == 0
    assert data_of(path)["subtitle"] == "rollout-iw, 20 simulations a move, seed 0"


@pytest.mark.slow
def test_a_planner_without_a_tree_is_refused_with_those_that_have_one(capsys):
    assert main(["plan", "Pendulum-v1", "--planner", "icem", "--tree", "x.html"]) == 2
    message = capsys.readouterr().err
    assert "--tree needs a planner that grows a tree: mcts, sts, open-loop, " in message
    assert "got 'icem'" in message


# Runs before the page's own program: notes what goes wrong.
_WATCH = """<script>
window.faults = [];
addEventListener("error", e => faults.push("error: " + e.message));
addEventListener("unhandledrejection", e => faults.push("rejected: " + e.reason));
for (const kind of ["error", "warn"])
  console[kind] = (...said) => faults.push(kind + ": " + said.join(" "));
window.fetch = () => { throw new Error("the page asked for the network"); };
</script>"""
# Runs after it: uses the page as a reader would, and writes down what that came to.
_USE = """<script>
(async () => {
  const seen = {}, sleep = ms => new Promise(done => setTimeout(done, ms));
  const opened = async move => {
    for (let i = 0; i < 200 && document.body.dataset.move !== String(move); i++) await sleep(20);
  };
  const press = key => document.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  const look = () => ({
    move: document.body.dataset.move,
    where: document.getElementById("where").textContent,
    nodes: document.querySelectorAll("#nodes > *").length,
    best: document.querySelectorAll("#nodes .best").length,
    edges: document.querySelectorAll("#edges > *").length,
    line: document.getElementById("line").textContent,
    frame: document.getElementById("frame").naturalWidth,
    score: document.getElementById("score").textContent,
    note: document.getElementById("note").textContent,
    world: document.getElementById("world").getAttribute("transform"),
    rows: document.querySelectorAll("#actions tbody tr").length,
    budget: document.getElementById("budget").textContent,
  });
  await opened(0); await sleep(100);
  seen.first = look();
  press("ArrowRight"); await opened(1); seen.second = look();
  press("End"); await opened(4); press("ArrowRight"); await sleep(50); seen.last = look();
  press("ArrowLeft"); await opened(3); seen.back = look();
  press("+"); seen.zoomed = look();
  const tree = document.getElementById("tree"), box = tree.getBoundingClientRect();
  const at = { clientX: box.left + 300, clientY: box.top + 200, bubbles: true, cancelable: true };
  tree.dispatchEvent(new WheelEvent("wheel", { ...at, deltaY: -300 })); seen.wheeled = look();
  press("0"); seen.fitted = look();
  const point = (kind, dx) => tree.dispatchEvent(
    new PointerEvent(kind, { ...at, clientX: at.clientX + dx, pointerId: 1 }));
  tree.setPointerCapture = () => {};
  point("pointerdown", 0); point("pointermove", 50); point("pointerup", 50);
  seen.panned = look();
  const node = document.querySelector('[data-i="3"]');
  const over = { bubbles: true, clientX: at.clientX, clientY: at.clientY, pointerId: 1 };
  node.dispatchEvent(new PointerEvent("pointermove", over));
  seen.tip = document.getElementById("tip").textContent;
  node.dispatchEvent(new PointerEvent("pointerdown", over));
  node.dispatchEvent(new PointerEvent("pointerup", over));
  seen.chosen = document.querySelectorAll(".chosen").length;
  return { ...seen, faults };
})().catch(e => ({ failed: String(e.stack), faults })).then(answer => {
  const made = document.createElement("pre");
  made.id = "answer";
  made.textContent = JSON.stringify(answer);
  document.body.append(made);
});
</script>"""


@pytest.fixture(scope="module")
def seen(page):
    """What a reader with a browser sees."""
    text = page.read_text()
    assert text.count("<head>") == 1
    text = text.replace("<head>", "<head>" + _WATCH).replace("</body>", _USE + "</body>")
    used = page.with_name("used.html")
    used.write_text(text)
    answer = answer_of(used, 20000)
    assert "failed" not in answer, answer
    return answer


def scale_of(view):
    return float(re.search(r"scale\((.*)\)", view["world"])[1])


@pytest.mark.slow
def test_the_page_loads_without_a_complaint(seen):
    assert seen["faults"] == []
    assert seen["first"]["where"] == "move 1 of 5"
    assert seen["first"]["frame"] == 300  # 600 pixels, halved


@pytest.mark.slow
def test_a_tree_is_drawn_with_its_best_line_and_its_cost(seen):
    first = seen["first"]
    assert 40 <= first["nodes"] <= 50
    assert first["edges"] == first["nodes"] - 1
    assert first["best"] >= 3
    assert first["line"].count("→") == first["best"] - 2
    assert first["note"].startswith("61 nodes, the 4")
    assert first["rows"] == 2
    assert "expansions60" in first["budget"]


@pytest.mark.slow
def test_arrow_keys_go_from_move_to_move_and_stop_at_the_ends(seen):
    moves = [seen[name]["move"] for name in ("first", "second", "last", "back")]
    assert moves == ["0", "1", "4", "3"]
    assert "return so far 1" in seen["first"]["score"]
    assert "return so far 5" in seen["last"]["score"]


@pytest.mark.slow
def test_zooming_fitting_and_panning_move_the_tree(seen):
    assert scale_of(seen["zoomed"]) == pytest.approx(1.25 * scale_of(seen["back"]), rel=1e-3)
    assert scale_of(seen["wheeled"]) > 1.2 * scale_of(seen["zoomed"])
    assert seen["fitted"]["world"] == seen["back"]["world"]
    assert scale_of(seen["panned"]) == scale_of(seen["fitted"])
    x = [float(re.search(r"translate\((.*?),", seen[n]["world"])[1]) for n in ("fitted", "panned")]
    assert x[1] - x[0] == pytest.approx(50, abs=0.1)


@pytest.mark.slow
def test_a_node_says_what_it_is_and_can_be_chosen(seen):
    for word in ("visits", "return", "reward", "rated", "prior", "depth"):
        assert word in seen["tip"]
    assert seen["chosen"] == 1
