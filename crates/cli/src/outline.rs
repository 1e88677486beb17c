//! A definition as its text lays it out, for showing. Only for texts that [`lockkeeper_model::Definition`] has read
//! without a problem: what is judged is judged there.

use std::fmt;
use std::marker::PhantomData;

use lockkeeper_model::Format;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};

/// The parts of a definition that are shown.
#[derive(Debug, Deserialize)]
pub(crate) struct Outline {
    pub(crate) initial: String,
    pub(crate) states: Ordered<State>,
}

/// A state.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct State {
    #[serde(default)]
    on: Ordered<Value>,
    #[serde(rename = "type")]
    pub(crate) kind: Option<String>,
    pub(crate) status: Option<String>,
}

/// One way on from a state.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Way {
    pub(crate) target: Option<String>,
    pub(crate) guard: Option<Value>,
    #[serde(default)]
    pub(crate) assign: Map<String, Value>,
    pub(crate) approval: Option<Approval>,
    #[serde(default)]
    pub(crate) roles: Vec<String>,
}

/// How many must agree, and who may.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Approval {
    pub(crate) quorum: u64,
    #[serde(default)]
    pub(crate) roles: Vec<String>,
}

impl Outline {
    /// Lays out a text.
    pub(crate) fn read(text: &str, format: Format) -> Result<Self, String> {
        match format {
            Format::Yaml => {
                // YAML 1.2, as the model reads it: `yes` and `n` are texts.
                let options = serde_saphyr::options! { strict_booleans: true };
                serde_saphyr::from_str_with_options(text, options).map_err(|e| e.to_string())
            }
            Format::Json => serde_json::from_str(text).map_err(|e| e.to_string()),
        }
    }
}

impl State {
    /// The events and the ways on from here, in the order in which they are tried.
    pub(crate) fn ways(&self) -> Result<Vec<(&str, Way)>, String> {
        let mut ways = Vec::new();
        for (event, node) in &self.on.0 {
            let nodes = match node {
                Value::Array(items) => items.as_slice(),
                node => std::slice::from_ref(node),
            };
            for node in nodes {
                ways.push((event.as_str(), Way::read(node).map_err(|e| format!("cannot show event {event}: {e}"))?));
            }
        }
        Ok(ways)
    }
}

impl Way {
    /// A state's name, or a block.
    fn read(node: &Value) -> Result<Self, serde_json::Error> {
        match node {
            Value::String(state) => Ok(Self { target: Some(state.clone()), ..Self::default() }),
            block => serde_json::from_value(block.clone()),
        }
    }
}

/// A map whose fields stay in the order of the text.
#[derive(Clone, Debug)]
pub(crate) struct Ordered<T>(pub(crate) Vec<(String, T)>);

impl<T> Default for Ordered<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Ordered<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields(PhantomData))
    }
}

struct Fields<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
    type Value = Ordered<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Ordered(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_and_events_stay_in_order() {
        let text = "initial: z\nstates:\n  z: {on: {go: a, b: [{guard: true, target: a}, {}], c: {assign: {y: 1}}}}\n  \
                    a: {type: final}\n";
        let outline = Outline::read(text, Format::Yaml).unwrap();
        assert_eq!(outline.initial, "z");
        let (name, state) = &outline.states.0[0];
        assert_eq!((name.as_str(), outline.states.0[1].0.as_str()), ("z", "a"));
        let ways = state.ways().unwrap();
        let events: Vec<&str> = ways.iter().map(|(event, _)| *event).collect();
        assert_eq!(events, ["go", "b", "b", "c"]);
        assert_eq!(ways[0].1.target.as_deref(), Some("a"));
        assert_eq!(ways[3].1.assign["y"], 1);
    }
}
