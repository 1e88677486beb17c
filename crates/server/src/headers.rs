//! The headers of answers, as the OpenAPI document tells them.

use utoipa::openapi::path::Operation;
use utoipa::openapi::{HeaderBuilder, ObjectBuilder, OpenApi, RefOr, Type};

/// Puts them to the answers that carry them: wherever something is refused, and where a key may have been answered before.
pub(crate) fn describe(document: &mut OpenApi) {
    for item in document.paths.paths.values_mut() {
        for operation in [&mut item.get, &mut item.put, &mut item.post, &mut item.delete].into_iter().flatten() {
            of_operation(operation);
        }
    }
}

fn of_operation(operation: &mut Operation) {
    let takes_key = operation
        .parameters
        .iter()
        .flatten()
        .any(|parameter| matches!(parameter, RefOr::T(parameter) if parameter.name == "Idempotency-Key"));
    let starts = operation.operation_id.as_deref() == Some("start_instance");
    for (status, response) in &mut operation.responses.responses {
        let RefOr::T(response) = response else { continue };
        let mut told = |name: &str, kind, description: &str| {
            let schema = ObjectBuilder::new().schema_type(kind);
            let header = HeaderBuilder::new().schema(Some(schema)).description(Some(description)).build();
            response.headers.insert(name.to_owned(), header.into());
        };
        let is_success = status.starts_with('2');
        if matches!(status.as_str(), "default" | "429" | "503") {
            told("Retry-After", Type::Integer, "With 429 and 503: seconds after which it may be sent again");
        }
        if is_success && takes_key {
            told(
                "Idempotency-Replayed",
                Type::String,
                "`true`: the key was answered before, and this is that answer again",
            );
        }
        if status == "201" && starts {
            told("Location", Type::String, "The instance");
        }
    }
}
