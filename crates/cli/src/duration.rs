//! Durations in flags: the form that definitions have, and what to write where it is another.

use std::time::Duration;

use lockkeeper_model::duration::write;
use lockkeeper_model::limits::{RETENTION_MAX, RETENTION_MIN};

/// Reads a whole number and its unit.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    lockkeeper_model::duration::parse(text)
        .ok_or_else(|| "write a whole number and ms, s, m, h or d, for example 5s".to_owned())
}

/// The same, within the bounds that definitions have for how long things are kept.
pub(crate) fn parse_retention(text: &str) -> Result<Duration, String> {
    let time = parse(text).map_err(|_| "write a whole number and h or d, for example 90d".to_owned())?;
    if !(RETENTION_MIN..=RETENTION_MAX).contains(&time) {
        let (least, most) = (write(RETENTION_MIN), write(RETENTION_MAX));
        return Err(format!("write {least} to {most}; to keep it for ever, leave the flag out"));
    }
    Ok(time)
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
    fn what_is_kept_is_kept_for_an_hour_at_least() {
        assert_eq!(parse_retention("60m"), Ok(RETENTION_MIN));
        assert_eq!(parse_retention("3660d"), Ok(RETENTION_MAX));
        for text in ["0s", "59m", "3661d", "18446744073709551615ms"] {
            assert!(parse_retention(text).unwrap_err().contains("1h to 3660d"), "{text}");
        }
        for text in ["", "90", "forever", "-1d"] {
            assert!(parse_retention(text).unwrap_err().contains("for example 90d"), "{text}");
        }
    }

    #[test]
    fn says_what_to_write() {
        assert!(parse("5 s").unwrap_err().contains("for example 5s"));
    }
}
