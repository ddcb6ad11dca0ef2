//! What holds for Fast Messages, whatever the wire. One suite, run once for each wire at the end of this file.

#[path = "../../../core/tests/wires/mod.rs"]
#[allow(unused_macros, reason = "the wires are listed here")]
mod wires;

#[path = "../common/mod.rs"]
#[allow(dead_code, reason = "this suite has patterns of its own")]
mod common;

mod kit;
mod waiting;

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use barewire::fm::{Flow, Fm, Handler, Peer, SendError, Stream, WHOLE_BYTES_MAX};

use common::Meeting;
use kit::*;
use waiting::*;
use wires::Wires;

fn messages_keep_their_order_per_pair(wires: &Wires) {
    let setup = |fm: &mut Fm| {
        let (tell, told) = mpsc::channel();
        fm.register(H, move |_, message| {
            tell.send((message.from(), message.words())).unwrap();
            Flow::Continue
        });
        told
    };
    run(3, wires, setup, |fm, told| {
        let others = (0..3).map(Peer).filter(|&peer| peer != fm.me()).collect::<Vec<_>>();
        let count = wires.times(3000) as u32;
        for i in 0..count {
            for &peer in &others {
                fm.send_4(peer, H, [i, fm.me().0, peer.0, 7]).unwrap();
            }
        }
        let mut expected = [0; 3];
        for _ in 0..2 * count {
            let (from, words) = next(fm, &told);
            assert_eq!(words, [expected[from.0 as usize], from.0, fm.me().0, 7]);
            expected[from.0 as usize] += 1;
        }
    });
}

fn a_sender_progresses_until_its_credit_ends_and_extract_drains(wires: &Wires) {
    let (sent, begun) = (AtomicU64::new(0), Meeting::new(2));
    let setup = |fm: &mut Fm| {
        let (tell, told) = mpsc::channel();
        fm.register(H, move |_, message| {
            tell.send(message.words()[0]).unwrap();
            Flow::Continue
        });
        told
    };
    run(2, wires, setup, |fm, told| {
        let other = Peer(1 - fm.me().0);
        // On a wire that loses messages, who computes leaves the other waiting for those it has sent.
        begun.meet(|| _ = fm.extract_all());
        if fm.me() == Peer(0) {
            let mut i = 0u32;
            while fm.try_send(other, H, &i.to_le_bytes()).is_ok() {
                i += 1;
                assert!(i < 1 << 20, "credit has an end");
            }
            assert!(i >= 32, "a sender gets further than {i} messages while its receiver computes");
            sent.store(u64::from(i), SeqCst);
        } else {
            while sent.load(SeqCst) == 0 {
                std::thread::yield_now(); // computes
            }
            let sent = sent.load(SeqCst) as u32;
            fm.extract_all();
            let there = told.try_iter().collect::<Vec<_>>();
            let shm = wires.config.shm && !wires.config.tcp;
            assert!(!shm || there.len() as u32 == sent, "extract takes everything that is there");
            let rest = (there.len() as u32..sent).map(|_| next(fm, &told)).collect::<Vec<_>>();
            assert!(there.into_iter().chain(rest).enumerate().all(|(i, word)| word == i as u32));
        }
    });
}

fn piece_sizes_differ_on_the_two_sides(wires: &Wires) {
    const SIZES: [&[usize]; 5] = [&[1], &[7, 1, 300], &[4096, 5], &[40_000], &[0, 3, 65_536, 1]];
    const LEN: usize = 150_001;
    let setup = |fm: &mut Fm| {
        let (tell, told) = mpsc::channel();
        for (i, sizes) in SIZES.into_iter().enumerate() {
            let tell = tell.clone();
            fm.register_stream(Handler(10 + i as u16), move |mut stream: Stream| {
                let tell = tell.clone();
                async move {
                    let mut bytes = Vec::new();
                    for &size in sizes.iter().cycle() {
                        let at = bytes.len();
                        bytes.resize(at + size, 0);
                        let n = stream.receive(&mut bytes[at..]).await;
                        bytes.truncate(at + n);
                        if n < size || stream.received() == stream.len() {
                            break;
                        }
                    }
                    tell.send(bytes).unwrap();
                    Flow::Continue
                }
            });
        }
        told
    };
    run(2, wires, setup, |fm, told| {
        let other = Peer(1 - fm.me().0);
        for out in SIZES {
            for i in 0..SIZES.len() {
                let data = pattern(LEN, i);
                let mut message = fm.begin_message(other, LEN as u64, Handler(10 + i as u16)).unwrap();
                let (mut at, mut sizes) = (0, out.iter().cycle());
                // One byte at a time for a while is enough.
                while at < LEN {
                    let size = if out == [1] && at > 2000 { LEN } else { *sizes.next().unwrap() };
                    let end = LEN.min(at + size);
                    message.piece(&data[at..end]).unwrap();
                    at = end;
                }
                message.end().unwrap();
                assert_eq!(next(fm, &told), data);
            }
        }
    });
}

fn gathered_pieces_share_a_packet(wires: &Wires) {
    let mut fm = alone(wires);
    let told = collect(&mut fm, H);
    let mut message = fm.begin_message(fm.me(), 10, H).unwrap();
    message.pieces(&[b"header", b"", b"data"]).unwrap();
    message.end().unwrap();
    assert_eq!(fm.extract_all(), 1);
    assert_eq!(told.try_recv().unwrap().1, b"headerdata");
    let data = pattern(100_000, 1);
    let mut message = fm.begin_message(fm.me(), 100_006, H).unwrap();
    message.pieces(&[b"header", &data[..3], &data[3..70_000], &data[70_000..]]).unwrap();
    message.end().unwrap();
    let (_, got) = next(&mut fm, &told);
    assert!(got[..6] == *b"header" && got[6..] == data);
}

fn a_long_message_from_one_does_not_delay_another(wires: &Wires) {
    const LEN: usize = 1 << 20;
    let (half, end) = (Meeting::new(2), Meeting::new(2));
    let setup = |fm: &mut Fm| collect(fm, H);
    run(3, wires, setup, |fm, told| match fm.me().0 {
        0 => {
            half.meet(|| _ = fm.extract_all());
            let (from, bytes) = next(fm, &told);
            assert!(from == Peer(2) && bytes == b"short", "while the other's is still open");
            let (from, bytes) = next(fm, &told);
            assert!(from == Peer(2) && bytes == pattern(LEN, 2), "a long one too");
            let since = Instant::now();
            while fm.counters().started < 3 {
                // On a wire that loses messages its beginning may still be on its way.
                fm.extract_all();
                assert!(since.elapsed() < Duration::from_secs(60), "the other's has begun");
            }
            assert_eq!(fm.counters().started, 3);
            end.meet(|| _ = fm.extract_all());
            let (from, bytes) = next(fm, &told);
            assert!(from == Peer(1) && bytes == pattern(LEN, 1));
        }
        1 => {
            let data = pattern(LEN, 1);
            let mut message = fm.begin_message(Peer(0), LEN as u64, H).unwrap();
            message.piece(&data[..3000]).unwrap();
            half.meet(|| _ = message.fm().extract_all());
            end.meet(|| _ = message.fm().extract_all());
            message.piece(&data[3000..]).unwrap();
            message.end().unwrap();
        }
        _ => {
            fm.send(Peer(0), H, b"short").unwrap();
            fm.send(Peer(0), H, &pattern(LEN, 2)).unwrap();
        }
    });
}

fn extract_overshoots_by_at_most_one_packet(wires: &Wires) {
    let mut fm = alone(wires);
    let taken = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&taken);
    fm.register(H, move |_, message| {
        count.fetch_add(message.len(), SeqCst);
        Flow::Continue
    });
    (0..12).for_each(|_| fm.try_send(fm.me(), H, &[7; 100]).unwrap());
    for (budget, bytes) in [(1, 100), (100, 100), (101, 200), (250, 300)] {
        taken.store(0, SeqCst);
        fm.extract(budget);
        assert_eq!(taken.load(SeqCst), bytes, "of a budget of {budget}");
    }
    taken.store(0, SeqCst);
    fm.extract(usize::MAX);
    assert_eq!(taken.load(SeqCst), 500);
    for _ in 0..70 {
        fm.try_send(fm.me(), H, b"").unwrap();
    }
    assert_eq!(fm.extract(66), 66, "an empty message counts for a byte, and the budget holds beyond a batch");
}

fn quit_stops_extracting(wires: &Wires) {
    let mut fm = alone(wires);
    let (me, gate) = (fm.me(), Gate::default());
    fm.register(H, |_, message| if message.words()[0] % 3 == 2 { Flow::Quit } else { Flow::Continue });
    fm.register_stream(OTHER, |_| async { Flow::Quit });
    let gate_there = gate.clone();
    fm.register_stream(Handler(3), move |_| {
        let gate = gate_there.clone();
        async move {
            gate.wait().await;
            Flow::Quit
        }
    });
    (0..9).for_each(|i| fm.send_4(me, H, [i; 4]).unwrap());
    assert_eq!([fm.extract_all(), fm.extract_all(), fm.extract_all(), fm.extract_all()], [3, 3, 3, 0]);
    (0..70).for_each(|i| fm.send_4(me, H, [if i == 66 { 2 } else { 0 }; 4]).unwrap());
    assert_eq!([fm.extract_all(), fm.extract_all()], [67, 3], "beyond a batch");
    (0..2).for_each(|_| fm.send(me, OTHER, b"").unwrap());
    assert_eq!([fm.extract_all(), fm.extract_all(), fm.extract_all()], [1, 1, 0]);
    (0..2).for_each(|_| fm.send(me, Handler(3), b"").unwrap());
    assert_eq!(fm.extract_all(), 2);
    fm.send(me, H, b"").unwrap();
    gate.open();
    assert_eq!([fm.extract_all(), fm.extract_all(), fm.extract_all()], [0, 0, 1], "each woken handler quits");
}

fn bytes_whose_destination_is_known_are_copied_once(wires: &Wires) {
    const LEN: usize = 4 << 20;
    let setup = |fm: &mut Fm| {
        let (tell, told) = mpsc::channel();
        fm.register_stream(H, move |mut stream: Stream| {
            let tell = tell.clone();
            async move {
                let mut header = [0; 8];
                stream.receive(&mut header).await;
                let mut place = vec![0; u64::from_le_bytes(header) as usize];
                let n = stream.receive(&mut place).await;
                tell.send((n, place)).unwrap();
                Flow::Continue
            }
        });
        told
    };
    run(2, wires, setup, |fm, told| {
        let other = Peer(1 - fm.me().0);
        let data = pattern(LEN, 5);
        for len in [10, LEN] {
            let mut message = fm.begin_message(other, 8 + len as u64, H).unwrap();
            message.pieces(&[&(len as u64).to_le_bytes(), &data[..len]]).unwrap();
            message.end().unwrap();
            assert!(next(fm, &told) == (len, data[..len].to_vec()));
        }
        assert_eq!(fm.counters().staged_bytes, 0);
        assert_eq!(fm.endpoint().stats().held, 0);
    });
}

fn messages_of_every_length_arrive_whole(wires: &Wires) {
    let setup = |fm: &mut Fm| {
        let (tell, plain) = mpsc::channel();
        fm.register(OTHER, move |_, message| {
            tell.send((message.from(), message.to_vec())).unwrap();
            Flow::Continue
        });
        (collect(fm, H), plain)
    };
    run(2, wires, setup, |fm, (told, plain)| {
        let other = Peer(1 - fm.me().0);
        let [long, longest] = [1_000_003, 64 << 20].map(|len| wires.times(len) as usize);
        for len in [0, 1, 2, 15, 16, 47, 48, 49, 4095, 4096, 4097, 32_768, 32_769, long, longest] {
            let data = pattern(len, len);
            fm.send(other, H, &data).unwrap();
            assert!(next(fm, &told) == (other, data.clone()), "{len} bytes to a stream handler");
            fm.send(other, OTHER, &data).unwrap();
            assert!(next(fm, &plain) == (other, data), "{len} bytes to a plain handler");
        }
    });
}

fn lengths_go_beyond_four_gigabytes(wires: &Wires) {
    let mut fm = alone(wires);
    let (tell, told) = mpsc::channel();
    fm.register_stream(H, move |mut stream: Stream| {
        let tell = tell.clone();
        async move {
            let announced = stream.len();
            let mut bytes = [0; 1000];
            let n = stream.receive(&mut bytes).await;
            tell.send((announced, n, stream.len())).unwrap();
            Flow::Continue
        }
    });
    for len in [5 << 30, u64::MAX] {
        let mut message = fm.begin_message(fm.me(), len, H).unwrap();
        message.piece(&[1; 100]).unwrap();
        message.piece(&[2; 50]).unwrap();
        message.end().unwrap();
        assert_eq!(next(&mut fm, &told), (len, 150, 150), "announced, received, and how long it really was");
    }
    let mut message = fm.begin_message(fm.me(), 10, H).unwrap();
    message.piece(&[0; 4]).unwrap();
    assert_eq!(message.piece(&[0; 7]), Err(SendError::PastEnd { len: 11, max: 10 }));
}

fn unread_bytes_are_discarded(wires: &Wires) {
    let mut fm = alone(wires);
    let (tell, told) = mpsc::channel();
    fm.register_stream(H, move |mut stream: Stream| {
        let tell = tell.clone();
        async move {
            let mut four = [0; 4];
            stream.receive(&mut four).await;
            tell.send(four).unwrap();
            Flow::Continue
        }
    });
    fm.register_stream(OTHER, |_| async { Flow::Continue });
    for i in 0..20u8 {
        let len = if i % 2 == 0 { 1000 } else { 300_000 };
        fm.send(fm.me(), OTHER, &vec![i; len]).unwrap();
        fm.send(fm.me(), H, &vec![i; len]).unwrap();
        assert_eq!(next(&mut fm, &told), [i; 4]);
    }
    // The tail of the last one comes, starts nothing and is gone.
    fm.send(fm.me(), H, &[99; 4]).unwrap();
    assert_eq!(next(&mut fm, &told), [99; 4]);
    assert_eq!((fm.counters().started, fm.counters().staged_bytes), (41, 0));
}

fn a_message_nobody_claims_is_counted_and_gone(wires: &Wires) {
    let mut fm = alone(wires);
    fm.send(fm.me(), Handler(77), b"short").unwrap();
    fm.send(fm.me(), Handler(u16::MAX), &[1; 200_000]).unwrap();
    let told = collect(&mut fm, H);
    fm.send(fm.me(), H, b"end").unwrap();
    assert_eq!(next(&mut fm, &told).1, b"end");
    assert_eq!(fm.counters().unclaimed, 2);
}

fn a_message_too_long_for_a_plain_handler_is_counted_and_gone(wires: &Wires) {
    let mut fm = alone(wires);
    fm.register(H, |_, _| panic!("it must not run"));
    let told = collect(&mut fm, OTHER);
    fm.send(fm.me(), H, &vec![1; WHOLE_BYTES_MAX + 1]).unwrap();
    fm.send(fm.me(), OTHER, b"end").unwrap();
    assert_eq!(next(&mut fm, &told).1, b"end");
    assert_eq!(fm.counters().too_long, 1);
}

fn a_dropped_message_ends_where_it_stands(wires: &Wires) {
    let mut fm = alone(wires);
    let told = collect(&mut fm, H);
    let mut message = fm.begin_message(fm.me(), 1 << 20, H).unwrap();
    message.piece(b"so far").unwrap();
    drop(message);
    assert_eq!(next(&mut fm, &told).1, b"so far");
    drop(fm.begin_message(fm.me(), 1 << 20, H).unwrap());
    // When there is no room for its end, that follows as soon as there is.
    let mut message = fm.begin_message(fm.me(), 64 << 20, H).unwrap();
    let mut sent = 0;
    while let Ok(n) = message.try_piece(&[7; 5000]) {
        sent += n;
    }
    drop(message);
    assert_eq!(next(&mut fm, &told).1, vec![7; sent]);
    assert!(told.try_recv().is_err(), "a message without a piece was never there");
}

fn a_plain_handler_is_refused_rather_than_left_to_spin(wires: &Wires) {
    let mut fm = alone(wires);
    let (tell, told) = mpsc::channel();
    fm.register(H, move |context, message| {
        let me = context.me();
        let refused = (0..100_000).find_map(|_| context.send(me, OTHER, b"more").err());
        tell.send((message.len(), refused)).unwrap();
        Flow::Quit
    });
    fm.register(OTHER, |_, _| Flow::Continue);
    fm.send(fm.me(), H, b"go").unwrap();
    fm.extract_all();
    assert_eq!(told.try_recv(), Ok((2, Some(SendError::Full))));
    fm.extract_all();
    fm.try_send(fm.me(), OTHER, b"there is room again").unwrap();
}

#[test]
fn fast_messages_move_between_threads() {
    fn is_send<T: Send>() {}
    is_send::<Fm>();
    is_send::<Stream>();
}

/// Little room: messages wait, and long ones come in small pieces.
fn shm_with_little_room() -> Wires {
    Wires::shm().with(|config| (config.ring_bytes, config.pool_bytes) = (Some(8192), Some(1 << 16)))
}

/// Little credit: a sender waits for every packet or two.
fn tcp_with_little_credit() -> Wires {
    Wires::tcp().with(|config| config.credit_bytes = 8192)
}

macro_rules! suite {
    ($($name:ident: $wires:expr;)*) => { $(
        mod $name {
            suite! { @ $wires;
                messages_keep_their_order_per_pair
                a_sender_progresses_until_its_credit_ends_and_extract_drains
                piece_sizes_differ_on_the_two_sides
                gathered_pieces_share_a_packet
                a_long_message_from_one_does_not_delay_another
                extract_overshoots_by_at_most_one_packet
                quit_stops_extracting
                bytes_whose_destination_is_known_are_copied_once
                a_suspended_handler_holds_its_credit_and_stops_the_sender
                messages_of_every_length_arrive_whole
                lengths_go_beyond_four_gigabytes
                unread_bytes_are_discarded
                a_message_nobody_claims_is_counted_and_gone
                a_message_too_long_for_a_plain_handler_is_counted_and_gone
                a_dropped_message_ends_where_it_stands
                a_plain_handler_is_refused_rather_than_left_to_spin
                handlers_that_send_are_suspended_until_there_is_room
                a_handler_whose_sender_is_lost_is_dropped
                a_receive_inside_another_future_is_woken
                a_stream_taken_elsewhere_is_at_its_end
                extract_can_be_awaited_under_a_plain_executor
                extract_can_be_awaited_under_tokio
                a_handler_woken_by_another_thread_ends_a_sleep
            }
        }
    )* };
    (@ $wires:expr; $($test:ident)*) => { $(
        #[test]
        fn $test() {
            super::$test(&$wires);
        }
    )* };
}

suite! {
    shm: super::Wires::shm();
    shm_with_little_room: super::shm_with_little_room();
    tcp: super::Wires::tcp();
    tcp_with_little_credit: super::tcp_with_little_credit();
    sim_good: super::Wires::sim_good();
    sim_poor: super::Wires::sim_poor();
}
