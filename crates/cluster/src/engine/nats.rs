//! Registers in NATS JetStream: for several machines.
//!
//! A register is a subject of a stream that keeps the last message of each subject. A compare-and-set is a publish with
//! the expected sequence of the subject's last message. Reads go to the leader of the stream, which may have been
//! replaced, so they may be stale; direct reads from any replica are disabled nevertheless, as they are stale often.
//!
//! Sessions are spread over [`SHARDS`] streams, each with its own leader, so that the servers share the work and the
//! loss of a server stops only about a third of them, if the servers lead equally many streams. The names of all
//! streams and subjects contain their number: nodes that spread sessions over another number of streams are another
//! cluster.
//!
//! The durability of a commit depends on the servers: with `sync_interval: always` each of them has synced its disk
//! before it counts for the quorum; by default they sync every two minutes, and a power failure of a majority within
//! that time loses commits. Servers older than [`VERSION_MIN`] are refused, since they lose acknowledged messages or
//! accept a compare-and-set that they must reject (nats-server#6888, #3375; leader changes during a compare-and-set).

use std::error::Error as _;
use std::time::Duration;

use async_nats::jetstream::consumer::{DeliverPolicy, push};
use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::stream::{
    Config, DiscardPolicy, LastRawMessageErrorKind, RetentionPolicy, StorageType, Stream,
};
use async_nats::jetstream::{self, ErrorCode};
use async_nats::{Client, ConnectOptions, ServerAddr};
use async_trait::async_trait;
use breme_session::{EngineRequest, EngineResponse, NodeName, Register, Sequence, SessionKey};
use futures_util::StreamExt;
use tokio::sync::mpsc;

use super::{Engine, EngineError, NodeChange, WATCH_MAX};
use crate::reports::Reports;

/// Number of streams of sessions. A constant, since all nodes must find a session in the same stream. A server syncs
/// what a stream has received at a time, so fewer streams have larger batches. Three servers can share six evenly.
pub const SHARDS: u8 = 6;
/// The oldest accepted server.
pub const VERSION_MIN: (u32, u32, u32) = (2, 15, 2);
/// After this time without a response, the outcome of a request is unknown.
pub const RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Limit of the compare-and-sets without a response; further ones are refused.
pub const IN_FLIGHT_MAX: usize = 16_384;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Limit of the pause between attempts to reconnect.
const RECONNECT_PAUSE_MAX: Duration = Duration::from_millis(500);
/// Pause before a watch that has ended is restarted.
const WATCH_PAUSE: Duration = Duration::from_millis(500);

/// Location of the registers.
#[derive(Clone, Debug)]
pub struct NatsSettings {
    /// Servers, `nats://HOST:PORT` or `tls://HOST:PORT`, separated by commas. One reachable server is enough.
    pub servers: String,
    /// The cluster's name, so that several clusters can share the servers: letters, digits, `-` and `_`.
    pub cluster: NodeName,
    /// Number of servers that store each register: 1, 3 or 5.
    pub replicas: usize,
}

/// Registers in NATS JetStream.
pub struct NatsEngine {
    cluster: NodeName,
    client: Client,
    context: jetstream::Context,
    sessions: Vec<Stream<()>>,
    nodes: Stream<()>,
    reports: Reports,
}

impl NatsEngine {
    /// Connects, and creates missing streams.
    ///
    /// # Errors
    ///
    /// If no server responds, the server is too old, has no JetStream, or cannot create the streams.
    pub async fn connect(settings: &NatsSettings) -> Result<Self, EngineError> {
        let client = connect(&settings.servers).await?;
        check_version(&client.server_info().version)?;
        let context = jetstream::context::ContextBuilder::new()
            .timeout(RESPONSE_TIMEOUT)
            .ack_timeout(RESPONSE_TIMEOUT)
            .max_ack_inflight(IN_FLIGHT_MAX)
            .backpressure_on_inflight(false)
            .build(client.clone());
        let mut sessions = Vec::with_capacity(usize::from(SHARDS));
        for shard in 0..SHARDS {
            let name = session_stream(settings.cluster, shard);
            sessions.push(create_stream(&context, settings, &name, &format!("s.{shard}.*")).await?);
        }
        let nodes = create_stream(&context, settings, &node_stream(settings.cluster), "n.*").await?;
        Ok(Self { cluster: settings.cluster, client, context, sessions, nodes, reports: Reports::default() })
    }

    fn subject(&self, register: Register) -> String {
        let prefix = subject_prefix(self.cluster);
        match register {
            Register::Session(key) => format!("{prefix}.s.{}.{key}", shard_of(&key)),
            Register::Node(node) => format!("{prefix}.n.{node}"),
        }
    }

    fn stream(&self, register: &Register) -> &Stream<()> {
        match register {
            Register::Session(key) => &self.sessions[usize::from(shard_of(key))],
            Register::Node(_) => &self.nodes,
        }
    }

    fn stream_name(&self, register: &Register) -> String {
        match register {
            Register::Session(key) => session_stream(self.cluster, shard_of(key)),
            Register::Node(_) => node_stream(self.cluster),
        }
    }

    async fn read(&self, register: Register) -> EngineResponse {
        match self.stream(&register).get_last_raw_message_by_subject(&self.subject(register)).await {
            Ok(message) => EngineResponse::Found(Some((Sequence(message.sequence), message.payload))),
            Err(error) if matches!(error.kind(), LastRawMessageErrorKind::NoMessageFound) => {
                EngineResponse::Found(None)
            }
            Err(error) => {
                let stream = self.stream_name(&register);
                self.reports.report(&format!("NATS does not read from the stream {stream}: {error}"));
                EngineResponse::Refused
            }
        }
    }

    async fn compare_and_set(&self, register: Register, expected: Sequence, message: PublishMessage) -> EngineResponse {
        // The client would queue the message until it has reconnected, long after the response was needed.
        if self.client.connection_state() != async_nats::connection::State::Connected {
            self.reports.report("no connection to NATS: nothing is stored");
            return EngineResponse::Refused;
        }
        let message = message.expected_last_subject_sequence(expected.0);
        let response = match self.context.send_publish(self.subject(register), message).await {
            Ok(response) => response.await,
            Err(error) => Err(error),
        };
        match response {
            Ok(ack) => EngineResponse::Committed(Sequence(ack.sequence)),
            Err(error) => {
                if let Some(cause) = cause_of(&error) {
                    let stream = self.stream_name(&register);
                    self.reports.report(&format!("NATS does not store in the stream {stream}: {cause}"));
                }
                outcome_of(&error)
            }
        }
    }
}

#[async_trait]
impl Engine for NatsEngine {
    async fn execute(&self, request: EngineRequest) -> EngineResponse {
        match request {
            EngineRequest::Read { register } => self.read(register).await,
            EngineRequest::CompareAndSet { register, expected, value, time_to_live } => {
                let mut message = PublishMessage::build().payload(value);
                if let Some(time) = time_to_live {
                    // In whole seconds, rounded up, since no value may expire early.
                    message = message.ttl(Duration::from_secs(time.as_secs() + 1));
                }
                self.compare_and_set(register, expected, message).await
            }
        }
    }

    async fn watch_nodes(&self) -> Result<mpsc::Receiver<NodeChange>, EngineError> {
        let (changes, receiver) = mpsc::channel(WATCH_MAX);
        let subject = format!("{}.n.*", subject_prefix(self.cluster));
        let watch = Watch { client: self.client.clone(), stream: self.nodes.clone(), subject, changes };
        tokio::spawn(watch.run());
        Ok(receiver)
    }
}

impl std::fmt::Debug for NatsEngine {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("NatsEngine").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

/// The task that watches the registers of nodes until the receiver is dropped.
struct Watch {
    client: Client,
    stream: Stream<()>,
    subject: String,
    changes: mpsc::Sender<NodeChange>,
}

impl Watch {
    async fn run(self) {
        while !self.changes.is_closed() {
            // A consumer ends with its server, and if its heartbeats are missing.
            let _ = self.follow().await;
            tokio::select! {
                () = tokio::time::sleep(WATCH_PAUSE) => {}
                () = self.changes.closed() => {}
            }
        }
    }

    async fn follow(&self) -> Result<(), async_nats::Error> {
        let consumer = push::OrderedConfig {
            deliver_subject: self.client.new_inbox(),
            deliver_policy: DeliverPolicy::LastPerSubject,
            // Required by the server with this policy.
            filter_subject: self.subject.clone(),
            ..push::OrderedConfig::default()
        };
        let mut messages = self.stream.create_consumer(consumer).await?.messages().await?;
        loop {
            tokio::select! {
                message = messages.next() => match message {
                    Some(message) => self.report(&message?)?,
                    None => return Ok(()),
                },
                () = self.changes.closed() => return Ok(()),
            }
        }
    }

    fn report(&self, message: &jetstream::Message) -> Result<(), async_nats::Error> {
        let Some(register) = message.subject.rsplit('.').next().and_then(|node| NodeName::new(node).ok()) else {
            return Ok(());
        };
        let sequence = Sequence(message.info()?.stream_sequence);
        let change = NodeChange { register: Register::Node(register), sequence, value: message.payload.clone() };
        // A full channel loses the change, which a watch allows.
        let _ = self.changes.try_send(change);
        Ok(())
    }
}

async fn connect(servers: &str) -> Result<Client, EngineError> {
    let addresses: Vec<ServerAddr> = servers
        .split(',')
        .map(|server| {
            server.trim().parse().map_err(|error| {
                EngineError::new(format!(
                    "`{server}` is not the address of a NATS server: {error}; use nats://HOST:PORT"
                ))
            })
        })
        .collect::<Result<_, _>>()?;
    ConnectOptions::new()
        .name("breme session")
        .connection_timeout(CONNECT_TIMEOUT)
        .request_timeout(Some(RESPONSE_TIMEOUT))
        .ping_interval(Duration::from_secs(2))
        .reconnect_delay_callback(|attempts| {
            RECONNECT_PAUSE_MAX.min(Duration::from_millis(10 * u64::try_from(attempts).unwrap_or(u64::MAX).min(50)))
        })
        .connect(addresses)
        .await
        .map_err(|error| EngineError::temporary(format!("cannot connect to NATS at {servers}: {error}")))
}

fn check_version(version: &str) -> Result<(), EngineError> {
    let mut numbers = version.split(['.', '-']).map(|number| number.parse::<u32>().unwrap_or(0));
    let mut next = || numbers.next().unwrap_or(0);
    if (next(), next(), next()) >= VERSION_MIN {
        return Ok(());
    }
    let (major, minor, patch) = VERSION_MIN;
    Err(EngineError::new(format!(
        "nats-server {version} is too old for sessions, since it can lose acknowledged messages: use {major}.{minor}.{patch} or newer"
    )))
}

async fn create_stream(
    context: &jetstream::Context,
    settings: &NatsSettings,
    name: &str,
    subject: &str,
) -> Result<Stream<()>, EngineError> {
    let config = Config {
        name: name.to_owned(),
        subjects: vec![format!("{}.{subject}", subject_prefix(settings.cluster))],
        max_messages_per_subject: 1,
        discard: DiscardPolicy::New,
        storage: StorageType::File,
        num_replicas: settings.replicas,
        allow_direct: false,
        allow_message_ttl: true,
        ..Config::default()
    };
    let created = context.get_or_create_stream(config).await.map_err(|error| {
        let remedy = match error.source().map(ToString::to_string) {
            Some(text) if text.contains("replicas > 1 not supported") => {
                ": this server is not part of a cluster; start a cluster of three, or use one replica"
            }
            _ => "",
        };
        let replicas = settings.replicas;
        let message = format!("cannot create the stream {name} with {replicas} replicas: {error}{remedy}");
        if remedy.is_empty() { EngineError::temporary(message) } else { EngineError::new(message) }
    })?;
    if let Some(fault) = fault_of(&created.cached_info().config, settings.replicas) {
        return Err(EngineError::new(format!("the stream {name} exists, and {fault}")));
    }
    context
        .get_stream_no_info(name)
        .await
        .map_err(|error| EngineError::temporary(format!("cannot use the stream {name}: {error}")))
}

/// Why an existing stream does not keep registers as promised, with the remedy; none if it does.
fn fault_of(found: &Config, replicas: usize) -> Option<String> {
    let is_foreign = found.max_messages_per_subject != 1
        || found.discard_new_per_subject
        || found.allow_direct
        || !found.allow_message_ttl
        || found.no_ack
        || found.retention != RetentionPolicy::Limits;
    let remedy = "delete it, or choose another name for the cluster";
    if is_foreign {
        return Some(format!("is not one of sessions: {remedy}"));
    }
    if found.storage != StorageType::File {
        return Some(format!("stores sessions in memory only: {remedy}"));
    }
    let name = &found.name;
    if found.num_replicas < replicas {
        let stored = found.num_replicas;
        return Some(format!(
            "has {stored} replicas instead of {replicas}: run `nats stream edit {name} --replicas {replicas}`, or use --replicas {stored}"
        ));
    }
    let loses = [
        (found.discard != DiscardPolicy::New, "old sessions for new ones", "--discard new"),
        (!found.max_age.is_zero(), "sessions of a certain age", "--max-age 0"),
        (found.max_messages > 0, "changes past a number of sessions", "--max-msgs -1"),
    ];
    let (_, what, flag) = loses.into_iter().find(|(is_so, ..)| *is_so)?;
    Some(format!("drops {what}: run `nats stream edit {name} {flag}`"))
}

fn session_stream(cluster: NodeName, shard: u8) -> String {
    format!("breme-{cluster}-s{shard}of{SHARDS}")
}

fn node_stream(cluster: NodeName) -> String {
    format!("breme-{cluster}-nodes-of{SHARDS}")
}

/// The start of the subjects of all registers.
fn subject_prefix(cluster: NodeName) -> String {
    format!("breme.{cluster}.of{SHARDS}")
}

/// The shard of a session's register.
fn shard_of(key: &SessionKey) -> u8 {
    let [.., last] = key.as_bytes();
    last % SHARDS
}

/// Only an error that excludes acceptance of the publish makes the outcome known.
fn outcome_of(error: &PublishError) -> EngineResponse {
    match error.kind() {
        PublishErrorKind::WrongLastSequence => EngineResponse::Conflict,
        PublishErrorKind::MaxAckPending | PublishErrorKind::MaxPayloadExceeded | PublishErrorKind::StreamNotFound => {
            EngineResponse::Refused
        }
        PublishErrorKind::Other => match code_of(error) {
            // Another compare-and-set of this register is in flight, the stream's queue is full, or a limit is reached.
            // The leader checks all of these before it proposes the message to the other servers (with one replica:
            // before it stores it). A leader that was just replaced may refuse what the new one commits; the machine's
            // retry then meets a conflict.
            Some(
                ErrorCode::STREAM_WRONG_LAST_SEQUENCE_CONSTANT
                | ErrorCode::STREAM_TOO_MANY_REQUESTS
                | ErrorCode::INSUFFICIENT_RESOURCES
                | ErrorCode::ACCOUNT_RESOURCES_EXCEEDED
                | ErrorCode::STREAM_STORE_FAILED,
            ) => EngineResponse::Refused,
            _ => EngineResponse::Unknown,
        },
        _ => EngineResponse::Unknown,
    }
}

/// Why a compare-and-set was not stored, for operators; none if another one preceded it, as is usual.
fn cause_of(error: &PublishError) -> Option<String> {
    match (error.kind(), code_of(error)) {
        (PublishErrorKind::WrongLastSequence, _) | (_, Some(ErrorCode::STREAM_WRONG_LAST_SEQUENCE_CONSTANT)) => None,
        (PublishErrorKind::StreamNotFound, _) => Some("it has no leader, or was deleted".to_owned()),
        (PublishErrorKind::TimedOut, _) => Some(format!("no response within {RESPONSE_TIMEOUT:?}")),
        (PublishErrorKind::MaxAckPending, _) => Some(format!("{IN_FLIGHT_MAX} changes have no response yet")),
        (_, Some(ErrorCode::INSUFFICIENT_RESOURCES)) => Some("a server has reached its max_file_store".to_owned()),
        (_, Some(ErrorCode::ACCOUNT_RESOURCES_EXCEEDED)) => Some("the account has reached its max_store".to_owned()),
        // This error has several causes, which only its text tells apart.
        (_, Some(ErrorCode::STREAM_STORE_FAILED)) if error.to_string().contains("maximum bytes exceeded") => {
            Some("it has reached its max_bytes".to_owned())
        }
        _ => Some(error.to_string()),
    }
}

fn code_of(error: &PublishError) -> Option<ErrorCode> {
    Some(error.source()?.downcast_ref::<jetstream::Error>()?.error_code())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_servers_are_refused() {
        for version in ["2.15.2", "2.15.10", "2.16.0", "3.0.0", "2.15.3-RC.1"] {
            assert!(check_version(version).is_ok(), "{version}");
        }
        for version in ["2.9.10", "2.15.1", "1.99.99", "", "x"] {
            assert!(check_version(version).unwrap_err().to_string().contains("2.15.2"), "{version}");
        }
    }

    #[test]
    fn an_existing_stream_must_keep_what_is_promised() {
        let good = Config {
            name: "breme-x".to_owned(),
            max_messages_per_subject: 1,
            max_messages: -1,
            discard: DiscardPolicy::New,
            allow_message_ttl: true,
            num_replicas: 3,
            ..Config::default()
        };
        assert_eq!(fault_of(&good, 3), None);
        assert_eq!(fault_of(&Config { max_bytes: 1 << 30, ..good.clone() }, 1), None, "a full stream only refuses");
        for (wrong, words) in [
            (Config { num_replicas: 1, ..good.clone() }, "has 1 replicas instead of 3"),
            (Config { num_replicas: 1, ..good.clone() }, "`nats stream edit breme-x --replicas 3`"),
            (Config { storage: StorageType::Memory, ..good.clone() }, "in memory only: delete it"),
            (Config { discard: DiscardPolicy::Old, ..good.clone() }, "--discard new"),
            (Config { max_age: Duration::from_secs(60), ..good.clone() }, "--max-age 0"),
            (Config { max_messages: 1_000, ..good.clone() }, "--max-msgs -1"),
            (Config { retention: RetentionPolicy::Interest, ..good.clone() }, "not one of sessions"),
            (Config { no_ack: true, ..good.clone() }, "not one of sessions"),
            (Config { max_messages_per_subject: 2, ..good }, "not one of sessions"),
        ] {
            let fault = fault_of(&wrong, 3).unwrap();
            assert!(fault.contains(words), "{fault}");
        }
    }

    fn publish_error(code: u64, description: &str) -> PublishError {
        let source = serde_json::json!({ "code": 503, "err_code": code, "description": description });
        let source: jetstream::Error = serde_json::from_value(source).unwrap();
        PublishError::with_source(PublishErrorKind::Other, source)
    }

    #[test]
    fn a_limit_refuses_and_is_named() {
        for (code, description, limit) in [
            (10_023, "insufficient resources", "max_file_store"),
            (10_002, "resource limits exceeded for account", "max_store"),
            (10_077, "maximum bytes exceeded", "max_bytes"),
            (10_077, "maximum messages exceeded", "maximum messages exceeded"),
        ] {
            let error = publish_error(code, description);
            assert_eq!(outcome_of(&error), EngineResponse::Refused, "{code}");
            let cause = cause_of(&error).unwrap();
            assert!(cause.contains(limit), "{cause}");
            assert_eq!(cause.contains("max_bytes"), limit == "max_bytes", "{cause}");
        }
    }

    #[test]
    fn conflicts_are_not_named() {
        for error in [PublishError::new(PublishErrorKind::WrongLastSequence), publish_error(10_164, "")] {
            assert_eq!(cause_of(&error), None);
        }
    }
}
