//! Which votes fill which places, so that as many places as possible are filled.

/// Places of one kind: so many, and which votes may fill them.
pub(super) struct Places {
    pub(super) quorum: usize,
    /// By vote.
    pub(super) fits: Vec<bool>,
}

/// How many places of each kind the votes fill at most, taken together: each vote fills one.
///
/// A person who may sit in two groups must not be counted where they came first: ann of finance and of legal leaves
/// finance to bob, who is of finance only. So each vote that finds its places taken asks those who sit there to move on
/// (augmenting paths: H. Kuhn, "The Hungarian method for the assignment problem", 1955; the order of the votes does not
/// change how many places are filled).
pub(super) fn filled(places: &[Places], votes: usize) -> Vec<usize> {
    let mut seated: Vec<Vec<usize>> = places.iter().map(|_| Vec::new()).collect();
    for vote in 0..votes {
        let mut asked = vec![false; places.len()];
        seat(vote, places, &mut seated, &mut asked);
    }
    seated.iter().map(Vec::len).collect()
}

/// Seats `vote`, if need be by moving others. The depth is bounded by the number of kinds.
fn seat(vote: usize, places: &[Places], seated: &mut [Vec<usize>], asked: &mut [bool]) -> bool {
    for (at, kind) in places.iter().enumerate() {
        if !kind.fits[vote] || std::mem::replace(&mut asked[at], true) {
            continue;
        }
        if seated[at].len() < kind.quorum {
            seated[at].push(vote);
            return true;
        }
        for place in 0..seated[at].len() {
            if seat(seated[at][place], places, seated, asked) {
                seated[at][place] = vote;
                return true;
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(kinds: &[(usize, &str)]) -> Vec<Places> {
        let fits = |votes: &str| votes.chars().map(|c| c == 'x').collect();
        kinds.iter().map(|(quorum, votes)| Places { quorum: *quorum, fits: fits(votes) }).collect()
    }

    #[test]
    fn whoever_fits_twice_makes_room() {
        // The first vote fits both, the second only the first.
        assert_eq!(filled(&places(&[(1, "xx"), (1, "x.")]), 2), [1, 1]);
        // A chain of three.
        assert_eq!(filled(&places(&[(1, "xx."), (1, "x.x"), (1, "..x")]), 3), [1, 1, 1]);
        // One person is one vote, wherever it fits.
        assert_eq!(filled(&places(&[(1, "x"), (1, "x")]), 1), [1, 0]);
        assert_eq!(filled(&places(&[(2, "xxx"), (1, "...")]), 3), [2, 0]);
        assert_eq!(filled(&places(&[(2, "")]), 0), [0]);
    }
}
