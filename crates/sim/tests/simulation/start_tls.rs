//! TLS requested on a closed connection fails.

use std::time::Duration;

use breme_base::Instant;
use breme_node::{
    Accepted, Actions, Close, CloseReason, ConnectError, ConnectResult, ConnectTicket, ConnectionId, Node, Received,
    TlsClientId, TlsFailure,
};
use breme_sim::{Network, Simulation};
use breme_testkit::{Client, Script};

use crate::world::surroundings;

/// Requests TLS too late, and keeps the errors.
#[derive(Default)]
struct Late(Vec<ConnectError>);

impl Node for Late {
    fn handle_accepted(&mut self, _: Instant, _: ConnectionId, _: Accepted, _: &mut Actions) {}

    fn handle_connected(&mut self, _: Instant, _: ConnectTicket, result: ConnectResult, _: &mut Actions) {
        self.0.extend(result.err());
    }

    fn handle_received(&mut self, _: Instant, id: ConnectionId, input: Received<'_>, actions: &mut Actions) -> usize {
        if input.ended {
            actions.close(id, Close::Graceful);
        }
        input.bytes.len()
    }

    fn handle_closed(&mut self, _: Instant, id: ConnectionId, _: CloseReason, actions: &mut Actions) {
        actions.start_tls(id, ConnectTicket(1), TlsClientId(0));
    }

    fn handle_stopping(&mut self, _: Instant, _: &mut Actions) {}
}

#[test]
fn closed_connection_does_not_start_tls() {
    let mut simulation = Simulation::new(1, Network::calm());
    let server = simulation.serve("server", 1, |_| Late::default());
    let surroundings = surroundings(&simulation, server);
    let script = Script::new().connect().part();
    simulation.client("client", 1, |_| Client::new(&surroundings, Duration::from_secs(9), vec![script.clone()]));
    simulation.run().unwrap_or_else(|stuck| panic!("{stuck}"));
    assert_eq!(simulation.take(server).remove(0).0, [ConnectError::Tls(TlsFailure::Closed)]);
}
