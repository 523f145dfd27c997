"""Return functions: tables worked out by hand, limits against each other, both libraries."""

from __future__ import annotations

import numpy as np
import pytest

from plangym_ext.errors import InvalidOption, InvalidSamples
from plangym_ext.learn.engines.compiled.actor_critic import standardize
from plangym_ext.learn.returns import (
    deltas,
    gae,
    multistep,
    n_step_rewards,
    normalized,
    past_returns,
    returns,
    td_lambda,
    vtrace,
)
from plangym_ext.learn.returns.advantages import branch_returns
from plangym_ext.learn.returns.checked import recurrence, stepwise_recurrence

#: One env, four rows; the second ends an episode.
REWARD = np.array([[1.0], [2.0], [3.0], [4.0]])
VALUE = np.array([[0.5], [0.4], [0.3], [0.2]])
ENDED = np.array([[False], [True], [False], [False]])
LOG_RATIO = np.log([[2.0], [0.5], [1.0], [0.25]])
AFTER = {"discount": 0.9, "bootstrap": 10.0}


def numpy_arrays(array):
    return np.asarray(array)


def torch_tensors(array):
    torch = pytest.importorskip("torch")
    return torch.as_tensor(np.asarray(array))


LIBRARIES = pytest.mark.parametrize("make", [numpy_arrays, torch_tensors])


def column(found):
    return np.asarray(found)[:, 0]


# Tables ---------------------------------------------------------------------------------

TABLE = [
    # G3 = 4 + .9 10 = 13, G2 = 3 + .9 13, G1 = 2 (ended), G0 = 1 + .9 2.
    (lambda r, v, d, w: returns(r, d, **AFTER), [2.8, 2, 14.7, 13]),
    # G3 = 4 + .9 .25 10, G2 = 3 + .9 6.25, G0 = 1 + .9 min(2, 1) 2.
    (lambda r, v, d, w: returns(r, d, log_ratio=w, **AFTER), [2.8, 2, 8.625, 6.25]),
    # No limit: G0 = 1 + .9 2 2.
    (
        lambda r, v, d, w: returns(r, d, log_ratio=w, ratio_clip=None, **AFTER),
        [4.6, 2, 8.625, 6.25],
    ),
    (lambda r, v, d, w: deltas(r, v, d, **AFTER), [0.86, 1.6, 2.88, 12.8]),
    (lambda r, v, d, w: deltas(r, v, d, log_ratio=w, **AFTER), [0.86, 0.8, 2.88, 3.2]),
    # A2 = 2.88 + .45 12.8, A0 = .86 + .45 1.6.
    (lambda r, v, d, w: gae(r, v, d, lam=0.5, **AFTER), [1.58, 1.6, 8.64, 12.8]),
    (lambda r, v, d, w: gae(r, v, d, lam=1, **AFTER), [2.3, 1.6, 14.4, 12.8]),
    (lambda r, v, d, w: td_lambda(r, v, d, lam=0.5, **AFTER), [2.08, 2, 8.94, 13]),
    (lambda r, v, d, w: multistep(r, v, d, n=1, **AFTER), [1.36, 2, 3.18, 13]),
    (lambda r, v, d, w: multistep(r, v, d, n=2, **AFTER), [2.8, 2, 14.7, 13]),
    # A3 = .25 12.8, A2 = 2.88 + .9 3.2, A1 = .5 1.6, A0 = .86 + .9 .8.
    (lambda r, v, d, w: vtrace(r, v, d, log_ratio=w, **AFTER), [2.08, 1.2, 6.06, 3.4]),
]


@LIBRARIES
@pytest.mark.parametrize(("compute", "expected"), TABLE)
def test_table_of_one_env(compute, expected, make):
    found = compute(make(REWARD), make(VALUE), make(ENDED), make(LOG_RATIO))
    assert type(found) is type(make(REWARD))
    np.testing.assert_allclose(column(found), expected, rtol=1e-12)


@LIBRARIES
def test_truncation_bootstraps_from_the_observation_it_ended_with(make):
    arguments = {"truncated": make(ENDED), "final_value": make(REWARD * 0 + 5), **AFTER}
    r, v, never = make(REWARD), make(VALUE), make(ENDED & False)
    # G1 = 2 + .9 5 = 6.5, and not 2 + .9 14.7: the next row is another episode.
    np.testing.assert_allclose(column(returns(r, never, **arguments)), [6.85, 6.5, 14.7, 13])
    # d1 = 2 + .9 5 - .4 = 6.1; A0 = 1 + .9 .4 - .5 + .45 6.1.
    np.testing.assert_allclose(
        column(gae(r, v, never, lam=0.5, **arguments)), [3.605, 6.1, 8.64, 12.8]
    )
    np.testing.assert_allclose(
        column(multistep(r, v, never, n=1, **arguments)), [1.36, 6.5, 3.18, 13]
    )
    np.testing.assert_allclose(
        column(vtrace(r, v, never, log_ratio=make(LOG_RATIO), **arguments)),
        # A1 = .5 6.1 = 3.05, A0 = .86 + .9 3.05.
        [0.5 + 0.86 + 0.9 * 3.05, 0.4 + 3.05, 6.06, 3.4],
    )


@LIBRARIES
def test_a_row_both_terminated_and_truncated_is_worth_nothing_after(make):
    found = returns(make(REWARD), make(ENDED), truncated=make(ENDED), final_value=np.nan, **AFTER)
    np.testing.assert_allclose(column(found), [2.8, 2, 14.7, 13])


@LIBRARIES
def test_nothing_after_a_termination_is_read(make):
    value = make(np.where(np.roll(ENDED, 1), np.nan, VALUE))
    for found in (
        gae(make(REWARD), value, make(ENDED), lam=0.9, **AFTER),
        multistep(make(REWARD), value, make(ENDED), n=3, **AFTER),
        deltas(make(REWARD), value, make(ENDED), **AFTER),
    ):
        assert np.isfinite(column(found)[:2]).all()


@LIBRARIES
def test_n_step_rewards_leave_the_value_to_later(make):
    found = n_step_rewards(make(REWARD), make(ENDED), n=2, discount=0.9)
    np.testing.assert_allclose(column(found.reward), [2.8, 2, 6.6, 4])
    np.testing.assert_allclose(column(found.discount), [0, 0, 0.81, 0.9])
    assert column(found.last).tolist() == [1, 1, 3, 3]
    truncated = n_step_rewards(
        make(REWARD), make(ENDED & False), n=2, discount=0.9, truncated=make(ENDED)
    )
    np.testing.assert_allclose(column(truncated.discount), [0.81, 0.9, 0.81, 0.9])
    assert column(truncated.last).tolist() == [1, 1, 3, 3]


def test_past_returns_begin_anew_with_every_episode_and_every_call():
    ones = np.ones((4, 1))
    found, carry = past_returns(ones, ENDED, discount=0.5)
    assert found[:, 0].tolist() == [1, 1.5, 1, 1.5]
    found, _ = past_returns(ones, ENDED, discount=0.5, before=carry)
    assert found[:, 0].tolist() == [1.75, 1.875, 1, 1.5]
    # An episode that ended with the last row leaves nothing to the next call.
    last = np.roll(ENDED, 2)
    for flags in ({"terminated": last}, {"terminated": ENDED & False, "truncated": last}):
        _, carry = past_returns(ones, discount=0.9, **flags)
        assert past_returns(ones, ENDED, discount=0.9, before=carry)[0][0, 0] == 1.0


@LIBRARIES
def test_normalised_by_the_valid_rows_alone(make):
    found = normalized(make([[1.0], [2.0], [100.0]]), make([[True], [True], [False]]))
    np.testing.assert_allclose(column(found), [-1, 1, 197], rtol=1e-5)
    # A zero counts like any other value.
    np.testing.assert_allclose(column(normalized(make([[0.0], [2.0]]))), [-1, 1], rtol=1e-5)
    agents = normalized(make([[[0.0, 10.0]], [[2.0, 30.0]]]))
    np.testing.assert_allclose(agents[:, 0, :], [[-1, -1], [1, 1]], rtol=1e-5)


@LIBRARIES
def test_a_single_advantage_is_not_brought_to_zero(make):
    np.testing.assert_array_equal(np.asarray(normalized(make([[3.0]]))), [[3.0]])
    alone = normalized(make([[3.0], [7.0]]), make([[True], [False]]))
    np.testing.assert_array_equal(np.asarray(alone), [[3.0], [7.0]])
    none = normalized(make([[3.0]]), make([[False]]))
    np.testing.assert_array_equal(np.asarray(none), [[3.0]])
    compiled = np.array([3.0], np.float32)
    standardize(compiled, 1e-6)
    np.testing.assert_array_equal(compiled, [3.0])


# Limits and other ways to the same numbers -----------------------------------------------


def draw(seed, shape=(7, 3)):
    rng = np.random.default_rng(seed)
    flags = rng.random((2, *shape[:2])) < 0.25
    return {
        "reward": rng.normal(size=shape),
        "value": rng.normal(size=shape),
        "terminated": flags[0],
        "truncated": flags[1],
        "final_value": rng.normal(size=shape),
        "bootstrap": rng.normal(size=shape[1:]),
        "discount": 0.9,
    }


def without(rows, name):
    return {key: value for key, value in rows.items() if key != name}


SEEDS = pytest.mark.parametrize("seed", range(5))


@SEEDS
def test_limits_meet(seed):
    rows = draw(seed)
    whole = returns(**without(rows, "value"))
    one = multistep(n=1, **rows)
    log_ratio = np.random.default_rng(seed).normal(size=(7, 3))
    same = [
        (multistep(**rows), whole),
        (multistep(n=99, **rows), whole),
        (td_lambda(lam=1, **rows), whole),
        (td_lambda(lam=0, **rows), one),
        (gae(lam=0, **rows), deltas(**rows)),
        (gae(lam=1, **rows) + rows["value"], whole),
        (gae(lam=0.7, **rows) + rows["value"], td_lambda(lam=0.7, **rows)),
        (deltas(**rows) + rows["value"], one),
        (vtrace(**rows), whole),
        (vtrace(log_ratio=log_ratio * 0, **rows), whole),
        # Traces that never go on leave one corrected step.
        (vtrace(log_ratio=log_ratio, trace_clip=1e-300, **rows),
         rows["value"] + deltas(log_ratio=log_ratio, **rows)),
    ]  # fmt: skip
    for found, expected in same:
        np.testing.assert_allclose(found, expected, atol=1e-12)


@SEEDS
@pytest.mark.parametrize("n", [1, 2, 3, 7])
def test_n_step_rewards_and_a_value_are_multistep(seed, n):
    rows = draw(seed)
    found = n_step_rewards(
        rows["reward"], rows["terminated"], truncated=rows["truncated"], discount=0.9, n=n
    )
    after = np.concatenate([rows["value"][1:], rows["bootstrap"][None]])
    after = np.where(rows["truncated"], rows["final_value"], after)
    value = np.take_along_axis(after, found.last, axis=0)
    np.testing.assert_allclose(
        found.reward + found.discount * value, multistep(n=n, **rows), atol=1e-12
    )


FUNCTIONS = {
    "returns": lambda rows: returns(**without(rows, "value")),
    "deltas": lambda rows: deltas(**rows),
    "gae": lambda rows: gae(lam=0.8, **rows),
    "td_lambda": lambda rows: td_lambda(lam=0.8, **rows),
    "multistep": lambda rows: multistep(n=3, **rows),
    "vtrace": lambda rows: vtrace(**rows),
}
EACH = pytest.mark.parametrize("compute", FUNCTIONS.values(), ids=FUNCTIONS)


@SEEDS
@EACH
def test_rows_that_are_not_valid_might_as_well_not_be_there(compute, seed):
    rows = draw(seed)
    valid = np.random.default_rng(seed + 100).random((7, 3)) < 0.6
    garbage = np.array([np.inf, -np.inf, np.nan])
    spoilt = {
        name: np.where(valid, array, garbage) if name in ("reward", "value") else array
        for name, array in rows.items()
    }
    spoilt["final_value"] = np.where(valid & rows["truncated"], rows["final_value"], garbage)
    found = compute({**spoilt, "valid": valid})
    for b in range(3):
        kept = valid[:, b]
        assert (found[~kept, b] == 0).all()
        if not kept.any():
            continue
        alone = {
            name: array[kept, b : b + 1] if np.shape(array) == (7, 3) else array
            for name, array in rows.items()
        }
        alone["bootstrap"] = rows["bootstrap"][b : b + 1]
        np.testing.assert_allclose(found[kept, b], compute(alone)[:, 0], atol=1e-12)


@SEEDS
@EACH
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_torch_and_numpy_agree(compute, seed, dtype):
    rows = draw(seed, (7, 3, 2))
    rows = {
        name: array.astype(dtype) if getattr(array, "dtype", None) == np.float64 else array
        for name, array in rows.items()
    }
    tensors = {
        name: torch_tensors(array) if isinstance(array, np.ndarray) else array
        for name, array in rows.items()
    }
    found, expected = compute(tensors), compute(rows)
    assert str(found.dtype) == f"torch.{dtype}"
    assert expected.dtype == dtype
    tolerance = 1e-12 if dtype == "float64" else 1e-5
    np.testing.assert_allclose(found.numpy(), expected, atol=tolerance)


@SEEDS
def test_the_loop_for_devices_agrees_with_the_compiled_one(seed):
    torch = pytest.importorskip("torch")
    rows = draw(seed)
    step, last = torch_tensors(rows["reward"]), torch_tensors(rows["bootstrap"])
    decay = torch.where(torch_tensors(rows["terminated"]), 0.0, torch_tensors(rows["value"]))
    found = stepwise_recurrence(torch, step, decay, last)
    np.testing.assert_allclose(found.numpy(), recurrence(step, decay, last).numpy(), atol=1e-12)
    half = recurrence(step.bfloat16(), decay.bfloat16(), last.bfloat16())
    assert half.dtype == torch.bfloat16
    np.testing.assert_allclose(half.float().numpy(), found.numpy(), atol=0.2)


def test_nothing_is_differentiated():
    torch = pytest.importorskip("torch")
    value = torch_tensors(VALUE).requires_grad_()
    assert not gae(torch_tensors(REWARD), value, ENDED, lam=0.9, **AFTER).requires_grad
    assert torch.is_tensor(value)


@EACH
def test_agents_after_the_envs_are_computed_one_by_one(compute):
    shared = draw(0)
    rows = draw(0, (7, 3, 2))
    rows |= {name: shared[name] for name in ("reward", "terminated", "truncated")}
    found = compute(rows if compute is not FUNCTIONS["returns"] else without(rows, "value") | {
        "reward": np.stack([shared["reward"]] * 2, axis=-1), "value": rows["value"]})  # fmt: skip
    for k in range(2):
        alone = {**rows, **{name: rows[name][..., k] for name in ("value", "final_value")}}
        alone["bootstrap"] = rows["bootstrap"][..., k]
        np.testing.assert_allclose(found[..., k], compute(alone), atol=1e-12)


# What may be passed ----------------------------------------------------------------------


@LIBRARIES
def test_ratios_too_large_for_a_float_are_clipped_all_the_same(make):
    found = returns(make(REWARD), make(ENDED), log_ratio=make(LOG_RATIO * 0 + 1e4), **AFTER)
    np.testing.assert_allclose(column(found), [2.8, 2, 14.7, 13])


def test_half_precision_of_numpy_becomes_double():
    found = gae(REWARD.astype(np.float16), VALUE, ENDED, lam=0.5, **AFTER)
    assert found.dtype == np.float64
    np.testing.assert_allclose(column(found), [1.58, 1.6, 8.64, 12.8])


@LIBRARIES
def test_whole_numbers_are_rewards_too(make):
    found = returns(make([[1], [2]]), make([[0], [1]]), discount=0.5)
    assert "float64" in str(found.dtype)
    assert column(found).tolist() == [2, 2]


@pytest.mark.parametrize("bootstrap", [10, 10.0, [10.0], [[10.0]], np.float32(10)])
def test_bootstraps_of_every_function_may_be_a_number_or_a_row(bootstrap):
    for compute in FUNCTIONS.values():
        rows = {"reward": REWARD, "value": VALUE, "terminated": ENDED, "discount": 0.9}
        expected = compute({**rows, "bootstrap": 10.0})
        np.testing.assert_array_equal(compute({**rows, "bootstrap": bootstrap}), expected)


def test_arguments_are_left_alone():
    rows = draw(0)
    kept = {name: np.array(value) for name, value in rows.items()}
    for compute in FUNCTIONS.values():
        found = compute(rows)
        found[...] = np.nan
    for name, value in rows.items():
        np.testing.assert_array_equal(value, kept[name])


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"reward": REWARD[:, 0]}, InvalidSamples, r"must be \[T, B\].*got \(4,\)"),
        ({"value": VALUE[:3]}, InvalidSamples, r"got \(4, 1\) and \(3, 1\)"),
        ({"reward": REWARD[:0], "value": VALUE[:0]}, InvalidSamples, "T >= 1"),
        ({"terminated": ENDED[:2]}, InvalidSamples, r"terminated must be \(4, 1\).*got \(2, 1\)"),
        ({"valid": ENDED[:, 0]}, InvalidSamples, r"valid must be \(4, 1\) flags"),
        ({"bootstrap": [1.0, 2.0]}, InvalidSamples, r"bootstrap must be a number or \(1,\)"),
        ({"truncated": ENDED}, InvalidSamples, "got only truncated"),
        ({"final_value": VALUE}, InvalidSamples, "got only final_value"),
        ({"discount": 1.1}, InvalidOption, r"discount must be a finite number in \[0.*got 1.1"),
        ({"discount": float("nan")}, InvalidOption, "got nan"),
    ],
)  # fmt: skip
def test_misfits_are_refused(change, error, text):
    rows = {"reward": REWARD, "value": VALUE, "terminated": ENDED, "discount": 0.9, **change}
    with pytest.raises(error, match=f"gae: .*{text}"):
        gae(lam=0.9, **rows)


@pytest.mark.parametrize("clip", [0, -1, float("nan")])
def test_a_limit_of_ratios_is_positive_or_none(clip):
    with pytest.raises(InvalidOption, match="ratio_clip must be positive"):
        returns(REWARD, ENDED, discount=0.9, log_ratio=LOG_RATIO, ratio_clip=clip)
    with pytest.raises(
        InvalidSamples, match=r"log_ratio must be a number or \(4, 1\); got \(2, 1\)"
    ):
        returns(REWARD, ENDED, discount=0.9, log_ratio=LOG_RATIO[:2])
    with pytest.raises(InvalidOption, match="n must be an integer >= 1; got 0"):
        multistep(REWARD, VALUE, ENDED, discount=0.9, n=0)


def test_an_argument_that_there_is_not_is_named_with_the_closest():
    with pytest.raises(
        TypeError, match=r"gae: unknown argument 'boostrap'.*did you mean 'bootstrap'"
    ):
        gae(REWARD, VALUE, ENDED, discount=0.9, lam=0.9, boostrap=1.0)
    for function in (returns, gae, past_returns, n_step_rewards, branch_returns):
        with pytest.raises(TypeError, match=r"'gamma' \(did you mean 'discount'\?\)"):
            function(REWARD, VALUE, ENDED, gamma=0.9)
