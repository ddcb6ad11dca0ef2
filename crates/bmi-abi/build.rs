//! Gives the library its own name: programs that were linked with it by its path would otherwise remember that path.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libbmi.so");
}
