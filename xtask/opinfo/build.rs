//! Programs that are built with libtorch find it.

fn main() {
    gt_build::main();
}
