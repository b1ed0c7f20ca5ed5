//! The build script of packages with programs and without generated code. Programs that are built
//! with libtorch find it by this script.

mod libtorch;

fn main() {
    // Without this line cargo looks for changes in every file of the package.
    println!("cargo::rerun-if-changed=Cargo.toml");
    libtorch::link_programs();
}
