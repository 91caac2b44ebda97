//! Names of nodes: many, and the same one twice.

use breme_session::{
    Access, EngineRequest, Event, Incarnation, Machine, NodeName, NodeRecord, NodeState, Owner, Register, Sequence,
    SessionRecord, SessionState, Settings,
};

use crate::lab::{KEY, Lab, NEW, done, name};
use crate::{seconds, settings};

/// The engine gets a node in this state, and watchers learn of it.
fn announce(lab: &mut Lab, node: &str, state: NodeState) -> Owner {
    let (node, incarnation) = (NodeName::new(node).unwrap(), Incarnation { number: 1, nonce: 7 });
    let record = NodeRecord { incarnation, state, renewal: 0, address: "other:1".to_owned() };
    let register = Register::Node(node);
    let (expected, value) = (Sequence::ABSENT, record.encode(&node));
    let request = EngineRequest::CompareAndSet { register, expected, value: value.clone(), time_to_live: None };
    lab.engine.execute(lab.now, &request);
    let (sequence, _) = lab.engine.read(lab.now, &register).unwrap();
    lab.input(0, breme_session::Input::Watched { register, sequence, value });
    Owner { node, incarnation }
}

/// Replaces the owner in the session's record.
fn give_to(lab: &mut Lab, owner: Owner) {
    let register = Register::Session(KEY);
    let (expected, _) = lab.engine.read(lab.now, &register).unwrap();
    let record = lab.record(KEY).unwrap();
    let record = SessionRecord { state: SessionState::Owned(owner), version: record.version + 1, ..record };
    let value = record.encode(&KEY);
    let request = EngineRequest::CompareAndSet { register, expected, value, time_to_live: None };
    lab.engine.execute(lab.now, &request);
}

#[test]
fn names_of_former_nodes_make_room() {
    let mut lab = Lab::new(&Settings { nodes_max: 8, sessions_max: 1, ..settings() }, 1);
    for number in 0..100 {
        announce(&mut lab, &format!("pod-{number}"), NodeState::Over);
    }
    lab.create(0, "x");
    // The node forgets that it owned the session.
    let other = lab.begin_with(0, breme_session::SessionTarget::New(NEW), Access::Exclusive, 0);
    lab.write(0, other, "y");
    let owner = announce(&mut lab, "pod-new", NodeState::Active);
    give_to(&mut lab, owner);
    let request = lab.begin(0);
    assert_eq!(lab.ends(request), [crate::lab::End::Forwarded(owner.node)]);
    lab.input(
        0,
        breme_session::Input::ForwardEnded { request, result: breme_session::ForwardResult::Responded { by: None } },
    );
    lab.pass(seconds(70));
    let former = Owner { node: NodeName::new("pod-1").unwrap(), ..owner };
    give_to(&mut lab, former);
    assert_eq!(lab.read(0), done("x"), "what was forgotten is read again");
}

#[test]
fn a_second_process_of_the_same_name_is_reported_once() {
    let mut lab = Lab::new(&settings(), 1);
    lab.nodes.push(Machine::new(settings(), name(0), 99).unwrap());
    lab.pass(seconds(60));
    assert_eq!(lab.nodes[1].incarnation(), None);
    let taken = Event::NameTaken { address: settings().address };
    assert_eq!(lab.events(1), [&taken]);
}
