//! Messages from one rank to another: send, receive, probe, and their forms that do not wait.

use std::rc::Rc;

use barewire_core::tagged::{self, Envelope, Matched, Mode, Received, Sent, Sink, Source as From_, Want};
use barewire_core::{Endpoint, Peer};
use barewire_sys::loan::Lender;
use zerocopy::IntoBytes;

use super::buffer::{LentParts, LentPlace, Owned, Parts, Place, count, zeroed};
use super::comm::Comm;
use super::engine::{Engine, Layer, failed};
use super::fault::Error;
use super::names::{Source, Status, Tag};
use super::request::{self, Request};
use crate::spmd::Plain;

impl Comm {
    /// Sends values to a rank, and returns when they may be changed again: a short message may be on its way still, a long one has found its
    /// receive.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[2], |comm| {
    ///     match comm.rank() {
    ///         0 => comm.send(&[2.5, 3.5], 1, 7),
    ///         _ => comm.receive(&mut [0.0; 2], 0, 7).map(|status| assert_eq!(status.len, 2)),
    ///     }
    /// }).unwrap();
    /// ```
    #[inline]
    pub fn send<T: Plain>(&self, values: &[T], to: u32, tag: i32) -> Result<(), Error> {
        let (peer, envelope) = self.address(to, tag)?;
        let bytes = values.as_bytes();
        let sent = self.engine().with_layer(|endpoint, layer| {
            let sent = layer.tagged.send_bytes_now(endpoint, peer, envelope, bytes)?;
            Ok::<_, Error>((sent, sent && endpoint.flush_to(peer)))
        })??;
        match sent {
            (true, true) => Ok(()),
            (true, false) => self.pass_on(peer),
            (false, _) => self.send_slowly(&[bytes], peer, envelope, Mode::Standard),
        }
    }

    /// [`Comm::send`] that returns only when the receive has been found, however short the message is.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[2], |comm| {
    ///     match comm.rank() {
    ///         0 => comm.send_synchronous(&[1u8], 1, 0),
    ///         _ => comm.receive(&mut [0u8], 0, 0).map(|_| ()),
    ///     }
    /// }).unwrap();
    /// ```
    pub fn send_synchronous<T: Plain>(&self, values: &[T], to: u32, tag: i32) -> Result<(), Error> {
        let (peer, envelope) = self.address(to, tag)?;
        self.send_slowly(&[values.as_bytes()], peer, envelope, Mode::Synchronous)
    }

    /// [`Comm::send`] of values that lie in several places, as one message: the column of a matrix, say, or what has a head of its own.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[2], |comm| {
    ///     if comm.rank() == 0 {
    ///         let matrix = [[1, 2, 3], [4, 5, 6]];
    ///         let column: Vec<&[i32]> = matrix.iter().map(|row| &row[1..2]).collect();
    ///         return comm.send_parts(&column, 1, 0);
    ///     }
    ///     let mut column = [0; 2];
    ///     comm.receive(&mut column, 0, 0)?;
    ///     assert_eq!(column, [2, 5]);
    ///     Ok::<(), mpi::Error>(())
    /// }).unwrap();
    /// ```
    pub fn send_parts<T: Plain>(&self, parts: &[&[T]], to: u32, tag: i32) -> Result<(), Error> {
        let (peer, envelope) = self.address(to, tag)?;
        let parts: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
        self.send_slowly(&parts, peer, envelope, Mode::Standard)
    }

    /// Sends what is lent to the message while it waits.
    #[inline(never)]
    fn send_slowly(&self, parts: &[&[u8]], to: Peer, envelope: Envelope, mode: Mode) -> Result<(), Error> {
        let (engine, len) = (self.engine(), parts.iter().map(|part| part.len() as u64).sum());
        let mut lender = Lender::<Parts>::new();
        let source = From_::Gather(Box::new(LentParts::of(&lender)));
        lender.lend(&mut &*parts, || {
            let sent = engine.with_layer(|endpoint, layer| {
                let sent = layer.tagged.send(endpoint, to, envelope, mode, len, source);
                endpoint.flush();
                sent
            })??;
            engine.finish_send(to, sent)
        })?;
        self.pass_on(to)
    }

    /// Waits until what was sent to a peer gets there even if this process does nothing but compute from now on.
    fn pass_on(&self, to: Peer) -> Result<(), Error> {
        let (done, all) = self.engine().with(|world| world.endpoint.passed_on(to))?;
        if done >= all {
            return Ok(());
        }
        self.engine().wait("a socket to take a message", None, |endpoint, layer| {
            endpoint.passed_on(to).0 >= all || layer.is_gone(to)
        })
    }

    /// Receives values into a slice, from a rank or [`Any`](super::Any)(super::Any), with a tag or any. A shorter message leaves the rest of the slice as it is; a
    /// longer one is an error, and its beginning is there.
    ///
    /// ```
    /// use barewire::mpi::{self, Error};
    /// mpi::launch(&[1], |comm| {
    ///     comm.send(&[1u32, 2, 3], 0, 7)?;
    ///     let mut two = [0u32; 2];
    ///     assert_eq!(comm.receive(&mut two, 0, 7), Err(Error::Truncated { over: 4, room: 8 }));
    ///     assert_eq!(two, [1, 2]);
    ///     Ok::<(), Error>(())
    /// }).unwrap();
    /// ```
    #[inline]
    pub fn receive<T: Plain>(
        &self,
        values: &mut [T],
        from: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Status, Error> {
        let want = self.want(from.into(), tag.into())?;
        let bytes = values.as_mut_bytes();
        let room = bytes.len();
        if let (Some(from), Some(tag)) = (want.from, want.tag) {
            let envelope = Envelope { context: want.context, tag };
            let taken = self.engine().with_layer(|endpoint, layer| {
                endpoint.let_others(from, layer);
                layer.tagged.receive_now(endpoint, from, envelope, room, |mut packet| {
                    packet.read(bytes);
                })
            })?;
            if let Some(len) = taken {
                return Ok(Status { source: self.rank_of(from), tag, len: count::<T>(len)? });
            }
        }
        let status = self.receive_slowly(
            values.as_mut_bytes(),
            |endpoint, layer, sink| layer.tagged.receive(endpoint, want, sink),
            want.from,
        )?;
        self.status::<T>(status, room)
    }

    /// Receives into what is lent to the message while it waits.
    #[inline(never)]
    fn receive_slowly(
        &self,
        mut bytes: &mut [u8],
        receive: impl FnOnce(&mut Endpoint, &mut Layer, Sink) -> Received,
        from: Option<Peer>,
    ) -> Result<tagged::Status, Error> {
        let engine = self.engine();
        let mut lender = Lender::<Place>::new();
        let sink = Sink::Scatter(Box::new(LentPlace::of(&lender, bytes.len())));
        lender.lend(&mut bytes, || {
            match engine.with_layer(|endpoint, layer| receive(endpoint, layer, sink))? {
                Received::Done(status) => Ok(status),
                Received::Pending(request) => {
                    engine.finish_unless("a message", from, request, |layer| match from {
                        Some(_) => None,
                        None => layer.alone(self.group(), engine.me),
                    })
                }
            }
        })
    }

    /// Receives a message of any length, as a vector of just that length.
    ///
    /// ```
    /// use barewire::mpi::{self, Any};
    /// mpi::launch(&[1], |comm| {
    ///     comm.send(b"any length", 0, 7)?;
    ///     let (text, status) = comm.receive_vec::<u8>(Any, 7)?;
    ///     assert_eq!((text.as_slice(), status.len), (&b"any length"[..], 10));
    ///     Ok::<(), mpi::Error>(())
    /// }).unwrap();
    /// ```
    pub fn receive_vec<T: Plain>(
        &self,
        from: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<(Vec<T>, Status), Error> {
        self.claim(from, tag)?.receive_vec()
    }

    /// Sends to one rank while receiving from another, so that no circle of ranks can wait for each other.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[3], |comm| {
    ///     let (me, size) = (comm.rank(), comm.size());
    ///     let mut left = [0];
    ///     comm.send_receive(&[me], (me + 1) % size, 0, &mut left, (me + size - 1) % size, 0)?;
    ///     assert_eq!(left, [(me + size - 1) % size]);
    ///     Ok::<(), mpi::Error>(())
    /// }).unwrap();
    /// ```
    pub fn send_receive<T: Plain, U: Plain>(
        &self,
        values: &[T],
        to: u32,
        tag: i32,
        into: &mut [U],
        from: impl Into<Source>,
        from_tag: impl Into<Tag>,
    ) -> Result<Status, Error> {
        let send = self.start_send(values, Vec::from, to, tag, Mode::Standard)?;
        let status = self.receive(into, from, from_tag);
        send.wait()?;
        status
    }

    /// Waits until a message could be received, and says what it is: `len` is in elements of type `T`.
    ///
    /// ```
    /// use barewire::mpi::{self, Any};
    /// mpi::launch(&[1], |comm| {
    ///     comm.send(&[1u64, 2], 0, 7)?;
    ///     assert_eq!(comm.probe::<u64>(Any, Any)?.len, 2);
    ///     assert_eq!(comm.receive_vec::<u64>(0, 7)?.0, [1, 2]);
    ///     Ok::<(), mpi::Error>(())
    /// }).unwrap();
    /// ```
    pub fn probe<T: Plain>(&self, from: impl Into<Source>, tag: impl Into<Tag>) -> Result<Status, Error> {
        let want = self.want(from.into(), tag.into())?;
        let found = self.find(want, |layer| layer.tagged.probe(&want))?;
        self.status::<T>(found, usize::MAX)
    }

    /// What [`Comm::probe`] would find now, if anything. Makes progress.
    ///
    /// ```
    /// use barewire::mpi::{self, Any};
    /// mpi::launch(&[1], |comm| {
    ///     assert_eq!(comm.try_probe::<u8>(Any, Any)?, None);
    ///     Ok::<(), mpi::Error>(())
    /// }).unwrap();
    /// ```
    pub fn try_probe<T: Plain>(
        &self,
        from: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Option<Status>, Error> {
        let want = self.want(from.into(), tag.into())?;
        self.engine().poll()?;
        let found = self.engine().with_layer(|_, layer| layer.tagged.probe(&want))?;
        found.map(|status| self.status::<T>(status, usize::MAX)).transpose()
    }

    /// Waits for a message and takes it, to be received by nobody else: no other receive can come between looking at it and receiving it.
    ///
    /// ```
    /// use barewire::mpi::{self, Any};
    /// mpi::launch(&[2], |comm| {
    ///     if comm.rank() == 1 {
    ///         return comm.send(&[1.5; 10], 0, 3);
    ///     }
    ///     let message = comm.claim(Any, 3)?;
    ///     let mut place = vec![0.0; message.status::<f64>()?.len];
    ///     message.receive(&mut place)?;
    ///     assert_eq!(place, [1.5; 10]);
    ///     Ok(())
    /// }).unwrap();
    /// ```
    pub fn claim(&self, from: impl Into<Source>, tag: impl Into<Tag>) -> Result<Message, Error> {
        let want = self.want(from.into(), tag.into())?;
        let found = self.find(want, |layer| layer.tagged.claim(&want))?;
        Ok(Message { comm: self.clone(), matched: Some(found) })
    }

    /// The message that [`Comm::claim`] would take now, if there is one. Makes progress.
    ///
    /// ```
    /// use barewire::mpi::{self, Any};
    /// mpi::launch(&[1], |comm| {
    ///     assert!(comm.try_claim(Any, Any)?.is_none());
    ///     Ok::<(), mpi::Error>(())
    /// }).unwrap();
    /// ```
    pub fn try_claim(&self, from: impl Into<Source>, tag: impl Into<Tag>) -> Result<Option<Message>, Error> {
        let want = self.want(from.into(), tag.into())?;
        self.engine().poll()?;
        let found = self.engine().with_layer(|_, layer| layer.tagged.claim(&want))?;
        Ok(found.map(|matched| Message { comm: self.clone(), matched: Some(matched) }))
    }

    /// Waits until `look` finds a message.
    fn find<R>(&self, want: Want, mut look: impl FnMut(&mut Layer) -> Option<R>) -> Result<R, Error> {
        let (engine, mut found, mut lost) = (self.engine(), None, None);
        engine.wait("a message", None, |endpoint, layer| {
            found = look(layer);
            lost = match want.from {
                Some(from) => {
                    layer.greet(endpoint, from);
                    layer.is_gone(from).then_some(Error::Lost(from.into()))
                }
                None => layer.alone(self.group(), engine.me),
            };
            found.is_some() || lost.is_some()
        })?;
        found.ok_or(lost.unwrap_or(Error::Cancelled))
    }

    /// Starts to send values; they come back when the send has ended.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[2], |comm| {
    ///     let send = comm.isend(vec![comm.rank(); 100_000], 1 - comm.rank(), 0)?;
    ///     comm.receive(&mut vec![0; 100_000], 1 - comm.rank(), 0)?;
    ///     assert_eq!(send.wait()?.len(), 100_000);
    ///     Ok::<(), mpi::Error>(())
    /// }).unwrap();
    /// ```
    pub fn isend<T: Plain>(&self, values: Vec<T>, to: u32, tag: i32) -> Result<Request<Vec<T>>, Error> {
        self.start_send(values, |values| values, to, tag, Mode::Standard)
    }

    /// [`Comm::isend`] that ends only when the receive has been found.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[1], |comm| {
    ///     let mut send = comm.isend_synchronous(vec![1u8], 0, 0)?;
    ///     assert!(send.test()?.is_none(), "nobody has asked for it");
    ///     comm.receive(&mut [0u8], 0, 0)?;
    ///     assert_eq!(send.wait()?, [1]);
    ///     Ok::<(), mpi::Error>(())
    /// }).unwrap();
    /// ```
    pub fn isend_synchronous<T: Plain>(
        &self,
        values: Vec<T>,
        to: u32,
        tag: i32,
    ) -> Result<Request<Vec<T>>, Error> {
        self.start_send(values, |values| values, to, tag, Mode::Synchronous)
    }

    fn start_send<T: Plain, V: AsRef<[T]>>(
        &self,
        values: V,
        own: impl FnOnce(V) -> Vec<T>,
        to: u32,
        tag: i32,
        mode: Mode,
    ) -> Result<Request<Vec<T>>, Error> {
        let (peer, envelope) = self.address(to, tag)?;
        start_send(self.engine(), values, own, peer, envelope, mode)
    }

    /// Starts to receive values into a vector as long as it is, which comes back with what is known of the message.
    ///
    /// ```
    /// use barewire::mpi::{self, Any};
    /// mpi::launch(&[2], |comm| {
    ///     let receive = comm.ireceive(vec![0; 4], Any, 7)?;
    ///     comm.send(&[1, 2], 1 - comm.rank(), 7)?;
    ///     let (values, status) = receive.wait()?;
    ///     assert_eq!((values, status.len), (vec![1, 2, 0, 0], 2));
    ///     Ok::<(), mpi::Error>(())
    /// }).unwrap();
    /// ```
    pub fn ireceive<T: Plain>(
        &self,
        values: Vec<T>,
        from: impl Into<Source>,
        tag: impl Into<Tag>,
    ) -> Result<Request<(Vec<T>, Status)>, Error> {
        let want = self.want(from.into(), tag.into())?;
        let (room, group) = (size_of_val(values.as_slice()), self.group().clone());
        let comm = move |status: tagged::Status| {
            let source = group.rank_of(status.from.into()).map_or(u32::MAX, |rank| rank as u32);
            outcome::<T>(status, source, room)
        };
        let on = want.from.map_or_else(|| request::From::Any(self.group().clone()), request::From::Peer);
        start_receive(self.engine(), values, want, on, comm)
    }

    fn address(&self, to: u32, tag: i32) -> Result<(Peer, Envelope), Error> {
        let peer = self.peer(to)?;
        match tag {
            0.. => Ok((peer, Envelope { context: self.context(), tag })),
            _ => Err(Error::NoSuchTag(tag)),
        }
    }

    fn want(&self, from: Source, tag: Tag) -> Result<Want, Error> {
        let from = match from {
            Source::Rank(rank) => Some(self.peer(rank)?),
            Source::Any => None,
        };
        match tag {
            Tag::Is(tag @ ..0) => Err(Error::NoSuchTag(tag)),
            Tag::Is(tag) => Ok(Want { context: self.context(), from, tag: Some(tag) }),
            Tag::Any => Ok(Want { context: self.context(), from, tag: None }),
        }
    }

    fn status<T: Plain>(&self, status: tagged::Status, room: usize) -> Result<Status, Error> {
        outcome::<T>(status, self.rank_of(status.from), room)
    }
}

/// What a message came to in a place of `room` bytes.
fn outcome<T: Plain>(status: tagged::Status, source: u32, room: usize) -> Result<Status, Error> {
    match status.failure {
        Some(failure) => Err(failed(failure, room as u64)),
        None => Ok(Status { source, tag: status.tag, len: count::<T>(status.len)? }),
    }
}

/// Starts to send values: at once from where they are, or as a vector of their own.
pub(super) fn start_send<T: Plain, V: AsRef<[T]>>(
    engine: &Rc<Engine>,
    values: V,
    own: impl FnOnce(V) -> Vec<T>,
    to: Peer,
    envelope: Envelope,
    mode: Mode,
) -> Result<Request<Vec<T>>, Error> {
    let bytes = values.as_ref().as_bytes();
    let sent = engine.with_layer(|endpoint, layer| {
        let sent = mode == Mode::Standard && layer.tagged.send_bytes_now(endpoint, to, envelope, bytes)?;
        endpoint.flush();
        Ok::<_, Error>(sent)
    })??;
    if sent {
        return Ok(Request::ended(engine, Ok(own(values))));
    }
    let len = bytes.len() as u64;
    let (owned, home) = Owned::new(own(values));
    let sent = engine.with_layer(|endpoint, layer| {
        let sent = layer.tagged.send(endpoint, to, envelope, mode, len, From_::Gather(owned));
        endpoint.flush();
        sent
    })??;
    Ok(match sent {
        Sent::Done => Request::ended(engine, Ok(home.take())),
        Sent::Pending(request) => {
            let end = Box::new(move |status: tagged::Status| {
                status.failure.map_or(Ok(home.take()), |failure| Err(failed(failure, 0)))
            });
            let from = request::From::Peer(to);
            Request::message(engine, request::Message { request, from, take_back: false, end })
        }
    })
}

/// Starts to receive into a vector.
pub(super) fn start_receive<T: Plain, S: 'static>(
    engine: &Rc<Engine>,
    values: Vec<T>,
    want: Want,
    from: request::From,
    outcome: impl FnOnce(tagged::Status) -> Result<S, Error> + 'static,
) -> Result<Request<(Vec<T>, S)>, Error> {
    let (owned, home) = Owned::new(values);
    let sink = Sink::Scatter(owned);
    let received = engine.with_layer(|endpoint, layer| layer.tagged.receive(endpoint, want, sink))?;
    let end = move |status| outcome(status).map(|status| (home.take(), status));
    Ok(match received {
        Received::Done(status) => Request::ended(engine, end(status)),
        Received::Pending(request) => {
            let message = request::Message { request, from, take_back: true, end: Box::new(end) };
            Request::message(engine, message)
        }
    })
}

/// A message that [`Comm::claim`] took, to be received. One that is dropped is received into nothing.
///
/// ```
/// use barewire::mpi;
/// mpi::launch(&[1], |comm| {
///     comm.send(b"abc", 0, 7)?;
///     let message = comm.claim(0, 7)?;
///     assert_eq!(message.status::<u8>()?.len, 3);
///     drop(message);
///     assert!(comm.try_claim(0, 7)?.is_none());
///     Ok::<(), mpi::Error>(())
/// }).unwrap();
/// ```
#[derive(Debug)]
pub struct Message {
    comm: Comm,
    /// There until it is received.
    matched: Option<Matched>,
}

impl Message {
    /// From whom it is, with which tag, and how many elements of type `T` it has.
    ///
    /// ```
    /// use barewire::mpi::{self, Error};
    /// mpi::launch(&[1], |comm| {
    ///     comm.send(b"abc", 0, 7)?;
    ///     let message = comm.claim(0, 7)?;
    ///     assert_eq!(message.status::<u32>(), Err(Error::Ragged { bytes: 3, element: 4 }));
    ///     Ok::<(), Error>(())
    /// }).unwrap();
    /// ```
    pub fn status<T: Plain>(&self) -> Result<Status, Error> {
        let matched = self.matched.as_ref().ok_or(Error::Taken)?;
        self.comm.status::<T>(matched.status(), usize::MAX)
    }

    /// Receives it into a slice, like [`Comm::receive`].
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[1], |comm| {
    ///     comm.send(&[1.5], 0, 7)?;
    ///     let mut got = [0.0];
    ///     comm.claim(0, 7)?.receive(&mut got)?;
    ///     assert_eq!(got, [1.5]);
    ///     Ok::<(), mpi::Error>(())
    /// }).unwrap();
    /// ```
    pub fn receive<T: Plain>(mut self, values: &mut [T]) -> Result<Status, Error> {
        let matched = self.matched.take().ok_or(Error::Taken)?;
        let (from, room) = (matched.status().from, size_of_val(values));
        let receive = |endpoint: &mut Endpoint, layer: &mut Layer, sink| {
            layer.tagged.receive_matched(endpoint, matched, sink)
        };
        let status = self.comm.receive_slowly(values.as_mut_bytes(), receive, Some(from))?;
        self.comm.status::<T>(status, room)
    }

    /// Receives it as a vector of its length. What is no whole number of elements stays unreceived, and is an error.
    ///
    /// ```
    /// use barewire::mpi;
    /// mpi::launch(&[1], |comm| {
    ///     comm.send(&[1u16, 2], 0, 7)?;
    ///     assert_eq!(comm.claim(0, 7)?.receive_vec::<u16>()?.0, [1, 2]);
    ///     Ok::<(), mpi::Error>(())
    /// }).unwrap();
    /// ```
    pub fn receive_vec<T: Plain>(self) -> Result<(Vec<T>, Status), Error> {
        let mut values = zeroed(self.status::<T>()?.len)?;
        let status = self.receive(&mut values)?;
        Ok((values, status))
    }
}

impl Drop for Message {
    fn drop(&mut self) {
        let Some(matched) = self.matched.take() else { return };
        let (nothing, _) = Owned::<u8>::new(Vec::new());
        // Once this process has left the job nobody waits for it.
        let _ = self.comm.engine().with_layer(|endpoint, layer| {
            let received = layer.tagged.receive_matched(endpoint, matched, Sink::Scatter(nothing));
            if let Received::Pending(request) = received {
                layer.abandon(endpoint, request, false);
            }
        });
    }
}
