//! Distribution functions used by the tests, in one module so that their accuracy is checked in one place.
//! `libm` supplies `erfc` and `ln Γ`; everything else is implemented here.

use libm::lgamma as ln_gamma;

/// Half of `ln(2π)`.
const HALF_LN_TAU: f64 = 0.9189385332046728;

/// P(Z ≤ z) of the standard normal; accurate in the lower tail.
pub(crate) fn normal_cdf(z: f64) -> f64 {
    0.5 * libm::erfc(-z * std::f64::consts::FRAC_1_SQRT_2)
}

/// P(Z > z) of the standard normal; accurate in the upper tail.
pub(crate) fn normal_sf(z: f64) -> f64 {
    normal_cdf(-z)
}

/// Standard normal quantile of `p` in (0, 1), by Wichura's algorithm AS 241 (PPND16, about 16 digits).
pub(crate) fn normal_quantile(p: f64) -> f64 {
    let q = p - 0.5;
    if q.abs() <= 0.425 {
        let r = 0.180625 - q * q;
        return q * rational(r, &CENTRAL);
    }
    let tail = (-if q < 0.0 { p } else { 1.0 - p }.ln()).sqrt();
    let size = if tail <= 5.0 {
        rational(tail - 1.6, &MIDDLE)
    } else {
        rational(tail - 5.0, &FAR)
    };
    size.copysign(q)
}

/// Coefficients of a numerator and a denominator, highest power first.
type Rational = [[f64; 8]; 2];

fn rational(x: f64, [above, below]: &Rational) -> f64 {
    let horner = |coefficients: &[f64; 8]| coefficients.iter().fold(0.0, |sum, c| sum * x + c);
    horner(above) / horner(below)
}

#[expect(clippy::excessive_precision, reason = "the coefficients as published")]
const CENTRAL: Rational = [
    [
        2.5090809287301226727e+3,
        3.3430575583588128105e+4,
        6.7265770927008700853e+4,
        4.5921953931549871457e+4,
        1.3731693765509461125e+4,
        1.9715909503065514427e+3,
        1.3314166789178437745e+2,
        3.3871328727963666080e+0,
    ],
    [
        5.2264952788528545610e+3,
        2.8729085735721942674e+4,
        3.9307895800092710610e+4,
        2.1213794301586595867e+4,
        5.3941960214247511077e+3,
        6.8718700749205790830e+2,
        4.2313330701600911252e+1,
        1.0,
    ],
];

#[expect(clippy::excessive_precision, reason = "the coefficients as published")]
const MIDDLE: Rational = [
    [
        7.74545014278341407640e-4,
        2.27238449892691845833e-2,
        2.41780725177450611770e-1,
        1.27045825245236838258e+0,
        3.64784832476320460504e+0,
        5.76949722146069140550e+0,
        4.63033784615654529590e+0,
        1.42343711074968357734e+0,
    ],
    [
        1.05075007164441684324e-9,
        5.47593808499534494600e-4,
        1.51986665636164571966e-2,
        1.48103976427480074590e-1,
        6.89767334985100004550e-1,
        1.67638483018380384940e+0,
        2.05319162663775882187e+0,
        1.0,
    ],
];

#[expect(clippy::excessive_precision, reason = "the coefficients as published")]
const FAR: Rational = [
    [
        2.01033439929228813265e-7,
        2.71155556874348757815e-5,
        1.24266094738807843860e-3,
        2.65321895265761230930e-2,
        2.96560571828504891230e-1,
        1.78482653991729133580e+0,
        5.46378491116411436990e+0,
        6.65790464350110377720e+0,
    ],
    [
        2.04426310338993978564e-15,
        1.42151175831644588870e-7,
        1.84631831751005468180e-5,
        7.86869131145613259100e-4,
        1.48753612908506148525e-2,
        1.36929880922735805310e-1,
        5.99832206555887937690e-1,
        1.0,
    ],
];

/// Standard normal quantile for the two-sided `confidence`, such as 1.96 for 0.95.
pub(crate) fn normal_critical(confidence: f64) -> f64 {
    normal_quantile(0.5 + confidence / 2.0)
}

/// P(T > t) of Student's t with `df` degrees of freedom.
pub(crate) fn student_sf(t: f64, df: f64) -> f64 {
    let square = t * t;
    // Both x and 1 - x are passed, so that neither tail loses precision.
    let (x, y) = if square.is_infinite() {
        (0.0, 1.0)
    } else {
        (df / (df + square), square / (df + square))
    };
    let tail = 0.5 * beta_regularized(df / 2.0, 0.5, x, y);
    if t > 0.0 { tail } else { 1.0 - tail }
}

/// Quantile of Student's t for the two-sided `confidence`.
pub(crate) fn student_critical(confidence: f64, df: f64) -> f64 {
    let tail = (1.0 - confidence) / 2.0;
    let mut high = 2.0;
    while student_sf(high, df) > tail {
        high *= 2.0;
    }
    solve_decreasing(|t| student_sf(t, df) - tail, 0.0, high)
}

/// P(X ≤ x) of the beta distribution.
pub(crate) fn beta_cdf(x: f64, a: f64, b: f64) -> f64 {
    beta_regularized(a, b, x, 1.0 - x)
}

/// Quantile of the beta distribution.
pub(crate) fn beta_quantile(p: f64, a: f64, b: f64) -> f64 {
    solve_decreasing(|x| p - beta_cdf(x, a, b), 0.0, 1.0)
}

/// `ln B(a, b)`, from Stirling remainders for large arguments, so that the gammas do not cancel.
pub(crate) fn ln_beta(a: f64, b: f64) -> f64 {
    let (small, large) = (a.min(b), a.max(b));
    if large < 16.0 {
        return ln_gamma(a) + (ln_gamma(b) - ln_gamma(a + b));
    }
    if small < 16.0 {
        // ln Γ(large) − ln Γ(a + b) without subtracting two large numbers.
        return ln_gamma(small) + small - (large - 0.5) * (small / large).ln_1p() - small * (a + b).ln()
            + (stirling_remainder(large) - stirling_remainder(a + b));
    }
    let n = a + b;
    HALF_LN_TAU + stirling_remainder(a) + stirling_remainder(b) - stirling_remainder(n)
        + (a - 0.5) * (a / n).ln()
        + b * (b / n).ln()
        - 0.5 * b.ln()
}

/// Regularized incomplete beta function `I_x(a, b)` with `y = 1 − x`, by the continued fraction of DiDonato
/// and Morris (1992, eq. 9) with Loader's saddle-point form of the leading factor.
pub(crate) fn beta_regularized(a: f64, b: f64, x: f64, y: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if y <= 0.0 {
        return 1.0;
    }
    // The fraction converges fast on the side of the mean where the tail is small.
    if x > a / (a + b) {
        return 1.0 - beta_fraction(b, a, y, x);
    }
    beta_fraction(a, b, x, y)
}

/// `P(K = k)` for K binomial with real-valued `n` and `k`, after Loader (2000, "Fast and accurate computation
/// of binomial probabilities").
pub(crate) fn binomial_density(k: f64, n: f64, p: f64, q: f64) -> f64 {
    if p <= 0.0 {
        return if k <= 0.0 { 1.0 } else { 0.0 };
    }
    if q <= 0.0 {
        return if k >= n { 1.0 } else { 0.0 };
    }
    if k <= 0.0 {
        return if k < 0.0 {
            0.0
        } else {
            (n * ln_complement(p, q)).exp()
        };
    }
    if k >= n {
        return if k > n {
            0.0
        } else {
            (n * ln_complement(q, p)).exp()
        };
    }
    let rest = n - k;
    let ln_core = stirling_remainder(n)
        - stirling_remainder(k)
        - stirling_remainder(rest)
        - deviance(k, n * p)
        - deviance(rest, n * q);
    ln_core.exp() * (n / (std::f64::consts::TAU * k * rest)).sqrt()
}

/// P(K ≤ k) of the binomial distribution.
pub(crate) fn binomial_cdf(k: u64, n: u64, p: f64) -> f64 {
    if k >= n {
        return 1.0;
    }
    beta_regularized((n - k) as f64, k as f64 + 1.0, 1.0 - p, p)
}

/// P(K ≥ k) of the binomial distribution.
pub(crate) fn binomial_sf_inclusive(k: u64, n: u64, p: f64) -> f64 {
    if k == 0 {
        return 1.0;
    }
    if k > n {
        return 0.0;
    }
    beta_regularized(k as f64, (n - k) as f64 + 1.0, p, 1.0 - p)
}

/// P(T > t) for Student's t with `df` degrees of freedom and non-centrality `delta`: the normal tail averaged
/// over the distribution of the standard deviation, by the trapezoidal rule, which converges geometrically
/// because the integrand in `ln s` decays at both ends.
pub(crate) fn noncentral_student_sf(t: f64, df: f64, delta: f64) -> f64 {
    const STEPS: i32 = 600;
    // ln of the density of w = ln(s), s² = χ²/df, up to a constant; the mode is at w = 0.
    let ln_density = |w: f64| df * w - df * (2.0 * w).exp_m1() / 2.0;
    let edge = |sign: f64| {
        let mut reach = 1.0 / df.sqrt();
        while ln_density(sign * reach) > -40.0 {
            reach *= 1.25;
        }
        sign * reach
    };
    let (low, high) = (edge(-1.0), edge(1.0));
    let step = (high - low) / f64::from(STEPS);
    let (mut weighted, mut total) = (0.0, 0.0);
    for i in 0..=STEPS {
        let w = low + step * f64::from(i);
        let density = ln_density(w).exp();
        weighted += density * normal_sf(t * w.exp() - delta);
        total += density;
    }
    weighted / total
}

/// Finds the root of a decreasing function inside a bracket, nearly to the last bit.
pub(crate) fn solve_decreasing(function: impl Fn(f64) -> f64, mut low: f64, mut high: f64) -> f64 {
    // Two thousand bisections reach any f64; the loop ends when the midpoint stops moving.
    for _ in 0..2000 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            break;
        }
        if function(middle) > 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

/// `ln(1 − p)`, where `q = 1 − p` is known, without losing precision at either end.
fn ln_complement(p: f64, q: f64) -> f64 {
    if p < 0.5 { (-p).ln_1p() } else { q.ln() }
}

#[expect(clippy::many_single_char_names, reason = "the names of the formula")]
fn beta_fraction(a: f64, b: f64, x: f64, y: f64) -> f64 {
    const TINY: f64 = 1e-300;
    // x^a y^b / B(a, b) = ab/(a+b) times a binomial probability.
    let n = a + b;
    let front = if a.min(b) > 1.0 {
        a * b / n * binomial_density(a, n, x, y)
    } else {
        (a * ln_complement(y, x) + b * ln_complement(x, y) - ln_beta(a, b)).exp()
    };
    if front == 0.0 {
        return 0.0;
    }
    let lambda = a * y - b * x;
    let away_from_zero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut fraction = away_from_zero(a / (a + 1.0) * (lambda + 1.0));
    let mut c = fraction;
    let mut d = 0.0;
    // About √(a+b) terms are needed.
    let mut m = 1.0;
    while m < 1000.0 + 20.0 * n.sqrt() {
        let denominator = a + 2.0 * m - 1.0;
        let alpha = (a + m - 1.0) / denominator * ((n + m - 1.0) / denominator) * m * (b - m) * x * x;
        let beta = m
            + m * (b - m) * x / denominator
            + (a + m) / (denominator + 2.0) * (lambda + 1.0 + m * (1.0 + y));
        d = 1.0 / away_from_zero(beta + alpha * d);
        c = away_from_zero(beta + alpha / c);
        let delta = c * d;
        fraction *= delta;
        if (delta - 1.0).abs() < 1e-16 {
            break;
        }
        m += 1.0;
    }
    (front / fraction).clamp(0.0, 1.0)
}

/// Error of Stirling's approximation to `ln Γ(n + 1)`.
fn stirling_remainder(n: f64) -> f64 {
    if n < 16.0 {
        return ln_gamma(n + 1.0) - (n + 0.5) * n.ln() + n - HALF_LN_TAU;
    }
    let s = 1.0 / (n * n);
    (1.0 / 12.0 - s * (1.0 / 360.0 - s * (1.0 / 1260.0 - s * (1.0 / 1680.0 - s / 1188.0)))) / n
}

/// Loader's `x ln(x/m) + m − x`, by series for small differences.
fn deviance(x: f64, m: f64) -> f64 {
    let v = (x - m) / (x + m);
    if v.abs() >= 0.1 {
        return x * (x / m).ln() + m - x;
    }
    let mut sum = (x - m) * v;
    let mut term = 2.0 * x * v;
    for j in 1..1000 {
        term *= v * v;
        let next = sum + term / f64::from(2 * j + 1);
        if next == sum {
            break;
        }
        sum = next;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::super::testing::assert_relative;
    use super::*;

    // Oracle: `python perf/peers/stats_oracle.py distribution` (mpmath at 40 digits; scipy where mpmath is slow).
    #[test]
    fn normal_tails() {
        for (z, expected) in [
            (-37.0, 5.725571222524577e-300),
            (-20.0, 2.7536241186062337e-89),
            (-8.0, 6.220960574271784e-16),
            (-5.0, 2.866515718791939e-07),
            (-3.0, 0.0013498980316300946),
            (-1.96, 0.024997895148220435),
            (-1.0, 0.15865525393145705),
            (-0.1, 0.460172162722971),
            (0.0, 0.5),
            (0.3, 0.6179114221889527),
            (1.645, 0.9500150944608786),
            (3.0, 0.9986501019683699),
        ] {
            assert_relative(normal_cdf(z), expected, 1e-13);
            assert_relative(normal_sf(-z), expected, 1e-13);
        }
    }

    #[test]
    fn normal_quantiles() {
        for (p, expected) in [
            (1e-300, -37.0470962993612),
            (1e-10, -6.361340902404056),
            (0.001, -3.090232306167813),
            (0.025, -1.9599639845400545),
            (0.3, -0.5244005127080409),
            (0.51, 0.02506890825871106),
            (0.8, 0.8416212335729143),
            (0.975, 1.959963984540054),
            (0.9995, 3.2905267314919255),
        ] {
            assert_relative(normal_quantile(p), expected, 1e-14);
        }
    }

    #[test]
    fn incomplete_beta() {
        for (a, b, x, expected) in [
            (0.5, 0.5, 0.3, 0.36901011956554536),
            (2.0, 3.0, 0.4, 0.5248),
            (10.0, 10.0, 0.5, 0.5),
            (0.5, 5.0, 0.01, 0.2428418908984375),
            (50.0, 60.0, 0.4, 0.12470685834310036),
            (0.5, 0.5, 1e-10, 6.366197723781917e-06),
            (30.0, 0.5, 0.9, 0.01228244849985276),
            (100.0, 2.0, 0.8, 4.277775550302444e-09),
            (3.0, 300.0, 0.05, 0.9999732545281056),
            (10.0, 0.5, 0.999, 0.8888967091248603),
            (1.0, 1.0, 0.2, 0.2),
            (0.001, 0.7, 0.5, 0.9988487170872968),
            (500.0, 600.0, 0.4, 0.0001230547605840213),
            (5000.0, 6000.0, 0.45, 0.169188400131846),
            (50000.0, 60000.0, 0.4545, 0.48799639841966747),
            (1000000.0, 1000000.0, 0.4999, 0.38864871786231014),
            (100000.0, 0.5, 0.9999, 7.74036967094646e-06),
        ] {
            assert_relative(beta_cdf(x, a, b), expected, 2e-12);
        }
    }

    // At a million degrees of freedom the crate's own function is off by 4e-10 in the tail.
    #[test]
    fn student_tails() {
        for (df, t, expected) in [
            (1.0, 0.5, 0.35241638234956674),
            (1.0, 12.7, 0.02501216384467208),
            (2.0, -1.3, 0.8383764840919798),
            (4.0, 2.776, 0.025011389159988205),
            (9.0, 10.0, 1.7891187159623679e-06),
            (29.0, -5.0, 0.9999873168421323),
            (29.0, 2.045, 0.025012037961205838),
            (99.0, 1.98, 0.025239737987326157),
            (999.0, 3.3, 0.0005005156315279575),
            (4.0, 50.0, 4.78722682848485e-07),
            (3.7, 2.1, 0.054632352541112365),
            (9999.0, 1.96, 0.0250117615026051),
            (1000000.0, 2.0, 0.02275026692565962),
        ] {
            assert_relative(student_sf(t, df), expected, 1e-12);
        }
    }

    #[test]
    fn student_quantiles() {
        for (df, confidence, expected) in [
            (1.0, 0.95, 12.706204736174694),
            (2.0, 0.8, 1.8856180831641272),
            (4.0, 0.95, 2.7764451051977934),
            (9.0, 0.99, 3.249835541592126),
            (29.0, 0.95, 2.045229642132703),
            (99.0, 0.95, 1.9842169515864174),
            (9999.0, 0.95, 1.960201263621357),
            (3.7, 0.9, 2.1824938039146007),
        ] {
            assert_relative(student_critical(confidence, df), expected, 1e-12);
        }
    }

    #[test]
    fn beta_quantiles() {
        for (a, b, p, expected) in [
            (2.0, 3.0, 0.025, 0.06758598648854294),
            (0.5, 0.5, 0.1, 0.024471741852423214),
            (10.0, 1.0, 0.025, 0.6915028921812392),
            (50.0, 60.0, 0.025, 0.36288116766539236),
            (501.0, 601.0, 0.975, 0.48408586635321227),
            (0.5, 20.5, 0.025, 2.4246478459242733e-05),
        ] {
            assert_relative(beta_quantile(p, a, b), expected, 1e-12);
        }
    }

    #[test]
    fn binomial() {
        for (k, n, p, density, below) in [
            (0, 5, 0.3, 0.16807000000000002, 0.16807000000000002),
            (3, 10, 0.5, 0.1171875, 0.171875),
            (7, 20, 0.25, 0.11240619547606912, 0.8981881430772773),
            (40, 100, 0.5, 0.010843866711637987, 0.028443966820490395),
            (400, 1000, 0.5, 4.633908074049734e-11, 1.3642320780330092e-10),
            (5, 2000, 0.001, 0.036053268282431834, 0.9834905195801381),
        ] {
            assert_relative(binomial_density(k as f64, n as f64, p, 1.0 - p), density, 1e-12);
            assert_relative(binomial_cdf(k, n, p), below, 1e-12);
            assert_relative(binomial_sf_inclusive(k, n, p), 1.0 - below + density, 1e-10);
        }
    }

    #[test]
    fn noncentral_student_tails() {
        for (t, df, delta, expected) in [
            (2.0, 9.0, 1.5, 0.34412408600145034),
            (2.045, 29.0, 2.7386, 0.7540296938317824),
            (12.7, 1.0, 1.0, 0.06779586400288702),
            (1.98, 99.0, -0.5, 0.007121354125866205),
            (2.776, 4.0, 4.0, 0.8433838301047132),
            (2.5, 499.0, 3.0, 0.6913542619797747),
        ] {
            assert_relative(noncentral_student_sf(t, df, delta), expected, 1e-10);
        }
    }

    #[test]
    fn edges_are_exact() {
        assert_eq!(beta_cdf(0.0, 2.0, 3.0), 0.0);
        assert_eq!(beta_cdf(1.0, 2.0, 3.0), 1.0);
        assert_eq!(student_sf(f64::INFINITY, 3.0), 0.0);
        assert_eq!(student_sf(0.0, 3.0), 0.5);
        assert_eq!(binomial_cdf(5, 5, 0.3), 1.0);
        assert_eq!(binomial_sf_inclusive(6, 5, 0.3), 0.0);
        assert_eq!(binomial_density(0.0, 5.0, 0.0, 1.0), 1.0);
    }
}
