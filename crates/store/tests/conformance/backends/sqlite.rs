//! The embedded store in a folder of its own.

use std::path::PathBuf;
use std::sync::Arc;

use lockkeeper_store::{RecordKey, SqliteOptions, SqliteStore};
use rusqlite::{Connection, params};

use crate::bench::{BackDoor, Bench};

/// Starts an empty store.
pub(crate) async fn start() -> Bench {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("store.db");
    let store = SqliteStore::open(&path, SqliteOptions::default()).expect("an empty store");
    Bench { store: Arc::new(store), back_door: Box::new(File { path, _folder: folder }) }
}

struct File {
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl File {
    fn connect(&self) -> Connection {
        Connection::open(&self.path).expect("a connection beside the store")
    }
}

impl BackDoor for File {
    fn renumber(&self, key: &RecordKey, version: i64) {
        let connection = self.connect();
        let names = params![&*key.space, &*key.id, version];
        connection.execute("UPDATE records SET version = ?3 WHERE space = ?1 AND id = ?2", names).expect("renumbered");
        let events =
            "UPDATE events SET version = ?3 WHERE record = (SELECT record FROM records WHERE space = ?1 AND id = ?2)";
        connection.execute(events, names).expect("renumbered");
    }

    fn forbid_event(&self, text: &str) {
        let trigger = format!(
            "CREATE TRIGGER forbidden BEFORE INSERT ON events WHEN new.body = CAST('{text}' AS BLOB)
             BEGIN SELECT RAISE(ABORT, 'a forbidden event'); END"
        );
        self.connect().execute_batch(&trigger).expect("a trigger");
    }

    fn hold_writes(&self) -> Box<dyn Send> {
        let connection = self.connect();
        connection.execute_batch("BEGIN IMMEDIATE").expect("the write lock");
        // Closing the connection gives the lock back.
        Box::new(connection)
    }
}
