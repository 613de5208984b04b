//! Human approval: a signature over exactly one proposal of one expansion, with a key that belongs to a
//! person.
//!
//! Only public keys are handled here. The author of a proposal cannot approve it with an agent key, and an
//! approval is not valid for another proposal, another harness, another time or a second use.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::proposal::Proposal;
use crate::bench::hash::{canonical_json, content_hash};

/// Domain separator for signed statements.
const DOMAIN: &str = "satiety harness approval v1\n";

/// Maximum lifetime of an approval.
pub const LONGEST: SignedDuration = SignedDuration::from_hours(24 * 30);

/// Tolerated clock difference between two machines.
const SKEW: SignedDuration = SignedDuration::from_mins(5);

/// Statement that a person signs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// Id of the expansion.
    pub expansion_id: String,
    /// Id of the proposal.
    pub proposal_id: String,
    /// Hash of the whole proposal.
    pub proposal_hash: String,
    /// Harness version before the proposal.
    pub from_version: String,
    /// Harness version after the proposal.
    pub to_version: String,
    /// Name under which the approver's key is registered.
    pub approver: String,
    /// Time of the approval.
    pub approved_at: Timestamp,
    /// Time until which it may be used.
    pub expires_at: Timestamp,
}

/// Signed statement that approves a proposal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Approval {
    /// Statement that was signed.
    pub statement: Statement,
    /// Ed25519 signature of the statement, 128 hexadecimal digits.
    pub signature: String,
}

/// Public key of a person who may approve.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApproverKey {
    /// Name of the approver.
    pub name: String,
    /// Ed25519 public key, 64 hexadecimal digits.
    pub public_key: String,
}

/// Keys whose signatures are trusted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct KeyRing {
    /// Keys of the people who may approve.
    pub approvers: Vec<ApproverKey>,
    /// Keys that agents can use, in hexadecimal digits; never valid for an approval.
    pub agent_keys: Vec<String>,
}

/// Reason why an approval is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ApprovalError {
    /// The approval belongs to another proposal.
    #[error("the approval belongs to another proposal: {field} differs; request a new approval")]
    OtherProposal {
        /// Field that differs.
        field: &'static str,
    },
    /// The approver is unknown.
    #[error("unknown approver `{0}`; add the public key to the configuration")]
    UnknownApprover(String),
    /// The key is an agent key.
    #[error("the key of `{0}` is an agent key; approvals require the key of a person")]
    AgentKey(String),
    /// A key or signature is malformed.
    #[error("invalid {0}")]
    Malformed(&'static str),
    /// The signature does not match the key and statement.
    #[error("the signature of `{0}` does not match this approval")]
    BadSignature(String),
    /// This build cannot verify signatures.
    #[error("this build cannot verify signatures (enable the cargo feature `signatures`)")]
    Unsupported,
    /// The approval has expired.
    #[error("the approval expired at {0}; request a new approval")]
    Expired(Timestamp),
    /// The approval is dated in the future.
    #[error("the approval is dated in the future ({0}); check the clocks")]
    NotYet(Timestamp),
    /// The lifetime is not positive or too long.
    #[error("approval lifetime must be positive and at most 30 days")]
    Lifetime,
    /// The approval was already used.
    #[error("the approval was already used")]
    Spent,
}

impl Statement {
    /// Creates the statement to sign for approving a proposal.
    pub fn about(
        proposal: &Proposal,
        approver: impl Into<String>,
        approved_at: Timestamp,
        expires_at: Timestamp,
    ) -> Self {
        Self {
            expansion_id: proposal.expansion_id.clone(),
            proposal_id: proposal.proposal_id.clone(),
            proposal_hash: proposal.hash(),
            from_version: proposal.diff.from.clone(),
            to_version: proposal.diff.to.clone(),
            approver: approver.into(),
            approved_at,
            expires_at,
        }
    }

    /// Returns the bytes to be signed.
    pub fn signed_bytes(&self) -> Vec<u8> {
        let value = serde_json::to_value(self).unwrap_or_default();
        format!("{DOMAIN}{}", canonical_json(&value)).into_bytes()
    }
}

impl Approval {
    /// Returns the id of the approval, which prevents a second use.
    pub fn id(&self) -> String {
        // Not over the signature: the same statement signed twice is the same approval.
        content_hash(&self.statement)
    }
}

/// Verifies that an approval is valid for a proposal now. `spent` are the ids of approvals that were already
/// used.
pub fn verify(
    approval: &Approval,
    proposal: &Proposal,
    keys: &KeyRing,
    spent: &BTreeSet<String>,
    now: Timestamp,
) -> Result<(), ApprovalError> {
    let statement = &approval.statement;
    check_signature(
        keys,
        &statement.approver,
        &statement.signed_bytes(),
        &approval.signature,
    )?;
    let expected = Statement::about(
        proposal,
        &statement.approver,
        statement.approved_at,
        statement.expires_at,
    );
    for (field, found, wanted) in [
        ("expansion", &statement.expansion_id, &expected.expansion_id),
        ("id", &statement.proposal_id, &expected.proposal_id),
        ("hash", &statement.proposal_hash, &expected.proposal_hash),
        ("old version", &statement.from_version, &expected.from_version),
        ("new version", &statement.to_version, &expected.to_version),
    ] {
        if found != wanted {
            return Err(ApprovalError::OtherProposal { field });
        }
    }
    check_lifetime(statement.approved_at, statement.expires_at, now)?;
    if spent.contains(&approval.id()) {
        return Err(ApprovalError::Spent);
    }
    Ok(())
}

/// Checks that a signature may be used now.
pub(super) fn check_lifetime(
    approved_at: Timestamp,
    expires_at: Timestamp,
    now: Timestamp,
) -> Result<(), ApprovalError> {
    let lifetime = expires_at.duration_since(approved_at);
    if lifetime <= SignedDuration::ZERO || lifetime > LONGEST {
        return Err(ApprovalError::Lifetime);
    }
    if now.duration_since(approved_at) < -SKEW {
        return Err(ApprovalError::NotYet(approved_at));
    }
    if now > expires_at {
        return Err(ApprovalError::Expired(expires_at));
    }
    Ok(())
}

/// Verifies that the approver `name` signed these bytes.
pub fn check_signature(
    keys: &KeyRing,
    name: &str,
    bytes: &[u8],
    signature: &str,
) -> Result<(), ApprovalError> {
    let key = keys.signer(name)?;
    let signature: [u8; 64] = from_hex(signature).ok_or(ApprovalError::Malformed("signature"))?;
    verify_signature(name, &key, bytes, &signature)
}

#[cfg(feature = "signatures")]
fn verify_signature(
    name: &str,
    key: &[u8; 32],
    bytes: &[u8],
    signature: &[u8; 64],
) -> Result<(), ApprovalError> {
    use ed25519_dalek::{Signature, VerifyingKey};
    let key = VerifyingKey::from_bytes(key)
        .ok()
        .filter(|key| !key.is_weak())
        .ok_or(ApprovalError::Malformed("public key"))?;
    key.verify_strict(bytes, &Signature::from_bytes(signature))
        .map_err(|_| ApprovalError::BadSignature(name.to_owned()))
}

#[cfg(not(feature = "signatures"))]
fn verify_signature(_: &str, _: &[u8; 32], _: &[u8], _: &[u8; 64]) -> Result<(), ApprovalError> {
    Err(ApprovalError::Unsupported)
}

impl KeyRing {
    fn signer(&self, name: &str) -> Result<[u8; 32], ApprovalError> {
        let mut named = self.approvers.iter().filter(|key| key.name == name);
        // Two keys under one name would let one person sign for another.
        let (Some(registered), None) = (named.next(), named.next()) else {
            return Err(ApprovalError::UnknownApprover(name.to_owned()));
        };
        let bytes: [u8; 32] =
            from_hex(&registered.public_key).ok_or(ApprovalError::Malformed("public key"))?;
        if self.agent_keys.iter().any(|agent| from_hex(agent) == Some(bytes)) {
            return Err(ApprovalError::AgentKey(name.to_owned()));
        }
        Ok(bytes)
    }
}

/// Parses hexadecimal digits to exactly `N` bytes.
pub fn from_hex<const N: usize>(digits: &str) -> Option<[u8; N]> {
    let digits = digits.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        for digit in pair {
            let value = char::from(*digit).to_digit(16)?;
            // A digit is below 16.
            *byte = *byte << 4 | u8::try_from(value).ok()?;
        }
    }
    Some(bytes)
}

/// Formats bytes as hexadecimal digits.
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut digits, byte| {
        for half in [byte >> 4, byte & 15] {
            digits.extend(char::from_digit(u32::from(half), 16));
        }
        digits
    })
}

#[cfg(test)]
pub(super) mod tests {
    use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};

    use super::*;
    use crate::harness::manifest::tests::manifest;
    use crate::harness::proposal::{Author, ExpansionProposals};

    pub(in crate::harness) fn at(hours: i64) -> Timestamp {
        Timestamp::from_second(1_767_106_800 + hours * 3600).unwrap()
    }

    pub(in crate::harness) fn key(seed: u8) -> SigningKey {
        SigningKey::from_bytes(&[seed; 32])
    }

    pub(in crate::harness) fn ring() -> KeyRing {
        KeyRing {
            approvers: vec![ApproverKey {
                name: "Ada".into(),
                public_key: to_hex(key(1).verifying_key().as_bytes()),
            }],
            agent_keys: vec![to_hex(key(9).verifying_key().as_bytes())],
        }
    }

    pub(in crate::harness) fn sign(statement: Statement, key: &SigningKey) -> Approval {
        let signature = to_hex(&key.sign(&statement.signed_bytes()).to_bytes());
        Approval { statement, signature }
    }

    fn proposal(id: &str) -> Proposal {
        let old = manifest(2);
        let mut new = old.clone();
        new.alpha = 0.04;
        Proposal::new(
            (id, "exp-1"),
            Author::Rules,
            at(0),
            ExpansionProposals::default(),
            &old,
            &new,
        )
        .unwrap()
    }

    #[test]
    fn only_the_signed_proposal_by_its_approver_in_time() {
        let proposal = proposal("prop-1");
        let none = BTreeSet::new();
        let statement = Statement::about(&proposal, "Ada", at(1), at(25));
        let good = sign(statement.clone(), &key(1));
        let check = |approval: &Approval, now| verify(approval, &proposal, &ring(), &none, now);
        assert_eq!(check(&good, at(2)), Ok(()));

        // The attacks, one by one.
        assert_eq!(
            check(&sign(statement.clone(), &key(2)), at(2)),
            Err(ApprovalError::BadSignature("Ada".into()))
        );
        assert_eq!(check(&good, at(26)), Err(ApprovalError::Expired(at(25))));
        assert_eq!(check(&good, at(0)), Err(ApprovalError::NotYet(at(1))));
        let mut stretched = good.clone();
        stretched.statement.expires_at = at(400);
        assert_eq!(
            check(&stretched, at(2)),
            Err(ApprovalError::BadSignature("Ada".into()))
        );
        let eternal = sign(
            Statement {
                expires_at: at(24 * 31),
                ..statement.clone()
            },
            &key(1),
        );
        assert_eq!(check(&eternal, at(2)), Err(ApprovalError::Lifetime));
        let stranger = sign(
            Statement {
                approver: "Eve".into(),
                ..statement.clone()
            },
            &key(2),
        );
        assert_eq!(
            check(&stranger, at(2)),
            Err(ApprovalError::UnknownApprover("Eve".into()))
        );
        let other = sign(
            Statement {
                proposal_hash: "00".into(),
                ..statement.clone()
            },
            &key(1),
        );
        assert_eq!(
            check(&other, at(2)),
            Err(ApprovalError::OtherProposal { field: "hash" })
        );
        let mut garbled = good.clone();
        garbled.signature.replace_range(0..1, "x");
        assert_eq!(check(&garbled, at(2)), Err(ApprovalError::Malformed("signature")));

        // Replay: for the same content under another id, and a second time.
        let again = self::proposal("prop-2");
        let replay = verify(&good, &again, &ring(), &none, at(2));
        assert_eq!(replay, Err(ApprovalError::OtherProposal { field: "id" }));
        let spent = BTreeSet::from([good.id()]);
        assert_eq!(
            verify(&good, &proposal, &ring(), &spent, at(2)),
            Err(ApprovalError::Spent)
        );

        // The agent's key under a person's name.
        let mut captured = ring();
        captured.approvers[0].public_key = captured.agent_keys[0].to_uppercase();
        let by_agent = sign(statement, &key(9));
        assert_eq!(
            verify(&by_agent, &proposal, &captured, &none, at(2)),
            Err(ApprovalError::AgentKey("Ada".into()))
        );
    }

    // Oracle: RFC 8032, section 7.1, test 2.
    #[test]
    fn signatures_follow_rfc_8032() {
        let public: [u8; 32] =
            from_hex("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c").unwrap();
        let signature: [u8; 64] = from_hex(
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
        )
        .unwrap();
        let key = VerifyingKey::from_bytes(&public).unwrap();
        assert!(
            key.verify_strict(&[0x72], &Signature::from_bytes(&signature))
                .is_ok()
        );
        assert!(
            key.verify_strict(&[0x73], &Signature::from_bytes(&signature))
                .is_err()
        );
        assert_eq!(to_hex(&public).len(), 64);
        assert_eq!(from_hex::<2>("0g00"), None);
        assert_eq!(from_hex::<2>("00"), None);
    }
}
