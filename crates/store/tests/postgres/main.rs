//! What only the store in PostgreSQL must do: with real servers, which are killed, paused, replaced and cut off.

mod agreement;
mod defaults;
mod failover;
mod feed;
mod killed;
mod leases;
mod lives;
mod lockers;
mod opening;
mod pool;
mod pooler;
mod roles;
mod rows;
mod synced;
mod tls;
mod tools;
mod unknown;
mod upgrades;
mod writers;
