from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from plangym_ext.envs.sokoban import Levels, format_board, parse_levels, read_levels

BOXOBAN = Path(__file__).parents[2].parent / "shared/data/boxoban"

TWO = """; 0
######
#@$. #
######

; 1
######
#.*$@#
######
"""


def test_levels_are_read_in_order(tmp_path):
    path = tmp_path / "two.txt"
    path.write_text(TWO, encoding="utf-8")
    levels = read_levels(path)
    assert len(levels) == 2
    assert levels.dim == (3, 6)
    assert [format_board(board) for board in levels] == [
        "######\n#@$. #\n######",
        "######\n#.*$@#\n######",
    ]
    # wall 0, floor 1, target 2, box on target 3, box 4, player 5
    assert levels[0][1].tolist() == [0, 5, 4, 2, 1, 0]
    assert levels[-1][1].tolist() == [0, 2, 3, 4, 5, 0]
    assert repr(levels) == f"Levels(2 of 3x6 from {path})"


def test_headers_blank_lines_and_line_ends_are_optional():
    plain = TWO.replace("; 0\n", "").replace("; 1\n", "")
    dense = TWO.replace("\n\n", "\n").rstrip("\n")
    for text in (plain, dense, TWO.replace("\n", "\r\n"), "\n\n" + TWO + "\n\n"):
        np.testing.assert_array_equal(parse_levels(text).boards, parse_levels(TWO).boards)


def test_a_slice_is_levels_and_boards_are_read_only():
    levels = parse_levels(TWO)
    assert isinstance(levels[1:], Levels)
    np.testing.assert_array_equal(levels[1:][0], levels[1])
    with pytest.raises(ValueError, match="read-only"):
        levels[0][1, 1] = 0
    with pytest.raises(IndexError):
        levels[2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("; 0\n####\n", "t.txt, level 0, line 2: expected exactly one player .* got 0"),
        (TWO.replace("#.*$@#", "#.*$@"), "t.txt, level 1, line 8: expected 6 cells.* got 5"),
        (TWO.replace("#.*$@#", "#.x$@#"), "t.txt, level 1, line 8: expected the symbols .* 'x'"),
        (TWO.replace("#.*$@#", "#.*$@."), "t.txt, level 1, line 8: the outermost cells"),
        (TWO.replace("#.*$@#", "#@*$@#"), "t.txt, level 1, line 7: expected exactly .* got 2"),
        (TWO.replace("#.*$@#", "#..$@#"), "t.txt, level 1, line 7: .*got 1 boxes and 2 targets"),
        (TWO + "; 7\n#####\n#@$.#\n#####", "t.txt, level 7, line 11: .* 3x6; got 3x5"),
        (TWO + "; 7\n; 8\n", "t.txt, level 7, line 10: expected rows after .* got none"),
        (TWO + "; 7\n", "t.txt, level 7, line 10: expected rows after .* got none"),
        ("\n\n", "t.txt: expected at least one level; got none"),
    ],
)
def test_a_bad_level_is_refused_with_file_level_and_line(text, message):
    with pytest.raises(ValueError, match=message):
        parse_levels(text, source="t.txt")


def test_boards_are_checked_too():
    boards = parse_levels(TWO).boards.copy()
    boards[1, 1, 1] = 9
    with pytest.raises(ValueError, match=r"mine, level at position 1: cell codes .* got 9"):
        Levels(boards, "mine")
    with pytest.raises(ValueError, match=r"mine: expected boards of shape \[L, H, W\].*int64"):
        Levels(boards.astype(np.int64), "mine")


@pytest.mark.parametrize(
    "name", ["unfiltered_test_000.txt", "medium_valid_000.txt", "hard_000.txt"]
)
def test_boxoban_files_are_read(name):
    path = BOXOBAN / name
    if not path.exists():
        pytest.skip(f"no Boxoban levels at {BOXOBAN}")
    levels = read_levels(path)
    assert len(levels) == 1000
    assert levels.dim == (10, 10)
    # Four boxes each, none on its target yet, as the data's README says.
    assert ((levels.boards == 4).sum(axis=(1, 2)) == 4).all()
    first = path.read_text(encoding="utf-8").split("\n")[1:11]
    assert format_board(levels[0]).split("\n") == first


def test_a_pattern_reads_several_files_in_the_order_of_their_names(tmp_path):
    for name, symbols in (("b.txt", "@$."), ("a.txt", "@ *"), ("a[1].txt", ".$@")):
        (tmp_path / name).write_text(f"#####\n#{symbols}#\n#####\n")
    levels = read_levels(tmp_path / "?.txt")
    assert [format_board(level)[7:10] for level in levels] == ["@ *", "@$."]
    # A file of that very name is no pattern.
    assert len(read_levels(tmp_path / "a[1].txt")) == 1
    with pytest.raises(FileNotFoundError, match=r"c\*\.txt"):
        read_levels(tmp_path / "c*.txt")
    (tmp_path / "c.txt").write_text("######\n#@$. #\n######\n")
    with pytest.raises(ValueError, match=r"c\.txt: every level must have the size of those in .*a"):
        read_levels(tmp_path / "?.txt")
