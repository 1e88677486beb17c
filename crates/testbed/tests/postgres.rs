//! A server is started, used, broken and ended.

use std::path::Path;

use lockkeeper_testbed::{Postgres, StopMode, Template, shared_database};

#[test]
fn it_starts_with_what_was_asked_for() {
    let server = Postgres::start_with(&[("cluster_name", "it's")]);
    assert_eq!(server.execute("SHOW fsync; SHOW synchronous_commit; SHOW max_connections"), "on\non\n200");
    assert_eq!(server.execute("SHOW cluster_name"), "it's");
    assert_eq!(server.execute("SHOW server_encoding; SHOW lc_collate"), "UTF8\nC");
    let url = server.database("other");
    assert!(url.ends_with(&format!("@127.0.0.1:{}/other", server.port())), "{url}");
    let error = server.try_execute("SELECT 1; SELECT nothing").unwrap_err();
    assert!(error.contains("column \"nothing\" does not exist"), "{error}");
}

#[test]
fn what_was_committed_survives_every_end() {
    type End = fn(&mut Postgres);
    let steps: [(&str, End); 4] = [
        ("fast", |server| server.stop(StopMode::Fast)),
        ("immediate", |server| server.stop(StopMode::Immediate)),
        ("kill", Postgres::kill),
        ("running", |_| {}),
    ];
    let mut server = Postgres::start();
    let port = server.port();
    server.execute("CREATE TABLE kept (step text)");
    for (step, end) in steps {
        server.execute(&format!("INSERT INTO kept VALUES ('{step}')"));
        end(&mut server);
        assert_eq!(server.try_execute("SELECT 1").is_err(), step != "running", "after {step}");
        server.restart();
    }
    assert_eq!(server.execute("SELECT string_agg(step, ' ') FROM kept"), "fast immediate kill running");
    assert_eq!(server.port(), port);
}

#[test]
fn a_server_from_a_template_is_a_server_of_its_own() {
    let template = Template::make();
    let (one, two) = (template.start_with(&[("cluster_name", "one")]), template.start_with(&[]));
    one.execute("CREATE TABLE kept ()");
    assert_eq!(
        (one.execute("SHOW cluster_name").as_str(), two.execute("SELECT to_regclass('kept')").as_str()),
        ("one", "")
    );
    let system = |server: &Postgres| server.execute("SELECT system_identifier FROM pg_control_system()");
    assert_eq!(system(&one), system(&two));
    assert_ne!(system(&one), system(&Postgres::start_unrelated()));
    let folder = template.path();
    drop(template);
    assert!(!folder.exists());
}

#[test]
fn dropped_is_gone() {
    let server = Postgres::start();
    let pid = server.execute("SELECT pg_backend_pid()");
    let folder = server.execute("SHOW data_directory");
    let postmaster = std::fs::read_to_string(format!("{folder}/postmaster.pid")).unwrap();
    let postmaster = postmaster.lines().next().unwrap().to_owned();
    assert!(Path::new("/proc").join(&postmaster).exists());
    drop(server);
    for pid in [pid, postmaster] {
        assert!(!Path::new("/proc").join(&pid).exists(), "process {pid} is still there");
    }
    assert!(!Path::new(&folder).parent().unwrap().exists(), "{folder} is still there");
}

#[test]
fn a_killed_server_leaves_no_memory_behind() {
    let mut server = Postgres::start();
    let folder = server.execute("SHOW data_directory");
    let file = std::fs::read_to_string(format!("{folder}/postmaster.pid")).unwrap();
    let number = file.lines().nth(6).unwrap().split_whitespace().nth(1).unwrap().to_owned();
    let exists = || std::fs::read_to_string("/proc/sysvipc/shm").unwrap().split_whitespace().any(|word| word == number);
    server.kill();
    assert!(exists());
    drop(server);
    assert!(!exists());
}

#[test]
fn databases_of_the_shared_server_are_apart_and_end() {
    let (one, two) = (shared_database(), shared_database());
    assert_ne!(one.url(), two.url());
    one.execute("CREATE TABLE mine (n int)");
    assert_eq!(two.execute("SELECT to_regclass('mine') IS NULL"), "t");
    let name = one.name().to_owned();
    drop(one);
    assert_eq!(two.execute(&format!("SELECT count(*) FROM pg_database WHERE datname = '{name}'")), "0");
}
