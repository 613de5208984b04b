"""Statistics against formulas and known values."""

import math

import numpy as np
import pandas
import pytest
import satiety
from satiety import stats


def test_bootstrap_of_normal_values() -> None:
    values = np.random.default_rng(1).normal(2.0, 1.0, 400)
    found = stats.bootstrap(values, resamples=2000)
    assert found.estimate == pytest.approx(values.mean())
    assert found.standard_error == pytest.approx(values.std(ddof=1) / 20, rel=0.1)
    assert found.estimate in found.interval
    assert found == stats.bootstrap(list(values), resamples=2000)
    assert found == stats.bootstrap(pandas.Series(values), resamples=2000)
    assert found == stats.bootstrap(np.repeat(values, 2)[::2], resamples=2000)
    clustered = stats.bootstrap(np.repeat(values, 2), clusters=np.repeat(np.arange(400), 2), resamples=2000)
    assert clustered.standard_error == pytest.approx(found.standard_error, rel=0.15)


def test_arrays_are_read_in_place() -> None:
    from satiety._input import floats

    values = np.arange(10.0)
    assert floats(values) is values


def test_permutation_and_sign_tests_are_exact() -> None:
    assert stats.permutation_test([1.0] * 5).p_value == pytest.approx(2 / 2**5)
    assert stats.permutation_test([2.0] * 5, [1.0] * 5, alternative="greater").p_value == pytest.approx(1 / 2**5)
    assert stats.sign_test(5, 0) == pytest.approx(2 / 2**5)


def test_t_tests_of_known_samples() -> None:
    found = stats.paired_t_test([1.0, 2.0, 3.0])
    assert found.t == pytest.approx(2 / (1 / math.sqrt(3)))
    # One minus the distribution function of Student's t with two degrees of freedom.
    assert found.p_value == pytest.approx(1 - found.t / math.sqrt(2 + found.t**2))
    assert stats.welch_t_test([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]).difference == -3.0


def test_rates_ranks_and_repeats() -> None:
    assert stats.wilson(0, 10).low == 0.0
    assert stats.pass_at_k(5, 1, 2) == pytest.approx(0.4)
    assert stats.pass_hat_k(5, 4, 2) == pytest.approx(0.6)
    assert stats.kendall_tau([1, 2, 3], [1, 2, 3]) == 1.0
    assert stats.spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1.0)
    assert stats.unseen([1, 1, 2, 5]).mass == pytest.approx(2 / 9)


def test_a_confidence_sequence_may_be_looked_at_any_time() -> None:
    sequence = stats.ConfidenceSequence()
    values = np.random.default_rng(2).choice([0.0, 1.0, 1.0], 300)
    widths = [sequence.observe(value).interval for value in values]
    assert widths[-1].high - widths[-1].low < widths[10].high - widths[10].low
    assert 2 / 3 in widths[-1]
    assert sequence.observe(1.0).e_value > 20
    at_once = stats.ConfidenceSequence().observe(values)
    assert at_once.interval == widths[-1]


def test_sprt_accepts_an_effect() -> None:
    test = stats.Sprt(0.5, sigma=1.0)
    state = test.observe(np.full(100, 0.5))
    assert state.decision == "accept_effect"
    assert stats.Sprt(0.5, sigma=1.0).observe(np.zeros(100)).decision == "accept_null"


def test_an_invalid_value_changes_nothing() -> None:
    sequence = stats.ConfidenceSequence()
    sequence.observe(0.5)
    with pytest.raises(satiety.SatietyError):
        sequence.observe([0.5, 7.0])
    assert sequence.observe(0.5).samples == 2
