//! The two matrix products, written once over the vector operations that an instruction set provides.
//!
//! A module of float operations has `LANES`, `Floats`, `zero`, `load`, `store`, `multiply_add`, `add_scaled`
//! and `transpose`; a module of integer operations has `Level`, `STEP`, `zero`, `start`,
//! `no_weights`, `weights`, `broadcast`, `dot` and `one_at`. All of them are compiled for at most the features of the set.

/// Defines an instruction set: its proof of detection, the two tiles and the entry to code that is compiled
/// for it.
macro_rules! define_set {
    (
        $(#[$doc:meta])*
        $name:ident, $features:literal, $detect:ident, [$($feature:tt),*], $floats:ident, $integers:ident, $vectors:literal, $rows:literal
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct $name(());

        impl $name {
            /// The proof that the processor has the instructions.
            pub(super) fn detect() -> Option<Self> {
                ($(std::arch::$detect!($feature))&&*).then_some(Self(()))
            }

            pub(super) fn run<J: $crate::minilm::cpu::Job>(self, job: J) -> J::Output {
                #[target_feature(enable = $features)]
                fn compiled<J: $crate::minilm::cpu::Job>(set: $name, job: J) -> J::Output {
                    job.run(set)
                }
                // SAFETY: `self` exists, so all features were detected.
                unsafe { compiled(self, job) }
            }
        }

        impl $crate::minilm::cpu::Instructions for $name {
            const LAYOUT: $crate::minilm::quantized::Layout = $crate::minilm::quantized::Layout {
                outputs: $vectors * $floats::LANES,
                step: $integers::STEP,
            };
            const ROWS: usize = $rows;
            type Level = $integers::Level;

            #[inline(always)]
            fn multiply_add(a: f32, b: f32, c: f32) -> f32 {
                a.mul_add(b, c)
            }

            #[inline]
            fn float_tile<const HEIGHT: usize>(
                self,
                tile: $crate::minilm::cpu::FloatTile<'_>,
                starts: [&[f32; $crate::minilm::matmul::PANEL]; HEIGHT],
            ) -> [[f32; $crate::minilm::matmul::PANEL]; HEIGHT] {
                #[inline]
                #[target_feature(enable = $features)]
                fn compiled<const HEIGHT: usize>(
                    tile: $crate::minilm::cpu::FloatTile<'_>,
                    starts: [&[f32; $crate::minilm::matmul::PANEL]; HEIGHT],
                ) -> [[f32; $crate::minilm::matmul::PANEL]; HEIGHT] {
                    const LANES: usize = $floats::LANES;
                    const VECTORS: usize = $crate::minilm::matmul::PANEL / LANES;
                    let mut sums: [[$floats::Floats; VECTORS]; HEIGHT] = [[$floats::zero(); VECTORS]; HEIGHT];
                    // Loops instead of closures, which would be calls.
                    let mut rows: [&[f32]; HEIGHT] = [&[]; HEIGHT];
                    for row in 0..HEIGHT {
                        let (starts, _) = starts[row].as_chunks::<LANES>();
                        for vector in 0..VECTORS {
                            sums[row][vector] = $floats::load(&starts[vector]);
                        }
                        rows[row] = tile.row(row);
                    }
                    for input in 0..tile.depth {
                        let (lanes, _) = tile.lanes(input).as_chunks::<LANES>();
                        for vector in 0..VECTORS {
                            let lanes = $floats::load(&lanes[vector]);
                            for row in 0..HEIGHT {
                                sums[row][vector] = $floats::multiply_add(rows[row][input], lanes, sums[row][vector]);
                            }
                        }
                    }
                    let mut out = [[0.0; $crate::minilm::matmul::PANEL]; HEIGHT];
                    for row in 0..HEIGHT {
                        let (out, _) = out[row].as_chunks_mut::<LANES>();
                        for vector in 0..VECTORS {
                            $floats::store(sums[row][vector], &mut out[vector]);
                        }
                    }
                    out
                }
                // SAFETY: `self` exists, so all features were detected.
                unsafe { compiled(tile, starts) }
            }

            #[inline]
            fn integer_tile<const HEIGHT: usize>(
                self,
                tile: $crate::minilm::cpu::IntegerTile<'_, Self::Level>,
                starts: [&[f32; $crate::minilm::weights::GROUP]; HEIGHT],
            ) -> [[f32; $crate::minilm::weights::GROUP]; HEIGHT] {
                #[target_feature(enable = $features)]
                fn compiled<const HEIGHT: usize>(
                    tile: $crate::minilm::cpu::IntegerTile<'_, $integers::Level>,
                    totals: [&[f32; $crate::minilm::weights::GROUP]; HEIGHT],
                ) -> [[f32; $crate::minilm::weights::GROUP]; HEIGHT] {
                    const LANES: usize = $floats::LANES;
                    const STEP: usize = $integers::STEP;
                    const GROUP: usize = $crate::minilm::weights::GROUP;
                    const PANELS: usize = GROUP / ($vectors * LANES);
                    let (levels, _) = tile.levels.as_chunks::<GROUP>();
                    let (weights, _) = tile.weights.as_chunks::<{ LANES * STEP }>();
                    let (weights, _) = weights.as_chunks::<$vectors>();
                    let (weights, _) = weights.as_chunks::<{ GROUP / STEP }>();
                    let (scales, _) = tile.scales.as_chunks::<LANES>();
                    let (scales, _) = scales.as_chunks::<$vectors>();
                    let (starts, _) = tile.starts.as_chunks::<LANES>();
                    let (starts, _) = starts.as_chunks::<$vectors>();
                    let mut out = [[0.0; GROUP]; HEIGHT];
                    for panel in 0..PANELS {
                        let mut held = [[$floats::zero(); $vectors]; HEIGHT];
                        for row in 0..HEIGHT {
                            let (totals, _) = totals[row].as_chunks::<LANES>();
                            for vector in 0..$vectors {
                                held[row][vector] = $floats::load(&totals[panel * $vectors + vector]);
                            }
                        }
                        for group in 0..tile.depth {
                            let place = panel * tile.row_groups + group;
                            let (weights, scales, starts) = (&weights[place], &scales[place], &starts[place]);
                            let mut inputs = [&levels[0]; HEIGHT];
                            let mut factors = [0.0; HEIGHT];
                            for row in 0..HEIGHT {
                                inputs[row] = &levels[row * tile.row_groups + group];
                                factors[row] = tile.groups[row * tile.row_groups + group].scale;
                            }
                            let mut sums = [[$integers::zero(); $vectors]; HEIGHT];
                            for row in 0..HEIGHT {
                                for vector in 0..$vectors {
                                    sums[row][vector] = $integers::start(&starts[vector]);
                                }
                            }
                            // Unrolled for few rows, the compiler would copy all weights to the stack.
                            let steps = std::hint::black_box(GROUP / STEP);
                            for (step, weights) in weights.iter().take(steps).enumerate() {
                                let mut loaded = [$integers::no_weights(); $vectors];
                                for vector in 0..$vectors {
                                    loaded[vector] = $integers::weights(&weights[vector]);
                                }
                                for row in 0..HEIGHT {
                                    let (inputs, _) = inputs[row].as_chunks::<STEP>();
                                    let levels = $integers::broadcast(inputs[step]);
                                    for vector in 0..$vectors {
                                        sums[row][vector] = $integers::dot(sums[row][vector], levels, loaded[vector]);
                                    }
                                }
                            }
                            for row in 0..HEIGHT {
                                for vector in 0..$vectors {
                                    held[row][vector] = $floats::add_scaled(held[row][vector], sums[row][vector], factors[row], &scales[vector]);
                                }
                            }
                            // A loop of its own: the one above must be unrolled to keep the sums in registers.
                            for row in 0..HEIGHT {
                                let row_group = &tile.groups[row * tile.row_groups + group];
                                if row_group.residual != 0.0 {
                                    let weights = &weights[row_group.outlier / STEP];
                                    let one = $integers::one_at(row_group.outlier % STEP);
                                    for vector in 0..$vectors {
                                        let weights = $integers::weights(&weights[vector]);
                                        let weights = $integers::dot($integers::zero(), one, weights);
                                        held[row][vector] = $floats::add_scaled(held[row][vector], weights, row_group.residual, &scales[vector]);
                                    }
                                }
                            }
                        }
                        for row in 0..HEIGHT {
                            let (out, _) = out[row].as_chunks_mut::<LANES>();
                            for vector in 0..$vectors {
                                $floats::store(held[row][vector], &mut out[panel * $vectors + vector]);
                            }
                        }
                    }
                    out
                }
                // SAFETY: `self` exists, so all features were detected.
                unsafe { compiled(tile, starts) }
            }

            #[inline]
            fn transpose(self, block: &[[f32; 16]; 16]) -> [[f32; 16]; 16] {
                // SAFETY: `self` exists, so all features were detected.
                unsafe { $floats::transpose(block) }
            }
        }
    };
}

pub(super) use define_set;
