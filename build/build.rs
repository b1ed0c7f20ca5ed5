//! The build script of packages that make programs and generate nothing: lets them find libtorch
//! when they are built with it.

mod libtorch;

fn main() {
    // Said so that cargo does not look at every file of the package for changes.
    println!("cargo::rerun-if-changed=Cargo.toml");
    libtorch::link_programs();
}
