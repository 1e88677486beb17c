//! Which instance is meant: `WORKFLOW/ID`.

use std::fmt;
use std::str::FromStr;

use lockkeeper_model::{InstanceKey, WorkflowName};

/// One instance: `WORKFLOW/ID`, split at the first `/`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Target {
    /// The workflow's name.
    pub workflow: String,
    /// The instance's id, which may contain `/`.
    pub id: String,
}

impl Target {
    /// The instance's path in the API, followed by `rest`.
    pub(crate) fn path(&self, rest: &[&str]) -> String {
        let mut segments = vec!["v1", "workflows", &self.workflow, "instances", &self.id];
        segments.extend(rest);
        crate::encode::path(&segments)
    }
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (workflow, id) =
            text.split_once('/').ok_or_else(|| "write WORKFLOW/ID, for example purchase/po-1".to_owned())?;
        let key = InstanceKey::new(workflow, id).map_err(|e| e.to_string())?;
        Ok(Self { workflow: key.workflow.to_string(), id: key.id.to_string() })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.workflow, self.id)
    }
}

/// What is to be started: `WORKFLOW/ID`, or `WORKFLOW` alone, and the server chooses the id.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StartTarget {
    /// The workflow's name.
    pub workflow: String,
    /// The instance's id, if one was given.
    pub id: Option<String>,
}

impl FromStr for StartTarget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.contains('/') {
            return Target::from_str(text).map(|target| Self { workflow: target.workflow, id: Some(target.id) });
        }
        Ok(Self { workflow: workflow_name(text)?, id: None })
    }
}

/// Checks a workflow's name.
pub(crate) fn workflow_name(text: &str) -> Result<String, String> {
    WorkflowName::new(text).map(|name| name.to_string()).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_at_the_first_slash() {
        let target: Target = "stock/eu/sku-1".parse().unwrap();
        assert_eq!((target.workflow.as_str(), target.id.as_str()), ("stock", "eu/sku-1"));
        assert_eq!(target.path(&["events"]), "/v1/workflows/stock/instances/eu%2Fsku-1/events");
    }

    #[test]
    fn refuses_what_cannot_be_named() {
        for bad in ["purchase", "purchase/", "/po-1", "Purchase/po-1", "purchase/.", "purchase/..", "purchase/a\nb"] {
            assert!(bad.parse::<Target>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_start_may_leave_the_id_to_the_server() {
        assert_eq!("ticket".parse(), Ok(StartTarget { workflow: "ticket".into(), id: None }));
        assert_eq!("ticket/7".parse(), Ok(StartTarget { workflow: "ticket".into(), id: Some("7".into()) }));
        assert!("ticket/".parse::<StartTarget>().is_err());
    }
}
