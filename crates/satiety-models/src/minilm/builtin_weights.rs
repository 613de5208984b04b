//! Where the weights of the built-in model come from: out of the program itself or, with the cargo feature
//! `external-weights`, from a file below the same prefix. A package that installs several programs thus has the
//! 23 MB once.

use crate::embedder::EmbedError;

#[cfg(feature = "external-weights")]
pub use self::external::search_near;
#[cfg(feature = "external-weights")]
pub(super) use self::external::weights;

static VOCABULARY: &str = include_str!("../../assets/vocab.txt");
/// BLAKE3 of weights and vocabulary; stored because hashing 23 MB at every start would be noticeable.
static HASH: &str = include_str!("../../assets/minilm-l6-v2-int8.blake3");

#[cfg(not(feature = "external-weights"))]
#[expect(clippy::unnecessary_wraps, reason = "weights in a file may be missing")]
pub(super) fn weights() -> Result<&'static [u8], EmbedError> {
    Ok(include_bytes!("../../assets/minilm-l6-v2-int8.weights"))
}

pub(super) fn vocabulary() -> &'static str {
    VOCABULARY
}

/// Expected hash of weights and vocabulary.
pub(super) fn hash() -> Result<blake3::Hash, EmbedError> {
    blake3::Hash::from_hex(HASH.trim()).map_err(|error| EmbedError::BadFile {
        file: "built-in hash".to_owned(),
        reason: error.to_string(),
    })
}

/// Whether these weights and the vocabulary have the expected hash.
pub(super) fn is_intact(weights: &[u8]) -> bool {
    let found = blake3::Hasher::new()
        .update(weights)
        .update(VOCABULARY.as_bytes())
        .finalize();
    hash().is_ok_and(|hash| hash == found)
}

#[cfg(feature = "external-weights")]
mod external {
    use std::path::{Path, PathBuf};
    use std::sync::OnceLock;

    use super::is_intact;
    use crate::embedder::EmbedError;

    /// Path of the file below a prefix such as `/usr` or the directory of a virtual environment.
    const FILE: &str = "share/satiety/minilm-l6-v2-int8.weights";

    static START: OnceLock<PathBuf> = OnceLock::new();

    /// Searches the file in the ancestors of this path instead of those of the running program. The first
    /// call counts, and only before the model is loaded.
    pub fn search_near(path: PathBuf) {
        START.get_or_init(|| path);
    }

    pub(in super::super) fn weights() -> Result<&'static [u8], EmbedError> {
        static WEIGHTS: OnceLock<Vec<u8>> = OnceLock::new();
        if let Some(weights) = WEIGHTS.get() {
            return Ok(weights);
        }
        let start = match START.get() {
            Some(start) => Ok(start.clone()),
            None => std::env::current_exe().and_then(fs_err::canonicalize),
        };
        let weights = read(&start.map_err(EmbedError::Read)?)?;
        Ok(WEIGHTS.get_or_init(|| weights))
    }

    fn read(start: &Path) -> Result<Vec<u8>, EmbedError> {
        let mut candidates = start.ancestors().skip(1).map(|prefix| prefix.join(FILE));
        let path = candidates
            .find(|path| path.is_file())
            .ok_or_else(|| EmbedError::NotFound {
                what: format!("{FILE} near {}", start.display()),
                hint: "install the package again".to_owned(),
            })?;
        let weights = fs_err::read(&path).map_err(EmbedError::Read)?;
        if is_intact(&weights) {
            return Ok(weights);
        }
        Err(EmbedError::BadFile {
            file: path.display().to_string(),
            reason: "not the weights of this version; install the package again".to_owned(),
        })
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn the_file_is_found_below_the_prefix_and_checked() {
            let prefix = tempfile::tempdir().unwrap();
            let program = prefix.path().join("bin/satiety");
            assert!(matches!(read(&program), Err(EmbedError::NotFound { .. })));
            let file = prefix.path().join(FILE);
            fs_err::create_dir_all(file.parent().unwrap()).unwrap();
            let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
            fs_err::copy(assets.join("minilm-l6-v2-int8.weights"), &file).unwrap();
            let module = prefix.path().join("lib/python3.12/site-packages/satiety");
            assert_eq!(read(&program).unwrap(), read(&module).unwrap());
            fs_err::write(&file, "other").unwrap();
            assert!(matches!(read(&program), Err(EmbedError::BadFile { .. })));
        }
    }
}
