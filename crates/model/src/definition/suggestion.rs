//! "Did you mean": the nearest of the known names.

/// Longest name that is compared; past it nobody mistyped a single word.
const COMPARED_CHARS_MAX: usize = 64;

/// The known name that is nearest to `name`, if one is near enough to be meant: at most a third of its letters differ.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted: Vec<char> = name.to_lowercase().chars().collect();
    if wanted.len() > COMPARED_CHARS_MAX {
        return None;
    }
    known
        .into_iter()
        .filter(|candidate| candidate.chars().count() <= COMPARED_CHARS_MAX)
        .map(|candidate| (distance(&wanted, &candidate.to_lowercase().chars().collect::<Vec<_>>()), candidate))
        .filter(|(distance, candidate)| *distance <= wanted.len().max(candidate.chars().count()).div_ceil(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// ` (did you mean ...?)`, or nothing.
pub(crate) fn hint<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, known).map(|near| format!("; did you mean {near:?}?")).unwrap_or_default()
}

/// Edit distance where two neighbours swapped count as one edit: optimal string alignment, the restricted form of
/// Damerau's distance (F. Damerau, "A technique for computer detection and correction of spelling errors", 1964).
fn distance(a: &[char], b: &[char]) -> usize {
    let width = b.len() + 1;
    let mut rows: Vec<usize> = (0..width).chain(std::iter::repeat_n(0, a.len() * width)).collect();
    for i in 1..=a.len() {
        rows[i * width] = i;
        for j in 1..=b.len() {
            let change = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (rows[(i - 1) * width + j] + 1)
                .min(rows[i * width + j - 1] + 1)
                .min(rows[(i - 1) * width + j - 1] + change);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[(i - 2) * width + j - 2] + 1);
            }
            rows[i * width + j] = best;
        }
    }
    rows[a.len() * width + b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_what_is_near_and_nothing_else() {
        let known = ["draft", "review", "approved", "rejected"];
        assert_eq!(nearest("aproved", known), Some("approved"));
        assert_eq!(nearest("Reviwe", known), Some("review"));
        assert_eq!(nearest("payment", known), None);
        assert_eq!(nearest("x", []), None);
        assert_eq!(distance(&['a', 'b'], &['b', 'a']), 1);
    }
}
