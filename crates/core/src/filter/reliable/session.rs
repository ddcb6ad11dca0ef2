//! Who is speaking: incarnations of the two ends, told apart by random session numbers.
//!
//! Every datagram names its sender's session and the one it is meant for. One meant for another session than
//! ours proves nothing and touches nothing, so what an earlier incarnation left in the network cannot be
//! taken for new. Three rules follow, and they hold however late a datagram arrives:
//!
//! 1. A peer is accepted once it has addressed us by our own session: only then does it surely live in our
//!    time. A first datagram (hello) cannot do that; it is merely answered.
//! 2. Whoever addresses a session that is not ours gets a reset that names that session.
//! 3. The peer has restarted when, and only when, a reset names the session we believe it has. A hello from
//!    another session could be years old; it only makes us ask the current one.

use super::wire::{Header, Kind};

/// The sessions of both ends and what has to be said about them.
#[derive(Debug)]
pub(super) struct Session {
    local: u64,
    peer: Option<u64>,
    reply: Option<Reply>,
    doubt: bool,
}

/// An answer to a datagram from outside the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// An ack that tells our session to a peer that said hello.
    Greet { to: u64 },
    /// A reset to one who took us for somebody else.
    Refuse { to: u64, refused: u64 },
}

/// What to do with a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admit {
    /// It belongs to the session.
    Peer,
    /// It belongs to the session, which begins with it.
    NewPeer,
    /// The peer says hello again: it has not heard from us.
    Again,
    /// It is not for us; what there is to say is in [`Session::take_reply`] and [`Session::take_doubt`].
    Aside,
    /// The peer we know is gone and another stands in its place.
    Restarted,
}

impl Session {
    pub fn new(local: u64, peer: Option<u64>) -> Self {
        Self { local, peer, reply: None, doubt: false }
    }

    pub fn local(&self) -> u64 {
        self.local
    }

    pub fn peer(&self) -> Option<u64> {
        self.peer
    }

    /// Sorts a datagram by its sessions.
    pub fn admit(&mut self, header: &Header) -> Admit {
        if header.src == self.local {
            return Admit::Aside;
        }
        match header.kind {
            Kind::Hello => self.admit_hello(header.src),
            Kind::Reset => {
                let names_peer = header.dst == self.local && self.peer == Some(header.seq);
                if names_peer { Admit::Restarted } else { Admit::Aside }
            }
            Kind::Data | Kind::Ack | Kind::Probe => self.admit_addressed(header),
        }
    }

    /// An answer that is due, once.
    pub fn take_reply(&mut self) -> Option<Reply> {
        self.reply.take()
    }

    /// Whether the peer should be asked if it is still the one we know, once.
    pub fn take_doubt(&mut self) -> bool {
        std::mem::take(&mut self.doubt)
    }

    /// Whether something is due.
    pub fn is_due(&self) -> bool {
        self.reply.is_some() || self.doubt
    }

    fn admit_hello(&mut self, src: u64) -> Admit {
        match self.peer {
            None => self.reply = Some(Reply::Greet { to: src }),
            Some(peer) if peer == src => return Admit::Again,
            Some(_) => self.doubt = true,
        }
        Admit::Aside
    }

    fn admit_addressed(&mut self, header: &Header) -> Admit {
        if header.dst != self.local {
            self.reply = Some(Reply::Refuse { to: header.src, refused: header.dst });
            return Admit::Aside;
        }
        match self.peer {
            None => {
                self.peer = Some(header.src);
                Admit::NewPeer
            }
            Some(peer) if peer == header.src => Admit::Peer,
            Some(_) => {
                self.doubt = true;
                Admit::Aside
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::Stamp;
    use super::*;

    fn header(kind: Kind, src: u64, dst: u64, seq: u64) -> Header {
        Header { kind, src, dst, seq, ack: 0, window: 1, stamp: Stamp(0), echo: None }
    }

    #[test]
    fn a_hello_alone_is_answered_but_not_believed() {
        let mut session = Session::new(10, None);
        assert_eq!(session.admit(&header(Kind::Hello, 20, 0, 0)), Admit::Aside);
        assert_eq!(session.peer(), None);
        assert_eq!(session.take_reply(), Some(Reply::Greet { to: 20 }));
        assert_eq!(session.take_reply(), None);
    }

    #[test]
    fn a_peer_that_knows_our_session_is_believed() {
        let mut session = Session::new(10, None);
        assert_eq!(session.admit(&header(Kind::Data, 20, 10, 0)), Admit::NewPeer);
        assert_eq!(session.admit(&header(Kind::Ack, 20, 10, 0)), Admit::Peer);
        assert_eq!(session.admit(&header(Kind::Hello, 20, 0, 0)), Admit::Again);
    }

    #[test]
    fn data_for_an_earlier_incarnation_is_refused_by_name() {
        let mut session = Session::new(10, None);
        assert_eq!(session.admit(&header(Kind::Data, 20, 9, 0)), Admit::Aside);
        assert_eq!(session.peer(), None);
        assert_eq!(session.take_reply(), Some(Reply::Refuse { to: 20, refused: 9 }));
    }

    #[test]
    fn only_a_reset_that_names_both_sessions_is_a_restart() {
        let mut session = Session::new(10, Some(20));
        assert_eq!(session.admit(&header(Kind::Reset, 21, 9, 20)), Admit::Aside);
        assert_eq!(session.admit(&header(Kind::Reset, 21, 10, 19)), Admit::Aside);
        assert!(!session.is_due(), "a reset is never answered");
        assert_eq!(session.admit(&header(Kind::Reset, 21, 10, 20)), Admit::Restarted);
    }

    #[test]
    fn a_strange_hello_raises_a_doubt_and_nothing_more() {
        let mut session = Session::new(10, Some(20));
        assert_eq!(session.admit(&header(Kind::Hello, 21, 0, 0)), Admit::Aside);
        assert_eq!(session.peer(), Some(20));
        assert!(session.take_doubt() && !session.take_doubt());
    }

    #[test]
    fn our_own_datagrams_reflected_are_ignored() {
        let mut session = Session::new(10, None);
        assert_eq!(session.admit(&header(Kind::Hello, 10, 0, 0)), Admit::Aside);
        assert!(!session.is_due());
    }
}
