//! Persisted index: the image of an index in a file, so that a process does not read and split every text
//! again when it starts.
//!
//! A file is never trusted. It is used only if layout, text analysis and model are those of this program, if
//! the store still has the change that the file ends with, under the same random token, and if every checksum
//! is right. In every other case the index is loaded from the store and the file is replaced. Writing is best
//! effort: an error is reported in the health of the memory and nowhere else.

use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use satiety::memory::{ImageError, MemoryIndex};
use satiety_store::StoreUrl;
use serde::{Deserialize, Serialize};

/// First bytes of every file.
const MAGIC: &[u8; 16] = b"satiety-memory-1";
/// Maximum bytes of a frame that is read: far above any that is written.
const MAX_FRAME_BYTES: u32 = 1 << 30;
const BUFFER_BYTES: usize = 1 << 20;

/// What a file was made from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileKey {
    /// [`MemoryIndex::image_fingerprint`] of the program that wrote it.
    pub(super) fingerprint: u64,
    pub(super) embedder: String,
    pub(super) dimension: usize,
    /// Number of the last change that the index contains.
    pub(super) change: i64,
    /// Number and token of the latest logged change up to it.
    pub(super) mark: (i64, i64),
}

/// Reason why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum FileError {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("damaged file")]
    Damaged,
    #[error(transparent)]
    Image(#[from] ImageError),
}

/// Path of the file for the vectors of a model. `None` without a place for it.
pub(super) fn path(store: &StoreUrl, cache: Option<&Path>, embedder: &str) -> Option<PathBuf> {
    cache_path(store, cache, &format!("index-{}", short_hash(embedder)))
}

/// Path of a file that is derived from a store: next to a SQLite file, otherwise in the cache directory. `None`
/// without one.
pub(crate) fn cache_path(store: &StoreUrl, cache: Option<&Path>, suffix: &str) -> Option<PathBuf> {
    match store {
        StoreUrl::Sqlite(path) => {
            let mut name = path.file_name()?.to_owned();
            name.push(format!(".{suffix}"));
            Some(path.with_file_name(name))
        }
        #[cfg(feature = "postgres")]
        StoreUrl::Postgres { .. } => {
            Some(cache?.join(format!("memory-{}.{suffix}", short_hash(&store.to_string()))))
        }
    }
}

fn short_hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..12].to_owned()
}

/// A file whose key was read and whose frames were not.
pub(super) struct IndexFile<R> {
    pub(super) key: FileKey,
    input: R,
    /// Checksum of all frames so far, so that frames of different files do not mix.
    chain: [u8; 32],
}

/// Opens a file and reads its key; `None` if there is no file.
pub(super) fn open(path: &Path) -> Result<Option<IndexFile<BufReader<fs_err::File>>>, FileError> {
    let file = match fs_err::File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    IndexFile::read(BufReader::with_capacity(BUFFER_BYTES, file)).map(Some)
}

impl<R: Read> IndexFile<R> {
    fn read(mut input: R) -> Result<Self, FileError> {
        let mut magic = [0; MAGIC.len()];
        input.read_exact(&mut magic)?;
        if magic != *MAGIC {
            return Err(FileError::Damaged);
        }
        let mut chain = *blake3::hash(MAGIC).as_bytes();
        let key = read_frame(&mut input, &mut chain)?;
        let key = serde_json::from_slice(&key).map_err(|_| FileError::Damaged)?;
        Ok(Self { key, input, chain })
    }

    /// Reads the index.
    pub(super) fn index(mut self) -> Result<MemoryIndex, FileError> {
        let (input, chain) = (&mut self.input, &mut self.chain);
        let index = MemoryIndex::read_image(&mut || read_frame(input, chain))?;
        // An empty frame ends the file.
        let end = read_frame(&mut self.input, &mut self.chain)?;
        let complete = end.is_empty() && self.input.read(&mut [0])? == 0;
        let same = index.embedder() == self.key.embedder && index.dimension() == self.key.dimension;
        if complete && same {
            Ok(index)
        } else {
            Err(FileError::Damaged)
        }
    }
}

fn read_frame(input: &mut impl Read, chain: &mut [u8; 32]) -> Result<Vec<u8>, FileError> {
    let mut length = [0; 4];
    input.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length > MAX_FRAME_BYTES {
        return Err(FileError::Damaged);
    }
    let mut checksum = [0; 32];
    input.read_exact(&mut checksum)?;
    let mut frame = Vec::new();
    // Not allocated by the stored length, which may be wrong.
    input.take(length.into()).read_to_end(&mut frame)?;
    *chain = next_chain(chain, &frame);
    if frame.len() as u64 == u64::from(length) && *chain == checksum {
        Ok(frame)
    } else {
        Err(FileError::Damaged)
    }
}

fn next_chain(chain: &[u8; 32], frame: &[u8]) -> [u8; 32] {
    *blake3::keyed_hash(chain, frame).as_bytes()
}

/// Writes the file of an index.
pub(super) fn write(path: &Path, key: &FileKey, index: &MemoryIndex) -> Result<(), FileError> {
    write_private_file(path, |out| write_to(out, key, index))
}

/// Writes a file under a temporary name, readable by its owner only, and renames it: readers see the old or the new
/// file, also if several processes write.
pub(crate) fn write_private_file<E: From<std::io::Error>>(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&mut std::fs::File>) -> Result<(), E>,
) -> Result<(), E> {
    let folder = path.parent().unwrap_or(Path::new("."));
    create_private_directory(folder)?;
    let prefix = path.file_name().unwrap_or_default();
    // Removed on any error; its permissions are those of its owner alone.
    let mut file = tempfile::Builder::new()
        .prefix(prefix)
        .suffix(".tmp")
        .tempfile_in(folder)?;
    {
        let mut out = BufWriter::with_capacity(BUFFER_BYTES, file.as_file_mut());
        write(&mut out)?;
        out.flush()?;
    }
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

fn write_to(out: &mut impl Write, key: &FileKey, index: &MemoryIndex) -> Result<(), FileError> {
    out.write_all(MAGIC)?;
    let mut chain = *blake3::hash(MAGIC).as_bytes();
    let mut frame = |bytes: &[u8]| -> Result<(), FileError> {
        let length = u32::try_from(bytes.len())
            .ok()
            .filter(|length| *length <= MAX_FRAME_BYTES);
        out.write_all(&length.ok_or(FileError::Damaged)?.to_le_bytes())?;
        chain = next_chain(&chain, bytes);
        out.write_all(&chain)?;
        Ok(out.write_all(bytes)?)
    };
    let key = serde_json::to_vec(key).map_err(|_| FileError::Damaged)?;
    frame(&key)?;
    index.write_image(&mut frame)?;
    frame(&[])
}

/// Creates a directory that only its owner can read; an existing one stays as it is.
fn create_private_directory(folder: &Path) -> std::io::Result<()> {
    if folder.as_os_str().is_empty() || folder.is_dir() {
        return Ok(());
    }
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use satiety::memory::{IndexedChunk, IndexedMemory};
    use satiety::retrieval::Tier;

    fn index(memories: usize) -> MemoryIndex {
        let mut index = MemoryIndex::new("m", 2);
        for number in 0..memories {
            let id = format!("mem-{number}");
            index.put(IndexedMemory {
                id: id.clone(),
                title: format!("title {number}"),
                tier: Tier::Normal,
                kind: "note".into(),
                confidence: 0.5,
                expires_at: None,
                bytes: 20,
                folder: String::new(),
                project: None,
                phrases: Vec::new(),
                provenance: satiety::memory::Provenance::default(),
            });
            let body = format!("word{} of many", number % 13);
            let doc = i64::try_from(number).unwrap();
            let chunk = IndexedChunk {
                doc,
                title: &id,
                phrases: "",
                body: &body,
                vector: Some(("m", "/38BgA")),
            };
            index.set_chunks(&id, &[chunk]);
        }
        index
    }

    fn key(change: i64) -> FileKey {
        FileKey {
            fingerprint: MemoryIndex::image_fingerprint(),
            embedder: "m".into(),
            dimension: 2,
            change,
            mark: (change, 77),
        }
    }

    #[test]
    fn a_file_round_trips_and_only_its_owner_can_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/er/index");
        assert!(open(&path).unwrap().is_none());
        write(&path, &key(3), &index(50)).unwrap();
        let file = open(&path).unwrap().unwrap();
        assert_eq!(file.key, key(3));
        assert_eq!(file.index().unwrap().len(), 50);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |path: &Path| fs_err::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        }
    }

    /// Every truncation and every changed byte is detected.
    #[test]
    fn damage_is_detected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index");
        write(&path, &key(3), &index(20)).unwrap();
        let bytes = fs_err::read(&path).unwrap();
        let read = |bytes: &[u8]| IndexFile::read(bytes).and_then(IndexFile::index);
        assert!(read(&bytes).is_ok());
        for length in 0..bytes.len() {
            assert!(read(&bytes[..length]).is_err(), "truncated to {length} bytes");
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            assert!(read(&changed).is_err(), "bit of byte {at}");
        }
        assert!(read(&[&bytes[..], b"x"].concat()).is_err(), "longer");
        // The second half of another complete file.
        write(&path, &key(4), &index(20)).unwrap();
        let other = fs_err::read(&path).unwrap();
        assert_eq!(other.len(), bytes.len());
        let half = bytes.len() / 2;
        assert!(read(&[&bytes[..half], &other[half..]].concat()).is_err(), "mixed");
    }

    #[test]
    fn processes_that_write_at_once_leave_one_complete_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index");
        std::thread::scope(|scope| {
            for writer in 1..5_usize {
                let path = &path;
                scope.spawn(move || {
                    for _ in 0..10 {
                        let change = i64::try_from(writer).unwrap();
                        write(path, &key(change), &index(writer * 10)).unwrap();
                        let file = open(path).unwrap().unwrap();
                        let expected = usize::try_from(file.key.change).unwrap() * 10;
                        assert_eq!(file.index().unwrap().len(), expected);
                    }
                });
            }
        });
        assert_eq!(
            fs_err::read_dir(folder.path()).unwrap().count(),
            1,
            "no temporary file is left"
        );
    }

    /// A sink that is full after some bytes, like a disk.
    struct Full(usize);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            let taken = bytes.len().min(self.0);
            self.0 -= taken;
            if taken == 0 {
                Err(std::io::ErrorKind::StorageFull.into())
            } else {
                Ok(taken)
            }
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_and_a_missing_directory_are_errors_and_leave_nothing() {
        for room in [0, 10, 100, 1000] {
            let error = write_to(&mut Full(room), &key(1), &index(30)).unwrap_err();
            assert!(matches!(error, FileError::Io(_)), "{error}");
        }
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs_err::write(&file, "x").unwrap();
        assert!(write(&file.join("index"), &key(1), &index(3)).is_err());
        assert!(matches!(open(&file), Err(FileError::Io(_) | FileError::Damaged)));
    }
}
