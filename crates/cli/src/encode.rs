//! Puts names into URLs, byte for byte.

use std::fmt::Write as _;

/// The path of `segments`, each percent-encoded as one segment whatever it contains.
pub(crate) fn path(segments: &[&str]) -> String {
    let mut path = String::new();
    for segment in segments {
        path.push('/');
        push_encoded(&mut path, segment);
    }
    path
}

/// `?a=b&c=d` of those pairs that have a value; nothing without any.
pub(crate) fn query(pairs: &[(&str, Option<String>)]) -> String {
    let mut query = String::new();
    for (name, value) in pairs {
        let Some(value) = value else { continue };
        query.push(if query.is_empty() { '?' } else { '&' });
        query.push_str(name);
        query.push('=');
        push_encoded(&mut query, value);
    }
    query
}

/// Everything but RFC 3986's unreserved characters is encoded. `.` and `..`, which parsers of URLs resolve even when
/// they are encoded, are refused before (see [`lockkeeper_model::InstanceId`]).
fn push_encoded(url: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            url.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            _ = write!(url, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_one_segment_whatever_it_contains() {
        for (id, encoded) in [
            ("po-1", "po-1"),
            ("a/b", "a%2Fb"),
            ("../x", "..%2Fx"),
            ("%2F", "%252F"),
            ("%2e", "%252e"),
            ("a b ", "a%20b%20"),
            ("a?b#c", "a%3Fb%23c"),
            ("e\u{301}", "e%CC%81"),
            ("é", "%C3%A9"),
            ("🦀", "%F0%9F%A6%80"),
            ("a\\b", "a%5Cb"),
        ] {
            assert_eq!(path(&["w", id]), format!("/w/{encoded}"));
        }
    }

    #[test]
    fn the_url_crate_leaves_our_paths_alone() {
        for id in ["a/b", "..a", "...", "%2F", "%2E", "%2e%2E", "a/../b", "a\\..\\b", "~x", " ", "a;b=c", "🦀"] {
            let text = format!("http://h{}", path(&["v1", id, "events"]));
            assert_eq!(reqwest::Url::parse(&text).unwrap().as_str(), text);
        }
    }

    #[test]
    fn queries_leave_out_what_is_not_given() {
        assert_eq!(query(&[("a", None)]), "");
        assert_eq!(query(&[("a", Some("x&y".into())), ("b", None), ("c", Some("1".into()))]), "?a=x%26y&c=1");
    }
}
