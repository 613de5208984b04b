//! Inter-rater agreement beyond chance.

/// Measurement level, which defines the distance between two values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgreementLevel {
    /// Equal or different, such as pass and fail.
    Nominal,
    /// Number of values ranked between the two, such as grades.
    Ordinal,
    /// Squared difference, such as scores.
    Interval,
}

/// Krippendorff's (2011) alpha, for any number of raters and with missing answers: 1 is perfect agreement, 0
/// is chance level, and negative values are systematic disagreement. Each unit holds the raters' values for
/// it; units with fewer than two values, or with a value that is not finite, are skipped. Returns `None` when
/// no unit is left or all values are the same, because agreement is undefined without variation.
pub(crate) fn krippendorff_alpha(units: &[Vec<f64>], level: AgreementLevel) -> Option<f64> {
    let usable = |unit: &&Vec<f64>| unit.len() >= 2 && unit.iter().all(|value| value.is_finite());
    let usable: Vec<&Vec<f64>> = units.iter().filter(usable).collect();
    let mut sorted: Vec<f64> = usable.iter().flat_map(|unit| unit.iter().copied()).collect();
    sorted.sort_by(f64::total_cmp);
    if sorted.first() == sorted.last() {
        return None;
    }
    let n = sorted.len() as f64;
    // Replace each value by the middle of its ranks, so that the ordinal distance is that of an interval
    // scale.
    let scaled = |value: f64| match level {
        AgreementLevel::Nominal | AgreementLevel::Interval => value,
        AgreementLevel::Ordinal => {
            let below = sorted.partition_point(|other| *other < value);
            let up_to = sorted.partition_point(|other| *other <= value);
            (below + up_to) as f64 / 2.0
        }
    };
    // Sum of distances over ordered pairs in one pass: Σ (a − b)² is 2 n Σ (a − mean)².
    let distances = |values: &[f64]| -> f64 {
        let n = values.len() as f64;
        if level == AgreementLevel::Nominal {
            let groups = values.chunk_by(|a, b| a == b);
            return n * n - groups.map(|group| (group.len() as f64).powi(2)).sum::<f64>();
        }
        let mean = values.iter().sum::<f64>() / n.max(1.0);
        2.0 * n * values.iter().map(|value| (value - mean).powi(2)).sum::<f64>()
    };
    let within = |unit: &&Vec<f64>| {
        let mut values: Vec<f64> = unit.iter().map(|value| scaled(*value)).collect();
        values.sort_by(f64::total_cmp);
        distances(&values) / (values.len() as f64 - 1.0)
    };
    let observed = usable.iter().map(within).sum::<f64>() / n;
    let all: Vec<f64> = sorted.iter().map(|value| scaled(*value)).collect();
    let expected = distances(&all) / (n * (n - 1.0));
    Some(1.0 - observed / expected)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::testing::assert_close;
    use AgreementLevel::{Interval, Nominal, Ordinal};

    // krippendorff 0.9.0: `[alpha(reliability_data=rows, level_of_measurement=level) for level in ("nominal", "ordinal",
    // "interval")]`, with a row for each rater and `nan` for a point. The first is the example of Krippendorff (2011),
    // section C, who has .743, .815 and .849.
    #[test]
    fn alpha_matches_the_python_package() {
        let cases: [(&[&str], [f64; 3]); 3] = [
            (
                &[
                    "1 2 3 3 2 1 4 1 2 . . .",
                    "1 2 3 3 2 2 4 1 2 5 . 3",
                    ". 3 3 3 2 3 4 2 2 5 1 .",
                    "1 2 3 3 2 4 4 1 2 5 1 .",
                ],
                [0.743421052631579, 0.8153875037548814, 0.8491071428571428],
            ),
            (
                &[".25 .5 1 0 .75 . .9", ".3 .5 .9 .1 .2 .4 .9", ". .6 1 0 .7 .4 .1"],
                [0.28220858895705525, 0.5933268183721905, 0.5764705882352941],
            ),
            (
                &["0 1 2 3 3 2 1 0 0 2 3 1 1 0 2", "0 1 2 3 2 2 0 0 1 3 3 1 2 0 2"],
                [0.5671641791044777, 0.8669682539682539, 0.8633364750235627],
            ),
        ];
        for (rows, expected) in cases {
            let rows: Vec<Vec<Option<f64>>> = rows
                .iter()
                .map(|row| row.split(' ').map(|value| value.parse().ok()).collect())
                .collect();
            let units: Vec<Vec<f64>> = (0..rows[0].len())
                .map(|unit| rows.iter().filter_map(|row| row[unit]).collect())
                .collect();
            for (level, expected) in [Nominal, Ordinal, Interval].into_iter().zip(expected) {
                assert_close(krippendorff_alpha(&units, level).unwrap(), expected, 1e-12);
            }
        }
    }

    #[test]
    fn the_ends_of_the_scale() {
        for level in [Nominal, Ordinal, Interval] {
            let alpha = |units: &[[f64; 2]]| {
                let units: Vec<Vec<f64>> = units.iter().map(|unit| unit.to_vec()).collect();
                krippendorff_alpha(&units, level)
            };
            assert_eq!(alpha(&[[0.0, 0.0], [1.0, 1.0]]), Some(1.0));
            assert!(alpha(&[[0.0, 1.0], [1.0, 0.0]]).unwrap() < 0.0);
            assert_eq!(alpha(&[[0.1, 0.1], [0.1, 0.1]]), None);
            assert_eq!(alpha(&[]), None);
            assert_eq!(krippendorff_alpha(&[vec![1.0], vec![0.0, f64::NAN]], level), None);
        }
    }
}
