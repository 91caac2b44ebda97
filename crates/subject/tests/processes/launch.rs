//! From a description to a subject that is ready, or a message that helps.

use std::net::TcpListener;
use std::sync::atomic::Ordering;
use std::time::Duration;

use breme_experiment::trial::{AdminToken, ProcessSpec, ReadyCheck, ResetAction, SubjectKind};
use breme_subject::{PlaceholderNames, Subject};
use breme_testkit::reserved_address;

use crate::world::{GROWING, is_alive, launcher, process, python, python_server, script, spec_of, start};

fn fault(spec: &breme_experiment::trial::SubjectSpec) -> String {
    let folder = tempfile::tempdir().unwrap();
    start(&launcher(), spec, folder.path()).unwrap_err().to_string()
}

#[test]
fn a_server_is_started_probed_reset_and_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let launcher = launcher();
    let mut process = process();
    process.files.insert("sub/page.txt".into(), "I listen on ${port} in ${folder}".into());
    process.prepare.push(vec!["cp".into(), "sub/page.txt".into(), "copy.txt".into()]);
    let command = [python(), "-m", "http.server", "--bind", "127.0.0.1", "${port}"];
    let spec = spec_of(&command, process, ReadyCheck::Answer { path: "/copy.txt".into(), status: 200 });
    let mut subject = start(&launcher, &spec, folder.path()).unwrap();

    let page = std::fs::read_to_string(folder.path().join("copy.txt")).unwrap();
    let folder_name = folder.path().canonicalize().unwrap();
    assert_eq!(page, format!("I listen on {} in {}", subject.ports()["port"], folder_name.display()));
    assert_eq!(subject.names().value("address").unwrap(), format!("127.0.0.1:{}", subject.ports()["port"]));

    let get = |url: &str| ResetAction::Request { method: "GET".into(), url: url.into(), headers: vec![] };
    subject.reset(&get("/copy.txt"), &launcher, &PlaceholderNames::default()).unwrap();
    let refused =
        subject.reset(&get("${url}/nothing"), &launcher, &PlaceholderNames::default()).unwrap_err().to_string();
    assert!(refused.contains("returned status 404"), "{refused}");
    let command = ResetAction::Command(vec!["sh".into(), "-c".into(), "echo no >&2; test -e ${folder}/gone".into()]);
    let refused = subject.reset(&command, &launcher, &PlaceholderNames::default()).unwrap_err().to_string();
    assert!(refused.contains("exited with status 1; output: no"), "{refused}");

    let (before, pid) = (subject.url().to_owned(), subject.kept().unwrap().pid());
    subject.reset(&ResetAction::Restart, &launcher, &PlaceholderNames::default()).unwrap();
    assert_eq!(subject.url(), before, "others know its port");
    assert!(!is_alive(pid) && subject.kept().unwrap().pid() != pid);
    assert!(subject.ended().is_none());
    assert_eq!(subject.stop().unwrap().unwrap().signal, Some(15));
}

#[test]
fn our_own_servers_listen_on_chosen_ports() {
    let folder = tempfile::tempdir().unwrap();
    // A shell in place of our binary: `sh ROLE --listen …`, where the role is a script.
    let role = folder.path().join("role");
    let server = "echo warming up; echo admin on http://$4; echo \"listening on http://$2\"; echo $@; exec sleep 100";
    std::fs::write(&role, server).unwrap();
    let mut spec = script("");
    spec.kind = SubjectKind::Own {
        role: role.to_str().unwrap().into(),
        arguments: vec!["--root".into(), "${folder}".into()],
        token: AdminToken::None,
        process: ProcessSpec { ports: vec!["port".into(), "admin".into()], ..process() },
    };
    spec.ready.check = ReadyCheck::Line("--root".into());
    let subject = start(&launcher(), &spec, folder.path()).unwrap();
    let [port, admin] = ["port", "port.admin"].map(|name| subject.names().value(name).unwrap().to_owned());
    assert!(port != "0" && admin != "0" && port != admin, "{port} {admin}");
    assert_eq!(subject.url(), format!("http://127.0.0.1:{port}"));
    assert_eq!(subject.metrics_url(), Some(&*format!("http://127.0.0.1:{admin}/metrics")));
    let arguments = format!("--listen 127.0.0.1:{port} --admin 127.0.0.1:{admin} --root /");
    assert!(subject.printed().contains(&arguments), "{}", subject.printed());
}

#[test]
fn a_server_that_runs_elsewhere_is_probed_and_not_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let address = reserved_address();
    let mut spec = script("");
    spec.kind = SubjectKind::External;
    spec.url = format!("http://{address}");
    spec.ready.check = ReadyCheck::Port;
    let within = std::mem::replace(&mut spec.ready.within, Duration::from_millis(20));
    let late = fault(&spec);
    assert!(late.contains("was not ready within 0.02 s") && late.contains("refused"), "{late}");
    spec.ready.within = within;
    let _server = TcpListener::bind(address).unwrap();
    let mut subject = start(&launcher(), &spec, folder.path()).unwrap();
    assert!(subject.kept().is_none());
    assert_eq!(subject.stop(), Ok(None));
}

#[test]
fn a_server_that_dies_at_once_is_reported_with_its_output() {
    let died = fault(&script("echo no configuration; echo give me one >&2; exit 3"));
    assert_eq!(died, "exited with status 3 before it was ready; output:\nno configuration\ngive me one");
    assert!(fault(&script("kill -SEGV $$")).contains("was terminated by SIGSEGV before it was ready"));
    assert!(fault(&script("exit 0")).contains("exited with status 0 before it was ready; no output"));
}

#[test]
fn a_server_that_is_not_ready_in_time_is_reported_with_its_last_state() {
    let mut spec = script("echo still busy; exec sleep 100");
    spec.ready.check = ReadyCheck::Port;
    let has_printed = GROWING.iter().any(|&within| {
        spec.ready.within = within;
        let late = fault(&spec);
        assert!(late.contains(&format!("not ready within {} s: 127.0.0.1:", within.as_secs_f64())), "{late}");
        late.contains("output: still busy")
    });
    assert!(has_printed, "what it printed is not told");
}

#[test]
fn a_program_that_is_missing_is_named_with_a_remedy() {
    let of = |command: &[&str]| fault(&spec_of(command, process(), ReadyCheck::Port));
    let missing = of(&["frobnicated"]);
    assert!(missing.contains("there is no program `frobnicated` in PATH; install it"), "{missing}");
    assert!(of(&["./server"]).contains("there is no program /"), "{}", of(&["./server"]));
    let mut spec = spec_of(&["./server"], process(), ReadyCheck::Port);
    let SubjectKind::Command { process, .. } = &mut spec.kind else { unreachable!() };
    process.files.insert("server".into(), "#!/no/such/interpreter\n".into());
    process.prepare.push(vec!["chmod".into(), "+x".into(), "server".into()]);
    assert!(fault(&spec).contains("the interpreter in its first line does not"), "{}", fault(&spec));
}

#[test]
fn a_failed_preparation_is_reported() {
    let with_file = |name: &str, content: &str| {
        let mut process = process();
        process.files.insert(name.into(), content.into());
        fault(&spec_of(&["true"], process, ReadyCheck::Port))
    };
    assert!(
        with_file("a.conf", "x\n  ${prot}")
            .contains("file a.conf, line 2, column 3: ${prot} is not known here; did you mean ${port}?")
    );
    assert!(with_file("../a.conf", "").contains("is outside the subject"));
    let mut process = process();
    process.prepare.push(vec!["false".into()]);
    assert!(fault(&spec_of(&["true"], process, ReadyCheck::Port)).contains("`false` exited with status 1"));
}

#[test]
fn a_port_that_is_taken_is_noticed() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut spec = python_server();
    spec.url = format!("http://{}", taken.local_addr().unwrap());
    let fault = fault(&spec);
    assert!(fault.contains("is taken: another program already accepts connections there"), "{fault}");
}

#[test]
fn one_whose_port_is_snatched_away_gets_another() {
    let folder = tempfile::tempdir().unwrap();
    // The first attempt prints what servers print when their port was taken.
    let text = "if mkdir tried; then echo 'bind(): Address already in use' >&2; exit 1; fi; echo ${port} serves; exec sleep 100";
    let spec = spec_of(&["sh", "-c", text], process(), ReadyCheck::Line("serves".into()));
    let subject = start(&launcher(), &spec, folder.path()).unwrap();
    assert!(folder.path().join("tried").exists());
    let expected = format!("{} serves", subject.ports()["port"]);
    assert!(subject.printed().contains(&expected), "{expected}: {}", subject.printed());
}

#[test]
fn starting_can_be_interrupted() {
    let launcher = launcher();
    let cancelled = std::sync::Arc::clone(&launcher.cancelled);
    let folder = tempfile::tempdir().unwrap();
    let mut spec = script("touch started; exec sleep 100");
    spec.ready.check = ReadyCheck::Port;
    let outcome = std::thread::scope(|scope| {
        let starting = scope.spawn(|| start(&launcher, &spec, folder.path()).map(|_: Subject| ()));
        crate::world::until(|| folder.path().join("started").exists());
        cancelled.store(true, Ordering::Relaxed);
        starting.join().unwrap()
    });
    assert!(outcome.unwrap_err().to_string().contains("interrupted"));
}
