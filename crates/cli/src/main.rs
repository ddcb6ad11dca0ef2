//! The `barewire` command.
fn main() {}
