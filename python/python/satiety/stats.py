"""Statistics for comparisons: bootstrap, permutation tests, tests that may be looked at after every value.

Arrays of float64 are read in place. Every function takes a seed where it needs randomness, and the same input gives
the same result on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal

from . import _satiety
from ._decode import decode
from ._errors import SatietyError
from ._input import floats, paired, real, sequence, whole
from ._table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable

Alternative = Literal["two_sided", "greater", "less"]
"""Which deviations from "no difference" count as evidence."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval."""

    low: float
    high: float
    confidence: float
    """Coverage, such as 0.95."""

    def __str__(self) -> str:
        return f"{self.low:.4g} … {self.high:.4g} ({100 * self.confidence:.0f} %)"

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True, slots=True, repr=False)
class Bootstrap(Table):
    """Estimate with its bootstrap interval."""

    estimate: float
    standard_error: float
    interval: Interval


@dataclass(frozen=True, slots=True, repr=False)
class Permutation(Table):
    """Result of a permutation test."""

    mean: float
    """Mean difference."""
    p_value: float
    exact: bool
    """Whether all sign patterns were enumerated."""
    used: int
    """Number of differences other than zero."""


@dataclass(frozen=True, slots=True, repr=False)
class TTest(Table):
    """Result of a t-test."""

    difference: float
    p_value: float
    interval: Interval
    t: float
    degrees_of_freedom: float
    standard_error: float
    effect_size: float


@dataclass(frozen=True, slots=True, repr=False)
class Unseen(Table):
    """What a sample has not shown yet."""

    mass: float
    """Good-Turing probability that the next observation is of a new kind."""
    kinds: float
    """Chao's estimate of the number of kinds, seen and unseen."""
    completeness: float
    """Share of the kinds that were seen."""
    interval: Interval
    """Interval of the number of kinds."""


@dataclass(frozen=True, slots=True, repr=False)
class SequenceState(Table):
    """State of a confidence sequence."""

    samples: int
    mean: float | None
    interval: Interval
    """Covers the mean at all times together with the stated confidence."""
    e_value: float
    """Evidence against the null hypothesis; at most ``alpha`` of all sequences ever exceed ``1 / alpha`` under it."""
    p_value: float


@dataclass(frozen=True, slots=True, repr=False)
class SprtState(Table):
    """State of a sequential probability ratio test."""

    decision: Literal["continue", "accept_effect", "accept_null"]
    samples: int
    sigma: float | None
    log_likelihood_ratio: float | None
    boundaries: tuple[float, ...]


def bootstrap(
    values: object,
    *,
    clusters: object = None,
    resamples: int = 1000,
    confidence: float = 0.95,
    method: Literal["bca", "percentile"] = "bca",
    seed: int = 0,
) -> Bootstrap:
    """Bootstrap the mean of values.

    Args:
        values: Numbers; a float64 array is not copied.
        clusters: A label for each value, as whole numbers. Whole clusters are resampled.
        resamples: Number of resamples.
        confidence: Coverage of the interval.
        method: ``bca`` corrects for bias and skewness.
        seed: Seed of the resamples.

    """
    array = floats(values)
    labels = None
    if clusters is not None:
        import numpy as np

        numbers = floats(clusters, "clusters")
        if numbers.size != array.size:
            message = f"values and clusters must have the same length, not {array.size} and {numbers.size}"
            raise SatietyError(message, where="clusters")
        labels = numbers.astype(np.int64)
    options = {
        "resamples": whole(resamples, "resamples", 1),
        "confidence": real(confidence, "confidence"),
        "method": method,
        "seed": whole(seed, "seed"),
    }
    return decode(Bootstrap, _satiety.bootstrap(array, labels, options))


def permutation_test(
    treatment: object,
    control: object = None,
    *,
    alternative: Alternative = "two_sided",
    permutations: int = 9_999,
    seed: int = 0,
) -> Permutation:
    """Test paired differences by flipping their signs; exact if there are few of them.

    Args:
        treatment: Values of the treatment, or the differences themselves if there is no ``control``.
        control: Values of the control, in the same order.
        alternative: Direction of the test.
        permutations: Number of random sign patterns if there are too many to enumerate.
        seed: Seed of the random patterns.

    """
    differences = floats(treatment, "treatment") if control is None else _differences(treatment, control)
    count, start = whole(permutations, "permutations", 1), whole(seed, "seed")
    return decode(Permutation, _satiety.permutation(differences, alternative, count, start))


def paired_t_test(
    treatment: object, control: object = None, *, alternative: Alternative = "two_sided", confidence: float = 0.95
) -> TTest:
    """Student's t-test of paired differences; without ``control``, ``treatment`` holds the differences."""
    differences = floats(treatment, "treatment") if control is None else _differences(treatment, control)
    return decode(TTest, _satiety.t_test(differences, None, alternative, real(confidence, "confidence")))


def welch_t_test(
    treatment: object, control: object, *, alternative: Alternative = "two_sided", confidence: float = 0.95
) -> TTest:
    """Welch's t-test of two independent samples."""
    left, right = floats(treatment, "treatment"), floats(control, "control")
    return decode(TTest, _satiety.t_test(left, right, alternative, real(confidence, "confidence")))


def sign_test(wins: int, losses: int, *, alternative: Alternative = "two_sided") -> float:
    """Exact p-value of the sign test."""
    return _satiety.sign_test(whole(wins, "wins"), whole(losses, "losses"), alternative)


def wilson(successes: int, trials: int, *, confidence: float = 0.95) -> Interval:
    """Wilson's interval of a rate."""
    counts = whole(successes, "successes"), whole(trials, "trials", 1)
    return decode(Interval, _satiety.wilson(*counts, real(confidence, "confidence")))


def pass_at_k(tries: int, successes: int, k: int) -> float:
    """Probability that at least one of ``k`` tries succeeds (unbiased)."""
    return _satiety.pass_at_k(whole(tries, "tries", 1), whole(successes, "successes"), whole(k, "k", 1))[0]


def pass_hat_k(tries: int, successes: int, k: int) -> float:
    """Probability that all of ``k`` tries succeed (unbiased)."""
    return _satiety.pass_at_k(whole(tries, "tries", 1), whole(successes, "successes"), whole(k, "k", 1))[1]


def unseen(counts: Iterable[int], *, confidence: float = 0.95) -> Unseen:
    """Estimate what a sample has not shown yet, from how often each kind was seen."""
    numbers = [whole(count, f"counts[{index}]") for index, count in enumerate(sequence(counts, "counts"))]
    if not numbers:
        raise SatietyError("counts must not be empty", where="counts")
    mass, richness = _satiety.unseen(numbers, real(confidence, "confidence"))
    return Unseen(
        mass=mass["estimate"],
        kinds=richness["estimate"],
        completeness=richness["completeness"],
        interval=decode(Interval, richness["interval"]),
    )


def kendall_tau(x: object, y: object) -> float:
    """Kendall's rank correlation (tau-b)."""
    return _satiety.rank_correlation(*paired(x, y, ("x", "y")))[0]


def spearman(x: object, y: object) -> float:
    """Spearman's rank correlation."""
    return _satiety.rank_correlation(*paired(x, y, ("x", "y")))[1]


class ConfidenceSequence:
    """Confidence interval of a mean that is valid after every value, by betting.

    Args:
        low: Smallest possible value.
        high: Largest possible value.
        alpha: One minus the coverage.
        null: Mean under the null hypothesis.
        alternative: Direction of the evidence against it.

    """

    __slots__ = ("_alternative", "_lock", "_state", "_test")

    def __init__(
        self,
        low: float = -1.0,
        high: float = 1.0,
        *,
        alpha: float = 0.05,
        null: float = 0.0,
        alternative: Alternative = "two_sided",
    ) -> None:
        limits = {"low": low, "high": high, "alpha": alpha, "null": null}
        self._test = _satiety.ConfidenceSequence({name: real(value, name) for name, value in limits.items()})
        self._alternative = alternative
        self._lock = Lock()
        self._state: SequenceState | None = None

    def observe(self, values: object) -> SequenceState:
        """Add a value or several, and return the state after the last one."""
        array = floats([values] if isinstance(values, (int, float)) else values)
        with self._lock:
            self._state = decode(SequenceState, self._test.observe(array, self._alternative))
            return self._state

    def __repr__(self) -> str:
        return "ConfidenceSequence without values" if self._state is None else repr(self._state)


class Sprt:
    """Sequential probability ratio test: does the mean have this effect, or none?

    Args:
        effect: Mean under the alternative hypothesis.
        sigma: Known standard deviation; estimated from the first ``burn_in`` values if absent.
        alpha: Probability of accepting an effect that does not exist.
        beta: Probability of missing the effect.
        burn_in: Number of values from which the standard deviation is estimated.
        minimum_samples: Number of values before a decision.

    """

    __slots__ = ("_lock", "_state", "_test")

    def __init__(
        self,
        effect: float,
        *,
        sigma: float | None = None,
        alpha: float = 0.05,
        beta: float = 0.2,
        burn_in: int = 20,
        minimum_samples: int = 2,
    ) -> None:
        spread: dict[str, Any] = (
            {"burn_in": whole(burn_in, "burn_in", 1)} if sigma is None else {"known": real(sigma, "sigma")}
        )
        options: dict[str, object] = {
            "effect": real(effect, "effect"),
            "alpha": real(alpha, "alpha"),
            "beta": real(beta, "beta"),
            "sigma": spread,
            "minimum_samples": whole(minimum_samples, "minimum_samples"),
        }
        self._test = _satiety.Sprt(options)
        self._lock = Lock()
        self._state: SprtState | None = None

    def observe(self, values: object) -> SprtState:
        """Add a value or several, and return the state after the last one."""
        array = floats([values] if isinstance(values, (int, float)) else values)
        with self._lock:
            self._state = decode(SprtState, self._test.observe(array))
            return self._state

    def __repr__(self) -> str:
        return "Sprt without values" if self._state is None else repr(self._state)


def _differences(treatment: object, control: object) -> Any:
    left, right = paired(treatment, control, ("treatment", "control"))
    return left - right
