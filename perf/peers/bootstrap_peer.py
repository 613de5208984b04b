"""scipy's paired bootstrap: `python bootstrap_peer.py METHOD FILE` reads pairs, one per line, resamples them 1,000 times and
prints JSON with the CPU seconds of the call, peak memory and the interval of the mean difference."""
import json
import resource
import sys
import time

import numpy
from scipy import stats

method, path = sys.argv[1:3]
treatment, control = numpy.loadtxt(path, unpack=True)


def difference(a, b, axis=-1):
    return numpy.mean(a, axis=axis) - numpy.mean(b, axis=axis)


start = time.process_time()
found = stats.bootstrap((treatment, control), difference, paired=True, vectorized=True, n_resamples=1000, method=method,
                        confidence_level=0.95, rng=numpy.random.default_rng(1))
seconds = time.process_time() - start
usage = resource.getrusage(resource.RUSAGE_SELF)
interval = found.confidence_interval
print(json.dumps({"cpu_seconds": seconds, "megabytes": usage.ru_maxrss / 1000, "low": interval.low, "high": interval.high}))
