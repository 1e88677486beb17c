//! Servers that are reached by TLS.

use std::path::PathBuf;

use crate::command::run;
use crate::folder::Folder;
use crate::port;
use crate::postgres::{Postgres, configure, init};
use crate::programs;
use crate::redis::Redis;

/// For `openssl`.
const CERTIFICATES: &str = "\
[req]
distinguished_name = name
[name]
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical, CA:FALSE
extendedKeyUsage = serverAuth
subjectAltName = DNS:localhost, IP:127.0.0.1
";

/// By TCP with TLS, by the socket without.
const ACCESS: &str = "\
local all all trust
hostssl all all 127.0.0.1/32 trust
hostssl replication all 127.0.0.1/32 trust
";

/// What makes a new key.
const KEY: &[&str] = &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-config", "openssl.cnf"];

impl Postgres {
    /// Starts a server that takes connections by TCP only with TLS. Its certificate is for `localhost` and 127.0.0.1;
    /// the path is that of the authority's certificate, which is there as long as the server.
    ///
    /// # Panics
    /// It cannot be started, or there is no `openssl`.
    #[must_use]
    pub fn start_with_tls() -> (Self, PathBuf) {
        let folder = Folder::new();
        init(&folder);
        certify(&folder);
        configure(&folder, &[("ssl", "on"), ("ssl_cert_file", "server.crt"), ("ssl_key_file", "server.key")]);
        folder.write(&folder.work().join("pg_hba.conf"), ACCESS);
        let authority = folder.work().join("authority.crt");
        (Self::launch(folder), authority)
    }
}

impl Redis {
    /// Starts a server that takes connections with TLS at a second port, which is told; otherwise like
    /// [`Postgres::start_with_tls`].
    ///
    /// # Panics
    /// It cannot be started, or there is no `openssl`.
    #[must_use]
    pub fn start_with_tls() -> (Self, u16, PathBuf) {
        let folder = Folder::new();
        certify(&folder);
        let authority = folder.work().join("authority.crt");
        let port = port::free();
        let files =
            ["--tls-cert-file", "server.crt", "--tls-key-file", "server.key", "--tls-ca-cert-file", "authority.crt"];
        let tls = ["--tls-port", &port.to_string(), "--tls-auth-clients", "no"];
        (Self::start_in(folder, &[&files[..], &tls[..]].concat()), port, authority)
    }
}

/// Makes an authority and a certificate of the server.
fn certify(folder: &Folder) {
    folder.write(&folder.work().join("openssl.cnf"), CERTIFICATES);
    let authority = ["-subj", "/CN=Lockkeeper testbed", "-keyout", "authority.key", "-out", "authority.crt"];
    openssl(folder, &[&["req", "-x509", "-days", "2", "-extensions", "authority"], KEY, &authority]);
    let server = ["-subj", "/CN=localhost", "-keyout", "server.key", "-out", "server.csr"];
    openssl(folder, &[&["req", "-new"], KEY, &server]);
    let signed = ["-CA", "authority.crt", "-CAkey", "authority.key", "-CAcreateserial", "-out", "server.crt"];
    let extensions = ["-days", "2", "-extfile", "openssl.cnf", "-extensions", "server"];
    openssl(folder, &[&["x509", "-req", "-in", "server.csr"], &signed, &extensions]);
}

fn openssl(folder: &Folder, args: &[&[&str]]) {
    let mut command = folder.command(&programs::of_system("openssl"));
    command.args(args.concat());
    run(command, "");
}
