//! The token of a server's admin address: who can read it, and that a reset sends it.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;

use breme_experiment::trial::{AdminToken, ReadyCheck, ResetAction, SubjectKind, SubjectSpec};
use breme_subject::{PlaceholderNames, ResetError, Subject};

use crate::world::{launcher, process, script, start};

/// Replaces one of our own servers: records its arguments and its token.
const SERVER: &str = r#"PATH=/usr/bin:/bin:$PATH
echo "$@"
for argument; do
  case "$argument" in --admin-token-file=*) file="${argument#*=}"; stat -c "mode %a" "$file"; cp "$file" learnt;; esac
done
echo "admin on http://ADMIN"
echo "listening on http://127.0.0.1:7"
exec sleep 100"#;
/// File of generated tokens of our own servers.
const DRAWN: &str = "breme-admin-token";

/// A server whose admin address is that of the test.
fn server(folder: &Path, admin: &TcpListener, token: AdminToken) -> SubjectSpec {
    let role = folder.join("role");
    std::fs::write(&role, SERVER.replace("ADMIN", &admin.local_addr().unwrap().to_string())).unwrap();
    let arguments = match &token {
        AdminToken::File(path) => vec![format!("--admin-token-file={path}")],
        _ => vec![],
    };
    let mut process = process();
    process.files.insert("mine".into(), "0123456789abcdef\n".into());
    let mut spec = script("");
    spec.kind = SubjectKind::Own { role: role.to_str().unwrap().into(), arguments, token, process };
    spec.ready.check = ReadyCheck::Line("listening on ".into());
    spec
}

fn purge() -> ResetAction {
    ResetAction::Admin { path: "/cache/purge".into(), content: "{\"all\": true}".into() }
}

/// Carries out a reset with this response. Returns the request and the result.
fn reset(subject: &mut Subject, admin: &TcpListener, answer: &str) -> (String, Result<(), ResetError>) {
    std::thread::scope(|scope| {
        let received = scope.spawn(|| {
            let (mut stream, _) = admin.accept().unwrap();
            let (mut request, mut piece) = (Vec::new(), [0; 1024]);
            while !request.ends_with(b"}") {
                let count = stream.read(&mut piece).unwrap();
                assert!(count > 0, "{}", String::from_utf8_lossy(&request));
                request.extend_from_slice(&piece[..count]);
            }
            write!(stream, "HTTP/1.1 {answer}").unwrap();
            String::from_utf8(request).unwrap()
        });
        let outcome = subject.reset(&purge(), &launcher(), &PlaceholderNames::default());
        (received.join().unwrap(), outcome)
    })
}

const DONE: &str = "200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
const REFUSED: &str = "401 No\r\nContent-Length: 18\r\nConnection: close\r\n\r\n{\"error\": \"wrong\"}";

#[test]
fn a_drawn_token_is_known_to_the_server_and_to_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    let admin = TcpListener::bind("127.0.0.1:0").unwrap();
    let spec = server(folder.path(), &admin, AdminToken::Drawn);
    let mut subject = start(&launcher(), &spec, folder.path()).unwrap();
    let learnt = || std::fs::read_to_string(folder.path().join("learnt")).unwrap();
    let token = learnt();
    let printed = subject.printed();
    assert!(printed.contains(&format!("--admin-token-file={DRAWN}\nmode 600\n")), "{printed}");
    assert!(token.len() == 64 && !printed.contains(&token) && !format!("{subject:?}").contains(&token));
    assert!(!folder.path().join(DRAWN).exists(), "it was read, and nobody else needs it");

    let (received, outcome) = reset(&mut subject, &admin, DONE);
    outcome.unwrap();
    assert!(
        received.starts_with("POST /cache/purge HTTP/1.1\r\n") && received.ends_with("\r\n\r\n{\"all\": true}"),
        "{received}"
    );
    assert!(received.to_ascii_lowercase().contains(&format!("authorization: bearer {token}\r\n")), "{received}");
    let refused = reset(&mut subject, &admin, REFUSED).1.unwrap_err().to_string();
    assert!(refused.contains("subject specimen: reset: POST http://127.0.0.1:"), "{refused}");
    assert!(refused.contains("returned status 401 (wrong); its token is not"), "{refused}");
    assert!(!refused.contains(&token));

    subject.reset(&ResetAction::Restart, &launcher(), &PlaceholderNames::default()).unwrap();
    assert_ne!(learnt(), token, "another one for each start");
    let (received, outcome) = reset(&mut subject, &admin, DONE);
    outcome.unwrap();
    assert!(received.contains(&learnt()));
    assert!(!std::fs::read_to_string(folder.path().join("output.log")).unwrap().contains(&learnt()));
}

#[test]
fn a_token_of_the_experiment_is_sent_and_stays() {
    let folder = tempfile::tempdir().unwrap();
    let admin = TcpListener::bind("127.0.0.1:0").unwrap();
    let spec = server(folder.path(), &admin, AdminToken::File("${folder}/mine".into()));
    let mut subject = start(&launcher(), &spec, folder.path()).unwrap();
    let (received, outcome) = reset(&mut subject, &admin, DONE);
    outcome.unwrap();
    assert!(received.to_ascii_lowercase().contains("authorization: bearer 0123456789abcdef\r\n"), "{received}");
    assert!(folder.path().join("mine").exists() && !subject.printed().contains(DRAWN), "{}", subject.printed());
}

#[test]
fn without_a_token_no_request_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let admin = TcpListener::bind("127.0.0.1:0").unwrap();
    let spec = server(folder.path(), &admin, AdminToken::None);
    let mut subject = start(&launcher(), &spec, folder.path()).unwrap();
    assert!(!subject.printed().contains("admin-token-file"), "{}", subject.printed());
    let refused = subject.reset(&purge(), &launcher(), &PlaceholderNames::default()).unwrap_err().to_string();
    assert!(refused.contains("write admin_token_file"), "{refused}");
}

#[test]
fn a_server_that_does_not_start_leaves_no_token_behind() {
    let folder = tempfile::tempdir().unwrap();
    let admin = TcpListener::bind("127.0.0.1:0").unwrap();
    let spec = server(folder.path(), &admin, AdminToken::Drawn);
    std::fs::write(folder.path().join("role"), "echo no cache today >&2; exit 1").unwrap();
    let fault = start(&launcher(), &spec, folder.path()).unwrap_err().to_string();
    assert!(fault.contains("no cache today"), "{fault}");
    assert!(!folder.path().join(DRAWN).exists());
}
