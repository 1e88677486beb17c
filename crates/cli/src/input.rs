//! What is read from files, from standard input and from arguments.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use lockkeeper_model::limits::{DEFINITION_BYTES_MAX, KEY_BYTES_MAX};
use lockkeeper_model::{Format, Problem, names};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::failure::Failure;

/// The longest text of data that is read; how much data there may be is for the server to say.
const DATA_TEXT_BYTES_MAX: usize = 1024 * 1024;

/// The file name that means standard input.
const STANDARD_INPUT: &str = "-";

/// A definition's text, where it came from, and how it is written.
#[derive(Debug)]
pub(crate) struct DefinitionFile {
    /// The file's name, for people.
    pub name: String,
    /// The text.
    pub text: String,
    /// How it is written: by the name's ending, else by its first character.
    pub format: Format,
    /// The ending of its name, in lower case.
    pub ending: String,
    /// Of a machine of another tool: what is not carried over, and what means nothing here.
    pub told: Vec<Problem>,
}

impl DefinitionFile {
    /// Reads a file, or standard input for `-`.
    pub(crate) fn read(file: &Path) -> Result<Self, Failure> {
        let stdin = file.as_os_str() == STANDARD_INPUT;
        let name = if stdin { "<stdin>".to_owned() } else { file.display().to_string() };
        let text = read_text(file, DEFINITION_BYTES_MAX).map_err(|e| Failure::failed(format!("{name}: {e}")))?;
        let ending = file.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
        let format = match ending.as_str() {
            "yaml" | "yml" => Format::Yaml,
            "json" => Format::Json,
            _ if text.trim_start().starts_with('{') => Format::Json,
            _ => Format::Yaml,
        };
        Ok(Self { name, text, format, ending, told: Vec::new() })
    }
}

/// Reads a file, or standard input for `-`, at most `bytes_max` bytes of UTF-8.
fn read_text(file: &Path, bytes_max: usize) -> Result<String, String> {
    let mut bytes = Vec::new();
    let limit = bytes_max as u64 + 1;
    let read = if file.as_os_str() == STANDARD_INPUT {
        std::io::stdin().lock().take(limit).read_to_end(&mut bytes)
    } else {
        File::open(file).and_then(|f| f.take(limit).read_to_end(&mut bytes))
    };
    read.map_err(|e| e.to_string())?;
    if bytes.len() > bytes_max {
        return Err(format!("is larger than {bytes_max} bytes"));
    }
    String::from_utf8(bytes).map_err(|e| format!("is not UTF-8 (byte {})", e.utf8_error().valid_up_to()))
}

/// The data of `--data`: JSON itself, `@FILE`, or `-` for standard input. It must be an object.
pub(crate) fn read_data(argument: &str) -> Result<Map<String, Value>, Failure> {
    let (from, text) = match argument.strip_prefix('@') {
        Some(file) => (file, read_text(Path::new(file), DATA_TEXT_BYTES_MAX)),
        None if argument == STANDARD_INPUT => ("standard input", read_text(Path::new(argument), DATA_TEXT_BYTES_MAX)),
        None => ("--data", Ok(argument.to_owned())),
    };
    let text = text.map_err(|e| Failure::usage(format!("{from}: {e}")))?;
    match serde_json::from_str(&text) {
        Ok(Value::Object(data)) => Ok(data),
        Ok(_) => Err(Failure::usage(format!("{from}: write a JSON object, for example {{\"quantity\": 5}}"))),
        Err(e) => Err(Failure::usage(format!("{from}: no valid JSON: {e}"))),
    }
}

/// The `actor` of a request body: `"id"`, or `{id, roles}`.
pub(crate) fn actor(id: Option<&str>, roles: &[String]) -> Option<Value> {
    let id = id?;
    Some(if roles.is_empty() { json!(id) } else { json!({ "id": id, "roles": roles }) })
}

/// Checks an actor's id, a role, an event or a state.
pub(crate) fn name(text: &str) -> Result<String, String> {
    names::check_name("name", text).map(|()| text.to_owned()).map_err(|e| e.to_string())
}

/// Checks an idempotency key: it travels in a header.
pub(crate) fn key(text: &str) -> Result<String, String> {
    let fits = (1..=KEY_BYTES_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
    if fits {
        Ok(text.to_owned())
    } else {
        Err(format!("write 1 to {KEY_BYTES_MAX} printable ASCII characters without spaces"))
    }
}

/// A new idempotency key.
pub(crate) fn random_key() -> String {
    Uuid::new_v4().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(name: &str, text: &str) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(name);
        std::fs::write(&file, text).unwrap();
        (folder, file)
    }

    #[test]
    fn the_format_is_told_by_ending_then_by_content() {
        for (name, text, format) in [
            ("a.yaml", "{", Format::Yaml),
            ("a.YML", "", Format::Yaml),
            ("a.json", "x", Format::Json),
            ("a", "\n {\"workflow\":", Format::Json),
            ("a.txt", "workflow: a", Format::Yaml),
        ] {
            let (_folder, file) = written(name, text);
            assert_eq!(DefinitionFile::read(&file).unwrap().format, format, "{name}");
        }
    }

    #[test]
    fn data_comes_from_the_argument_or_a_file() {
        assert_eq!(read_data("{\"a\": 9007199254740993}").unwrap()["a"], 9_007_199_254_740_993_i64);
        let (_folder, file) = written("d.json", "{\"a\":1}");
        assert_eq!(read_data(&format!("@{}", file.display())).unwrap()["a"], 1);
        for bad in ["", "1", "[]", "{", "@/no/such/file"] {
            assert!(matches!(read_data(bad), Err(Failure::Usage(_))), "{bad}");
        }
    }

    #[test]
    fn too_large_and_foreign_files_are_refused() {
        let (_folder, file) = written("d.json", &" ".repeat(DATA_TEXT_BYTES_MAX + 1));
        assert!(read_data(&format!("@{}", file.display())).is_err());
        let (_folder, file) = written("x", "");
        std::fs::write(&file, b"a\xff").unwrap();
        assert_eq!(read_text(&file, 10).unwrap_err(), "is not UTF-8 (byte 1)");
    }

    #[test]
    fn an_actor_is_an_id_or_an_object() {
        assert_eq!(actor(None, &[]), None);
        assert_eq!(actor(Some("ann"), &[]), Some(json!("ann")));
        assert_eq!(actor(Some("ann"), &["x".into()]), Some(json!({"id": "ann", "roles": ["x"]})));
    }

    #[test]
    fn keys_fit_into_a_header() {
        assert!(key(&random_key()).is_ok());
        for bad in ["", "a b", "ä", "a\n", &"k".repeat(257)] {
            assert!(key(bad).is_err(), "{bad:?}");
        }
    }
}
