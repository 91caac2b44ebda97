//! The real binary, against real peers: one test program, so that it is linked once.

#![allow(clippy::unwrap_used)] // in a test, a panic with its place is the report

mod admin;
mod backends;
mod cache_suite;
mod caller;
#[path = "../../../report/tests/chromium/mod.rs"]
#[allow(unreachable_pub)] // public in the tests of reports
mod chromium;
mod clean_end;
mod conformance;
mod dashboards;
mod errors;
mod fail_if;
mod faulty_origin;
mod gated_origin;
mod harness;
mod hostile;
mod import;
mod laboratory;
mod laboratory_admin;
mod laboratory_cache;
mod laboratory_ends;
mod laboratory_faults;
mod laboratory_foreign;
mod laboratory_gate;
mod laboratory_harness;
mod laboratory_history;
mod laboratory_init;
mod laboratory_preflight;
mod laboratory_repeats;
mod laboratory_versus;
mod link;
mod load;
mod load_child;
mod load_export;
mod load_habits;
mod load_view;
mod lost_server;
#[path = "../../../cluster/tests/engines/nats_servers.rs"]
#[allow(dead_code)] // the engines' tests use what these do not
mod nats_servers;
mod peers;
#[path = "../../../wiki-database/tests/postgres_server/mod.rs"]
#[allow(dead_code)] // the database's tests use what these do not
mod postgres_server;
mod pressure;
mod proxy;
mod proxy_admin;
mod proxy_answer_desync;
mod proxy_cache;
mod proxy_cache_poison;
mod proxy_collapse;
mod proxy_conformance;
mod proxy_desync;
mod proxy_faults;
mod proxy_files;
mod proxy_forward;
mod proxy_loops;
mod proxy_memory;
mod proxy_operation;
mod proxy_queue;
mod proxy_tls;
mod proxy_unread_content;
mod proxy_upgrade;
mod proxy_upstreams;
mod recorder;
mod remote_write;
mod response_headers;
mod schedules;
mod session;
mod session_cluster;
mod session_faults;
mod session_trust;
mod site;
mod slow_clients;
mod stale;
mod studies;
mod tls;
mod unix_sockets;
#[cfg(target_os = "linux")]
mod watch;
mod watch_faults;
mod watch_tls;
mod wiki;
mod wiki_browser;
mod wiki_postgres;
mod wiki_purges;
