//! The human gate: an approval is a signature over exactly one proposal of one expansion, by a key that a person holds.
//!
//! Only public keys come here. Whoever made the proposal cannot approve it with a key of the agent's, and an approval is
//! good for nothing else: not for another proposal, another harness, another time or a second use.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::proposal::Proposal;
use crate::bench::hash::{canonical_json, content_hash};

/// What is signed is never mistaken for anything else that the same key signs.
const DOMAIN: &str = "satiety harness approval v1\n";

/// An approval is good for at most so long.
pub const LONGEST: SignedDuration = SignedDuration::from_hours(24 * 30);

/// Clocks of two machines may differ by so much.
const SKEW: SignedDuration = SignedDuration::from_mins(5);

/// What a person signs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Statement {
    /// The expansion.
    pub expansion_id: String,
    /// The proposal.
    pub proposal_id: String,
    /// The hash of everything that it says.
    pub proposal_hash: String,
    /// The harness version that it starts from.
    pub from_version: String,
    /// The version that it leads to.
    pub to_version: String,
    /// Who approves, by the name that the key is registered under.
    pub approver: String,
    /// When.
    pub approved_at: Timestamp,
    /// Until when it may be used.
    pub expires_at: Timestamp,
}

/// A signed statement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Approval {
    /// What was signed.
    pub statement: Statement,
    /// Ed25519, 128 hexadecimal digits.
    pub signature: String,
}

/// A person's key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApproverKey {
    /// Who.
    pub name: String,
    /// Ed25519, 64 hexadecimal digits.
    pub public_key: String,
}

/// Whose signature counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct KeyRing {
    /// People.
    pub approvers: Vec<ApproverKey>,
    /// Keys that the agent can sign with, in hexadecimal digits; never good for an approval.
    pub agent_keys: Vec<String>,
}

/// Why an approval does not count.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ApprovalError {
    /// It is about something else.
    #[error(
        "the approval's {field} is that of another proposal; approvals cannot be carried over, ask for a new one"
    )]
    OtherProposal {
        /// What differs.
        field: &'static str,
    },
    /// Nobody of that name may approve.
    #[error("nobody named `{0}` may approve; add the public key to the configuration")]
    UnknownApprover(String),
    /// The key is the agent's.
    #[error("the key of `{0}` is one that the agent can use; approvals need a person's")]
    AgentKey(String),
    /// Not a key or a signature.
    #[error("the {0} is no valid one")]
    Malformed(&'static str),
    /// Somebody else signed, or something else was signed.
    #[error("the signature is not that of `{0}` over this approval")]
    BadSignature(String),
    /// The build cannot verify.
    #[error("this build verifies no signatures (cargo feature `signatures`)")]
    Unsupported,
    /// Its time is over.
    #[error("the approval was good until {0}; ask for a new one")]
    Expired(Timestamp),
    /// Its time is still to come.
    #[error("the approval is of {0}, which is still to come; check the clocks")]
    NotYet(Timestamp),
    /// Good for too long, or for no time at all.
    #[error("an approval is good for more than nothing and at most 30 days")]
    Lifetime,
    /// It was used before.
    #[error("the approval was used before")]
    Spent,
}

impl Statement {
    /// What a person signs to approve a proposal.
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

    /// The bytes that are signed.
    pub fn signed_bytes(&self) -> Vec<u8> {
        let value = serde_json::to_value(self).unwrap_or_default();
        format!("{DOMAIN}{}", canonical_json(&value)).into_bytes()
    }
}

impl Approval {
    /// Names it, so that it is used once.
    pub fn id(&self) -> String {
        // Not over the signature: the same statement signed twice is the same approval.
        content_hash(&self.statement)
    }
}

/// Whether an approval counts for a proposal now. `spent` are the ids of approvals that were used.
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

/// Whether a signature of that time may be used now.
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

/// Whether `name`, one of the approvers, signed these bytes.
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
        // Two keys of one name would let one person sign for another.
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

/// Bytes from hexadecimal digits.
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

/// Hexadecimal digits of bytes.
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
    fn only_the_very_proposal_by_the_very_person_in_time() {
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
    fn signatures_are_the_standards() {
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
