//! TLS is what the server asks for, and its certificate is checked.

use lockkeeper_testbed::{Postgres, Replication, Session};

#[test]
fn everybody_comes_by_tls_under_either_name() {
    let (mut server, authority) = Postgres::start_with_tls();
    let authority = authority.display();
    for host in ["localhost", "127.0.0.1"] {
        let target = format!(
            "postgres://postgres@{host}:{}/postgres?sslmode=verify-full&sslrootcert={authority}",
            server.port()
        );
        let session = Session::open(&target);
        assert_eq!(session.execute("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"), "t");
    }
    server.restart();
    let plain = format!("{}?sslmode=disable", server.url());
    let refused = std::panic::catch_unwind(|| Session::open(&plain)).is_err();
    assert!(refused, "without TLS nobody is let in");
    let standby = server.standby(Replication::Asynchronous);
    let streams = "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_replication USING (pid)";
    assert_eq!(server.execute(streams), "t");
    standby.promote();
}
