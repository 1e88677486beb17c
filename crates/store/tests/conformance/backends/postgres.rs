//! A schema in a database of its own, on a real server.

use std::sync::{Arc, mpsc};
use std::thread;

use lockkeeper_store::{PostgresOptions, PostgresStore, RecordKey};
use lockkeeper_testbed::{TestDatabase, shared_database};

use crate::bench::{BackDoor, Bench};

/// Starts an empty store.
pub(crate) async fn start() -> Bench {
    let database = tokio::task::spawn_blocking(shared_database).await.expect("a database");
    let options = PostgresOptions::from_url(&database.url()).expect("a good url");
    let store = PostgresStore::open(options).await.expect("an empty store");
    Bench { store: Arc::new(store), back_door: Box::new(Door { database }) }
}

struct Door {
    database: TestDatabase,
}

impl BackDoor for Door {
    fn renumber(&self, key: &RecordKey, version: i64) {
        let record =
            format!("(SELECT record FROM lockkeeper.records WHERE space = '{}' AND id = '{}')", key.space, key.id);
        self.database.execute(&format!(
            "UPDATE lockkeeper.events SET version = {version} WHERE record = {record};
             UPDATE lockkeeper.records SET version = {version} WHERE record = {record};"
        ));
    }

    fn forbid_event(&self, text: &str) {
        self.database.execute(&format!(
            "CREATE FUNCTION forbid() RETURNS trigger LANGUAGE plpgsql AS
                 $$ BEGIN IF new.body = '{text}'::bytea THEN RAISE EXCEPTION 'a forbidden event'; END IF; RETURN new; END $$;
             CREATE TRIGGER forbidden BEFORE INSERT ON lockkeeper.events FOR EACH ROW EXECUTE FUNCTION forbid();"
        ));
    }

    fn hold_writes(&self) -> Box<dyn Send> {
        Box::new(Hold::take(&self.database.url()))
    }
}

/// A session of its own that keeps every writer waiting, until it is dropped.
struct Hold {
    end: Option<mpsc::SyncSender<()>>,
    session: Option<thread::JoinHandle<()>>,
}

impl Hold {
    fn take(url: &str) -> Self {
        let url = url.to_owned();
        let (end, until_end) = mpsc::sync_channel::<()>(1);
        let (held, until_held) = mpsc::sync_channel(1);
        let session = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let (client, connection) =
                    tokio_postgres::connect(&url, tokio_postgres::NoTls).await.expect("a session");
                let connection = tokio::spawn(connection);
                let lock = "BEGIN; LOCK TABLE lockkeeper.records IN EXCLUSIVE MODE";
                client.batch_execute(lock).await.expect("the lock");
                held.send(()).expect("somebody waits");
                // The other side of the channel is dropped.
                let _ended = tokio::task::spawn_blocking(move || until_end.recv()).await;
                client.batch_execute("COMMIT").await.expect("the end");
                drop(client);
                connection.await.expect("no panic").expect("a good end");
            });
        });
        until_held.recv().expect("the lock is held");
        Self { end: Some(end), session: Some(session) }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(session) = self.session.take() {
            session.join().expect("a good end");
        }
    }
}
