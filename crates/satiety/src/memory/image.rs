//! Binary image of an index, so that a process can start without reading and splitting all texts again.
//!
//! An image is a sequence of frames. The caller stores them and must return them unchanged, with checksums of
//! its own. Reading still checks every number that is used as a position, so that no image can make a search
//! fail. The layout has no version of its own: [`super::MemoryIndex::image_fingerprint`] changes with it.

/// The frames are not a valid image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the image of the index is damaged")]
pub struct ImageError;

/// Receives the frames of an image in order.
pub(crate) type Sink<'a, E> = &'a mut dyn FnMut(&[u8]) -> Result<(), E>;
/// Returns the frames of an image in order.
pub(crate) type Source<'a, E> = &'a mut dyn FnMut() -> Result<Vec<u8>, E>;

/// Size at which a frame is complete, in bytes. A single larger value makes a larger frame.
const FRAME_BYTES: usize = 1 << 20;

/// A value with a binary form.
pub(crate) trait Pack: Sized {
    fn pack(&self, out: &mut Vec<u8>);
    /// `None` if the bytes are not a value of this type.
    fn unpack(input: &mut Reader<'_>) -> Option<Self>;

    /// Reads this many values; types of fixed size read them at once.
    fn unpack_many(input: &mut Reader<'_>, count: usize) -> Option<Vec<Self>> {
        let mut values = Vec::new();
        for _ in 0..count {
            values.push(Self::unpack(input)?);
        }
        Some(values)
    }
}

/// Remaining bytes of a frame.
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

macro_rules! pack_numbers {
    ($($type:ty),+) => {
        $(impl Pack for $type {
            fn pack(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn unpack(input: &mut Reader<'_>) -> Option<Self> {
                let bytes = input.take(size_of::<Self>())?;
                Some(Self::from_le_bytes(bytes.try_into().ok()?))
            }

            fn unpack_many(input: &mut Reader<'_>, count: usize) -> Option<Vec<Self>> {
                let bytes = input.take(count.checked_mul(size_of::<Self>())?)?;
                let (values, _) = bytes.as_chunks::<{ size_of::<Self>() }>();
                Some(values.iter().map(|value| Self::from_le_bytes(*value)).collect())
            }
        })+
    };
}
pack_numbers!(i8, i16, u8, u16, u32, u64, i64, f32, f64);

impl Pack for usize {
    fn pack(&self, out: &mut Vec<u8>) {
        (*self as u64).pack(out);
    }

    fn unpack(input: &mut Reader<'_>) -> Option<Self> {
        u64::unpack(input)?.try_into().ok()
    }
}

impl Pack for bool {
    fn pack(&self, out: &mut Vec<u8>) {
        u8::from(*self).pack(out);
    }

    fn unpack(input: &mut Reader<'_>) -> Option<Self> {
        match u8::unpack(input)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl Pack for String {
    fn pack(&self, out: &mut Vec<u8>) {
        pack_str(self, out);
    }

    fn unpack(input: &mut Reader<'_>) -> Option<Self> {
        let length = u32::unpack(input)? as usize;
        Self::from_utf8(input.take(length)?.to_vec()).ok()
    }
}

impl Pack for Box<str> {
    fn pack(&self, out: &mut Vec<u8>) {
        pack_str(self, out);
    }

    fn unpack(input: &mut Reader<'_>) -> Option<Self> {
        Some(String::unpack(input)?.into())
    }
}

fn pack_str(text: &str, out: &mut Vec<u8>) {
    // A text has at most a few megabytes.
    u32::try_from(text.len()).unwrap_or(u32::MAX).pack(out);
    out.extend_from_slice(text.as_bytes());
}

impl<T: Pack> Pack for Option<T> {
    fn pack(&self, out: &mut Vec<u8>) {
        self.is_some().pack(out);
        if let Some(value) = self {
            value.pack(out);
        }
    }

    fn unpack(input: &mut Reader<'_>) -> Option<Self> {
        Some(if bool::unpack(input)? {
            Some(T::unpack(input)?)
        } else {
            None
        })
    }
}

impl<T: Pack> Pack for Vec<T> {
    fn pack(&self, out: &mut Vec<u8>) {
        self.len().pack(out);
        for value in self {
            value.pack(out);
        }
    }

    fn unpack(input: &mut Reader<'_>) -> Option<Self> {
        let count = usize::unpack(input)?;
        T::unpack_many(input, count)
    }
}

impl Pack for crate::retrieval::Tier {
    fn pack(&self, out: &mut Vec<u8>) {
        self.name().to_owned().pack(out);
    }

    fn unpack(input: &mut Reader<'_>) -> Option<Self> {
        super::parse_tier(&String::unpack(input)?).ok()
    }
}

/// Implements [`Pack`] for a struct, field by field. The list must name every field.
macro_rules! pack_struct {
    ($type:ident { $($field:ident),+ $(,)? }) => {
        impl $crate::memory::image::Pack for $type {
            fn pack(&self, out: &mut Vec<u8>) {
                let Self { $($field),+ } = self;
                $($field.pack(out);)+
            }

            fn unpack(input: &mut $crate::memory::image::Reader<'_>) -> Option<Self> {
                Some(Self { $($field: $crate::memory::image::Pack::unpack(input)?),+ })
            }
        }
    };
}
pub(crate) use pack_struct;

/// Writes one value as a frame.
pub(crate) fn write_value<T: Pack, E>(value: &T, sink: Sink<'_, E>) -> Result<(), E> {
    let mut out = Vec::new();
    value.pack(&mut out);
    sink(&out)
}

/// Reads a frame that contains exactly one value.
pub(crate) fn read_value<T: Pack, E: From<ImageError>>(source: Source<'_, E>) -> Result<T, E> {
    let frame = source()?;
    let mut input = Reader::new(&frame);
    let value = T::unpack(&mut input).filter(|_| input.is_empty());
    value.ok_or_else(|| ImageError.into())
}

/// Writes values in frames of about [`FRAME_BYTES`], each with the number of its values; an empty one ends
/// the list.
pub(crate) fn write_list<'t, T: Pack + 't, E>(
    values: impl IntoIterator<Item = &'t T>,
    sink: Sink<'_, E>,
) -> Result<(), E> {
    let mut frame = vec![0; 4];
    let mut count = 0_u32;
    for value in values {
        value.pack(&mut frame);
        count += 1;
        if frame.len() >= FRAME_BYTES {
            flush(&mut frame, &mut count, sink)?;
        }
    }
    if count > 0 {
        flush(&mut frame, &mut count, sink)?;
    }
    flush(&mut frame, &mut count, sink)
}

fn flush<E>(frame: &mut Vec<u8>, count: &mut u32, sink: Sink<'_, E>) -> Result<(), E> {
    if let Some(head) = frame.first_chunk_mut() {
        *head = count.to_le_bytes();
    }
    sink(frame)?;
    frame.truncate(4);
    *count = 0;
    Ok(())
}

/// Reads what [`write_list`] wrote and passes on each value.
pub(crate) fn read_list<T: Pack, E: From<ImageError>>(
    source: Source<'_, E>,
    mut each: impl FnMut(T),
) -> Result<(), E> {
    loop {
        let frame = source()?;
        let mut input = Reader::new(&frame);
        let count = u32::unpack(&mut input).ok_or(ImageError)?;
        if count == 0 {
            return Ok(());
        }
        for _ in 0..count {
            each(T::unpack(&mut input).ok_or(ImageError)?);
        }
        if !input.is_empty() {
            return Err(ImageError.into());
        }
    }
}
