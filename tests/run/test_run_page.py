"""The page of runs: as a file, and live; and the episodes that runs record for it."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager
from unittest.mock import Mock

import leaks
import pytest
from browser import answer_of

from plangym_ext.errors import InvalidOption, UnknownName
from plangym_ext.run.cli import main
from plangym_ext.run.files import write_json
from plangym_ext.run.logs.logger import Logger
from plangym_ext.run.run_page import server as run_page_server
from plangym_ext.run.run_page.content import content, page, signature
from plangym_ext.run.run_page.server import PageServer

PARAMS = {
    "env": {"id": "CartPole-v1"},
    "algorithm": {"name": "ppo", "note": "</script><b>"},
    "collector": {"num_envs": 4, "moves": 5},
    "rounds": 10,
}


@pytest.fixture
def runs(tmp_path):
    for seed in range(2):
        folder = tmp_path / f"seed-{seed}"
        with Logger(folder, params={**PARAMS, "seed": seed}, show=False, tensorboard=False) as log:
            log.log(20, {"round": 1, "loss": float("nan")})
            log.log(40, {"round": 2, "return": 3.0 + seed, "loss": 0.123456789})
    write_json(
        tmp_path / "seed-0" / "eval.json",
        {"checkpoint": "c.pt", "eval/return": 5.0, "returns": [4, 6], "player": "network"},
    )
    episodes = tmp_path / "seed-1" / "episodes"
    episodes.mkdir()
    (episodes / "round-00000002.mp4").write_bytes(b"film")
    (episodes / "round-00000002.html").write_text("trees")
    (episodes / ".round-00000003.partial.mp4").write_bytes(b"half")
    return tmp_path


def test_a_row_that_is_written_while_logs_are_read_is_asked_for_again(runs):
    def address(path):
        # Called when the runs before have been read.
        with open(runs / "seed-0" / "timings.csv", "a") as file:
            file.write("60\n")
        return path.name

    found = content([runs], address)
    assert found["rows"] != signature([runs])
    assert content([runs], lambda path: path.name)["rows"] == signature([runs])


def test_the_page_shows_what_the_logs_say(runs):
    found = content([runs], lambda path: path.name)
    assert found["title"] == "CartPole-v1, ppo"
    assert [run["name"] for run in found["runs"]] == [f"seed-{i} · ppo · seed {i}" for i in (0, 1)]
    assert found["odd"] == []
    first, second = found["runs"]
    assert first["total"] == 200
    assert first["columns"]["step"] == [20, 40]
    assert first["columns"]["loss"] == [None, 0.123457]
    assert first["columns"]["return"] == [None, 3]
    assert first["timings"]["step"] == [20, 40]
    assert first["evaluation"]["episodes"] == 2
    assert first["evaluation"]["mean return"] == 5
    assert (first["episodes"], second["evaluation"]) == ([], None)
    name = "round-00000002"
    assert second["episodes"] == [{"name": name, "tree": f"{name}.html", "video": f"{name}.mp4"}]


def test_long_logs_are_thinned_out_and_keep_their_newest_row(tmp_path):
    with Logger(tmp_path, show=False, tensorboard=False) as log:
        for step in range(1, 4002):
            log.log(step, {"return": float(step)})
    (run,) = content([tmp_path], str)["runs"]
    assert 1000 <= len(run["columns"]["step"]) <= 1500
    assert run["columns"]["step"][-1] == run["columns"]["return"][-1] == 4001
    assert run["total"] is None


def test_what_is_new_changes_the_signature(runs):
    before = signature([runs])
    assert signature([runs]) == before
    (runs / "seed-0" / "episodes").mkdir()
    (runs / "seed-0" / "episodes" / "round-00000001.mp4").write_bytes(b"film")
    assert signature([runs]) != before


def test_no_setting_ends_the_script_in_which_the_data_lie(runs):
    text = page(content([runs], str))
    assert "</script><b>" not in text
    data = re.search(r'<script id="data" type="application/json">(.*?)</script>', text, re.S)[1]
    assert json.loads(data)["runs"][0]["settings"]["algorithm.note"] == "</script><b>"


def test_a_report_is_one_file_that_needs_no_network(runs, capsys):
    assert main(["report", str(runs)]) == 0
    assert "report.html: 2 runs" in capsys.readouterr().out
    text = (runs / "report.html").read_text()
    assert "data:video/mp4;base64,ZmlsbQ==" in text
    assert not re.search(r"(src|href)=[\"']?(https?:)?//", text)
    assert main(["report", str(runs / "none")]) == 2
    assert "must be a folder with a progress.csv" in capsys.readouterr().err


def test_a_folder_as_the_page_is_refused_before_runs_are_read(tmp_path, capsys):
    assert main(["report", str(tmp_path), "--out", str(tmp_path)]) == 2
    assert f"--out must be the file to write; got the folder {tmp_path}" in capsys.readouterr().err


@pytest.fixture
def served(runs):
    """Return a function that asks the live page for an address: its status and body."""
    with answering(runs) as ask:
        yield ask


@contextmanager
def serving(runs):
    """Serve the page of some runs."""
    with PageServer([runs], "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def answering(runs):
    """Serve the page of some runs; yield what asks it."""
    with serving(runs) as server:

        def ask(address, *, whole=False):
            try:
                with urllib.request.urlopen(server.url + address, timeout=100) as answer:
                    return answer.status, answer.read()
            except urllib.error.HTTPError as error:
                with error:
                    return error.code, error.read() if whole else b""

        yield ask


def test_the_live_page_asks_for_what_is_new(runs, served):
    status, body = served("")
    assert status == 200
    assert b"<title>Runs</title>" in body
    found = json.loads(served("data.json")[1])
    assert found["live"] is True
    assert served(f"data.json?rows={found['rows']}") == (204, b"")
    with Logger(runs / "seed-0", resume=True, show=False, tensorboard=False) as log:
        log.log(60, {"round": 3, "return": 9.0})
    later = json.loads(served(f"data.json?rows={found['rows']}")[1])
    assert later["runs"][0]["columns"]["return"][-1] == 9


def test_only_episodes_are_handed_out(runs, served):
    (episode,) = json.loads(served("data.json")[1])["runs"][1]["episodes"]
    assert served(episode["video"]) == (200, b"film")
    assert served(episode["tree"]) == (200, b"trees")
    (runs / "seed-1" / "episodes" / "secret.txt").write_text("x")
    (runs.parent / "episodes").mkdir(exist_ok=True)
    (runs.parent / "episodes" / "other.mp4").write_bytes(b"other")
    for address in (
        "episode/0/seed-1/params.json",
        "episode/0/seed-1/episodes/secret.txt",
        "episode/0/../episodes/other.mp4",
        "episode/0/%2e%2e/episodes/other.mp4",
        "episode/0//etc/passwd",
        "episode/7/seed-1/episodes/round-00000002.mp4",
        "episode/x/seed-1/episodes/round-00000002.mp4",
        "params.json",
    ):
        assert served(address) == (404, b""), address


def test_runs_that_were_removed_are_told(runs, served):
    shutil.rmtree(runs / "seed-0")
    shutil.rmtree(runs / "seed-1")
    assert served("data.json")[0] == 410


def test_names_that_are_not_latin_are_told_of_too(tmp_path):
    run = tmp_path / "Läufe 走"
    with Logger(run, params=PARAMS, show=False, tensorboard=False) as log:
        log.log(20, {"round": 1})
    with answering(run) as ask:
        shutil.rmtree(run)
        status, body = ask("data.json", whole=True)
    assert (status, "走" in body.decode()) == (410, True)


def test_the_bar_is_as_long_as_the_run_of_all_learners(tmp_path):
    for learners in (1, 3):
        run = tmp_path / str(learners)
        params = {**PARAMS, "learners": learners}
        with Logger(run, params=params, show=False, tensorboard=False) as log:
            log.log(20, {"round": 1})
        (found,) = content([run], lambda path: "")["runs"]
        assert found["total"] == learners * 10 * 20


NOT_JSON = (b'{"eval/return": 1', b"[1, 2]", b"\xff\xfe", b"[" * 100_000, b"9" * 5000, b"")
#: Files of a run -> what is of another kind than a run writes.
ODD_FILES = {
    "eval.json": (
        *NOT_JSON,
        b'{"eval/return": NaN, "returns": 3}',
        b'{"player": {"a": [Infinity]}, "returns": []}',
    ),
    "params.json": (
        *NOT_JSON,
        b'{"a": Infinity, "seed": NaN, "env": {"id": [1, 2]}, "algorithm": {"name": {}}}',
        b'{"collector": {"num_envs": "a", "moves": 1e308}, "rounds": 1000000000000}',
        b'{"collector": {"num_envs": 1e309, "moves": 2}, "rounds": 3, "learners": []}',
        b'{"env": {"id": "\\ud800"}, "seed": {"x": [' + b"[" * 50 + b"]" * 50 + b"]}}",
    ),
    "progress.csv": (b"\xff\xfe\nstep\n1\n", b"step,return\n\x00,\xff\n", b"a" * 200_000 + b"\n"),
    "timings.csv": (b"\xff\n1\n", b"step\n" + b"1," * 9 + b"\n", b'"' * 99 + b"\n"),
    "outcome.json": (*NOT_JSON, b'{"status": [1]}'),
}


@pytest.mark.parametrize(
    ("name", "odd"), [(name, odd) for name, some in ODD_FILES.items() for odd in some]
)
def test_an_odd_file_costs_its_own_panel_alone(runs, name, odd, tmp_path_factory, capsys):
    (runs / "seed-0" / name).write_bytes(odd)
    found = content([runs], str)
    json.loads(page(found).partition('json">')[2].partition("</script>")[0], parse_constant=refused)
    other = found["runs"][1]
    assert other["name"].startswith("seed-1 · ppo · ")
    assert other["columns"]["return"] == [None, 4]
    assert all("seed-0" in line and name in line for line in found["odd"])
    out = tmp_path_factory.mktemp("out") / "report.html"
    assert main(["report", str(runs), "--out", str(out)]) == 0
    assert "Traceback" not in capsys.readouterr().err
    assert len(json.dumps(found)) < 100_000


def refused(constant):
    raise AssertionError(f"{constant} is no JSON")


def test_what_is_no_file_in_a_place_of_one_costs_its_own_panel_alone(runs):
    for name in ("eval.json", "timings.csv", "outcome.json"):
        (runs / "seed-0" / name).unlink(missing_ok=True)
        (runs / "seed-0" / name).mkdir()
    (runs / "seed-1" / "episodes" / "folder.mp4").mkdir()
    os.mkfifo(runs / "seed-1" / "episodes" / "pipe.html")
    (runs / "seed-1" / "episodes" / "gone.mp4").symlink_to("nowhere")
    found = content([runs], str)
    assert [sorted(one) for one in found["runs"][1]["episodes"]] == [["name", "tree", "video"]]
    assert found["runs"][0]["columns"]["return"] == [None, 3]


def test_names_that_are_no_text_are_shown_and_handed_out(runs):
    odd = os.fsdecode(b"\xff\xe4") + "%00 <b>"
    (runs / "seed-1").rename(runs / odd)
    with answering(runs) as ask:
        found = json.loads(ask("data.json")[1])
        (episode,) = [episode for run in found["runs"] for episode in run["episodes"]]
        assert ask(episode["video"]) == (200, b"film")
        assert ask("")[0] == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("127.0.0.1:9000", 200),
        ("localhost:80", 200),
        ("LOCALHOST.", 200),
        ("[::1]:80", 200),
        ("attacker.example", 403),
        ("127.0.0.1.attacker.example", 403),
        ("localhost@attacker.example", 403),
        ("192.0.2.1", 403),
        ("[", 403),
        ("", 403),
    ],
)
def test_sites_that_have_their_name_answered_with_this_address_read_nothing(runs, host, status):
    with serving(runs) as server:
        address = ("127.0.0.1", server.server_address[1])
        for words in (
            f"GET /data.json HTTP/1.0\r\nHost: {host}",
            f"GET http://{host}/data.json HTTP/1.0\r\nHost: localhost",
        ):
            # No host in the request itself is none, and half an address is no request.
            if words.startswith("GET http") and host in ("", "["):
                continue
            with socket.create_connection(address, timeout=100) as client:
                client.sendall(f"{words}\r\n\r\n".encode())
                assert int(client.makefile("rb").read().split()[1]) == status, words
        with socket.create_connection(address, timeout=100) as client:
            client.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert int(client.makefile("rb").read().split()[1]) == 403


def test_pages_of_runs_have_no_part_in_the_page_that_shows_them(runs, served):
    assert '.sandbox = "allow-scripts";' in served("")[1].decode()
    with serving(runs) as server:
        page_policy = policy(server.url)
        (episode,) = content([runs], server._address)["runs"][1]["episodes"]
        assert policy(server.url + episode["tree"]).startswith(
            "sandbox allow-scripts; default-src 'none'"
        )
    assert "'unsafe-inline'" not in page_policy.partition("script-src")[2].partition(";")[0]
    for said in ("default-src 'none'", "frame-ancestors 'none'", "connect-src 'self'"):
        assert said in page_policy


def policy(address):
    with urllib.request.urlopen(address, timeout=100) as answer:
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
        return answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    "address",
    [
        *("episode/0/seed-1/episodes/%00.html", "episode/²/a.html", "episode/0/" + "a" * 300),
        *("episode/" + "9" * 5000 + "/a", "%ff%fe", "episode/-1/a.html", "episode//.html"),
        "episode/0/" + "a/" * 3000 + "episodes/a.html",
    ],
)
def test_odd_names_are_not_found(served, address, capfd):
    assert served(urllib.parse.quote(address, "/%"))[0] == 404
    assert capfd.readouterr().err == ""


def test_clients_that_say_nothing_are_dropped(runs, capfd):
    before = threading.active_count()
    with serving(runs) as server:
        port = server.server_address[1]
        slow = [socket.create_connection(("127.0.0.1", port), timeout=100) for _ in range(150)]
        for client in slow:
            client.sendall(b"GET / HT")
        assert urllib.request.urlopen(server.url, timeout=100).status == 200
        assert threading.active_count() <= before + 40
        # All but the last ones; their threads end.
        assert sum(is_dropped(client) for client in slow) >= 100
        for client in slow:
            client.close()
        assert leaks.wait_until(lambda: threading.active_count() <= before + 1)
    assert capfd.readouterr().err == ""


def is_dropped(client):
    client.setblocking(False)
    try:
        return client.recv(100) == b""
    except ConnectionError:
        return True
    except BlockingIOError:
        return False


def test_a_client_has_so_many_seconds_to_ask(runs, monkeypatch):
    monkeypatch.setattr(run_page_server, "_TO_ASK", 0.2)
    with serving(runs) as server:
        port = server.server_address[1]
        with socket.create_connection(("127.0.0.1", port), timeout=100) as client:
            client.sendall(b"GET / HTTP/1.0\r\n")
            assert client.recv(100) == b""


def test_a_page_for_other_machines_says_so(runs, monkeypatch, capsys):
    with PageServer([runs], "0.0.0.0", 0) as server:
        assert server.is_open
        for name in ("10.1.2.3:80", socket.gethostname(), "localhost"):
            assert server.is_own_name(name)
        assert not server.is_own_name("attacker.example")
    monkeypatch.setattr(PageServer, "serve_forever", lambda _: None)
    for host, told in (("0.0.0.0", True), ("127.0.0.1", False)):
        assert main(["watch", str(runs), "--host", host, "--port", "0"]) == 0
        assert ("can read the runs" in capsys.readouterr().err) is told


def test_ctrl_c_ends_it_well_before_it_listens_too(runs, monkeypatch):
    monkeypatch.setattr(PageServer, "__init__", Mock(side_effect=KeyboardInterrupt))
    assert main(["watch", str(runs), "--port", "0"]) == 0


def test_a_port_that_is_taken_and_a_folder_without_runs_are_refused(runs, tmp_path_factory):
    with PageServer([runs], "127.0.0.1", 0) as server:
        port = server.server_address[1]
        with pytest.raises(InvalidOption, match=f"cannot listen on 127.0.0.1:{port}"):
            PageServer([runs], "127.0.0.1", port)
    with pytest.raises(UnknownName, match=r"progress\.csv"):
        PageServer([tmp_path_factory.mktemp("none")], "127.0.0.1", 0)


_WATCH = """<script>
window.faults = [];
addEventListener("error", event => faults.push(String(event.message)));
</script>"""
_USE = """<script>
(() => {
  const all = (selector, of = document) => [...of.querySelectorAll(selector)];
  const names = parent => all(`#${parent} figcaption b`).map(one => one.textContent);
  const seen = { title: document.title, main: names("main"), runs: all("#runs label").length };
  seen.curves = all("#main path.curve").length + all("#main circle").length;
  seen.differs = all("#settings tr.differs th").map(one => one.textContent);
  seen.evaluation = document.getElementById("evaluation").textContent;
  seen.video = document.querySelector("video")?.src ?? "";
  document.getElementById("more").open = true;
  document.getElementById("more").dispatchEvent(new Event("toggle"));
  seen.others = names("others");
  all("#runs input")[0].click();
  seen.hidden = all("#main path.curve").length + all("#main circle").length;
  const made = document.createElement("pre");
  made.id = "answer";
  made.textContent = JSON.stringify({ ...seen, faults });
  document.body.append(made);
})();
</script>"""


@pytest.mark.slow
def test_a_reader_with_a_browser_sees_curves_settings_and_episodes(runs):
    text = page(content([runs], lambda path: path.as_uri()))
    used = runs / "used.html"
    used.write_text(text.replace("<head>", "<head>" + _WATCH).replace("</body>", _USE + "</body>"))
    seen = answer_of(used, 2000)
    assert seen["faults"] == []
    assert seen["title"] == "CartPole-v1, ppo"
    assert seen["main"] == ["return", "loss"]
    assert seen["others"] == []
    assert (seen["runs"], seen["curves"], seen["hidden"]) == (2, 4, 2)
    assert seen["differs"] == ["seed"]
    assert "c.pt2" in seen["evaluation"]
    assert seen["video"].endswith("round-00000002.mp4")


@pytest.mark.slow
def test_a_run_that_is_filmed_learns_what_one_that_is_not_learns(tmp_path):
    torch = pytest.importorskip("torch")
    imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg")
    pytest.importorskip("pygame")
    from plangym_ext.run.settings.compose import compose
    from plangym_ext.run.training.runner import Runner

    settings = {
        "rounds": 3,
        "env": {"max_steps": 5},
        "collector": {"num_envs": 2, "moves": 4},
        "algorithm": {"learning_starts": 4},
        "evaluation": {"every": 1, "episodes": 2, "player": "planner"},
    }
    weights = []
    for name, record in (("plain", 0), ("filmed", 2)):
        changed = {"evaluation": {**settings["evaluation"], "record": record}}
        with Runner(compose(["cartpole", settings, changed]), tmp_path / name) as runner:
            runner.run()
            weights.append(runner.network.state_dict())
    assert all(torch.equal(weights[0][key], weights[1][key]) for key in weights[0])
    found = sorted(path.name for path in (tmp_path / "filmed" / "episodes").iterdir())
    # The second evaluation, and the last.
    want = [f"round-0000000{n}.{kind}" for n in (2, 3) for kind in ("html", "mp4")]
    assert found == want
    assert not (tmp_path / "plain" / "episodes").exists()
    # The last as well where it has reached its goal.
    changed = {"evaluation": {**settings["evaluation"], "record": 3, "stop_at": -1.0, "tiles": 3}}
    with Runner(compose(["cartpole", settings, changed]), tmp_path / "early") as runner:
        runner.run()
    film = tmp_path / "early" / "episodes" / "round-00000001.mp4"
    # Two by two, of which one is empty.
    told = subprocess.run([imageio_ffmpeg.get_ffmpeg_exe(), "-i", film], stderr=subprocess.PIPE)
    assert b" 1200x800" in told.stderr
