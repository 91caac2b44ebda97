//! How the peers are configured: as their manuals advise for many small answers, with one worker, without an access
//! log, and with no end to a connection's requests. What a peer could do better with other settings is a fault of this
//! file: correct it here.

use std::fmt::Write;
use std::fs;
use std::process::Command;

use super::kind::Kind;
use super::place::{CONNECTIONS_SPARE, DESCRIPTORS_PER_CONNECTION, Place};
use super::proxies;
use crate::workbench::{Certificate, find_program};

/// Files that nginx keeps open: all that varied requests ask for.
const OPEN_FILES: usize = 12_000;
/// Threads of Apache's only process; each handles one request at a time.
const APACHE_THREADS: usize = 128;

/// Writes the configuration; returns what starts the peer in the foreground.
pub(super) fn command(kind: Kind, place: &Place<'_>) -> Result<Command, String> {
    let configuration = match kind {
        Kind::BremeSite | Kind::BremeProxy(_) => return Err(String::from("breme needs no configuration")),
        Kind::Nginx => nginx(place, &site(place)),
        Kind::Origin => nginx(place, &proxies::origin(place)),
        Kind::NginxProxy(store) => nginx(place, &proxies::nginx(place, store)?),
        Kind::Lighttpd => lighttpd(place),
        Kind::Apache => apache(place),
        Kind::Haproxy => proxies::haproxy(place)?,
        Kind::Varnish(_) => proxies::varnish(place)?,
    };
    let path = place.folder.join("configuration");
    fs::write(&path, configuration).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut command = Command::new(find_program(kind.program())?);
    match kind {
        Kind::Nginx | Kind::Origin | Kind::NginxProxy(_) => {
            command.arg("-p").arg(place.folder).args(["-e", "stderr", "-c"]);
        }
        Kind::Apache => drop(command.args(["-DFOREGROUND", "-f"])),
        Kind::Haproxy => drop(command.args(["-db", "-f"])),
        Kind::Varnish(store) => proxies::varnish_flags(&mut command, place, store),
        Kind::Lighttpd | Kind::BremeSite | Kind::BremeProxy(_) => drop(command.args(["-D", "-f"])),
    }
    command.arg(path);
    Ok(command)
}

/// When less than a sixteenth of its table is free, nginx closes idle connections: so it gets a larger one. A proxy has
/// two for each client.
fn nginx(place: &Place<'_>, http: &str) -> String {
    let folder = place.folder.display();
    let sides = if place.upstream.is_some() { 2 } else { 1 };
    let connections = (place.connections * sides + CONNECTIONS_SPARE) * 16 / 15 + 1;
    format!(
        "daemon off; master_process off; pid {folder}/pid; error_log stderr crit;\n\
         worker_rlimit_nofile {descriptors};\n\
         events {{ worker_connections {connections}; }}\n\
         http {{\n\
         access_log off; sendfile on; tcp_nopush on; tcp_nodelay on;\n\
         keepalive_requests 1000000000; keepalive_timeout 75s;\n\
         open_file_cache max={OPEN_FILES}; open_file_cache_valid 60s; types {{ text/html html; }}\n\
         client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;\n\
         uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;\n\
         {http}\
         }}\n",
        descriptors = descriptors(connections),
    )
}

/// What nginx serves as a server by itself.
fn site(place: &Place<'_>) -> String {
    let Place { address, .. } = place;
    let pages = place.pages.display();
    let tls = place.certificate.map_or_else(String::new, |Certificate { chain, key }| {
        format!("ssl_protocols TLSv1.3; ssl_certificate {}; ssl_certificate_key {};\n", chain.display(), key.display())
    });
    let ssl = if place.certificate.is_some() { " ssl" } else { "" };
    format!(
        "{tls}server {{ listen {address}{ssl} backlog=4096; root {pages};\n\
         location = /bytes/13 {{ return 200 \"0123456789012\"; }} }}\n"
    )
}

/// It takes no more connections than half of its descriptors.
fn lighttpd(place: &Place<'_>) -> String {
    let connections = place.connections + CONNECTIONS_SPARE;
    let mut text = format!(
        "server.document-root = \"{}\"\n\
         server.bind = \"127.0.0.1\"\n\
         server.port = {}\n\
         server.listen-backlog = 4096\n\
         server.max-fds = {}\n\
         server.max-connections = {connections}\n\
         server.max-keep-alive-requests = 1000000000\n\
         server.max-keep-alive-idle = 75\n\
         mimetype.assign = ( \".html\" => \"text/html\", \"\" => \"text/plain\" )\n",
        place.pages.display(),
        place.address.port(),
        DESCRIPTORS_PER_CONNECTION * connections,
    );
    if let Some(Certificate { chain, key }) = place.certificate {
        let (chain, key) = (chain.display(), key.display());
        let _ = write!(
            text,
            "server.modules = ( \"mod_openssl\" )\n\
             ssl.engine = \"enable\"\n\
             ssl.pemfile = \"{chain}\"\n\
             ssl.privkey = \"{key}\"\n\
             ssl.openssl.ssl-conf-cmd = ( \"MinProtocol\" => \"TLSv1.3\" )\n"
        );
    }
    text
}

/// Started by root its workers become `nobody`: it refuses to serve with root's rights.
fn apache(place: &Place<'_>) -> String {
    let folder = place.folder.display();
    // Idle connections wait in the listener's poll set; each thread allows for so many of them.
    let per_thread = (place.connections + CONNECTIONS_SPARE).div_ceil(APACHE_THREADS) + 1;
    let mut modules = vec!["mpm_event", "authz_core", "mime"];
    modules.extend(place.certificate.map(|_| "ssl"));
    let mut text = String::new();
    for module in modules {
        let _ = writeln!(text, "LoadModule {module}_module /usr/lib/apache2/modules/mod_{module}.so");
    }
    let _ = write!(
        text,
        "ServerRoot {folder}\nDefaultRuntimeDir {folder}\nPidFile {folder}/pid\nServerName localhost\n\
         Listen {}\nListenBacklog 4096\nErrorLog /dev/stderr\nLogLevel crit\n\
         StartServers 1\nServerLimit 1\nThreadLimit {APACHE_THREADS}\nThreadsPerChild {APACHE_THREADS}\n\
         MinSpareThreads 1\nMaxSpareThreads {spare}\n\
         MaxRequestWorkers {APACHE_THREADS}\nAsyncRequestWorkerFactor {per_thread}\nMaxConnectionsPerChild 0\n\
         KeepAlive On\nMaxKeepAliveRequests 0\nKeepAliveTimeout 75\nEnableSendfile On\nEnableMMAP On\n\
         TypesConfig /dev/null\nAddType text/html .html\n\
         DocumentRoot {}\n\
         <Directory />\nAllowOverride None\nOptions None\nRequire all granted\n</Directory>\n",
        place.address,
        place.pages.display(),
        // More idle threads than this would end the process.
        spare = 2 * APACHE_THREADS,
    );
    if rustix::process::geteuid().is_root() {
        text.push_str("User nobody\nGroup nogroup\n");
    }
    if let Some(Certificate { chain, key }) = place.certificate {
        let (chain, key) = (chain.display(), key.display());
        let _ = write!(
            text,
            "SSLEngine on\nSSLProtocol TLSv1.3\nSSLCertificateFile {chain}\nSSLCertificateKeyFile {key}\n"
        );
    }
    text
}

/// Open files that a peer may need: a connection each, and files.
fn descriptors(connections: usize) -> usize {
    connections + OPEN_FILES + 1_000
}
