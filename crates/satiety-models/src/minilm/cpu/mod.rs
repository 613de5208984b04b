//! Instruction sets of the processor and the kernels written for them: the only module with `unsafe`.
//!
//! The forward pass is safe code, generic over [`Instructions`] and compiled once for each set, so that the
//! compiler vectorizes what is element-wise. The two matrix products, in float and in integers, are written
//! with intrinsics, because the compiler does not find these instructions reliably. A value of a type that
//! implements [`Instructions`] proves that the processor has the instructions: only detection creates one.
#![expect(
    clippy::inline_always,
    reason = "compiled again for each instruction set, see above"
)]
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod kernels;
#[cfg(target_arch = "aarch64")]
mod neon;
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::fmt;

#[cfg(target_arch = "aarch64")]
use self::neon::NeonDot;
pub(crate) use self::portable::Portable;
use self::portable::PortableFloats;
#[cfg(all(test, target_arch = "x86_64"))]
use self::x86::NarrowVnni;
#[cfg(target_arch = "x86_64")]
use self::x86::{Avx2, Avx512, Avx512Vnni, AvxVnni};
use super::matmul::PANEL;
use super::quantized::{Group, Layout, Level};
use super::weights::GROUP;
use crate::embedder::EmbedError;

/// Environment variable that selects the instruction set, for tests and comparisons.
pub(crate) const VARIABLE: &str = "SATIETY_CPU";

/// Kernels of one instruction set, and the layout of the operands that they read. The kernels of all sets give
/// the same bits: integer sums are exact, and floats are multiplied and added in the same order with the same
/// rounding.
pub(crate) trait Instructions: Copy {
    /// Layout of quantized weights.
    const LAYOUT: Layout;
    /// Rows of an integer tile, at most six. With 32 registers, sums and totals of three rows stay in them.
    const ROWS: usize;
    /// Integer type of a quantized activation.
    type Level: Level;

    /// `a * b + c`, rounded once.
    fn multiply_add(a: f32, b: f32, c: f32) -> f32;

    /// Adds to `starts[row][lane]` the products of a row with the numbers of a lane, in the order of the inputs.
    fn float_tile<const HEIGHT: usize>(
        self,
        tile: FloatTile<'_>,
        starts: [&[f32; PANEL]; HEIGHT],
    ) -> [[f32; PANEL]; HEIGHT];

    /// Adds the products of `HEIGHT` rows and the weights of [`GROUP`] outputs to `starts`.
    fn integer_tile<const HEIGHT: usize>(
        self,
        tile: IntegerTile<'_, Self::Level>,
        starts: [&[f32; GROUP]; HEIGHT],
    ) -> [[f32; GROUP]; HEIGHT];

    /// Exchanges rows and columns.
    fn transpose(self, block: &[[f32; 16]; 16]) -> [[f32; 16]; 16];
}

/// Operands of [`Instructions::float_tile`].
#[derive(Clone, Copy)]
pub(crate) struct FloatTile<'a> {
    /// Row `r` begins at `r * row_stride` and has `depth` numbers.
    pub(crate) rows: &'a [f32],
    pub(crate) row_stride: usize,
    /// The [`PANEL`] numbers of input `i` begin at `i * lane_stride`.
    pub(crate) lanes: &'a [f32],
    pub(crate) lane_stride: usize,
    pub(crate) depth: usize,
}

impl FloatTile<'_> {
    #[inline(always)]
    fn row(&self, row: usize) -> &[f32] {
        &self.rows[row * self.row_stride..][..self.depth]
    }

    #[inline(always)]
    fn lanes(&self, input: usize) -> &[f32] {
        &self.lanes[input * self.lane_stride..][..PANEL]
    }
}

/// Operands of [`Instructions::integer_tile`]. The sum of products of a group is exact. It is multiplied by the
/// scale of the activations, then by the scale of the weights, and added to the total. The same happens with the
/// weight of the outlier and its residual.
#[derive(Clone, Copy)]
pub(crate) struct IntegerTile<'a, L> {
    /// Groups of inputs to multiply.
    pub(crate) depth: usize,
    /// Groups of inputs between the beginnings of two rows, and of two panels.
    pub(crate) row_groups: usize,
    /// Activations, from the first group of the first row.
    pub(crate) levels: &'a [L],
    /// One for each group of activations.
    pub(crate) groups: &'a [Group],
    /// Weights, from the first group of the first panel, see [`Layout`].
    pub(crate) weights: &'a [i8],
    /// One scale for each group and output.
    pub(crate) scales: &'a [f32],
    /// What a group and output starts from, see [`Level::OFFSET`].
    pub(crate) starts: &'a [i32],
}

#[inline(always)]
fn transpose(block: &[[f32; 16]; 16]) -> [[f32; 16]; 16] {
    let mut out = [[0.0; 16]; 16];
    for row in 0..16 {
        for column in 0..16 {
            out[column][row] = block[row][column];
        }
    }
    out
}

/// An instruction set that this processor has.
#[derive(Clone, Copy, Debug)]
pub(crate) enum InstructionSet {
    /// The baseline of the target.
    Portable,
    /// The baseline of the target for weights in floats, see [`PortableFloats`].
    PortableFloats,
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    #[cfg(target_arch = "x86_64")]
    AvxVnni(AvxVnni),
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
    #[cfg(target_arch = "x86_64")]
    Avx512Vnni(Avx512Vnni),
    #[cfg(all(test, target_arch = "x86_64"))]
    NarrowVnni(NarrowVnni),
    #[cfg(target_arch = "aarch64")]
    NeonDot(NeonDot),
}

impl InstructionSet {
    /// Names in `SATIETY_CPU` for all processors.
    const NAMES: [&'static str; 6] = ["portable", "avx2", "avxvnni", "avx512", "vnni", "neon"];

    /// All sets of this processor, the fastest first.
    pub(crate) fn available() -> impl Iterator<Item = Self> {
        #[cfg(target_arch = "x86_64")]
        let sets = [
            Avx512Vnni::detect().map(Self::Avx512Vnni),
            AvxVnni::detect().map(Self::AvxVnni),
            Avx512::detect().map(Self::Avx512),
            Avx2::detect().map(Self::Avx2),
            #[cfg(test)]
            NarrowVnni::detect().map(Self::NarrowVnni),
        ];
        #[cfg(target_arch = "aarch64")]
        let sets = [NeonDot::detect().map(Self::NeonDot)];
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let sets = [];
        sets.into_iter().flatten().chain([Self::Portable])
    }

    /// The set named by the environment variable `SATIETY_CPU`, or else the fastest one.
    pub(crate) fn selected() -> Result<Self, EmbedError> {
        match std::env::var(VARIABLE) {
            Ok(name) if !name.is_empty() => {
                Self::named(&name).map_err(|reason| EmbedError::Instructions { name, reason })
            }
            _ => Ok(Self::available().next().unwrap_or(Self::Portable)),
        }
    }

    fn named(name: &str) -> Result<Self, String> {
        if !Self::NAMES.contains(&name) {
            return Err(format!(
                "unknown name (expected one of: {})",
                Self::NAMES.join(", ")
            ));
        }
        Self::available()
            .find(|set| set.name() == name)
            .ok_or_else(|| "this processor lacks the instructions".to_owned())
    }

    /// Name in `SATIETY_CPU`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Portable | Self::PortableFloats => "portable",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) => "avx2",
            #[cfg(target_arch = "x86_64")]
            Self::AvxVnni(_) => "avxvnni",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(_) => "avx512",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Vnni(_) => "vnni",
            #[cfg(all(test, target_arch = "x86_64"))]
            Self::NarrowVnni(_) => "narrow vnni",
            #[cfg(target_arch = "aarch64")]
            Self::NeonDot(_) => "neon",
        }
    }

    /// Whether integer products are faster than float ones. Without instructions that add several products of
    /// small integers, they are not: five times slower.
    pub(crate) fn prefers_integers(self) -> bool {
        !matches!(self, Self::Portable | Self::PortableFloats)
    }

    /// The set for a model whose weights are floats.
    pub(crate) fn for_floats(self) -> Self {
        match self {
            Self::Portable if cfg!(not(target_arch = "aarch64")) => Self::PortableFloats,
            other => other,
        }
    }

    /// Layout of the weights that the kernels of this set read.
    pub(crate) fn layout(self) -> Layout {
        struct LayoutOf;
        impl Job for LayoutOf {
            type Output = Layout;

            fn run<I: Instructions>(self, _: I) -> Layout {
                I::LAYOUT
            }
        }
        self.run(LayoutOf)
    }

    /// Runs a job that is compiled for these instructions.
    pub(crate) fn run<J: Job>(self, job: J) -> J::Output {
        match self {
            Self::Portable => job.run(Portable),
            Self::PortableFloats => job.run(PortableFloats),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(set) => set.run(job),
            #[cfg(target_arch = "x86_64")]
            Self::AvxVnni(set) => set.run(job),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(set) => set.run(job),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512Vnni(set) => set.run(job),
            #[cfg(all(test, target_arch = "x86_64"))]
            Self::NarrowVnni(set) => set.run(job),
            #[cfg(target_arch = "aarch64")]
            Self::NeonDot(set) => set.run(job),
        }
    }
}

/// A computation that is compiled once for each instruction set. Implementations are `inline(always)`, or else
/// the compiler may forget the instructions of the caller.
pub(crate) trait Job {
    type Output;

    fn run<I: Instructions>(self, instructions: I) -> Self::Output;
}

impl fmt::Display for InstructionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::minilm::matmul::{Lanes, Rows, multiply};
    use crate::minilm::quantized::{QuantizedInputs, QuantizedPanels, multiply_quantized};

    #[test]
    fn sets_are_selected_by_name() {
        assert!(InstructionSet::named("portable").is_ok());
        for set in InstructionSet::available().filter(|set| !set.name().contains(' ')) {
            assert_eq!(InstructionSet::named(set.name()).unwrap().name(), set.name());
        }
        let unknown = InstructionSet::named("sse9").unwrap_err();
        assert!(
            unknown.contains("portable, avx2, avxvnni, avx512, vnni, neon"),
            "{unknown}"
        );
    }

    #[test]
    fn transposing_exchanges_rows_and_columns() {
        struct Transposed<'a>(&'a [[f32; 16]; 16]);
        impl Job for Transposed<'_> {
            type Output = [[f32; 16]; 16];

            fn run<I: Instructions>(self, instructions: I) -> Self::Output {
                instructions.transpose(self.0)
            }
        }
        let number = |row: usize, column: usize| (row * 16 + column) as f32;
        let block = std::array::from_fn(|row| std::array::from_fn(|column| number(row, column)));
        let expected: [[f32; 16]; 16] =
            std::array::from_fn(|row| std::array::from_fn(|column| number(column, row)));
        for set in InstructionSet::available() {
            assert_eq!(set.run(Transposed(&block)), expected, "{set}");
        }
    }

    const INPUTS: usize = 384;
    const OUTPUTS: usize = 64;

    /// The time of a float product and of an integer product with `rows` rows.
    struct Timing(usize);

    impl Job for Timing {
        type Output = [Duration; 2];

        #[inline(always)]
        fn run<I: Instructions>(self, instructions: I) -> [Duration; 2] {
            let values = vec![1.0; self.0 * INPUTS];
            let mut out = vec![0.0; self.0 * OUTPUTS];
            let weights = vec![0.0; INPUTS * OUTPUTS];
            let rows = Rows {
                data: &values,
                stride: INPUTS,
                count: self.0,
            };
            let start = Instant::now();
            multiply(
                instructions,
                rows,
                Lanes::new(&weights, INPUTS, OUTPUTS),
                None,
                &mut out,
                OUTPUTS,
            );
            let floats = start.elapsed();
            let panels = QuantizedPanels::new(INPUTS, OUTPUTS, I::LAYOUT);
            let mut inputs = QuantizedInputs::default();
            inputs.set::<I>(&values);
            let start = Instant::now();
            multiply_quantized(instructions, &inputs, &panels, &[0.0; OUTPUTS], &mut out);
            [floats, start.elapsed()]
        }
    }

    /// A height of tiles that the compiler does not vectorize costs ten times as much as the others. Other
    /// processes can make any measurement slow, but not the shortest of many, so this measures until no
    /// count of rows takes three times as long as a larger one.
    #[test]
    fn no_number_of_rows_is_slower_than_a_larger_one() {
        for set in InstructionSet::available() {
            let mut shortest = vec![[Duration::MAX; 2]; 129];
            let mut outliers: Vec<usize> = (1..=128).collect();
            for _ in 0..200 {
                for rows in outliers.iter().flat_map(|rows| *rows..=(rows + 6).min(128)) {
                    for (shortest, found) in shortest[rows].iter_mut().zip(set.run(Timing(rows))) {
                        *shortest = found.min(*shortest);
                    }
                }
                outliers.retain(|rows| {
                    let larger = &shortest[rows + 1..=(rows + 6).min(128)];
                    (0..2).any(|kind| larger.iter().any(|time| shortest[*rows][kind] > 3 * time[kind]))
                });
            }
            assert!(outliers.is_empty(), "{set}: {outliers:?} of {shortest:?}");
        }
    }
}
