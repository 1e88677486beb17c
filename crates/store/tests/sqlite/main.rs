//! What only the embedded store must do: its file, its lock, its process.

mod closing;
#[cfg(target_os = "linux")]
mod disk;
#[cfg(unix)]
mod killed;
mod log;
#[cfg(unix)]
mod opening;
mod process;
mod tools;
