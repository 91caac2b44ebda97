//! The real binary, against real peers: one test program, so that it is linked once.

#![allow(clippy::unwrap_used)] // in a test, a panic with its place is the report

mod admin;
mod backends;
mod cache_suite;
mod caller;
mod clean_end;
mod conformance;
mod crowding;
mod directed;
mod errors;
mod faulty_origin;
mod gated_origin;
mod harness;
mod hostile;
mod laboratory;
mod laboratory_cache;
mod laboratory_ends;
mod laboratory_harness;
mod laboratory_preflight;
mod laboratory_repeats;
mod loading;
mod lost_server;
mod peers;
mod proxy;
mod proxy_admin;
mod proxy_answer_desync;
mod proxy_cache;
mod proxy_conformance;
mod proxy_crowd;
mod proxy_desync;
mod proxy_faults;
mod proxy_files;
mod proxy_forward;
mod proxy_loops;
mod proxy_poisoning;
mod proxy_queue;
mod proxy_tls;
mod proxy_unread_content;
mod proxy_upgrade;
mod proxy_upstreams;
mod recorder;
mod schedules;
mod site;
mod studies;
mod tls;
