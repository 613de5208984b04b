"""BCa bootstrap of a mean against scipy."""

from __future__ import annotations

import argparse
import importlib
from typing import Any

import numpy as np
from _measure import cpu_seconds, report
from satiety import stats


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--values", type=int, default=10_000)
    parser.add_argument("--resamples", type=int, default=1000)
    arguments = parser.parse_args()
    values = np.random.default_rng(1).lognormal(size=arguments.values)
    ours = stats.bootstrap(values, resamples=arguments.resamples)
    print(f"{arguments.values} values, {arguments.resamples} resamples, BCa; CPU time")
    rows = [("satiety.stats.bootstrap", cpu_seconds(lambda: stats.bootstrap(values, resamples=arguments.resamples)))]
    try:
        scipy = importlib.import_module("scipy.stats")
    except ImportError:
        print("scipy is not installed")
    else:

        def with_scipy() -> Any:
            return scipy.bootstrap((values,), np.mean, n_resamples=arguments.resamples, method="BCa")

        theirs = with_scipy().confidence_interval
        assert np.allclose([theirs.low, theirs.high], [ours.interval.low, ours.interval.high], rtol=0.02)
        rows.append(("scipy.stats.bootstrap", cpu_seconds(with_scipy)))
    report(rows)


if __name__ == "__main__":
    main()
