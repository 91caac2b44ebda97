//! The flags of curl: which of them have a value.

/// The long names of short flags.
const SHORT: [(char, &str); 59] = [
    ('#', "progress-bar"),
    ('0', "http1.0"),
    ('1', "tlsv1"),
    ('2', "sslv2"),
    ('3', "sslv3"),
    ('4', "ipv4"),
    ('6', "ipv6"),
    (':', "next"),
    ('A', "user-agent"),
    ('B', "use-ascii"),
    ('C', "continue-at"),
    ('D', "dump-header"),
    ('E', "cert"),
    ('F', "form"),
    ('G', "get"),
    ('H', "header"),
    ('I', "head"),
    ('J', "remote-header-name"),
    ('K', "config"),
    ('L', "location"),
    ('M', "manual"),
    ('N', "no-buffer"),
    ('O', "remote-name"),
    ('P', "ftp-port"),
    ('Q', "quote"),
    ('R', "remote-time"),
    ('S', "show-error"),
    ('T', "upload-file"),
    ('U', "proxy-user"),
    ('V', "version"),
    ('X', "request"),
    ('Y', "speed-limit"),
    ('Z', "parallel"),
    ('a', "append"),
    ('b', "cookie"),
    ('c', "cookie-jar"),
    ('d', "data"),
    ('e', "referer"),
    ('f', "fail"),
    ('g', "globoff"),
    ('h', "help"),
    ('i', "include"),
    ('j', "junk-session-cookies"),
    ('k', "insecure"),
    ('l', "list-only"),
    ('m', "max-time"),
    ('n', "netrc"),
    ('o', "output"),
    ('p', "proxytunnel"),
    ('q', "disable"),
    ('r', "range"),
    ('s', "silent"),
    ('t', "telnet-option"),
    ('u', "user"),
    ('v', "verbose"),
    ('w', "write-out"),
    ('x', "proxy"),
    ('y', "speed-time"),
    ('z', "time-cond"),
];
/// Flags with a value (curl 8.16).
const WITH_VALUE: &str = "
abstract-unix-socket alt-svc aws-sigv4 cacert capath cert cert-type ciphers config connect-timeout connect-to
continue-at cookie cookie-jar create-file-mode crlfile curves data data-ascii data-binary data-raw data-urlencode
delegation dns-interface dns-ipv4-addr dns-ipv6-addr dns-servers doh-url dump-ca-embed dump-header ech egd-file
engine etag-compare etag-save expect100-timeout form form-string ftp-account ftp-alternative-to-user ftp-method
ftp-port ftp-ssl-ccc-mode happy-eyeballs-timeout-ms haproxy-clientip header hostpubmd5 hostpubsha256 hsts interface
ip-tos ipfs-gateway json keepalive-cnt keepalive-time key key-type knownhosts krb libcurl limit-rate local-port
login-options mail-auth mail-from mail-rcpt max-filesize max-redirs max-time netrc-file noproxy oauth2-bearer output
output-dir parallel-max parallel-max-host pass pinnedpubkey preproxy proto proto-default proto-redir proxy
proxy-cacert proxy-capath proxy-cert proxy-cert-type proxy-ciphers proxy-crlfile proxy-header proxy-key
proxy-key-type proxy-pass proxy-pinnedpubkey proxy-service-name proxy-tls13-ciphers proxy-tlsauthtype
proxy-tlspassword proxy-tlsuser proxy-user proxy1.0 pubkey quote random-file range rate referer request
request-target resolve retry retry-delay retry-max-time sasl-authzid service-name sigalgs socks4 socks4a socks5
socks5-gssapi-service socks5-hostname speed-limit speed-time stderr telnet-option tftp-blksize time-cond tls-max
tls13-ciphers tlsauthtype tlspassword tlsuser trace trace-ascii trace-config unix-socket upload-file upload-flags
url url-query user user-agent variable vlan-priority write-out";
/// Flags without one; each may also begin with `no-`.
const SWITCHES: &str = "
alpn anyauth append basic buffer ca-native cert-status clobber compressed compressed-ssh create-dirs crlf digest
disable disable-eprt disable-epsv disallow-username-in-url doh-cert-status doh-insecure fail fail-early
fail-with-body false-start follow form-escape ftp-create-dirs ftp-pasv ftp-pret ftp-skip-pasv-ip ftp-ssl-ccc
ftp-ssl-control get globoff haproxy-protocol head help http0.9 http1.0 http1.1 http2 http2-prior-knowledge http3
http3-only ignore-content-length include insecure ipv4 ipv6 junk-session-cookies keepalive list-only location
location-trusted mail-rcpt-allowfails manual metalink mptcp negotiate netrc netrc-optional next npn ntlm ntlm-wb
out-null parallel parallel-immediate path-as-is post301 post302 post303 progress-bar progress-meter proxy-anyauth
proxy-basic proxy-ca-native proxy-digest proxy-http2 proxy-insecure proxy-negotiate proxy-ntlm proxy-ssl-allow-beast
proxy-ssl-auto-client-cert proxy-tlsv1 proxytunnel raw remote-header-name remote-name remote-name-all remote-time
remove-on-error retry-all-errors retry-connrefused sasl-ir sessionid show-error silent skip-existing socks5-basic
socks5-gssapi socks5-gssapi-nec ssl ssl-allow-beast ssl-auto-client-cert ssl-no-revoke ssl-reqd
ssl-revoke-best-effort sslv2 sslv3 styled-output suppress-connect-headers tcp-fastopen tcp-nodelay tftp-no-options
tls-earlydata tlsv1 tlsv1.0 tlsv1.1 tlsv1.2 tlsv1.3 tr-encoding trace-ids trace-time use-ascii verbose version xattr";

/// A part of a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Argument<'a> {
    Url(&'a str),
    /// The long name.
    Switch(&'a str),
    Value {
        /// As written.
        flag: String,
        /// The long name.
        name: &'a str,
        value: &'a str,
    },
}

/// The arguments of a command, without `curl`.
///
/// # Errors
/// An unknown flag, or one without its value.
pub(super) fn arguments(words: &[String]) -> Result<Vec<Argument<'_>>, String> {
    let mut words = words.iter().map(String::as_str);
    let mut arguments = Vec::new();
    while let Some(word) = words.next() {
        match (word.strip_prefix("--"), word.strip_prefix('-')) {
            (Some(""), _) => arguments.extend(words.by_ref().map(Argument::Url)),
            (Some(name), _) => arguments.push(long_flag(name, &mut words)?),
            (None, Some(letters)) => push_short_flags(letters, &mut words, &mut arguments)?,
            (None, None) => arguments.push(Argument::Url(word)),
        }
    }
    Ok(arguments)
}

/// `--flag VALUE`, or `--flag=VALUE`.
fn long_flag<'a>(text: &'a str, words: &mut impl Iterator<Item = &'a str>) -> Result<Argument<'a>, String> {
    let (name, attached) = text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value)));
    let flag = format!("--{name}");
    if has_value(name) {
        let value = attached.or_else(|| words.next()).ok_or_else(|| format!("{flag} has no value"))?;
        Ok(Argument::Value { flag, name, value })
    } else if is_switch(name) {
        Ok(Argument::Switch(name))
    } else {
        Err(unknown(&flag))
    }
}

/// `-sSL`, `-sXPUT` or `-sX PUT`: the first flag with a value takes the rest of the word, or the next one.
fn push_short_flags<'a>(
    letters: &'a str,
    words: &mut impl Iterator<Item = &'a str>,
    arguments: &mut Vec<Argument<'a>>,
) -> Result<(), String> {
    if letters.is_empty() {
        return Err(unknown("-"));
    }
    for (position, letter) in letters.char_indices() {
        let flag = format!("-{letter}");
        let known = SHORT.iter().find(|(short, _)| *short == letter);
        let (_, name) = known.ok_or_else(|| unknown(&flag))?;
        if !has_value(name) {
            arguments.push(Argument::Switch(name));
            continue;
        }
        let rest = Some(&letters[position + letter.len_utf8()..]).filter(|rest| !rest.is_empty());
        let value = rest.or_else(|| words.next()).ok_or_else(|| format!("{flag} has no value"))?;
        arguments.push(Argument::Value { flag, name, value });
        break;
    }
    Ok(())
}

fn has_value(name: &str) -> bool {
    is_in(WITH_VALUE, name)
}

fn is_switch(name: &str) -> bool {
    is_in(SWITCHES, name.strip_prefix("no-").unwrap_or(name))
}

fn is_in(list: &str, name: &str) -> bool {
    list.split_ascii_whitespace().any(|known| known == name)
}

fn unknown(flag: &str) -> String {
    format!("{flag} is not a flag of curl that breme knows; remove it if it does not change the request")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_short_flag_is_known_by_its_long_name() {
        for (letter, name) in SHORT {
            assert!(has_value(name) != is_switch(name), "-{letter}: {name}");
        }
    }

    #[test]
    fn the_first_letter_with_a_value_takes_the_rest_or_the_next_word() {
        let words = ["-sXPUT", "-sd", "-x", "-", "u"].map(String::from);
        let value = |flag: &str, name, value| Argument::Value { flag: flag.to_owned(), name, value };
        assert_eq!(arguments(&words[..1]).unwrap(), [Argument::Switch("silent"), value("-X", "request", "PUT")]);
        assert_eq!(arguments(&words[1..3]).unwrap(), [Argument::Switch("silent"), value("-d", "data", "-x")]);
        assert!(arguments(&words[3..]).unwrap_err().contains("- is not a flag"));
    }
}
