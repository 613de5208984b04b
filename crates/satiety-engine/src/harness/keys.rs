//! Keys of people who may approve: the public ones in the repository's `satiety.toml`, a private one in a file that a
//! passphrase protects. Nothing here comes from the environment or from a flag, so that no agent can bring its own.

use std::path::{Path, PathBuf};

use argon2::{Algorithm, Argon2, Params, Version};
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use ed25519_dalek::{Signer, SigningKey};
use satiety::harness::approval::{from_hex, to_hex};
use satiety::harness::{Approval, KeyRing, Statement};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::HarnessError;
use super::directory::shown;
use crate::EngineError;

/// The repository's settings.
const SETTINGS: &str = "satiety.toml";
/// The shortest passphrase: what protects a key must take longer to guess than the key takes to steal.
const SHORTEST: usize = 8;
/// 64 MiB and three passes: a good part of a second for whoever types it once.
const MEMORY_KIB: u32 = 64 * 1024;
const PASSES: u32 = 3;

/// Whose signature counts for the harness in a folder: the nearest `satiety.toml` at or above it.
pub(super) fn ring_of(folder: &Path) -> Result<(Option<PathBuf>, KeyRing), EngineError> {
    ring_within(folder, None)
}

/// The same, where the search ends at a directory: what lies above the top of a repository is not part of it.
pub(super) fn ring_within(
    folder: &Path,
    top: Option<&Path>,
) -> Result<(Option<PathBuf>, KeyRing), EngineError> {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct File {
        harness: KeyRingFields,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct KeyRingFields {
        approvers: Vec<satiety::harness::ApproverKey>,
        agent_keys: Vec<String>,
    }
    let start = std::path::absolute(folder).map_err(|cause| EngineError::file("find", folder, cause))?;
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    let top = top.map(real);
    let mut above = false;
    let Some(path) = start
        .ancestors()
        .take_while(|folder| {
            let inside = !above;
            above = top.as_ref().is_some_and(|top| real(folder) == *top);
            inside
        })
        .map(|folder| folder.join(SETTINGS))
        .find(|path| path.is_file())
    else {
        return Ok((None, KeyRing::default()));
    };
    let text = fs_err::read_to_string(&path).map_err(|cause| EngineError::file("read", &path, cause))?;
    let file: File = toml::from_str(&text).map_err(|error| HarnessError::BadFile {
        file: shown(&path),
        reason: error.message().to_owned(),
    })?;
    let ring = KeyRing {
        approvers: file.harness.approvers,
        agent_keys: file.harness.agent_keys,
    };
    Ok((Some(path), ring))
}

/// A private key under a passphrase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyFile {
    /// The form of this value: 1.
    pub format: u32,
    /// Whose it is.
    pub name: String,
    /// Ed25519, 64 hexadecimal digits.
    pub public_key: String,
    /// How the passphrase becomes a key: Argon2id.
    pub memory_kib: u32,
    /// Its passes.
    pub passes: u32,
    /// Its salt.
    pub salt: String,
    /// The nonce of XChaCha20-Poly1305.
    pub nonce: String,
    /// The private key, sealed.
    pub sealed: String,
}

impl KeyFile {
    /// A new key.
    pub fn generate(name: &str, passphrase: &str) -> Result<Self, EngineError> {
        if name.trim().is_empty() {
            return Err(HarnessError::Key("a key needs the name of a person".into()).into());
        }
        if passphrase.chars().count() < SHORTEST {
            return Err(HarnessError::Key(format!("a passphrase has at least {SHORTEST} characters")).into());
        }
        let mut secret = Zeroizing::new([0; 32]);
        let (mut salt, mut nonce) = ([0; 16], [0; 24]);
        for bytes in [&mut secret[..], &mut salt[..], &mut nonce[..]] {
            getrandom::fill(bytes)
                .map_err(|error| HarnessError::Key(format!("no randomness to be had: {error}")))?;
        }
        let public = SigningKey::from_bytes(&secret).verifying_key().to_bytes();
        let mut file = Self {
            format: 1,
            name: name.trim().to_owned(),
            public_key: to_hex(&public),
            memory_kib: MEMORY_KIB,
            passes: PASSES,
            salt: to_hex(&salt),
            nonce: to_hex(&nonce),
            sealed: String::new(),
        };
        let sealed = file
            .cipher(passphrase, &salt)?
            .encrypt(
                &XNonce::from(nonce),
                Payload {
                    msg: &secret[..],
                    aad: file.described().as_bytes(),
                },
            )
            .map_err(|_| HarnessError::Key("the key could not be sealed".into()))?;
        file.sealed = to_hex(&sealed);
        Ok(file)
    }

    /// Reads a key file.
    pub fn read(path: &Path) -> Result<Self, EngineError> {
        let text = fs_err::read_to_string(path).map_err(|cause| EngineError::file("read", path, cause))?;
        let file: Self = serde_json::from_str(&text).map_err(|error| HarnessError::BadFile {
            file: shown(path),
            reason: format!("{error}; a key is what `satiety harness keygen` writes"),
        })?;
        // A file from elsewhere must not be able to ask for all memory.
        if file.format != 1 || file.memory_kib > 1 << 20 || file.passes > 64 {
            return Err(HarnessError::BadFile {
                file: shown(path),
                reason: "not a key of this form".into(),
            }
            .into());
        }
        Ok(file)
    }

    /// Writes it where nobody else can read it; a file that is there stays.
    pub fn write(&self, path: &Path) -> Result<(), EngineError> {
        use std::io::Write as _;
        let failed = |cause: std::io::Error| EngineError::file("write", path, cause);
        if let Some(folder) = path.parent() {
            fs_err::create_dir_all(folder).map_err(failed)?;
        }
        let mut options = fs_err::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        {
            use fs_err::os::unix::fs::OpenOptionsExt as _;
            options.mode(0o600);
        }
        let mut file = options.open(path).map_err(|cause| {
            if cause.kind() == std::io::ErrorKind::AlreadyExists {
                return HarnessError::Key(format!(
                    "{} is there already; a key is never written over",
                    path.display()
                ))
                .into();
            }
            failed(cause)
        })?;
        let text = serde_json::to_string_pretty(self)?;
        file.write_all(text.as_bytes())
            .and_then(|()| file.write_all(b"\n"))
            .and_then(|()| file.sync_all())
            .map_err(failed)
    }

    /// Signs an approval; what opens the key is the passphrase and nothing else.
    pub fn approve(&self, statement: Statement, passphrase: &str) -> Result<Approval, EngineError> {
        let key = self.open(passphrase)?;
        let signature = key.sign(&statement.signed_bytes());
        Ok(Approval {
            statement,
            signature: to_hex(&signature.to_bytes()),
        })
    }

    /// Signs bytes that begin with what they are about: a set of keys, a transition.
    pub fn sign_bytes(&self, bytes: &[u8], passphrase: &str) -> Result<String, EngineError> {
        Ok(to_hex(&self.open(passphrase)?.sign(bytes).to_bytes()))
    }

    fn open(&self, passphrase: &str) -> Result<SigningKey, EngineError> {
        let wrong = || {
            EngineError::from(HarnessError::Key(
                "the passphrase does not open this key, or the file was changed".into(),
            ))
        };
        let (salt, nonce): ([u8; 16], [u8; 24]) = (
            from_hex(&self.salt).ok_or_else(wrong)?,
            from_hex(&self.nonce).ok_or_else(wrong)?,
        );
        // 32 bytes and the tag.
        let sealed: [u8; 48] = from_hex(&self.sealed).ok_or_else(wrong)?;
        let opened = Zeroizing::new(
            self.cipher(passphrase, &salt)?
                .decrypt(
                    &XNonce::from(nonce),
                    Payload {
                        msg: &sealed,
                        aad: self.described().as_bytes(),
                    },
                )
                .map_err(|_| wrong())?,
        );
        let secret: Zeroizing<[u8; 32]> = Zeroizing::new(opened.as_slice().try_into().map_err(|_| wrong())?);
        Ok(SigningKey::from_bytes(&secret))
    }

    fn cipher(&self, passphrase: &str, salt: &[u8; 16]) -> Result<XChaCha20Poly1305, EngineError> {
        let failed =
            |error: argon2::Error| HarnessError::Key(format!("the passphrase cannot be used: {error}"));
        let params = Params::new(self.memory_kib, self.passes, 1, Some(32)).map_err(failed)?;
        let mut key = Zeroizing::new([0; 32]);
        Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
            .hash_password_into(passphrase.as_bytes(), salt, &mut key[..])
            .map_err(failed)?;
        Ok(XChaCha20Poly1305::new(&Key::from(*key)))
    }

    /// What is sealed together with the key: a name that is put on another's key does not open it.
    fn described(&self) -> String {
        format!("satiety key v1\n{}\n{}", self.name, self.public_key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_passphrase_opens_a_key_and_nobody_can_rename_it() {
        let key = KeyFile::generate("anna", "correct horse").unwrap();
        let public: [u8; 32] = from_hex(&key.public_key).unwrap();
        assert_eq!(
            key.open("correct horse").unwrap().verifying_key().to_bytes(),
            public
        );
        assert!(key.open("correct horsf").is_err());
        let renamed = KeyFile {
            name: "ben".into(),
            ..key.clone()
        };
        assert!(renamed.open("correct horse").is_err());
        assert!(KeyFile::generate("anna", "short").is_err());
        assert!(KeyFile::generate(" ", "long enough").is_err());
    }

    #[cfg(unix)]
    #[test]
    fn a_key_is_for_its_owner_and_never_written_over() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys/anna.json");
        let key = KeyFile::generate("anna", "correct horse").unwrap();
        key.write(&path).unwrap();
        assert_eq!(KeyFile::read(&path).unwrap(), key);
        assert_eq!(
            fs_err::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        let again = key.write(&path).unwrap_err().to_string();
        assert!(again.contains("never written over"), "{again}");
    }

    #[test]
    fn the_ring_is_the_repositorys() {
        let folder = tempfile::tempdir().unwrap();
        let suites = folder.path().join("evals/suites");
        fs_err::create_dir_all(&suites).unwrap();
        let text = "[harness]\nrecord = true\nagent_keys = [\"ab\"]\n\n[[harness.approvers]]\nname = \"anna\"\npublic_key = \"cd\"\n";
        fs_err::write(folder.path().join("satiety.toml"), text).unwrap();
        let (path, ring) = ring_of(&suites).unwrap();
        assert_eq!(path.unwrap(), folder.path().join("satiety.toml"));
        assert_eq!(
            (ring.approvers[0].name.as_str(), ring.agent_keys.len()),
            ("anna", 1)
        );
        fs_err::write(suites.join("satiety.toml"), "[harness]\napprovers = 3\n").unwrap();
        assert!(ring_of(&suites).is_err());
    }
}
