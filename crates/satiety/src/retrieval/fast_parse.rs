//! SIMD within a register, eight bytes at a time: field ends, decimal digits, and a hash for short ids.

/// The high bit of every byte.
pub(super) const HIGH: u64 = 0x8080_8080_8080_8080;
/// The other bits of every byte.
pub(super) const LOW: u64 = !HIGH;

/// The eight bytes at a position, padded with line ends after the end of `bytes`.
#[inline]
pub(super) fn word(bytes: &[u8], at: usize) -> u64 {
    match bytes.get(at..).and_then(<[u8]>::first_chunk) {
        Some(chunk) => u64::from_le_bytes(*chunk),
        None => last_word(bytes, at),
    }
}

#[cold]
fn last_word(bytes: &[u8], at: usize) -> u64 {
    let mut chunk = [b'\n'; 8];
    for (to, from) in chunk.iter_mut().zip(bytes.get(at..).unwrap_or_default()) {
        *to = *from;
    }
    u64::from_le_bytes(chunk)
}

/// Positions of all bytes up to the space character, where fields end, and of the end itself. Finding them
/// all at once avoids a data dependency between fields.
#[derive(Debug, Default)]
pub(super) struct Ends {
    positions: Vec<u32>,
}

impl Ends {
    /// Finds the field ends of `bytes`, which must be shorter than 2^32.
    pub(super) fn find(&mut self, bytes: &[u8]) -> &[u32] {
        // Extra capacity for the unconditional writes below.
        if self.positions.len() < bytes.len() + 66 {
            self.positions.resize(bytes.len() + 66, 0);
        }
        let mut count = 0;
        let mut base = 0_u32;
        for chunk in bytes.chunks(64) {
            let mut small = small_bytes(chunk);
            let end = count + small.count_ones() as usize;
            // Most chunks have fewer than twelve ends. Writing twelve unconditionally avoids mispredicted
            // branches.
            let slots = &mut self.positions[count..count + 64];
            for slot in &mut slots[..12] {
                *slot = base + small.trailing_zeros();
                small &= small.wrapping_sub(1);
            }
            for slot in &mut slots[12..] {
                if small == 0 {
                    break;
                }
                *slot = base + small.trailing_zeros();
                small &= small.wrapping_sub(1);
            }
            count = end;
            base += 64;
        }
        #[expect(clippy::cast_possible_truncation, reason = "fewer than 2^32")]
        let length = bytes.len() as u32;
        self.positions[count] = length;
        &self.positions[..=count]
    }
}

/// A bit for each byte of up to 64 that is at most a space.
#[inline]
fn small_bytes(chunk: &[u8]) -> u64 {
    let Some(chunk) = chunk.first_chunk::<64>() else {
        return (0_u64..)
            .zip(chunk)
            .fold(0, |bits, (at, &byte)| bits | u64::from(byte <= b' ') << at);
    };
    let (words, _) = chunk.as_chunks::<8>();
    words.iter().enumerate().fold(0, |bits, (at, word)| {
        let word = u64::from_le_bytes(*word);
        // For bytes above the space, the high bit is already set or set by the addition.
        let small = !(((word & LOW) + 0x5f5f_5f5f_5f5f_5f5f) | word) & HIGH;
        // The product gathers the eight high bits in the last byte.
        bits | ((small >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * at)
    })
}

/// The first `count` bytes of a word; the others are zero.
#[inline]
pub(super) fn first(word: u64, count: usize) -> u64 {
    if count >= 8 {
        word
    } else {
        word & ((1 << (8 * count)) - 1)
    }
}

/// Parses one to eight digits at the beginning of a word.
#[inline]
pub(super) fn digits(word: u64, count: usize) -> Option<u64> {
    if count == 0 || count > 8 {
        return None;
    }
    // Shift in leading zeros, so that the last digit is in the last byte.
    let digits = (word ^ 0x3030_3030_3030_3030) << (8 * (8 - count));
    (is_digits(digits)).then(|| parse_eight_digits(digits))
}

/// Whether every byte is from 0 to 9.
#[inline]
pub(super) fn is_digits(digits: u64) -> bool {
    (((digits & LOW) + 0x7676_7676_7676_7676) | digits) & HIGH == 0
}

/// Converts eight digit bytes, the most significant first, to a number by combining pairs, then fours, then
/// all.
#[inline]
pub(super) fn parse_eight_digits(digits: u64) -> u64 {
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    let outer = (pairs & 0x0000_00ff_0000_00ff).wrapping_mul(0x000f_4240_0000_0064);
    let inner = ((pairs >> 16) & 0x0000_00ff_0000_00ff).wrapping_mul(0x0000_2710_0000_0001);
    outer.wrapping_add(inner) >> 32
}

/// Hash of an id.
#[inline]
pub(super) fn hash(id: &[u8]) -> u32 {
    let mut words = id.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    let (head, next) = (words.next().unwrap_or(0), words.next().unwrap_or(0));
    words.fold(hash_short(head, next, id.len()), |hash, word| {
        mix(
            u64::from(hash) ^ 0x2d35_8dcc_aa6c_78a5,
            word ^ 0x8bb8_4b93_962e_acc9,
        )
    })
}

/// The same hash for an id of up to sixteen bytes, as two zero-padded words.
#[inline]
pub(super) fn hash_short(head: u64, next: u64, length: usize) -> u32 {
    mix(
        head ^ 0xa076_1d64_78bd_642f,
        next ^ 0xe703_7ed1_a0b4_28db ^ length as u64,
    )
}

/// Folds a 128-bit product twice, so that every input bit affects every output bit. Otherwise ids that differ
/// only in their last letters would collide.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "folded")]
fn mix(a: u64, b: u64) -> u32 {
    let product = u128::from(a) * u128::from(b);
    let folded = (product >> 64) as u64 ^ product as u64;
    (folded ^ (folded >> 32)) as u32
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ids_that_differ_in_their_last_letters_spread() {
        let mut seen = vec![0_u16; 1 << 16];
        for number in 0..1 << 15 {
            seen[(hash(format!("d{number:07}").as_bytes()) & 0xffff) as usize] += 1;
        }
        // A perfect hash of half as many keys as slots leaves e^-0.5 = 60.7 % of them empty.
        let empty = seen.iter().filter(|&&count| count == 0).count();
        assert!((38_500..41_000).contains(&empty), "{empty}");
        assert!(seen.iter().all(|&count| count < 9));
    }

    proptest! {
        #[test]
        fn fields_end_at_every_small_byte(bytes in proptest::collection::vec(any::<u8>(), 0..300), dense in any::<bool>()) {
            let bytes: Vec<u8> = bytes.iter().map(|byte| if dense { byte % 40 } else { *byte }).collect();
            let expected: Vec<u32> = (0_u32..)
                .zip(&bytes)
                .filter(|(_, byte)| **byte <= b' ')
                .map(|(at, _)| at)
                .chain([u32::try_from(bytes.len()).unwrap()])
                .collect();
            let mut ends = Ends::default();
            prop_assert_eq!(ends.find(&bytes), expected);
        }

        #[test]
        fn digits_agree_with_the_standard_library(text in "[0-9]{1,8}", after in "[ -~]{0,8}") {
            let bytes = [text.as_bytes(), after.as_bytes()].concat();
            prop_assert_eq!(digits(word(&bytes, 0), text.len()), text.parse().ok());
        }

        #[test]
        fn other_bytes_are_none(text in "[0-9]{0,3}[^0-9]{1,2}[0-9]{0,3}") {
            let bytes = text.as_bytes();
            prop_assume!(bytes.len() <= 8);
            prop_assert_eq!(digits(word(bytes, 0), bytes.len()), None);
        }

        #[test]
        fn both_hashes_agree(id in "[a-z0-9]{0,16}") {
            let bytes = id.as_bytes();
            let part = |at: usize| first(word(bytes, at.min(bytes.len())), bytes.len().saturating_sub(at));
            prop_assert_eq!(hash(bytes), hash_short(part(0), part(8), bytes.len()));
        }
    }
}
