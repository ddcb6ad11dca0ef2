//! Proof of the job's key: HMAC-SHA-256 over everything that was said.

use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::job::JobKey;

/// Bytes of a proof.
pub(crate) const PROOF_BYTES: usize = 32;

/// The proof that its maker holds `key` and means `parts`, said in the role `label`.
pub(crate) fn prove(key: &JobKey, label: &str, parts: &[&[u8]]) -> [u8; PROOF_BYTES] {
    mac(key, label, parts).finalize().into_bytes().into()
}

/// Whether `proof` is such a proof; takes the same time whatever the answer.
pub(crate) fn verify(key: &JobKey, label: &str, parts: &[&[u8]], proof: &[u8]) -> bool {
    mac(key, label, parts).verify_slice(proof).is_ok()
}

fn mac(key: &JobKey, label: &str, parts: &[&[u8]]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(&key.0).expect("HMAC takes keys of any length");
    mac.update(label.as_bytes());
    for part in parts {
        // Lengths keep ["ab", "c"] apart from ["a", "bc"].
        mac.update(&(part.len() as u64).to_le_bytes());
        mac.update(part);
    }
    mac
}

/// Bytes nobody can guess.
pub(crate) fn random<const N: usize>() -> std::io::Result<[u8; N]> {
    use barewire_sys::rustix::rand::{GetRandomFlags, getrandom};
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_of_one_key_one_role_and_one_meaning() {
        let (key, other) = (JobKey([1; 32]), JobKey([2; 32]));
        let proof = prove(&key, "client", &[b"ab", b"c"]);
        assert!(verify(&key, "client", &[b"ab", b"c"], &proof));
        assert!(!verify(&other, "client", &[b"ab", b"c"], &proof));
        assert!(!verify(&key, "server", &[b"ab", b"c"], &proof));
        assert!(!verify(&key, "client", &[b"a", b"bc"], &proof));
        assert!(!verify(&key, "client", &[b"ab", b"c"], &proof[..31]));
    }
}
