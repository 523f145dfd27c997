"""Losses of Q values against tables worked out by hand."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from plangym_ext.learn.algorithms.value_losses import chosen, error_loss, q_target  # noqa: E402

NEXT = torch.tensor([[1.0, 4.0], [3.0, 2.0], [8.0, 9.0]])
REWARD = torch.tensor([10.0, 20.0, 30.0])
DISCOUNT = torch.tensor([0.5, 0.25, 0.0])  # the last one was terminated


def test_the_target_is_the_reward_and_the_best_of_what_follows():
    assert q_target(REWARD, DISCOUNT, NEXT).tolist() == [12.0, 20.75, 30.0]


def test_a_double_target_values_the_action_that_the_other_network_chooses():
    by = torch.tensor([[7.0, 6.0], [0.0, 1.0], [0.0, 1.0]])
    assert q_target(REWARD, DISCOUNT, NEXT, by).tolist() == [10.5, 20.5, 30.0]


def test_chosen():
    assert chosen(NEXT, torch.tensor([1, 0, 1])).tolist() == [4.0, 3.0, 9.0]
    atoms = torch.arange(12.0).reshape(3, 2, 2)
    assert chosen(atoms, torch.tensor([1, 0, 1])).tolist() == [[2, 3], [4, 5], [10, 11]]


@pytest.mark.parametrize(
    ("kind", "rows"), [("squared", [0.125, 2.0, 4.5]), ("huber", [0.125, 1.5, 2.5])]
)
def test_losses_of_errors(kind, rows):
    target = torch.tensor([1.0, 1.0, 1.0])
    value = torch.tensor([1.5, 3.0, -2.0])
    assert float(error_loss(value, target, kind)) == pytest.approx(sum(rows) / 3)
    weight = torch.tensor([1.0, 0.5, 0.25])
    wanted = (rows[0] + rows[1] / 2 + rows[2] / 4) / 3
    assert float(error_loss(value, target, kind, weight)) == pytest.approx(wanted)
