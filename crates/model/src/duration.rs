//! Durations as they are written in definitions and flags: `50ms`, `5s`, `72h`.

use std::time::Duration;

use chrono::TimeDelta;

use crate::Timestamp;

/// Reads `^\d+(ms|s|m|h|d)$`; none if the text is not of that form, or past what a `Duration` of milliseconds holds.
pub fn parse(text: &str) -> Option<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (count, unit) = text.split_at(digits);
    let count: u64 = count.parse().ok()?;
    let unit_ms: u64 = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    count.checked_mul(unit_ms).map(Duration::from_millis)
}

/// The shortest form of a duration; below a millisecond it is cut.
pub fn write(duration: Duration) -> String {
    let ms = duration.as_millis();
    for (unit, length) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)] {
        if ms >= length && ms.is_multiple_of(length) {
            return format!("{}{unit}", ms / length);
        }
    }
    format!("{ms}ms")
}

/// `at` and so long after it; the end of time where that is past it. What the store has may tell of any time.
pub(crate) fn after(at: Timestamp, by: Duration) -> Timestamp {
    at.checked_add_signed(TimeDelta::from_std(by).unwrap_or(TimeDelta::MAX)).unwrap_or(Timestamp::MAX_UTC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_unit_without_a_rest_is_written() {
        let written =
            [0, 500, 1_000, 90_000, 3_600_000, 129_600_000, 259_200_000].map(Duration::from_millis).map(write);
        assert_eq!(written, ["0ms", "500ms", "1s", "90s", "1h", "36h", "3d"]);
    }

    #[test]
    fn reads_the_pinned_form_and_nothing_else() {
        for (text, ms) in [
            ("0ms", 0),
            ("50ms", 50),
            ("5s", 5_000),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("3d", 259_200_000),
            ("007s", 7_000),
        ] {
            assert_eq!(parse(text), Some(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "5", "ms", "5 s", " 5s", "5S", "-5s", "5.5s", "5s5s", "٥s", "18446744073709551616ms"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
        assert_eq!(parse("18446744073709551615d"), None, "past what milliseconds hold");
    }
}
