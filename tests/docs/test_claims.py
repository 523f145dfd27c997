"""What the pages say of results follows from the tables beside it."""

from __future__ import annotations

import re


def section(root, page, title):
    """Return the text of a section of a page of benchmarks."""
    text = (root / "docs" / page).read_text()
    found = re.search(rf"^##+ {title}\n(.*?)(?=^##+ |\Z)", text, re.S | re.M)
    assert found, title
    return found[1]


def test_tasks_above_a_learner_are_those_of_whole_episodes_in_the_table(root):
    text = section(root, "benchmarks_planning.md", "Continuous control with the true model")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    best, learned = {}, {}
    for task, learner, _, _, steps, mean, episodes, *_ in (row for row in rows if len(row) == 9):
        if re.fullmatch(r"[a-z]+-[a-z]+", task):
            assert int(episodes) >= 1
            learned[task] = float(learner)
            if steps == "1,000":
                best[task] = max(best.get(task, 0.0), float(mean))
    above = [task for task, mean in best.items() if mean > learned[task]]
    told = re.search(r"^Of (\d+) tasks, (\d+) have whole episodes above.*?\((.*?)\)", text, re.M)
    assert told[3].split(", ") == above
    assert [int(told[1]), int(told[2])] == [len(learned), len(above)]


def test_rates_of_whole_trainings_stand_in_one_table_alone(root):
    title = "Where the time of training goes"
    shares = section(root, "benchmarks_learning.md", title)
    assert "[the table above](#how-fast) alone" in shares
    assert len(re.findall(r"^\|.*%", shares, re.M)) > 5
    rate = r"\d,\d{3}"
    assert re.search(rate, section(root, "benchmarks_learning.md", "How fast"))
    assert not re.search(rate, shares)
