//! A slow client parts from what is fetched for it.
//!
//! Whoever asks first for what is to be stored has it fetched, for the store and for all who ask meanwhile. If that
//! client does not read as fast as it comes, its exchange becomes two: one goes on fetching at upstream's pace, and the
//! client reads what is collected at its own, as [followers](super::following) do. Otherwise one client that reads a
//! byte a second could hold all who want the same.
//!
//! Only where the length is known: what is not may grow too long for the store, and then it goes at the pace of who
//! asked first.

use breme_cache::Waiter;

use super::part::Part;
use super::tables::{Exchange, ExchangeKey, Route, Stage, Way};
use super::turn::Turn;

impl Turn<'_> {
    /// Parts an exchange's client from what is fetched, if it can read on without it. Tells what the client's exchange
    /// is now.
    pub(super) fn part_from_fetch(&mut self, key: ExchangeKey) -> ExchangeKey {
        let number = self.node.exchange_count.wrapping_add(1);
        let reading_key = ExchangeKey::of(self.node.exchanges.vacant_key());
        let Some(fetching) = self.node.exchanges.get_mut(key.index()) else { return key };
        let Part::Forward(forward) = &fetching.caching else { return key };
        if !fetching.is_request_complete || fetching.answer != Some(Way::Raw) || fetching.client.is_none() {
            return key;
        }
        let waiter = Waiter { shard: self.node.shard.id.0, message: reading_key.message(number) };
        let Some(follower) = forward.reader(waiter) else { return key };
        let reading = fetching.reading_on(number, Part::Read(Box::new(follower)));
        self.node.exchange_count = number;
        self.node.counts.exchanges_open.add();
        let client = reading.client;
        self.node.exchanges.insert(reading);
        if let Some(client) = client.and_then(|client| self.client(client)) {
            client.exchange = Some(reading_key);
        }
        self.hold_server(key, false);
        self.set_exchange_deadline(reading_key);
        reading_key
    }
}

impl Exchange {
    /// What concerns the client, and what the log is to be told of it, in an exchange of its own.
    fn reading_on(&mut self, number: u32, caching: Part) -> Self {
        Self {
            stage: Stage::Answering,
            route: self.route.as_told(),
            answer: self.answer,
            is_answer_begun: true,
            retries: self.retries,
            status: self.status,
            sent: self.sent,
            progress: self.progress,
            upstream_duration: self.upstream_duration,
            received_bytes: self.received_bytes,
            sent_bytes: self.sent_bytes,
            notes: self.notes.take(),
            caching,
            ..Self::new(number, self.client.take(), self.began, self.asked)
        }
    }
}

impl Route {
    /// The same, for the log; the balancer hears of it from the one that fetches.
    fn as_told(&self) -> Self {
        match self {
            Self::Upstream { choice, .. } => {
                Self::Upstream { choice: choice.clone(), tried: Vec::new(), is_open: false }
            }
            Self::Host { name, .. } => Self::Host { name: name.clone(), rest: Vec::new() },
            Self::None => Self::None,
        }
    }
}
