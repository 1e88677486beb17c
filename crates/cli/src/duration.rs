//! Durations as they are written in flags and definitions: `250ms`, `5s`, `10m`, `2h`, `1d`.

use std::time::Duration;

/// Reads a whole number and its unit.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let unit_ms: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(remedy()),
    };
    if number.is_empty() {
        return Err(remedy());
    }
    let number: u64 = number.parse().map_err(|_| "is too long".to_owned())?;
    number.checked_mul(unit_ms).map(Duration::from_millis).ok_or_else(|| "is too long".to_owned())
}

fn remedy() -> String {
    "write a whole number and ms, s, m, h or d, for example 5s".to_owned()
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
    fn refuses_the_rest() {
        for bad in [
            "",
            "5",
            "s",
            "-5s",
            "+5s",
            "1.5s",
            "5 s",
            "5S",
            "1h30m",
            "٣s",
            "99999999999999999999s",
            "18446744073709551615d",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
