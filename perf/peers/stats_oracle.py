"""Expected values for the tests of the statistics, from scipy, statsmodels, scikit-learn, mpmath and others.

    pip install numpy scipy statsmodels scikit-learn mpmath scikit-bio pymannkendall rbo
    python perf/peers/stats_oracle.py [section ...]

Each line is `name: value`, formatted as in the Rust tests.
"""

import itertools
import math
import sys
from fractions import Fraction

import mpmath
import numpy as np
import scipy.special as special
import scipy.stats as st
from mpmath import mp, mpf

mp.dps = 40

A = [0.81, 0.34, 0.55, 1.0, 0.62, 0.13, 0.77, 0.5, 0.91, 0.28, 0.66, 0.47]
B = [0.74, 0.39, 0.41, 0.86, 0.62, 0.2, 0.58, 0.43, 0.79, 0.31, 0.45, 0.36]
OUTCOMES = [1, 0, 1, 1, 1, 0, 0, 0, 1, 0, 1, 1]
a, b = np.array(A), np.array(B)
SECTIONS = {}


def section(function):
    SECTIONS[function.__name__] = function
    return function


def literal(value):
    if isinstance(value, str):
        return value
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    text = repr(float(value))
    return text if any(c in text for c in ".en") else text + ".0"


def one(name, value):
    print(f"{name}: {literal(value)}")


def many(name, values):
    print(f"{name}: " + ", ".join(literal(v) for v in values))


def rows(name, table):
    print(f"{name}: " + " ".join("(" + ", ".join(literal(v) for v in row) + ")," for row in table))


@section
def distribution():
    cdf = lambda x: mp.erfc(-mpf(x) / mp.sqrt(2)) / 2
    rows("dist.normal", [(x, cdf(x)) for x in (-37.0, -20.0, -8.0, -5.0, -3.0, -1.96, -1.0, -0.1, 0.0, 0.3, 1.645, 3.0)])
    rows("dist.normal_quantile", [(p, st.norm.ppf(p)) for p in (1e-300, 1e-10, 0.001, 0.025, 0.3, 0.51, 0.8, 0.975, 0.9995)])
    small = [(0.5, 0.5, 0.3), (2.0, 3.0, 0.4), (10.0, 10.0, 0.5), (0.5, 5.0, 0.01), (50.0, 60.0, 0.4), (0.5, 0.5, 1e-10),
             (30.0, 0.5, 0.9), (100.0, 2.0, 0.8), (3.0, 300.0, 0.05), (10.0, 0.5, 0.999), (1.0, 1.0, 0.2), (0.001, 0.7, 0.5)]
    table = [(*t, mp.betainc(t[0], t[1], 0, mpf(t[2]), regularized=True)) for t in small]
    table += [(*t, special.betainc(*t)) for t in
              [(500.0, 600.0, 0.4), (5000.0, 6000.0, 0.45), (50000.0, 60000.0, 0.4545), (1e6, 1e6, 0.4999), (1e5, 0.5, 0.9999)]]
    rows("dist.beta", table)

    def tail(t, v):
        c = mp.betainc(mpf(v) / 2, mpf(1) / 2, 0, mpf(v) / (mpf(v) + mpf(t) ** 2), regularized=True) / 2
        return c if t > 0 else 1 - c

    table = [(v, t, tail(t, v)) for v, t in
             [(1.0, 0.5), (1.0, 12.7), (2.0, -1.3), (4.0, 2.776), (9.0, 10.0), (29.0, -5.0), (29.0, 2.045), (99.0, 1.98),
              (999.0, 3.3), (4.0, 50.0), (3.7, 2.1)]]
    rows("dist.student", table + [(v, t, st.t.sf(t, v)) for v, t in [(9999.0, 1.96), (1e6, 2.0)]])
    rows("dist.student_quantile", [(v, c, st.t.ppf(0.5 + c / 2, v)) for v, c in
                                   [(1.0, 0.95), (2.0, 0.8), (4.0, 0.95), (9.0, 0.99), (29.0, 0.95), (99.0, 0.95), (9999.0, 0.95), (3.7, 0.9)]])
    rows("dist.beta_quantile", [(x, y, p, st.beta.ppf(p, x, y)) for x, y, p in
                                [(2.0, 3.0, 0.025), (0.5, 0.5, 0.1), (10.0, 1.0, 0.025), (50.0, 60.0, 0.025), (501.0, 601.0, 0.975), (0.5, 20.5, 0.025)]])

    def binomial(k, n, p):
        pmf = lambda i: mp.binomial(n, i) * mpf(p) ** i * (1 - mpf(p)) ** (n - i)
        return pmf(k), mp.fsum(pmf(i) for i in range(k + 1))

    rows("dist.binomial", [(k, n, p, *binomial(k, n, p)) for k, n, p in
                           [(0, 5, 0.3), (3, 10, 0.5), (7, 20, 0.25), (40, 100, 0.5), (400, 1000, 0.5), (5, 2000, 0.001)]])
    hyper = lambda k, m, p, d: mp.binomial(m, k) * mp.binomial(p, d - k) / mp.binomial(m + p, d)
    rows("dist.hypergeometric", [(*t, hyper(*t)) for t in [(2, 10, 12, 7), (0, 3, 9, 4), (50, 100, 100, 90), (480, 1000, 5000, 3000)]])

    def noncentral(t, v, d):
        # The definition, integrated over s = sqrt(chi2 / v).
        density = lambda s: 2 * (mpf(v) / 2) ** (mpf(v) / 2) / mp.gamma(mpf(v) / 2) * s ** (v - 1) * mp.exp(-v * s * s / 2)
        width = 12 / mp.sqrt(2 * v)
        points = [max(mpf(0), 1 - width), 1 - width / 4 if width < 4 else mpf(1) / 2, mpf(1), 1 + width / 4, 1 + width]
        return mp.quad(lambda s: cdf(d - t * s) * density(s), sorted(set(points)) + [1 + 2 * width])

    rows("dist.noncentral", [(t, v, d, noncentral(t, v, d)) for t, v, d in
                             [(2.0, 9.0, 1.5), (2.045, 29.0, 2.7386), (12.7, 1.0, 1.0), (1.98, 99.0, -0.5), (2.776, 4.0, 4.0), (2.5, 499.0, 3.0)]])


@section
def descriptive():
    one("desc.mean", a.mean())
    one("desc.var", a.var(ddof=1))
    one("desc.sd", a.std(ddof=1))
    one("desc.median", np.median(a))
    many("desc.quantiles", np.quantile(a, [0.0, 0.05, 0.25, 0.33, 0.75, 0.95, 1.0]))


@section
def interval():
    import statsmodels.api as sm
    from statsmodels.stats.proportion import proportion_confint
    rows("interval.wilson", [(k, n, c, *proportion_confint(k, n, 1 - c, "wilson")) for k, n, c in
                             [(0, 10, 0.95), (10, 10, 0.95), (7, 20, 0.95), (81, 263, 0.99), (1, 2, 0.5), (3, 10000, 0.9)]])
    one("interval.mean_se", st.sem(a))
    low, high = st.t.interval(0.9, 11, a.mean(), st.sem(a))
    one("interval.mean_low", low)
    one("interval.mean_high", high)
    groups = [3, 3, 3, 1, 1, 7, 7, 7, 7, 2, 2, 5]
    fit = sm.OLS(a, np.ones(12)).fit(cov_type="cluster", cov_kwds={"groups": np.array(groups)}, use_t=True)
    one("interval.cluster_se", fit.bse[0])
    one("interval.cluster_low", fit.conf_int()[0][0])
    one("interval.cluster_high", fit.conf_int()[0][1])


@section
def ttest():
    test = st.ttest_rel(a, b)
    low, high = test.confidence_interval(0.95)
    d = a - b
    for name, value in [("t", test.statistic), ("p", test.pvalue), ("low", low), ("high", high), ("d", d.mean() / d.std(ddof=1)),
                        ("greater", st.ttest_rel(a, b, alternative="greater").pvalue), ("less", st.ttest_rel(a, b, alternative="less").pvalue)]:
        one("ttest.paired_" + name, value)
    test = st.ttest_ind(a, b[:7], equal_var=False)
    low, high = test.confidence_interval(0.9)
    for name, value in [("t", test.statistic), ("df", test.df), ("p", test.pvalue), ("low", low), ("high", high)]:
        one("ttest.welch_" + name, value)


@section
def multiple():
    from statsmodels.stats.multitest import multipletests
    p = [0.01, 0.04, 0.03, 0.005, 0.2, 0.03, 1.0]
    many("multiple.holm", multipletests(p, method="holm")[1])
    many("multiple.bh", multipletests(p, method="fdr_bh")[1])


@section
def exact():
    from statsmodels.stats.contingency_tables import mcnemar
    table = []
    for w, l in [(5, 0), (10, 3), (0, 1), (7, 7), (40, 20), (400, 301)]:
        two = mcnemar([[0, w], [l, 0]], exact=True).pvalue
        table.append((w, l, two, st.binomtest(w, w + l, alternative="greater").pvalue, st.binomtest(w, w + l, alternative="less").pvalue))
    rows("exact.mcnemar", table)
    rows("exact.fisher", [(*t, *(st.fisher_exact([t[:2], t[2:]], alternative=x).pvalue for x in ("two-sided", "greater", "less"))) for t in
                          [(8, 2, 1, 5), (3, 7, 6, 4), (0, 10, 5, 5), (12, 5, 12, 5), (90, 10, 70, 30), (500, 300, 420, 380), (1, 9, 11, 3)]])


@section
def rank_tests():
    untied = [1.5, -0.4, 2.2, 0.9, -1.1, 3.0, 0.2, 1.8, -0.7]
    for key, alternative in (("two", "two-sided"), ("greater", "greater"), ("less", "less")):
        one("wilcoxon.exact_" + key, st.wilcoxon(untied, alternative=alternative, method="exact").pvalue)
    one("wilcoxon.exact_statistic", st.wilcoxon(untied, method="exact").statistic)
    d = np.round((a - b) * 100)

    def enumerate_signs(d, pratt, alternative):
        d = d if pratt else d[d != 0]
        ranks = st.rankdata(np.abs(d))[d != 0]
        d = d[d != 0]
        observed = ranks[d > 0].sum()
        sums = [sum(r for r, s in zip(ranks, signs) if s) for signs in itertools.product([0, 1], repeat=len(d))]
        ge = Fraction(sum(s >= observed - 1e-9 for s in sums), len(sums))
        le = Fraction(sum(s <= observed + 1e-9 for s in sums), len(sums))
        return float(ge if alternative == "greater" else min(1, 2 * min(ge, le)))

    one("wilcoxon.tied_drop", enumerate_signs(d, False, "two-sided"))
    one("wilcoxon.tied_pratt_greater", enumerate_signs(d, True, "greater"))
    long = np.array([((i * 37) % 41 - 17) / 4 for i in range(80)])
    one("wilcoxon.long_drop", st.wilcoxon(long, method="approx").pvalue)
    one("wilcoxon.long_pratt", st.wilcoxon(long, method="approx", zero_method="pratt").pvalue)
    one("wilcoxon.long_greater", st.wilcoxon(long, method="approx", alternative="greater").pvalue)


@section
def permutation():
    # Multiples of 1/100, so that equal sums are equal.
    d = np.round((a - b) * 100).astype(int)
    for key, alternative in (("two", "two-sided"), ("greater", "greater"), ("less", "less")):
        test = st.permutation_test((d,), np.mean, permutation_type="samples", n_resamples=np.inf, alternative=alternative)
        one("permutation." + key, test.pvalue)


@section
def bootstrap():
    skewed = np.array([0.1, 0.2, 0.2, 0.3, 0.4, 0.6, 0.9, 1.7, 3.1])
    run = lambda method: st.bootstrap((skewed,), np.mean, n_resamples=99, confidence_level=0.9, method=method,
                                      rng=np.random.default_rng(20261115))
    percentile, bca = run("percentile"), run("BCa")
    assert (percentile.bootstrap_distribution == bca.bootstrap_distribution).all()
    many("bootstrap.distribution", bca.bootstrap_distribution)
    for name, result in (("percentile", percentile), ("bca", bca)):
        one(f"bootstrap.{name}_low", result.confidence_interval.low)
        one(f"bootstrap.{name}_high", result.confidence_interval.high)


@section
def power():
    from scipy.optimize import brentq
    from statsmodels.stats.power import TTestPower
    t = TTestPower()
    rows("power.paired", [(d, n, alpha, t.power(d, n, alpha, alternative="two-sided"), t.power(d, n, alpha, alternative="larger")) for d, n, alpha in
                          [(0.5, 20, 0.05), (0.2, 100, 0.05), (0.3333333333333333, 73, 0.05), (1.0, 5, 0.05), (0.1, 10, 0.01), (0.8, 15, 0.001)]])
    need = lambda d, p: math.ceil(t.solve_power(d, power=p, alpha=0.05))
    rows("power.pairs", [(d, p, need(d, p)) for d, p in [(0.5, 0.8), (0.3333333333333333, 0.8), (0.6666666666666666, 0.8), (0.2, 0.9), (0.05, 0.8)]])
    rows("power.detectable", [(n, p, brentq(lambda d: t.power(d, n, 0.05) - p, 0.01, 5, xtol=1e-14)) for n, p in [(15, 0.8), (50, 0.8), (280, 0.9)]])

    def mcnemar(win, loss, n, alternative):
        total = 0.0
        for m in range(n + 1):
            weight = st.binom.pmf(m, n, win + loss)
            for w in range(m + 1):
                if m and st.binomtest(w, m, alternative=alternative).pvalue <= 0.05:
                    total += weight * st.binom.pmf(w, m, win / (win + loss))
        return total

    rows("power.mcnemar", [(w, l, n, mcnemar(w, l, n, "two-sided"), mcnemar(w, l, n, "greater")) for w, l, n in
                           [(0.2, 0.05, 50), (0.1, 0.1, 40), (0.3, 0.0, 30)]])


@section
def trend():
    import pymannkendall
    fit = st.linregress(a, b)
    for name, value in [("slope", fit.slope), ("intercept", fit.intercept), ("stderr", fit.stderr), ("p", fit.pvalue), ("r", fit.rvalue),
                        ("slope_low", fit.slope - st.t.ppf(0.975, 10) * fit.stderr)]:
        one("trend." + name, value)
    x = np.arange(12)
    many("trend.ts_a", st.theilslopes(a, x, 0.95))
    many("trend.ts_b", st.theilslopes(b, x, 0.95))

    def kendall_s(v):
        return sum(np.sign(v[j] - v[i]) for i in range(len(v)) for j in range(i + 1, len(v)))

    table = []
    for v in ([5, 3, 4, 1, 2], [1, 2, 3, 4], [9, 7, 8, 6, 5, 3, 4, 2, 1], A):
        s = int(kendall_s(v))
        p = [st.kendalltau(range(len(v)), v, method="exact", alternative=x).pvalue for x in ("two-sided", "greater")]
        table.append(("&[" + ", ".join(literal(float(x)) for x in v) + "][..]", s, *p))
    for v in ([1, 1, 2, 3, 3], [3, 2, 2, 1, 1, 1, 0], [0, 1, 0, 1, 1, 2, 2]):
        s = int(kendall_s(v))
        all_s = [kendall_s(order) for order in itertools.permutations(v)]
        ge = Fraction(sum(x >= s for x in all_s), len(all_s))
        le = Fraction(sum(x <= s for x in all_s), len(all_s))
        table.append(("&[" + ", ".join(literal(float(x)) for x in v) + "][..]", s, float(min(1, 2 * min(ge, le))), float(ge)))
    rows("trend.mk_exact", table)
    long = [(i * 37) % 41 + i // 3 for i in range(80)]
    test = pymannkendall.original_test(long)
    one("trend.mk_s", int(test.s))
    one("trend.mk_var", test.var_s)
    one("trend.mk_p", 2 * st.norm.sf(abs(test.z)))


@section
def rank_correlation():
    import rbo
    x, y = [1, 2, 2, 3, 3, 3, 4, 5, 0], [2, 1, 3, 3, 3, 1, 5, 4, 0]
    one("rank.tau", st.kendalltau(a, b).statistic)
    one("rank.tau_tied", st.kendalltau(x, y).statistic)
    one("rank.rho", st.spearmanr(a, b).statistic)
    one("rank.rho_tied", st.spearmanr(x, y).statistic)

    def bounds(left, right, p):
        short, long = sorted((left, right), key=len)
        s, l = len(short), len(long)
        overlap = lambda d: len(set(short[:d]) & set(long[:d]))
        low = high = mpf(0)
        for d in range(1, 20001):
            weight = (1 - mpf(p)) * mpf(p) ** (d - 1) / d
            seen = overlap(min(d, l))
            low += weight * seen
            high += weight * min(d, seen + max(0, d - s) + max(0, d - l))
            if weight < mpf(10) ** -25:
                break
        return low, high - low

    table = []
    for left, right, p in [("abcdefg", "acbdgfe", 0.9), ("abcd", "bxaydzc", 0.8), ("abc", "xyz", 0.9), ("abcde", "abcde", 0.95), ("fa", "abcdef", 0.98)]:
        low, rest = bounds(left, right, p)
        table.append((f'"{left}"', f'"{right}"', p, low, rest, rbo.RankingSimilarity(list(left), list(right)).rbo_ext(p=p)))
    rows("rank.rbo", table)


@section
def passk():
    table = []
    for n, c, k in [(10, 3, 1), (10, 3, 5), (20, 19, 8), (5, 0, 3), (5, 5, 5), (200, 20, 100), (8, 6, 3)]:
        at = 1 - Fraction(math.comb(n - c, k), math.comb(n, k))
        table.append((n, c, k, float(at), float(Fraction(math.comb(c, k), math.comb(n, k)))))
    rows("passk.rows", table)


@section
def calibration():
    from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score
    tied = np.array([0.8, 0.3, 0.5, 1.0, 0.6, 0.1, 0.8, 0.5, 0.9, 0.3, 0.6, 0.5])
    y = np.array(OUTCOMES)

    def ece(p, bins):
        which = np.clip(np.digitize(p, np.arange(1, bins) / bins, right=True), 0, bins - 1)
        return sum((which == k).mean() * abs(p[which == k].mean() - y[which == k].mean()) for k in range(bins) if (which == k).any())

    one("calibration.brier", brier_score_loss(y, a))
    one("calibration.log_loss", log_loss(y, a))
    one("calibration.auc", roc_auc_score(y, a))
    one("calibration.auc_tied", roc_auc_score(y, tied))
    one("calibration.ece5", ece(a, 5))
    one("calibration.ece10", ece(tied, 10))
    one("calibration.certain", log_loss([1], [0.0], labels=[0, 1]))


@section
def bayes():
    post = st.beta(7.5, 2.5)
    one("bayes.low", post.ppf(0.025))
    one("bayes.high", post.ppf(0.975))
    one("bayes.below", post.cdf(0.6))

    def greater(p, q, r, s):
        # Integrated in logit(x), in segments around the mode, so that sharp peaks are not missed.
        from scipy.integrate import quad
        peak = math.log(p / q)
        width = 1 / math.sqrt(p * q / (p + q))
        f = lambda u: math.exp(p * -np.logaddexp(0, -u) + q * -np.logaddexp(0, u) - special.betaln(p, q)) * special.betainc(r, s, special.expit(u))
        edges = [peak + width * k for k in (-60, -30, -15, -8, -4, -2, 0, 2, 4, 8, 15, 30, 60)]
        return math.fsum(quad(f, lo, hi, epsabs=1e-15, epsrel=1e-14, limit=200)[0] for lo, hi in zip(edges, edges[1:]))

    rows("bayes.greater", [(*t, greater(*t)) for t in [(19.0, 3.0, 13.0, 9.0), (1.0, 1.0, 1.0, 1.0), (0.5, 0.5, 3.5, 1.5), (101.5, 900.5, 81.5, 920.5),
                                                       (5001.0, 5001.0, 4951.0, 5051.0), (2.5, 40.5, 30.5, 1.5)]])


@section
def logistic():
    from sklearn.linear_model import LogisticRegression
    x, y = np.column_stack([a, b]), np.array(OUTCOMES)
    table = []
    for ridge in (1.0, 0.01, 10.0):
        fit = LogisticRegression(C=1 / ridge, solver="newton-cholesky", tol=1e-14, max_iter=1000).fit(x, y)
        table.append((ridge, fit.intercept_[0], *fit.coef_[0]))
    rows("logistic.batch", table)
    table = []
    for retention in (1.0, 0.9):
        theta, cov = np.zeros(3), np.diag([100.0, 1.0, 1.0])
        for row, outcome in zip(x, y):
            v = np.concatenate([[1.0], row])
            p = special.expit(v @ theta)
            # Information form: the precision is discounted, then gains w v v'.
            cov = np.linalg.inv(np.linalg.inv(cov) * retention + p * (1 - p) * np.outer(v, v))
            theta = theta + cov @ v * (outcome - p)
        table.append((retention, *theta))
    rows("logistic.online", table)
    from scipy.optimize import root
    design, prior = np.column_stack([np.ones(12), x]), np.array([0.0, -1.0, 2.0])
    importance = np.array([1, 2, 1, 1, 20, 1, 1, 3, 1, 1, 1, 0.5])
    table = []
    for ridge in (1.0, 0.01, 10.0):
        penalty = np.diag([0.0, ridge, ridge])
        gradient = lambda t: design.T @ (importance * (special.expit(design @ t) - y)) + penalty @ (t - prior)
        table.append((ridge, *root(gradient, np.zeros(3), tol=1e-14).x))
    rows("logistic.towards", table)


@section
def isotonic():
    from sklearn.isotonic import IsotonicRegression
    x, y, w = [0, 1, 2, 2, 3, 4, 5], [0.1, 0.5, 0.2, 0.4, 0.35, 0.9, 0.8], [1, 2, 1, 3, 1, 2, 2]
    fit = IsotonicRegression(out_of_bounds="clip").fit(x, y, sample_weight=w)
    many("isotonic", fit.predict([-1, 0.5, 1.5, 2.5, 3.2, 4.5, 9]))


@section
def richness():
    z = st.norm.ppf(0.975)

    def chao(m, n, s, f1, f2):
        k = (m - 1) / m
        if f2:
            u, r = k * f1**2 / (2 * f2), f1 / f2
            v = f2 * (k / 2 * r**2 + k**2 * r**3 + k**2 / 4 * r**4)
        else:
            u = k * f1 * (f1 - 1) / 2
            v = k * f1 * (f1 - 1) / 2 + k**2 * f1 * (2 * f1 - 1) ** 2 / 4 - k**2 * f1**4 / 4 / (s + u)
        if u:
            c = math.exp(z * math.sqrt(math.log(1 + v / u**2)))
            return s + u, math.sqrt(v), s + u / c, s + u * c
        p = math.exp(-n / s)
        return s, math.sqrt(s * p * (1 - p)), max(s, s / (1 - p) - z * math.sqrt(s * p) / (1 - p)), s / (1 - p) + z * math.sqrt(s * p) / (1 - p)

    for t in [(168, 168, 26, 12, 4), (252, 252, 37, 14, 4), (20, 20, 9, 5, 0), (30, 30, 6, 0, 2), (12, 40, 18, 6, 3)]:
        many(f"richness.chao{t}", chao(*t))
    cover = lambda n, f1, f2: 1 - f1 / n * ((n - 1) * f1 / ((n - 1) * f1 + 2 * f2) if f2 else (n - 1) * (f1 - 1) / ((n - 1) * (f1 - 1) + 2))
    many("richness.coverage", [cover(168, 12, 4), cover(252, 14, 4), cover(20, 5, 0)])
    for counts in ([5, 3, 2, 1, 1], [9, 7, 4, 2, 2, 2, 1, 1, 1, 1, 1]):
        n, f1, f2 = sum(counts), counts.count(1), counts.count(2)
        w = math.sqrt((f1 * (n - f1) + 2 * n * f2) / n**3)
        many(f"richness.esty{counts}", (f1 / n - z * w, f1 / n + z * w))


@section
def sequential():
    d = np.array([A[i % 12] - B[(i * 5) % 12] * 0.6 for i in range(60)])
    x, alpha = (d + 1) / 2, 0.05
    t = np.arange(1, 61)
    mean = (0.5 + np.cumsum(x)) / (t + 1)
    variance = (0.25 + np.cumsum((x - mean) ** 2)) / (t + 1)
    before = np.append(0.25, variance[:-1])
    stake = np.sqrt(2 * np.log(2 / alpha) / (before * t * np.log(1 + t)))

    def wealth(m):
        with np.errstate(divide="ignore"):
            above = np.minimum(stake, 0.5 / m if m > 0 else np.inf)
            below = np.minimum(stake, 0.5 / (1 - m) if m < 1 else np.inf)
        return np.cumsum(np.log(1 + above * (x - m))), np.cumsum(np.log(1 - below * (x - m)))

    above, below = wealth(0.5)
    one("seq.above", above[-1])
    one("seq.below", below[-1])
    one("seq.hedged", max(above[-1], below[-1]) - math.log(2))
    grid = [i / 400 for i in range(401)]
    table = np.array([np.maximum(*wealth(m)) - math.log(2) < math.log(1 / alpha) for m in grid])
    low, high = 0.0, 1.0
    for j in range(60):
        inside = np.where(table[:, j])[0]
        low = max(low, grid[max(inside[0] - 1, 0)])
        high = min(high, grid[min(inside[-1] + 1, 400)])
    one("seq.low", 2 * low - 1)
    one("seq.high", 2 * high - 1)

    def evidence(w, l):
        both = (w + l) * mp.log(2) + mp.log(mp.beta(w + mpf(1) / 2, l + mpf(1) / 2)) - mp.log(mp.pi)
        right = mp.betainc(w + mpf(1) / 2, l + mpf(1) / 2, mpf(1) / 2, 1, regularized=True)
        return both, both + mp.log(2 * right)

    rows("seq.discordant", [(w, l, *evidence(w, l)) for w, l in [(5, 0), (9, 0), (12, 5), (3, 3), (40, 22), (1, 30), (120, 80)]])

    def win_rate(w, l):
        mix = mp.log(mp.beta(w + mpf(1) / 2, l + mpf(1) / 2)) - mp.log(mp.pi) - mp.log(20)
        f = lambda p: mix - (w * mp.log(p) if w else 0) - (l * mp.log(1 - p) if l else 0)
        top = mpf(w) / (w + l)
        low = mp.findroot(f, (mpf(10) ** -9, top), solver="anderson", tol=1e-30) if w else mpf(0)
        high = mp.findroot(f, (top, 1 - mpf(10) ** -9), solver="anderson", tol=1e-30) if l else mpf(1)
        return low, high

    rows("seq.win_rate", [(w, l, *win_rate(w, l)) for w, l in [(5, 3), (9, 0), (40, 22), (120, 80)]])


if __name__ == "__main__":
    for name in sys.argv[1:] or SECTIONS:
        SECTIONS[name]()
