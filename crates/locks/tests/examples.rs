//! The examples do what they say.

#[path = "../examples/durable.rs"]
mod durable;
#[path = "../examples/exclusive.rs"]
mod exclusive;
#[path = "../examples/fenced_write.rs"]
mod fenced_write;
#[path = "../examples/many.rs"]
mod many;
#[path = "../examples/permits.rs"]
mod permits;
#[path = "../examples/read_write.rs"]
mod read_write;

#[test]
fn one_at_a_time() {
    exclusive::main();
}

#[test]
fn a_late_writer_is_fenced() {
    fenced_write::main();
}

#[test]
fn many_read_and_one_writes() {
    read_write::main();
}

#[test]
fn so_many_at_once() {
    permits::main();
}

#[test]
fn several_names_at_once() {
    many::main();
}

#[test]
fn a_lock_outlives_its_process() {
    durable::main();
}
