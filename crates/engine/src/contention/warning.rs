//! What is said of a key that serialises its workflow.

use chrono::{DateTime, Utc};
use serde::Serialize;

/// One key takes most of the commands of its workflow, and most of them wait for each other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Warning {
    /// The workflow.
    pub workflow: String,
    /// The key.
    pub key: String,
    /// Since when it has taken most of the commands.
    pub since: DateTime<Utc>,
    /// When this was last so.
    pub at: DateTime<Utc>,
    /// Its share of the workflow's commands of about the last half-minute, 0 to 1.
    pub share: f64,
    /// Share of its commands that had to wait on this node, 0 to 1.
    pub waited: f64,
    /// Its commands a second: what one instance carries here.
    pub commands_per_second: f64,
    /// What happened, and what to do.
    pub text: String,
}

impl Warning {
    pub(super) fn text_of(workflow: &str, key: &str, share: f64, waited: f64, rate: f64) -> String {
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        let (share, waited) = (percent(share), percent(waited));
        let rate = if rate < 10.0 { format!("{rate:.1}") } else { format!("{rate:.0}") };
        format!(
            "{key} takes {share} of the commands of workflow {workflow}, and {waited} of them wait for each other, \
             because the commands of one instance are decided one after another: it carries {rate} a second here. More \
             nodes or workers will not make it faster. Split it into several instances (by place, day or customer, for \
             example), or accept that it is one queue."
        )
    }
}
