//! Which process this is, among the nodes of a store.

use std::fs;

/// Where Linux has the host's name.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// Host name and process id: `host:1234`.
pub(crate) fn name() -> String {
    let told = fs::read_to_string(HOST_NAME).ok().or_else(|| std::env::var("HOSTNAME").ok());
    let host = told.as_deref().map(str::trim).filter(|host| !host.is_empty()).unwrap_or("localhost");
    format!("{host}:{}", std::process::id())
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_node_is_a_host_and_a_process() {
        let name = super::name();
        let (host, process) = name.rsplit_once(':').unwrap();
        assert!(!host.is_empty() && !host.contains(char::is_whitespace), "{name:?}");
        assert_eq!(process, std::process::id().to_string());
    }
}
