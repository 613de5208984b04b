"""Oracle of the eviction tests: rescaling of log-odds by scikit-learn without a penalty.

Usage: python perf/peers/eviction_oracle.py (needs scikit-learn)
"""

import numpy as np
from sklearn.linear_model import LogisticRegression

rows, outcomes, weights = [], [], []
for number in range(60):
    recency, frequency = (number % 7) * 0.5, (number % 5) * 0.4
    rows.append([0.8 - 1.4 * recency + 0.6 * frequency])
    outcomes.append((number * 7 + number // 3) % 3 == 0)
    weights.append(2.0 if number % 4 == 0 else 1.0)
model = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-14, max_iter=1000)
model.fit(np.array(rows), np.array(outcomes), sample_weight=np.array(weights))
print(f"intercept {model.intercept_[0]!r}, slope {model.coef_[0][0]!r}")
