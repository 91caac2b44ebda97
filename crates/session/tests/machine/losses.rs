//! An engine that has lost what it confirmed.

use breme_session::{Access, Event, Registers, SessionState, SessionTarget};
use bytes::Bytes;

use crate::lab::{End, KEY, Lab, NEW, name};
use crate::{seconds, settings};

/// A lease, and the time for which a read may be stale.
const NOTICED: u64 = 70;

/// The nodes are members again, and serve sessions together.
fn require_recovered(lab: &mut Lab) {
    for node in [0, 1] {
        assert_eq!(lab.nodes[node].incarnation().unwrap().number, 2);
        assert!(!lab.nodes[node].gauges(lab.moment()).lease_margin.is_zero());
        let lost = |event: &&Event| matches!(event, Event::DataLost(life) if life.number == 1);
        assert!(lab.events(node).iter().any(lost));
    }
    let request = lab.begin_with(0, SessionTarget::New(NEW), Access::Exclusive, 0);
    assert_eq!(lab.ends(request), [End::Run(Bytes::new())]);
    lab.write(0, request, "new");
    assert!(matches!(lab.record(NEW).unwrap().state, SessionState::Owned(owner) if owner.node == name(0)));
    let elsewhere = lab.begin_with(1, SessionTarget::Existing(NEW), Access::Exclusive, 0);
    assert_eq!(lab.ends(elsewhere), [End::Forwarded(name(0))]);
}

#[test]
fn nodes_begin_anew_with_an_engine_that_has_lost_everything() {
    let mut lab = Lab::new(&settings(), 2);
    lab.create(0, "x");
    lab.engine = Registers::default();
    lab.pass(seconds(10));
    let refused = lab.begin(0);
    lab.write(0, refused, "y");
    assert_eq!(lab.nodes[0].incarnation().unwrap().number, 1, "a read may be stale");
    lab.pass(seconds(NOTICED));
    require_recovered(&mut lab);
    assert_eq!((lab.read(0), lab.read(1)), (vec![End::Absent], vec![End::Absent]));
}

#[test]
fn nodes_begin_anew_with_a_restored_engine() {
    let mut lab = Lab::new(&settings(), 2);
    lab.create(0, "x");
    lab.pass(seconds(5));
    let backup = lab.engine.clone();
    lab.pass(seconds(60));
    lab.engine = backup;
    lab.pass(seconds(NOTICED));
    require_recovered(&mut lab);
    let request = lab.begin_with(0, SessionTarget::Existing(KEY), Access::Exclusive, 0);
    assert_eq!(lab.ends(request), [End::Run("x".into())]);
}
