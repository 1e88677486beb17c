//! A store and the nodes on it: one node on SQLite, or two on PostgreSQL.

use super::api::Api;
use super::cli::Cli;
use super::server::{Server, Store};

/// Nodes on a store of their own, all gone when dropped.
pub(crate) struct World {
    nodes: Vec<Server>,
    pub(crate) store: Store,
}

impl World {
    /// One node on a file.
    pub(crate) fn of_one() -> Self {
        Self::on(Store::new(), 1)
    }

    /// Two nodes on a PostgreSQL database.
    pub(crate) fn of_two() -> Self {
        Self::on(Store::shared(), 2)
    }

    fn on(store: Store, nodes: usize) -> Self {
        Self { nodes: (0..nodes).map(|_| store.serve()).collect(), store }
    }

    /// A way to all nodes, which are asked in turn.
    pub(crate) fn api(&self) -> Api {
        Api::over(self.nodes.iter().map(|node| node.url().to_owned()).collect())
    }

    /// A node; numbers beyond the last begin again.
    pub(crate) fn node(&self, number: usize) -> &Server {
        &self.nodes[number % self.nodes.len()]
    }

    /// The command line, on one of the nodes.
    pub(crate) fn cli(&self, number: usize) -> Cli {
        self.node(number).cli()
    }

    /// Ends all nodes in order, and starts as many on the same store.
    pub(crate) fn restart(self) -> Self {
        let count = self.nodes.len();
        for node in self.nodes {
            let ended = node.stop();
            assert_eq!(ended.code, Some(0), "{}", ended.log);
        }
        Self::on(self.store, count)
    }
}

/// Makes two tests of each scenario: with one node on SQLite, and with two on PostgreSQL.
macro_rules! in_both_worlds {
    ($($scenario:ident),+ $(,)?) => {
        mod one_node {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $scenario() {
                    super::$scenario(crate::support::world::World::of_one()).await;
                }
            )+
        }

        mod two_nodes {
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $scenario() {
                    super::$scenario(crate::support::world::World::of_two()).await;
                }
            )+
        }
    };
}

pub(crate) use in_both_worlds;
