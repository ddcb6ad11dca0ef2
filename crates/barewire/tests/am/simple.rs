//! The first Active Messages.

use barewire::am::{Call, CallError, Simple};

use crate::*;

type Got = Vec<(u32, u64, Vec<u64>)>;

fn run_simple(size: u32, wire: &Wire, body: impl Fn(&mut Simple<Got>) + Sync) {
    let done = Meeting::new(size);
    run_cores(size, wire, |core| {
        let mut am = Simple::new(core, Vec::new());
        am.set_handler(1, |call: &mut Call<'_, Got>, args| {
            let from = call.source().0;
            call.state.push((from, 1, args.to_vec()));
            call.reply(255, args).unwrap();
        });
        am.set_handler(255, |call, args| {
            let from = call.source().0;
            call.state.push((from, 255, args.to_vec()));
        });
        body(&mut am);
        done.meet(|| {
            am.poll();
        });
    });
}

pub fn each_message_runs_its_handler_once_and_in_order(wire: &Wire) {
    let each = wire.wires.times(900);
    run_simple(3, wire, |am| {
        let args = |number: u64| -> Vec<u64> { (0..number % 9).map(|i| number + i).collect() };
        for number in 0..each {
            (0..3).for_each(|to| am.request(Peer(to), 1, &args(number)).unwrap());
        }
        am.wait(PATIENCE, |got| got.len() as u64 == 6 * each).unwrap();
        for (peer, handler) in (0..3).flat_map(|peer| [(peer, 1), (peer, 255)]) {
            let of = |got: &&(u32, u64, Vec<u64>)| (got.0, got.1) == (peer, handler);
            let seen: Vec<_> = am.state().iter().filter(of).map(|got| got.2.clone()).collect();
            assert_eq!(seen, (0..each).map(args).collect::<Vec<_>>());
        }
    });
}

pub fn a_storm_both_ways_ends(wire: &Wire) {
    let each = wire.wires.times(5000);
    run_simple(2, wire, |am| {
        let other = Peer(1 - am.core().me().0);
        for number in 0..each {
            am.request(other, 1, &[number; 7]).unwrap();
        }
        am.wait(PATIENCE, |got| got.len() as u64 == 2 * each).unwrap();
    });
}

pub fn the_rules_of_reply_and_request_hold(wire: &Wire) {
    run_simple(2, wire, |am| {
        let other = Peer(1 - am.core().me().0);
        am.set_handler(2, move |call, _| {
            assert_eq!(call.reply(3, &[0; 9]), Err(CallError::TooManyArgs(9)));
            call.reply(3, &[]).unwrap();
            assert_eq!(call.reply(3, &[]), Err(CallError::NoReply));
            call.request(other, 255, &[7]).unwrap();
        });
        am.set_handler(3, move |call, _| {
            assert_eq!(call.request(other, 255, &[]), Err(CallError::FromReply));
            assert_eq!(call.reply(255, &[]), Err(CallError::NoReply));
            call.state.push((0, 3, Vec::new()));
        });
        am.request(other, 2, &[]).unwrap();
        assert_eq!(am.request(other, 2, &[0; 9]), Err(CallError::TooManyArgs(9)));
        am.wait(PATIENCE, |got| got.len() == 2).unwrap();
        let mut handlers: Vec<u64> = am.state().iter().map(|got| got.1).collect();
        handlers.sort_unstable();
        assert_eq!(handlers, [3, 255]);
    });
}
