//! Hellos good, bad, replayed, cut and flipped.

use proptest::prelude::*;

use super::*;

const KEY: JobKey = JobKey([7; 32]);

fn party(me: u32, nonce: u8, key: &JobKey) -> Party<'_> {
    Party {
        job: JobId([9; 16]),
        key,
        me: Peer(me),
        versions: VERSIONS,
        window: 1000 + u64::from(me),
        nonce: [nonce; 16],
    }
}

/// Everything that the two sides say in a good hello: hello, welcome, proof, verdict.
fn conversation(dialler: &Party<'_>, acceptor: &Party<'_>) -> Option<[Vec<u8>; 4]> {
    let (mut dial, hello) = Dialler::new(dialler, acceptor.me);
    let mut accept = Acceptor::new();
    let AcceptStep::Welcome { bytes: welcome, last: false } = accept.take(acceptor, &hello).ok()? else {
        return None;
    };
    let DialStep::Prove(proof) = dial.take(dialler.key, &welcome).ok()? else { return None };
    let AcceptStep::Proved(theirs) = accept.take(acceptor, &proof).ok()? else { return None };
    assert_eq!((theirs.peer, theirs.window), (dialler.me, dialler.window));
    let verdict = accept.judge(acceptor.key, Verdict::BothWays);
    let DialStep::Done(ours, Verdict::BothWays) = dial.take(dialler.key, &verdict).ok()? else { return None };
    assert_eq!((ours.peer, ours.window), (acceptor.me, acceptor.window));
    assert_eq!(ours.version, theirs.version);
    Some([hello, welcome, proof.to_vec(), verdict])
}

#[test]
fn two_members_of_a_job_agree() {
    assert!(conversation(&party(3, 1, &KEY), &party(5, 2, &KEY)).is_some());
}

#[test]
fn the_newest_common_version_is_taken_and_none_is_told() {
    let versions = |ours: RangeInclusive<u16>, theirs: RangeInclusive<u16>| {
        let dialler = Party { versions: ours, ..party(0, 1, &KEY) };
        let acceptor = Party { versions: theirs, ..party(1, 2, &KEY) };
        let (mut dial, hello) = Dialler::new(&dialler, Peer(1));
        let AcceptStep::Welcome { bytes, last } = Acceptor::new().take(&acceptor, &hello).unwrap() else {
            panic!("a hello in good form is answered")
        };
        (last, dial.take(&KEY, &bytes).map(|_| dial.agreed.unwrap().version))
    };
    assert_eq!(versions(1..=4, 2..=3), (false, Ok(3)));
    assert_eq!(versions(2..=3, 1..=9), (false, Ok(3)));
    let error = versions(1..=2, 4..=5).1.unwrap_err();
    assert_eq!(error, DialError::Versions { ours: 1..=2, theirs: 4..=5 });
    assert_eq!(error.to_string(), "it speaks protocol versions 4 to 5, we speak 1 to 2");
    assert!(versions(4..=5, 1..=2).0, "the acceptor closes after saying so");
}

#[test]
fn another_job_rank_or_key_is_a_stranger() {
    let ours = party(1, 2, &KEY);
    let (_, hello) = Dialler::new(&party(0, 1, &KEY), Peer(1));
    let stranger = |acceptor: &Party<'_>| Acceptor::new().take(acceptor, &hello) == Err(Stranger);
    assert!(!stranger(&ours));
    assert!(stranger(&Party { job: JobId([8; 16]), ..ours.clone() }));
    assert!(stranger(&party(2, 2, &KEY)), "meant for somebody else");
    assert!(stranger(&party(0, 2, &KEY)), "from ourselves");

    let other = JobKey([8; 32]);
    let (mut dial, hello) = Dialler::new(&party(0, 1, &other), Peer(1));
    let mut accept = Acceptor::new();
    let AcceptStep::Welcome { bytes, .. } = accept.take(&ours, &hello).unwrap() else { panic!() };
    assert_eq!(dial.take(&other, &bytes), Err(DialError::Proof));
    assert_eq!(accept.take(&ours, &[0; PROOF_BYTES]), Err(Stranger));
}

#[test]
fn a_replayed_conversation_proves_nothing() {
    let (dialler, acceptor) = (party(0, 1, &KEY), party(1, 2, &KEY));
    let [hello, welcome, proof, _] = conversation(&dialler, &acceptor).unwrap();

    let mut again = Acceptor::new();
    let fresh = Party { nonce: [3; 16], ..acceptor };
    assert!(matches!(again.take(&fresh, &hello), Ok(AcceptStep::Welcome { .. })));
    assert_eq!(again.take(&fresh, &proof), Err(Stranger));

    let (mut again, _) = Dialler::new(&Party { nonce: [4; 16], ..dialler }, Peer(1));
    assert_eq!(again.take(&KEY, &welcome), Err(DialError::Proof));
}

#[test]
fn a_hello_is_turned_away_at_its_first_wrong_byte() {
    let mut accept = Acceptor::new();
    let ours = party(1, 2, &KEY);
    assert_eq!(accept.take(&ours, b"bw"), Ok(AcceptStep::More));
    assert_eq!(accept.take(&ours, b"x"), Err(Stranger));
    assert_eq!(Acceptor::new().take(&ours, b"GET / HTTP/1.1\r\n"), Err(Stranger));
}

/// Plays a good conversation in which one message is changed on its way, and says whether anybody believed it.
fn survives(which: usize, change: impl Fn(&mut Vec<u8>)) -> bool {
    let (dialler, acceptor) = (party(0, 1, &KEY), party(1, 2, &KEY));
    let (mut dial, mut hello) = Dialler::new(&dialler, Peer(1));
    let mut accept = Acceptor::new();
    let alter = |at: usize, bytes: &mut Vec<u8>| {
        if at == which {
            change(bytes);
        }
    };
    alter(0, &mut hello);
    let Ok(AcceptStep::Welcome { bytes: mut welcome, .. }) = accept.take(&acceptor, &hello) else {
        return false;
    };
    alter(1, &mut welcome);
    let Ok(DialStep::Prove(proof)) = dial.take(&KEY, &welcome) else { return false };
    let mut proof = proof.to_vec();
    alter(2, &mut proof);
    let Ok(AcceptStep::Proved(_)) = accept.take(&acceptor, &proof) else { return false };
    let mut verdict = accept.judge(&KEY, Verdict::OneWay);
    alter(3, &mut verdict);
    matches!(dial.take(&KEY, &verdict), Ok(DialStep::Done(..)))
}

#[test]
fn every_flip_and_every_truncation_of_every_message_fails() {
    assert!(survives(0, |_| {}));
    let lengths = [HELLO_BYTES, WELCOME_BYTES, PROOF_BYTES, VERDICT_BYTES];
    for (which, length) in lengths.into_iter().enumerate() {
        for at in 0..length {
            assert!(!survives(which, |bytes| bytes.truncate(at)), "message {which} cut at {at}");
            for bit in 0..8 {
                assert!(
                    !survives(which, |bytes| bytes[at] ^= 1 << bit),
                    "message {which}, byte {at}, bit {bit}"
                );
            }
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_in_any_portions_are_turned_away_or_waited_for(
        portions in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..80), 0..6),
        with_magic: bool,
    ) {
        let ours = party(1, 2, &KEY);
        let mut accept = Acceptor::new();
        let (mut dial, _) = Dialler::new(&ours, Peer(2));
        if with_magic {
            let _ = accept.take(&ours, HELLO_MAGIC);
            let _ = dial.take(&KEY, WELCOME_MAGIC);
        }
        for bytes in &portions {
            if let Ok(step) = accept.take(&ours, bytes) {
                prop_assert!(!matches!(step, AcceptStep::Proved(_)));
            }
            if let Ok(step) = dial.take(&KEY, bytes) {
                prop_assert_eq!(step, DialStep::More);
            }
        }
        prop_assert!(accept.wants() <= HELLO_BYTES && dial.wants() <= WELCOME_BYTES);
    }

    #[test]
    fn a_hello_may_come_in_any_portions(cuts in proptest::collection::vec(1usize..20, 1..40)) {
        let ours = party(1, 2, &KEY);
        let (mut dial, hello) = Dialler::new(&party(0, 1, &KEY), Peer(1));
        let mut accept = Acceptor::new();
        let mut cuts = cuts.into_iter().cycle();
        let mut rest = &hello[..];
        let welcome = loop {
            let (now, later) = rest.split_at(cuts.next().unwrap().min(rest.len()));
            rest = later;
            match accept.take(&ours, now).unwrap() {
                AcceptStep::More => prop_assert!(!rest.is_empty()),
                AcceptStep::Welcome { bytes, .. } => break bytes,
                AcceptStep::Proved(_) => unreachable!(),
            }
        };
        prop_assert!(rest.is_empty());
        prop_assert!(matches!(dial.take(&KEY, &welcome), Ok(DialStep::Prove(_))));
    }
}
