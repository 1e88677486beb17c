//! Servers that follow another.

use std::fs::OpenOptions;
use std::io::Write;

use crate::command::run;
use crate::folder::Folder;
use crate::port::random;
use crate::postgres::Postgres;
use crate::programs;
use crate::wait::{WAIT_MAX, poll};

/// What a commit on the primary waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replication {
    /// For the primary alone: what is committed there can be missing on the standby.
    Asynchronous,
    /// Until it is synced on the standby as well; without the standby, commits wait for ever.
    Synchronous,
}

impl Postgres {
    /// Starts a standby of this server, with its settings, and returns once changes stream to it.
    ///
    /// [`Replication::Synchronous`] makes it the one standby that commits on this server wait for, instead of whichever
    /// was before. Its own commits, once it is promoted, wait for nobody.
    ///
    /// # Panics
    /// It does not start, or nothing streams.
    #[must_use]
    pub fn standby(&self, kind: Replication) -> Self {
        let name = format!("standby_{:04x}", random());
        let folder = Folder::new();
        self.copy_to(&folder, &name);
        let standby = Self::launch(folder);
        if kind == Replication::Synchronous {
            self.execute(&format!("ALTER SYSTEM SET synchronous_standby_names = '{name}'"));
            self.execute("SELECT pg_reload_conf()");
        }
        let state =
            format!("SELECT state, sync_state = 'sync' FROM pg_stat_replication WHERE application_name = '{name}'");
        let wanted = if kind == Replication::Synchronous { "streaming|t" } else { "streaming|f" };
        let streams = poll(WAIT_MAX, || (self.execute(&state) == wanted).then_some(()));
        assert!(streams.is_some(), "nothing streams to {name}\n{}\n{}", self.log_tail(), standby.log_tail());
        standby
    }

    /// Makes a standby a server that takes changes, and returns once it does.
    ///
    /// # Panics
    /// It is no standby, or does not become a primary in time.
    pub fn promote(&self) {
        let promoted = self.execute(&format!("SELECT pg_promote(true, {})", WAIT_MAX.as_secs()));
        assert_eq!(promoted, "t", "the standby is not promoted\n{}", self.log_tail());
        let done = poll(WAIT_MAX, || (self.execute("SELECT pg_is_in_recovery()") == "f").then_some(()));
        assert!(done.is_some(), "the standby is still recovering\n{}", self.log_tail());
    }

    /// A copy of this server that follows it, known to it as `name`.
    fn copy_to(&self, folder: &Folder, name: &str) {
        let mut backup = folder.command(&programs::of_postgres("pg_basebackup"));
        let source = format!("host=127.0.0.1 port={} user=postgres application_name={name}", self.port());
        backup.args(["-d", &source, "-R", "-X", "stream", "-c", "fast", "--no-sync", "-D"]).arg(folder.work());
        run(backup, "");
        // The copy may have the name of a standby of the primary.
        let settings = folder.work().join("postgresql.auto.conf");
        let file = OpenOptions::new().append(true).open(settings);
        writeln!(file.expect("the copy has settings"), "synchronous_standby_names = ''").expect("they can be written");
    }
}
