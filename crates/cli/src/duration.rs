//! Durations in flags: the form that definitions have, and what to write where it is another.

use std::time::Duration;

/// Reads a whole number and its unit.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    lockkeeper_model::duration::parse(text)
        .ok_or_else(|| "write a whole number and ms, s, m, h or d, for example 5s".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_api_pins() {
        for (text, ms) in
            [("0ms", 0), ("250ms", 250), ("5s", 5_000), ("10m", 600_000), ("2h", 7_200_000), ("1d", 86_400_000)]
        {
            assert_eq!(parse(text), Ok(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn says_what_to_write() {
        assert!(parse("5 s").unwrap_err().contains("for example 5s"));
    }
}
