//! Keys of approvers: public keys in the repository's `satiety.toml`, a private key in a file that is
//! protected by a passphrase. Nothing is read from the environment or from a flag, so that no agent can use
//! its own key.

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
use super::directory::display_path;
use crate::EngineError;

/// Settings file of the repository.
const SETTINGS: &str = "satiety.toml";
/// Minimum length of a passphrase.
const MIN_PASSPHRASE_LENGTH: usize = 8;
/// Argon2 cost: 64 MiB and three passes, a fraction of a second per use.
const MEMORY_KIB: u32 = 64 * 1024;
const PASSES: u32 = 3;

/// Approver keys of the harness in a directory: the nearest `satiety.toml` at or above it.
pub(super) fn ring_of(folder: &Path) -> Result<(Option<PathBuf>, KeyRing), EngineError> {
    ring_within(folder, None)
}

/// Same, but the search ends at a directory: files above the top of a repository are not part of it.
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
        file: display_path(&path),
        reason: error.message().to_owned(),
    })?;
    let ring = KeyRing {
        approvers: file.harness.approvers,
        agent_keys: file.harness.agent_keys,
    };
    Ok((Some(path), ring))
}

/// Private key encrypted with a passphrase.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KeyFile {
    /// Format version of the file, always 1.
    pub format: u32,
    /// Name of the owner.
    pub name: String,
    /// Ed25519 public key, 64 hexadecimal digits.
    pub public_key: String,
    /// Memory cost of Argon2id in KiB.
    pub memory_kib: u32,
    /// Number of Argon2id passes.
    pub passes: u32,
    /// Salt of Argon2id, in hexadecimal digits.
    pub salt: String,
    /// Nonce of XChaCha20-Poly1305, in hexadecimal digits.
    pub nonce: String,
    /// Encrypted private key, in hexadecimal digits.
    pub sealed: String,
}

impl KeyFile {
    /// Generates a new key.
    pub fn generate(name: &str, passphrase: &str) -> Result<Self, EngineError> {
        if name.trim().is_empty() {
            return Err(HarnessError::Key("a key requires the name of a person".into()).into());
        }
        if passphrase.chars().count() < MIN_PASSPHRASE_LENGTH {
            return Err(HarnessError::Key(format!(
                "a passphrase must have at least {MIN_PASSPHRASE_LENGTH} characters"
            ))
            .into());
        }
        let mut secret = Zeroizing::new([0; 32]);
        let (mut salt, mut nonce) = ([0; 16], [0; 24]);
        for bytes in [&mut secret[..], &mut salt[..], &mut nonce[..]] {
            getrandom::fill(bytes)
                .map_err(|error| HarnessError::Key(format!("cannot generate random bytes: {error}")))?;
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
                    aad: file.associated_data().as_bytes(),
                },
            )
            .map_err(|_| HarnessError::Key("cannot encrypt the key".into()))?;
        file.sealed = to_hex(&sealed);
        Ok(file)
    }

    pub fn read(path: &Path) -> Result<Self, EngineError> {
        let text = fs_err::read_to_string(path).map_err(|cause| EngineError::file("read", path, cause))?;
        let file: Self = serde_json::from_str(&text).map_err(|error| HarnessError::BadFile {
            file: display_path(path),
            reason: format!("{error}; key files are written by `satiety harness keygen`"),
        })?;
        // An untrusted file must not be able to exhaust the memory.
        if file.format != 1 || file.memory_kib > 1 << 20 || file.passes > 64 {
            return Err(HarnessError::BadFile {
                file: display_path(path),
                reason: "unsupported key format".into(),
            }
            .into());
        }
        Ok(file)
    }

    /// Writes the file readable for its owner only; never overwrites an existing file.
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
                    "{} already exists; a key is never overwritten",
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

    /// Signs an approval; requires the passphrase.
    pub fn approve(&self, statement: Statement, passphrase: &str) -> Result<Approval, EngineError> {
        let key = self.open(passphrase)?;
        let signature = key.sign(&statement.signed_bytes());
        Ok(Approval {
            statement,
            signature: to_hex(&signature.to_bytes()),
        })
    }

    /// Signs bytes that begin with a domain separator, such as a key ring or a transition.
    pub fn sign_bytes(&self, bytes: &[u8], passphrase: &str) -> Result<String, EngineError> {
        Ok(to_hex(&self.open(passphrase)?.sign(bytes).to_bytes()))
    }

    fn open(&self, passphrase: &str) -> Result<SigningKey, EngineError> {
        let wrong = || {
            EngineError::from(HarnessError::Key(
                "wrong passphrase, or the key file was modified".into(),
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
                        aad: self.associated_data().as_bytes(),
                    },
                )
                .map_err(|_| wrong())?,
        );
        let secret: Zeroizing<[u8; 32]> = Zeroizing::new(opened.as_slice().try_into().map_err(|_| wrong())?);
        Ok(SigningKey::from_bytes(&secret))
    }

    fn cipher(&self, passphrase: &str, salt: &[u8; 16]) -> Result<XChaCha20Poly1305, EngineError> {
        let failed = |error: argon2::Error| HarnessError::Key(format!("cannot use the passphrase: {error}"));
        let params = Params::new(self.memory_kib, self.passes, 1, Some(32)).map_err(failed)?;
        let mut key = Zeroizing::new([0; 32]);
        Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
            .hash_password_into(passphrase.as_bytes(), salt, &mut key[..])
            .map_err(failed)?;
        Ok(XChaCha20Poly1305::new(&Key::from(*key)))
    }

    /// Associated data of the encryption: a key file with another name or public key cannot be opened.
    fn associated_data(&self) -> String {
        format!("satiety key v1\n{}\n{}", self.name, self.public_key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_passphrase_opens_a_key_and_its_name_is_authenticated() {
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
    fn key_files_are_private_and_never_overwritten() {
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
        assert!(again.contains("never overwritten"), "{again}");
    }

    #[test]
    fn keys_are_read_from_the_repository() {
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
