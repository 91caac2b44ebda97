//! Bad input: the message has the cause, the position and the remedy, and the exit status is right.

use std::net::TcpListener;
use std::process::{Command, Output};

use crate::harness::breme;

fn refused(arguments: &[&str], code: i32, words: &[&str]) {
    let output: Output = breme().args(arguments).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
    for word in words {
        assert!(stderr.contains(word), "{arguments:?} does not mention {word:?}:\n{stderr}");
    }
    assert!(!stderr.contains("panicked"), "{stderr}");
}

#[test]
fn of_the_site() {
    refused(&["site"], 2, &["--lab"]);
    refused(&["site", "/no/such/folder"], 1, &["/no/such/folder"]);
    refused(&["site", "--lab", "--listen", "nonsense"], 2, &["nonsense"]);
    refused(&["site", "--lab", "--driver", "steam"], 2, &["steam"]);
    refused(&["site", "--lab", "--cache-control", "a\nb"], 2, &["cache-control"]);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    refused(&["site", "--lab", "--listen", &address], 1, &[&address, "in use"]);
}

#[test]
fn of_the_load() {
    refused(&["load"], 2, &["URL"]);
    refused(&["load", "ftp://127.0.0.1/"], 2, &["ftp"]);
    refused(&["load", "https://a..b/"], 2, &["a..b", "certificate"]);
    refused(&["load", "-k", "--cacert", "x", "https://127.0.0.1/"], 2, &["--insecure", "--cacert"]);
    refused(&["load", "--cacert", "/no/such/file", "https://127.0.0.1/"], 2, &["--cacert /no/such/file", "read"]);
    refused(&["load", "--key", "x", "https://127.0.0.1/"], 2, &["--cert"]);
    refused(&["load", "http://"], 2, &["http://"]);
    refused(&["load", "http://127.0.0.1:99999/"], 2, &["99999"]);
    refused(&["load", "http://127.0.0.1/{uniform:9:1}"], 2, &["uniform"]);
    refused(&["load", "http://127.0.0.1/{nothing}"], 2, &["nothing"]);
    refused(&["load", "http://127.0.0.1/{seq"], 2, &["seq"]);
    refused(&["load", "-c", "0", "http://127.0.0.1/"], 2, &["0 connections"]);
    refused(&["load", "-n", "ten", "http://127.0.0.1/"], 2, &["ten"]);
    refused(&["load", "-H", "no colon", "http://127.0.0.1/"], 2, &["no colon"]);
    refused(&["load", "-H", "A: b\nC: d", "http://127.0.0.1/"], 2, &["A"]);
    refused(&["load", "-b", "@/no/such/file", "http://127.0.0.1/"], 2, &["/no/such/file"]);
}

#[test]
fn of_too_few_file_descriptors() {
    let load: &[&str] = &["load", "-n", "10", "-c", "1000", "http://127.0.0.1:9/"];
    for (arguments, needed) in [(load, "1064"), (&["site", "--lab", "--listen", "127.0.0.1:0"], "are needed")] {
        let limited = format!("ulimit -Sn 40 && ulimit -Hn 40 && exec {} \"$@\"", env!("CARGO_BIN_EXE_breme"));
        let output = Command::new("sh").args(["-c", &limited, "sh"]).args(arguments).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {stderr}");
        for word in [needed, "40 are allowed", "ulimit -n"] {
            assert!(stderr.contains(word), "{arguments:?} does not mention {word:?}:\n{stderr}");
        }
    }
}
