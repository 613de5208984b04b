//! Dot products of 8-bit vectors, with SIMD instructions if the CPU supports them. The only module of the
//! memory with `unsafe`. Both implementations return identical integers.

/// Appends the dot products of `query` with each row of `rows`; rows have the length of `query`.
pub(super) fn products(rows: &[i8], query: &[i8], out: &mut Vec<i32>) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        #[expect(
            unsafe_code,
            reason = "a function compiled for optional instructions is unsafe to call"
        )]
        // SAFETY: the CPU feature was detected just above.
        return unsafe { products_avx2(rows, query, out) };
    }
    products_plain(rows, query, out);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn products_avx2(rows: &[i8], query: &[i8], out: &mut Vec<i32>) {
    products_plain(rows, query, out);
}

#[inline(always)]
#[expect(
    clippy::inline_always,
    reason = "compiled into the function above, it uses the instructions allowed there"
)]
fn products_plain(rows: &[i8], query: &[i8], out: &mut Vec<i32>) {
    out.clear();
    for row in rows.chunks_exact(query.len().max(1)) {
        let mut sum = 0_i32;
        for (a, b) in row.iter().zip(query) {
            sum += i32::from(*a) * i32::from(*b);
        }
        out.push(sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn both_implementations_agree(rows in proptest::collection::vec(any::<i8>(), 0..600), length in 1usize..70) {
            let query: Vec<i8> = rows.iter().rev().copied().cycle().take(if rows.is_empty() { 0 } else { length }).collect();
            let (mut one, mut other) = (Vec::new(), Vec::new());
            products(&rows, &query, &mut one);
            products_plain(&rows, &query, &mut other);
            prop_assert_eq!(&one, &other);
            prop_assert_eq!(one.len(), rows.len() / query.len().max(1));
        }
    }
}
