"""Scripts that are forked of a server run as scripts that are started do."""

from __future__ import annotations

import subprocess

import pytest


@pytest.fixture
def run(scripts, tmp_path):
    def run(text, **options):
        (tmp_path / "script.py").write_text(text)
        return scripts.run(tmp_path / "script.py", folder=tmp_path, **options)

    return run


def test_a_script_has_its_folder_arguments_environment_and_streams(run, tmp_path):
    done = run(
        "import os, sys, tempfile\n"
        "print(os.getcwd(), sys.argv[1:], os.environ['OWN'], sys.stdin.read(), __name__)\n"
        "print(tempfile.gettempdir(), file=sys.stderr)\n",
        arguments=["--quick"],
        env={"OWN": "mine", "TMPDIR": str(tmp_path)},
        stdin="asked",
    )
    assert done.returncode == 0
    assert done.stdout.split() == [str(tmp_path), "['--quick']", "mine", "asked", "__main__"]
    assert done.stderr == f"{tmp_path}\n"


def test_a_script_begins_without_this_project_and_leads_a_session(run):
    done = run(
        "import os, sys\n"
        "print([name for name in sys.modules if name.startswith('plangym')], os.getsid(0))\n"
    )
    assert done.stdout.split() == ["[]", str(done.pid)]


def test_how_a_script_ends_is_told(run):
    done = run("import atexit\natexit.register(print, 'last')\nraise SystemExit(3)\n")
    assert (done.returncode, done.stdout) == (3, "last\n")
    done = run("def broken():\n    return 1 / 0\n\nbroken()\n")
    assert done.returncode == 1
    assert "script.py" in done.stderr
    assert "line 2, in broken" in done.stderr
    done = run("import warnings\nwarnings.warn('old')\n", warnings_are_errors=True)
    assert done.returncode == 1
    assert "UserWarning: old" in done.stderr


def test_a_script_that_takes_too_long_is_killed_and_the_next_one_runs(run):
    with pytest.raises(subprocess.TimeoutExpired):
        run("import time\ntime.sleep(60)\n", timeout=0.5)
    assert run("print('next')").stdout == "next\n"


def test_scripts_run_at_the_same_time(scripts, tmp_path):
    (tmp_path / "first.py").write_text(
        "import time\nfrom pathlib import Path\n"
        "while not Path('second').exists():\n    time.sleep(0.01)\nprint('first')\n"
    )
    (tmp_path / "second.py").write_text("open('second', 'w').close()\nprint('second')\n")
    both = [scripts.start(tmp_path / f"{name}.py", folder=tmp_path) for name in ("first", "second")]
    assert [one.wait().stdout for one in both] == ["first\n", "second\n"]
