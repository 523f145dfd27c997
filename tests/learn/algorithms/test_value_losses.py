"""Losses of Q values against tables worked out by hand."""

from __future__ import annotations

import math

import pytest

torch = pytest.importorskip("torch")

from plangym_ext.learn.losses.q_values import (  # noqa: E402
    added_up,
    chosen,
    cross_entropy,
    divergence,
    error_loss,
    moved_atoms,
    quantile_rows,
    rescaled,
    sequence_errors,
    shares_of_all,
    unscaled,
)

NEXT = torch.tensor([[1.0, 4.0], [3.0, 2.0], [8.0, 9.0]])


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


# Distributions ------------------------------------------------------------------------------

SUPPORT = torch.tensor([0.0, 1.0, 2.0, 3.0])


def test_atoms_move_and_are_shared_by_their_neighbours():
    following = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.0, 1.0, 0.0, 0.0], [0.5, 0.0, 0.0, 0.5]])
    reward, discount = torch.tensor([0.25, 9.0, 0.75]), torch.tensor([0.5, 0.5, 0.0])
    wanted = [
        # 0.25, 0.75, 1.25 and 1.75 of likelihoods 0.1 to 0.4
        [0.75 * 0.1 + 0.25 * 0.2, 0.25 * 0.1 + 0.75 * 0.5 + 0.25 * 0.4, 0.25 * 0.3 + 0.3, 0.0],
        [0.0, 0.0, 0.0, 1.0],  # beyond the last atom
        [0.25, 0.75, 0.0, 0.0],  # terminated: all of it is the reward
    ]
    found = moved_atoms(following, reward, discount, SUPPORT)
    wanted[0][1] = 0.25 * 0.1 + 0.75 * 0.2 + 0.75 * 0.3 + 0.25 * 0.4
    assert found.tolist() == [pytest.approx(row) for row in wanted]
    # The mean is kept where nothing falls beyond the ends.
    mean = reward + discount * (following @ SUPPORT)
    assert (found @ SUPPORT)[[0, 2]].tolist() == pytest.approx(mean[[0, 2]].tolist())


def test_many_atoms_are_shared_as_by_the_formula():
    generator = torch.Generator().manual_seed(0)
    support = torch.linspace(-100, 100, 101)
    following = torch.rand(50, 101, generator=generator).softmax(dim=1)
    reward = torch.empty(50).uniform_(-150, 150, generator=generator)
    discount = torch.tensor([0.99, 0.0]).repeat(25)
    found = moved_atoms(following, reward, discount, support)
    # Equation 7 as it is written, for every pair of atoms.
    moved = (reward[:, None] + discount[:, None] * support).clamp(-100, 100).double()
    shares = (1 - (moved[:, None, :] - support.double()[:, None]).abs() / 2).clamp(0, 1)
    wanted = (shares @ following.double()[:, :, None])[:, :, 0]
    # Places up to 100 have a last bit of 8e-6.
    torch.testing.assert_close(found.double(), wanted, atol=1e-5, rtol=0)
    torch.testing.assert_close(found.sum(dim=1), torch.ones(50))
    # It is the loss that is refused then, and not an index.
    for number in (math.nan, math.inf, -math.inf):
        lost = moved_atoms(following[:1], torch.tensor([number]), discount[:1], support)
        assert not lost.isfinite().all()


@pytest.mark.parametrize("share", [added_up, shares_of_all])
def test_both_ways_of_sharing_bring_places_to_the_atoms_beside_them(share):
    place = torch.tensor([[0.0, 0.25, 1.5, 3.0], [3.0, 3.0, 1.0, 1.0]])
    following = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.5, 0.0, 0.2, 0.3]])
    wanted = [[0.1 + 0.15, 0.05 + 0.15, 0.15, 0.4], [0.0, 0.5, 0.0, 0.5]]
    assert share(following, place).tolist() == [pytest.approx(row) for row in wanted]
    assert not share(following, place * math.nan).isfinite().all(dim=1).any()


def test_cross_entropy_and_divergence():
    target = torch.tensor([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])
    logits = torch.tensor([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]])
    rows = cross_entropy(logits, target)
    total = torch.tensor([1.0, 2.0, 3.0]).exp().sum().log()
    assert rows.tolist() == pytest.approx([float(total) - 1.5, math.log(3)])
    assert divergence(rows, target).tolist() == pytest.approx(
        [float(total) - 1.5 - math.log(2), math.log(3)]
    )
    same = torch.tensor([[0.2, 0.3, 0.5]])
    assert float(divergence(cross_entropy(same.log(), same), same)) == pytest.approx(0, abs=1e-6)


def test_losses_of_quantiles():
    value = torch.tensor([[1.0, 3.0]], requires_grad=True)  # quantiles of 1/4 and 3/4
    target = torch.tensor([[2.0, 1.5, 7.0]])
    # Huber losses of the errors, times 1/4 or 3/4 as the target is above or below.
    low = [0.25 * 0.5, 0.25 * 0.125, 0.25 * 5.5]
    high = [0.25 * 0.5, 0.25 * 1.0, 0.75 * 3.5]
    rows = quantile_rows(value, target)
    assert rows.tolist() == pytest.approx([(sum(low) + sum(high)) / 3])
    rows.sum().backward()
    steps = [0.25 * 1 + 0.25 * 0.5 + 0.25 * 1, -0.25 * 1 - 0.25 * 1 + 0.75 * 1]
    assert value.grad[0].tolist() == pytest.approx([-steps[0] / 3, -steps[1] / 3])


def test_quantiles_that_minimise_the_loss_are_quantiles():
    target = torch.arange(100.0)[None]
    value = torch.zeros(1, 4, requires_grad=True)
    optimizer = torch.optim.Adam([value], lr=1.0)
    for _ in range(400):
        optimizer.zero_grad()
        quantile_rows(value, target, 0.01).sum().backward()
        optimizer.step()
    assert value[0].tolist() == pytest.approx([12.5, 37.5, 62.5, 87.5], abs=3)


def test_losses_are_those_of_torchrl():
    objectives = pytest.importorskip("torchrl.objectives")
    tensordict, nn = pytest.importorskip("tensordict"), pytest.importorskip("tensordict.nn")
    actors = pytest.importorskip("torchrl.modules")
    specs = pytest.importorskip("torchrl.data")
    distance = pytest.importorskip("torchrl.objectives.utils").distance_loss
    values = torch.linspace(-3, 3, 7)
    for kind, theirs, factor in (("huber", "smooth_l1", 1.0), ("squared", "l2", 0.5)):
        wanted = factor * distance(values, torch.zeros(7), theirs).mean()
        torch.testing.assert_close(error_loss(values, torch.zeros(7), kind), wanted)

    class Logits(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3, 4 * 2)

        def forward(self, obs):
            return self.layer(obs).unflatten(-1, (4, 2)).log_softmax(-2)

    torch.manual_seed(0)
    net = Logits()
    actor = actors.DistributionalQValueActor(
        nn.TensorDictModule(net, in_keys=["observation"], out_keys=["action_value"]),
        support=SUPPORT,
        spec=specs.Categorical(2),
        action_space="categorical",
        make_log_softmax=False,
    )
    loss = objectives.DistributionalDQNLoss(actor, gamma=0.9, delay_value=False)
    obs, after = torch.randn(2, 6, 3)
    action, reward = torch.arange(6) % 2, torch.linspace(-0.4, 1.3, 6)
    over = torch.arange(6) == 4
    step = {"observation": after, "reward": reward[:, None], "terminated": over[:, None]}
    batch = {"observation": obs, "action": action, "next": {**step, "done": over[:, None]}}
    wanted = loss(tensordict.TensorDict(batch, [6]))["loss"]
    discount = torch.where(over, 0.0, 0.9)
    with torch.no_grad():
        following = net(after).exp().transpose(1, 2)  # [N, A, K]
        best = (following @ SUPPORT).argmax(dim=1)
        target = moved_atoms(chosen(following, best), reward, discount, SUPPORT)
    rows = cross_entropy(chosen(net(obs).transpose(1, 2), action), target)
    torch.testing.assert_close(rows.mean(), wanted)


# Sequences ----------------------------------------------------------------------------------


def test_values_are_rescaled_and_back():
    value = torch.tensor([-300.0, -1.0, 0.0, 0.5, 8.0, 5000.0], dtype=torch.float64)
    small = rescaled(value)
    assert float(small[4]) == pytest.approx(2 + 0.008)
    assert float(small[0]) == pytest.approx(1 - 301**0.5 - 0.3)
    torch.testing.assert_close(unscaled(small), value)
    # In float32, too, where the formula as it is written loses the digits of small returns.
    tiny = torch.logspace(-6, 3, 40)
    exact = rescaled(tiny.double())
    torch.testing.assert_close(rescaled(tiny), exact.float(), rtol=1e-6, atol=0)
    torch.testing.assert_close(unscaled(exact.float()), tiny, rtol=2e-6, atol=0)


def test_priorities_of_sequences():
    errors = torch.tensor([[1.0, 5.0, 2.0], [3.0, 7.0, 9.0]])
    learned = torch.tensor([[True, True, False], [True, False, False]])
    found = sequence_errors(errors, learned, 0.75)
    assert found.tolist() == [0.75 * 3 + 0.25 * 2, 5.0, 0.0]
