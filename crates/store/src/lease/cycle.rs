//! Circles of owners that wait for each other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::LeaseId;

/// Somebody waits for somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The one that waits.
    pub waiter: LeaseId,
    /// Its ticket: the youngest has the highest.
    pub ticket: i64,
    /// Its owner.
    pub owner: Arc<str>,
    /// An owner that is in its way: it holds the name, or waits for it before the other.
    pub blocker: Arc<str>,
}

/// Owners that wait for each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circle {
    /// The one that is to give up: the youngest waiter in it.
    pub victim: LeaseId,
    /// The ticket with which it waits.
    pub ticket: i64,
    /// The owners, each waiting for the next, the last for the first.
    pub owners: Arc<[String]>,
}

/// The circles among these edges, all of one moment. After the victim of each has given up, none is left of those.
///
/// An owner that waits for itself is not told: two flows of work that share a name do so, and go on.
///
/// Source: the wait-for graph of Coffman, Elphick, Shoshani, System Deadlocks, ACM Computing Surveys 3 (1971).
pub fn circles(edges: &[Edge]) -> Vec<Circle> {
    let mut graph = Graph::default();
    for edge in edges.iter().filter(|edge| edge.owner != edge.blocker) {
        graph.ways.entry(edge.owner.clone()).or_default().insert(edge.blocker.clone());
        let youngest =
            graph.youngest.entry((edge.owner.clone(), edge.blocker.clone())).or_insert((i64::MIN, edge.waiter));
        *youngest = (*youngest).max((edge.ticket, edge.waiter));
    }
    let mut found = Vec::new();
    while let Some(circle) = graph.circle() {
        let Some((ticket, victim)) = graph.edges_of(&circle).max() else { break };
        let owners = circle.iter().map(ToString::to_string).collect();
        found.push(Circle { victim, ticket, owners });
        graph.remove(victim);
    }
    found
}

#[derive(Default)]
struct Graph {
    ways: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// Of each pair of owners the youngest that waits.
    youngest: BTreeMap<(Arc<str>, Arc<str>), (i64, LeaseId)>,
}

impl Graph {
    /// Owners that wait for each other, in order; none: there are none. Depth first, each owner once, and without
    /// recursion: chains may be long.
    fn circle(&self) -> Option<Vec<Arc<str>>> {
        let mut done: BTreeSet<Arc<str>> = BTreeSet::new();
        for start in self.ways.keys() {
            let mut path: Vec<Arc<str>> = Vec::new();
            let mut places: BTreeMap<Arc<str>, usize> = BTreeMap::new();
            let mut next: Vec<Vec<Arc<str>>> = vec![vec![start.clone()]];
            while let Some(choices) = next.last_mut() {
                let Some(owner) = choices.pop() else {
                    next.pop();
                    if let Some(owner) = path.pop() {
                        places.remove(&owner);
                        done.insert(owner);
                    }
                    continue;
                };
                if let Some(at) = places.get(&owner) {
                    return Some(path.split_off(*at));
                }
                if done.contains(&owner) {
                    continue;
                }
                next.push(self.ways.get(&owner).into_iter().flatten().cloned().collect());
                places.insert(owner.clone(), path.len());
                path.push(owner);
            }
        }
        None
    }

    fn edges_of(&self, circle: &[Arc<str>]) -> impl Iterator<Item = (i64, LeaseId)> {
        let after = circle.iter().cycle().skip(1);
        circle.iter().zip(after).filter_map(|(from, to)| self.youngest.get(&(from.clone(), to.clone())).copied())
    }

    fn remove(&mut self, victim: LeaseId) {
        let gone: Vec<_> =
            self.youngest.iter().filter(|(_, (_, lease))| *lease == victim).map(|(pair, _)| pair.clone()).collect();
        for (from, to) in gone {
            if let Some(ways) = self.ways.get_mut(&from) {
                ways.remove(&to);
            }
            self.youngest.remove(&(from, to));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(pairs: &[(&str, &str)]) -> Vec<Edge> {
        let edge = |(ticket, (owner, blocker)): (i64, &(&str, &str))| Edge {
            waiter: LeaseId::of_attempt(owner, &ticket.to_string()),
            ticket,
            owner: (*owner).into(),
            blocker: (*blocker).into(),
        };
        (1..).zip(pairs).map(edge).collect()
    }

    fn victims(pairs: &[(&str, &str)]) -> Vec<String> {
        let edges = edges(pairs);
        let owner = |lease| edges.iter().find(|edge| edge.waiter == lease).map(|edge| edge.owner.to_string());
        circles(&edges).iter().filter_map(|circle| owner(circle.victim)).collect()
    }

    #[test]
    fn without_a_circle_nobody_gives_up() {
        assert!(victims(&[("a", "b"), ("b", "c"), ("a", "c"), ("d", "c")]).is_empty());
        assert!(victims(&[("a", "a")]).is_empty(), "an owner may have several flows of work");
    }

    #[test]
    fn the_youngest_of_a_circle_gives_up() {
        assert_eq!(victims(&[("a", "b"), ("b", "c"), ("c", "a")]), ["c"]);
        assert_eq!(victims(&[("c", "a"), ("b", "c"), ("a", "b")]), ["a"]);
    }

    #[test]
    fn each_circle_loses_one() {
        assert_eq!(victims(&[("a", "b"), ("b", "a"), ("c", "d"), ("d", "c")]), ["b", "d"]);
        // Two circles with a way in common: one victim breaks both.
        assert_eq!(victims(&[("x", "a"), ("y", "a"), ("a", "x"), ("a", "y")]).len(), 2);
    }

    #[test]
    fn a_circle_is_told_in_the_order_of_waiting() {
        let found = circles(&edges(&[("a", "b"), ("b", "c"), ("c", "a"), ("c", "z")]));
        let owners = &found[0].owners;
        let at = owners.iter().position(|owner| owner == "a").expect("a is in it");
        let from_a: Vec<&str> = owners.iter().cycle().skip(at).take(3).map(String::as_str).collect();
        assert_eq!(from_a, ["a", "b", "c"]);
    }

    #[test]
    fn a_long_chain_needs_no_stack() {
        let names: Vec<String> = (0..20_000).map(|n| format!("o{n:05}")).collect();
        let pairs: Vec<(&str, &str)> = names.windows(2).map(|pair| (&*pair[0], &*pair[1])).collect();
        assert!(victims(&pairs).is_empty());
    }
}
