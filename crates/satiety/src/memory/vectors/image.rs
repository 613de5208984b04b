//! Image of a [`VectorIndex`]; see [`crate::memory::image`].

use std::sync::Arc;

use crate::memory::ImageError;
use crate::memory::image::{Pack, Reader, Sink, Source, read_list, read_value, write_list, write_value};

use super::{BLOCK, Block, Slots, VectorIndex};

impl VectorIndex {
    pub(in crate::memory) fn write_image<E>(&self, sink: Sink<'_, E>) -> Result<(), E> {
        write_value(&self.dimension, sink)?;
        write_list(self.slots.iter().flat_map(|slots| &slots.steps), sink)?;
        write_list(self.slots.iter().flat_map(|slots| &slots.owners), sink)?;
        let mut frame = Vec::new();
        for block in &self.blocks {
            frame.clear();
            frame.extend(block.coarse.iter().map(|value| value.cast_unsigned()));
            frame.extend(block.fine.iter().flat_map(|value| value.to_le_bytes()));
            sink(&frame)?;
        }
        Ok(())
    }

    pub(in crate::memory) fn read_image<E: From<ImageError>>(source: Source<'_, E>) -> Result<Self, E> {
        let mut index = Self::new(read_value(source)?);
        let (mut steps, mut owners) = (Vec::<f32>::new(), Vec::<Option<u32>>::new());
        read_list(source, |step| steps.push(step))?;
        read_list(source, |owner| owners.push(owner))?;
        if steps.len() != owners.len() || (index.dimension == 0 && !owners.is_empty()) {
            return Err(ImageError.into());
        }
        index.len = owners.len();
        index.gone = owners.iter().filter(|owner| owner.is_none()).count();
        for (steps, owners) in steps.chunks(BLOCK).zip(owners.chunks(BLOCK)) {
            let block = read_block(&source()?, owners.len(), index.dimension).ok_or(ImageError)?;
            index.blocks.push(Arc::new(block));
            index.slots.push(Arc::new(Slots {
                steps: steps.to_vec(),
                owners: owners.to_vec(),
            }));
        }
        Ok(index)
    }
}

fn read_block(frame: &[u8], vectors: usize, dimension: usize) -> Option<Block> {
    let components = vectors.checked_mul(dimension)?;
    let mut input = Reader::new(frame);
    let block = Block {
        coarse: i8::unpack_many(&mut input, components)?,
        fine: i16::unpack_many(&mut input, components)?,
    };
    input.is_empty().then_some(block)
}
