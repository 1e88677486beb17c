//! What a server says of itself, and whether it can keep leases.

/// The oldest version that is served: `ZADD GT` and `SET PX` in scripts whose effects are replicated.
const VERSION_MIN: (u32, u32) = (6, 2);

/// What `INFO` tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Info {
    /// Drawn for each process of the server.
    pub(super) run: String,
    /// Drawn for each history of data that replicas can follow.
    pub(super) replication: String,
    /// It was a replica before.
    pub(super) promoted: bool,
    /// Seconds.
    pub(super) uptime: u64,
    /// Why it must not be given new leases, and what would do. Those that it has can still be renewed and released.
    pub(super) unfit: Option<String>,
}

/// Why a server cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unfit {
    /// Until somebody changes its settings.
    Settings(String),
    /// For now.
    State(String),
}

/// Reads the answer to `INFO`.
pub(super) fn read(text: &str) -> Result<Info, Unfit> {
    let field = |name: &str| {
        let mut fields = text.lines().filter_map(|line| line.split_once(':'));
        fields.find(|(its, _)| *its == name).map(|(_, value)| value.trim().to_owned())
    };
    let needed = |name: &str| field(name).ok_or_else(|| Unfit::Settings(format!("INFO does not tell `{name}`")));
    check_version(&needed("redis_version")?)?;
    if needed("role")? != "master" {
        return Err(Unfit::State("it is a replica: name the server that takes changes".to_owned()));
    }
    let uptime = needed("uptime_in_seconds")?;
    let uptime = uptime.parse().map_err(|_| Unfit::Settings(format!("INFO tells an uptime of `{uptime}`")))?;
    // Forty zeros: it has never followed another.
    let promoted = field("master_replid2").is_some_and(|id| id.contains(|digit| digit != '0'));
    let unfit = fault_of_policy(&needed("maxmemory_policy")?);
    Ok(Info { run: needed("run_id")?, replication: needed("master_replid")?, promoted, uptime, unfit })
}

fn check_version(version: &str) -> Result<(), Unfit> {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    let version_is = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    if version_is >= VERSION_MIN {
        return Ok(());
    }
    let (major, minor) = VERSION_MIN;
    Err(Unfit::Settings(format!("it is version {version}; at least {major}.{minor} is needed")))
}

/// All keys of leases have an expiry, so that every policy but one may throw a held lease away to make room.
fn fault_of_policy(policy: &str) -> Option<String> {
    (policy != "noeviction").then(|| {
        format!(
            "its `maxmemory-policy` is `{policy}`, which may throw held locks away: set it to `noeviction`, or use a \
             server of its own for locks"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# Server\r\nredis_version:7.0.15\r\nrun_id:aa\r\nuptime_in_seconds:12\r\n# Memory\r\n\
        maxmemory_policy:noeviction\r\n# Replication\r\nrole:master\r\nmaster_replid:bb\r\n\
        master_replid2:0000000000000000000000000000000000000000\r\n";

    #[test]
    fn what_a_server_says_is_read() {
        let (run, replication) = ("aa".to_owned(), "bb".to_owned());
        let info = Info { run, replication, promoted: false, uptime: 12, unfit: None };
        assert_eq!(read(GOOD), Ok(info.clone()));
        let promoted = GOOD.replace("replid2:00", "replid2:0c");
        assert_eq!(read(&promoted), Ok(Info { promoted: true, ..info }));
    }

    #[test]
    fn a_server_that_cannot_keep_leases_is_refused_with_what_to_do() {
        for (before, after, told) in
            [("7.0.15", "6.0.16", "at least 6.2"), ("7.0.15", "strange", "at least 6.2"), ("run_id:aa", "", "run_id")]
        {
            let Err(Unfit::Settings(detail)) = read(&GOOD.replace(before, after)) else { panic!("{after} is taken") };
            assert!(detail.contains(told), "{detail}");
        }
        assert!(matches!(read(&GOOD.replace("role:master", "role:slave")), Err(Unfit::State(_))));
    }

    #[test]
    fn a_server_that_may_throw_leases_away_gets_no_more_of_them() {
        for policy in ["allkeys-lru", "volatile-ttl"] {
            let info = read(&GOOD.replace("noeviction", policy)).expect("what it has is renewed");
            let told = info.unfit.expect(policy);
            assert!(told.contains(policy) && told.contains("set it to `noeviction`"), "{told}");
        }
    }
}
